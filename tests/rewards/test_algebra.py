"""Sums, gates, clips, schedules, domains, truth: values, parts and the row's own ledger."""

from __future__ import annotations

import pickle
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit import rewards
from rlkit.errors import UserError
from rlkit.rewards import (
    Reward,
    Score,
    SoftOverlong,
    countdown_answer,
    exact_answer,
    format_reward,
    numeric_answer,
    per_domain,
)


def column(name: str, **options) -> Reward:
    """A reward that reads its values from the column of its name."""

    def read(completions, **columns):
        return columns[name]

    return Reward(read, name, (name,), **options)


a, b, c = column("a"), column("b"), column("c")
TEXTS = ["x", "y", "z"]
VALUES = st.one_of(st.none(), st.floats(-10, 10))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=8)
WEIGHTS = st.floats(-4, 4)


def columns_of(rows) -> dict[str, list]:
    first, second, third = map(list, zip(*rows, strict=True))
    return {"completions": [str(i) for i in range(len(rows))], "a": first, "b": second, "c": third}


def values_of(reward: Reward, **columns) -> list[float | None]:
    rows = len(next(iter(columns.values())))
    return reward(completions=["x"] * rows, **columns)


# -- sums ------------------------------------------------------------------------------


def test_minus_and_division_and_the_built_in_sum() -> None:
    columns = {"a": [1.0], "b": [0.5]}
    assert values_of(a - b, **columns) == [0.5]
    assert values_of(-a, **columns) == [-1.0]
    assert values_of((a - 2 * b) / 4, **columns) == [0.0]  # (1 - 1) / 4
    assert values_of(sum([a, b]), **columns) == [1.5]
    assert (a - 0.5 * b).name == "1*a - 0.5*b"
    with pytest.raises(UserError, match="divided by zero"):
        a / 0
    with pytest.raises(UserError, match="multiplied by a number"):
        a * True
    with pytest.raises(TypeError):
        a + 1


@given(ROWS, WEIGHTS, WEIGHTS, WEIGHTS)
def test_a_sum_is_linear_in_its_weights_and_its_shares_sum_up(rows, p, q, r) -> None:
    columns = columns_of(rows)
    scores = (p * a + q * b + r * c).score(**columns)
    double = (2 * (p * a + q * b + r * c)).score(**columns)
    for score, twice, values in zip(scores, double, rows, strict=True):
        pairs = [(w, v) for w, v in zip((p, q, r), values, strict=True) if v is not None]
        assert score.parts == dict(zip("abc", values, strict=True))
        if not any(w != 0.0 for w, _ in pairs):
            assert score.value is None
            continue
        assert score.value == pytest.approx(sum(w * v for w, v in pairs), abs=1e-9)
        assert sum(score.contributions.values()) == pytest.approx(score.value, abs=1e-9)
        assert twice.value == pytest.approx(2 * score.value, abs=1e-9)
        assert score.unshaped == pytest.approx(score.value, abs=1e-9)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows, order: random.Random) -> None:
    domains = [f"d{i % 3}" for i in range(len(rows))]
    everything = (
        (0.5 * a - b).gate(c, threshold=0.0).clip(-1, 1)
        + column("d", shaping=True).anneal({0: 1.0, 9: 0.0})
    ).per_domain({"d1": b, "d2": None})
    columns = {**columns_of(rows), "d": [float(i) for i in range(len(rows))], "domain": domains}
    places = list(range(len(rows)))
    order.shuffle(places)
    moved = {name: [values[i] for i in places] for name, values in columns.items()}
    scores = everything.score(**columns)
    assert everything.score(**moved) == [scores[i] for i in places]


def test_an_all_abstaining_row_and_a_part_of_weight_zero() -> None:
    columns = {"a": [None, None, 1.0], "b": [None, 1.0, 1.0]}
    assert values_of(a + b, **columns) == [None, 1.0, 2.0]
    # A part of weight zero is measured; on its own it is no verdict.
    assert values_of(a + 0 * b, **columns) == [None, None, 1.0]
    scores = (a + 0 * b).score(completions=TEXTS, **columns)
    assert scores[1].parts == {"a": None, "b": 1.0}
    assert scores[1].contributions == {}


def test_two_rewards_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="stands twice"):
        a + column("a")
    with pytest.raises(UserError, match=r"two different rewards .* called 'a'"):
        a + column("a").clip(0, 1)
    both = a + column("a").named("again").clip(0, 1)
    (score,) = both.score(completions=["x"], a=[2.0])
    assert score.parts == {"a": 2.0, "again": 2.0}
    # The same reward twice, once as a gate, is no contradiction.
    assert values_of(a.gate(b) + 0.1 * b, a=[1.0], b=[1.0]) == [1.1]


