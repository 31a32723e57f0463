"""How good a program is, level by level: parse, import, run, tests, hidden tests, callers.

A `Task` (`code_task.py`) is what a problem asks for; `grade_many` runs sources against tasks in a
sandbox and gives a `Grade` for each, with the share of every level. A weight turns the
shares into a reward elsewhere (`graded.py`); nothing is paid here.

All programs of a batch run in two waves. The first holds the calls of the function and
the first input of a whole program; the second, for sources that got through it, the other
inputs and the tests of the callers, so that an endless loop costs its time limit once.

Everything of the candidate's runs in the sandbox only. Assertions that are no plain
comparison run in a second process that never holds the candidate (mode `proxy`); only what
that cannot carry, by the tests' own text, runs beside the candidate, which is said in the
reason. Left out on purpose: timing and memory as levels of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rlkit.rewards.code_task import GROUPS, LEVELS, Task, splice
from rlkit.rewards.extraction import parses
from rlkit.rewards.inside import source_of
from rlkit.rewards.unit_tests import Tests, same_output
from rlkit.rewards.verdict_cache import UNSTABLE
from rlkit.sandbox import Job, Sandbox, Status, TestSpec, Verdict
from rlkit.sandbox.modes.proxy import cannot_carry

_RAN = (Status.PASS, Status.FAIL, Status.BAD_VALUE)
_NOT_LOADED = (Status.COMPILE_ERROR, Status.RUNTIME_ERROR, Status.MEMORY_LIMIT)


@dataclass(frozen=True)
class Grade:
    """What came of a program.

    Attributes:
        shares: 0 to 1 by level; `None` where nothing is known; levels that the task does
            not have are missing.
        status: `PASS`, `NO_CODE`, or the sandbox's status of the first test that failed.
        reason: one line for a person; of hidden tests it tells the number only.
        stable: whether running it again must end in the same way.
    """

    shares: dict[str, float | None]
    status: str
    reason: str
    stable: bool = True


def grade_many(sandbox: Sandbox, work: Sequence[tuple[str | None, Task]]) -> list[Grade]:
    """Run sources against their tasks; one grade for each, in order.

    Equal jobs of a batch run once. A source of `None` is a completion without code.

    Args:
        sandbox: where everything runs; its limits apply.
        work: pairs of source and task.
    """
    runs = [None if source is None else _Run(source, task, sandbox) for source, task in work]
    for wave in (0, 1):
        going = [run for run in runs if run is not None and run.goes_on(wave)]
        jobs = [(run, part) for run in going for part in run.parts[wave]]
        verdicts = sandbox.run_many([part.job for _, part in jobs])
        for (run, part), verdict in zip(jobs, verdicts, strict=True):
            run.take(part, verdict)
    return [
        _no_code(task) if run is None else run.grade()
        for run, (_, task) in zip(runs, work, strict=True)
    ]


@dataclass(frozen=True)
class _Part:
    """A job, and which tests its results are about: group and number of each."""

    job: Job
    about: tuple[tuple[str, int], ...]
    prints: str | None = None  # what a whole program must print


class _Run:
    """One source on its way through the sandbox."""

    def __init__(self, source: str, task: Task, sandbox: Sandbox) -> None:
        self.source, self.task, self.sandbox = source, task, sandbox
        self.verdicts: list[Verdict] = []
        self.results: dict[tuple[str, int], tuple[Status, str]] = {}
        self.broken: Verdict | None = None
        self.parsed = True
        text = self._packed() if task.package else source
        self.parts: tuple[list[_Part], list[_Part]] = ([], [])
        calls: dict[tuple[int, str], list[tuple[tuple[str, int], TestSpec]]] = {}
        own = bool({"tests", "hidden_tests"} & task.groups.keys())
        programs = 0
        for group in GROUPS:
            tests = task.groups.get(group, Tests())
            wave = int(group == "compatibility" and own)
            number = 0
            for entry, spec in tests.calls:
                calls.setdefault((wave, entry), []).append(((group, number), spec))
                number += 1
            for stdin, stdout in tests.programs:
                part = _Part(self._program(stdin, stdout), ((group, number),), stdout)
                self.parts[min(programs, 1)].append(part)
                number, programs = number + 1, programs + 1
            if tests.statements:
                about = tuple((group, number + i) for i in range(len(tests.statements)))
                self.parts[wave].append(_Part(self._asserted(tests.statements), about))
        for (wave, entry), listed in calls.items():
            about = tuple(place for place, _ in listed)
            specs = tuple(spec for _, spec in listed)
            job_text = text
            if task.package:
                job_text += f"\nimport {entry.rpartition('.')[0]}\n"
            self.parts[wave].append(_Part(Job(source=job_text, entry=entry, tests=specs), about))

    def _packed(self) -> str:
        module, _, function = self.task.replaces.partition(":")
        texts = dict(self.task.package)
        # What does not parse by itself must not parse by what stands around it.
        whole = splice(texts[module], function, self.source) if parses(self.source) else None
        texts[module] = self.source if whole is None else whole
        return f"{source_of('names', 'package')}\ninstall({texts!r}, {module!r})\n"

    def _program(self, stdin: str, stdout: str) -> Job:
        limits = self.sandbox.limits
        room = max(limits.output_kb, 2 * len(stdout.encode("utf-8", "replace")) // 1024 + 1)
        return Job(
            source=f"{source_of('names', 'program')}\nprepare({self.source!r})\n",
            entry="run",
            tests=[TestSpec("program", args=(stdin.encode("utf-8", "replace"),), expected=0)],
            limits=replace(limits, output_kb=room),
        )

    def _asserted(self, statements: Sequence[str]) -> Job:
        """A job for assertions that go on where the one before stopped."""
        if any(cannot_carry(text) for text in statements):
            return self._beside(statements)
        return Job(
            source=self.source,
            entry=self.task.entry,
            tests=[TestSpec(text, code=text) for text in statements],
            mode="proxy",
            share="names",
        )

    def _beside(self, statements: Sequence[str]) -> Job:
        start = f"start({self.source!r}, {list(statements)!r})"
        return Job(
            source=f"{source_of('names', 'checks')}\n{start}\n",
            entry="holds",
            tests=[TestSpec(text, (i,), expected=True) for i, text in enumerate(statements)],
        )

    def goes_on(self, wave: int) -> bool:
        stops = (Status.TIMEOUT, Status.CPU_LIMIT, Status.SANDBOX_ERROR)
        return wave == 0 or (
            self.broken is None and not any(v.status in stops for v in self.verdicts)
        )

    def take(self, part: _Part, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if verdict.message and verdict.status in _NOT_LOADED:
            # A message about the whole job with such a status: it did not load. Around a
            # program that we wrapped, what the compiler says is the wrapper's exception.
            self.broken = verdict
            self.parsed = verdict.status is not Status.COMPILE_ERROR and parses(self.source)
        for place, result in zip(part.about, verdict.tests, strict=True):
            status, message = result.status, result.message
            if part.prints is not None:
                status, message = _printed(part, verdict, self.task.tolerance)
            elif part.job.mode == "proxy" and message.startswith("the test does not hold"):
                said = message.partition(" of the test)")[2].lstrip(":; ")
                message = f"{_last_line(result.name)} does not hold" + (f": {said}" if said else "")
            elif part.job.entry == "holds" and message.startswith("holds("):
                said = re.sub(r" \(line \d+\)$", "", message.partition(" raised ")[2])
                if said.startswith("AssertionError"):
                    status = Status.FAIL
                message = f"{_last_line(result.name)} does not hold: {said}"
            if self.broken is verdict and not self.parsed:
                status = Status.COMPILE_ERROR
            self.results[place] = status, message

    def grade(self) -> Grade:
        if any(v.status is Status.SANDBOX_ERROR for v in self.verdicts):
            fault = next(v for v in self.verdicts if v.status is Status.SANDBOX_ERROR)
            shares = dict.fromkeys(_levels(self.task)) | {"extract": 1.0}
            return Grade(shares, "SANDBOX_ERROR", fault.summary, stable=False)
        shares: dict[str, float | None] = {"extract": 1.0, "parse": float(self.parsed)}
        places = [(g, i) for g in GROUPS for i in range(len(self.task.groups.get(g, ())))]
        found = {place: self.results.get(place, (Status.NO_RESULT, "")) for place in places}
        answered = any(s in (*_RAN, Status.RUNTIME_ERROR) for s, _ in found.values())
        # A program that hung or died before its first answer may or may not have loaded.
        shares["import"] = 0.0 if self.broken else (1.0 if answered else None)
        own = [place for place in places if place[0] != "compatibility"] or places
        shares["run"] = _share(found[place][0] in _RAN for place in own)
        for group in self.task.groups:
            shares[group] = _share(
                s is Status.PASS for (g, _), (s, _) in found.items() if g == group
            )
        status = next((s for s, _ in found.values() if s is not Status.PASS), Status.PASS)
        stable = all(v.status.name not in UNSTABLE for v in self.verdicts)
        return Grade(shares, status.name, self._reason(found), stable)

    def _reason(self, found: Mapping[tuple[str, int], tuple[Status, str]]) -> str:
        if self.broken is not None:
            told = _OF_COMPILER.sub(r"(\1", self.broken.message)
            return f"it does not {'import' if self.parsed else 'parse'}: {told}"
        said = []
        for group in self.task.groups:
            of_group = [outcome for (g, _), outcome in found.items() if g == group]
            passed = sum(status is Status.PASS for status, _ in of_group)
            line = f"{passed} of {len(of_group)} {_NAMES[group]} passed"
            first = next((m for s, m in of_group if s is not Status.PASS and m), "")
            # What a hidden test holds must not reach the policy through its reward's reason.
            said.append(f"{line}: {first}" if first and group != "hidden_tests" else line)
        if any(part.job.entry == "holds" for wave in self.parts for part in wave):
            said.append("some tests ran beside the program, which could have cheated them")
        return "; ".join(said)


#: Where a wrapped program does not parse; the last line is one of the wrapper.
_OF_COMPILER = re.compile(r"\(solution\.py, (line \d+\)) \(line \d+\)$")
_NAMES = {"tests": "tests", "hidden_tests": "hidden tests", "compatibility": "tests of callers"}


def _printed(part: _Part, verdict: Verdict, tolerance: float) -> tuple[Status, str]:
    """Status of a whole program by what it printed; one that left by `os._exit(0)` is fine."""
    result = verdict.tests[0]
    left = verdict.status is Status.NO_RESULT and verdict.exit_code == 0
    if result.status is Status.FAIL:
        return Status.RUNTIME_ERROR, f"the program ended with exit code {result.got_repr}"
    if result.status is not Status.PASS and not left:
        message = result.message
        if message.startswith("run("):
            message = f"the program raised {message.partition(' raised ')[2]}"
        return result.status, message
    if same_output(part.prints or "", verdict.stdout, tolerance):
        return Status.PASS, ""
    return Status.FAIL, f"printed {_short(verdict.stdout)}, expected {_short(part.prints or '')}"


def _levels(task: Task) -> tuple[str, ...]:
    return tuple(level for level in LEVELS if level not in GROUPS or level in task.groups)


def _share(passed: Iterable[bool]) -> float | None:
    listed = list(passed)
    return sum(listed) / len(listed) if listed else None


def _no_code(task: Task) -> Grade:
    name = task.entry.rpartition(".")[2]
    wanted = f"that defines {name}()" if name else "of a program"
    return Grade(dict.fromkeys(_levels(task), 0.0), "NO_CODE", f"there is no code {wanted}")


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
