"""Relations: what an equation or inequality says, as far as a grader needs it.

Which variable it gives a value to, what value it asserts, and whether it is the
same equation up to a factor. Left out: solving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlkit.rewards.maths.answers import Answer, Items, Relation, Scalar, Words
from rlkit.rewards.maths.expression import Node
from rlkit.rewards.maths.trees import has, symbols
from rlkit.rewards.maths.values import TooLarge, Undefined, value_of


def assigned(relation: Answer) -> tuple[str | None, Answer | None]:
    """Name and value of `x = 5`, `f(x) = ...`, `Area = 5`; (None, None) for any other relation."""
    if not isinstance(relation, Relation) or len(relation.parts) != 2:
        return None, None
    if relation.operators[0] not in ("=", "~"):
        return None, None
    left, right = relation.parts
    if isinstance(left, Words):
        return left.text, right
    if isinstance(left, Items) and left.kind == "tuple" and isinstance(right, Items):
        return "tuple", right
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        if _is_name(left.node) and not symbols(left.node) & symbols(right.node):
            return _name(left.node), right
        if left.node[0] == "call":
            return _name(left.node), right
        if _is_name(right.node) and not symbols(left.node):
            return _name(right.node), left
    elif isinstance(left, Scalar) and _is_name(left.node):
        return _name(left.node), right
    return None, None


def _is_name(node: Node) -> bool:
    return node[0] in ("sym", "call") or node in (("const", "e"), ("const", "i"))


def _name(node: Node) -> str:
    return str(node[1])


def asserted(
    relation: Relation, same: Callable[[Scalar, Scalar], bool | None]
) -> list[Answer] | None:
    """The values that a chain of equations gives, when its parts agree; `None` when it does not.

    `x = 5` gives 5, `S = 2 + 2 = 4` gives 4, `m + n = 7` gives 7. `5 = 6` and `2x = 10`
    give nothing.
    """
    if any(op not in ("=", "~") for op in relation.operators):
        return None
    parts = list(relation.parts)
    value = assigned(relation)[1]
    if value is not None:
        return [value]
    first = parts[0]
    if isinstance(first, Words) or (isinstance(first, Scalar) and _is_quantity(first.node)):
        parts = parts[1:]
        if isinstance(first, Scalar) and any(
            not isinstance(p, Scalar) or symbols(p.node) & symbols(first.node) for p in parts
        ):
            return None
        operators = relation.operators[1:]
    else:
        operators = relation.operators
        if isinstance(first, Scalar) and symbols(first.node):
            return None
    if not all(isinstance(p, Scalar) for p in parts):
        return None
    values = [p for p in parts if isinstance(p, Scalar)]
    for n, op in enumerate(operators):
        a, b = values[n], values[n + 1]
        if op == "=" and same(a, b) is not True:
            return None
        if op == "~" and not _roughly(a.node, b.node):
            return None
    return [values[0], *(v for v, op in zip(values[1:], operators, strict=True) if op == "~")]


def _is_quantity(node: Node) -> bool:
    """A name, or a sum or product of different names: m + n, xy."""
    if _is_name(node):
        return True
    if node[0] in ("+", "*"):
        return (
            _is_quantity(node[1])
            and _is_quantity(node[2])
            and not symbols(node[1]) & symbols(node[2])
        )
    return False


def _roughly(a: Node, b: Node) -> bool:
    try:
        x, y = value_of(a), value_of(b)
        return abs(float(x) - float(y)) <= 0.01 * max(abs(float(x)), abs(float(y)))
    except (TooLarge, Undefined, ArithmeticError, TypeError, KeyError):
        return False


def difference(relation: Relation) -> tuple[Node, str] | None:
    """Left minus right, and the operator."""
    left, right = relation.parts
    if not isinstance(left, Scalar) or not isinstance(right, Scalar):
        return None
    if any(has(x.node, "call", "inf", "base", "pm", "mp") for x in (left, right)):
        return None
    return ("+", left.node, ("neg", right.node)), relation.operators[0].replace("~", "=")


def named_apart(items: Sequence[Answer]) -> bool:
    """Whether the items assign values to different variables."""
    names = [assigned(i)[0] for i in items]
    return len(names) > 1 and None not in names and len(set(names)) > 1
