"""The front of the sandbox: threads, event loops, refusal, faults and retries, closing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import (
    IsolationReport,
    Job,
    Level,
    Limits,
    Property,
    Sandbox,
    SandboxUnavailable,
    Status,
    TestSpec,
    engine,
)
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.scheduler import Stopped

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
SOON = 60.0


def add(n: int, **options) -> Job:
    test = TestSpec("t", args=(1,), expected=n + 1)
    return Job(source=f"def f(x): return x + {n}", entry="f", tests=[test], **options)


def sleeper(seconds: float, mark: object = 0) -> Job:
    return Job(
        source=f"import time\ndef f():\n    time.sleep({seconds})\n    return {mark!r}",
        entry="f",
        tests=[TestSpec("t", expected=mark)],
        limits=Limits(wall_s=seconds + 20.0),
    )


class Wrapped:
    """The real backend with something done to its calls."""

    def __init__(self, inner, around) -> None:
        self.inner, self.around, self.calls = inner, around, 0
        self.name = inner.name
        self._lock = threading.Lock()

    def call(self, call, limits, cancelled):
        with self._lock:
            self.calls += 1
            number = self.calls
        return self.around(number, lambda: self.inner.call(call, limits, cancelled))

    def execute(self, command, limits, cancelled):
        return self.inner.execute(command, limits, cancelled)

    def report(self):
        return self.inner.report()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def wrapped(sandbox):
    """Makes a backend that does something around each call of the shared sandbox's own."""
    sandbox.run(add(0))
    return lambda around: Wrapped(sandbox._state.backend, around)


# -- one job and its verdict -----------------------------------------------------------------


def test_a_verdict_says_how_long_it_waited_and_who_it_is(sandbox):
    verdicts = sandbox.run_many([add(n) for n in range(6)])
    assert len({v.request_id for v in verdicts}) == 6
    assert all(v.request_id.startswith(f"{os.getpid():x}-") for v in verdicts)
    assert all(0.0 <= v.queue_s < SOON for v in verdicts)
    with Sandbox(workers=1) as one:
        held = one.run_many([sleeper(0.3), add(1)])
    assert held[1].queue_s >= 0.3
    assert all(v.backend == "local" for v in verdicts)


def test_hidden_tests_tell_only_how_they_ended(sandbox):
    tests = [
        TestSpec("shown", args=(1,), expected=5),
        TestSpec("kept", args=(41,), expected=43, hidden=True),
    ]
    verdict = sandbox.run(Job(source="def f(x): return x + 1", entry="f", tests=tests))
    shown, kept = verdict.tests
    assert shown.message == "f(1) returned 2, expected 5"
    assert (kept.status, kept.got_repr, kept.expected_repr) == (Status.FAIL, None, None)
    assert "4" not in kept.message
    assert kept.message == "a hidden test ended in FAIL"


def test_only_the_drawn_tests_run(sandbox):
    tests = [TestSpec(f"t{n}", args=(n,), expected=n, hidden=n > 0) for n in range(9)]
    job = Job(source="def f(x): return x", entry="f", tests=tests, draw=3, seed=1)
    verdict = sandbox.run(job)
    assert [t.name for t in verdict.tests] == [t.name for t in job.drawn().tests]
    assert (verdict.total, verdict.reward) == (4, 1.0)


def test_what_looks_like_cheating_is_noted_and_decides_nothing(sandbox):
    job = replace(add(1), source="import os, gc\ndef f(x): gc.get_objects() and 1; return x + 1")
    verdict = sandbox.run(job)
    assert verdict.reward == 1.0
    assert verdict.suspicion == ("get_objects looks through all objects of the process (line 2)",)


