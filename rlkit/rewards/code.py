"""tests_pass: the share of hidden unit tests that a function passes in the sandbox.

The completion's code is taken out of its fence as text (`extraction.py`) and run in the
sandbox alone. Values are compared by type: 2.0 is not 2, and a tuple is not a list. For
tests in other shapes, and for the levels before the tests, see `graded.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.extraction import extract_code
from rlkit.rewards.in_sandbox import InSandbox
from rlkit.rewards.reward import Score
from rlkit.rewards.verdict_cache import UNSTABLE, VerdictCache, content_key
from rlkit.sandbox import Job, Sandbox, TestSpec

__all__ = ["TestsPass", "extract_code", "tests_pass"]


class TestsPass(InSandbox):
    """The share of a problem's hidden tests that the completion's function passes.

    A completion without the function is worth 0; a fault of the sandbox itself is
    `None`. The sandbox is started when it is first needed.

    Args:
        sandbox: where the code is run; one with default limits when not given.
        all_or_nothing: pay 1 for all tests and 0 for anything less.
        cache: of verdicts by content; its `hits` and `misses` can be read. One of its own
            when not given.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        all_or_nothing: bool = False,
        cache: VerdictCache | None = None,
    ) -> None:
        super().__init__(self._run, "tests_pass", columns=("entry", "tests"), bounds=(0.0, 1.0))
        self.all_or_nothing = all_or_nothing
        self.cache = VerdictCache() if cache is None else cache
        self._sandbox = sandbox

    def _run(
        self,
        *,
        completions: Sequence[str],
        entry: Sequence[str],
        tests: Sequence[Sequence[Mapping[str, Any]]],
        **_: Any,
    ) -> list[Score]:
        keys = [
            content_key(self.sandbox, text, name, wanted)
            for text, name, wanted in zip(completions, entry, tests, strict=True)
        ]
        rows: dict[bytes, Score] = {}
        jobs: dict[bytes, Job] = {}
        for i, key in enumerate(keys):
            if key in rows or key in jobs:
                continue
            if (known := self.cache.get(key)) is not None:
                rows[key] = known
            elif (source := extract_code(completions[i], entry[i])) is None:
                reason = f"there is no code that defines {entry[i]}()"
                rows[key] = Score(0.0, "NO_CODE", reason=reason)
                self.cache.put(key, rows[key])
            else:
                jobs[key] = Job(source=source, entry=entry[i], tests=_specs(tests[i]))
        verdicts = self.sandbox.run_many(list(jobs.values())) if jobs else []
        for key, verdict in zip(jobs, verdicts, strict=True):
            rows[key] = Score(verdict.reward, verdict.status.name, reason=verdict.summary)
            if verdict.status.name not in UNSTABLE:
                self.cache.put(key, rows[key])
        return [self._paid(rows[key]) for key in keys]

    def _paid(self, score: Score) -> Score:
        if score.value is None or not self.all_or_nothing:
            return score
        return Score(float(score.value == 1.0), score.status, reason=score.reason)


def _specs(tests: Sequence[Mapping[str, Any]]) -> tuple[TestSpec, ...]:
    for test in tests:
        if "args" not in test or "expected" not in test:
            raise UserError(
                f"a test of tests_pass needs args and expected; this one has {', '.join(test)}. "
                "code_reward reads tests in other shapes"
            )
    return tuple(
        TestSpec(name=f"test {i + 1}", args=tuple(test["args"]), expected=test["expected"])
        for i, test in enumerate(tests)
    )


tests_pass = TestsPass()