# -- gates and clips ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, key, otherwise, result, status",
    [
        (0.7, 1.0, 0.0, 0.7, "OK"),
        (0.7, 0.9, 0.0, 0.0, "GATED"),
        (0.7, 0.9, None, None, "GATED"),
        (0.7, 0.9, -1.0, -1.0, "GATED"),
        (0.7, None, 0.0, None, "NO_VERDICT"),
        (None, 1.0, 0.0, None, "NO_VERDICT"),
        (None, 0.0, 0.0, 0.0, "GATED"),
    ],
)
def test_a_gate(value, key, otherwise, result, status) -> None:
    (score,) = a.gate(b, otherwise=otherwise).score(completions=["x"], a=[value], b=[key])
    assert (score.value, score.status) == (result, status)
    assert score.parts == {"b": key, "a": value}
    assert sum(score.contributions.values()) == (result or 0.0)
    assert score.unshaped == result


def test_a_gates_threshold_is_reached_when_it_is_met() -> None:
    assert values_of(a.gate(b, threshold=0.5), a=[1.0] * 3, b=[0.49, 0.5, 0.51]) == [0.0, 1.0, 1.0]
    with pytest.raises(UserError, match="opened by a reward"):
        a.gate(0.5)


@pytest.mark.parametrize("low, high, held", [(0, 1, [0, 0.5, 1]), (None, 1, [-2, 0.5, 1])])
def test_a_clip(low, high, held) -> None:
    scores = (a + b).clip(low, high).score(completions=TEXTS, a=[-2, 0.25, 2], b=[0, 0.25, 1])
    assert [s.value for s in scores] == held
    assert [sum(s.contributions.values()) for s in scores] == held
    assert scores[2].contributions == {"a": 2.0, "b": 1.0, "clip": -2.0}
    assert scores[2].parts == {"a": 2.0, "b": 1.0}
    (alone,) = a.clip(low, high).score(completions=["x"], a=[7.0])
    assert alone.contributions == {"a": 1.0}
    with pytest.raises(UserError, match="from low to high"):
        a.clip(1, 0)
    with pytest.raises(UserError, match="needs a low or a high"):
        a.clip()


# -- shaped and unshaped -------------------------------------------------------------------


def test_the_unshaped_score_leaves_out_shaping_and_schedules() -> None:
    shaped = a + SoftOverlong(10, 10, unit="characters") + 0.5 * b.anneal({0: 1.0, 10: 0.0})
    shaped.set_progress(5)
    (score,) = shaped.score(completions=["x" * 5], a=[1.0], b=[1.0])
    # 1 - 5/10 + 0.5 * 0.5 * 1, and unshaped 1 + 0.5 * 1
    assert (score.value, score.unshaped) == (0.75, 1.5)
    (only,) = SoftOverlong(10, 10, unit="characters").score(completions=["x"])
    assert (only.value, only.unshaped) == (-0.1, None)
    (marked,) = (a + b.as_shaping()).score(completions=["x"], a=[1.0], b=[1.0])
    assert (marked.value, marked.unshaped) == (2.0, 1.0)
    # A gate that shapes does not close the unshaped score; any other does.
    (by_length,) = a.gate(b.as_shaping()).score(completions=["x"], a=[1.0], b=[0.0])
    assert (by_length.value, by_length.unshaped) == (0.0, 1.0)


# -- schedules -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step, weight", [(0, 1.0), (5, 1.0), (10, 1.0), (15, 0.75), (20, 0.5), (99, 0.5)]
)
def test_a_schedule_of_steps_runs_in_straight_lines(step: int, weight: float) -> None:
    fading = a.anneal({20: 0.5, 10: 1.0})
    fading.set_progress(step)
    assert values_of(fading, a=[2.0]) == [2 * weight]


def test_a_schedule_of_the_progress_and_the_trainers_own_state() -> None:
    fading = b + a.anneal(lambda progress: 1 - progress)
    with pytest.raises(UserError, match="length of the run is not known"):
        values_of(fading, a=[1.0], b=[0.0])
    state = SimpleNamespace(global_step=25, max_steps=100)
    columns = {"a": [1.0], "b": [0.0]}
    assert fading(completions=["x"], trainer_state=state, **columns) == [0.75]
    fading.set_progress(100, 100)
    assert values_of(fading, **columns) == [0.0]
    assert values_of(fading, a=[1.0], b=[None]) == [None]  # faded out, it is no verdict


def test_a_checkpoint_keeps_the_progress() -> None:
    def make() -> Reward:
        return b + (2 * a.anneal({0: 0.0, 10: 1.0})).clip(0, 9)

    before, after = make(), make()
    before.set_progress(5, 40)
    after.load_state_dict(before.state_dict())
    assert values_of(after, a=[1.0], b=[0.0]) == [1.0]
    assert after.state_dict() == before.state_dict()
    with pytest.raises(UserError, match="belongs to another reward"):
        a.load_state_dict(before.state_dict())


