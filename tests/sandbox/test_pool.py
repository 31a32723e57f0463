"""Many jobs at a time: order, equal jobs, threads, event loops, interruption, leaks."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, Sandbox, Status, TestSpec


def add(n: int, **options) -> Job:
    test = TestSpec("t", args=(1,), expected=n + 1)
    return Job(source=f"def f(x): return x + {n}", entry="f", tests=[test], **options)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


def test_the_order_is_kept(sandbox):
    jobs = [
        Job(
            source=f"import time\ntime.sleep({0.1 if n < 2 else 0})\ndef f(): return {n}",
            entry="f",
            tests=[TestSpec("t", expected=-1)],
        )
        for n in range(12)
    ]
    assert [v.tests[0].got_repr for v in sandbox.run_many(jobs)] == [str(n) for n in range(12)]
    assert sandbox.run_many([]) == []


def test_equal_jobs_run_once(sandbox, tmp_path):
    jobs = [add(1), add(2), add(1), add(1, limits=sandbox.limits), add(1, seed=7)]
    verdicts = sandbox.run_many(jobs)
    assert [v.cached for v in verdicts] == [False, False, True, True, False]
    assert all(v.reward == 1.0 for v in verdicts)
    assert verdicts[2].cpu_s == verdicts[0].cpu_s  # the very same run
    assert not any(v.cached for v in sandbox.run_many(jobs[:2]))  # a batch has no memory


def test_two_hundred_jobs_leave_nothing(sandbox, nothing_left):
    sandbox.run_many([add(n) for n in range(4)])
    before = (descriptors(), threading.active_count())
    verdicts = sandbox.run_many([add(n) for n in range(200)])
    assert all(v.status is Status.PASS for v in verdicts)
    assert (descriptors(), threading.active_count()) == before
    nothing_left(sandbox)


def test_five_that_time_out_leave_no_zombie(nothing_left):
    jobs = [
        Job(source=f"while True: {n}", entry="f", tests=[TestSpec("t")], limits=Limits(wall_s=0.3))
        for n in range(5)
    ]
    with Sandbox(workers=5) as sandbox:
        verdicts = sandbox.run_many(jobs)
        nothing_left(sandbox)
    assert [v.status for v in verdicts] == [Status.TIMEOUT] * 5
    assert [v.reward for v in verdicts] == [0.0] * 5


def test_many_threads_share_one_sandbox(sandbox, nothing_left):
    wrong = []

    def work(start: int) -> None:
        for n in range(start, start + 5):
            if sandbox.run(add(n)).reward != 1.0:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    nothing_left(sandbox)


def test_inside_a_running_event_loop(sandbox):
    async def main():
        here = sandbox.run(add(1))
        there = await asyncio.gather(*(asyncio.to_thread(sandbox.run, add(n)) for n in range(4)))
        return [here, *there]

    assert [v.reward for v in asyncio.run(main())] == [1.0] * 5


def test_a_closed_sandbox_says_so():
    sandbox = Sandbox(workers=1)
    sandbox.run(add(1))
    zygotes = sandbox._state.backend.pids()
    assert zygotes
    sandbox.close()
    sandbox.close()
    for zygote in zygotes:
        with pytest.raises(ProcessLookupError):
            os.kill(zygote, 0)
    for use in (lambda: sandbox.run(add(1)), lambda: sandbox.run_many([add(1)]), sandbox.report):
        with pytest.raises(UserError, match="closed"):
            use()


def test_closing_stops_what_runs(tagged, assert_soon):
    sleeper = Job(
        source="import time\ntime.sleep(300)",
        entry="f",
        tests=[TestSpec("t")],
        limits=Limits(wall_s=300.0),
    )
    sandbox = Sandbox(workers=1)
    outcome = []

    def work() -> None:
        try:
            outcome.extend(sandbox.run_many([sleeper, add(1)]))
        except UserError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert_soon(lambda: tagged(os.getpid()) != [])
    sandbox.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(outcome) == 1 and "closed" in str(outcome[0])


def test_ctrl_c_stops_what_runs_and_the_sandbox_stays_usable(sandbox, nothing_left):
    sleepers = [
        Job(
            source=f"import time\ntime.sleep({300 + n})",
            entry="f",
            tests=[TestSpec("t")],
            limits=Limits(wall_s=300.0),
        )
        for n in range(6)
    ]
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run_many(sleepers)
    nothing_left(sandbox)
    assert sandbox.run(add(1)).reward == 1.0


def test_settings_travel_and_nothing_else():
    settings = {"layers": ("seccomp",), "allow_unsafe": True}
    with Sandbox(Limits(wall_s=1.5), workers=3, **settings) as sandbox:
        sandbox.run(add(1))
        for twin in (pickle.loads(pickle.dumps(sandbox)), copy.deepcopy(sandbox)):
            with twin:
                assert (twin.limits, twin.workers) == (Limits(wall_s=1.5), 3)
                assert twin.layers == ("seccomp",)
                assert twin._state is None
                assert twin.run(add(2)).reward == 1.0


def test_a_forked_copy_has_zygotes_of_its_own(sandbox, assert_soon):
    """A data loader may fork this process; what it does must not disturb the original."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    sandbox.run(add(1))
    code = """
import os, sys
from rlkit.sandbox import *
job = Job(source="def f(x): return x + 1", entry="f", tests=[TestSpec("t", args=(1,), expected=2)])
sandbox = Sandbox(workers=1)
assert sandbox.run(job).reward == 1.0
child = os.fork()
if child == 0:
    assert sandbox.run(job).reward == 1.0
    sandbox.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert sandbox.run(job).reward == 1.0
print(*sandbox._state.backend.pids())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # Nobody closed that one: its zygotes went away with their host.
    zygotes = done.stdout.split()
    assert zygotes
    assert_soon(lambda: not any(os.path.exists(f"/proc/{zygote}") for zygote in zygotes))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"workers": 0}, "workers=0"),
        ({"limits": 3}, "limits must be Limits"),
        ({"layers": ("magic",)}, "unknown layers"),
    ],
)
def test_settings_that_make_no_sense(settings, says):
    with pytest.raises(UserError, match=says):
        Sandbox(**settings)


def test_something_else_than_a_job(sandbox):
    with pytest.raises(UserError, match="runs Job"):
        sandbox.run("print(1)")


def test_windows_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr("rlkit.sandbox.sandbox.os.name", "nt")
    with pytest.raises(UserError, match="WSL"):
        Sandbox()


def test_the_package_is_light():
    code = (
        "import sys, rlkit.sandbox\n"
        "rlkit.sandbox.Sandbox, rlkit.sandbox.Job\n"
        "heavy = {'torch', 'transformers', 'numpy', 'ctypes', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
