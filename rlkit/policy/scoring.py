"""Scoring: log-probabilities of rollouts under the policy, with gradient.

The rules that most known bugs in this field break are kept here: position ids
are passed and ignore padding, the score covers completion tokens only, and the
logits are divided by the temperature that the tokens were drawn at.

Rollouts of one problem share their prompt, so it is read once and its keys and values
are handed to all of them: P + G T tokens a problem in place of G (P + T). Autograd adds up
what comes back from the repeats, so the numbers are those of the plain forward pass. The
logits are reduced some hundred tokens at a time (`token_logprobs`). Models that the
rollout engine does not know take the plain way, see `rlkit.policy.engine.blueprint`.

Axes: B problems, N rollouts, P prompt tokens, T completion tokens, H hidden size, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.engine.blueprint import KNOWN, plain
from rlkit.policy.generation import pad_left, position_ids
from rlkit.policy.rollout import Rollout
from rlkit.policy.token_logprobs import token_logprobs


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


@dataclass(frozen=True)
class Padded:
    """N rollouts as tensors, padded on the right.

    Attributes:
        ids_NT: token ids of the completions.
        present_NT: where there is a token.
        mask_NT: where there is one that the policy chose.
        behaviour_NT: log-probabilities kept when the tokens were drawn.
    """

    ids_NT: torch.Tensor
    present_NT: torch.Tensor
    mask_NT: torch.Tensor
    behaviour_NT: torch.Tensor

    @classmethod
    def of(cls, rollouts: Sequence[Rollout], pad_id: int, device: torch.device) -> Padded:
        length = max(1, max(len(r) for r in rollouts))
        return cls(
            _pad_right([r.completion_ids for r in rollouts], length, pad_id).to(device),
            _pad_right([[1] * len(r) for r in rollouts], length, 0).bool().to(device),
            _pad_right([r.trainable for r in rollouts], length, 0).bool().to(device),
            _pad_right([r.behaviour_logprobs for r in rollouts], length, 0.0).to(device),
        )

    def scored(self, logprob_M: torch.Tensor, entropy_M: torch.Tensor) -> Scored:
        """Puts the numbers of the M tokens that the policy chose back into their places."""
        zero_NT = torch.zeros_like(self.behaviour_NT, dtype=logprob_M.dtype)
        return Scored(
            zero_NT.masked_scatter(self.mask_NT, logprob_M),
            zero_NT.masked_scatter(self.mask_NT, entropy_M),
            self.mask_NT,
            self.behaviour_NT,
        )


def score_rollouts(model: Any, rollouts: Sequence[Rollout], pad_id: int) -> Scored:
    """Log-probabilities and entropies under the model as it is now.

    Raises:
        UserError: no rollouts, different temperatures, or greedy rollouts, which have
            no distribution to score.
    """
    temperature = check_scorable(rollouts)
    padded = Padded.of(rollouts, pad_id, next(model.parameters()).device)
    ids_NT, present_NT, mask_NT = padded.ids_NT, padded.present_NT.long(), padded.mask_NT
    prompts = [r.prompt_ids for r in rollouts]

    out = _known_head(model)
    if out is not None:
        hidden_NTH = hidden_states(model, prompts, ids_NT, present_NT, pad_id)
        # Padding and tokens that others chose are left out: nothing is computed for them,
        # and no value of theirs, finite or not, can reach the gradient.
        logprob_M, entropy_M = token_logprobs(
            hidden_NTH[mask_NT], out.weight, ids_NT[mask_NT], temperature, out.bias
        )
    else:
        logprobs_NT, entropy_NT = _plainly(model, prompts, ids_NT, present_NT, pad_id, temperature)
        logprob_M, entropy_M = logprobs_NT[mask_NT], entropy_NT[mask_NT]
    return padded.scored(logprob_M, entropy_M)


def check_scorable(rollouts: Sequence[Rollout]) -> float:
    """The temperature of rollouts that can be scored together.

    Raises:
        UserError: there are none, they differ in temperature, or they are greedy.
    """
    if not rollouts:
        raise UserError("there are no rollouts to score; give at least one")
    temperatures = {r.temperature for r in rollouts}
    if len(temperatures) > 1:
        raise UserError(f"score rollouts of one temperature at a time, not {sorted(temperatures)}")
    temperature = temperatures.pop()
    if temperature <= 0:
        raise UserError("rollouts drawn at temperature 0 cannot be scored; draw them at 1.0")
    return temperature


def hidden_states(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completion_NT: torch.Tensor,
    present_NT: torch.Tensor,
    pad_id: int,
) -> torch.Tensor:
    """The last hidden states that predict each completion token, (N, T, H), with gradient.

    Args:
        prompts: the prompt of each of the N rows; equal ones are read once.
    """
    device = completion_NT.device
    decoder = plain(model).get_decoder()
    number: dict[tuple[int, ...], int] = {}
    of_row = [number.setdefault(tuple(prompt), len(number)) for prompt in prompts]
    prompt_BP, seen_BP = (t.to(device) for t in pad_left(list(number), pad_id))
    length = completion_NT.shape[1]
    if len(number) == len(prompts):  # nothing is shared
        ids = torch.cat([prompt_BP, completion_NT], dim=1)
        seen = torch.cat([seen_BP, present_NT], dim=1)
        hidden = decoder(
            input_ids=ids, attention_mask=seen, position_ids=position_ids(seen), use_cache=False
        ).last_hidden_state
        return hidden[:, -(length + 1) : -1]  # row i predicts token i + 1
    read = decoder(
        input_ids=prompt_BP,
        attention_mask=seen_BP,
        position_ids=position_ids(seen_BP),
        use_cache=True,
    )
    rows = torch.tensor(of_row, device=device)
    first_N1H = read.last_hidden_state[:, -1][rows][:, None]
    if length == 1:
        return first_N1H
    # The cache's name has changed within transformers 5; both are in use.
    named = "cache" if hasattr(read, "cache") else "past_key_values"
    cache = getattr(read, named)
    cache.batch_select_indices(rows)
    seen = torch.cat([seen_BP[rows], present_NT[:, :-1]], dim=1)
    rest = decoder(
        input_ids=completion_NT[:, :-1],
        attention_mask=seen,
        position_ids=position_ids(seen)[:, -(length - 1) :],
        use_cache=True,
        **{named: cache},
    ).last_hidden_state
    return torch.cat([first_N1H, rest], dim=1)


def _known_head(model: Any) -> torch.nn.Linear | None:
    """The output layer where hidden states times its weight are the logits, else `None`."""
    inside = plain(model)
    if getattr(getattr(inside, "config", None), "model_type", None) not in KNOWN:
        return None
    out = inside.get_output_embeddings()
    # An adapter on the head is not in its weight, so such a model is taken as a whole.
    return out if type(out) is torch.nn.Linear else None


def _plainly(
    model: Any,
    prompts: Sequence[Sequence[int]],
    completion_NT: torch.Tensor,
    present_NT: torch.Tensor,
    pad_id: int,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Through the whole model, prompts repeated and all logits held; for any model."""
    prompt_NP, seen_NP = (t.to(completion_NT.device) for t in pad_left(prompts, pad_id))
    length = completion_NT.shape[1]
    seen = torch.cat([seen_NP, present_NT], dim=1)
    logits_NTV = model(
        input_ids=torch.cat([prompt_NP, completion_NT], dim=1),
        attention_mask=seen,
        position_ids=position_ids(seen),
        use_cache=False,
        logits_to_keep=length + 1,
    ).logits[:, -(length + 1) : -1]
    logprobs_NTV = torch.log_softmax(logits_NTV.float() / temperature, dim=-1)
    logprobs_NT = logprobs_NTV.gather(-1, completion_NT[:, :, None])[:, :, 0]
    return logprobs_NT, -(logprobs_NTV.exp() * logprobs_NTV).sum(-1)


def _pad_right(rows: Sequence[Sequence[float]], width: int, pad: float) -> torch.Tensor:
    """Rows as one tensor (N, width); an integer pad makes it one of integers."""
    kind = torch.long if isinstance(pad, int) else torch.float32
    out = torch.full((len(rows), width), pad, dtype=kind)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=kind)
    return out
