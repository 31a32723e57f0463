"""Trees: what can be seen of an expression without evaluating it.

Its variables, its decimals, the two expressions that a plus-minus stands for.
"""

from __future__ import annotations

from fractions import Fraction

from rlkit.rewards.maths.expression import Node, num


def symbols(node: Node) -> set[str]:
    """Names of the variables in a tree."""
    if node[0] == "sym":
        return {node[1]}
    if node[0] == "call":
        return {f"{node[1]}()"} | set().union(*(symbols(a) for a in node[2:]))
    return set().union(*(symbols(a) for a in node[1:] if isinstance(a, tuple)), set())


def has(node: Node, *heads: str) -> bool:
    """Whether one of these heads, or a constant of such a name, stands in the tree."""
    if node[0] in heads or (node[0] == "const" and node[1] in heads):
        return True
    if node[0] == "fn" and node[1] in heads:
        return True
    return any(has(a, *heads) for a in node[1:] if isinstance(a, tuple))


def has_decimals(node: Node) -> bool:
    if node[0] == "num":
        return node[2] is not None
    return any(has_decimals(a) for a in node[1:] if isinstance(a, tuple))


def expand_signs(node: Node) -> list[Node]:
    """The two trees that plus-minus stands for; all such signs of a tree move together.

    >>> len(expand_signs(("pm", num(0), num(2)))), len(expand_signs(num(2)))
    (2, 1)
    """
    if not has(node, "pm", "mp"):
        return [node]
    return [_with_sign(node, 1), _with_sign(node, -1)]


def _with_sign(node: Node, sign: int) -> Node:
    if node[0] in ("pm", "mp"):
        left, right = (_with_sign(a, sign) for a in node[1:])
        plus = (node[0] == "pm") == (sign == 1)
        return ("+", left, right if plus else ("neg", right))
    return tuple(_with_sign(a, sign) if isinstance(a, tuple) else a for a in node)


def infinity(node: Node) -> int | None:
    """+1 or -1 for a bare signed infinity, else `None`."""
    if node == ("const", "inf"):
        return 1
    if node[0] == "neg":
        inner = infinity(node[1])
        return None if inner is None else -inner
    return None


def literal_places(node: Node) -> int | None:
    """Digits after the point of a single decimal, its sign and power of ten included."""
    if node[0] == "num":
        return node[2]
    if node[0] == "neg":
        return literal_places(node[1])
    if node[0] == "*" and node[1][0] == "num" and node[1][2] is not None:
        ten, power = node[2][:2] if node[2][0] == "^" else (None, None)
        exponent = node[2][2] if ten == "^" and power == num(10) else None
        if exponent is not None and exponent[0] == "neg" and exponent[1][0] == "num":
            return node[1][2] + int(exponent[1][1])
        if exponent is not None and exponent[0] == "num":
            return node[1][2] - int(exponent[1])
    return None


def times(node: Node, factor: Fraction) -> Node:
    """A node times a factor; a bare number stays a bare number, with its decimals."""
    if factor == 1:
        return node
    if node[0] == "num":
        return num(node[1] * factor, None if node[2] is None else node[2] + 2)
    if node[0] == "neg":
        return ("neg", times(node[1], factor))
    return ("*", node, num(factor))


def same_constant_name(given: Node, wanted: Node) -> Node | None:
    """The given node with c for C, where only the case of the constant of integration differs."""
    a, b = symbols(given), symbols(wanted)
    for mine, theirs in (("c", "C"), ("C", "c")):
        apart = mine in a and theirs not in a and theirs in b and mine not in b and len(a) > 1
        if apart and _added(given, mine) and _added(wanted, theirs):
            return _renamed(given, mine, theirs)
    return None


def _added(node: Node, name: str) -> bool:
    """Whether the name stands alone as one summand of a sum."""
    if node[0] == "+":
        return _added(node[1], name) != _added(node[2], name)
    return node == ("sym", name)


def _renamed(node: Node, old: str, new: str) -> Node:
    if node == ("sym", old):
        return ("sym", new)
    return tuple(_renamed(a, old, new) if isinstance(a, tuple) else a for a in node)
