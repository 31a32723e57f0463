"""The private world of a job: what it sees of files, processes, network and users."""

from __future__ import annotations

import os
import sys

import pytest

from rlkit.sandbox import Job, Limits, TestSpec
from rlkit.sandbox.backends.base import Command
from rlkit.sandbox.backends.local import LocalBackend
from rlkit.sandbox.codec import decode
from rlkit.sandbox.judge import prepare
from rlkit.sandbox.zygote import namespaces

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

LIMITS = Limits(wall_s=10.0)
FREE = Limits(wall_s=10.0, processes=16)


@pytest.fixture(scope="module")
def backend():
    made = LocalBackend(workers=1)
    if not made.isolation["private"]:
        reason = made.isolation["refused"]
        made.close()
        pytest.skip(f"this machine has no namespaces for us: {reason}")
    yield made
    made.close()


def value(backend, source: str, limits: Limits = LIMITS):
    job = Job(source=source, entry="f", tests=[TestSpec("t")])
    outcome = backend.call(prepare(job, limits), limits, lambda: False)
    assert outcome.messages[0][0] == "value", outcome
    return decode(outcome.messages[0][2])


def said(backend, script: str, limits: Limits = FREE) -> list[str]:
    command = Command(("/bin/sh", "-c", script))
    return backend.execute(command, limits, lambda: False).stdout.decode().splitlines()


def test_every_namespace_is_new(backend):
    names = said(backend, "for n in mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done")
    assert len(names) == 6
    kinds = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
    for kind, name in zip(kinds, names, strict=True):
        assert name.startswith(f"{kind}:[")
        assert name != os.readlink(f"/proc/self/ns/{kind}")


def test_nothing_of_the_hosts_files_is_there(backend, tmp_path):
    (tmp_path / "secret").write_text("secret")
    paths = [str(tmp_path / "secret"), "/etc/passwd", "/etc/hostname", "/home", "/sys", "/boot"]
    paths += [os.path.expanduser("~/.bashrc"), "/proc/self", "/old", "/var/run/docker.sock"]
    source = f"import os\ndef f(): return [p for p in {paths!r} if os.path.lexists(p)]"
    assert value(backend, source) == []


def test_what_is_there_cannot_be_changed(backend):
    source = f"""
import json, os
def f():
    done = []
    for path in (json.__file__, "/usr/lib/new", "/new", "/dev/new", "/box/new", {namespaces.BOX!r}):
        for attempt in (lambda: open(path, "ab").close(), lambda: os.mkdir(path + "d"),
                        lambda: os.unlink(path), lambda: os.rename(path, "mine")):
            try: attempt(); done.append(path)
            except OSError: pass
    return done
"""
    assert value(backend, source) == []


def test_other_programs_get_a_world_that_works(backend):
    lines = said(
        backend,
        "echo a > /tmp/a; cat /tmp/a; echo b > /dev/shm/b; cat /dev/shm/b; chmod 755 /tmp/a;"
        "echo c > /dev/null; cat /etc/passwd | wc -l; ls /proc | grep -c '^[0-9]'; "
        "ls /proc/sys 2>&1 | head -1; cat < /dev/stdin | wc -c",
    )
    assert lines[:3] == ["a", "b", "1"]
    assert int(lines[3]) <= 5  # its own processes and the zygote
    assert "/proc/sys" in lines[4]  # not there, or not to be read
    assert lines[5] == "0"


def test_what_a_job_leaves_in_shared_places_is_gone(backend):
    said(
        backend, "echo x > /tmp/left; mkdir -p /dev/shm/d/e; echo y > ../beside; chmod 0 /dev/shm/d"
    )
    assert said(backend, "ls -A /tmp /dev/shm .. ; pwd | grep -c job") == [
        "..:", "job", "", "/dev/shm:", "", "/tmp:", "1",
    ]  # fmt: skip


def test_the_zygote_cannot_be_hurt_or_read(backend):
    source = """
import os, signal
def f():
    parent = os.getppid()
    done = []
    for attempt in (lambda: os.kill(parent, 9), lambda: os.kill(-1, 9), lambda: os.kill(1, 9),
                    lambda: os.killpg(1, 9), lambda: os.kill(0, 0)):
        try: attempt(); done.append(1)
        except OSError: pass
    return parent, done
"""
    assert value(backend, source) == (1, [])
    # A program with processes of its own may signal what it sees; process 1 is out of its reach.
    lines = said(backend, "kill -9 1; kill -9 -1; echo alive; cat /proc/1/environ | wc -c")
    assert lines[:1] in ([], ["alive"])
    assert value(backend, "def f(): return 1") == 1


def test_there_is_no_network_at_all(backend):
    lines = said(backend, "cat /proc/net/dev | tail -n +3 | cut -d: -f1", FREE)
    assert [line.strip() for line in lines] in (["lo"], [])
    limits = Limits(wall_s=10.0, network=True)
    source = "import socket\ndef f():\n    s = socket.socket(); s.bind(('127.0.0.1', 0))\n"
    source += "    return s.getsockname()[0]"
    assert value(backend, source, limits) == "127.0.0.1"


def test_a_job_has_no_privileges_inside_either(backend):
    text = "\n".join(said(backend, "grep -E 'Cap|NoNewPrivs|Uid' /proc/self/status"))
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000" in text
    assert "NoNewPrivs:\t1" in text
    if os.geteuid() == 0:  # and not even the number of the one who may do everything
        assert "Uid:\t0" not in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root leaves a user id behind")
def test_roots_zygote_is_nobody_on_the_host(backend):
    (link,) = [link for link in backend._links if not link.programs][:1]
    with open(f"/proc/{link.pid}/task/{link.pid}/children") as file:
        inner = file.read().split()[0]
    with open(f"/proc/{inner}/status") as file:
        uids = next(line.split()[1:] for line in file if line.startswith("Uid:"))
    assert {int(uid) for uid in uids} == {namespaces.FIRST_UID + link.pid}


def test_the_scratch_folder_is_a_file_system_of_limited_size(backend):
    source = """
import os
def f():
    written = 0
    try:
        for n in range(1000):
            with open(f"f{n}", "wb") as file:
                written += file.write(b"x" * (1 << 20))
    except OSError as error:
        return error.errno, written >> 20
"""
    limits = Limits(wall_s=20.0, scratch_mb=20, files_mb=16)
    job = Job(source=source, entry="f", tests=[TestSpec("t")])
    outcome = backend.call(prepare(job, limits), limits, lambda: False)
    assert outcome.ended == "disk"
    if outcome.messages:  # it was quicker than the look at it: 2^5 > 20 is all there is
        assert decode(outcome.messages[0][2]) == (28, 31) or outcome.messages[0][0] == "value"
    assert value(backend, "import os\ndef f(): return os.listdir('.')", limits) == []


def test_a_library_below_a_folder_that_nobody_may_enter_is_shown(backend):
    """The interpreter may lie in a home folder; what is bound needs no way to it."""
    source = "import decimal, sqlite3, xml.dom.minidom\ndef f(): return str(decimal.Decimal('0.1'))"
    assert value(backend, source) == "0.1"
