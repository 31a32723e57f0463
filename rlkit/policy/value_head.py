"""Value head: what the policy's own trunk says an answer will earn, before each token.

A small network on the last hidden states, for PPO's baseline (1707.06347). It becomes a
part of the policy's model, so that `trainable`, `snapshot`, a checkpoint and a rollback
cover it; `Policy.save` leaves it out, as nobody needs it to answer problems.

What the network reads is a choice: the policy's trunk, left alone (`detached`) or moved by
the value loss too (`shared`), or the base with low-rank additions that only the values see
(`own_lora`, `rlkit.policy.value_lora`).

Left out: values at the end of an answer cut by the budget, which counts as an end like any
other.

Axes: N rollouts, P prompt tokens, T completion tokens, H hidden width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.generation import pad_left, position_ids
from rlkit.policy.policy import Policy
from rlkit.policy.rollout import Rollout
from rlkit.policy.value_lora import ValueLora

_NAME = "value_head"
TRUNKS = ("detached", "shared", "own_lora")


class ValueHead(torch.nn.Module):
    """Two layers from a hidden state to one number; it starts by saying 0 everywhere.

    Args:
        hidden_size: H, width of the trunk.
        width: width of the layer between.
        trunk: `detached` leaves the trunk to the policy's own loss; `shared` lets the
            value loss move the policy's adapter too; `own_lora` reads the base through
            `lora`, which only the value loss moves.
        seed: decides the first weights.
        lora: the additions, for `own_lora`.

    Raises:
        UserError: an unknown trunk.
    """

    def __init__(
        self,
        hidden_size: int,
        width: int = 64,
        trunk: str = "detached",
        seed: int = 0,
        lora: ValueLora | None = None,
    ) -> None:
        super().__init__()
        if trunk not in TRUNKS:
            raise UserError(f"trunk must be {' or '.join(TRUNKS)}, not {trunk!r}")
        if (trunk == "own_lora") != (lora is not None):
            raise UserError("a lora goes with trunk='own_lora', and with no other")
        self.trunk = trunk
        self.lora = lora
        self.inner = torch.nn.Linear(hidden_size, width)
        self.outer = torch.nn.Linear(width, 1)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            spread = hidden_size**-0.5
            self.inner.weight.copy_(spread * torch.randn(width, hidden_size, generator=generator))
            for silent in (self.inner.bias, self.outer.weight, self.outer.bias):
                silent.zero_()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Values of shape (...) for hidden states of shape (..., H)."""
        if self.trunk == "detached":
            hidden = hidden.detach()
        return self.outer(torch.tanh(self.inner(hidden.float())))[..., 0]


def value_head(policy: Policy) -> ValueHead | None:
    """The policy's value head, or `None` where it has none."""
    return getattr(policy.model, _NAME, None)


def attach_value_head(
    policy: Policy, width: int = 64, trunk: str = "detached", seed: int = 0
) -> ValueHead:
    """Gives a policy a value head; one that is there already is kept as it is.

    Raises:
        UserError: an unknown trunk, or `own_lora` for a policy without an adapter.
    """
    there = value_head(policy)
    if there is not None:
        return there
    size = policy.model.config.get_text_config().hidden_size
    lora = None
    if trunk == "own_lora":
        if policy.lora is None:
            raise UserError(
                "value_trunk='own_lora' needs a policy with LoRA, whose layers it adapts too; load "
                "it with lora=LoraSpec(), or take value_trunk='detached'"
            )
        lora = ValueLora(policy.model, policy.lora.rank, policy.lora.alpha, seed)
    head = ValueHead(size, width, trunk, seed, lora).to(policy.device)
    policy.model.add_module(_NAME, head)
    policy.extend_reference()
    return head


@contextmanager
def borrowed_value_head(policy: Policy, trunk: str = "detached", seed: int = 0) -> Iterator[bool]:
    """Within this block the policy has a value head; one that was not there is taken off again.

    Gives whether the head is a fresh one, which says 0 everywhere.
    """
    fresh = value_head(policy) is None
    reference = policy._reference
    try:
        attach_value_head(policy, trunk=trunk, seed=seed)
        yield fresh
    finally:
        if fresh and value_head(policy) is not None:
            delattr(policy.model, _NAME)
            policy._reference = reference


def parameter_groups(policy: Policy) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer: the policy's own, then the value head's."""
    own, head = [], []
    for name, parameter in policy.trainable().items():
        (head if name.startswith(f"{_NAME}.") else own).append(parameter)
    groups = [{"params": own, "value": False}]
    return [*groups, {"params": head, "value": True}] if head else groups


def score_values(policy: Policy, rollouts: Sequence[Rollout]) -> torch.Tensor:
    """The value before each completion token was chosen, of shape (N, T), with gradient.

    Raises:
        UserError: the policy has no value head.
    """
    head = value_head(policy)
    if head is None:
        raise UserError("the policy has no value head; call attach_value_head(policy) first")
    prompt_NP, prompt_mask_NP = pad_left([r.prompt_ids for r in rollouts], policy.pad_id)
    length = max(1, max(len(r) for r in rollouts))
    completion_NT = torch.full((len(rollouts), length), policy.pad_id, dtype=torch.long)
    present_NT = torch.zeros(len(rollouts), length, dtype=torch.long)
    for row, rollout in enumerate(rollouts):
        completion_NT[row, : len(rollout)] = torch.tensor(rollout.completion_ids)
        present_NT[row, : len(rollout)] = 1
    ids = torch.cat([prompt_NP, completion_NT], dim=1).to(policy.device)
    attention = torch.cat([prompt_mask_NP, present_NT], dim=1).to(policy.device)
    base = policy.model
    base = base.get_base_model() if hasattr(base, "get_base_model") else base
    was_training = policy.model.training
    policy.model.eval()  # as in `Policy.score`: no dropout, whatever the mode
    try:
        with (
            nullcontext() if head.lora is None else head.lora.inside(policy.model),
            # A trunk that the values leave alone needs no way back.
            torch.set_grad_enabled(torch.is_grad_enabled() and head.trunk != "detached"),
        ):
            hidden = base.get_decoder()(
                input_ids=ids,
                attention_mask=attention,
                position_ids=position_ids(attention),
                use_cache=False,
            ).last_hidden_state[:, -(length + 1) : -1]  # row i: what token i + 1 is chosen from
    finally:
        policy.model.train(was_training)
    return head(hidden)
