"""Tests as one writes them, one a line, read into what the sandbox can judge.

Python's are assertions, whatever the mode: `assert f([3, 1, 2]) == [1, 2, 3]`. In mode `func`
they are taken apart into a call and a value, so that only the call enters the sandbox; in
`proxy` and `inproc` they run as they stand. Programs that print are tested by JSON lines,
`{"stdin": "3 4\\n", "stdout": "7\\n"}`, and mathematics by one right expression a line.

Left out on purpose: files and command lines of io tests; write a `Job` for those.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rlkit.errors import UserError
from rlkit.rewards.unit_tests import Tests, read_tests
from rlkit.sandbox.types import TestSpec

#: What a line looks like, by mode, for messages and for the box's label.
FORMS = {
    "func": "assert f([3, 1, 2]) == [1, 2, 3]",
    "proxy": "assert f([3, 1, 2]) == [1, 2, 3]",
    "inproc": "assert f([3, 1, 2]) == [1, 2, 3]",
    "io": '{"stdin": "3 4\\n", "stdout": "7\\n"}',
    "math": "2*(x + 1)",
}
_NAME_WIDTH = 40


def read_lines(text: str, language: str, mode: str) -> tuple[str, tuple[TestSpec, ...]]:
    """The name of the function that is called (empty where there is none), and the tests.

    Args:
        text: one test a line; empty lines and lines that begin with `#` are left out.
        language: as in `Job`, canonical.
        mode: as in `Job`.

    Raises:
        UserError: no test, or a line that is none of this mode.

    >>> entry, tests = read_lines("assert f(2) == 4", "python", "func")
    >>> entry, tests[0].args, tests[0].expected
    ('f', (2,), 4)
    """
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[:1] != "#"]
    form = FORMS["math" if language == "math" else mode]
    if not lines:
        raise UserError(f"there is no test; write one a line, such as: {form}")
    if language == "math":
        return "", tuple(TestSpec(_short(line), expected=line.strip()) for line in lines)
    if mode == "io":
        return "", tuple(_printed(number, line) for number, line in enumerate(lines, 1))
    if mode == "func":
        return _calls(lines)
    return "", tuple(TestSpec(_short(line), code=line) for line in lines)


def write_lines(tests: Sequence[TestSpec], language: str, mode: str, entry: str = "") -> str:
    """Tests as lines that `read_lines` reads.

    >>> write_lines([TestSpec("t", args=(2,), expected=4)], "python", "func", "f")
    'assert f(2) == 4'
    """
    if language == "math":
        return "\n".join(str(test.expected) for test in tests)
    if mode == "io":
        return "\n".join(
            json.dumps({"stdin": _text(test.stdin), "stdout": _text(test.expected)})
            for test in tests
        )
    if mode == "func":
        return "\n".join(_assertion(test, entry) for test in tests)
    return "\n".join(test.code.strip() for test in tests)


def _calls(lines: Sequence[str]) -> tuple[str, tuple[TestSpec, ...]]:
    found = [_call(number, line) for number, line in enumerate(lines, 1)]
    entries = sorted({name for name, _ in found})
    if len(entries) > 1:
        raise UserError(
            f"the tests call {' and '.join(entries)}; mode 'func' tests one function, so choose "
            "mode 'proxy' for these"
        )
    return entries[0], tuple(test for _, test in found)


def _call(number: int, line: str) -> tuple[str, TestSpec]:
    try:
        read = read_tests(line)
    except UserError:
        read = Tests()
    if len(read.calls) != 1 or read.statements:
        raise UserError(
            f"test {number} is no comparison of one call with one value; write it as "
            f"{FORMS['func']!r}, or choose mode 'proxy', which runs any assertion"
        )
    name, spec = read.calls[0]
    return name, TestSpec(
        spec.call(name),
        args=spec.args,
        kwargs=spec.kwargs,
        expected=spec.expected,
        tolerance=spec.tolerance,
        mixed_numbers=spec.mixed_numbers,
    )


def _printed(number: int, line: str) -> TestSpec:
    try:
        given = json.loads(line)
    except ValueError:
        given = None
    texts = isinstance(given, dict) and all(isinstance(value, str) for value in given.values())
    if not texts or "stdout" not in given or set(given) - {"stdin", "stdout"}:
        raise UserError(
            f"test {number} does not say what is read and what must be printed; write it as "
            f"{FORMS['io']}"
        )
    read = given.get("stdin", "")
    return TestSpec(f"reads {_short(read.strip(), 14)!r}", stdin=read, expected=given["stdout"])


def _assertion(test: TestSpec, entry: str) -> str:
    given = [repr(value) for value in test.args]
    given += [f"{key}={value!r}" for key, value in test.kwargs.items()]
    return f"assert {entry}({', '.join(given)}) == {test.expected!r}"


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _short(text: str, width: int = _NAME_WIDTH) -> str:
    text = " ".join(text.split()).removeprefix("assert ")
    return text if len(text) <= width else text[: width - 1] + "…"
