"""GDPO in the loop: the parts of a reward reach the objective, with their weights."""

from __future__ import annotations

import math

import pytest
import torch

from rlkit.errors import UserError
from rlkit.loop import Run
from rlkit.loop.reward_parts import reward_parts
from rlkit.loop.stored_batch import read_batch
from rlkit.objectives import GDPO, GRPO, gdpo_advantages
from rlkit.policy import Group, Rollout
from rlkit.rewards import Reward, Score
from rlkit.tasks import Problem

vowels = Reward(lambda completions, **_: [float(t.count("e")) for t in completions], "vowels")
short = Reward(lambda completions, **_: [-len(t) / 10 for t in completions], "short")


def group(domain: str, size: int) -> Group:
    problem = Problem(domain, domain, ({"role": "user", "content": "?"},))
    rollout = Rollout(problem, (1,), (5,), (-1.0,), (1,), "x", "stop", 0)
    return Group(problem, (rollout,) * size)


def score(**parts: float | None) -> Score:
    weights = {"a": 1.0, "b": 0.5, "c": 2.0}
    shares = {name: weights[name] * value for name, value in parts.items() if value is not None}
    return Score(sum(shares.values()) if shares else None, parts=parts, contributions=shares)


def test_parts_are_unweighted_and_weights_are_read_from_the_ledgers() -> None:
    rows = [
        [score(a=1.0, b=0.0), score(a=0.0, b=4.0), score(a=None, b=None)],
        [score(c=3.0), score(c=0.0), score(c=1.0)],
    ]
    parts_BGK, weights_K = reward_parts([group("arith", 3), group("sort", 3)], rows)
    # Parts: a and b of arith, c of sort. c is 6 = 2 x 3 in the ledger, and 3 as a part.
    assert weights_K.tolist() == [1.0, 0.5, 2.0]
    nan = math.nan
    expected = torch.tensor(
        [
            [[1.0, 0.0, nan], [0.0, 4.0, nan], [nan, nan, nan]],
            [[nan, nan, 3.0], [nan, nan, 0.0], [nan, nan, 1.0]],
        ],
        dtype=torch.float64,
    )
    torch.testing.assert_close(parts_BGK, expected, equal_nan=True)


def test_the_loop_hands_over_what_the_function_is_tested_on(make_loop) -> None:
    reward = vowels + 0.5 * short
    loop = make_loop(objective=GDPO(), reward=reward, domains=["arith"])
    record = loop.step()
    assert record["stepped"] == 1.0
    texts = [[r.text for r in g.rollouts] for g in loop.batch.groups]
    parts = torch.tensor([[[t.count("e"), -len(t) / 10] for t in row] for row in texts])
    expected, alive = gdpo_advantages(parts.double(), torch.tensor([1.0, 0.5]))
    assert torch.tensor(loop.batch.advantages_BG) == pytest.approx(expected, abs=1e-6)
    assert loop.batch.alive_B == alive.tolist()
    plain = make_loop(objective=GRPO(), reward=reward, domains=["arith"])
    plain.step()
    assert plain.batch.rewards_BG == loop.batch.rewards_BG
    assert plain.batch.advantages_BG != loop.batch.advantages_BG


def test_totals_that_agree_still_teach(make_loop) -> None:
    """Two parts that cancel out: GRPO sees a dead group, GDPO with weights 1 and 1 does too,
    but with 1 and 0.5 it does not, as each part is judged before it is weighed."""
    up = Reward(lambda completions, **_: [float(len(t)) for t in completions], "up")
    down = Reward(lambda completions, **_: [-2.0 * len(t) for t in completions], "down")
    reward = up + 0.5 * down  # len - 0.5 * 2 * len = 0 for every answer
    dead = make_loop(objective=GRPO(), reward=reward).step()
    assert dead["frac_reward_zero_std"] == 1.0 and dead["grad_norm"] is None
    alive = make_loop(objective=GDPO(), reward=reward)
    record = alive.step()
    assert record["frac_reward_zero_std"] < 1.0 and record["grad_norm"] > 0
    # Longer is better by 1, shorter by 0.5: what is left is half of `up`.
    for row, answers in zip(alive.batch.advantages_BG, alive.batch.groups, strict=True):
        lengths = [len(r.text) for r in answers.rollouts]
        longest, shortest = lengths.index(max(lengths)), lengths.index(min(lengths))
        assert max(lengths) == min(lengths) or row[longest] > row[shortest]


def test_it_is_replayed_from_a_run(make_loop, tmp_path) -> None:
    loop = make_loop(objective=GDPO(), reward=vowels + 0.5 * short, run=tmp_path / "run")
    loop.run(1, progress=False)
    groups, judged = read_batch(Run.open(tmp_path / "run"), 1)
    stored, fresh = (reward_parts(groups, scores) for scores in (judged.scores, loop.batch.scores))
    torch.testing.assert_close(stored[0], fresh[0], equal_nan=True)
    assert stored[1].tolist() == fresh[1].tolist()


def test_bad_settings() -> None:
    with pytest.raises(UserError, match="needs parts_BGK"):
        GDPO().advantages(torch.zeros(1, 2))
    with pytest.raises(UserError, match="needs baseline='group'"):
        GDPO(kl_in="reward", beta=0.1)
    with pytest.raises(UserError, match="parts='product' is unknown"):
        GRPO(parts="product")
