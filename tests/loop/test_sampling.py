"""Refilling: what is thrown away is counted, bounded, and the same after a resume."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.loop import Run
from rlkit.loop.judging import Judged
from rlkit.loop.progress import Clock
from rlkit.loop.sampling import draw, has_contrast
from rlkit.objectives import GDPO, GRPO
from rlkit.policy import Group, Rollout
from rlkit.rewards import Reward, Score
from rlkit.tasks import Problem


def group(name: str, count: int = 2) -> Group:
    problem = Problem(name, "arith", ({"role": "user", "content": name},))
    rollout = Rollout(problem, (1,), (5, 6, 7), (-1.0,) * 3, (1,) * 3, "x", "stop", 0)
    return Group(problem, (rollout,) * count)


class Scripted:
    """Problems named by their number; those in `alive` have contrast, the others have none."""

    def __init__(self, alive: set[int]) -> None:
        self.alive, self.drawn, self.asked = alive, 0, []

    def sample(self, count: int) -> list[int]:
        self.asked.append(count)
        self.drawn += count
        return list(range(self.drawn - count, self.drawn))

    def generate(self, numbers: list[int]) -> list[Group]:
        return [group(str(n)) for n in numbers]

    def judge(self, groups: list[Group]) -> Judged:
        rows = [[1.0, 0.0 if int(g.problem.key) in self.alive else 1.0] for g in groups]
        scores = [[Score(v, unshaped=v) for v in row] for row in rows]
        return Judged(scores, [[v == 1.0 for v in row] for row in rows])

    def draw(self, count: int, refills: int):
        return draw(self.sample, self.generate, self, GRPO(), count, refills, Clock())


def test_only_what_is_missing_is_drawn_again() -> None:
    """0..3: 1 and 2 live. Then 4, 5: 5 lives. Then 6: it lives, and the batch is full."""
    script = Scripted({1, 2, 5, 6})
    drawn = script.draw(4, 5)
    assert script.asked == [4, 2, 1]
    assert [g.problem.key for g in drawn.groups] == ["1", "2", "5", "6"]
    assert [g.problem.key for g in drawn.discarded] == ["0", "3", "4"]
    told = drawn.metrics()
    assert told["sampling/refills"] == 2
    assert told["sampling/groups_drawn"] == 7
    assert told["frac_groups_discarded"] == pytest.approx(3 / 7)
    # Three groups of two answers of three tokens.
    assert told["sampling/discarded_tokens"] == 18
    # Of 14 answers the four with contrast have one that is not solved: 10 of 14.
    assert told["sampling/pass_rate"] == told["sampling/reward"] == pytest.approx(10 / 14)


def test_it_is_bounded_and_the_batch_keeps_its_size() -> None:
    script = Scripted({1})
    drawn = script.draw(4, 2)
    assert script.asked == [4, 3, 3]
    # One lives; the first three that were thrown away fill the batch up.
    assert [g.problem.key for g in drawn.groups] == ["1", "0", "2", "3"]
    assert len(drawn.discarded) == 6 and drawn.refills == 2
    assert len(drawn.judged.scores) == len(drawn.judged.solved) == 4
    off = Scripted(set())
    plain = off.draw(4, 0)
    assert off.asked == [4] and not plain.discarded and plain.metrics() == {}


@given(st.sets(st.integers(0, 40)), st.integers(1, 6), st.integers(1, 5))
def test_for_any_luck_the_batch_is_full_and_holds_all_that_lives(alive, count, refills) -> None:
    script = Scripted(alive)
    drawn = script.draw(count, refills)
    keys = [int(g.problem.key) for g in drawn.groups]
    thrown = [int(g.problem.key) for g in drawn.discarded]
    assert len(keys) == count and sorted(keys + thrown) == list(range(sum(script.asked)))
    assert drawn.refills == len(script.asked) - 1 <= refills
    assert not alive & set(thrown)
    # A dead group is in the batch only when all draws were used up.
    assert set(keys) <= alive or drawn.refills == refills


def test_shaping_alone_is_no_contrast() -> None:
    """Two right answers, one of them longer and so worth less: nothing to learn about right."""
    shaped = [Score(1.0, unshaped=1.0), Score(0.9, unshaped=1.0)]
    assert not has_contrast(group("a"), shaped, GRPO())
    assert has_contrast(group("a"), [Score(1.0), Score(0.9)], GRPO())
    # And where shaping makes up for the difference, there is nothing to learn from either.
    assert not has_contrast(
        group("a"), [Score(0.5, unshaped=1.0), Score(0.5, unshaped=0.5)], GRPO()
    )
    assert not has_contrast(group("a"), [Score(None), Score(1.0)], GRPO())
    assert not has_contrast(group("a"), [Score(None), Score(None)], GRPO())
    # Totals agree, parts do not: GDPO learns from it.
    ledgers = ({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0})
    parts = [Score(1.0, contributions=kept, parts=kept) for kept in ledgers]
    assert not has_contrast(group("a"), parts, GRPO())
    assert has_contrast(group("a"), parts, GDPO())


rarely = Reward(
    # Babble of an untrained model: about one group in three has contrast.
    lambda completions, **_: [float(text.count("e") >= 2) for text in completions],
    "rarely",
)


def test_in_the_loop_it_is_counted_observed_and_paid_for(make_loop) -> None:
    curriculum = Curriculum(["arith", "sort"], "learnability", seed=1)
    loop = make_loop(
        reward=rarely, max_refills=3, problems_per_step=3, curriculum=curriculum, seed=5
    )
    records = loop.run(4, progress=False)
    assert any(r["sampling/refills"] > 0 for r in records)
    assert any(r["frac_groups_discarded"] > 0 for r in records)
    drawn = sum(r["sampling/groups_drawn"] for r in records)
    assert sum(stats.groups for stats in loop.curriculum.stats.values()) == drawn
    # The untrained model is always cut by the budget: each answer has 8 tokens.
    assert loop.tokens_done == drawn * 4 * 8
    assert all(len(loop.batch.groups) == 3 for _ in records)
    # Off by default, and then nothing is said of it.
    assert make_loop().step()["sampling/refills"] is None


def test_resumed_equals_uninterrupted(make_loop, tmp_path) -> None:
    options = {"reward": rarely, "max_refills": 2, "problems_per_step": 3, "seed": 5}
    steady = make_loop(run=tmp_path / "steady", **options)
    steady.run(6, progress=False)
    make_loop(run=tmp_path / "broken", **options).run(2, progress=False)
    again = make_loop(run=tmp_path / "broken", **options)
    assert again.steps_done == 2
    again.run(6, progress=False)
    assert again.policy.fingerprint() == steady.policy.fingerprint()
    kept, expected = Run.open(tmp_path / "broken"), Run.open(tmp_path / "steady")
    assert kept.rollouts() == expected.rollouts()
    refills = [row["sampling/refills"] for row in expected.metrics()]
    assert refills == [row["sampling/refills"] for row in kept.metrics()] and max(refills) > 0


def test_the_monitor_watches_all_that_was_drawn(make_loop) -> None:
    """A refilled batch always looks half solved; a collapse shows in what was drawn."""
    from rlkit.monitor import RewardCollapse, StepRecord

    rule = RewardCollapse(window=2, min_drop=0.2, sigmas=0.0, patience=1)
    found = [
        rule.check(StepRecord.of(n, {"reward": 0.5, "sampling/reward": value}))
        for n, value in enumerate([0.8, 0.8, 0.1, 0.1])
    ]
    assert found[2] is not None and found[1] is None


def test_bad_settings(make_loop) -> None:
    from rlkit.objectives import Reinforce

    with pytest.raises(UserError, match="max_refills must not be negative"):
        make_loop(max_refills=-1)
    with pytest.raises(UserError, match="a group of one never has any"):
        make_loop(objective=Reinforce(), group_size=1, max_refills=1)
