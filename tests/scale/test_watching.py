"""RewardWatch: what the rewards said, put together, and told to the curriculum."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.rewards import exact_answer, format_reward, reward
from rlkit.scale.trl import domain_dataset, watch


@pytest.fixture
def data():
    return domain_dataset(["arith"], Curriculum(["arith"]), steps=3, problems_per_step=2)


def call(watched, data, answers, step=0, **more):
    """Calls the sleeves as TRL calls reward functions; `answers` of 2 groups of 2."""
    rows = data.__getitems__([2 * step, 2 * step, 2 * step + 1, 2 * step + 1])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    prompts = columns.pop("prompt")
    said = []
    for function in watched.functions:
        said.append(
            function(
                prompts=prompts,
                completions=[[{"role": "assistant", "content": a}] for a in answers(columns)],
                completion_ids=[[5, 2], [5, 2], [5, 6], [5, 2]],
                trainer_state=SimpleNamespace(global_step=step, max_steps=3),
                log_extra=lambda column, values: None,
                log_metric=lambda name, value: None,
                **columns,
                **more,
            )
        )
    return said


def right_then_wrong(columns):
    """The first of each group right, the second wrong."""
    return [f"<answer>{a if i % 2 == 0 else 'x'}</answer>" for i, a in enumerate(columns["answer"])]


def test_values_reach_trl_as_the_reward_gave_them(data):
    watched = watch(exact_answer, data, 2, end_ids=[2])
    assert watched.functions[0].__name__ == "exact_answer"
    assert call(watched, data, right_then_wrong) == [[1.0, 0.0, 1.0, 0.0]]


def test_the_batch_the_numbers_and_the_curriculum(data):
    watched = watch(exact_answer, data, 2, end_ids=[2])
    call(watched, data, right_then_wrong)
    batch = watched.batch
    assert batch.step == 1
    assert batch.rewards_BG == [[1.0, 0.0], [1.0, 0.0]]
    assert [[r.finish_reason for r in g.rollouts] for g in batch.groups] == [
        ["stop", "stop"],
        ["length", "stop"],
    ]
    # (1 - 0.5) / (std + 1e-4), std with Bessel = sqrt(0.5) = 0.70711: 0.5 / 0.70721 = 0.70701
    assert batch.advantages_BG[0] == pytest.approx([0.70701, -0.70701], abs=1e-5)
    numbers = watched.metrics()
    assert numbers["reward"] == numbers["reward/arith"] == numbers["pass_rate/arith"] == 0.5
    assert numbers["completions/clipped_ratio"] == 0.25
    assert numbers["curriculum/pass_rate/arith"] == 0.5
    assert data.curriculum.stats["arith"].groups == 2
    assert watched.metrics() == {}  # nothing new
    rows = watched.rollout_rows()
    assert len(rows) == 4 and rows[0]["solved"] is True and rows[1]["solved"] is False
    assert rows[0]["question"] == data.__getitems__([0])[0]["prompt"][-1]["content"]


def test_several_rewards_with_weights_and_none(data):
    silent = reward(lambda completions: [None, 0.5, None, None]).named("shy")
    watched = watch([exact_answer, silent], data, 2, weights=[1.0, 2.0], end_ids=[2])
    first, second = call(watched, data, right_then_wrong)
    assert (first, second) == ([1.0, 0.0, 1.0, 0.0], [None, 0.5, None, None])
    # Row 1: 1.0 x 0.0 + 2.0 x 0.5 = 1.0; the others have the first part alone.
    assert watched.batch.rewards_BG == [[1.0, 1.0], [1.0, 0.0]]
    assert watched.batch.alive_B == [False, True]
    assert watched.batch.scores[0][1].contributions == {"exact_answer": 0.0, "shy": 1.0}
    assert data.curriculum.stats["arith"].dead_groups == 1


def test_a_row_that_nobody_judges_stays_without_a_value(data):
    silent = reward(lambda completions: [None, 1.0, None, 0.0]).named("shy")
    watched = watch([silent], data, 2, end_ids=[2])
    assert call(watched, data, right_then_wrong) == [[None, 1.0, None, 0.0]]
    assert watched.batch.rewards_BG == [[None, 1.0], [None, 0.0]]
    assert watched.metrics()["frac_unscored"] == 0.5
    # Solved is what the domain's own verifier says, whatever is trained on.
    assert watched.batch.solved == [[True, False], [True, False]]


def test_a_plain_function_is_watched_as_well(data):
    def plain(completions, **columns):
        return [float(len(c[0]["content"])) for c in completions]

    watched = watch([plain, format_reward], data, 2, end_ids=[2])
    values = call(watched, data, lambda columns: ["a", "bb", "ccc", "dddd"])
    assert values[0] == [1.0, 2.0, 3.0, 4.0]
    assert watched.batch.scores[0][1].parts["plain"] == 2.0


def test_ranks_that_drew_different_problems_are_found_out(data):
    watched = watch(exact_answer, data, 4, end_ids=[2])  # 4 rows are two problems, not one
    with pytest.raises(RuntimeError, match="drawn different problems"):
        call(watched, data, right_then_wrong)


def test_held_out_problems_teach_the_curriculum_nothing(data):
    from rlkit.tasks import get_domain

    problem = get_domain("arith").held_out(1)[0]
    watched = watch(exact_answer, data, 2, end_ids=[2])
    watched.functions[0](
        prompts=[list(problem.prompt)] * 2,
        completions=["<answer>1</answer>"] * 2,
        completion_ids=[[2], [2]],
        key=[problem.key] * 2,
        domain=["arith"] * 2,
        difficulty=[1, 1],
        answer=[problem.columns["answer"]] * 2,
    )
    assert watched.batch is None
    assert data.curriculum.stats["arith"].groups == 0


def test_mistakes_are_told_to_the_person(data):
    with pytest.raises(UserError, match="no rewards"):
        watch([], data, 2)
    with pytest.raises(UserError, match="groups of 2 or more, not 1"):
        watch(exact_answer, data, 1)
    with pytest.raises(UserError, match="1 weights for 2 rewards"):
        watch([exact_answer, format_reward], data, 2, weights=[1.0])

    async def slow(completions, **_):
        return [1.0] * len(completions)

    with pytest.raises(UserError, match="'slow' is async"):
        watch([slow], data, 2)
    with pytest.raises(UserError, match="end_ids"):
        call(watch(exact_answer, data, 2), data, right_then_wrong)
    with pytest.raises(UserError, match="'domain' and 'key' are missing"):
        watch(exact_answer, data, 2).functions[0](
            prompts=["a"], completions=["b"], completion_ids=[[2]], answer=["c"]
        )
