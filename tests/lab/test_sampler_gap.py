"""The gap between sampler and learner, by hand and on two real policies."""

from __future__ import annotations

import itertools
import math

import pytest

from rlkit import LoraSpec, Policy, get_domain
from rlkit.errors import UserError
from rlkit.lab.sampler_gap import DECADES, Gap, gap_figure, gap_of, gap_table, gaps_of_bases
from rlkit.policy.smol import has_smol


def test_weights_and_effective_sizes_by_hand():
    # Two answers: log ratios 0.5 + 0.5 = 1 and -1. Weights e and 1/e.
    gap = Gap("x", ((0.5, 0.5), (-1.0,)))
    assert gap.tokens == [0.5, 0.5, -1.0]
    assert gap.mean == pytest.approx(2 / 3) and gap.largest == 1.0
    assert gap.answer_weights == pytest.approx([math.e, 1 / math.e])
    # (e + 1/e)^2 / (2 (e^2 + 1/e^2)) = 9.5244 / 15.0488 = 0.6329.
    assert gap.effective("answer") == pytest.approx(0.6329, abs=1e-4)
    # Cut at 2: (2 + 0.3679)^2 / (2 (4 + 0.1353)) = 5.6069 / 8.2707 = 0.6779.
    assert gap.effective("answer", 2.0) == pytest.approx(0.6779, abs=1e-4)
    # e^0.5 = 1.65 is below 2; e = 2.72 is above.
    assert gap.held(2.0) == (0, 1)
    assert gap.held(1.5) == (2, 1)


def test_equal_policies_have_no_gap_and_another_base_has_one(untrained):
    domain = list(itertools.islice(get_domain("arith").stream(seed=0), 2))
    learner = Policy.load("tiny", quantize=None, lora=LoraSpec(rank=4), learner="model")
    same = gap_of(learner, learner.generate(domain, 4, 8), "itself", at_once=3)
    assert len(same.answers) == 8
    assert same.largest < 1e-3 and same.effective("answer") == pytest.approx(1, abs=1e-5)
    other = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4))
    groups = other.generate(domain, 4, 8)
    far = gap_of(learner, groups, "another base")
    assert far.mean > 0.5
    assert [len(answer) for answer in far.answers] == [
        len(r) for group in groups for r in group.rollouts
    ]
    with pytest.raises(UserError, match="no answers"):
        gap_of(learner, [], "nobody")


def test_table_and_figure_hold_every_token():
    gaps = [Gap("exact", ((0.0, 1e-7),)), Gap("far", ((0.02, -0.5, 3.0),))]
    figure = gap_figure(gaps, "title")
    assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    rows = figure.layout.meta["table"]["rows"]
    assert len(rows) == len(DECADES)
    for column in (1, 2):
        assert sum(row[column] for row in rows) == pytest.approx(100, abs=0.1)
    # Of "far" one each in 0.01 to 0.1, in 0.1 to 1, and 1 or more; 0 is in the first bar.
    assert [row[2] for row in rows][6:] == [33.33, 33.33, 33.33]
    assert rows[0][0] == "0 to 1e-07" and rows[-1][0] == "1 or more"
    assert rows[0][1] == 50
    table = gap_table(gaps)
    assert len(table.columns) == len(table.rows[0])
    assert table.rows[1][table.columns.index("tokens > 2")] == 1  # e^3


def test_the_base_before_nf4_is_farther_away_than_rounding():
    near, far = gaps_of_bases("tiny", "sort", 4, 4, 12)
    assert (near.name, far.name) == ("fast", "never quantised")
    assert len(near.answers) == len(far.answers) == 16
    assert far.mean > 3 * near.mean and far.mean > 0.005


@pytest.mark.timeout(300)
@pytest.mark.skipif(not has_smol(), reason="smol is not on this machine; `rlkit fetch smol`")
def test_of_smol_it_is_far_off():
    near, far = gaps_of_bases("smol", "pyfunc", 2, 2, 8)
    assert near.mean < 0.1 < far.mean
