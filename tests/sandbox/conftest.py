"""What every sandbox test needs: a sandbox, short ways to make a job, and the invariants.

After whatever a program did, four things hold: nothing of the job runs any more, no
child waits to be reaped, its scratch folder is gone, and the next honest job passes.
"""

from __future__ import annotations

import os
import sys
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


def processes_of_jobs() -> list[str]:
    """Every process that this process's jobs ever started, by the tag they cannot take off."""
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
        if hard.isdigit() and int(hard) >> 32 == os.getpid() and state not in "ZX":
            found.append(f"{name} {command!r}")
    return found


#: Children that other tests left warm on purpose before the first test of a sandbox.
_before: set[str] = set()


@pytest.fixture(scope="session", autouse=True)
def children_of_others() -> None:
    """Remembers what was there before; only what a sandbox starts is its own."""
    if sys.platform.startswith("linux"):
        _before.update(_all_children())


def children() -> list[str]:
    """Ids of this process's new children, the dead ones that nobody reaped included."""
    return [child for child in _all_children() if child not in _before]


def _all_children() -> list[str]:
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += file.read().split()
    return found


def assert_nothing_left(sandbox: Sandbox) -> None:
    """No process of a job, no unreaped child, no scratch folder."""
    if sys.platform.startswith("linux"):
        assert processes_of_jobs() == []
        assert children() == []
    assert sandbox._state is not None
    assert os.listdir(sandbox._state.folder) == ["child"]


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
