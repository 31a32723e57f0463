"""Every rung of the ladder, forced: what is in force there, what it stops, what it does not."""

from __future__ import annotations

import os
import sys

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, TestSpec
from rlkit.sandbox.backends import ladder
from rlkit.sandbox.backends.base import Command
from rlkit.sandbox.backends.local import LocalBackend
from rlkit.sandbox.codec import decode
from rlkit.sandbox.judge import prepare

ROOT = os.geteuid() == 0
LIMITS = Limits(wall_s=10.0)

#: What is hidden; whether namespaces, Landlock, the filter and a user of its own are left.
RUNGS = {
    "": (True, 99, True, ROOT),
    "landlock": (True, 0, True, ROOT),
    "seccomp": (True, 99, False, ROOT),
    "userns:only": (ROOT, 99, True, ROOT),
    "uid": (True, 99, True, False),
    "userns": (False, 99, True, ROOT),
    "docker": (False, 99, True, ROOT),
    "userns,landlock:6": (False, 6, True, ROOT),
    "userns,landlock:4": (False, 4, True, ROOT),
    "userns,landlock:2": (False, 2, True, ROOT),
    "userns,landlock:1": (False, 1, True, ROOT),
    "userns,uid": (False, 99, True, False),
    "userns,landlock": (False, 0, True, ROOT),
    "userns,landlock,uid": (False, 0, True, False),
    "userns,seccomp": (False, 99, False, ROOT),
    "userns,landlock,seccomp": (False, 0, False, ROOT),
    "all": (False, 0, False, False),
}


@pytest.fixture(scope="module")
def best():
    """What this machine has when nothing is hidden."""
    backend = LocalBackend(workers=1)
    about = backend.isolation
    backend.close()
    return about


@pytest.fixture(params=RUNGS)
def rung(request, monkeypatch):
    monkeypatch.setenv(ladder.VARIABLE, request.param)
    backend = LocalBackend(workers=1)
    backend.hidden = request.param
    yield backend
    backend.close()


def values(backend, source: str, *args):
    tests = [TestSpec(str(n), args=a) for n, a in enumerate(args or ((),))]
    outcome = backend.call(prepare(Job(source=source, entry="f", tests=tests), LIMITS), LIMITS,
                           lambda: False)  # fmt: skip
    return [decode(m[2]) if m[0] == "value" else m[3].split(":")[0] for m in outcome.messages[:-1]]


TRIES = """
import os
def f(what, path):
    try: exec(what, {"os": os, "path": path})
    except BaseException as error: return type(error).__name__
    return "worked"
"""

ATTEMPTS = {
    "read": "open(path + '/open').read()",
    "write": "open(path + '/open', 'ab').close()",
    "create": "open(path + '/new', 'xb').close()",
    "cut": "os.truncate(path + '/open', 0)",
    "cut by opening": "os.open(path + '/open', os.O_RDONLY | os.O_TRUNC)",
    "mode": "os.chmod(path + '/open', 0o600)",
    "look": "os.stat(path + '/open')",
    "read a secret": "open(path + '/secret').read()",
    "socket": "import socket; socket.socket()",
    "parent": "os.kill(os.getppid(), 0)",
    "limits of the parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CORE)",
    "process": "os.fork() or os._exit(0)",
}


@pytest.fixture
def outside(tmp_path):
    """A folder that every user may enter, with a file that every user may write."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for place in (folder, *folder.parents):
        if place.owner() == folder.owner() and str(place) not in ("/", "/tmp"):
            place.chmod(0o777 if place == folder else 0o755)
    (folder / "open").write_text("unchanged")
    (folder / "open").chmod(0o666)
    (folder / "secret").write_text("secret")
    (folder / "secret").chmod(0o600)
    yield folder
    for place in folder.parents:
        if str(place).startswith("/tmp/") and place.owner() == folder.owner():
            place.chmod(0o700)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fences of Linux")
def test_each_rung_is_what_it_says(rung, best, outside):
    namespaces, abi, filters, own_user = RUNGS[rung.hidden]
    about = rung.isolation
    assert about["hidden"] == rung.hidden
    assert about["private"] == (namespaces and best["private"])
    assert about["landlock"] == min(abi, best["landlock"])
    assert about["seccomp"] == (filters and best["seccomp"])
    assert about["own_user"] == own_user
    if ROOT and own_user:
        assert about["uid"] != 0
    if rung.hidden == "docker":
        assert "not permitted" in about["refused"]

    came = dict(zip(ATTEMPTS, values(rung, TRIES, *((a, str(outside)) for a in ATTEMPTS.values())),
                    strict=True))  # fmt: skip
    private, landlock = about["private"], about["landlock"]
    worked = {name for name, said in came.items() if said == "worked"}
    if private:
        assert not worked & {"read", "write", "create", "cut", "mode", "look", "read a secret"}
    if landlock:
        assert not worked & {"read", "write", "create", "read a secret"}
    if landlock >= 3 or about["seccomp"]:
        assert not worked & {"cut", "cut by opening"}
    if about["seccomp"]:
        assert not worked & {"mode", "socket", "limits of the parent", "process", "parent"}
    if own_user and not private:
        assert "read a secret" not in worked or landlock
    if not private and not landlock and filters and not own_user:
        # The lowest rung with a filter: it may read, and write nothing at all.
        assert {"read", "look"} <= worked
        assert not worked & {"write", "create", "cut", "cut by opening"}
        assert "no_writing" in about["fences"]
    if rung.hidden == "all":  # the attempts are attempts
        assert worked == set(ATTEMPTS)
    if private or landlock or about["seccomp"]:
        assert (outside / "open").read_text() == "unchanged"

    # Whatever is in force, honest programs run.
    assert values(rung, "import json, fractions\ndef f(x): return json.loads(x)", ("[1, 2]",)) == [
        [1, 2]
    ]
    outcome = rung.execute(
        Command(("/bin/sh", "-c", "cat"), stdin=b"hello"), Limits(processes=4), lambda: False
    )
    assert outcome.stdout == b"hello"


DAEMON = """
import os, time
def f():
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 300)
                time.sleep(300)
            os._exit(0)
    time.sleep(0.2)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_nothing_survives_on_any_rung(rung, tagged):
    limits = Limits(wall_s=10.0, processes=20)
    job = Job(source=DAEMON, entry="f", tests=[TestSpec("t")])
    outcome = rung.call(prepare(job, limits), limits, lambda: False)
    assert outcome.orphans >= 3
    if "all" not in rung.hidden:  # without limits there is no tag to look for
        assert tagged(os.getpid()) == []
    assert values(rung, "def f(): return 1") == [1]


def test_words_that_mean_nothing_are_refused():
    for words in ("magic", "landlock:x", "seccomp:2", "userns:never"):
        with pytest.raises(UserError, match="RLKIT_SANDBOX_HIDE"):
            ladder.allowed(environment={ladder.VARIABLE: words})


def test_layers_left_out_are_not_tried():
    allowed = ladder.allowed(layers=("seccomp",), environment={})
    assert (allowed.namespaces, allowed.landlock, allowed.seccomp) == (False, 0, True)


def test_hiding_only_weakens():
    everything = ladder.allowed(environment={})
    for words in RUNGS:
        less = ladder.allowed(environment={ladder.VARIABLE: words})
        assert less.hidden == words
        for name in ("namespaces", "userns", "seccomp", "uid", "limits", "landlock"):
            assert getattr(less, name) <= getattr(everything, name)
