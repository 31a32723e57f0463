"""TRL's real trainer with our objects in their places, a few steps on small models."""

from __future__ import annotations

import pytest
import torch

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.objectives import DAPO, GRPO, DrGRPO
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.prompts import encode_prompt
from rlkit.rewards import exact_answer, format_reward, per_domain, reward
from rlkit.rewards.completions import completion_rows
from rlkit.scale.trl import (
    MonitorCallback,
    SharedPrefixRollouts,
    domain_dataset,
    trl_settings,
    watch,
)


def letters(completions, **columns):
    """The share of the letter e in an answer: something a random model differs in."""
    texts = completion_rows(completions)
    return [text.count("e") / (len(text) or 1) for text in texts]


def data(domains=("arith",), steps=3, size=2):
    return domain_dataset(domains, steps=steps, problems_per_step=size)


def rows_of(trainer):
    return [row for row in trainer.state.log_history if "reward" in row]


def test_rewards_go_to_trl_unchanged(small, make_trainer):
    """Several of them, with weights, by domain, with `None`, and no watch around them."""
    domains = ("arith", "sort")
    shy = reward(lambda completions: [None] * len(completions)).named("shy")
    by_domain = per_domain({"arith": reward(letters), "sort": None})
    trainer = make_trainer(
        small,
        [exact_answer, format_reward, by_domain, shy],
        data(domains),
        settings={"reward_weights": [1.0, 0.5, 2.0, 7.0]},
    )
    trainer.train()
    first = rows_of(trainer)[0]
    names = ("exact_answer", "format_reward", "per_domain(arith, sort)")
    parts = [first[f"rewards/{name}/mean"] for name in names]
    assert all(0.0 <= part <= 1.0 for part in parts)
    assert first["rewards/shy/mean"] is None  # no verdict is no number
    assert 0.0 <= first["reward"] <= 3.5


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory, sandbox):
    """Two steps of `tiny` on pyfunc, everything of ours in place, and what was seen inside."""
    from trl import GRPOConfig, GRPOTrainer

    from rlkit.rewards import tests_pass

    policy = Policy.load("tiny", quantize="nf4", lora=LoraSpec(rank=4), seed=0)
    dataset = domain_dataset(
        ["pyfunc"], Curriculum(["pyfunc"], seed=1), steps=2, problems_per_step=4
    )
    watched = watch(tests_pass, dataset, 4, sandbox=sandbox, objective=DrGRPO())
    seen = []
    rollouts = SharedPrefixRollouts(seed=3)

    def looked_at(prompts, trainer):
        made = rollouts(prompts, trainer)
        seen.append((prompts, made))
        return made

    monitoring = MonitorCallback(watch=watched)
    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=watched.functions,
        args=GRPOConfig(
            output_dir=str(tmp_path_factory.mktemp("tiny")),
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=40,
            max_steps=2,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            shuffle_dataset=False,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            **trl_settings(DrGRPO()),
        ),
        train_dataset=dataset,
        processing_class=policy.tokenizer,
        callbacks=[monitoring],
        rollout_func=looked_at,
    )
    whole = []
    kept = trainer._generate_and_score_completions

    def spied(inputs):
        out = kept(inputs)
        with torch.no_grad():
            ids = torch.cat([out["prompt_ids"], out["completion_ids"]], 1)
            mask = torch.cat([out["prompt_mask"], out["completion_mask"]], 1)
            width = out["completion_ids"].shape[1]
            now, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)
        whole.append((out, now))
        return out

    trainer._generate_and_score_completions = spied
    before = policy.fingerprint()
    trainer.train()
    return {
        "policy": policy,
        "trainer": trainer,
        "watched": watched,
        "monitoring": monitoring,
        "seen": seen,
        "whole": whole,
        "moved": policy.fingerprint() != before,
    }


def test_the_policy_is_trained_and_every_step_is_recorded(tiny_run):
    assert tiny_run["moved"]
    records = tiny_run["monitoring"].records
    assert [r.step for r in records] == [1, 2]
    for record in records:
        for name in ("reward", "pass_rate/pyfunc", "grad_norm", "learning_rate", "entropy"):
            assert record[name] is not None, name
        assert record["reward"] == pytest.approx(record["reward/pyfunc"], abs=1e-6)
    assert tiny_run["watched"].dataset.curriculum.stats["pyfunc"].groups == 8


def test_the_contract_of_rollout_func(tiny_run):
    """TRL asks with every prompt repeated for its group, and takes one answer for each."""
    prompts, made = tiny_run["seen"][0]
    assert len(prompts) == 16
    assert all(prompts[4 * i] == prompts[4 * i + k] for i in range(4) for k in range(4))
    assert {len(made[n]) for n in ("prompt_ids", "completion_ids", "logprobs")} == {16}
    ends = tiny_run["trainer"].eos_token_ids
    for ids, logprobs, reason in zip(
        made["completion_ids"], made["logprobs"], made["finish_reason"], strict=True
    ):
        assert len(ids) == len(logprobs) <= 40
        assert (ids[-1] in ends) is (reason == "stop")
    # The prompt is tokenised as TRL would have done it by itself.
    own, _, _ = tiny_run["trainer"]._tokenize_prompts(prompts)
    assert [list(ids) for ids in own] == made["prompt_ids"]


