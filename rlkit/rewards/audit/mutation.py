"""Mutation: right answers made wrong, one small change at a time.

Numbers get a neighbour, another sign, a lost or an added digit. Programs are changed in
their syntax tree, the way people get them wrong: a comparison turned, branches swapped,
a constant off by one, plus for minus, a `not`, a lost `+ 1`. A program that was changed
may still be right; the sandbox says which ones are, with more inputs than the reward's
own tests, and those do not count.

Source of the idea: mutation testing (DeMillo, Lipton and Sayward 1978), turned on the
reward instead of on the tests. Left out: changes of more than one place.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def mutate_number(text: str) -> dict[str, str]:
    """Wrong neighbours of a number, by what was done to it.

    >>> mutate_number("42")["one more"], mutate_number("42")["sign"]
    ('43', '-42')
    >>> mutate_number("no number")
    {}
    """
    if not _NUMBER.fullmatch(text):
        return {}
    value = Fraction(text)
    step = Fraction(1) if value.denominator == 1 else Fraction(1, 10)
    found = {
        "one more": value + step,
        "one less": value - step,
        "sign": -value,
        "ten times": value * 10,
        "doubled": value * 2,
        "ten more": value + 10,
    }
    texts = {name: _written(new) for name, new in found.items() if new != value}
    digits = text.lstrip("-")
    if len(digits) > 1 and digits.isdigit():
        sign = "-" if text.startswith("-") else ""
        for name, changed in (
            ("digits swapped", digits[1] + digits[0] + digits[2:]),
            ("last digit lost", digits[:-1]),
            ("last digit doubled", digits + digits[-1]),
        ):
            if int(changed) != int(digits):
                texts[name] = sign + changed
    return texts


def mutate_list(text: str, separator: str = " ") -> dict[str, str]:
    """Wrong neighbours of a list of words: two exchanged, one lost, one twice, backwards.

    >>> mutate_list("1 2 3")["first two exchanged"]
    '2 1 3'
    """
    words = text.split(separator)
    if len(words) < 2:
        return {}
    found = {
        "first two exchanged": [words[1], words[0], *words[2:]],
        "last two exchanged": [*words[:-2], words[-1], words[-2]],
        "first lost": words[1:],
        "last lost": words[:-1],
        "last twice": [*words, words[-1]],
        "backwards": words[::-1],
    }
    return {name: separator.join(new) for name, new in found.items() if new != words}


def _written(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"


# -- programs ---------------------------------------------------------------------------

_COMPARE: Mapping[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Mapping[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "upper": "lower"}


def mutate_program(source: str) -> dict[str, str]:
    """Programs with one place changed, by what was done and in which line.

    >>> sorted(mutate_program("def f(x):\\n    return x + 1"))
    ['constant 1 in line 2', 'nothing returned in line 2', 'operator 1 in line 2']
    """
    tree = ast.parse(source)
    found: dict[str, str] = {}
    seen = {ast.unparse(tree)}
    for place, node in enumerate(ast.walk(tree)):
        for what, change in _changes(node):
            mutant = copy.deepcopy(tree)
            change(next(n for i, n in enumerate(ast.walk(mutant)) if i == place))
            text = ast.unparse(ast.fix_missing_locations(mutant))
            if text not in seen:
                seen.add(text)
                number = sum(name.startswith(what) for name in found) + 1
                label = what if what == "nothing returned" else f"{what} {number}"
                found[f"{label} in line {node.lineno}"] = text
    return found


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """What can be done to this node: words, and the change itself."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield "comparison", _set_comparison
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield "operator", _set_operator
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", _add_one
    elif isinstance(node, ast.BoolOp):
        yield "and or", _swap_boolean
    elif isinstance(node, (ast.If, ast.IfExp)) and node.orelse:
        yield "branches swapped", _swap_branches
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "nothing returned", _return_nothing
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "sign", _drop_sign
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield "function", _swap_name


def _set_comparison(node: ast.Compare) -> None:
    node.ops[0] = _COMPARE[type(node.ops[0])]()


def _set_operator(node: ast.BinOp) -> None:
    node.op = _ARITHMETIC[type(node.op)]()


def _add_one(node: ast.Constant) -> None:
    node.value += 1


def _swap_boolean(node: ast.BoolOp) -> None:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _swap_branches(node: Any) -> None:
    node.body, node.orelse = node.orelse, node.body


def _return_nothing(node: ast.Return) -> None:
    node.value = ast.Constant(None)


def _drop_sign(node: ast.UnaryOp) -> None:
    node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
    if isinstance(node.op, ast.Not):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _swap_name(node: ast.Name) -> None:
    node.id = _NAMES[node.id]


def really_wrong(
    mutants: Mapping[str, str], entry: str, truth: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """The mutants that fail at least one of these tests, seen by running them in the sandbox."""
    from rlkit.sandbox import Job, Limits, Sandbox, TestSpec

    tests = [
        TestSpec(f"truth {i}", args=tuple(t["args"]), expected=t["expected"])
        for i, t in enumerate(truth)
    ]
    with Sandbox(Limits(wall_s=2.0, cpu_s=1.0)) as sandbox:
        jobs = [Job(source=source, entry=entry, tests=tests) for source in mutants.values()]
        verdicts = sandbox.run_many(jobs)
    return {
        name: source
        for (name, source), verdict in zip(mutants.items(), verdicts, strict=True)
        if verdict.reward is not None and verdict.reward < 1.0
    }