def test_a_users_own_checker_decides(sandbox):
    job = Job(
        source="def f(x): return [x, -x]",
        entry="f",
        tests=[TestSpec("t", args=(2,), expected=4, checker=_a_root)],
    )
    assert sandbox.run(job).reward == 1.0
    wrong = sandbox.run(replace(job, source="def f(x): return [5]"))
    assert (wrong.status, wrong.reward) == (Status.FAIL, 0.0)
    assert wrong.tests[0].message == "f(2) returned [5]: 5 is no root of 4"
    broken = sandbox.run(replace(job, source="def f(x): return 5"))
    assert (broken.status, broken.reward) == (Status.SANDBOX_ERROR, None)
    assert "_a_root raised TypeError" in broken.message


def _a_root(expected: object, got: object) -> bool | str:
    wrong = [x for x in got if x * x != expected]
    return f"{wrong[0]} is no root of {expected}" if wrong else True


def test_the_line_in_a_runs_record(sandbox):
    line = sandbox.record()
    assert line["backend"] == "local"
    assert line["level"] == sandbox.report().level.name
    assert line["sentence"] == sandbox.report().sentence


def test_nothing_of_a_job_waits_for_the_garbage_collector(sandbox):
    """A cycle for each job would grow by megabytes between two rounds of the collector."""
    gc.disable()
    try:
        verdicts = sandbox.run_many([add(n) for n in (5, 6, 5)])
        gone = [weakref.ref(v) for v in verdicts]
        del verdicts
        wait_until(lambda: all(ref() is None for ref in gone), 10.0)
    finally:
        gc.enable()


# -- event loops and threads -----------------------------------------------------------------


def test_arun_runs_side_by_side_and_the_loop_goes_on(nothing_left):
    async def main(sandbox):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        started = time.monotonic()
        verdicts = await asyncio.gather(*(sandbox.arun(sleeper(0.5, n)) for n in range(4)))
        took = time.monotonic() - started
        ticking.cancel()
        return verdicts, took, ticks

    with Sandbox(workers=4) as sandbox:
        verdicts, took, ticks = asyncio.run(main(sandbox))
        nothing_left(sandbox)
    assert [v.reward for v in verdicts] == [1.0] * 4
    assert took < 4 * 0.5 + 1.0  # one after another would take 2 s and four starts
    assert ticks > 20


def test_the_first_arun_opens_the_sandbox_without_blocking():
    async def main():
        with Sandbox(workers=1) as sandbox:
            return await sandbox.arun(add(1)), await sandbox.arun(add(1))

    assert [v.reward for v in asyncio.run(main())] == [1.0, 1.0]


def test_cancelling_a_task_kills_its_job(sandbox, nothing_left):
    async def main():
        task = asyncio.ensure_future(sandbox.arun(sleeper(300)))
        while sandbox.stats()["running"] == 0:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(sandbox.arun(sleeper(300, 1)), 0.3)

    asyncio.run(main())
    wait_until(lambda: sandbox.stats()["running"] == 0)
    nothing_left(sandbox)
    assert sandbox.run(add(1)).reward == 1.0


def test_arun_waits_for_room_without_blocking_the_loop():
    async def main():
        with Sandbox(workers=1, queue=2) as sandbox:
            jobs = [sandbox.arun(add(n)) for n in range(20)]
            return await asyncio.gather(*jobs)

    assert [v.reward for v in asyncio.run(main())] == [1.0] * 20


def test_arun_on_a_closed_sandbox_says_so(sandbox):
    async def main():
        closing = Sandbox(workers=1)
        task = asyncio.ensure_future(closing.arun(sleeper(300)))
        while closing.stats()["running"] == 0:
            await asyncio.sleep(0.005)
        await asyncio.to_thread(closing.close)
        with pytest.raises(UserError, match="closed while"):
            await task
        with pytest.raises(UserError, match="closed"):
            await closing.arun(add(1))

    asyncio.run(main())


def test_amap_keeps_the_order(sandbox):
    async def main():
        jobs = (sleeper(0.02 if n % 3 else 0.1, n) for n in range(9))
        return [v.tests[0].got_repr async for v in sandbox.amap(jobs)]

    assert asyncio.run(main()) == [str(n) for n in range(9)]


