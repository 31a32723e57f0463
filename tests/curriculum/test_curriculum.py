"""The curriculum: where the next problems come from, and that it can go on."""

from __future__ import annotations

from collections import Counter

import pytest

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError

FOUR = ["arith", "sort", "countdown", "pyfunc"]


def test_uniform() -> None:
    curriculum = Curriculum(FOUR, seed=1)
    assert curriculum.probabilities() == dict.fromkeys(FOUR, 0.25)
    counts = Counter(p.domain for p in curriculum.sample(400))
    assert all(60 <= counts[name] <= 140 for name in FOUR)


def test_learnability_by_hand() -> None:
    curriculum = Curriculum(FOUR, "learnability", floor=0.05, decay=0.0)
    for name, rate in zip(FOUR, (0.5, 0.9, 1.0, 0.0), strict=True):
        curriculum.observe(name, rate, dead=False)
    # p(1-p): 0.25, 0.09, 0, 0, sum 0.34; free mass 1 - 4 * 0.05 = 0.8
    # arith 0.05 + 0.8 * 0.25 / 0.34 = 0.6382; sort 0.05 + 0.8 * 0.09 / 0.34 = 0.2618
    assert list(curriculum.probabilities().values()) == pytest.approx(
        [0.6382, 0.2618, 0.05, 0.05], abs=1e-4
    )
    assert sum(curriculum.probabilities().values()) == pytest.approx(1.0)


def test_a_domain_nobody_tried_gets_the_mean_of_the_others() -> None:
    curriculum = Curriculum(FOUR[:3], "learnability", floor=0.0, decay=0.0)
    curriculum.observe("arith", 0.5, dead=False)  # 0.25
    curriculum.observe("sort", 0.9, dead=False)  # 0.09
    # countdown: (0.25 + 0.09) / 2 = 0.17 of 0.51
    assert curriculum.probabilities()["countdown"] == pytest.approx(1 / 3)


def test_all_solved_or_all_hopeless_is_uniform() -> None:
    curriculum = Curriculum(FOUR[:2], "learnability", decay=0.0)
    for name in FOUR[:2]:
        curriculum.observe(name, 1.0, dead=True)
    assert curriculum.probabilities() == {"arith": 0.5, "sort": 0.5}


def test_no_verdict_is_no_news() -> None:
    curriculum = Curriculum(["arith"])
    curriculum.observe("arith", None, dead=True)
    assert curriculum.stats["arith"].pass_rate is None
    assert curriculum.stats["arith"].dead_groups == 1
    curriculum.observe("arith", 0.4, dead=False)
    curriculum.observe("arith", 0.9, dead=False)
    assert curriculum.stats["arith"].pass_rate == pytest.approx(0.9 * 0.4 + 0.1 * 0.9)
    assert curriculum.metrics()["curriculum/pass_rate/arith"] == pytest.approx(0.45)


def test_going_on_equals_never_having_stopped() -> None:
    steady = Curriculum(FOUR, "learnability", seed=7)
    steady.sample(10)
    steady.observe("sort", 0.3, dead=False)
    state = steady.state_dict()
    resumed = Curriculum(FOUR, "learnability", seed=99)
    resumed.load_state_dict(state)
    assert [p.key for p in resumed.sample(20)] == [p.key for p in steady.sample(20)]
    assert resumed.state_dict() == steady.state_dict()


def test_only_training_problems_are_drawn() -> None:
    assert {p.split for p in Curriculum(FOUR).sample(100)} == {"train"}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weighting": "hardest"}, "unknown weighting 'hardest'"),
        ({"floor": 0.3}, "adds up to more than 1"),
        ({"floor": -0.1}, "must not be negative"),
        ({"decay": 1.0}, "decay must lie in"),
        ({"difficulty": 7}, "out of range"),
    ],
)
def test_bad_settings(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Curriculum(FOUR, **options)


def test_a_state_of_other_domains_is_refused() -> None:
    with pytest.raises(UserError, match="saved curriculum is over"):
        Curriculum(["arith"]).load_state_dict(Curriculum(["sort"]).state_dict())
