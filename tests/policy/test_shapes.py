"""Models as they come: every shape goes the whole way, from a folder and back into one.

Each model is saved with a tokenizer and read again through `Policy.load`, as a downloaded one
would be: tied and untied embeddings, heads in groups, sliding windows, several ids that end
an answer, chat templates with and without a beginning, or with a thought begun.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from rlkit.loop import ClosedLoop, LoopConfig
from rlkit.loop.update import RatioMismatch
from rlkit.policy import LoraSpec, Policy, flatten, scorer, scoring
from rlkit.policy.engine.packing import Packed
from rlkit.policy.loading import TINY
from rlkit.policy.quantization import four_bit_layers
from rlkit.policy.rollout import Rollout
from rlkit.rewards import Reward
from rlkit.tasks import Problem, get_domain

#: The ids that end an answer: the mark of `tiny`, and some that are ordinary text.
ENDS = [2, *range(40, 595, 40)]
SIZES: dict[str, Any] = {
    "vocab_size": 595,  # that of tiny's tokenizer
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": ENDS,
    "pad_token_id": 0,
}
WINDOW = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
GEMMA = {**SIZES, "head_dim": 32}
SHAPES = {
    "llama": LlamaConfig(**SIZES),
    "llama, tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama, one head of keys": LlamaConfig(**{**SIZES, "num_key_value_heads": 1}),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "mistral with a window": MistralConfig(**SIZES, sliding_window=8),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2, tied": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
    "qwen3, tied": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
    "gemma": GemmaConfig(**GEMMA),
    "gemma2": Gemma2Config(**GEMMA, query_pre_attn_scalar=32, **WINDOW),
    "gemma3": Gemma3TextConfig(**GEMMA, query_pre_attn_scalar=32, **WINDOW),
}
#: What the rollout engine leaves to the model.
THROUGH_THE_MODEL = ("mistral with a window", "gemma", "gemma2", "gemma3")
LORA = LoraSpec(rank=4, alpha=8)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return get_domain("pyfunc").held_out(2) + get_domain("arith").held_out(2)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], Path]:
    """Writes a random model of a configuration, with `tiny`'s tokenizer, into a folder."""
    folders: dict[int, Path] = {}

    def save(config: Any) -> Path:
        if id(config) in folders:
            return folders[id(config)]
        folder = tmp_path_factory.mktemp("shape")
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias") or "norm" in name:
                    parameter.add_(torch.randn_like(parameter) * 0.2)
                elif parameter.ndim == 2:
                    # Gemma multiplies its embeddings by the root of their width.
                    scaled = "gemma" in config.model_type and "embed" in name
                    parameter.normal_(0, 0.05 if scaled else 0.2)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(TINY).save_pretrained(folder)
        folders[id(config)] = folder
        return folder

    return save


def stir(policy: Policy, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)


def load(folder: Path, rollouts: str = "exact", quantize: str | None = None) -> Policy:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="rollouts='fast' was asked for")
        policy = Policy.load(folder, quantize=quantize, lora=LORA, seed=3, rollouts=rollouts)
    stir(policy)
    return policy


def by_hand(policy: Policy, rollout: Rollout) -> torch.Tensor:
    """Log-probabilities of a rollout from one forward pass without padding or cache."""
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.completion_ids]])
    with torch.no_grad():
        logits_TV = policy.model(input_ids=ids, use_cache=False).logits[0]
    logits_TV = logits_TV[len(rollout.prompt_ids) - 1 : -1].float() / rollout.temperature
    return torch.log_softmax(logits_TV, -1).gather(-1, ids[0, -len(rollout) :, None])[:, 0]


