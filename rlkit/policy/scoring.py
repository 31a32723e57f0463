"""Scoring: log-probabilities of what was sampled, with gradient.

One plain forward pass over left-padded prompts and right-padded completions;
logits are made for completion tokens only. Temperature divides the logits, as
it did when the tokens were drawn.

Left out on purpose: sharing a group's prompt, and a chunked softmax; both belong
to the policy engine's own depth.

Axes: N rollouts, P prompt tokens, T completion tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.generation import pad_left, position_ids
from rlkit.policy.rollout import Rollout


@dataclass(frozen=True)
class Scored:
    """Log-probabilities and entropies of N rollouts, padded on the right.

    Attributes:
        logprobs_NT: log-probability (nats) of each sampled token; 0 at padding.
        entropy_NT: entropy (nats) of the distribution at each token; 0 at padding.
        mask_NT: 1 where there is a token that the policy chose.
        behaviour_NT: the log-probabilities kept when the tokens were drawn.
    """

    logprobs_NT: torch.Tensor
    entropy_NT: torch.Tensor
    mask_NT: torch.Tensor
    behaviour_NT: torch.Tensor


def score_rollouts(model: Any, rollouts: Sequence[Rollout], pad_id: int) -> Scored:
    """Log-probabilities and entropies under the model as it is now.

    Raises:
        UserError: no rollouts, different temperatures, or greedy rollouts, which have
            no distribution to score.
    """
    if not rollouts:
        raise UserError("there are no rollouts to score; give at least one")
    temperatures = {r.temperature for r in rollouts}
    if len(temperatures) > 1:
        raise UserError(f"score rollouts of one temperature at a time, not {sorted(temperatures)}")
    temperature = temperatures.pop()
    if temperature <= 0:
        raise UserError("rollouts drawn at temperature 0 cannot be scored; draw them at 1.0")
    device = next(model.parameters()).device
    prompt_NP, prompt_mask_NP = pad_left([r.prompt_ids for r in rollouts], pad_id)
    length = max(1, max(len(r) for r in rollouts))
    completion_NT = _pad_right([r.completion_ids for r in rollouts], length, pad_id)
    present_NT = _pad_right([[1] * len(r) for r in rollouts], length, 0)
    mask_NT = _pad_right([r.trainable for r in rollouts], length, 0).bool().to(device)
    behaviour_NT = _pad_right([r.behaviour_logprobs for r in rollouts], length, 0.0).to(device)

    ids = torch.cat([prompt_NP, completion_NT], dim=1).to(device)
    attention = torch.cat([prompt_mask_NP, present_NT], dim=1).to(device)
    logits_NTV = model(
        input_ids=ids,
        attention_mask=attention,
        position_ids=position_ids(attention),
        use_cache=False,
        logits_to_keep=length + 1,
    ).logits[:, -(length + 1) : -1]  # row i predicts token i + 1
    logprobs_NTV = torch.log_softmax(logits_NTV.float() / temperature, dim=-1)
    chosen_NT1 = completion_NT.to(device)[:, :, None]
    logprobs_NT = logprobs_NTV.gather(-1, chosen_NT1)[:, :, 0]
    entropy_NT = -(logprobs_NTV.exp() * logprobs_NTV).sum(-1)
    # A non-finite value at padding must not reach the gradient through 0 * nan.
    zero = torch.zeros((), device=device)
    return Scored(
        torch.where(mask_NT, logprobs_NT, zero),
        torch.where(mask_NT, entropy_NT, zero),
        mask_NT,
        behaviour_NT,
    )


def _pad_right(rows: Sequence[Sequence[float]], width: int, pad: float) -> torch.Tensor:
    kind = torch.long if isinstance(pad, int) else torch.float32
    out = torch.full((len(rows), width), pad, dtype=kind)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=kind)
    return out
