"""Does the sandbox stay what it is? Many jobs in a row, and many beside a training thread.

`soak` runs jobs of all kinds, the ill-behaved among them, and looks at memory, descriptors,
processes and scratch folders of this process and all it started. `beside_training` scores
groups of completions while a thread multiplies matrices, as a loop does that generates and
trains at once: it must neither stop (a dead-lock) nor slow down out of proportion.

Left out on purpose: graphs over days. What leaks, leaks in ten thousand jobs.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, Sandbox, Status, TestSpec

#: What may grow from the first fifth of a soak to the last: MiB, descriptors, files.
ALLOWED = {"memory_mb": 8.0, "descriptors": 2, "processes": 1, "scratch": 0}

#: A worker tidies up right after its answer; so long it is given before it is looked at.
SETTLED_S = 0.1

#: A round of scoring that takes longer than this is stuck, in seconds.
STUCK_S = 120.0

_ADD = TestSpec("one", args=(1,), expected=2)
_QUICK = Limits(wall_s=0.3)

#: Kinds of jobs, how often each comes (every so many jobs), and how it is to end.
KINDS: dict[str, tuple[int, str, Limits | None, frozenset[Status]]] = {
    "endless": (499, "while True: pass", _QUICK, frozenset({Status.TIMEOUT})),
    "memory": (
        *(97, "def f(x): return len([bytearray(1 << 24) for _ in range(1 << 12)])", None),
        frozenset({Status.MEMORY_LIMIT}),
    ),
    "exit": (53, "import os\ndef f(x): os._exit(0)", None, frozenset({Status.NO_RESULT})),
    "crash": (
        *(59, "import os\ndef f(x): os.kill(os.getpid(), 11)", None),
        frozenset({Status.CRASH, Status.RUNTIME_ERROR}),
    ),
    "files": (
        41,
        "def f(x):\n    for n in range(50): open(f'f{n}', 'w').write('x' * 1000)\n    return 2",
        *(None, frozenset({Status.PASS})),
    ),
    "flood": (
        *(61, "def f(x):\n    while True: print('y' * 4096)", None),
        frozenset({Status.OUTPUT_LIMIT}),
    ),
    "wrong": (7, "def f(x): return x", None, frozenset({Status.FAIL})),
    "right": (1, "def f(x): return x + 1", None, frozenset({Status.PASS})),
}


def soak(
    jobs: int = 2000,
    workers: int = 2,
    samples: int = 20,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Jobs in a row, and what they left behind.

    Args:
        jobs: how many, 100 or more.
        workers: how many at a time.
        samples: how often memory, descriptors, processes and scratch are looked at.
        say: told how far it is.

    Raises:
        UserError: numbers that make no sense.
    """
    if jobs < 100 or samples < 5 or workers < 1:
        raise UserError("a soak needs 100 jobs, 5 samples and 1 worker, or more")
    ended: Counter[str] = Counter()
    wrong: list[str] = []
    seen: list[dict[str, float]] = []
    started = time.perf_counter()
    with Sandbox(workers=workers) as sandbox:
        sandbox.run_many([_job(n, "right") for n in range(4 * workers)])
        per_sample = jobs // samples
        for sample in range(samples):
            numbers = range(sample * per_sample, (sample + 1) * per_sample)
            kinds = [kind_of(n) for n in numbers]
            verdicts = sandbox.run_many([_job(n, k) for n, k in zip(numbers, kinds, strict=True)])
            for number, kind, verdict in zip(numbers, kinds, verdicts, strict=True):
                ended[verdict.status.value] += 1
                if verdict.status not in KINDS[kind][3]:
                    wrong.append(f"job {number} ({kind}): {verdict.summary}")
            seen.append(_look(sandbox))
            say(f"{(sample + 1) * per_sample:,} of {jobs:,} jobs, {seen[-1]}")
        faults = sandbox.stats()["faults"]
    seconds = time.perf_counter() - started
    growth = growth_of(seen)
    return {
        "jobs": per_sample * samples,
        "workers": workers,
        "seconds": round(seconds, 1),
        "jobs_per_s": round(per_sample * samples / seconds, 1),
        "statuses": dict(ended),
        "unexpected": wrong[:20],
        "faults": faults,
        "growth": growth,
        "flat": all(growth[name] <= most for name, most in ALLOWED.items()) and not wrong,
        "samples": seen,
    }