def test_an_amap_that_is_given_up_stops_what_runs(sandbox, nothing_left):
    async def main():
        verdicts = sandbox.amap((sleeper(300 if n else 0, n) for n in range(8)), look_ahead=4)
        async for verdict in verdicts:
            assert verdict.reward == 1.0
            break
        await verdicts.aclose()

    asyncio.run(main())
    wait_until(lambda: sandbox.stats()["running"] == 0)
    nothing_left(sandbox)


def test_two_event_loops_and_a_thread_share_one_sandbox(sandbox):
    rewards = []

    def loop(start: int) -> None:
        async def main():
            return await asyncio.gather(*(sandbox.arun(add(start + n)) for n in range(8)))

        rewards.extend(v.reward for v in asyncio.run(main()))

    threads = [threading.Thread(target=loop, args=(100 * k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert rewards == [1.0] * 24


def test_equal_jobs_of_two_callers_run_once():
    with Sandbox(workers=2) as sandbox:
        sandbox.run(add(1))
        before = sandbox.stats()["ran"]
        verdicts = []
        threads = [
            threading.Thread(target=lambda: verdicts.append(sandbox.run(sleeper(0.5))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
        stats = sandbox.stats()
    assert [v.reward for v in verdicts] == [1.0] * 4
    assert sorted(v.cached for v in verdicts) == [False, True, True, True]
    assert (stats["ran"] - before, stats["shared"]) == (1, 3)


def test_one_job_beside_a_batch_does_not_wait_for_the_batch():
    with Sandbox(workers=1) as sandbox:
        sandbox.run(add(1))
        done = []

        def batch() -> None:
            sandbox.run_many([sleeper(0.03, n) for n in range(34)])
            done.append("batch")

        thread = threading.Thread(target=batch)
        thread.start()
        wait_until(lambda: sandbox.stats()["waiting"] > 30)
        assert sandbox.run(add(2)).reward == 1.0
        assert done == []
        thread.join(SOON)
    assert done == ["batch"]


# -- map -------------------------------------------------------------------------------------


def test_map_takes_only_a_little_ahead(sandbox):
    taken = []

    def endless():
        n = 0
        while True:
            taken.append(n)
            yield add(n)
            n += 1

    verdicts = sandbox.map(endless(), look_ahead=5)
    assert taken == []
    for wanted in range(10):
        assert next(verdicts).tests[0].got_repr == str(wanted + 1)
        assert len(taken) <= wanted + 5
    verdicts.close()


def test_map_hands_out_what_is_ready_before_the_next_job_is_made():
    with Sandbox(workers=1) as sandbox:
        sandbox.run(add(0))
        handed = []

        def slowly():
            for n in range(4):
                yield add(n)
                wait_until(lambda: not sandbox.stats()["running"] + sandbox.stats()["waiting"])
                handed.append(len(got))

        got = []
        for verdict in sandbox.map(slowly(), look_ahead=100):
            got.append(verdict)
    # One that is ready is handed out before the next is asked for, although 100 would be allowed.
    assert handed == [0, 1, 2, 3]


def test_a_map_that_is_given_up_stops_what_runs(sandbox, nothing_left):
    verdicts = sandbox.map((sleeper(300 if n else 0, n) for n in range(8)), look_ahead=4)
    assert next(verdicts).reward == 1.0
    verdicts.close()
    assert sandbox.stats()["running"] == 0
    nothing_left(sandbox)


def test_a_mistake_among_the_jobs_of_a_map_stops_the_rest(sandbox, nothing_left):
    verdicts = sandbox.map(iter([sleeper(300), "no job"]), look_ahead=4)
    with pytest.raises(UserError, match="runs Job"):
        next(verdicts)
    nothing_left(sandbox)
    with pytest.raises(UserError, match="look_ahead"):
        sandbox.map([], look_ahead=0)


# -- refusal ---------------------------------------------------------------------------------


def test_below_the_level_nothing_runs_and_the_reason_and_the_ways_out_are_named():
    with Sandbox(workers=1, layers=()) as weak:
        level = weak.report().level
        for use in (
            lambda: weak.run(add(1)),
            lambda: weak.run_many([add(1)]),
            lambda: next(weak.map([add(1)])),
            lambda: asyncio.run(weak.arun(add(1))),
        ):
            with pytest.raises(SandboxUnavailable) as caught:
                use()
        assert weak.stats()["ran"] == 0
    assert level < Level.CONFINED
    text = str(caught.value)
    assert f"only level {level.name}" in text
    assert "CONFINED is asked for" in text
    assert (
        "landlock, namespaces, seccomp" in text
    )  # they were left out by hand, so that is the way out
    assert "allow_unsafe=True" in text
    assert caught.value.report.level is level
    assert isinstance(caught.value, UserError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_unsafe_is_typed_and_printed_in_every_verdict():
    with Sandbox(workers=1, layers=(), allow_unsafe=True) as weak:
        verdict = weak.run(add(1))
        assert weak.report().sentence.startswith("UNSAFE, allowed by allow_unsafe=True: ")
    assert verdict.reward == 1.0
    assert verdict.isolation.sentence.startswith("UNSAFE, allowed by allow_unsafe=True: ")
    with Sandbox(workers=1, allow_unsafe=True) as strong:
        verdict = strong.run(add(1))
    if verdict.isolation.level >= Level.CONFINED:
        assert verdict.isolation.sentence.endswith(
            "(allow_unsafe=True was given and was not needed)"
        )


def test_a_job_or_a_sandbox_may_ask_for_more(sandbox):
    more = Level.SEPARATE_KERNEL
    with pytest.raises(SandboxUnavailable, match="SEPARATE_KERNEL is asked for"):
        sandbox.run(add(1, min_isolation=more))
    with (
        Sandbox(workers=1, min_isolation=more) as strict,
        pytest.raises(SandboxUnavailable, match="SEPARATE_KERNEL is asked for"),
    ):
        strict.run(add(1))
    with (
        Sandbox(workers=1, layers=(), min_isolation=Level.NONE) as lax,
        pytest.raises(SandboxUnavailable, match="CONFINED"),  # the job still asks for it
    ):
        lax.run(add(1))
    with Sandbox(workers=1, layers=(), min_isolation=Level.NONE) as lax:
        assert lax.run(add(1, min_isolation=Level.NONE)).reward == 1.0


@pytest.mark.parametrize(
    ("platform", "backend", "says"),
    [
        ("linux", "local", "user namespaces"),
        ("darwin", "local", "macOS has limits on time, memory and files, but nothing that keeps"),
        ("freebsd", "local", "this system has limits"),
        ("linux", "docker", "choose another backend"),
    ],
)
def test_the_ways_out_are_those_of_the_system(platform, backend, says):
    from rlkit.sandbox.unavailable import refusal

    holds = Property("time", "enforced", "clock")
    open_file = Property("files_read", "absent", "this works: read file")
    report = IsolationReport(Level.LIMITS, "limits", (holds, open_file))
    text = str(refusal(report, Level.CONFINED, backend, (), platform))
    assert says in text
    assert "files_read: this works: read file" in text
    assert "serve" in text


def test_windows_has_no_local_backend_but_remote_ones(monkeypatch):
    with monkeypatch.context() as windows:
        windows.setattr("rlkit.sandbox.sandbox.os.name", "nt")
        with pytest.raises(SandboxUnavailable, match="WSL"):
            Sandbox()
        remote = Sandbox(backend="piston:http://127.0.0.1:2000", workers=1)
    assert remote.backend == "piston:http://127.0.0.1:2000"


# -- faults ----------------------------------------------------------------------------------


def test_a_fault_is_retried_once_and_forgotten(wrapped):
    def around(number, run):
        if number % 2:
            raise InfrastructureFault("the worker is gone")
        return run()

    backend = wrapped(around)
    with Sandbox(workers=2, backend=backend) as sandbox:
        verdicts = sandbox.run_many([add(n) for n in range(1)])
        assert sandbox.stats()["faults"] == sandbox.stats()["retried"] == 1
    assert [v.reward for v in verdicts] == [1.0]
    assert not hasattr(backend, "closed")  # it was given, so it is not ours to close


@pytest.mark.parametrize("error", [InfrastructureFault("cut off"), OSError(24, "Too many files")])
def test_a_second_fault_is_no_verdict(wrapped, error):
    def around(number, run):
        raise error

    backend = wrapped(around)
    with Sandbox(workers=1, backend=backend) as sandbox:
        verdict = sandbox.run(add(1))
        assert sandbox.stats()["faults"] == 2
    assert backend.calls == 2
    assert (verdict.status, verdict.reward) == (Status.SANDBOX_ERROR, None)
    assert verdict.tests[0].status is Status.SANDBOX_ERROR
    assert str(error) in verdict.message


def test_a_mistake_of_ours_is_not_dressed_up_as_a_fault(wrapped):
    def around(number, run):
        raise KeyError("a bug")

    with (
        Sandbox(workers=1, backend=wrapped(around)) as sandbox,
        pytest.raises(KeyError, match="a bug"),
    ):
        sandbox.run(add(1))


@LINUX
def test_killing_what_runs_the_job_costs_that_job_only(nothing_left):
    """Every process that the sandbox has is killed in the middle, and the loop goes on."""
    with Sandbox(workers=2) as sandbox:
        assert sandbox.run(add(1)).reward == 1.0
        verdicts = []
        thread = threading.Thread(
            target=lambda: verdicts.extend(sandbox.run_many([sleeper(2.0, n) for n in range(2)]))
        )
        thread.start()
        wait_until(lambda: sandbox.stats()["running"] == 2)
        time.sleep(0.3)
        for pid in descendants(sandbox._state.backend.pids()):
            with contextlib.suppress(ProcessLookupError):  # it died with the one above it
                os.kill(pid, signal.SIGKILL)
        thread.join(SOON)
        after = sandbox.run_many([add(n) for n in range(6)])
        nothing_left(sandbox)
    # A job whose own process was killed crashed; one whose worker was killed ran once more.
    assert all(v.status in (Status.PASS, Status.CRASH, Status.SANDBOX_ERROR) for v in verdicts)
    assert [v.reward for v in after] == [1.0] * 6


def test_a_full_scratch_is_the_jobs_own_fault_and_the_next_one_has_room(sandbox, nothing_left):
    source = """
def f():
    n = 0
    while True:
        with open(f"f{n}", "wb") as file:
            file.write(bytes(1 << 20))
        n += 1
"""
    limits = Limits(scratch_mb=8, wall_s=20.0, cpu_s=10.0)
    full = Job(source=source, entry="f", tests=[TestSpec("t")], limits=limits)
    verdict = sandbox.run(full)
    assert verdict.status in (Status.OUTPUT_LIMIT, Status.RUNTIME_ERROR)  # stopped, or ENOSPC
    nothing_left(sandbox)
    room = """
def f():
    with open("one", "wb") as file:
        return file.write(bytes(6 << 20))
"""
    fits = Job(source=room, entry="f", tests=[TestSpec("t", expected=6 << 20)], limits=limits)
    assert sandbox.run(fits).reward == 1.0


def test_exhausted_processes_are_the_jobs_own_fault(sandbox, nothing_left, confined):
    source = """
import os
def f():
    started = 0
    while True:
        try:
            if os.fork() == 0:
                import time
                time.sleep(300)
        except OSError:
            return started < 200
        started += 1
        if started > 200:
            return False
"""
    limits = Limits(processes=8, wall_s=20.0)
    job = Job(source=source, entry="f", tests=[TestSpec("t", expected=True)], limits=limits)
    if os.geteuid() == 0 and sandbox.report().level < Level.NAMESPACED:
        pytest.skip("the kernel counts no processes of root here")
    verdict = sandbox.run(job)
    assert verdict.status is not Status.SANDBOX_ERROR
    nothing_left(sandbox)
    assert sandbox.run(add(1)).reward == 1.0


# -- closing and travelling ------------------------------------------------------------------


def test_all_settings_travel(tmp_path):
    settings = {
        "limits": Limits(wall_s=1.5),
        "workers": 3,
        "layers": ("seccomp",),
        "min_isolation": Level.LIMITS,
        "allow_unsafe": True,
        "queue": 7,
        "recheck": 0.5,
        "seed": 9,
    }
    with Sandbox(cache=tmp_path / "c", **settings) as sandbox:
        twin = pickle.loads(pickle.dumps(sandbox))
    for name, value in settings.items():
        assert getattr(twin, name) == value
    assert twin.cache.path == str(tmp_path / "c")
    assert twin.backend == "local"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"backend": "magic"}, "backend 'magic' is none of local"),
        ({"queue": 0}, "queue=0"),
        ({"min_isolation": 17}, "no Level"),
        ({"recheck": 2.0, "cache": ":memory:"}, "recheck=2.0"),
    ],
)
def test_settings_that_make_no_sense(settings, says):
    with pytest.raises(UserError, match=says):
        Sandbox(**settings)


def test_a_sandbox_that_nobody_has_a_name_for_ends():
    sandbox = Sandbox(workers=2)
    sandbox.run_many([add(n) for n in range(4)])
    state = sandbox._state
    threads = list(state.scheduler._threads)
    zygotes = state.backend.pids()
    assert threads
    assert zygotes
    del sandbox
    gc.collect()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)
    assert not any(is_running(pid) for pid in zygotes)


def test_an_interpreter_that_ends_takes_its_sandbox_with_it():
    code = """
from rlkit.sandbox import *
job = Job(source="def f(x): return x + 1", entry="f", tests=[TestSpec("t", args=(1,), expected=2)])
sandbox = Sandbox(workers=2)
assert sandbox.run(job).reward == 1.0
print(*sandbox._state.backend.pids())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    zygotes = [int(word) for word in done.stdout.split()]
    assert zygotes
    wait_until(lambda: not any(is_running(pid) for pid in zygotes))


def test_closing_from_another_thread_lets_everybody_go(nothing_left):
    sandbox = Sandbox(workers=1, queue=2)
    sandbox.run(add(1))
    outcomes = []

    def work(n: int) -> None:
        try:
            sandbox.run_many([sleeper(300, (n, k)) for k in range(4)])
        except UserError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sandbox.stats()["running"] == 1 and sandbox.stats()["waiting"] == 2)
    sandbox.close()
    for thread in threads:
        thread.join(SOON)
    assert len(outcomes) == 3
    assert all("closed" in text for text in outcomes)


def test_a_cancelled_job_is_told_apart_from_a_failed_one(wrapped, monkeypatch):
    seen = []

    def spying(*arguments):
        try:
            return real(*arguments)
        except Stopped:
            seen.append("stopped")
            raise

    real = engine.run_job
    monkeypatch.setattr(engine, "run_job", spying)
    with Sandbox(workers=1) as sandbox:
        thread = threading.Timer(0.3, sandbox.close)
        thread.start()
        with pytest.raises(UserError, match="closed while"):
            sandbox.run(sleeper(300))
        thread.join()
        assert seen == ["stopped"]
        assert sandbox.stats()["faults"] == 0


def descendants(roots: list[int]) -> list[int]:
    """Processes, and all that they started."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, new = set(), set(roots)
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent in new}
    return sorted(found)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it has a user of its own
        return True
    return True


def wait_until(holds, seconds: float = SOON) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.002)
