"""Programs that pass the visible tests of "sort a list" and do not sort.

The visible tests are `VISIBLE`. Some of the programs know them by heart, others are right
for small cases only, as a lazy or a rewarded program is. Each is passed over in silence by a
test that does not look where it is wrong.

Left out on purpose: programs that look for the tests. Hidden tests never enter the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlkit.sandbox import Job, Limits, Sandbox, Status, TestSpec

VISIBLE = ([3, 1, 2], [2, 2], [])


@dataclass(frozen=True)
class ByHeart:
    """One program that does not sort.

    Attributes:
        does: what it does instead, to follow "a program that".
        source: its text.
    """

    does: str
    source: str


_TABLE = "KNOWN = {(3, 1, 2): [1, 2, 3]}\n"
BY_HEART = (
    ByHeart("knows the first test and gives back the rest",
            _TABLE + "def f(x): return KNOWN.get(tuple(x), x)"),
    ByHeart("moves the first number to the end",
            "def f(x): return x[1:] + x[:1]"),
    ByHeart("goes through the list once and swaps neighbours",
            "def f(x):\n    x = list(x)\n    for i in range(len(x) - 1):\n"
            "        if x[i] > x[i + 1]: x[i], x[i + 1] = x[i + 1], x[i]\n    return x"),
    ByHeart("sorts the first three numbers only", "def f(x): return sorted(x[:3]) + x[3:]"),
    ByHeart("sorts numbers as text, so that 10 comes before 9",
            "def f(x): return sorted(x, key=str)"),
    ByHeart("forgets the sign", "def f(x): return sorted(x, key=abs)"),
    ByHeart("keeps no number more than twice",
            "def f(x): return [v for i, v in enumerate(sorted(x)) "
            "if sorted(x)[:i].count(v) < 2]"),
    ByHeart("loses every zero", "def f(x): return sorted(v for v in x if v != 0)"),
    ByHeart("counts, and knows no number above 100",
            "def f(x): return [v for v in range(-100, 101) for _ in range(x.count(v))]"),
)  # fmt: skip


def unnoticed(hidden: Sequence[list[int]]) -> list[ByHeart]:
    """Which of the programs pass the visible tests and all of these hidden ones.

    Args:
        hidden: lists to be sorted.

    >>> [program.does for program in unnoticed([[3, 2, 1, 0], [10, 9]])][0]
    'forgets the sign'
    """
    tests = [
        TestSpec(f"test {n + 1}", args=(list(given),), expected=sorted(given), hidden=n >= 3)
        for n, given in enumerate([*VISIBLE, *hidden])
    ]
    with Sandbox(Limits(wall_s=2.0), allow_unsafe=True) as sandbox:
        verdicts = sandbox.run_many(
            [Job(source=program.source, entry="f", tests=tests) for program in BY_HEART]
        )
    pairs = zip(BY_HEART, verdicts, strict=True)
    return [program for program, verdict in pairs if verdict.status is Status.PASS]
