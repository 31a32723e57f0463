"""Trainability: unbiased estimates, verdicts with reasons, and a probe that leaves no trace."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.loop import LoopConfig
from rlkit.loop.contrast import chance_of_contrast, pass_at
from rlkit.loop.trainability import trainability
from rlkit.loop.verdicts import Seen, judge_problems
from rlkit.objectives import PPO
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.value_head import value_head
from rlkit.rewards import Reward
from rlkit.tasks import get_domain

values = st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=2, max_size=8)


@given(values, st.integers(2, 8))
def test_the_chance_is_a_count_of_all_ways_to_draw(rewards, draws) -> None:
    if draws > len(rewards):
        return
    ways = list(itertools.combinations(rewards, draws))
    alive = sum(len({v for v in way if v is not None}) > 1 for way in ways)
    assert chance_of_contrast(rewards, draws) == pytest.approx(alive / len(ways))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
def test_both_estimates_are_right_in_the_mean(p) -> None:
    """Averaged over the binomial of c: exactly the formulas, from 12 samples for groups of 8."""
    n, size = 12, 8
    contrast = solved = 0.0
    for c in range(n + 1):
        weight = math.comb(n, c) * p**c * (1 - p) ** (n - c)
        rewards = [1.0] * c + [0.0] * (n - c)
        contrast += weight * chance_of_contrast(rewards, size)
        solved += weight * pass_at(n, c, size)
    assert contrast == pytest.approx(1 - p**size - (1 - p) ** size)
    assert solved == pytest.approx(1 - (1 - p) ** size)


def test_estimates_by_hand() -> None:
    # 16 samples, 1 solves, groups of 8: half of all groups of 8 have it.
    assert pass_at(16, 1, 8) == pytest.approx(0.5)
    assert chance_of_contrast([1.0] + [0.0] * 15, 8) == pytest.approx(0.5)
    # Rewards that differ by a rounding residue are alike.
    assert chance_of_contrast([0.6, 0.6 + 1e-9, 0.6], 2) == 0.0
    with pytest.raises(UserError, match="pass@8 needs 8 samples"):
        pass_at(4, 1, 8)
    with pytest.raises(UserError, match="a group of 8 needs 8"):
        chance_of_contrast([1.0] * 4, 8)


def seen(rewards, solved=None, clipped=0.0, why=""):
    solved = [None if v is None else v >= 1.0 for v in rewards] if solved is None else solved
    return Seen("arith", rewards, solved, clipped, why)


@pytest.mark.parametrize(
    "problems, verdict, words",
    [
        ([seen([1.0, 0.0, 1.0, 0.0])] * 4, "trainable", "worth different amounts"),
        ([seen([0.0] * 4)] * 4, "too hard", "level 1 of arith"),
        ([seen([1.0] * 4)] * 4, "too easy", "level 3 of arith"),
        # Solved or not, every answer is paid the same.
        ([seen([0.5] * 4, [True, False, True, False])] * 4, "flat reward", "rlkit audit"),
        ([seen([None] * 4, why="the judge is away")] * 4, "no verdicts", "the judge is away"),
        # The reward differs, for reasons that have nothing to do with solving.
        ([seen([1.0, 0.0, 0.0, 1.0], [True, False, True, False])] * 4, "flat reward", "25% of the"),
        # Two of sixteen solve: contrast enough for groups of two? 28/120 of one problem, no.
        ([seen([1.0, 1.0, *[0.0] * 14])] * 4, "too hard", "23% of groups"),
        # Each problem is always solved or never: mostly never.
        ([seen([0.0] * 4)] * 3 + [seen([1.0] * 4)], "too hard", "25.0%"),
        # Graded: contrast by spread, though nothing is solved.
        ([seen([0.1, 0.2, 0.3, 0.4])] * 4, "trainable", "what the rest of the reward pays for"),
        ([seen([1.0, 0.0, 1.0, 0.0], clipped=0.5)] * 4, "trainable", "raise max_new_tokens"),
    ],
)
def test_verdicts_have_reasons(problems, verdict, words) -> None:
    found = judge_problems(problems, "arith", 2, 2, 4, get_domain("arith"))
    assert found.verdict == verdict
    assert words in f"{found.reason} {' '.join(found.advice)}", found


def test_the_numbers_of_a_domain() -> None:
    """Two problems, groups of two. First: 1 of 4 solved, 3 of 6 pairs differ; second: none."""
    found = judge_problems(
        [seen([1.0, 0, 0, 0]), seen([0.0] * 4)], "arith", 1, 2, 4, get_domain("arith")
    )
    assert found.contrast == found.pass_contrast == pytest.approx(0.25)
    assert found.pass_at_1 == pytest.approx(0.125)
    assert found.pass_at_group == pytest.approx(0.25)  # 1 - C(3,2)/C(4,2) = 1/2, and 0
    assert found.none_solved == pytest.approx(0.75) and found.all_solved == 0.0
    assert found.spread == pytest.approx(statistics.stdev([1, 0, 0, 0]) / 2)
    assert found.contrast_low < 0.25 < found.contrast_high


always = Reward(lambda completions, **_: [0.5] * len(completions), "always")
letters = Reward(lambda completions, **_: [float(t.count("e")) for t in completions], "letters")


def test_the_probe_leaves_no_trace(untrained) -> None:
    policy = Policy.load(untrained, lora=LoraSpec(rank=4), seed=3)
    before, counters = policy.fingerprint(), policy.state_dict()
    config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8)
    options = {"problems": 3, "steps": 30}
    found = trainability(policy, ["arith", "sort"], config, reward=letters, **options)
    assert policy.fingerprint() == before and policy.state_dict() == counters
    assert found.trainable and found.require() is found
    assert [row.domain for row in found.domains] == ["arith", "sort"]
    assert found.overall.problems == 6 and found.overall.samples == 8
    assert found.wasted == pytest.approx(1 - found.overall.contrast)
    assert found.minutes == pytest.approx(30 * found.seconds_per_step / 60)
    assert found.memory_mb > 50 and found.gpu_memory_mb is None
    assert "teach nothing" in str(found) and found.to_dict()["verdict"] == "trainable"
    again = trainability(policy, ["arith", "sort"], config, reward=letters, **options)
    assert again.overall == found.overall
    assert trainability(policy, ["arith"], config, reward=letters, objective=PPO(), **options)
    assert value_head(policy) is None and policy.fingerprint() == before


def test_a_run_that_would_not_learn_is_refused_politely(untrained) -> None:
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4))
    config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8)
    found = trainability(policy, ["arith"], config, reward=always, problems=3)
    assert not found.trainable and found.overall.contrast == 0.0
    with pytest.raises(UserError, match="too hard: 0% of groups of 4"):
        found.require()
    assert found.require(force=True) is found
    with pytest.raises(UserError, match="at least the group's size, 4"):
        trainability(policy, ["arith"], config, samples=3)
    with pytest.raises(UserError, match="out of range for domain 'arith'"):
        trainability(policy, ["arith"], LoopConfig(difficulty=9))
