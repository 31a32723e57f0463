"""Regions: sets of real numbers as unions of intervals and points.

What an inequality that is already solved, an interval, or a union says, in one
form: intervals in order, joined where they touch. Left out: solving.
"""

from __future__ import annotations

from itertools import pairwise

from rlkit.rewards.maths.answers import Answer, Interval, Items, Region, Relation, Scalar
from rlkit.rewards.maths.expression import Node
from rlkit.rewards.maths.tokens import Malformed
from rlkit.rewards.maths.trees import infinity, symbols
from rlkit.rewards.maths.values import real_order

_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def as_region(answer: Answer, pairs: bool = False) -> Region | None:
    """An answer as a set of reals, or `None`. With `pairs`, (1, 2) is an interval."""
    if isinstance(answer, Region):
        return answer
    if isinstance(answer, Interval):
        return Region((answer,))
    if isinstance(answer, Relation):
        return solved(answer)
    if isinstance(answer, Items) and answer.kind == "set":
        nodes = [i.node for i in answer.items if isinstance(i, Scalar)]
        return Region((), tuple(nodes)) if len(nodes) == len(answer.items) else None
    if pairs and isinstance(answer, Items) and len(answer.items) == 2:
        closed = answer.kind == "bracket"
        if answer.kind in ("tuple", "bracket") and all(
            isinstance(i, Scalar) and i.unit is None for i in answer.items
        ):
            low, high = (i.node for i in answer.items)
            return Region((Interval(low, high, closed, closed),))
    return None


def unite(regions: list[Region]) -> Region:
    variables = {r.variable for r in regions} - {None}
    if len(variables) > 1:
        raise Malformed("a union over two variables")
    return Region(
        tuple(i for r in regions for i in r.intervals),
        tuple(p for r in regions for p in r.points),
        variables.pop() if variables else None,
    )


def intersect(regions: list[Region]) -> Region | None:
    """x > 1 and x < 3 is one interval; anything harder is left as a list."""

    variables = {r.variable for r in regions}
    if len(regions) != 2 or len(variables) != 1 or any(
        len(r.intervals) != 1 or r.points for r in regions
    ):  # fmt: skip
        return None
    a, b = (r.intervals[0] for r in regions)
    if infinity(a.low) == -1 and infinity(b.high) == 1:
        a, b = b, a
    if infinity(a.high) == 1 and infinity(b.low) == -1:
        return Region((Interval(a.low, b.high, a.low_closed, b.high_closed),), (), variables.pop())
    return None


def without_points(points: list[Node]) -> Answer:

    infinity = ("const", "inf")
    ends = [("neg", infinity), *sorted(points, key=real_order), infinity]
    return Region(tuple(Interval(a, b, False, False) for a, b in pairwise(ends)))


def solved(relation: Relation) -> Region | None:
    """The solution set of `x < 3`, `1 < x <= 3`, `x != 0`, `x in (1, 2)`; else `None`.

    Only what is solved already: the variable stands alone.
    """

    if not all(isinstance(p, Scalar) for p in relation.parts):
        return None
    nodes = [p.node for p in relation.parts]
    ops = list(relation.operators)
    if len(nodes) == 2 and ops[0] in _MIRROR:
        (left, right), op = nodes, ops[0]
        if symbols(right) and not symbols(left):
            left, right, op = right, left, _MIRROR[op]
        if left[0] == "neg" and left[1][0] == "sym" and op != "=":  # -x > -3
            left, right, op = left[1], _negated(right), _MIRROR[op]
        if left[0] != "sym" or symbols(right):
            return None
        return _half_line(left[1], op, right)
    if len(nodes) == 3 and nodes[1][0] == "sym" and not (symbols(nodes[0]) | symbols(nodes[2])):
        low, variable, high = nodes
        if all(op in (">", ">=") for op in ops):
            low, high, ops = high, low, [_MIRROR[op] for op in reversed(ops)]
        if all(op in ("<", "<=") for op in ops):
            interval = Interval(low, high, ops[0] == "<=", ops[1] == "<=")
            return Region((interval,), (), variable[1])
    return None


def _negated(node: Node) -> Node:
    return node[1] if node[0] == "neg" else ("neg", node)


def _half_line(variable: str, op: str, end: Node) -> Region | None:
    infinity: Node = ("const", "inf")
    if op == "=":
        return Region((), (end,), variable)
    if op == "!=":
        left = Interval(("neg", infinity), end, False, False)
        return Region((left, Interval(end, infinity, False, False)), (), variable)
    closed = op.endswith("=")
    if op.startswith("<"):
        return Region((Interval(("neg", infinity), end, False, closed),), (), variable)
    return Region((Interval(end, infinity, closed, False),), (), variable)


def canonical(region: Region) -> Region:
    """Intervals in order, those that touch joined, empty ones gone, points inside them gone.

    Raises:
        Undefined: an end is no real constant.
    """
    rows = []
    for i in region.intervals:
        low, high = real_order(i.low), real_order(i.high)
        low_closed = i.low_closed and infinity(i.low) is None
        high_closed = i.high_closed and infinity(i.high) is None
        if low < high:
            rows.append((low, high, Interval(i.low, i.high, low_closed, high_closed)))
        elif low == high and low_closed and high_closed:
            rows.append((low, high, Interval(i.low, i.high, True, True)))
    rows += [(real_order(p), real_order(p), Interval(p, p, True, True)) for p in region.points]
    rows.sort(key=lambda row: (row[0], not row[2].low_closed, row[1]))
    joined: list = []
    for low, high, interval in rows:
        if joined:
            before_low, before_high, before = joined[-1]
            touches = low < before_high or (
                low == before_high and (interval.low_closed or before.high_closed)
            )
            if touches:
                if high > before_high:
                    end, end_closed, top = interval.high, interval.high_closed, high
                else:
                    end, top = before.high, before_high
                    end_closed = before.high_closed or (
                        high == before_high and interval.high_closed
                    )
                merged = Interval(before.low, end, before.low_closed, end_closed)
                joined[-1] = (before_low, top, merged)
                continue
        joined.append((low, high, interval))
    intervals = tuple(i for low, high, i in joined if low != high)
    points = tuple(i.low for low, high, i in joined if low == high)
    return Region(intervals, points, region.variable)
