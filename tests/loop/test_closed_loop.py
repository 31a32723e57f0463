"""The loop: it learns, it watches its ratio, and it can always go back."""

from __future__ import annotations

import json
import math

import pytest
import torch

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.loop.update import RatioMismatch
from rlkit.monitor import Monitor, RewardCollapse, default_rules
from rlkit.objectives import GRPO
from rlkit.rewards import Reward, RewardWarning, exact_answer

TIMES = ("step_time", "time/generate", "time/reward", "time/update")


def numbers(record) -> dict:
    return {k: v for k, v in record.metrics.items() if k not in TIMES}


@pytest.mark.parametrize("quantize", [None, "nf4"])
def test_the_ratio_is_one_at_the_first_inner_step(make_loop, quantize) -> None:
    loop = make_loop(quantize=quantize, ratio_tolerance=1e-4, learning_rate=0.01)
    for _ in range(3):  # also with an adapter that has moved
        record = loop.step()
        assert record["grad_norm"] is not None
        assert record["sampling/sampling_logp_difference/max"] < 1e-4


def test_a_ratio_that_is_not_one_stops_the_loop_and_changes_nothing(make_loop) -> None:
    loop = make_loop()
    loop.step()
    before = loop.policy.fingerprint()
    generate = loop.policy.generate

    def generate_then_move(*args, **kwargs):
        groups = generate(*args, **kwargs)
        with torch.no_grad():  # as if the sampler had older weights than the learner
            for parameter in loop.policy.trainable().values():
                parameter.add_(0.05)
        return groups

    loop.policy.generate = generate_then_move
    with pytest.raises(RatioMismatch, match="sampler and learner see different weights"):
        loop.step()
    assert loop.policy.fingerprint() == before
    assert loop.steps_done == 1
    loop.policy.generate = generate
    assert loop.step().step == 2


def test_only_the_adapter_changes(make_loop) -> None:
    loop = make_loop(quantize="nf4")
    frozen = {
        n: p.detach().clone()
        for n, p in loop.policy.model.named_parameters()
        if not p.requires_grad
    }
    adapter = loop.policy.fingerprint()
    loop.run(2, progress=False)
    assert loop.policy.fingerprint() != adapter
    for name, parameter in loop.policy.model.named_parameters():
        if name in frozen:
            assert torch.equal(parameter.detach(), frozen[name]), name


def test_micro_batches_change_nothing(make_loop) -> None:
    whole, split = make_loop(micro_batch=64), make_loop(micro_batch=3)
    first, second = whole.step(), split.step()
    a, b = numbers(first), numbers(second)
    assert {k for k in a if a[k] is None} == {k for k in b if b[k] is None}
    known = [k for k in a if a[k] is not None]
    assert [a[k] for k in known] == pytest.approx([b[k] for k in known], rel=1e-3, abs=1e-5)
    for name, parameter in whole.policy.trainable().items():
        torch.testing.assert_close(parameter, split.policy.trainable()[name], atol=1e-4, rtol=1e-3)


def test_the_record_has_trl_names_and_one_value_for_each_domain(make_loop) -> None:
    loop = make_loop(problems_per_step=6)
    record = loop.step()
    wanted = (
        "reward reward_std frac_reward_zero_std loss entropy grad_norm clip_ratio/region_mean "
        "completions/mean_length completions/clipped_ratio learning_rate num_tokens step_time "
        "pass_rate frac_unscored reward/arith reward/sort pass_rate/sort "
        "curriculum/probability/arith rewards/letters/mean status/OK"
    )
    assert set(wanted.split()) <= set(record.metrics)
    assert record["kl"] is None  # there is no reference in play, so nothing is known
    assert record["num_tokens"] == loop.batch.tokens
    json.loads(record.to_json())
    # Statuses are counted, one for each rollout.
    assert record["status/OK"] == 6 * 4
    assert 0 < record["entropy"] < math.log(600)


def test_a_group_without_contrast_gives_no_gradient(make_loop) -> None:
    loop = make_loop(reward=Reward(lambda completions, **_: [0.7] * len(completions), "flat"))
    before = loop.policy.fingerprint()
    record = loop.step()
    assert record["frac_reward_zero_std"] == 1.0
    assert record["grad_norm"] is None
    assert record["stepped"] == 0.0
    assert record["entropy"] is not None
    assert loop.policy.fingerprint() == before


