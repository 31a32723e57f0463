"""Thousands of jobs, whatever they do, leave descriptors, memory, processes and files as they were.

Ten thousand jobs in a row are run by `rlkit bench sandbox`; here it is a few hundred of the
nasty kinds, which leak sooner.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

from rlkit.sandbox import Job, Limits, TestSpec
from rlkit.sandbox.backends.base import Command
from rlkit.sandbox.backends.local import LocalBackend
from rlkit.sandbox.judge import prepare

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

LIMITS = Limits(wall_s=5.0, memory_mb=128)

NASTY = [
    "def f(): return 1",
    "def f(): 1 / 0",
    "import os\nos._exit(3)",
    "import os\nos.kill(os.getpid(), 9)",
    "def f(: syntax",
    "import os\nos.closerange(0, 100)\ndef f(): return 1",
    "open('file', 'w').write('x' * 100000)\ndef f(): return 1",
    "import os\nfor n in range(20): os.mkdir(f'd{n}'); os.chdir(f'd{n}')\ndef f(): return 1",
    "import os\nos.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')\ndef f(): return 1",
    "print('x' * 100000)\ndef f(): return 1",
    "def f(): return 'x' * 500000",
    "import os\nfor _ in range(40):\n    try: os.dup(0)\n    except OSError: break\ndef f(): pass",
    "x = bytearray(1 << 30)\ndef f(): return 1",
]


def state(backend) -> dict[str, object]:
    """All that could grow: here, and in every zygote."""
    inner = {}
    for link in backend._links:
        with open(f"/proc/{link.pid}/task/{link.pid}/children") as file:
            below = file.read().split()
        pid = int(below[0]) if not link.folder and below else link.pid
        with open(f"/proc/{pid}/statm") as file:
            resident = int(file.read().split()[1])
        # The process that stands ready for the next job is the only child there may be.
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = len(file.read().split())
        inner[link.pid] = (len(os.listdir(f"/proc/{pid}/fd")), children, resident)
    return {"descriptors": len(os.listdir("/proc/self/fd")), "zygotes": inner}


def at_rest(backend, waiting: int = 1, seconds: float = 20.0) -> dict[str, object]:
    """The state once every zygote has tidied up: `waiting` processes stand ready, nothing moves.

    Right after an answer a zygote may still hold the pipes of the job that ended, so a first
    look would be a number that never comes back.
    """
    deadline = time.monotonic() + seconds
    seen, since = None, 0.0
    while True:
        now = state(backend)
        counts = {pid: values[:2] for pid, values in now["zygotes"].items()}
        if counts != seen:
            seen, since = counts, time.monotonic()
        quiet = all(children == waiting for _, children in counts.values())
        if quiet and time.monotonic() - since > 0.1:
            return now
        assert time.monotonic() < deadline, f"no rest within {seconds:g} s: {counts}"
        time.sleep(0.01)


def work(backend, rounds: int) -> None:
    for n in range(rounds):
        for source in NASTY:
            job = Job(source=f"{source}\n# {n}", entry="f", tests=[TestSpec("t")])
            backend.call(prepare(job, LIMITS), LIMITS, lambda: False)


@pytest.mark.parametrize("hidden", ["", "userns"])
def test_nasty_jobs_leak_nothing(monkeypatch, hidden):
    monkeypatch.setenv("RLKIT_SANDBOX_HIDE", hidden)
    backend = LocalBackend(workers=1)
    try:
        work(backend, 3)
        before = at_rest(backend)
        work(backend, 15)
        after = at_rest(backend)
        assert before["descriptors"] == after["descriptors"]
        assert before["zygotes"].keys() == after["zygotes"].keys()
        for pid, (descriptors, children, resident) in before["zygotes"].items():
            assert after["zygotes"][pid][:2] == (descriptors, children)
            # Pages; a single leaked frame of each job would be far more than these 2 MiB.
            assert after["zygotes"][pid][2] - resident < 512
    finally:
        backend.close()


def test_commands_leak_nothing():
    backend = LocalBackend(workers=1)
    limits = Limits(processes=8)
    script = "sleep 100 & mkdir -p a/b; echo x > a/b/c; echo y > /tmp/y; cat > copy"
    command = Command(("/bin/sh", "-c", script), stdin=b"z" * 100_000, keep=("copy",))
    try:
        for _ in range(5):
            backend.execute(command, limits, lambda: False)
        before = at_rest(backend, waiting=0)
        for _ in range(60):
            outcome = backend.execute(command, limits, lambda: False)
            assert outcome.files["copy"] == b"z" * 100_000
        after = at_rest(backend, waiting=0)
        assert after["descriptors"] == before["descriptors"]
        ((pid, (descriptors, _, resident)),) = before["zygotes"].items()
        assert after["zygotes"][pid][0] == descriptors
        assert after["zygotes"][pid][2] - resident < 512
    finally:
        backend.close()


def test_zygotes_that_come_and_go_leak_nothing():
    def once() -> None:
        backend = LocalBackend(workers=1)
        job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t")])
        backend.call(prepare(job, LIMITS), LIMITS, lambda: False)
        backend.close()

    once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        once()
    assert len(os.listdir("/proc/self/fd")) == before
