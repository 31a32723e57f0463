"""The monitor decides from records alone, sparingly, and always says why."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from rlkit.errors import UserError
from rlkit.monitor import (
    EntropyCollapse,
    Monitor,
    NonFiniteGradient,
    RewardCollapse,
    StepRecord,
)


def records(name: str, *values: float | None) -> list[StepRecord]:
    return [StepRecord.of(i + 1, {name: v}) for i, v in enumerate(values)]


def test_a_record_keeps_holes_and_says_where_they_were() -> None:
    record = StepRecord.of(3, {"loss": math.nan, "reward": 0.5, "kl": None, "grad_norm": math.inf})
    row = json.loads(record.to_json())
    assert row == {
        "step": 3,
        "loss": None,
        "reward": 0.5,
        "kl": None,
        "grad_norm": None,
        "nonfinite": ["loss", "grad_norm"],
    }
    assert StepRecord.from_dict(row) == record


def test_a_gradient_that_is_not_finite_forbids_the_step() -> None:
    monitor = Monitor()
    assert monitor.before_update(StepRecord.of(1, {"grad_norm": 0.9, "loss": 0.0})) is None
    decision = monitor.before_update(StepRecord.of(2, {"grad_norm": math.nan, "loss": 0.0}))
    assert decision is not None
    assert (decision.rule, decision.action) == ("nonfinite_gradient", "skip_step")
    # No gradient at all (no group had contrast) is not a broken one.
    assert monitor.before_update(StepRecord.of(3, {"grad_norm": None})) is None


def test_a_fall_of_the_average_is_rolled_back_once_it_lasts() -> None:
    monitor = Monitor([RewardCollapse(window=3, min_drop=0.2, sigmas=3.0, patience=2)])
    good = [0.6, 0.6, 0.6]
    # averages after the good ones: (0.6+0.6+0)/3 = 0.4, 0.2, 0.0; allowed fall 0.2
    # 0.6 - 0.4 = 0.2 is not more than 0.2; 0.4 is, twice in a row only at step 6
    decisions = monitor.replay(records("reward", *good, 0.0, 0.0, 0.0))
    assert [(d.step, d.action) for d in decisions] == [(6, "rollback")]
    assert decisions[0].evidence["best"] == pytest.approx(0.6)
    assert "best of 0.600 at step 3" in decisions[0].reason
    assert monitor.best_step() == 3


def test_one_bad_step_is_no_collapse() -> None:
    monitor = Monitor([RewardCollapse(window=3, min_drop=0.2, patience=2)])
    assert monitor.replay(records("reward", 0.6, 0.6, 0.6, 0.0, 0.6, 0.6, 0.6, 0.6)) == []


def test_a_noisy_reward_must_fall_further() -> None:
    noisy = [0.9, 0.3, 0.9, 0.3, 0.6, 0.3, 0.4, 0.3, 0.4, 0.3]
    assert Monitor([RewardCollapse(window=4)]).replay(records("reward", *noisy)) == []


def test_missing_rewards_use_no_patience() -> None:
    monitor = Monitor([RewardCollapse(window=2, min_drop=0.2, patience=2)])
    rows = records("reward", 0.8, 0.8, None, 0.0, None, 0.0, 0.0)
    assert [d.step for d in monitor.replay(rows)] == [6]


def test_budget_and_cooldown_hold_rollbacks_back() -> None:
    rule = RewardCollapse(window=2, min_drop=0.2, sigmas=0.0, patience=1)
    monitor = Monitor([rule], budget=1, cooldown=3)
    falling = [0.8, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    decisions = monitor.replay(records("reward", *falling))
    assert decisions[0].action == "rollback"
    assert {d.action for d in decisions[1:]} == {"warn"}
    assert "budget of 1" in decisions[-1].held_back
    patient = Monitor([RewardCollapse(window=2, min_drop=0.2, sigmas=0.0, patience=1)], cooldown=2)
    decisions = patient.replay(records("reward", *falling))
    rollbacks = [d.step for d in decisions if d.action == "rollback"]
    assert all(later - earlier > 2 for earlier, later in itertools.pairwise(rollbacks))
    assert any("cooling down" in d.held_back for d in decisions)


def test_entropy_collapse_is_said_once() -> None:
    monitor = Monitor([EntropyCollapse(share=0.1, patience=2)])
    # 0.1 * 1.0: steps 8 (0.05) and 9 (0.01) are below
    series = [1.0, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.01, 0.0004]
    decisions = monitor.replay(records("entropy", *series))
    assert [(d.step, d.action) for d in decisions] == [(9, "warn")]


def test_a_loss_of_zero_is_no_alarm() -> None:
    record = StepRecord.of(1, {"loss": 0.0, "grad_norm": 0.95, "reward_std": 0.4})
    assert Monitor().replay([record]) == []


def test_going_on_equals_never_having_stopped() -> None:
    rows = records("reward", 0.7, 0.7, 0.7, 0.7, 0.7, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
    steady = Monitor(cooldown=2)
    whole = steady.replay(rows)
    assert whole, "the series must contain a decision for this test to mean anything"
    for cut in range(len(rows)):
        first = Monitor(cooldown=2)
        decisions = first.replay(rows[:cut])
        second = Monitor(cooldown=2)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert decisions + second.replay(rows[cut:]) == whole
        assert second.state_dict() == steady.state_dict()


def test_rows_of_a_file_can_be_replayed() -> None:
    rows = [r.to_dict() for r in records("reward", *[0.8] * 5, *[0.0] * 5)]
    assert [d.action for d in Monitor().replay(rows)] == ["rollback"]


def test_bad_settings() -> None:
    with pytest.raises(UserError, match="must not be negative"):
        Monitor(budget=-1)
    with pytest.raises(UserError, match="stands twice"):
        Monitor([NonFiniteGradient(), NonFiniteGradient()])
    with pytest.raises(UserError, match="other rules"):
        Monitor([NonFiniteGradient()]).load_state_dict(Monitor().state_dict())