def test_rows_without_a_verdict_are_counted_and_teach_nothing(make_loop) -> None:
    def half(completions, **_):
        return [None if i % 2 else float(i % 4) for i in range(len(completions))]

    loop = make_loop(reward=Reward(half, "half"))
    record = loop.step()
    assert record["frac_unscored"] == 0.5
    for rewards, advantages in zip(loop.batch.rewards_BG, loop.batch.advantages_BG, strict=True):
        assert all(a == 0.0 for r, a in zip(rewards, advantages, strict=True) if r is None)


def test_whether_a_problem_is_solved_does_not_depend_on_the_reward(make_loop) -> None:
    generous = make_loop(reward=Reward(lambda completions, **_: [1.0] * len(completions), "all"))
    assert generous.step()["pass_rate"] == 0.0  # a random model solves nothing
    own = make_loop(reward=0.5 * exact_answer, domains=["arith"])
    own.step()
    assert own.judge.verifiers["arith"] is exact_answer


def test_a_reward_that_borrows_the_verifiers_name_proves_nothing(make_loop) -> None:
    impostor = Reward(lambda completions, **_: [1.0] * len(completions), "exact_answer")
    loop = make_loop(reward=impostor, domains=["arith"])
    assert loop.step()["reward"] == 1.0
    assert loop.batch.solved[0] == [False] * 4


def test_values_that_are_no_numbers_are_counted_and_teach_nothing(make_loop) -> None:
    nan = Reward(lambda completions, **_: [math.nan] * len(completions), "nan")
    loop = make_loop(reward=nan)
    with pytest.warns(RewardWarning, match="nan gave nan"):
        record = loop.step()
    assert record["reward"] is None
    assert record["frac_unscored"] == 1.0
    assert record["status/BAD_VALUE"] == 8
    assert record["stepped"] == 0.0


def test_schedules_follow_the_steps_of_the_loop(make_loop) -> None:
    always = Reward(lambda completions, **_: [1.0] * len(completions), "always")
    loop = make_loop(reward=always.anneal({0: 1.0, 2: 0.5}))
    assert [r["reward"] for r in loop.run(3, progress=False)] == [1.0, 0.75, 0.5]
    # Of a function of the progress the loop says how long the run is: 0/2, then 1/2.
    loop = make_loop(reward=always.anneal(lambda progress: 1.0 - progress))
    assert [r["reward"] for r in loop.run(2, progress=False)] == [1.0, 0.5]


def test_a_held_out_truth_is_recorded_beside_the_reward(make_loop) -> None:
    generous = Reward(lambda completions, **_: [1.0] * len(completions), "generous")
    loop = make_loop(reward=generous.with_truth(exact_answer), domains=["arith"])
    record = loop.step()
    # A random model solves nothing, and is paid for it.
    assert record["reward"] == 1.0
    assert record["truth"] == 0.0
    assert record["verifier_gap"] == 1.0
    assert "rewards/exact_answer/mean" not in record.metrics
    assert "truth" not in make_loop(reward=generous).step().metrics


def test_divergence_is_measured_where_it_is_asked_for(make_loop) -> None:
    loop = make_loop(objective=GRPO(beta=0.1), learning_rate=0.01)
    assert loop.step()["kl"] == pytest.approx(0.0, abs=1e-6)  # the adapter has not moved yet
    assert loop.step()["kl"] > 1e-6


def test_evaluation_does_not_disturb_training(make_loop) -> None:
    quiet, watched = make_loop(), make_loop()
    quiet.step()
    watched.step()
    evaluation = watched.evaluate(problems=10, samples=2)
    assert evaluation.by_domain["arith"].problems == 10
    assert numbers(quiet.step()) == numbers(watched.step())
    again = watched.evaluate(problems=10, samples=2)
    assert again.step == 2


def test_ctrl_c_in_the_middle_of_a_step_puts_everything_back(make_loop, tmp_path) -> None:
    loop, steady = make_loop(run=tmp_path / "run"), make_loop()
    judge = loop.judge.judge

    def interrupted(groups):
        if loop.steps_done == 1:
            raise KeyboardInterrupt
        return judge(groups)

    loop.judge.judge = interrupted
    with pytest.raises(KeyboardInterrupt):
        loop.run(5, progress=False)
    assert loop.steps_done == 1
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))
    loop.judge.judge = judge
    loop.run(3, progress=False)
    steady.run(3, progress=False)
    assert loop.policy.fingerprint() == steady.policy.fingerprint()


