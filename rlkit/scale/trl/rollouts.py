"""SharedPrefixRollouts: our generator in the place of TRL's, as `rollout_func`.

TRL hands over the prompts of this rank with every prompt repeated for its group, and wants
one completion for each. Equal prompts that stand side by side are read once, and the answers
come from `rlkit.policy.sampler`. Each answer draws from a stream of its own, numbered over
all ranks, so two ranks say together what one would have said alone.

The model is the trainer's own, unwrapped, with its adapter in place. A model in shards is
gathered for the time of the generation and goes through its own forward pass: ranks whose
answers end at different lengths would otherwise wait for each other for ever. That costs the
memory of the whole weights once.

Left out: vLLM, which TRL drives itself; several turns; top-p and top-k, which bias the ratio;
the `fast` way of the sampler, whose log-probabilities TRL 1.16 corrects for vLLM alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.engine.sampling import Sampling
from rlkit.policy.generation import uniform_streams
from rlkit.policy.prompts import encode_prompt
from rlkit.policy.quantization import keep_gradients
from rlkit.policy.sampler import Sampler


class SharedPrefixRollouts:
    """A `rollout_func` for `GRPOTrainer`; prompts of a group are read once.

    Beside the ids and log-probabilities it gives `finish_reason`, which reaches the rewards.

    Args:
        seed: decides everything that is sampled; the same on every rank.
        kind: `exact` (a copy of the weights with the adapter merged), or `plain` (the model's
            own forward pass, which a model in shards always takes).
    """

    def __init__(self, seed: int = 0, kind: str = "exact") -> None:
        if kind not in ("exact", "plain"):
            raise UserError(f"kind={kind!r} is not a way to generate here; give exact or plain")
        self.seed = seed
        self.kind = kind
        self._calls = 0
        self._sampler: Sampler | None = None

    def __str__(self) -> str:
        return f"shared prefix, {self._sampler or self.kind}"

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list]:
        """One completion for each prompt, in their order.

        Args:
            prompts: chats or texts of this rank; a group's stand side by side.
            trainer: the `GRPOTrainer`; sizes, temperature and model are read from it.

        Raises:
            UserError: settings that this generator does not follow, or a prompt that leaves
                no room for an answer.
        """
        _check_settings(trainer)
        tokenizer, budget = trainer.processing_class, trainer.max_completion_length
        runs = _runs(prompts)
        encoded = [encode_prompt(tokenizer, _messages(prompt)) for prompt, _ in runs]
        _check_room(trainer, encoded)
        self._calls += 1
        first = trainer.accelerator.process_index * len(prompts)
        uniform_NT = uniform_streams(self.seed, self._calls, first, len(prompts), budget)
        prompt_ids: list[list[int]] = []
        sampled = []
        with generating(trainer) as model:
            sampler = self._sampler_of(model, tokenizer.pad_token_id)
            for start, stop in _equal_lengths([length for _, length in runs]):
                part, size = encoded[start:stop], runs[start][1]
                done = len(sampled)
                sampled += sampler.generate(
                    part,
                    size,
                    budget,
                    Sampling(trainer.temperature),
                    trainer.eos_token_ids,
                    uniform_NT[done : done + len(part) * size],
                )
                prompt_ids += [list(ids) for ids in part for _ in range(size)]
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [s.ids for s in sampled],
            "logprobs": [s.logprobs for s in sampled],
            "finish_reason": ["stop" if s.stopped else "length" for s in sampled],
        }

    def _sampler_of(self, model: Any, pad_id: int) -> Sampler:
        if self._sampler is None or self._sampler.model is not model:
            self._sampler = Sampler(model, "plain" if in_shards(model) else self.kind, pad_id)
        return self._sampler

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "calls": self._calls}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on with the next stream, as if never stopped."""
        self.seed, self._calls = int(state["seed"]), int(state["calls"])


@contextmanager
def generating(trainer: Any) -> Iterator[Any]:
    """The trainer's model, unwrapped, whole and in eval mode; put back at the end."""
    from trl.models import unwrap_model_for_generation

    wrapped = trainer.model_wrapped
    checkpointing = {}
    if "gradient_checkpointing_kwargs" in signature(unwrap_model_for_generation).parameters:
        # TRL 1.14 does not have it: there the model keeps its own settings.
        checkpointing["gradient_checkpointing_kwargs"] = trainer.args.gradient_checkpointing_kwargs
    was_training = trainer.model.training
    with (
        unwrap_model_for_generation(
            wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            **checkpointing,
        ) as model,
        unsharded(model),
    ):
        keep_gradients(model)  # 4-bit layers must not repack themselves for inference
        model.eval()
        try:
            yield model
        finally:
            model.train(was_training)


@contextmanager
def unsharded(model: torch.nn.Module) -> Iterator[None]:
    """Holds the whole weights of an FSDP2 model on every rank; does nothing for others.

    Within it a forward pass talks to no other rank.
    """
    from torch.distributed.fsdp import FSDPModule

    shards = [m for m in model.modules() if isinstance(m, FSDPModule)]
    try:
        for module in shards:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        yield
    finally:
        for module in shards:
            module.reshard()
            module.set_reshard_after_forward(True, recurse=False)


def in_shards(model: torch.nn.Module) -> bool:
    """Whether other ranks hold parts of this model, by FSDP2 or by ZeRO-3."""
    from torch.distributed.tensor import DTensor

    return any(isinstance(p, DTensor) or hasattr(p, "ds_id") for p in model.parameters())


def _equal_lengths(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of runs of equal length; a group that is cut between two ranks has another.

    >>> list(_equal_lengths([2, 4, 4, 2]))
    [(0, 1), (1, 3), (3, 4)]
    """
    start = 0
    for place, length in enumerate(lengths):
        if length != lengths[start]:
            yield start, place
            start = place
    yield start, len(lengths)


def _runs(prompts: Sequence[Any]) -> list[tuple[Any, int]]:
    """Equal prompts side by side, as (prompt, how many)."""
    runs: list[list[Any]] = []
    for prompt in prompts:
        if runs and runs[-1][0] == prompt:
            runs[-1][1] += 1
        else:
            runs.append([prompt, 1])
    return [(prompt, count) for prompt, count in runs]


def _messages(prompt: Any) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _check_settings(trainer: Any) -> None:
    if trainer.use_vllm:
        raise UserError("vLLM generates by itself; leave rollout_func out, or use_vllm=False")
    odd = [
        f"{name}={value!r}"
        for name, value, neutral in (
            ("top_p", trainer.top_p, (1.0,)),
            ("top_k", trainer.top_k, (0, None)),
            ("min_p", trainer.min_p, (None, 0.0)),
            ("repetition_penalty", trainer.repetition_penalty, (1.0,)),
        )
        if value not in neutral
    ]
    if odd:
        raise UserError(
            f"{', '.join(odd)} would be ignored: the shared-prefix generator samples from the "
            "whole distribution, so that its log-probabilities are the policy's; leave it out"
        )


def _check_room(trainer: Any, encoded: Sequence[Sequence[int]]) -> None:
    context = getattr(trainer.model.config, "max_position_embeddings", None)
    longest = max(len(ids) for ids in encoded)
    if context is not None and longest + trainer.max_completion_length > context:
        raise UserError(
            f"a prompt has {longest} tokens; with max_completion_length="
            f"{trainer.max_completion_length} it does not fit the context of {context} tokens; "
            "shorten the prompt or the budget"
        )
