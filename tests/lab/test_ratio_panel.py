"""Updates on one batch: the walk that is taken, the walls, and the panel that shows it."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from rlkit.errors import UserError
from rlkit.lab.ratio_figures import KINDS, borders, counts
from rlkit.lab.ratio_panel import RatioPanel
from rlkit.lab.ratio_walk import NO_WALLS, Place, clip_objective, walk
from rlkit.objectives import GRPO, GSPO

REWARDS = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]


@pytest.fixture(scope="module")
def parts(untrained):
    """A policy and two groups that it drew; the second has no contrast."""
    from rlkit import LoraSpec, Policy, get_domain

    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
    groups = policy.generate(list(itertools.islice(get_domain("arith").stream(seed=0), 2)), 4, 6)
    return policy, groups, REWARDS


@pytest.fixture
def panel(parts, monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    return RatioPanel(*parts, most=4, learning_rate=0.05)


def place(ratios, silent=None, dead=None) -> Place:
    none = (False,) * len(ratios)
    return Place(1, tuple(ratios), tuple(silent or none), tuple(dead or none), 0.0)


# -- the walk -------------------------------------------------------------------------------


def test_a_place_counts_what_the_clip_took_and_what_had_no_gradient_anyway():
    # Four tokens: two are silent, one of them because its advantage is 0.
    here = place([1.0, 1.3, 0.7, 1.0], [False, True, False, True], [False, False, False, True])
    assert here.silent_share == 0.5
    assert here.held_share == 0.25
    # 1.3 is above 1.2 and 0.7 below 0.8; at walls of 0.7 and 1.3 both are within.
    assert here.outside(0.2, 0.2) == 0.5
    assert here.outside(0.31, 0.31) == 0.0


def test_its_objectives_are_grpo_and_gspo():
    assert clip_objective(0.2, 0.2).difference(GRPO(epsilon_high=0.2)) == {}
    assert clip_objective(3e-4, 4e-4, "sequence").difference(GSPO()) == {}


def test_it_begins_at_1_and_is_what_a_loop_by_hand_makes(parts):
    policy, groups, rewards = parts
    rollouts = [r for group in groups for r in group.rollouts]
    objective = clip_objective(0.2, 0.2)
    before = policy.fingerprint()
    places = walk(policy, rollouts, torch.tensor(rewards), objective, 2, 0.05)
    assert policy.fingerprint() == before
    assert [p.updates for p in places] == [0, 1, 2]
    assert max(abs(r - 1) for r in places[0].ratios) < 1e-4
    assert places[0].held_share == 0.0 and places[0].kl == pytest.approx(0.0, abs=1e-8)
    # The second group has no contrast: its tokens have no gradient from the start.
    dead = sum(len(r) for r in groups[1].rollouts) / sum(len(r) for r in rollouts)
    assert places[0].silent_share == pytest.approx(dead)

    kept = policy.snapshot()
    advantages = objective.advantages(torch.tensor(rewards))[0].flatten()
    optimizer = torch.optim.AdamW(policy.trainable().values(), lr=0.05, weight_decay=0.0)
    for _ in range(2):
        scored = policy.score(rollouts)
        found = objective.loss(scored.logprobs_NT, scored.behaviour_NT, advantages, scored.mask_NT)
        optimizer.zero_grad()
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.trainable().values(), 1.0)
        optimizer.step()
    with torch.no_grad():
        scored = policy.score(rollouts)
        gap = (scored.logprobs_NT - scored.behaviour_NT)[scored.mask_NT]
        found = objective.loss(scored.logprobs_NT, scored.behaviour_NT, advantages, scored.mask_NT)
    policy.restore(kept)
    assert places[2].ratios == pytest.approx(gap.exp().tolist(), rel=1e-4)
    assert places[2].held_share == pytest.approx(found.sums["clipped"] / found.sums["tokens"])
    # k3 the other way round: E[ratio - 1 - log ratio] under the policy that drew.
    assert places[2].kl == pytest.approx(float((gap.expm1() - gap).mean()), rel=1e-3)
    assert places[2].held_share > 0


def test_a_value_head_has_no_part_in_it(untrained, parts):
    from rlkit import LoraSpec, Policy
    from rlkit.policy.value_head import attach_value_head

    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
    attach_value_head(policy)
    rollouts = [r for group in parts[1] for r in group.rollouts]
    places = walk(policy, rollouts, torch.tensor(REWARDS), GRPO(), 1, 0.05)
    assert places[1].kl > 0


# -- the bars -------------------------------------------------------------------------------


def test_no_bar_lies_across_a_wall_and_every_token_is_in_one():
    far = place([0.001, 0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 9.0])
    edges = borders([far], 0.2, 0.2)
    assert any(math.isclose(e, 0.8) for e in edges) and any(math.isclose(e, 1.2) for e in edges)
    assert edges == sorted(edges)
    # What is beyond 0.25 and 4 is in the outermost bars.
    assert edges[0] == pytest.approx(0.25) and edges[-1] == pytest.approx(4.0)
    found = counts(far, edges)["has a gradient"]
    assert sum(found) == 8
    assert found[0] == 1 and found[-1] == 1
    below = sum(n for n, b in zip(found, edges[1:], strict=True) if b <= 0.8 + 1e-9)
    above = sum(n for n, a in zip(found, edges[:-1], strict=True) if a >= 1.2 - 1e-9)
    assert (below, above) == (3, 2)


def test_walls_that_are_nearly_one_line_have_one_bar_between():
    edges = borders([place([0.6, 1.0, 1.1])], 3e-4, 4e-4)
    inside = [e for e in edges if 0.9996 < e < 1.0005]
    assert inside == pytest.approx([0.9997, 1.0004])


def test_a_token_is_of_one_kind_only():
    here = place([1.0, 1.0, 1.0], [False, True, True], [False, False, True])
    found = counts(here, borders([here], 0.2, 0.2))
    assert {kind: sum(row) for kind, row in found.items()} == dict.fromkeys(KINDS, 1)


# -- the panel ------------------------------------------------------------------------------


def test_a_setting_is_walked_once(panel, monkeypatch):
    import rlkit.lab.ratio_panel as module

    calls = []

    def counted(*args, **more):
        calls.append(args[3])
        return walk(*args, **more)

    monkeypatch.setattr(module, "walk", counted)
    for updates in (0, 2, 4):
        panel.set(updates=updates)
        panel.figure()
    assert len(calls) == 1
    panel.set(low=0.05)
    assert panel.found.updates == 4 and len(calls) == 2
    panel.set(low=0.2)
    assert panel.found and len(calls) == 2


def test_wider_walls_hold_less_and_no_clip_holds_nothing(panel):
    held = {}
    for low in (0.01, 0.2, 0.9):
        panel.set(updates=3, low=low, high=low)
        held[low] = panel.found.held_share
    assert held[0.01] > held[0.2] >= held[0.9]
    panel.set(clip=False)
    assert panel.found.held_share == 0.0
    assert panel.places == panel.free
    assert clip_objective(NO_WALLS, NO_WALLS).epsilon == NO_WALLS


def test_of_a_whole_answer_all_tokens_share_one_ratio(panel, parts):
    panel.set(updates=2, level="sequence", low=3e-4, high=4e-4)
    ratios, at = panel.found.ratios, 0
    for rollout in (r for group in parts[1] for r in group.rollouts):
        assert len(set(ratios[at : at + len(rollout)])) == 1
        at += len(rollout)
    assert at == len(ratios)
    assert "0.9997 and 1.0004" in panel.status() and "ratio of the answer" in panel.status()


def test_what_makes_no_sense_is_refused_and_leaves_it_as_it_was(panel, parts):
    kept = panel.settings
    for changes, words in (
        ({"updates": 5}, "0 to 4"),
        ({"low": 0.0}, "between 0 and 1"),
        ({"high": -0.1}, "between 0 and 10"),
        ({"level": "word"}, "token or sequence"),
        ({"epochs": 3}, "no setting"),
    ):
        with pytest.raises(UserError, match=words):
            panel.set(**changes)
        assert panel.settings == kept
    policy, groups, _ = parts
    with pytest.raises(UserError, match="one reward for each answer"):
        RatioPanel(policy, groups, REWARDS[:1])
    with pytest.raises(UserError, match="no group has contrast"):
        RatioPanel(policy, groups, [[0.0] * 4, [1.0] * 4])
    with pytest.raises(UserError, match="at least 1 update"):
        RatioPanel(policy, groups, REWARDS, most=0)


def test_its_figures_can_be_read_without_being_seen(panel):
    panel.set(updates=4)
    for figure in (panel.figure(), panel.drift()):
        assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
        assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    table = panel.figure().layout.meta["table"]
    assert sum(sum(row[1:]) for row in table["rows"]) == len(panel.found.ratios)
    rows = panel.table().rows
    assert [row[0] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[4][2] == pytest.approx(100 * panel.found.held_share, abs=0.05)


def test_it_is_text_without_a_front_end_and_widgets_with_one(panel, parts, monkeypatch):
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    panel.set(updates=2)
    assert "2 updates on one batch of 8 answers" in str(panel)
    assert "nats a token without a clip" in str(panel)
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    shown = RatioPanel(*parts, most=2, learning_rate=0.05, high=0.33)
    c = shown._controls
    assert c.high.value == 0.33  # a value of its own is among the slider's
    said, plot = c.status.value, c.plot.shown
    c.updates.value = 2
    assert shown.settings.updates == 2
    assert c.status.value != said and c.plot.shown != plot
    c.level.value = "sequence"
    c.low.value, c.high.value = 0.0003, 0.0004
    c.clip.value = False
    assert vars(shown.settings) == {
        "updates": 2, "low": 0.0003, "high": 0.0004, "level": "sequence", "clip": False
    }  # fmt: skip
    shown.set(low=0.123)  # from outside, to a value that the slider lacks
    assert c.low.value == 0.123 and "no clip" in c.status.value
