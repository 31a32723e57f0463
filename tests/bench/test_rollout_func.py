"""The comparison of generators inside TRL: it runs, takes turns, and says what it measured."""

from __future__ import annotations

import pytest

from rlkit.bench.rollout_func import Comparison, Side, measure
from rlkit.errors import UserError


def test_both_generators_take_turns(untrained):
    told = []
    found = measure(
        str(untrained),
        pairs=2,
        problems=2,
        group_size=2,
        max_new_tokens=4,
        quantize=None,
        domain="arith",
        say=told.append,
    )
    assert [line.split(", ")[1].split(":")[0] for line in told] == ["rlkit", "TRL"] * 3
    for side in (found.ours, found.theirs):
        assert len(side.seconds) == 2  # the first of each is left out
        assert side.fastest_s <= side.median_s <= side.slowest_s
        assert 0 < side.generation_s < side.slowest_s
        assert 4 <= side.tokens <= 16
    assert found.ratio == pytest.approx(found.theirs.median_s / found.ours.median_s)
    assert found.generator == "shared prefix, exact, float32"


def test_the_table_by_hand():
    ours = Side("rlkit", (1.0, 2.0, 4.0), 2.0, 1.0, 4.0, 0.5, 100.0)
    theirs = Side("TRL", (5.0, 5.0, 6.0), 5.0, 5.0, 6.0, 3.5, 101.0)
    found = Comparison("p", "float32 weights", "exact", 4, 8, 24, ours, theirs, 2.5)
    assert "| TRL | 5.00 | 3.50 | 5.00 | 6.00 | 101 |" in found.table()
    assert "takes 2.50 times as long" in found.table()


def test_sizes_out_of_range():
    with pytest.raises(UserError, match="group_size 2"):
        measure("tiny", group_size=1)
