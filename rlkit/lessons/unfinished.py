"""Tells an answer that was not written yet from one that is wrong.

A scaffold has `...` where the learner's code belongs. It counts as unfinished when it is
`...` or None itself, when its body still holds a `...`, raises NotImplementedError or is
empty, and, once it was run, when it gives `...` back. `x[..., 0]` and types such as
`tuple[int, ...]` are ordinary Python and do not count.

Left out on purpose: comments. A `# TODO` above finished code is no reason to complain.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

#: Stands for an answer whose name is not defined.
MISSING = object()


@dataclass(frozen=True)
class Gap:
    """A place where the learner's code is still to come.

    Attributes:
        sentence: what is there.
        certain: whether the answer cannot be right with it; a bare `...` on a line of its
            own may have been left above finished code.
    """

    sentence: str
    certain: bool


def gap_in_value(answer: Any) -> Gap | None:
    """The gap in an answer that is a value: undefined, None, `...`, or a list with `...`.

    >>> gap_in_value([0.5, ...]).sentence
    'a `...` still stands in it'
    >>> gap_in_value(0.5) is None
    True
    """
    if answer is MISSING:
        return Gap("nothing has this name yet", True)
    if answer is None:
        return Gap("it is `None` so far", True)
    if answer is ...:
        return Gap("it is `...` so far", True)
    parts = answer.values() if type(answer) is dict else answer
    if type(answer) in (dict, list, tuple, set) and any(part is ... for part in parts):
        return Gap("a `...` still stands in it", True)
    return None


def gap_in_source(source: str) -> Gap | None:
    """The first gap in the source of functions or classes; None where there is none.

    >>> gap_in_source("def f(x):\\n    return ...").sentence
    'line 2 still has `...` where your code belongs'
    >>> gap_in_source("def f(x):\\n    return x[..., 0]") is None
    True
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None  # a program that is given as text; it will be told when it is run
    ordinary = {id(inner) for node in ast.walk(tree) for inner in _ordinary(node)}
    bare, gaps = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_dots(node.value):
            bare.append(node.lineno)
            ordinary.add(id(node.value))
        elif isinstance(node, ast.Raise) and _name(node.exc) == "NotImplementedError":
            gaps.append((node.lineno, "raises `NotImplementedError`"))
        elif _is_dots(node) and id(node) not in ordinary:
            gaps.append((node.lineno, "has `...` where your code belongs"))
    if gaps:
        line, what = min(gaps)
        return Gap(f"line {line} still {what}", True)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_empty(node):
            return Gap(f"the body of `{node.name}` is still empty", True)
    if bare:
        return Gap(f"line {min(bare)} still has `...` where your code belongs", False)
    return None


def _ordinary(node: ast.AST) -> list[ast.AST]:
    """Every `...` below a node that means something in Python."""
    if isinstance(node, ast.Subscript):
        return list(ast.walk(node.slice))
    if isinstance(node, ast.AnnAssign):
        return list(ast.walk(node.annotation))
    if isinstance(node, ast.arg) and node.annotation is not None:
        return list(ast.walk(node.annotation))
    return []


def _is_dots(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _name(node: ast.AST | None) -> str | None:
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else None


def _is_empty(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is nothing but a docstring, `pass` and `...`."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )
