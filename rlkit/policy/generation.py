"""Sampling: prompts are read once, their cache is repeated for the group.

This is the way through the model itself, which works for every causal model;
`rlkit.policy.engine` is the faster one for models that it knows. Each rollout draws
from its own stream of uniform numbers, so what it says does not depend on who else
is in the batch. The log-probability that is kept is that of the distribution which
was really sampled from.

Axes: B problems, G rollouts a problem, N = B x G, P prompt tokens, T completion
tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlkit.policy.engine.sampling import Sampling, completes, draw


@dataclass(frozen=True)
class Sampled:
    """The ids of one completion, their log-probabilities (nats), and how it ended."""

    ids: list[int]
    logprobs: list[float]
    stopped: bool


def position_ids(mask: torch.Tensor) -> torch.Tensor:
    """Position of each token among the real ones; padding on the left gets 0.

    >>> position_ids(torch.tensor([[0, 0, 1, 1, 1]]))
    tensor([[0, 0, 0, 1, 2]])
    """
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both of shape (rows, longest)."""
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row)
        mask[i, width - len(row) :] = 1
    return ids, mask


def uniform_streams(seed: int, draw: int, first_row: int, rows: int, steps: int) -> torch.Tensor:
    """Uniform numbers of shape (rows, steps), each row from its own seeded stream."""
    streams = [
        np.random.Generator(np.random.Philox(key=[seed, (draw << 24) + first_row + row]))
        for row in range(rows)
    ]
    return torch.from_numpy(np.stack([s.random(steps) for s in streams]))


@torch.no_grad()
def sample_groups(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    max_new_tokens: int,
    temperature: float,
    end_ids: Sequence[int],
    pad_id: int,
    uniform_NT: torch.Tensor,
    *,
    sampling: Sampling | None = None,
    decode: Callable[[list[int]], str] | None = None,
) -> list[Sampled]:
    """`group_size` completions for each prompt, group after group.

    Args:
        prompts: B prompts as token ids, without padding.
        uniform_NT: one row of uniform numbers for each of the N completions.
        sampling: in place of `temperature`, with filters and texts to stop at.
        decode: ids to text; needed to stop at texts.

    Returns:
        N completions; the id that ended one is kept and has a log-probability.
    """
    sampling = sampling or Sampling(temperature)
    device = next(model.parameters()).device
    ids_BP, mask_BP = (t.to(device) for t in pad_left(prompts, pad_id))
    out = model(
        input_ids=ids_BP,
        attention_mask=mask_BP,
        position_ids=position_ids(mask_BP),
        use_cache=True,
        logits_to_keep=1,
    )
    # The cache's name has changed within transformers 5; both are in use.
    named = "cache" if hasattr(out, "cache") else "past_key_values"
    cache = getattr(out, named)
    cache.batch_repeat_interleave(group_size)
    logits_NV = out.logits[:, -1].repeat_interleave(group_size, dim=0)
    mask = mask_BP.repeat_interleave(group_size, dim=0)
    position_N = mask.sum(-1)
    ends = torch.tensor(sorted(end_ids), device=device)

    total = len(prompts) * group_size
    drawn: list[list[int]] = [[] for _ in range(total)]
    logprobs: list[list[float]] = [[] for _ in range(total)]
    stopped = [False] * total
    alive = torch.arange(total, device=device)  # original row of each row still in the batch
    for t in range(max_new_tokens):
        chosen_N, logprob_N = draw(logits_NV, sampling, uniform_NT[alive.cpu(), t])
        done_N = torch.isin(chosen_N, ends)
        for row, token, value, done in zip(
            alive.tolist(), chosen_N.tolist(), logprob_N.tolist(), done_N.tolist(), strict=True
        ):
            drawn[row].append(token)
            logprobs[row].append(value)
            stopped[row] = done
        if sampling.stop:
            for i, row in enumerate(alive.tolist()):
                if completes(drawn[row], sampling.stop, decode):
                    stopped[row] = True
                    done_N[i] = True
        if bool(done_N.all()) or t + 1 == max_new_tokens:
            break
        if bool(done_N.any()):  # rows that have finished leave the batch
            keep = (~done_N).nonzero()[:, 0]
            alive, chosen_N, mask = alive[keep], chosen_N[keep], mask[keep]
            position_N = position_N[keep]
            cache.batch_select_indices(keep)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        out = model(
            input_ids=chosen_N[:, None],
            attention_mask=mask,
            position_ids=position_N[:, None],
            use_cache=True,
            **{named: cache},
        )
        logits_NV = out.logits[:, -1]
        position_N = position_N + 1
    return [Sampled(i, p, s) for i, p, s in zip(drawn, logprobs, stopped, strict=True)]
