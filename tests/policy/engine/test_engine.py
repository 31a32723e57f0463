"""The rollout engine computes the model's own numbers, whatever the model looks like."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Gemma2Config, LlamaConfig, MistralConfig

from rlkit.policy.engine import blueprint, weights
from rlkit.policy.engine.rollouts import Engine
from rlkit.policy.engine.sampling import Sampling
from rlkit.policy.generation import sample_groups, uniform_streams
from rlkit.policy.sampler import Sampler

PROMPTS = [[5, 6, 7, 8, 9], [11, 12, 13], [20, 21, 22, 23, 24, 25, 26, 27]]
END = 3


def both_ways(model: Any, dtype: torch.dtype = torch.float32, tokens: int = 24) -> tuple[Any, Any]:
    uniform = uniform_streams(1, 1, 0, len(PROMPTS) * 4, tokens)
    plain = sample_groups(model, PROMPTS, 4, tokens, 1.0, (END,), 0, uniform)
    engine = Engine(model, dtype)
    return plain, engine.generate(PROMPTS, 4, tokens, Sampling(), (END,), uniform)


def test_the_same_tokens_and_the_same_log_probabilities(build, any_shape) -> None:
    plain, ours = both_ways(build(any_shape))
    assert [s.ids for s in ours] == [s.ids for s in plain]
    assert [s.stopped for s in ours] == [s.stopped for s in plain]
    for one, other in zip(ours, plain, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_answers_that_end_early_leave_the_batch_and_change_nothing_for_the_others(
    build, shapes
) -> None:
    model = build(shapes["llama"])
    uniform = uniform_streams(2, 1, 0, 12, 40)
    # A third of the vocabulary ends an answer, so rows leave at almost every token.
    ends = tuple(range(0, 300, 9))
    plain = sample_groups(model, PROMPTS, 4, 40, 1.0, ends, 0, uniform)
    ours = Engine(model, torch.float32).generate(PROMPTS, 4, 40, Sampling(), ends, uniform)
    lengths = {len(s.ids) for s in plain}
    assert len(lengths) > 4, "the answers were meant to end at different moments"
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_the_same_answer_whoever_else_is_in_the_batch(build, shapes) -> None:
    engine = Engine(build(shapes["qwen3"]), torch.float32)
    uniform = uniform_streams(3, 1, 0, 12, 16)
    together = engine.generate(PROMPTS, 4, 16, Sampling(), (END,), uniform)
    alone = []
    for i, prompt in enumerate(PROMPTS):
        rows = uniform[4 * i : 4 * i + 4]
        alone += engine.generate([prompt], 4, 16, Sampling(), (END,), rows)
    assert [s.ids for s in together] == [s.ids for s in alone]


def test_a_changed_adapter_is_merged_again_however_it_was_changed(build, shapes) -> None:
    model = build(shapes["llama"])
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


def test_plain_weights_that_are_trained_are_copied_again(build, shapes) -> None:
    model = build(shapes["llama"], rank=0)
    engine = Engine(model, torch.float32)
    first = engine.refresh()
    assert engine.refresh() is first
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.5)
    assert engine.refresh() is not first
    plain, ours = both_ways(model)
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_bfloat16_is_near_and_not_equal(build, shapes) -> None:
    model = build(shapes["llama"])
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
    ("kind", "options", "reason"),
    [
        (Gemma2Config, {"head_dim": 8}, "models of type 'gemma2'"),
        (MistralConfig, {"sliding_window": 16}, "sliding window"),
        (LlamaConfig, {"hidden_act": "gelu"}, "activation 'gelu'"),
    ],
)
def test_what_is_not_known_goes_through_the_model(
    build, shapes, kind: Any, options: dict, reason: str
) -> None:
    model = build(kind(**shapes["sizes"], **options), rank=0)
    assert reason in blueprint.why_not(model)
    sampler = Sampler(model, "exact", 0)
    assert sampler.kind == "plain" and reason in str(sampler)
    uniform = uniform_streams(1, 1, 0, 6, 5)
    (first, *_) = sampler.generate(PROMPTS, 2, 5, Sampling(), (END,), uniform)
    assert 1 <= len(first.ids) <= 5
    with pytest.warns(UserWarning, match="fast"):
        Sampler(model, "fast", 0)


def test_dora_is_left_to_the_model(build, shapes) -> None:
    model = build(shapes["llama"], rank=0)
    config = LoraConfig(r=2, use_dora=True, target_modules=["q_proj"])
    assert "DoRA" in blueprint.why_not(get_peft_model(model, config))


def test_an_engine_that_computes_something_else_is_not_believed(
    build, shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(shapes["llama"])
    sampler = Sampler(model, "exact", 0)
    # A mistake as a new release of the library could bring it.
    sampler.engine.blueprint = type(sampler.engine.blueprint)(
        **{**vars(sampler.engine.blueprint), "scale": 0.9}
    )
    uniform = uniform_streams(1, 1, 0, 12, 8)
    with pytest.warns(UserWarning, match="nats away from this model"):
        ours = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    assert sampler.kind == "plain"
    plain = sample_groups(model, PROMPTS, 4, 8, 1.0, (END,), 0, uniform)
    assert [s.ids for s in ours] == [s.ids for s in plain]


def test_memory_is_bounded_and_the_split_changes_nothing(
    build, shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(shapes["llama"])
    sampler = Sampler(model, "exact", 0)
    # Keys and values: 2 x 3 layers x 2 heads x 8 numbers x 4 bytes
    assert sampler.engine.bytes_a_token() == 2 * 3 * 2 * 8 * 4
    uniform = uniform_streams(1, 1, 0, 12, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    monkeypatch.setattr("rlkit.policy.sampler.MAX_CACHE", 384 * 8 * 5)  # five rows
    assert sampler.rows_at_once(4, 8) == 1
    parts = sampler.generate(PROMPTS, 4, 8, Sampling(), (END,), uniform)
    assert [s.ids for s in parts] == [s.ids for s in whole]
