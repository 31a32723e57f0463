"""Counted: what a model's configuration says about its memory, before any weight is read.

The model is built without memory for its weights (on torch's `meta` device), so that what is
counted is exactly what would be loaded, whatever the architecture.

Left out: the peak while weights are read and packed, which the probe measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.plan_machine import MB
from rlkit.loop.plan_sizes import Size

#: Bytes of a weight in four bits with double quantisation: 4 bits, and 0.127 for the scales.
NF4_BYTES = (4 + 0.127) / 8
#: An adapter's parameters, gradient and two moments, and two copies of all but the gradient:
#: one from before the step, and one for a rollback.
ADAPTER_COPIES = 4 + 2 * 3


@dataclass(frozen=True)
class Counted:
    """What a model's configuration says, in MB.

    Attributes:
        parameters: of the model.
        weights_mb: as they are kept, in four bits or not.
        copy_mb: of the copy that answers come from.
        adapter_mb: adapter, gradient, moments, and the copies for the ways back.
        adapter_parameters: of the adapter alone.
    """

    parameters: int
    weights_mb: float
    copy_mb: float
    adapter_mb: float
    adapter_parameters: int

    @property
    def total_mb(self) -> float:
        return self.weights_mb + self.copy_mb + self.adapter_mb


def count(policy: str, quantize: str | None, rank: int, rollouts: str) -> Counted:
    """Counts a model from its configuration; no weights are read.

    Raises:
        UserError: an unknown policy, or one without a configuration that can be read.

    >>> counted = count("tiny", None, 2, "exact")
    >>> counted.parameters, counted.adapter_parameters
    (1737984, 27648)
    """
    import torch
    from transformers import AutoModelForCausalLM

    from rlkit.policy.engine.precision import fastest_dtype
    from rlkit.policy.loading import quiet_transformers

    with torch.device("meta"), quiet_transformers():
        model = AutoModelForCausalLM.from_config(_config(policy))
    head = model.get_output_embeddings()
    linears = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    inside = sum(m.weight.numel() for m in linears)
    total = sum(p.numel() for p in model.parameters())
    adapter = rank * sum(m.in_features + m.out_features for m in linears)
    weights = (inside * (NF4_BYTES if quantize == "nf4" else 4) + (total - inside) * 4) / MB
    width = {"plain": 0, "exact": 4}.get(rollouts, fastest_dtype().itemsize)
    return Counted(total, weights, total * width / MB, ADAPTER_COPIES * adapter * 4 / MB, adapter)


def _config(policy: str) -> Any:
    """The configuration of a policy's base."""
    from transformers import AutoConfig

    from rlkit.policy.loading import resolve_source
    from rlkit.policy.saving import saved_policy

    source = resolve_source(policy)
    saved = saved_policy(source)
    try:
        return AutoConfig.from_pretrained(
            source if saved is None else resolve_source(saved["base"])
        )
    except (OSError, ValueError) as error:
        why = str(error).strip().split("\n")[0]
        raise UserError(f"the model {policy!r} cannot be counted: {why}") from error


def check_size(policy: str, size: Size) -> None:
    """Refuses prompts that the chat template alone is longer than, and what has no room."""
    from rlkit.loop.plan_probe import WORDS, length_of
    from rlkit.policy.loading import load_tokenizer, resolve_source

    if size.group_size < 2:
        raise UserError("group_size must be at least 2: a lone answer has nothing to differ from")
    context = getattr(_config(policy), "max_position_embeddings", None)
    if context is not None and size.prompt_tokens + size.new_tokens > context:
        raise UserError(
            f"{size.prompt_tokens} prompt tokens and {size.new_tokens} new ones do not fit the "
            f"context of {context} tokens of {policy!r}"
        )
    tokenizer = load_tokenizer(resolve_source(policy))
    shortest = max(length_of(tokenizer, word) for word in WORDS)
    if size.prompt_tokens < shortest:
        raise UserError(
            f"the shortest prompts of this model have {shortest} tokens, chat template included; "
            f"ask for that many prompt tokens at least, not {size.prompt_tokens}"
        )


def own_rank(policy: str) -> int | None:
    """The rank of the adapter that a saved policy brings along."""
    from rlkit.policy.loading import resolve_source
    from rlkit.policy.saving import saved_policy

    saved = saved_policy(resolve_source(policy))
    return None if saved is None else saved["lora"].rank
