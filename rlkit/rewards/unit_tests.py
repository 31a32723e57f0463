"""Unit tests as problems state them, read into what the sandbox can judge.

Four ways to write a test: a call and its value (`{"args", "kwargs", "expected"}`, or
`{"fn", "args", "out"}`), input and output of a program (`{"stdin", "stdout"}`), and
assertions as text, also inside `def check(candidate)` or `def test_...()`. An assertion
that compares a call with a literal becomes a call and its value, judged by the host; any
other is code (`Tests.statements`), which runs in a process beside the program's (`grading.py`).

Columns that went through Arrow have `None` for keys that a test does not use, and some
data sets hold their tests as a JSON string: both are read.

Left out on purpose: `unittest.TestCase`, fixtures, parametrised tests.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import TestSpec

#: Floats of tests and of program output are equal within this distance.
TOLERANCE = 1e-6

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Tests:
    """What a column of tests holds, by kind.

    Attributes:
        calls: function to call, and the call with its expected value.
        programs: standard input, and what must be printed.
        statements: all other assertions, each with the lines before it; each goes on where
            the one before stopped.
    """

    __test__ = False

    calls: tuple[tuple[str, TestSpec], ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    statements: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.calls) + len(self.programs) + len(self.statements)


def read_tests(
    tests: Any, entry: str | None = None, tolerance: float = TOLERANCE, column: str = "tests"
) -> Tests:
    """Read the tests of one problem.

    Args:
        tests: a list of tests in any of the shapes above, or their text; None is no tests.
        entry: function that is called where a test does not name one.
        tolerance: for floats.
        column: where they stand, for messages.

    Raises:
        UserError: something in it is not a test.

    >>> tests = read_tests("assert f(1) == 2\\nassert f(-1) == 0")
    >>> [(name, spec.args, spec.expected) for name, spec in tests.calls]
    [('f', (1,), 2), ('f', (-1,), 0)]
    """
    if tests is None:
        return Tests()
    if isinstance(tests, str):
        if tests.lstrip().startswith(("[", "{")):
            try:
                tests = json.loads(tests)
            except ValueError:
                raise UserError(
                    f"column {column!r} holds a text that is neither JSON nor Python assertions: "
                    f"{tests[:60]!r}"
                ) from None
        else:
            return _read_assertions(tests, entry, tolerance, column)
    if isinstance(tests, Mapping):
        tests = [tests]
    if not isinstance(tests, Sequence):
        raise UserError(f"column {column!r} must hold a list of tests, not {type(tests).__name__}")
    calls: list[tuple[str, TestSpec]] = []
    programs: list[tuple[str, str]] = []
    statements: list[str] = []
    for number, test in enumerate(tests, 1):
        if isinstance(test, str):
            read = _read_assertions(test, entry, tolerance, column)
            calls += read.calls
            statements += read.statements
            continue
        if not isinstance(test, Mapping):
            raise UserError(f"test {number} in column {column!r} is {test!r}, not a test")
        given = {key: value for key, value in test.items() if value is not None}
        if "stdin" in given or "stdout" in given:
            programs.append((_text(given.get("stdin", "")), _text(given.get("stdout", ""))))
            continue
        name = given.get("fn") or given.get("call") or entry
        if not name or not {"args", "kwargs", "expected", "out"} & set(test):
            raise UserError(
                f"test {number} in column {column!r} has the keys {', '.join(map(str, test))}; "
                "give args and expected (and an entry, or fn), or stdin and stdout"
            )
        # A key that holds None is the value None, if the test has no other.
        wanted = given.get("expected", given.get("out"))
        calls.append((str(name).replace(":", "."), _spec(number, given, wanted, tolerance)))
    return Tests(tuple(calls), tuple(programs), tuple(statements))


def same_output(expected: str, got: str, tolerance: float = TOLERANCE) -> bool:
    """Is what a program printed what it should have printed?

    All lines count; white space at line ends and empty lines at the end do not. A number
    agrees with an expected decimal within `tolerance`, relative or absolute, and with an
    expected integer exactly.

    >>> same_output("1 0.333333333\\n", "1 0.333333 \\n\\n"), same_output("1\\n", "1\\n2\\n")
    (True, False)
    """
    ours, theirs = _lines(expected), _lines(got)
    return len(ours) == len(theirs) and all(
        a == b or _same_line(a, b, tolerance) for a, b in zip(ours, theirs, strict=True)
    )


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.rstrip().split("\n")]
    return lines if lines != [""] else []


def _same_line(expected: str, got: str, tolerance: float) -> bool:
    # The white space between the words is kept by the split and compared like the words.
    ours, theirs = re.split(r"(\s+)", expected), re.split(r"(\s+)", got)
    return len(ours) == len(theirs) and all(
        a == b or _same_number(a, b, tolerance) for a, b in zip(ours, theirs, strict=True)
    )


def _same_number(expected: str, got: str, tolerance: float) -> bool:
    if max(len(expected), len(got)) > 400:
        return False
    if not _NUMBER.fullmatch(expected) or not _NUMBER.fullmatch(got):
        return False
    if _INTEGER.fullmatch(expected):
        # Only the way of writing may differ: +7, 07, 7.0.
        whole, _, fraction = got.partition(".")
        exact = _INTEGER.fullmatch(whole) and not fraction.strip("0")
        return bool(exact) and int(whole) == int(expected)
    a, b = float(expected), float(got)
    return abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _spec(number: int, given: Mapping, expected: Any, tolerance: float) -> TestSpec:
    args = given.get("args", ())
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise UserError(f"args of test {number} must be a list of arguments, not {args!r}")
    return TestSpec(
        name=str(given.get("name", f"test {number}")),
        args=tuple(args),
        kwargs=given.get("kwargs", {}),
        expected=expected,
        tolerance=tolerance,
        tuples_as_lists=True,
        mixed_numbers=True,
    )


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _read_assertions(text: str, entry: str | None, tolerance: float, column: str) -> Tests:
    try:
        body = _flattened(ast.parse(text).body, entry)
    except SyntaxError as error:
        raise UserError(f"column {column!r} holds tests that are not Python: {error}") from None
    calls, before, statements = [], [], []
    own = (_bound(body) | set(dir(builtins))) - {entry}
    moved = False  # has the test changed something that a call by itself would not see?
    for node in body:
        found = None
        if isinstance(node, ast.Assert):
            found = None if moved else _as_call(node, own)
        elif not _asserts(node):
            before.append(node)
            moved = moved or _acts(node)
            continue
        if found is None:
            statements.append("\n".join(ast.unparse(part) for part in (*before, node)))
            before = []
            moved = moved or not isinstance(node, ast.Assert)
            continue
        name, args, kwargs, expected = found
        spec = TestSpec(
            f"test {len(calls) + 1}", args, kwargs, expected, tolerance, mixed_numbers=True
        )
        calls.append((name, spec))
    if not calls and not statements:
        raise UserError(f"column {column!r} holds tests without a single assertion: {text[:60]!r}")
    return Tests(tuple(calls), (), tuple(statements))


def _flattened(body: list[ast.stmt], entry: str | None) -> list[ast.stmt]:
    """Bodies of `def check(candidate)` and of `def test_...()` in place of the functions."""
    flat: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == "check" and len(node.args.args) == 1:
            if not entry:
                raise UserError("tests with check(candidate) need an entry: what is checked?")
            rename = _Renamed(node.args.args[0].arg, entry)
            flat += [rename.visit(part) for part in node.body]
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            flat += node.body
        elif not _is_call_of(node, "check"):
            flat.append(node)
    return flat


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return (
            ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node
        )


def _is_call_of(node: ast.stmt, name: str) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _bound(body: list[ast.stmt]) -> set[str]:
    """Names that the tests themselves give a meaning to."""
    bound = set()
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Import):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module in sys.stdlib_module_names:
            bound.update(alias.asname or alias.name for alias in node.names)
    return bound


def _asserts(node: ast.stmt) -> bool:
    """Is it a loop, a block or the like with assertions in it?"""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not isinstance(node, kinds) and any(
        isinstance(part, (ast.Assert, ast.Raise)) for part in ast.walk(node)
    )


def _acts(node: ast.stmt) -> bool:
    """May it change something that the calls after it would see?"""
    quiet = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, (ast.Call, ast.Await))
    return not isinstance(node, (*quiet, ast.Assign, ast.AnnAssign, ast.Pass))


def _as_call(node: ast.Assert, own: set[str]) -> tuple[str, tuple, dict, Any] | None:
    """`assert f(1) == 2` as function, arguments, named arguments and value; None for others."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = [test.left, test.comparators[0]]
    if not isinstance(sides[0], ast.Call):
        sides.reverse()
    call, value = sides
    if not isinstance(call, ast.Call) or any(k.arg is None for k in call.keywords):
        return None
    name = _dotted(call.func)
    if name is not None and name.partition(".")[0] in own:
        return None  # a function or an object of the test's own, or Python's
    try:
        expected = ast.literal_eval(value)
        args = tuple(ast.literal_eval(arg) for arg in call.args)
        kwargs = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    except (ValueError, TypeError):
        return None
    singleton = expected is None or type(expected) is bool
    known = isinstance(test.ops[0], ast.Eq) or (isinstance(test.ops[0], ast.Is) and singleton)
    return (name, args, kwargs, expected) if name and known else None


def _dotted(node: ast.expr) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None
