"""Tests as other projects write them down, to and from ours.

Trainers that score programs (verl, and what follows PRIME, TACO, APPS or LiveCodeBench) keep the
tests of a task as one JSON object:

    {"inputs": ["1 2\\n", …], "outputs": ["3\\n", …]}                       stdin and stdout
    {"inputs": ["[3, 1]\\n2", …], "outputs": ["[1]", …], "fn_name": "f"}    one JSON value a line
    {"assert_case": ["assert f(2) == 4", …]}                               Python assertions

The first becomes mode `io`, the second `func`, the third `proxy`. What is stricter here stays
stricter: a job without tests is refused, and so is one whose every expected output is empty.

Left out on purpose: guessing. APPS wraps some expected values in a list, and only its reader
can know; say `wrapped=True`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.types import Job, TestSpec


def job_from_verl(
    source: str,
    tests: str | Mapping[str, Any],
    language: str = "python",
    *,
    checker: str = "exact",
    hidden: bool = False,
    wrapped: bool = False,
    **more: Any,
) -> Job:
    """A job from a program and its tests in verl's format.

    Args:
        source: the program.
        tests: the object, or its JSON text.
        language: of the program; other than Python for stdin and stdout only.
        checker: how printed text is compared, see `checkers`.
        hidden: whether the tests are hidden ones.
        wrapped: whether each expected value is wrapped in a list of one.
        more: further fields of `Job`.

    Raises:
        UserError: the tests have another shape, or there are none.

    >>> job = job_from_verl("def f(x, y): return x[:y]",
    ...                     {"inputs": ["[3, 1]\\n1"], "outputs": ["[3]"], "fn_name": "f"})
    >>> job.mode, job.tests[0].args, job.tests[0].expected
    ('func', ([3, 1], 1), [3])
    """
    told = _told(tests)
    if "assert_case" in told:
        cases = told["assert_case"]
        if isinstance(cases, str):
            cases = [cases]
        if not _texts(cases):
            raise UserError("assert_case must be a list of Python assertions")
        specs = [TestSpec(f"assertion {n}", code=c, hidden=hidden) for n, c in enumerate(cases, 1)]
        entry = told.get("fn_name") or ""
        return Job(language, source, specs, mode="proxy", entry=entry, **more)
    inputs, outputs = told.get("inputs"), told.get("outputs")
    if not (isinstance(inputs, Sequence) and isinstance(outputs, Sequence)) or isinstance(
        inputs, str
    ):
        raise UserError('tests need "inputs" and "outputs", two lists, or "assert_case"')
    if len(inputs) != len(outputs):
        raise UserError(f"there are {len(inputs)} inputs and {len(outputs)} outputs; give pairs")
    name = told.get("fn_name")
    specs = []
    for number, (given, wanted) in enumerate(zip(inputs, outputs, strict=True), 1):
        called = f"test {number}"
        if name:
            specs.append(
                TestSpec(
                    called,
                    args=_arguments(given, called),
                    expected=_expected(wanted, wrapped),
                    tuples_as_lists=True,  # JSON has no tuples,
                    mixed_numbers=True,  # and often writes 2.0 as 2
                    hidden=hidden,
                )
            )
        else:
            specs.append(
                TestSpec(
                    called,
                    stdin=_text(given, called),
                    expected=_text(wanted, called),
                    checker=checker,
                    hidden=hidden,
                )
            )
    mode = "func" if name else "io"
    return Job(language, source, specs, mode=mode, entry=name or "", **more)


def verl_from_job(job: Job) -> dict[str, Any]:
    """The tests of a job in verl's format.

    Raises:
        UserError: a test cannot be said in it: bytes, files, arguments of the command line,
            values that JSON has not, checkers that are functions.

    >>> job = Job(source="f = abs", entry="f", tests=[TestSpec("t", args=(-2,), expected=2)])
    >>> verl_from_job(job)
    {'inputs': ['-2'], 'outputs': ['2'], 'fn_name': 'f'}
    """
    if job.mode in ("proxy", "inproc"):
        told: dict[str, Any] = {"assert_case": [test.code for test in job.tests]}
        return {**told, "fn_name": job.entry} if job.entry else told
    if job.mode == "io":
        if job.args or job.files:
            raise UserError("this format has no arguments and no files; the job has")
        return {
            "inputs": [_plain_text(test, "stdin", test.stdin or "") for test in job.tests],
            "outputs": [_plain_text(test, "expected", test.expected) for test in job.tests],
        }
    inputs, outputs = [], []
    for test in job.tests:
        if test.kwargs:
            raise UserError(f"this format has no named arguments; test {test.name!r} has")
        inputs.append("\n".join(_json(test, value) for value in test.args))
        outputs.append(_json(test, test.expected))
    return {"inputs": inputs, "outputs": outputs, "fn_name": job.entry}


def _told(tests: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the tests are no JSON: {error}") from None
    if not isinstance(tests, Mapping):
        raise UserError(f"the tests must be an object, not {type(tests).__name__}")
    return tests


def _arguments(given: Any, called: str) -> tuple[Any, ...]:
    """Arguments of a call: a list of them, or one JSON value a line."""
    if isinstance(given, (list, tuple)):
        return tuple(given)
    if not isinstance(given, str):
        raise UserError(f"the input of {called} must be a list, or one JSON value a line")
    try:
        return tuple(json.loads(line) for line in given.split("\n") if line.strip())
    except (ValueError, RecursionError) as error:
        raise UserError(f"the input of {called} is not one JSON value a line: {error}") from None


def _expected(wanted: Any, wrapped: bool) -> Any:
    if isinstance(wanted, str):
        try:
            wanted = json.loads(wanted)
        except ValueError:
            return wanted  # a text that was never JSON
    if wrapped:
        if not isinstance(wanted, list) or len(wanted) != 1:
            raise UserError(f"wrapped=True, but {wanted!r:.80} is no list of one value")
        return wanted[0]
    return wanted


def _text(value: Any, called: str) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise UserError(f"{called} must have text as input and output, not {value!r:.80}")
    return value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _plain_text(test: TestSpec, what: str, value: Any) -> str:
    if test.argv or test.expected_files or not isinstance(test.checker, str):
        raise UserError(
            f"this format has only stdin and stdout; test {test.name!r} has more than that"
        )
    if not isinstance(value, str):
        raise UserError(f"{what} of test {test.name!r} is no text")
    return value


def _json(test: TestSpec, value: Any) -> str:
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"test {test.name!r} cannot be said in JSON: {error}") from None
    if json.loads(text) != _lists(value):
        raise UserError(f"test {test.name!r} cannot be said in JSON: it would change {value!r:.80}")
    return text


def _lists(value: Any) -> Any:
    """The value with tuples as lists, all that JSON changes without harm."""
    if isinstance(value, (list, tuple)):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value
