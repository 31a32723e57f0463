"""The shipped policy: whole, small, honest about itself, and at home in the libraries."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlkit.loop.build_tiny import build, card, sha256
from rlkit.policy import LoraSpec, Policy, flatten, tiny_facts
from rlkit.policy.loading import TINY
from rlkit.policy.pretrain import PretrainConfig, lessons
from rlkit.tasks import domain_names, get_domain


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TINY)


def test_the_weights_match_their_hash_and_card() -> None:
    weights = TINY / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert (TINY / "SHA256SUMS").read_text() == f"{digest}  model.safetensors\n"
    facts = tiny_facts()
    assert facts["sha256"] == digest == sha256(weights)
    assert (TINY / "CARD.md").read_text() == card(facts)
    assert weights.stat().st_size < 8_000_000
    assert 1_000_000 <= facts["parameters"] <= 3_000_000


@pytest.mark.parametrize("domain", [name for name, _ in PretrainConfig().domain_share])
def test_the_first_level_is_never_hopeless_and_never_solved(domain: str) -> None:
    level = tiny_facts()["pass_rates"][domain]["level_1"]
    for precision in ("float32", "nf4"):
        assert 0.2 <= level[precision]["pass_at_1"] <= 0.6
        assert level[precision]["problems"] >= 200
        assert level[precision]["unscored"] == 0


def test_the_card_says_what_was_taught() -> None:
    text = (TINY / "CARD.md").read_text()
    assert "taught right and wrong answers on purpose" in text
    for counts in tiny_facts()["taught"].values():
        assert f"{counts['right']:,}" in text
        assert f"{counts['wrong']:,}" in text


def test_only_training_problems_were_taught() -> None:
    held_out = {p.question for name in domain_names() for p in get_domain(name).held_out(300)}
    stream = lessons(PretrainConfig())
    assert not held_out & {next(stream).question for _ in range(5000)}


def test_it_loads_as_an_ordinary_model(tokenizer) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(TINY)
    assert model.config.model_type == "llama"
    assert len(tokenizer) == model.config.vocab_size <= 1024
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert tokenizer.pad_token_id not in (tokenizer.eos_token_id, tokenizer.bos_token_id)


def test_the_chat_template(tokenizer) -> None:
    messages = [{"role": "user", "content": "What is 2 + 2?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|bos|><|user|>What is 2 + 2?<|end|><|assistant|>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids.count(tokenizer.bos_token_id) == 1
    messages.append({"role": "assistant", "content": "<answer>4</answer>"})
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    assert whole == text + "<answer>4</answer><|end|>"


@given(st.text(st.characters(min_codepoint=9, max_codepoint=126), max_size=80))
def test_the_tokenizer_is_lossless_on_ascii(text: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    if any(mark in text for mark in tokenizer.all_special_tokens):
        return
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


def test_the_tokenizer_is_lossless_on_python_source(tokenizer) -> None:
    for file in sorted(Path(torch.__file__).parent.glob("*.py"))[:10]:
        text = file.read_text(encoding="utf-8")[:20_000]
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_it_learns_in_four_bits() -> None:
    """Fifteen steps of the real thing: the pass rate of training rises."""
    from rlkit.loop import ClosedLoop, LoopConfig

    policy = Policy.load("tiny", quantize="nf4", lora=LoraSpec(), seed=0)
    assert policy.precision.weights == "nf4"
    loop = ClosedLoop(policy, ["sort"], config=LoopConfig(seed=0))
    rates = [record["pass_rate"] for record in loop.run(15, progress=False)]
    assert sum(rates[-5:]) / 5 > sum(rates[:5]) / 5 + 0.1


def test_trl_trains_it(tmp_path: Path) -> None:
    """GRPOTrainer takes the model, the tokenizer and the reward as they are."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from rlkit.rewards import exact_answer

    policy = Policy.load("tiny", quantize="nf4", lora=LoraSpec(rank=4), seed=0)
    problems = get_domain("arith").held_out(4)
    data = Dataset.from_list(
        [{"prompt": [dict(m) for m in p.prompt], "answer": p.columns["answer"]} for p in problems]
    )
    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=[exact_answer],
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=8,
            max_steps=1,
            report_to=[],
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            logging_steps=1,
            save_strategy="no",
        ),
        train_dataset=data,
        processing_class=policy.tokenizer,
    )
    before = policy.fingerprint()
    trainer.train()
    rows = [row for row in trainer.state.log_history if "reward" in row]
    assert rows
    assert "rewards/exact_answer/mean" in rows[0]
    assert policy.fingerprint() != before or rows[0]["frac_reward_zero_std"] == 1.0


def test_build_tiny_builds_a_policy_that_loads(tmp_path: Path) -> None:
    from rlkit.errors import UserError

    facts = build(tmp_path / "mine", seed=3, steps=2, problems=3, progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"]
    assert facts["config"]["steps"] == 2
    policy = Policy.load(tmp_path / "mine", quantize="nf4", lora=LoraSpec())
    assert len(flatten(policy.generate(get_domain("arith").held_out(1), 2, 4))) == 2
    with pytest.raises(UserError, match="is not empty"):
        build(tmp_path / "mine", steps=2, progress=False)
