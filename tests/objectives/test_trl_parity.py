"""Equal to TRL 1.16 to 1e-5 in float32; where it is not, on purpose, with the numbers.

The pairs and the way they are run are in `trl_parity.py`; docs/objectives.md explains the
differences that are asserted here.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from rlkit.objectives import GRPO, RLOO, DrGRPO

NAMES = (
    "GRPO, scale `group`",
    "scale `batch`",
    "scale `none`",
    "weights of parts",
    "abstentions",
    "GDPO (`normalize_then_sum`)",
    "GDPO with abstentions",
    "`grpo`, sequence mean",
    "DAPO (`dapo`, clip-higher)",
    "Dr. GRPO (`dr_grpo`)",
    "`bnpo`, whole batch",
    "CISPO (`cispo`)",
    "CISPO, cap 1.1",
    "SAPO (`sapo`)",
    "GSPO (level `sequence`)",
    "two-sided clip (`delta`)",
    "k3 in the loss, plain",
    "k3 in the loss, weighted",
    "GSPO, k3 weighted",
    "entropy bonus",
    "top 20 % by entropy",
    "top 20 % and entropy bonus",
    "truncated masked",
    "three micro-batches, `dapo`",
    "three micro-batches, `grpo`",
    "three micro-batches, `dr_grpo`",
    "three micro-batches, `cispo`",
    "truncated masked, three micro-batches",
    "TIS, token",
    "TIS, sequence",
    "IcePop band",
    "sequence mask",
    "RLOO",
    "RLOO, abstentions",
    "RLOO, k1 in the reward",
)
#: Pairs that mean the same on this batch, and so have one gradient.
SAME = (
    {"GRPO, scale `group`", "`bnpo`, whole batch", "three micro-batches, `dapo`"},
    {"`grpo`, sequence mean", "three micro-batches, `grpo`"},
    {"Dr. GRPO (`dr_grpo`)", "three micro-batches, `dr_grpo`"},
    {"CISPO (`cispo`)", "three micro-batches, `cispo`"},
)


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_trl(parity, peers, name) -> None:
    (pair,) = [p for p in parity.PAIRS if p.name == name]
    mine, theirs = pair.both(peers)
    assert float(theirs.gradient_NT.abs().max()) > 1e-4  # there is something to compare
    assert mine.largest_difference(theirs) < 1e-5


def test_every_pair_is_in_the_list_and_each_setting_makes_a_difference(parity, peers) -> None:
    """Were a setting ignored by both sides, two pairs would have one gradient."""
    assert {p.name for p in parity.PAIRS} == set(NAMES)
    found = {p.name: p.both(peers)[1].gradient_NT for p in parity.PAIRS}
    for a in NAMES:
        for b in NAMES:
            alike = bool(torch.allclose(found[a], found[b], atol=1e-6))
            assert alike == (a == b or any({a, b} <= group for group in SAME)), (a, b)


def test_the_table_in_the_docs_is_of_these_pairs(parity) -> None:
    text = parity.DOCS.read_text("utf-8")
    table = text.split(parity.MARKS[0])[1].split(parity.MARKS[1])[0]
    rows = re.findall(r"^\| (.+?) \| (\S+) \| (\S+) \| (\S+) \|$", table, flags=re.M)[1:]
    rows = [row for row in rows if row[0] in NAMES]
    assert [row[0] for row in rows] == [p.name for p in parity.PAIRS]
    assert all(float(value) < 1e-5 for row in rows for value in row[1:])


# -- different on purpose -------------------------------------------------------------------


def test_on_purpose_equal_rewards_leave_no_residue(parity, peers) -> None:
    """0.6 six times in float32: its deviation is about 6e-8, which over 1e-4 is 6e-4."""
    batch = parity.frozen_batch()
    batch.rewards_NK[:] = torch.tensor([0.6, 0.0])
    batch.group_size = 6
    theirs = peers["grpo"].run(batch, num_generations=6, **parity._grpo())
    assert 1e-4 < theirs.advantages_N.abs().max() < 1e-3
    assert peers["grpo"].trainer._metrics["train"]["frac_reward_zero_std"][-1] == 0.0
    mine = parity.ours(GRPO(), batch)
    assert mine.advantages_N.abs().max() == 0
    _, alive_B = GRPO().advantages(batch.rewards_NK.sum(-1).view(-1, 6))
    assert alive_B.tolist() == [False, False]


@pytest.mark.parametrize(
    "objective, settings",
    [
        (GRPO(normaliser="sequence"), {"loss_type": "grpo"}),
        (DrGRPO(), {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    ],
)
def test_on_purpose_masked_answers_leave_the_denominator_too(
    parity, peers, objective, settings
) -> None:
    """3 of 12 answers were cut: TRL still divides by 12, we by the 9 that take part."""
    batch = parity.frozen_batch()
    assert int(batch.cut_N.sum()) == 3
    settings = parity._grpo(**settings, mask_truncated_completions=True)
    theirs = peers["grpo"].run(batch, **settings)
    mine = parity.ours(replace(objective, mask_truncated=True), batch)
    torch.testing.assert_close(mine.gradient_NT * 9 / 12, theirs.gradient_NT, atol=1e-6, rtol=0)
    torch.testing.assert_close(mine.loss * 9 / 12, theirs.loss, atol=1e-6, rtol=0)


def test_on_purpose_nothing_depends_on_how_a_batch_is_cut(parity, peers) -> None:
    """TRL's `bnpo`, and its entropy threshold, are those of each micro-batch."""
    batch = parity.frozen_batch()
    for settings, objective in (
        (parity._grpo("bnpo"), GRPO()),
        (parity._grpo(top_entropy_quantile=0.2), GRPO(top_entropy=0.2)),
    ):
        whole = peers["grpo"].run(batch, **settings).gradient_NT
        cut = peers["grpo"].run(batch, parts=3, **settings).gradient_NT
        assert float((whole - cut).abs().max()) > 1e-3
        mine = parity.ours(objective, batch, parts=3).gradient_NT
        torch.testing.assert_close(mine, whole, atol=1e-6, rtol=0)


def test_on_purpose_rloo_does_not_leave_a_division_to_its_caller(parity, peers) -> None:
    """TRL returns the mean of a micro-batch, which its base trainer divides by their number."""
    batch = parity.frozen_batch()
    cut = peers["rloo"].run(batch, parts=3)
    mine = parity.ours(RLOO(), batch, parts=3)
    torch.testing.assert_close(mine.loss, cut.loss / 3, atol=1e-6, rtol=0)
    torch.testing.assert_close(mine.gradient_NT, cut.gradient_NT / 3, atol=1e-6, rtol=0)
