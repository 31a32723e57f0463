"""A frozen batch under other settings: the numbers of the objective, and its panel."""

from __future__ import annotations

import itertools

import pytest
import torch

from rlkit.errors import UserError
from rlkit.lab.loss_panel import LossPanel


@pytest.fixture
def parts(untrained):
    """A policy that has moved a little, a batch from before, and its rewards."""
    from rlkit import LoraSpec, Policy, get_domain

    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
    problems = list(itertools.islice(get_domain("arith").stream(seed=0), 2))
    groups = policy.generate(problems, 4, 6)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter += 0.05 * torch.randn(parameter.shape, generator=draw)
    return policy, groups, [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]


@pytest.fixture
def panel(parts, monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    return LossPanel(*parts)


def test_its_numbers_are_those_of_a_backward_pass(panel, parts):
    policy, groups, rewards = parts
    rollouts = [r for group in groups for r in group.rollouts]
    scored = policy.score(rollouts)
    advantages = panel.objective.advantages(torch.tensor(rewards))[0].flatten()
    policy.model.zero_grad()
    found = panel.objective.loss(
        scored.logprobs_NT, scored.behaviour_NT, advantages, scored.mask_NT
    )
    found.loss.backward()
    norm = torch.cat([p.grad.flatten() for p in policy.trainable().values()]).norm()
    assert panel.found.loss == pytest.approx(float(found.loss.detach()), abs=1e-6)
    assert panel.found.grad_norm == pytest.approx(float(norm), rel=1e-4)
    assert panel.found.grad_norm > 0 and panel.found.kl > 0
    assert panel.found.zero_std == 0.5  # the second of two groups is all alike
    # Without beta, a group without contrast is not pulled at all.
    assert panel.found.pulls[4:] == [0, 0, 0, 0]


def test_every_slider_moves_what_it_says(panel):
    before = panel.found
    panel.set(beta=1.0)
    assert any(panel.found.pulls[4:])  # the leash pulls on those, too
    panel.set(beta=0.0, epsilon=0.001)
    assert panel.found.clipped > before.clipped
    panel.set(epsilon=0.2, temperature=1.5)
    assert panel.found.ratio_error != before.ratio_error
    panel.set(temperature=1.0, group_size=2)
    assert len(panel.found.pulls) == 4
    panel.set(group_size=4, std=False)
    panel.set(std=True)
    assert panel.found == before


def test_ratios_are_1_until_the_temperature_is_another(untrained, monkeypatch):
    from rlkit import LoraSpec, Policy, get_domain

    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
    groups = policy.generate(list(itertools.islice(get_domain("arith").stream(seed=0), 1)), 4, 6)
    panel = LossPanel(policy, groups, [[1.0, 0.0, 0.0, 1.0]])
    assert panel.found.ratio_error < 1e-4 and panel.found.kl == pytest.approx(0, abs=1e-6)
    panel.set(temperature=1.5)
    assert panel.found.ratio_error > 1e-3


def test_it_never_changes_the_policy(panel, parts):
    policy = parts[0]
    before = policy.fingerprint()
    panel.set(beta=0.5, temperature=0.8)
    assert policy.fingerprint() == before
    assert all(p.requires_grad for p in policy.trainable().values())


def test_what_makes_no_sense_is_refused_and_leaves_it_as_it_was(panel, parts):
    kept = panel.found
    for changes, words in (
        ({"group_size": 1}, "2 to 4 answers"),
        ({"temperature": 0.0}, "above 0"),
        ({"beta": -1.0}, "from 0 up"),
        ({"G": 3}, "no setting"),
    ):
        with pytest.raises(UserError, match=words):
            panel.set(**changes)
        assert panel.found == kept
        assert panel.objective.beta == 0.0
    policy, groups, rewards = parts
    with pytest.raises(UserError, match="one reward for each answer"):
        LossPanel(policy, groups, rewards[:1])


def test_it_is_text_without_a_front_end_and_widgets_with_one(panel, parts, monkeypatch):
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "length of the gradient" in str(panel)
    assert "2 right answers" in panel.figure().layout.meta["alt"]
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    shown = LossPanel(*parts)
    c = shown._controls
    table, plot = c.table.value, c.plot.shown
    c.beta.value = 1.0
    assert shown.settings.beta == 1.0 and c.table.value != table and c.plot.shown != plot
    c.temperature.value = 1.5
    c.epsilon.value = 0.05
    c.group_size.value = 2
    c.std.value = False
    assert vars(shown.settings) == {
        "group_size": 2, "epsilon": 0.05, "beta": 1.0, "temperature": 1.5, "std": False
    }  # fmt: skip
    assert "Dr. GRPO" in c.table.value


def test_sliders_follow_what_a_line_of_code_sets(parts, monkeypatch):
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    shown = LossPanel(*parts)
    scored = []
    monkeypatch.setattr(shown, "_numbers", lambda *a: scored.append(a) or shown.found)
    shown.set(beta=0.1, epsilon=0.123)  # the second stands on no list
    assert shown._controls.beta.value == 0.1 and shown._controls.epsilon.value == 0.123
    assert len(scored) == 1  # moving the widgets asks for nothing again