def test_a_gradient_that_is_not_finite_is_skipped_and_said(make_loop, tmp_path) -> None:
    loop = make_loop(run=tmp_path / "run")
    parameter = next(p for n, p in loop.policy.trainable().items() if "lora_B" in n)
    handle = parameter.register_hook(lambda gradient: gradient * float("nan"))
    before = loop.policy.fingerprint()
    record = loop.step()
    assert record.nonfinite == ("grad_norm",)
    assert record["stepped"] == 0.0
    assert loop.policy.fingerprint() == before
    handle.remove()
    assert loop.step()["stepped"] == 1.0
    events = loop._keeper.run.events()
    assert [e["rule"] for e in events if e["kind"] == "intervention"] == ["nonfinite_gradient"]


def test_a_collapse_rolls_back_and_halves_the_rate_for_good(make_loop, tmp_path) -> None:
    """Rewards are good for four steps, then nothing is: the state of the best is put back."""
    rules = [RewardCollapse(window=2, min_drop=0.2, sigmas=0.0, patience=1)]
    loop = make_loop(
        monitor=Monitor(rules, budget=2, cooldown=1), run=tmp_path / "run", learning_rate=0.01
    )
    states = {}

    def scripted(completions, **_):
        level = 1.0 if loop.steps_done < 4 else 0.0
        return [level + 0.01 * (i % 4) for i in range(len(completions))]

    loop.judge.rewards = dict.fromkeys(loop.judge.rewards, Reward(scripted, "scripted"))
    for _ in range(5):
        states[loop.steps_done] = (
            loop.policy.fingerprint(),
            loop.curriculum.state_dict(),
            loop.policy.state_dict(),
        )
        loop.step()
    # The first average of two steps is at step 2, and none is better; it was earned by the
    # policy from before that step's update. Step 5 is the first to fall.
    assert loop.monitor.best_step() == 2
    assert loop.policy.fingerprint() == states[1][0]
    assert loop.curriculum.state_dict() == states[1][1]
    assert loop.policy.state_dict() == states[1][2]
    assert loop.learning_rate == pytest.approx(0.01 / 2)
    (event,) = [e for e in loop._keeper.run.events() if e["kind"] == "intervention"]
    assert (event["step"], event["action"]) == (5, "rollback")
    for _ in range(4):
        loop.step()
    assert loop.learning_rate == pytest.approx(0.01 / 4)  # compounded by the second one
    assert loop.steps_done == 9


def test_a_restored_optimizer_takes_the_same_next_step(make_loop) -> None:
    loop, twin = make_loop(), make_loop()
    loop.run(3, progress=False)
    twin.load_state_dict(loop.state_dict())
    loop.step()
    twin.step()
    assert loop.policy.fingerprint() == twin.policy.fingerprint()


def test_a_second_seed_is_another_run(make_loop) -> None:
    assert numbers(make_loop(seed=1).step()) != numbers(make_loop(seed=2).step())
    assert numbers(make_loop(seed=1).step()) == numbers(make_loop(seed=1).step())


def test_stop_ends_after_the_step_under_way(make_loop) -> None:
    loop = make_loop()
    loop.callbacks.append(lambda record, batch: loop.stop() if record.step == 2 else None)
    assert len(loop.run(9, progress=False)) == 2


def test_the_curriculum_sees_every_group(make_loop) -> None:
    curriculum = Curriculum(["arith", "sort"], "learnability", seed=1)
    loop = make_loop(curriculum=curriculum)
    loop.run(3, progress=False)
    assert sum(stats.groups for stats in curriculum.stats.values()) == 6


def test_bad_requests(make_loop, untrained) -> None:
    from rlkit.loop import ClosedLoop
    from rlkit.policy import Policy

    with pytest.raises(UserError, match="group_size=1 with a group baseline"):
        make_loop(group_size=1)
    with pytest.raises(UserError, match="list of domains is empty"):
        make_loop(domains=[])
    with pytest.raises(UserError, match="nothing to train"):
        ClosedLoop(Policy.load(untrained, quantize="nf4"), ["arith"])
    with pytest.raises(UserError, match="gave 1 values for"):
        make_loop(reward=Reward(lambda completions, **_: [1.0], "short")).step()
    with pytest.raises(UserError, match="does not fit the context"):
        make_loop(max_new_tokens=127).step()
    with pytest.raises(UserError, match="factor must be above 0"):
        make_loop().set_learning_rate_factor(0)
    assert len(default_rules()) == 3
