"""What a problem asks of a program: its tests by group, and the package it must fit into.

A package is small: a few modules given as text. The candidate's text is spliced into the
module that holds the function it replaces, where that function stood, so it sees the
module's other names, and what it defines beside the function may break its neighbours, as
in real work. Splicing is done on text; nothing is run here.

Left out on purpose: candidates that replace a method, or several functions at once.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.unit_tests import TOLERANCE, Tests, read_tests

#: Groups of tests, in the order in which they are told.
GROUPS = ("tests", "hidden_tests", "compatibility")
#: All levels, from the first hurdle to the last.
LEVELS = ("extract", "parse", "import", "run", *GROUPS)


@dataclass(frozen=True)
class Task:
    """What a problem asks of a program.

    Attributes:
        entry: function that the tests call; empty for whole programs.
        groups: tests by the name of their group, see `GROUPS`.
        package: source by module name; the candidate's function goes into one of them.
        replaces: `module:function`, which the candidate stands in for.
        tolerance: for floats in what programs print.
    """

    entry: str = ""
    groups: Mapping[str, Tests] = field(default_factory=dict)
    package: Mapping[str, str] = field(default_factory=dict)
    replaces: str = ""
    tolerance: float = TOLERANCE


def make_task(
    tests: Any = None,
    hidden_tests: Any = None,
    entry: str | None = None,
    package: Mapping[str, str] | None = None,
    replaces: str | None = None,
    caller_tests: Any = None,
    tolerance: float = TOLERANCE,
) -> Task:
    """Read the columns of one problem, see `code_reward`.

    Raises:
        UserError: a column is not what it must be, or there is nothing to test.
    """
    if package:
        module, _, function = (replaces or "").partition(":")
        if module not in package or not function.isidentifier():
            raise UserError(
                f"replaces={replaces!r} must name a function of the package as 'module:function'; "
                f"its modules are {', '.join(package)}"
            )
        if taken := sorted({name.split(".")[0] for name in package} & sys.stdlib_module_names):
            raise UserError(f"the module {taken[0]!r} of the package has a name of Python's own")
        splice(package[module], function, "")  # the package must have such a function
        entry = f"{module}.{function}"
    elif caller_tests:
        raise UserError("caller_tests need the package whose callers they test")
    groups = {
        "tests": read_tests(tests, entry, tolerance, "tests"),
        "hidden_tests": read_tests(hidden_tests, entry, tolerance, "hidden_tests"),
        "compatibility": read_tests(caller_tests, None, tolerance, "caller_tests"),
    }
    groups = {name: tests for name, tests in groups.items() if len(tests)}
    if not groups:
        raise UserError("a problem without a single test proves nothing; give tests")
    for name, group in groups.items():
        if package and (group.programs or group.statements):
            raise UserError(
                f"{name} of a package must be calls with a value: give call, args and expected, "
                "or assertions that compare a call with a literal"
            )
    if package:
        # Tests of the function may name it without its module.
        groups = {
            name: replace(group, calls=tuple((_full(n, package, entry), s) for n, s in group.calls))
            for name, group in groups.items()
        }
    names = [call[0] for group in groups.values() for call in group.calls]
    return Task(
        entry or (names[0] if names else ""), groups, package or {}, replaces or "", tolerance
    )


@lru_cache(maxsize=1024)
def splice(module: str, function: str, candidate: str) -> str:
    """The module's source with the candidate's text in place of one of its functions.

    Raises:
        UserError: the module has no such function, or does not parse.

    >>> print(splice("A = 1\\ndef f(x):\\n    return A\\nB = f(2)", "f", "def f(x): return x"))
    A = 1
    <BLANKLINE>
    def f(x): return x
    <BLANKLINE>
    B = f(2)
    """
    try:
        body = ast.parse(module).body
    except SyntaxError as error:
        raise UserError(f"the module whose {function}() is replaced is broken: {error}") from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in body if isinstance(node, kinds) and node.name == function]
    if not found:
        raise UserError(f"the module has no function {function}() at its top level to replace")
    node = found[-1]
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    lines = module.split("\n")
    future, candidate = _without_future(candidate)
    before = "\n".join([*future, *lines[: first - 1]])
    return "\n".join([before, "", candidate, "", *lines[node.end_lineno :]])


def _without_future(source: str) -> tuple[list[str], str]:
    """Imports from `__future__`, which must stand first in a module, and the rest."""
    lines = source.split("\n")
    future = [line for line in lines if line.startswith("from __future__ import ")]
    return future, "\n".join(line for line in lines if line not in future)


def _full(name: str, package: Mapping[str, str], entry: str) -> str:
    if name == entry.rpartition(".")[2]:
        return entry
    module = name.rpartition(".")[0]
    if module not in package:
        raise UserError(
            f"a test calls {name!r}, which is no 'module:function' of the package; "
            f"its modules are {', '.join(package)}"
        )
    return name