@pytest.mark.parametrize("schedule", [{}, 0.5, {0: "high"}, {"start": 1.0}])
def test_what_is_no_schedule(schedule) -> None:
    with pytest.raises(UserError):
        a.anneal(schedule)


# -- domains -------------------------------------------------------------------------------


def test_each_domain_has_its_own_reward_and_columns() -> None:
    mixed = per_domain({"arith": exact_answer, "countdown": "countdown_answer", "chat": None})
    scores = mixed.score(
        completions=["<answer>4</answer>", "<answer>8 + 3</answer>", "hello"],
        domain=["arith", "countdown", "chat"],
        answer=["4", None, None],
        numbers=[None, (3, 8), None],
        target=[None, 11, None],
    )
    assert [s.value for s in scores] == [1.0, 1.0, None]
    assert [s.parts for s in scores] == [{"exact_answer": 1.0}, {"countdown_answer": 1.0}, {}]
    assert scores[2].status == "NOT_JUDGED"
    with pytest.raises(UserError, match="no reward for the domain 'sort'"):
        mixed(completions=["x"], domain=["sort"])
    with pytest.raises(UserError, match="needs the column 'domain'"):
        mixed(completions=["x"])
    with pytest.raises(UserError, match="needs the column 'answer'"):
        mixed(completions=["x"], domain=["arith"])


def test_a_reward_can_be_the_rule_with_exceptions() -> None:
    mixed = a.per_domain({"easy": 0.5, "other": b})
    columns = {"domain": ["easy", "other", "any"], "a": [1.0] * 3, "b": [3.0] * 3}
    assert values_of(mixed, **columns) == [0.5, 3.0, 1.0]
    with pytest.raises(UserError, match="no reward to weigh"):
        per_domain({"easy": 0.5})
    with pytest.raises(UserError, match="unknown reward"):
        per_domain({"easy": "magic"})


# -- truth ---------------------------------------------------------------------------------


def test_a_truth_is_beside_the_reward_and_never_in_it() -> None:
    proxy = (a + b).with_truth(c)
    (score,) = proxy.score(completions=["x"], a=[1.0], b=[0.5], c=[0.0])
    assert (score.value, score.truth) == (1.5, 0.0)
    assert "c" not in score.parts
    assert proxy.name == (a + b).name
    (nested,) = (0.5 * a.with_truth(c) + b).score(completions=["x"], a=[1.0], b=[1.0], c=[0.25])
    assert (nested.value, nested.truth) == (1.5, 0.25)  # the truth is not weighed
    (unknown,) = proxy.score(completions=["x"], a=[1.0], b=[0.5], c=[None])
    assert (unknown.value, unknown.truth) == (1.5, None)
    (gated,) = a.with_truth(c).gate(b).score(completions=["x"], a=[1.0], b=[0.0], c=[1.0])
    assert (gated.value, gated.truth) == (0.0, 1.0)


# -- the tree ------------------------------------------------------------------------------


def test_a_sandbox_reaches_every_part() -> None:
    class Box:
        """Stands where a sandbox would; nothing is run."""

    box = Box()
    everything = (
        rewards.tests_pass.gate(format_reward).clip(0, 1) + 0.1 * exact_answer
    ).with_truth(numeric_answer)
    moved = everything.with_sandbox(box)
    assert moved.sandboxes() == [box]
    assert moved.name == everything.name
    assert [leaf.name for leaf in moved.leaves()] == [leaf.name for leaf in everything.leaves()]


def test_composed_rewards_travel_by_pickle() -> None:
    everything = per_domain(
        {
            "x": (0.9 * exact_answer + 0.1 * format_reward).gate(format_reward, otherwise=None),
            "y": countdown_answer.clip(0, 1).anneal({0: 1.0, 10: 0.0}),
        }
    ).with_truth(numeric_answer)
    everything.set_progress(5)
    columns = {
        "completions": ["<answer>4</answer>", "<answer>8 + 3</answer>"],
        "domain": ["x", "y"],
        "answer": ["4", "11"],
        "numbers": [None, (3, 8)],
        "target": [None, 11],
    }
    again = pickle.loads(pickle.dumps(everything))
    assert again.score(**columns) == everything.score(**columns)
    assert again(**columns) == [1.0, 0.5]


def test_a_score_can_be_written_down() -> None:
    (score,) = (0.5 * a).score(completions=["x"], a=[1.0])
    assert score == Score(0.5, "OK", {"a": 1.0}, "", {"a": 0.5}, 0.5, None)


def test_a_sum_stands_in_brackets_where_something_is_done_to_it() -> None:
    a, b = (Reward(lambda completions: [1.0] * len(completions), name) for name in "ab")
    assert (a + b).clip(0, 1).name == "(1*a + 1*b).clip(0, 1)"
    assert a.gate(b).name == "a.gate(b)"
