"""code_reward: a program's worth, with the share of every level as a named part.

Graders of real work ask in steps: is there code, does it parse, does it import, do its
calls come back, does it pass the tests that were shown and those that were not, and do
the modules that use it still work? `CodeReward` keeps all of these shares visible and
pays those that its weights name.

The grade of a completion is kept in memory by content (`verdict_cache.py`), so the same
rollouts are scored again, also under other weights, without running anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rlkit.errors import UserError
from rlkit.rewards.code_task import GROUPS, LEVELS, Task, make_task
from rlkit.rewards.extraction import extract_code
from rlkit.rewards.grading import Grade, grade_many
from rlkit.rewards.in_sandbox import InSandbox
from rlkit.rewards.reward import Score
from rlkit.rewards.unit_tests import TOLERANCE
from rlkit.rewards.verdict_cache import VerdictCache, content_key
from rlkit.sandbox import Sandbox

#: Only tests are paid by default: a program that merely parses has earned nothing yet.
WEIGHTS = {"tests": 0.2, "hidden_tests": 0.6, "compatibility": 0.2}

#: Columns that say what a problem wants; all but one kind of tests may be missing.
COLUMNS = (
    *("tests", "hidden_tests", "entry", "package", "replaces", "caller_tests"),
    "test_code",
)


class CodeReward(InSandbox):
    """The weighted share of levels that a completion's program gets through.

    Columns, one entry for each completion:

    * `tests` (or `test_code`): tests that the prompt shows, in any shape of `read_tests`;
    * `hidden_tests`: tests that it does not show;
    * `entry`: the function that tests call, where they do not name one;
    * `package`, `replaces`, `caller_tests`: a small package as `{module: source}`, the
      function (`module:function`) that the candidate stands in for, and tests of functions
      of the package that use it.

    A row's value is the weighted mean over the levels that its problem has, `None` when the
    sandbox failed. Parts: `extract`, `parse`, `import`, `run` (share of own tests whose call
    came back), `tests`, `hidden_tests`, `compatibility`; `None` where nothing is known.

    Args:
        sandbox: where programs run; one with default limits, started when it is needed.
        weights: by level; levels that are not named are shown but not paid.
        mode: `fraction` pays shares; `binary` pays 1 when every paid level is full, else 0.
        tolerance: for floats that tests return or programs print.
        cache: of grades; its `hits` and `misses` can be read. One of its own when not given.

    Raises:
        UserError: a weight that is no level or no number, another mode.

    >>> CodeReward(weights={"parse": 0.1, "tests": 0.9}).weights
    {'parse': 0.1, 'tests': 0.9}
    """

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        weights: Mapping[str, float] | None = None,
        mode: Literal["fraction", "binary"] = "fraction",
        tolerance: float = TOLERANCE,
        cache: VerdictCache | None = None,
    ) -> None:
        super().__init__(self._run, "code_reward", bounds=(0.0, 1.0))
        self.weights = _checked(WEIGHTS if weights is None else weights)
        if mode not in ("fraction", "binary"):
            raise UserError(f"mode={mode!r}; give 'fraction' or 'binary'")
        self.mode = mode
        self.tolerance = tolerance
        self.cache = VerdictCache() if cache is None else cache
        self._sandbox = sandbox

    def with_weights(self, weights: Mapping[str, float]) -> CodeReward:
        """The same reward under other weights; what is in the cache needs no new run."""
        return CodeReward(self._sandbox, weights, self.mode, self.tolerance, self.cache)

    def _run(self, *, completions: Sequence[str], **columns: Any) -> list[Score]:
        given = {name: columns[name] for name in COLUMNS if columns.get(name) is not None}
        if not {"tests", "test_code", "hidden_tests", "caller_tests"} & given.keys():
            raise UserError(
                "code_reward needs the column tests, hidden_tests, test_code or caller_tests; "
                f"the columns here are {', '.join(sorted(columns)) or 'none'}"
            )
        for name, rows in given.items():
            if isinstance(rows, str) or len(rows) != len(completions):
                raise UserError(
                    f"column {name!r} must be a list with {len(completions)} rows, one for each "
                    "completion"
                )
        problems = [
            {name: rows[i] for name, rows in given.items()} for i in range(len(completions))
        ]
        keys = [
            content_key(self.sandbox, self.tolerance, text, problem)
            for text, problem in zip(completions, problems, strict=True)
        ]
        grades: dict[bytes, Grade] = {}
        new: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key in grades or key in new:
                continue
            if (known := self.cache.get(key)) is not None:
                grades[key] = known
            else:
                new[key] = i
        if new:
            tasks: dict[bytes, Task] = {}  # the completions of a group share their problem
            work = []
            for i in new.values():
                mark = content_key(self.sandbox, problems[i])
                if mark not in tasks:
                    tasks[mark] = self._task(problems[i])
                work.append((_source(completions[i], tasks[mark]), tasks[mark]))
            for key, grade in zip(new, grade_many(self.sandbox, work), strict=True):
                grades[key] = grade
                if grade.stable:
                    self.cache.put(key, grade)
        return [self._score(grades[key]) for key in keys]

    def _task(self, row: Mapping[str, Any]) -> Task:
        row = dict(row)
        shown = row.pop("test_code", None)
        if row.get("tests") is None:
            row["tests"] = shown
        elif shown is not None:
            raise UserError("give a problem either tests or test_code, not both")
        return make_task(**row, tolerance=self.tolerance)

    def _score(self, grade: Grade) -> Score:
        paid = {
            level: weight
            for level, weight in self.weights.items()
            if weight and grade.shares.get(level) is not None
        }
        parts = dict(grade.shares)
        if grade.status == "SANDBOX_ERROR" or not paid:
            reason = grade.reason if grade.status == "SANDBOX_ERROR" else _nothing_paid(self, grade)
            return Score(None, grade.status, parts, reason)
        if self.mode == "binary":
            value = float(all(grade.shares[level] == 1.0 for level in paid))
        else:
            total = sum(paid.values())
            added = {level: grade.shares[level] * w / total for level, w in paid.items()}
            # The last bit of a sum of shares is chance, and no completion is worth more than 1.
            value = min(1.0, sum(added.values()))
            return Score(value, grade.status, parts, grade.reason, contributions=added)
        return Score(value, grade.status, parts, grade.reason)


def _source(text: str, task: Task) -> str | None:
    name = task.entry.rpartition(".")[2] if task.package else task.entry
    # A method is asked for by its class; a bare function may be a method of `Solution`.
    return extract_code(text, name or None)


def _nothing_paid(reward: CodeReward, grade: Grade) -> str:
    return (
        f"no verdict: the weights pay {', '.join(reward.weights)}, and nothing is known of those; "
        f"{grade.reason}"
    )


def _checked(weights: Mapping[str, float]) -> dict[str, float]:
    for level, weight in weights.items():
        if level not in LEVELS:
            raise UserError(f"{level!r} is no level of code; the levels are {', '.join(LEVELS)}")
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not math.isfinite(weight) or weight < 0:
            raise UserError(f"the weight of {level} must be a number from 0 up, not {weight!r}")
    if not any(weights.values()):
        raise UserError(f"some level must have a weight; the levels are {', '.join(LEVELS)}")
    return {level: float(weights[level]) for level in LEVELS if level in weights}


code_reward = CodeReward()

#: For a policy that mostly fails at first: a fifth for calls that come back at all, the rest
#: for tests that pass, so that hardly any group of answers is without contrast.
runs_and_passes = CodeReward(weights={"run": 0.2, "tests": 0.8}).named("runs_and_passes")

__all__ = ["GROUPS", "LEVELS", "WEIGHTS", "CodeReward", "code_reward", "runs_and_passes"]
