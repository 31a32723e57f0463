"""SandboxedVerifier: a verifier's source text, every call of it made in the sandbox.

Some verifiers evaluate what a model wrote (`eval`, a regular expression that backtracks
for ever, a parser with holes). Such a verifier is run where the model's own code would be
run: in the sandbox, with limits. All answers of a batch are calls of one job. A call that
hangs or kills its process is paid nothing and named; the calls behind it are made again
in a new process, so one answer cannot take the batch along.

Compare `SourceReward`, which trusts its program's text and what it is given.

Left out: verifiers that look at several completions at once.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.answer import extract_answer
from rlkit.rewards.in_sandbox import InSandbox
from rlkit.rewards.score import Score
from rlkit.sandbox import Job, Limits, Sandbox, Status, TestResult, TestSpec

#: So many calls of a batch may break their process; the rows behind them have no verdict.
MOST_BREAKS = 8


class SandboxedVerifier(InSandbox):
    """A reward from `verify(answer, *columns) -> True or False`, run in the sandbox.

    The answer is what stands in the completion's only answer block; without one the
    completion is paid 0. `True` is paid 1 and everything else 0, an exception included.
    A call that does not end is paid 0. Where the sandbox itself fails there is no verdict.

    Args:
        source: Python text that defines `verify`; the standard library is all it has.
        columns: columns that are handed to `verify` after the answer, in this order.
        name: name of the reward.
        entry: what the function is called in the text.
        limits: of one batch; a second and 256 MB when not given.
        sandbox: where it is run; one of its own when not given.

    Raises:
        UserError: the text is no Python, or does not define the function.

    >>> twice = SandboxedVerifier("def verify(answer, n): return eval(answer) == 2 * n", ["n"])
    >>> twice(completions=["<answer>3 + 3</answer>", "<answer>1</answer>", "6"], n=[3, 3, 3])
    [1.0, 0.0, 0.0]
    """

    _workers = 1

    def __init__(
        self,
        source: str,
        columns: Sequence[str],
        name: str = "verifier",
        *,
        entry: str = "verify",
        limits: Limits | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        super().__init__(self._run, name, columns=tuple(columns), bounds=(0.0, 1.0))
        _check_source(source, entry, len(self.columns))
        self.source, self.entry = source, entry
        self.limits = limits or Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256)
        self._sandbox = sandbox

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_sandbox": None}

    def _run(self, *, completions: Sequence[str], **columns: Any) -> list[Score]:
        answers = [extract_answer(text) for text in completions]
        rows: list[Score] = [
            Score(0.0, "NO_ANSWER", reason="there is not exactly one answer block")
            for _ in completions
        ]
        waiting = [i for i, answer in enumerate(answers) if answer is not None]
        tests = {
            i: TestSpec(str(i), args=(answers[i], *(columns[c][i] for c in self.columns)),
                        expected=True)
            for i in waiting
        }  # fmt: skip
        for _ in range(MOST_BREAKS + 1):
            if not waiting:
                return rows
            waiting = self._judge(waiting, tests, rows)
        for i in waiting:
            rows[i] = Score(None, "NOT_REACHED", reason=f"{MOST_BREAKS} answers broke the verifier")
        return rows

    def _judge(
        self, waiting: list[int], tests: dict[int, TestSpec], rows: list[Score]
    ) -> list[int]:
        """Makes these calls in one process; gives back those that it did not live to make."""
        job = Job(
            source=self.source,
            entry=self.entry,
            tests=[tests[i] for i in waiting],
            limits=self.limits,
        )
        verdict = self.sandbox.run(job)
        if verdict.status is Status.SANDBOX_ERROR:
            for i in waiting:
                rows[i] = Score(None, "SANDBOX_ERROR", reason=verdict.message)
            return []
        left = []
        for i, result in zip(waiting, verdict.tests, strict=True):
            if _reached(result):
                rows[i] = self._score(result)
            else:
                left.append(i)
        if len(left) == len(waiting):  # nothing was tried at all
            for i in left:
                rows[i] = Score(None, verdict.status.name, reason=verdict.summary)
            return []
        return left

    def _score(self, result: TestResult) -> Score:
        if result.status is Status.PASS:
            return Score(1.0, "OK", reason="the verifier accepts it")
        if result.status is Status.FAIL:
            return Score(0.0, "WRONG", reason="the verifier refuses it")
        failed = result.status in (Status.RUNTIME_ERROR, Status.COMPILE_ERROR)
        if failed and not result.message.startswith(f"{self.entry}("):
            # The verifier's own text does not load, which says nothing about an answer.
            return Score(None, result.status.name, reason=f"the verifier fails: {result.message}")
        return Score(0.0, result.status.name, reason=result.message)


def _reached(result: TestResult) -> bool:
    return not (result.status is Status.NO_RESULT and result.message.startswith("not reached"))


def _check_source(source: str, entry: str, columns: int) -> None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"the verifier's text is no Python: {error}") from None
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == entry]
    if not found:
        raise UserError(f"the verifier's text does not define {entry}()")
    arguments = found[-1].args
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    if not least <= columns + 1 <= (columns + 1 if arguments.vararg else most):
        raise UserError(
            f"{entry}() takes {most} arguments and is called with {columns + 1}: the answer, "
            "then one for each column"
        )
