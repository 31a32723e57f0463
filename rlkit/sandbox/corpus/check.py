"""Run the corpora against a sandbox, and look after each case at what is left of the world.

After every case: its status is one of those that mean "contained" or "not paid"; nothing is
left running; nothing outside has changed; no verdict holds a byte of what was planted
outside; it ended within its limit and a second; and the next honest job passes.

A case against something that the sandbox's own report calls partial or absent is run all
the same, where that harms nobody, and a failure is then `admitted`: known, and said. A case
that would harm the machine is not run, and listed with the reason.

Left out on purpose: a score. One cheat that is paid is one too many.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.backends.base import Backend
from rlkit.sandbox.corpus import cases
from rlkit.sandbox.corpus.case import ROOMY, SORT_TESTS, Case
from rlkit.sandbox.corpus.surroundings import Surroundings
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Status, TestSpec, Verdict

#: A case may take so much longer than its own limits, all told.
GRACE_S = 1.0

#: Each case is really run, also where the sandbox would rather refuse it.
_ALWAYS = {"cache": "off", "min_isolation": Level.NONE}

_SORTS = "def f(x):\n    return sorted(x)\n"


@dataclass(frozen=True)
class CaseResult:
    """What came of one case.

    Attributes:
        name, corpus, language, mode, attacks, lesson: the case's.
        status: how it ended.
        expected: the statuses that are all right.
        ok: whether it ended so, and all invariants held.
        admitted: whether it is not ok, and the isolation report says so beforehand.
        seconds: from handing it in to its verdict.
        stopped_by: which layer ended or refused it, as far as the sandbox tells.
        says: what it returned or printed, or the message of the verdict.
        wrong: which invariants did not hold, in words.
    """

    name: str
    corpus: str
    language: str
    mode: str
    attacks: str
    lesson: str
    status: str
    expected: tuple[str, ...]
    ok: bool
    admitted: bool
    seconds: float
    stopped_by: str = ""
    says: str = ""
    wrong: tuple[str, ...] = ()


@dataclass
class Check:
    """What came of all cases.

    Attributes:
        backend: what ran them.
        asked: the weaker level that was asked for, or `full`.
        isolation: the sandbox's own report.
        cases: one entry for each case that was run.
        not_run: cases that were not, with the reason.
        left_behind: processes that were still there after a case or at the end.
        seconds: all told.
    """

    backend: str
    asked: str = "full"
    isolation: IsolationReport | None = None
    cases: list[CaseResult] = field(default_factory=list)
    not_run: list[dict[str, str]] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[CaseResult]:
        """Cases that were neither contained nor admitted."""
        return [case for case in self.cases if not case.ok and not case.admitted]

    @property
    def admitted(self) -> list[CaseResult]:
        """Cases that were not contained, as the isolation report says beforehand."""
        return [case for case in self.cases if case.admitted]

    @property
    def paid(self) -> list[CaseResult]:
        """Cheats that got the whole reward."""
        return [c for c in self.cases if c.corpus == "cheat" and c.status == Status.PASS]

    @property
    def ok(self) -> bool:
        """Whether nothing happened that the sandbox claims to prevent."""
        return bool(self.cases) and not self.failed and not self.left_behind and not self.paid

    def to_json(self) -> dict[str, Any]:
        """Plain data, as `rlkit sandbox check --json` prints it."""
        counted = Counter(case.corpus for case in self.cases)
        return {
            "backend": self.backend,
            "level": self.asked,
            "isolation": None if self.isolation is None else self.isolation.to_json(),
            "cases": [{**vars(case), "expected": list(case.expected), "wrong": list(case.wrong)}
                      for case in self.cases],
            "counts": dict(counted),
            "languages": sorted({case.language for case in self.cases}),
            "not_run": self.not_run,
            "failed": [case.name for case in self.failed],
            "admitted": [case.name for case in self.admitted],
            "cheats_paid": len(self.paid),
            "left_behind": self.left_behind,
            "seconds": round(self.seconds, 1),
            "ok": self.ok,
        }  # fmt: skip


def run_check(
    backend: str | Backend = "local",
    *,
    sandbox: Any = None,
    only: Collection[str] = (),
    corpora: Collection[str] = ("hostile", "cheat"),
    in_languages: Collection[str] | None = None,
    chosen: Sequence[Case] | None = None,
    asked: str = "full",
    say: Callable[[CaseResult], None] | None = None,
) -> Check:
    """Run the corpora and report, case by case.

    Args:
        backend: what is to run them; ignored when a sandbox is given.
        sandbox: an open `Sandbox` with one worker; one is made and closed when None.
        only: words; a case is run when one of them is in its name, what it attacks, its
            language or its mode.
        corpora: `hostile`, `cheat`, or both.
        in_languages: names; all when None.
        chosen: the cases themselves, in place of the corpora.
        asked: how the level was weakened, for the report.
        say: called after each case, to show progress.

    Raises:
        UserError: no case is left to run.
    """
    wanted = tuple(select(only, corpora, in_languages) if chosen is None else chosen)
    if not wanted:
        raise UserError(f"no case of the corpora fits {', '.join(only) or 'these options'}")
    from rlkit.sandbox.sandbox import Sandbox

    started = time.monotonic()
    check = Check(backend if isinstance(backend, str) else backend.name, asked)
    with Surroundings() as world:
        own = sandbox is None
        used = Sandbox(workers=1, backend=backend, min_isolation=Level.NONE) if own else sandbox
        try:
            check.isolation = used.report()
            watch = Watch(used, world, check)
            watch.warm_up()
            for case in wanted:
                result = watch.run(case)
                if result is not None:
                    check.cases.append(result)
                    if say is not None:
                        say(result)
        finally:
            if own:
                used.close()
        if own:
            world.settle_at_nothing()
            check.left_behind += [f"at the end: {one}" for one in world.left_behind()]
    check.seconds = time.monotonic() - started
    return check


def select(
    only: Collection[str] = (),
    corpora: Collection[str] = ("hostile", "cheat"),
    in_languages: Collection[str] | None = None,
) -> Iterator[Case]:
    """The cases that fit, in the order of the corpora.

    >>> [case.name for case in select(["fork bomb that leaves"], in_languages=["python"])]
    ['fork bomb that leaves the session']
    """
    for case in cases():
        words = f"{case.key} {case.attacks} {case.mode}".lower()
        if (
            case.corpus in corpora
            and (in_languages is None or case.language in in_languages)
            and (not only or any(word.lower() in words for word in only))
        ):
            yield case


class Watch:
    """Runs one case after the other in a sandbox, and looks around after each."""

    def __init__(self, sandbox: Any, world: Surroundings, check: Check) -> None:
        self.sandbox, self.world, self.check = sandbox, world, check
        self._fences = {p.name: p.state for p in check.isolation.properties}
        self._missing: dict[tuple[str, str], str] = {}
        self._honest = 0

    def warm_up(self) -> None:
        """Let every kind of worker start once, so that they are not taken for left behind."""
        wrong = self._next_honest_job()
        if wrong:
            raise UserError(f"the sandbox does not even run an honest job here: {wrong}")
        self.world.settle()

    def run(self, case: Case) -> CaseResult | None:
        why = self._why_not(case)
        if why:
            self.check.not_run.append(
                {"name": case.name, "corpus": case.corpus, "language": case.language, "why": why}
            )
            return None
        result, left = self._once(case)
        late = any("seconds" in one for one in result.wrong)
        if left or late:
            # A new process may be a worker of a kind that was not needed before: then the
            # second run uses it, where a leak would leave another one. And another program
            # may have held the processor.
            result, left = self._once(case)
        self.check.left_behind += [f"{case.key}: {one}" for one in left]
        return result

    def _why_not(self, case: Case) -> str:
        for name in case.needs:
            if self._fences.get(name) != "enforced":
                return f"it would harm this machine: {name} is not enforced here"
        kind = (case.language, case.mode)
        if kind not in self._missing:
            self._missing[kind] = self._try_kind(*kind)
            self.world.settle()  # its workers may be of another kind, and are warm from now on
        return self._missing[kind]

    def _try_kind(self, language: str, mode: str) -> str:
        """Why honest programs of this language and mode cannot run here; empty if they can."""
        try:
            languages.require(language)
        except UserError as error:
            return str(error)
        if language == "python" and mode == "func":
            return self._next_honest_job()
        if language == "math":
            given = {"source": "2x + 2", "tests": [TestSpec("same", expected="2*(x + 1)")]}
        elif mode == "io":
            smoke = languages.get(language).honest[0]
            given = {"source": smoke.source, "tests": smoke.tests, "limits": smoke.limits or ROOMY}
        else:
            test = TestSpec("sorts", code="assert f([2, 1]) == [1, 2]")
            given = {"source": _SORTS, "tests": [test], "entry": "f"}
        try:
            verdict = self.sandbox.run(Job(language, mode=mode, **given, **_ALWAYS))
        except UserError as error:
            return f"an honest program does not run here: {error}"
        if verdict.status is not Status.PASS:
            return f"an honest program does not run here: {verdict.summary}"
        return ""

    def _once(self, case: Case) -> tuple[CaseResult, list[str]]:
        job = replace(case.job(self.world.places), **_ALWAYS)
        started = time.monotonic()
        try:
            verdict = self.sandbox.run(job)
        except UserError as error:
            verdict = None
            says = str(error)
        seconds = time.monotonic() - started
        status = "REFUSED_BY_US" if verdict is None else str(verdict.status)
        wrong = []
        if verdict is not None:
            says = _says(verdict)
            wrong += self._of_the_verdict(case, verdict, seconds)
        if status not in {str(s) for s in case.expected}:
            wrong.insert(0, f"ended as {status}")
        honest = self._next_honest_job()
        if honest:
            wrong.append(f"the next honest job: {honest}")
        left = self.world.left_behind()
        if left:
            wrong.append(f"left running: {', '.join(left)}")
            self.world.settle()
        wrong += self.world.changes()
        known = self._fences.get(case.attacks) in ("partial", "absent")
        result = CaseResult(
            name=case.name,
            corpus=case.corpus,
            language=case.language,
            mode=case.mode,
            attacks=case.attacks,
            lesson=case.lesson,
            status=status,
            expected=tuple(sorted(str(s) for s in case.expected)),
            ok=not wrong,
            admitted=bool(wrong) and known and not left and not honest,
            seconds=round(seconds, 3),
            stopped_by="" if verdict is None else verdict.stopped_by,
            says=says,
            wrong=tuple(wrong),
        )
        return result, left

    def _of_the_verdict(self, case: Case, verdict: Verdict, seconds: float) -> list[str]:
        wrong = []
        if self.world.secret in repr(verdict):
            wrong.append("the verdict holds what was planted outside")
        if "LEAK" in verdict.stdout:
            wrong.append(f"it got out: {verdict.stdout[:60]!r}")
        if case.corpus == "cheat" and verdict.reward is not None and verdict.reward >= 1.0:
            wrong.append("it was paid in full")
        limit = case.limits.wall_s * len(case.tests) + GRACE_S
        if verdict.compile is not None:
            limit += verdict.compile.seconds or 0.0
        if seconds - (verdict.queue_s or 0.0) > limit:
            wrong.append(f"took {seconds:.1f} seconds, {limit:.1f} are the limit")
        return wrong

    def _next_honest_job(self) -> str:
        self._honest += 1
        job = Job(source=_SORTS, entry="f",
                  tests=[TestSpec(**test) for test in SORT_TESTS], seed=self._honest,
                  limits=Limits(wall_s=10.0, cpu_s=5.0, memory_mb=256), **_ALWAYS)  # fmt: skip
        verdict = self.sandbox.run(job)
        return "" if verdict.status is Status.PASS else verdict.summary


def _says(verdict: Verdict) -> str:
    """What it returned or printed, or why it ended, in at most a hundred characters."""
    got = next((t.got_repr for t in verdict.tests if t.got_repr is not None), None)
    message = verdict.message or next((t.message for t in verdict.tests if t.message), "")
    text = message or got or ""
    return text if len(text) <= 100 else text[:97] + "..."
