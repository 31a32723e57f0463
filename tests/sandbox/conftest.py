"""What every sandbox test needs: a sandbox, short ways to make a job, and the invariants.

After whatever a program did, four things hold: nothing of the job runs any more, no
child waits to be reaped, its scratch folder is gone, and the next honest job passes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec, Verdict

LIMITS = Limits(wall_s=5.0, cpu_s=1.0, memory_mb=256)

SORT_TESTS = (
    TestSpec("three", args=([3, 1, 2],), expected=[1, 2, 3]),
    TestSpec("equal", args=([2, 2],), expected=[2, 2]),
    TestSpec("below zero", args=([0, -5, 4],), expected=[-5, 0, 4]),
)
HONEST = Job(source="def f(x):\n    return sorted(x)\n", entry="f", tests=SORT_TESTS)


@pytest.fixture(scope="session")
def honest() -> Job:
    """A job that passes: `f` sorts a list, and three tests say so."""
    return HONEST


@pytest.fixture(scope="session")
def job_of() -> Callable[..., Job]:
    """Makes a job from a program; its `f` is to sort a list."""

    def make(source: str, limits: Limits | None = None, tests=SORT_TESTS) -> Job:
        return Job(source=source, entry="f", tests=tests, limits=limits)

    return make


def tagged(host: int, zygotes: bool = False) -> list[str]:
    """Every process that a host's jobs ever started, by the tag they cannot take off.

    Args:
        host: process id of the host.
        zygotes: list its zygotes too; a job's tag is even, that of a zygote is odd.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/limits") as file:
                line = next(line for line in file if line.startswith("Max file locks"))
            with open(f"/proc/{name}/cmdline") as file:
                command = file.read()
            with open(f"/proc/{name}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (OSError, StopIteration):
            continue  # ended meanwhile
        hard = line.split()[4]
        own = hard.isdigit() and int(hard) >> 32 == host and (zygotes or int(hard) % 2 == 0)
        if own and state not in "ZX":
            found.append(f"{name} {command[:60]!r}")
    return found


@pytest.fixture(scope="session", name="tagged")
def tagged_fixture() -> Callable[..., list[str]]:
    return tagged


@pytest.fixture(scope="session", name="assert_soon")
def assert_soon_fixture() -> Callable[..., None]:
    return assert_soon


#: Children that other tests left warm on purpose before the first test of a sandbox.
_before: set[str] = set()


@pytest.fixture(scope="session", autouse=True)
def children_of_others() -> None:
    """Remembers what was there before; only what a sandbox starts is its own."""
    if sys.platform.startswith("linux"):
        _before.update(_all_children())


def children(zygotes: set[str]) -> list[str]:
    """Ids of this process's new children, the dead ones that nobody reaped included."""
    return [child for child in _all_children() if child not in _before | zygotes]


def _all_children() -> list[str]:
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += file.read().split()
    return found


def assert_nothing_left(sandbox: Sandbox) -> None:
    """No process of a job, no unreaped child, no file in a scratch folder."""
    assert sandbox._state is not None
    backend = sandbox._state.backend
    if sys.platform.startswith("linux"):
        # A killed zygote takes its namespace with it a moment later.
        assert_soon(lambda: tagged(os.getpid()) == [])
        # Zygotes of other sandboxes may be about; each is the child of its own backend.
        assert [c for c in children(set(map(str, backend.pids()))) if not is_zygote(c)] == []
    assert_soon(lambda: scratch_files(backend) == [])


def is_zygote(pid: str) -> bool:
    """Whether a live process is a zygote, or keeps one."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"rlkit.sandbox.zygote" in file.read()
    except OSError:
        return False


def scratch_files(backend) -> list[str]:
    """What lies in the scratch folders of a backend's zygotes beside one empty folder each."""
    found = []
    for link in list(backend._links):
        top = link.folder
        if not top:
            # In a world of its own; root can look into it, by the process below its keeper.
            with open(f"/proc/{link.pid}/task/{link.pid}/children") as file:
                inner = file.read().split()
            top = f"/proc/{inner[0]}/root/box" if inner else ""
            if os.geteuid() != 0:
                continue
        for seat in ("one", "two"):
            for folder, folders, files in os.walk(f"{top}/{seat}"):
                inside = [name for name in folders if folder != f"{top}/{seat}" or name != "job"]
                found += [os.path.join(folder, name) for name in inside + files]
    return found


def assert_soon(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """The zygote tidies up right after it has answered."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS, workers=2) as shared:
        yield shared


@pytest.fixture(scope="session")
def nothing_left() -> Callable[[Sandbox], None]:
    return assert_nothing_left


@pytest.fixture
def check(sandbox: Sandbox) -> Callable[[Job], Verdict]:
    """Runs a job, asserts the invariants, and hands out its verdict."""

    def run(job: Job) -> Verdict:
        verdict = sandbox.run(job)
        assert_nothing_left(sandbox)
        honest = sandbox.run(HONEST)
        assert honest.status is Status.PASS, honest.summary
        return verdict

    return run


@pytest.fixture
def confined(sandbox: Sandbox) -> None:
    """For programs that must not be let loose on a machine whose kernel has no fences."""
    report = sandbox.report()
    if report.level < Level.CONFINED:
        pytest.skip(f"this machine offers only {report.level.name}: {report.sentence}")