def agrees(policy: Policy, rollouts: list[Rollout], within: float) -> None:
    """Sampler, learner and a plain forward pass say the same."""
    with torch.no_grad():
        scored = policy.score(rollouts)
    apart = (scored.logprobs_NT - scored.behaviour_NT).abs()[scored.mask_NT]
    assert float(apart.max()) < within
    for i in (0, -1):
        plain_T = by_hand(policy, rollouts[i])
        scored_T = scored.logprobs_NT[i, : len(rollouts[i])].float()
        torch.testing.assert_close(scored_T, plain_T, atol=within, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_whole_way(shape: str, saved, problems: list[Problem], tmp_path: Path) -> None:
    """Load, generate, score, one update, generate again, save, load again."""
    folder = saved(SHAPES[shape])
    ways = {kind: load(folder, kind) for kind in ("exact", "plain", "fast")}
    known = shape not in THROUGH_THE_MODEL
    assert ways["exact"].sampler.kind == ("exact" if known else "plain")
    assert ways["exact"].end_ids == tuple(ENDS)
    drawn = {kind: flatten(p.generate(problems, 3, 12)) for kind, p in ways.items()}
    agrees(ways["exact"], drawn["exact"], 1e-4)
    agrees(ways["plain"], drawn["plain"], 1e-4)
    assert drawn["exact"] == [
        replace(r, behaviour_logprobs=mine.behaviour_logprobs)
        for r, mine in zip(drawn["plain"], drawn["exact"], strict=True)
    ]
    if known and not ways["fast"].sampler.exact:  # rounded, so near and not equal
        agrees(ways["exact"], [r for r in drawn["fast"] if len(r) > 1], 1.0)
    reasons = {r.finish_reason for r in drawn["exact"]}
    assert reasons == {"stop", "length"}, "some answers were meant to end early"

    policy = ways["exact"]
    before = policy.fingerprint()
    optimizer = torch.optim.SGD(policy.trainable().values(), lr=0.02)
    policy.score(drawn["exact"]).logprobs_NT.sum().backward()
    assert all(float(p.grad.abs().max()) > 0 for p in policy.trainable().values())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert policy.fingerprint() != before
    ways["plain"].restore(policy.snapshot())
    again = {k: flatten(ways[k].generate(problems, 3, 12)) for k in ("exact", "plain")}
    agrees(policy, again["exact"], 1e-4)
    assert [r.completion_ids for r in again["exact"]] == [r.completion_ids for r in again["plain"]]

    policy.save(tmp_path / "kept")
    reloaded = Policy.load(tmp_path / "kept", quantize=None, seed=3)
    assert reloaded.fingerprint() == policy.fingerprint()
    reloaded.load_state_dict({**policy.state_dict(), "draws": 1})
    rollouts = flatten(reloaded.generate(problems, 3, 12))
    assert [r.completion_ids for r in rollouts] == [r.completion_ids for r in again["exact"]]
    agrees(reloaded, rollouts, 1e-4)


def test_an_answer_ends_at_any_of_the_ends_and_keeps_it_out_of_the_text(saved, problems) -> None:
    policy = load(saved(SHAPES["llama"]))
    rollouts = flatten(policy.generate(problems, 16, 24))
    ended = [r for r in rollouts if r.finish_reason == "stop"]
    assert len({r.completion_ids[-1] for r in ended}) > 3, "several of the ends were meant"
    for r in rollouts:
        assert not set(r.completion_ids[:-1]) & set(ENDS)
        assert (r.completion_ids[-1] in ENDS) == (r.finish_reason == "stop")
        kept = r.completion_ids[:-1] if r.finish_reason == "stop" else r.completion_ids
        assert r.text == policy.tokenizer.decode(kept, skip_special_tokens=True)


# -- prompts: what the template writes is what the model reads ----------------------------------

ASKED = [{"role": "user", "content": "2 + 2"}]
TEMPLATES = {
    # template, what it should come to for ASKED
    "with its own beginning": (
        "{{ bos_token }}{% for m in messages %}<|user|>{{ m['content'] }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
        "<|bos|><|user|>2 + 2<|end|><|assistant|>",
    ),
    "without a beginning": (
        "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
        "<|user|>2 + 2<|end|><|assistant|>",
    ),
    "with a thought begun": (
        "{{ bos_token }}{% for m in messages %}<|user|>{{ m['content'] }}{{ eos_token }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|><think>\n{% endif %}",
        "<|bos|><|user|>2 + 2<|end|><|assistant|><think>\n",
    ),
}


def tokenizer_that_begins(folder: Path, bos: bool) -> Any:
    """`tiny`'s tokenizer, which now puts a beginning before every text by itself, or has none."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if bos:
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single="<|bos|> $A", special_tokens=[("<|bos|>", 1)]
        )
        assert tokenizer("x")["input_ids"][0] == 1
    else:
        tokenizer.bos_token = None
    return tokenizer


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize("template", TEMPLATES)
def test_prompts_are_encoded_once(template: str, bos: bool, saved, tmp_path: Path) -> None:
    """The ids spell the template's text; nothing is doubled, nothing is left out."""
    written, expected = TEMPLATES[template]
    if not bos:
        expected = expected.removeprefix("<|bos|>")
        written = written.removeprefix("{{ bos_token }}")
    folder = tmp_path / "model"
    AutoModelForCausalLM.from_pretrained(saved(SHAPES["qwen3, tied"])).save_pretrained(folder)
    tokenizer = tokenizer_that_begins(TINY, bos)
    tokenizer.chat_template = written
    tokenizer.save_pretrained(folder)
    policy = load(folder)
    assert (policy.tokenizer.bos_token is None) == (not bos)
    problem = replace(get_domain("arith").held_out(1)[0], prompt=ASKED)
    ids = policy.encode(problem)
    assert policy.tokenizer.decode(ids) == expected
    assert ids.count(1) == expected.count("<|bos|>")
    assert ids.count(policy.tokenizer.convert_tokens_to_ids("<think>")) == expected.count("<think>")
    (group,) = policy.generate([problem], 4, 8)
    for rollout in group.rollouts:
        assert list(rollout.prompt_ids) == ids
        # The answer begins behind what the template began: its own tokens, and no others.
        kept = rollout.completion_ids
        kept = kept[:-1] if rollout.finish_reason == "stop" else kept
        assert rollout.text == policy.tokenizer.decode(kept, skip_special_tokens=True)
    agrees(policy, list(group.rollouts), 1e-4)


def test_plain_text_gets_one_beginning_where_there_is_one(saved, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(saved(SHAPES["qwen3, tied"]))
    problem = replace(get_domain("arith").held_out(1)[0], prompt=ASKED)
    spelled = replace(problem, prompt=[{"role": "user", "content": "<|bos|>2 + 2"}])
    for bos in (True, False):
        folder = tmp_path / str(bos)
        model.save_pretrained(folder)
        tokenizer = tokenizer_that_begins(TINY, bos)
        tokenizer.chat_template = None
        tokenizer.save_pretrained(folder)
        policy = load(folder)
        text = policy.tokenizer.decode(policy.encode(problem))
        assert text == ("<|bos|>2 + 2\n" if bos else "2 + 2\n")
        assert policy.encode(problem).count(1) == int(bos)
        assert policy.encode(spelled).count(1) == 1


# -- the trap of four bits ----------------------------------------------------------------------


def gradients(policy: Policy, rollouts: list[Rollout]) -> dict[str, torch.Tensor]:
    for parameter in policy.trainable().values():
        parameter.grad = None
    policy.score(rollouts).logprobs_NT.sum().backward()
    return {n: p.grad.clone() for n, p in policy.trainable().items() if p.grad is not None}


def dequantised(policy: Policy, folder: Path) -> Policy:
    """A policy of plain weights that are exactly what the four bits stand for."""
    import bitsandbytes.functional as four_bit

    plain = Policy.load(folder, quantize=None, lora=LORA, seed=3)
    plain.restore(policy.snapshot())
    packed = dict(policy.model.named_modules())
    with torch.no_grad():
        for name, module in plain.model.named_modules():
            weight = getattr(packed.get(name), "weight", None)
            if weight is not None and weight.dtype == torch.uint8:
                module.weight.copy_(four_bit.dequantize_4bit(weight.data, weight.quant_state))
    return plain


def furthest(ours: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The largest relative distance of a gradient; 1 where there is none."""
    assert all(float(gradient.norm()) > 0 for gradient in expected.values())
    return max(
        1.0 if name not in ours else float((ours[name] - gradient).norm() / gradient.norm())
        for name, gradient in expected.items()
    )


@pytest.mark.parametrize("avx512_bf16", [True, False])
@pytest.mark.parametrize("rollouts", ["exact", "plain"])
def test_four_bits_pass_their_gradients_whatever_went_before(
    rollouts: str,
    avx512_bf16: bool,
    saved,
    problems: list[Problem],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After sampling, after an evaluation, and after saving and loading again."""
    import bitsandbytes as bnb

    monkeypatch.setattr(bnb.nn.modules, "has_avx512bf16", lambda: avx512_bf16)
    folder = saved(SHAPES["qwen3, tied"])
    policy = load(folder, rollouts, quantize="nf4")
    asked = flatten(policy.generate(problems, 2, 8))
    expected = gradients(dequantised(policy, folder), asked)
    assert furthest(gradients(policy, asked), expected) < 1e-3

    letters = Reward(lambda completions, **_: [t.count("e") for t in completions], "letters")
    config = LoopConfig(problems_per_step=1, group_size=2, max_new_tokens=4)
    ClosedLoop(policy, ["arith"], config=config, reward=letters).evaluate(problems=2)
    assert furthest(gradients(policy, asked), expected) < 1e-3

    policy.save(tmp_path / "kept")
    again = Policy.load(tmp_path / "kept", quantize="nf4", rollouts=rollouts)
    again.generate(problems[:1], 2, 4)
    with torch.no_grad(), again.reference():
        again.score(asked)
    assert furthest(gradients(again, asked), expected) < 1e-3


def test_the_trap_is_there_and_this_comparison_sees_it(saved, problems: list[Problem]) -> None:
    folder = saved(SHAPES["qwen3, tied"])
    policy = load(folder, "plain", quantize="nf4")
    layers = four_bit_layers(policy.model)
    if not type(layers[0])(64, 64).support_avx512bf16_for_cpu:
        pytest.skip("this processor has no AVX512-BF16, so the library never repacks a layer")
    asked = flatten(policy.generate(problems, 2, 8))
    expected = gradients(dequantised(policy, folder), asked)
    for layer in layers:  # as they were before `Policy.load` looked after them
        layer.support_avx512bf16_for_cpu = True
    policy.generate(problems[:1], 1, 2)
    assert furthest(gradients(policy, asked), expected) > 0.5


# -- mistakes that the ratio sees ---------------------------------------------------------------


def _positions_twice_as_far(mask: torch.Tensor) -> torch.Tensor:
    return 2 * (mask.long().cumsum(-1) - 1).clamp(min=0)


def _shifted(right: Callable[..., Any]) -> Callable[..., Any]:
    def pad_left(rows: Any, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids, mask = right(rows, pad)
        return ids, torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)

    return pad_left


def _without_temperature(right: Callable[..., Any]) -> Callable[..., Any]:
    def token_logprobs(hidden: Any, weight: Any, chosen: Any, temperature: float, *rest: Any):
        return right(hidden, weight, chosen, 1.0, *rest)

    return token_logprobs


def _packed_with(**changed: Callable[[Packed], torch.Tensor]) -> Callable[..., Any]:
    def spoil(right: Callable[..., Packed]) -> Callable[..., Packed]:
        def pack(*rows: Any) -> Packed:
            packed = right(*rows)
            return replace(packed, **{name: make(packed) for name, make in changed.items()})

        return pack

    return spoil


MISTAKES = {
    "model: position ids": (scoring, "position_ids", lambda right: _positions_twice_as_far),
    "model: a shifted mask": (scoring, "pad_left", _shifted),
    "model: a missing temperature": (scoring, "token_logprobs", _without_temperature),
    "copy: position ids": (
        scorer,
        "pack",
        _packed_with(positions_M=lambda packed: 2 * packed.positions_M),
    ),
    "copy: a shifted mask": (
        scorer,
        "pack",
        _packed_with(predicts_S=lambda packed: (packed.predicts_S - 1).clamp(min=0)),
    ),
    "copy: a missing temperature": (scorer, "token_logprobs", _without_temperature),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_learner_stops_the_loop(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = mistake.split(":")[0]
    policy = Policy.load("tiny", quantize=None, lora=LORA, seed=3, learner=way)
    # Every second answer is worth something, so that every answer is learned from.
    turns = Reward(lambda completions, **_: [i % 2 for i in range(len(completions))], "turns")
    config = LoopConfig(problems_per_step=3, group_size=4, max_new_tokens=16, temperature=0.7)
    loop = ClosedLoop(policy, ["pyfunc", "arith"], config=config, reward=turns)
    assert loop.step()["sampling/sampling_logp_difference/max"] < 1e-3
    module, name, spoil = MISTAKES[mistake]
    before = policy.fingerprint()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, spoil(getattr(module, name)))
        with pytest.raises(RatioMismatch, match="positions, masks or temperatures"):
            loop.step()
    assert policy.fingerprint() == before
    loop.step()  # and without it the loop goes on
