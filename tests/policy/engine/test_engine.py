"""The rollout engine computes the model's own numbers, whatever the model looks like."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from rlkit.policy.engine import blueprint, weights
from rlkit.policy.engine.rollouts import Engine
from rlkit.policy.engine.sampling import Sampling
from rlkit.policy.generation import sample_groups, uniform_streams
from rlkit.policy.sampler import Sampler

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
SHAPES = {
    "llama": LlamaConfig(**SIZES),
    "llama tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama without groups": LlamaConfig(**{**SIZES, "num_key_value_heads": 6}),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
}
PROMPTS = [[5, 6, 7, 8, 9], [11, 12, 13], [20, 21, 22, 23, 24, 25, 26, 27]]
END = 3


def build(config: Any, rank: int = 4) -> Any:
    torch.manual_seed(0)
    # Larger than usual, so that what is computed wrongly is far off.
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            elif parameter.ndim == 2:
                parameter.normal_(0, 0.2)
    if not rank:
        return model
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = get_peft_model(model, LoraConfig(r=rank, lora_alpha=8, target_modules=targets))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    return adapted.eval()


def both_ways(model: Any, dtype: torch.dtype = torch.float32, tokens: int = 24) -> tuple[Any, Any]:
    uniform = uniform_streams(1, 1, 0, len(PROMPTS) * 4, tokens)
    plain = sample_groups(model, PROMPTS, 4, tokens, 1.0, (END,), 0, uniform)
    engine = Engine(model, dtype)
    return plain, engine.generate(PROMPTS, 4, tokens, Sampling(), (END,), uniform)


@pytest.mark.parametrize("name", SHAPES)
def test_the_same_tokens_and_the_same_log_probabilities(name: str) -> None:
    plain, ours = both_ways(build(SHAPES[name]))
    assert [s.ids for s in ours] == [s.ids for s in plain]
    assert [s.stopped for s in ours] == [s.stopped for s in plain]
    for one, other in zip(ours, plain, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_answers_that_end_early_leave_the_batch_and_change_nothing_for_the_others() -> None:
    model = build(SHAPES["llama"])
    uniform = uniform_streams(2, 1, 0, 12, 40)
    # A third of the vocabulary ends an answer, so rows leave at almost every token.
    ends = tuple(range(0, 300, 9))
    plain = sample_groups(model, PROMPTS, 4, 40, 1.0, ends, 0, uniform)
    ours = Engine(model, torch.float32).generate(PROMPTS, 4, 40, Sampling(), ends, uniform)
    lengths = {len(s.ids) for s in plain}
    assert len(lengths) > 4, "the answers were meant to end at different moments"
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_the_same_answer_whoever_else_is_in_the_batch() -> None:
    engine = Engine(build(SHAPES["qwen3"]), torch.float32)
    uniform = uniform_streams(3, 1, 0, 12, 16)
    together = engine.generate(PROMPTS, 4, 16, Sampling(), (END,), uniform)
    alone = []
    for i, prompt in enumerate(PROMPTS):
        rows = uniform[4 * i : 4 * i + 4]
        alone += engine.generate([prompt], 4, 16, Sampling(), (END,), rows)
    assert [s.ids for s in together] == [s.ids for s in alone]


def test_a_changed_adapter_is_merged_again_however_it_was_changed() -> None:
    model = build(SHAPES["llama"])
    engine = Engine(model, torch.float32)
    uniform = uniform_streams(1, 1, 0, 4, 6)

    def likelihoods() -> list[float]:
        (first, *_) = engine.generate(PROMPTS[:1], 4, 6, Sampling(), (END,), uniform)
        return first.logprobs[:1]

    before = likelihoods()
    assert likelihoods() == before
    adapter = next(p for n, p in model.named_parameters() if "lora_B" in n)
    adapter.data.mul_(-3)  # behind autograd's back: no change counter moves
    changed = likelihoods()
    assert changed != before
    with model.disable_adapter():
        without = likelihoods()
    assert without not in (before, changed)
    assert likelihoods() == changed


def test_plain_weights_that_are_trained_are_copied_again() -> None:
    model = build(SHAPES["llama"], rank=0)
    engine = Engine(model, torch.float32)
    first = engine.refresh()
    assert engine.refresh() is first
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.5)
    assert engine.refresh() is not first
    plain, ours = both_ways(model)
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_bfloat16_is_near_and_not_equal() -> None:
    model = build(SHAPES["llama"])
    exact = Engine(model, torch.float32).check(PROMPTS[2])
    fast = Engine(model, torch.bfloat16).check(PROMPTS[2])
    assert exact < 1e-4 < fast < 0.2


def test_the_packed_product_computes_what_the_plain_one_does() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(40, 24).bfloat16(), torch.randn(5, 24).bfloat16()
    bias = torch.randn(40).bfloat16()
    got = weights.Product(weight, bias)(x)
    expected = torch.nn.functional.linear(x, weight, bias)
    assert torch.allclose(got.float(), expected.float(), atol=0.1)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Gemma2Config(**SIZES, head_dim=8), "models of type 'gemma2'"),
        (MistralConfig(**SIZES, sliding_window=16), "sliding window"),
        (LlamaConfig(**SIZES, hidden_act="gelu"), "activation 'gelu'"),
    ],
)
def test_what_is_not_known_goes_through_the_model(config: Any, reason: str) -> None:
    model = build(config, rank=0)
    assert reason in blueprint.why_not(model)
    sampler = Sampler(model, "exact", 0)
    assert sampler.kind == "plain" and reason in str(sampler)
    uniform = uniform_streams(1, 1, 0, 6, 5)
    (first, *_) = sampler.generate(PROMPTS, 2, 5, Sampling(), (END,), uniform)
    assert 1 <= len(first.ids) <= 5
    with pytest.warns(UserWarning, match="fast"):
        Sampler(model, "fast", 0)


def test_dora_is_left_to_the_model() -> None:
    model = build(SHAPES["llama"], rank=0)
    config = LoraConfig(r=2, use_dora=True, target_modules=["q_proj"])
    assert "DoRA" in blueprint.why_not(get_peft_model(model, config))


def test_an_engine_that_computes_something_else_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build(SHAPES["llama"])
    sampler = Sampler(model, "exact", 0)
    # A mistake as a new release of the library could bring it.
    sampler._engine.blueprint = type(sampler._engine.blueprint)(
        **{**vars(sampler._engine.blueprint), "scale": 0.9}
    )
    uniform = uniform_streams(1, 1, 0, 12, 8)
    with pytest.warns(UserWarning, match="nats away from this model"):
        ours = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    assert sampler.kind == "plain"
    plain = sample_groups(model, PROMPTS, 4, 8, 1.0, (END,), 0, uniform)
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_memory_is_bounded_and_the_split_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(SHAPES["llama"])
    sampler = Sampler(model, "exact", 0)
    # Keys and values: 2 x 3 layers x 2 heads x 8 numbers x 4 bytes
    assert sampler._engine.bytes_a_token() == 2 * 3 * 2 * 8 * 4
    uniform = uniform_streams(1, 1, 0, 12, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    monkeypatch.setattr("rlkit.policy.sampler.MAX_CACHE", 384 * 8 * 5)  # five rows
    assert sampler.rows_at_once(4, 8) == 1
    parts = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    assert [s.ids for s in parts] == [s.ids for s in whole]