def kind_of(number: int) -> str:
    """What kind of job comes at a place in the row.

    >>> [kind_of(n) for n in (1, 7, 53)]
    ['right', 'wrong', 'exit']
    """
    return next(
        kind
        for kind, (every, *_) in KINDS.items()
        if every == 1 or (number and number % every == 0)
    )


def growth_of(seen: list[dict[str, float]]) -> dict[str, float]:
    """How much the median of the last fifth lies above that of the first.

    >>> growth_of([{"memory_mb": 1.0}] * 4 + [{"memory_mb": 3.0}])
    {'memory_mb': 2.0}
    """
    fifth = max(1, len(seen) // 5)
    return {
        name: round(
            statistics.median(s[name] for s in seen[-fifth:])
            - statistics.median(s[name] for s in seen[:fifth]),
            3,
        )
        for name in seen[0]
    }


def beside_training(
    rounds: int = 10,
    completions: int = 64,
    tests: int = 10,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Groups of completions scored while a thread trains, and what that costs each of them.

    Every other round is scored from inside a running event loop, as a notebook's cell is.

    Args:
        rounds: groups with, and as many without, the other at work.
        completions: of a group; all different.
        tests: of each.
        workers: jobs at a time; the processors when None.
        say: told how far it is.

    Raises:
        UserError: numbers that make no sense.
    """
    if min(rounds, completions, tests) < 1:
        raise UserError("rounds, completions and tests must be 1 or more")
    specs = [TestSpec(f"t{n}", args=(n,), expected=n + 1) for n in range(tests)]
    alone: list[float] = []
    beside: list[float] = []
    with Sandbox(workers=workers) as sandbox, _Training() as training:
        sandbox.run_many([_job(n, "right") for n in range(2 * sandbox.workers)])
        steps_alone: list[float] = []
        steps, training_s = 0, 0.0
        for number in range(rounds):
            if number % max(1, rounds // 10) == 0:
                steps_alone.append(training.steps_in(0.5))
            alone.append(_scored(sandbox, completions, specs, 2 * number))
            with training:
                training.until_a_step()
                before, started = training.steps, time.perf_counter()
                beside.append(_scored(sandbox, completions, specs, 2 * number + 1))
                steps += training.steps - before
                training_s += time.perf_counter() - started
            if number % 20 == 19:
                say(f"{number + 1} of {rounds} rounds")
        used = sandbox.workers
        faults = sandbox.stats()["faults"]
    scored = statistics.median(completions / s for s in alone)
    scored_beside = statistics.median(completions / s for s in beside)
    return {
        "rounds": rounds,
        "completions": completions,
        "tests": tests,
        "workers": used,
        "completions_per_s": round(scored, 1),
        "completions_per_s_beside_training": round(scored_beside, 1),
        "slowest_round_s": round(max(beside), 3),
        "training_steps_per_s": round(statistics.median(steps_alone), 1),
        "training_steps_per_s_beside_scoring": round(steps / training_s, 1),
        "faults": faults,
        "dead_locks": 0,  # a round that is stuck ends this with an error
    }


class Stuck(RuntimeError):
    """A round of scoring did not end."""


def _scored(sandbox: Sandbox, completions: int, specs: list[TestSpec], number: int) -> float:
    """Seconds to score one group; from inside an event loop every other time."""
    jobs = [
        Job(source=f"def f(x):\n    return x + 1\n# {number} {n}\n", entry="f", tests=specs)
        for n in range(completions)
    ]
    bell = threading.Timer(STUCK_S, sandbox.close)
    bell.daemon = True
    bell.start()

    async def cell() -> list[Any]:
        if number % 8 < 4:
            return sandbox.run_many(jobs)
        return await asyncio.gather(*(sandbox.arun(job) for job in jobs))

    started = time.perf_counter()
    try:
        verdicts = asyncio.run(cell()) if number % 4 < 2 else sandbox.run_many(jobs)
    except UserError as error:
        raise Stuck(f"round {number} did not end within {STUCK_S:g} s") from error
    finally:
        bell.cancel()
    seconds = time.perf_counter() - started
    wrong = [v.summary for v in verdicts if v.reward != 1.0]
    if wrong:
        raise RuntimeError(f"{len(wrong)} right programs failed, the first: {wrong[0]}")
    return seconds


class _Training:
    """A thread that fits a small network for as long as it is let to."""

    def __init__(self) -> None:
        self.steps = 0
        self._go, self._idle, self._end = threading.Event(), threading.Event(), False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> _Training:
        if self._thread is None:
            self._thread = threading.Thread(target=self._train, daemon=True)
            self._thread.start()
            self._depth = 0
        else:
            self._depth += 1
            self._go.set()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._depth:
            self._depth -= 1
            self._pause()
            return
        self._end = True
        self._go.set()
        self._thread.join()

    def steps_in(self, seconds: float) -> float:
        """Steps a second when nothing else runs."""
        with self:
            self.until_a_step()
            before, started = self.steps, time.perf_counter()
            time.sleep(seconds)
            return (self.steps - before) / (time.perf_counter() - started)

    def until_a_step(self) -> None:
        """Wait until it is at work."""
        before = self.steps
        while self.steps == before:
            time.sleep(0.001)

    def _pause(self) -> None:
        self._idle.clear()
        self._go.clear()
        self._idle.wait()

    def _train(self) -> None:
        import torch

        # One thread of arithmetic: several that wait for each other by spinning come to a
        # standstill where other programs want the processors too.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        inputs = torch.randn(64, 256, generator=generator)
        while True:
            if not self._go.is_set():
                self._idle.set()
                self._go.wait()
            if self._end:
                torch.set_num_threads(threads)
                return
            loss = (model(inputs) - inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.steps += 1


def _job(number: int, kind: str) -> Job:
    _, source, limits, _ = KINDS[kind]
    return Job(source=f"{source}\n# {number}\n", entry="f", tests=[_ADD], limits=limits)


def _look(sandbox: Sandbox) -> dict[str, float]:
    """What this process and all that it started hold now."""
    time.sleep(SETTLED_S)
    family = _family(os.getpid())
    return {
        "memory_mb": round(sum(_resident_mb(pid) for pid in family), 1),
        "descriptors": sum(_descriptors(pid) for pid in family),
        "processes": len(family),
        "scratch": _scratch(sandbox),
    }


def _family(root: int) -> list[int]:
    """A process and all that it started, by /proc; itself alone where there is none."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
    family, new = {root}, {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - family
        family |= new
    return sorted(family)


def _resident_mb(pid: int) -> float:
    """Memory of its own, in MiB: what is shared with its parent is not counted twice."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0  # it ended, or belongs to a namespace that may not be looked into
    return 0.0


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def _scratch(sandbox: Sandbox) -> int:
    """Files of jobs that lie about in the zygotes' scratch folders.

    A zygote with namespaces keeps its folder where only root can look, by the process below
    the one that we started; one without them keeps it in the temporary folder.
    """
    places: list[Path] = []
    for pid in sandbox.zygotes():
        places += Path(tempfile.gettempdir()).glob(f"rlkit-zygote-{pid}-*")
        try:
            inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue  # replaced meanwhile
        places += [Path(f"/proc/{child}/root/box") for child in inner]
    return sum(len(files) for place in places for _, _, files in os.walk(place))
