"""tests_pass: the share of hidden unit tests that a function passes in the sandbox.

The completion's code is taken out of its fence here, as text; it is parsed to
find the function but run in the sandbox alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.rewards.reward import Reward, Score
from rlkit.sandbox import Job, Sandbox, TestSpec

_OPEN = re.compile(r"^ {0,3}```[ \t]*([\w+-]*)[^\n`]*$")
_CLOSE = re.compile(r"^ {0,3}```[ \t]*$")
#: Longest completion that is looked at, in characters.
MAX_SOURCE_CHARS = 100_000


def extract_code(text: str, entry: str) -> str | None:
    """The source that defines function `entry`, or `None` when there is none.

    Taken is the last complete Python or untagged block that parses and defines
    `entry`; then a last block that was cut off before its closing fence; then the
    whole text, when it is nothing but code. A block that defines the function but
    does not parse is given as it is, so that the verdict can say what is wrong.

    >>> extract_code("Here:\\n```python\\ndef f(x):\\n    return x\\n```", "f")
    'def f(x):\\n    return x'
    """
    text = text[:MAX_SOURCE_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    complete, cut_off = _blocks(text)
    candidates = [block for block in reversed(complete)] + cut_off
    if not complete and not cut_off:
        candidates = [text]
    candidates = [c.strip("\n") for c in candidates if c.strip()]
    for source in candidates:
        if _defines(source, entry):
            return source
    broken = re.compile(rf"^\s*def {re.escape(entry)}\b", re.MULTILINE)
    return next((source for source in candidates if broken.search(source)), None)


def _blocks(text: str) -> tuple[list[str], list[str]]:
    """Fenced blocks of Python or of no stated language: closed ones, and an open last one."""
    complete: list[str] = []
    lines: list[str] | None = None
    python = False
    for line in text.split("\n"):
        if lines is None:
            if (opened := _OPEN.match(line)) is not None:
                lines, python = [], opened.group(1).lower() in ("", "python", "py", "python3")
        elif _CLOSE.match(line):
            if python:
                complete.append("\n".join(lines))
            lines = None
        else:
            lines.append(line)
    cut_off = ["\n".join(lines)] if lines and python else []
    return complete, cut_off


def _defines(source: str, entry: str) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == entry
        for node in tree.body
    )


class TestsPass(Reward):
    """The share of a problem's hidden tests that the completion's function passes.

    A completion without the function is worth 0; a fault of the sandbox itself is
    `None`. The sandbox is started when it is first needed.

    Args:
        sandbox: where the code is run; one with default limits when not given.
        all_or_nothing: pay 1 for all tests and 0 for anything less.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(self, sandbox: Sandbox | None = None, all_or_nothing: bool = False) -> None:
        super().__init__(self._run, "tests_pass", columns=("entry", "tests"))
        self.all_or_nothing = all_or_nothing
        self._sandbox = sandbox

    @property
    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = Sandbox()
        return self._sandbox

    def with_sandbox(self, sandbox: Sandbox) -> TestsPass:
        """The same reward on another sandbox."""
        return TestsPass(sandbox, self.all_or_nothing)

    def sandboxes(self) -> list[Sandbox]:
        return [self.sandbox]

    def _run(
        self,
        *,
        completions: Sequence[str],
        entry: Sequence[str],
        tests: Sequence[Sequence[Mapping[str, Any]]],
        **_: Any,
    ) -> list[Score]:
        rows: list[Score | None] = [None] * len(completions)
        jobs, places = [], []
        for i, (text, name, wanted) in enumerate(zip(completions, entry, tests, strict=True)):
            source = extract_code(text, name)
            if source is None:
                rows[i] = Score(0.0, "NO_CODE", reason=f"there is no code that defines {name}()")
                continue
            jobs.append(Job(source=source, entry=name, tests=_specs(wanted)))
            places.append(i)
        for i, verdict in zip(places, self.sandbox.run_many(jobs), strict=True):
            value = verdict.reward
            if value is not None and self.all_or_nothing:
                value = float(value == 1.0)
            rows[i] = Score(value, verdict.status.name, reason=verdict.summary)
        return [row for row in rows if row is not None]


def _specs(tests: Sequence[Mapping[str, Any]]) -> tuple[TestSpec, ...]:
    return tuple(
        TestSpec(name=f"test {i + 1}", args=tuple(test["args"]), expected=test["expected"])
        for i, test in enumerate(tests)
    )


tests_pass = TestsPass()