def test_sampler_and_learner_compute_the_same_log_probabilities(tiny_run):
    """In the first step: 4-bit weights, the adapter, eval mode against train mode."""
    (_, made), (out, now_NT) = tiny_run["seen"][0], tiny_run["whole"][0]
    for row, logprobs in enumerate(made["logprobs"]):
        said = torch.tensor(logprobs)
        apart = (now_NT[row, : len(said)] - said).abs().max()
        assert float(apart) < 1e-3
    assert out["sampling_per_token_logps"].shape == now_NT.shape


def test_trls_advantages_are_ours(tiny_run):
    """From the rewards that were really paid, to 1e-5."""
    out, _ = tiny_run["whole"][-1]
    batch = tiny_run["watched"].batch
    rewards_BG = torch.tensor(batch.rewards_BG, dtype=torch.float64)
    ours_BG, _ = DrGRPO().advantages(rewards_BG)
    assert torch.allclose(out["advantages"].view(4, 4), ours_BG, atol=1e-5)
    assert rewards_BG.std() > 0.1  # there was something to compare
    written = torch.tensor([row["advantage"] for row in tiny_run["watched"].rollout_rows()])
    assert torch.allclose(out["advantages"], written.float(), atol=1e-5)


@pytest.mark.parametrize("objective", [GRPO(), GRPO(scale_rewards="batch"), DAPO()])
def test_advantages_agree_for_other_objectives_and_abstentions(small, make_trainer, objective):
    def some(completions, **columns):
        values = letters(completions)
        return [None if i % 5 == 3 else value for i, value in enumerate(values)]

    watched = watch(some, data(), 4, end_ids=small.end_ids, objective=objective)
    trainer = make_trainer(
        small, watched.functions, watched.dataset, settings=trl_settings(objective)
    )
    trainer.train()
    theirs = torch.tensor(list(trainer._logs["advantages"]))
    rewards = [[float("nan") if r is None else r for r in row] for row in watched.batch.rewards_BG]
    ours_BG, _ = objective.advantages(torch.tensor(rewards, dtype=torch.float64))
    assert torch.allclose(theirs, ours_BG.flatten(), atol=1e-5)
    assert float(theirs.abs().max()) > 0.1


def test_a_group_cut_between_two_slices_is_still_one_prompt_each():
    """Runs of equal prompts of different lengths, as a rank in the middle of a group has them."""
    from rlkit.scale.trl.rollouts import _equal_lengths, _runs

    prompts = [[{"role": "user", "content": c}] for c in "aabbbbccccd"]
    runs = _runs(prompts)
    assert [length for _, length in runs] == [2, 4, 4, 1]
    assert list(_equal_lengths([2, 4, 4, 1])) == [(0, 1), (1, 3), (3, 4)]


def test_the_same_answers_whatever_the_way(small, make_trainer):
    """`plain` and `exact` draw from the same streams; a second call draws other numbers."""
    trainer = make_trainer(small, [letters], data())
    trainer.model.train()
    prompts = [row["prompt"] for row in data().__getitems__([0, 0, 1, 1])]
    plain = SharedPrefixRollouts(seed=1, kind="plain")
    first = plain(prompts, trainer)
    exact = SharedPrefixRollouts(seed=1)(prompts, trainer)
    assert first["completion_ids"] == exact["completion_ids"]
    assert plain(prompts, trainer)["completion_ids"] != first["completion_ids"]
    again = SharedPrefixRollouts(seed=1, kind="plain")
    again.load_state_dict({"seed": 1, "calls": 1})
    assert again(prompts, trainer)["completion_ids"] != first["completion_ids"]
    ids = encode_prompt(small.tokenizer, prompts[0])
    assert first["prompt_ids"][0] == ids
    assert trainer.model.training  # as it was


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"top_p": 0.9}, r"top_p=0.9 would be ignored"),
        ({"top_k": 5}, r"top_k=5 would be ignored"),
        ({"max_completion_length": 512}, "does not fit the context of 128"),
    ],
)
def test_what_the_generator_cannot_follow_is_refused(small, make_trainer, settings, told):
    trainer = make_trainer(
        small, [letters], data(), settings=settings, rollout_func=SharedPrefixRollouts()
    )
    with pytest.raises(UserError, match=told):
        trainer.train()


def test_settings_that_would_blind_the_monitor_are_refused(small, make_trainer):
    trainer = make_trainer(
        small, [letters], data(), settings={"logging_steps": 2}, callbacks=[MonitorCallback()]
    )
    with pytest.raises(UserError, match="logging_steps=1"):
        trainer.train()
    watched = watch(letters, data(size=3), 4, end_ids=small.end_ids)
    trainer = make_trainer(
        small, watched.functions, watched.dataset, callbacks=[MonitorCallback(watch=watched)]
    )
    with pytest.raises(UserError, match="holds 8 answers, but the dataset draws 3 problems"):
        trainer.train()
    watched = watch(letters, data(), 2, end_ids=small.end_ids)
    trainer = make_trainer(
        small, watched.functions, watched.dataset, callbacks=[MonitorCallback(watch=watched)]
    )
    with pytest.raises(UserError, match="num_generations=4, but the watch has groups of 2"):
        trainer.train()
