"""Pretraining of `tiny`, our own Llama-shaped model, on the domains' generators.

`tiny` is taught right and wrong answers on purpose: about half of its lessons
are plausible mistakes, so that it solves each domain's first level now and
then, never always. That leaves reinforcement learning something to find, and
something to fix.

Left out on purpose: any text from outside; a validation loss (the pass rate
that is measured afterwards says more); mixing of several examples in a row.

Axes: N examples of a batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rlkit.policy.tiny_tokenizer import train_tokenizer, wrap_tokenizer
from rlkit.tasks import get_domain

#: Label of a token that the loss leaves out, as in PyTorch.
IGNORED = -100


@dataclass(frozen=True)
class PretrainConfig:
    """Sizes and schedule; the defaults are those of the shipped weights."""

    hidden_size: int = 192
    intermediate_size: int = 512
    layers: int = 4
    heads: int = 6
    key_value_heads: int = 3
    context: int = 512
    steps: int = 4000
    batch_size: int = 128
    learning_rate: float = 2.5e-3
    warmup_steps: int = 200
    weight_decay: float = 0.05
    seed: int = 0
    #: share of right answers that are taught, per domain
    right_share: tuple[tuple[str, float], ...] = (
        ("arith", 0.5),
        ("sort", 0.55),
        ("countdown", 0.5),
        ("pyfunc", 0.45),
    )
    #: share of the examples that come from each domain
    domain_share: tuple[tuple[str, float], ...] = (
        ("arith", 0.3),
        ("sort", 0.25),
        ("countdown", 0.25),
        ("pyfunc", 0.2),
    )
    #: share of the examples of each difficulty level, lowest first
    level_share: tuple[float, ...] = (0.8, 0.15, 0.05)


@dataclass(frozen=True)
class Lesson:
    """One pretraining example."""

    domain: str
    question: str
    answer: str
    right: bool


def lessons(config: PretrainConfig) -> Iterator[Lesson]:
    """Endless examples from the training split, right and wrong as configured."""
    rng = random.Random(f"lessons/{config.seed}")
    names = [name for name, _ in config.domain_share]
    shares = [share for _, share in config.domain_share]
    right_share = dict(config.right_share)
    while True:
        domain = get_domain(rng.choices(names, shares)[0])
        levels = range(1, domain.levels + 1)
        difficulty = rng.choices(levels, config.level_share[: domain.levels])[0]
        problem = domain.sample(rng, difficulty, "train")
        right = rng.random() < right_share[domain.name]
        teach = domain.good_answer if right else domain.wrong_answer
        yield Lesson(domain.name, problem.question, teach(problem, rng), right)


def new_tokenizer(config: PretrainConfig, examples: int = 20_000) -> PreTrainedTokenizerFast:
    """A tokenizer trained on the first `examples` lessons and on plain Python text."""
    stream = lessons(config)
    texts: list[str] = []
    for _ in range(examples):
        lesson = next(stream)
        texts += [lesson.question, lesson.answer]
    return wrap_tokenizer(train_tokenizer(texts), config.context)


def new_model(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A randomly initialised Llama-shaped model of the configured size."""
    torch.manual_seed(config.seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.key_value_heads,
            max_position_embeddings=config.context,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def batches(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, taught: dict[str, list[int]]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless `(ids_NT, labels_NT)`, of similar length within a batch.

    `taught[domain]` counts the wrong and the right lessons given so far.
    """
    stream = lessons(config)
    shuffle = random.Random(f"batches/{config.seed}")
    assistant = tokenizer.convert_tokens_to_ids("<|assistant|>")
    ends = {k: tokenizer.convert_tokens_to_ids(k) for k in ("<|bos|>", "<|user|>", "<|end|>")}
    while True:
        chunk = [next(stream) for _ in range(config.batch_size * 16)]
        for lesson in chunk:
            taught.setdefault(lesson.domain, [0, 0])[lesson.right] += 1
        questions = tokenizer([c.question for c in chunk], add_special_tokens=False)["input_ids"]
        answers = tokenizer([c.answer for c in chunk], add_special_tokens=False)["input_ids"]
        rows = []
        for question, answer in zip(questions, answers, strict=True):
            prompt = [ends["<|bos|>"], ends["<|user|>"], *question, ends["<|end|>"], assistant]
            rows.append((prompt, [*answer, ends["<|end|>"]]))
        rows.sort(key=lambda row: len(row[0]) + len(row[1]))
        starts = list(range(0, len(rows), config.batch_size))
        shuffle.shuffle(starts)
        for start in starts:
            yield _pad(rows[start : start + config.batch_size], tokenizer.pad_token_id)


def _pad(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), width), pad)
    labels = torch.full((len(rows), width), IGNORED)
    for i, (prompt, answer) in enumerate(rows):
        row = torch.tensor(prompt + answer)
        ids[i, : len(row)] = row
        labels[i, len(prompt) : len(row)] = row[len(prompt) :]
    return ids, labels


def learning_rate_factor(step: int, config: PretrainConfig) -> float:
    """Linear warm-up, then a cosine down to a twentieth."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def answer_loss(
    model: LlamaForCausalLM, ids_NT: torch.Tensor, labels_NT: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy (nats) of the answer tokens; logits are made for those alone."""
    hidden_NTH = model.model(input_ids=ids_NT).last_hidden_state[:, :-1]
    wanted_NT = labels_NT[:, 1:]
    chosen = wanted_NT != IGNORED
    logits = model.lm_head(hidden_NTH[chosen])
    return torch.nn.functional.cross_entropy(logits.float(), wanted_NT[chosen])


def pretrain(
    config: PretrainConfig,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, dict[str, Any]]:
    """Trains `tiny` from nothing; returns model, tokenizer and what was taught.

    Args:
        config: sizes and schedule.
        on_step: called after each step with the step's number and its loss.
    """
    tokenizer = new_tokenizer(config)
    model = new_model(config, tokenizer)
    decay = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": config.weight_decay}, {"params": plain}],
        lr=config.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=0.0,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, config)
    )
    taught: dict[str, list[int]] = {}
    stream = batches(config, tokenizer, taught)
    bf16 = _bf16_pays()
    model.train()
    for step in range(1, config.steps + 1):
        ids_NT, labels_NT = next(stream)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = answer_loss(model, ids_NT, labels_NT)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        on_step(step, loss.item())
    model.eval()
    facts = {
        "config": asdict(config),
        "parameters": sum(p.numel() for p in model.parameters()),
        "taught": {name: {"wrong": w, "right": r} for name, (w, r) in sorted(taught.items())},
    }
    return model, tokenizer, facts


def _bf16_pays() -> bool:
    """Whether this processor multiplies bfloat16 matrices in hardware."""
    return "avx512_bf16" in _cpu_flags() or "amx_bf16" in _cpu_flags()


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return set()
    for line in info.read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()
