"""Optimizers by name: `adamw`, and `adamw8bit` with its moments in eight bits.

The second is that of bitsandbytes (Dettmers et al., 2110.02861). It keeps moments of
tensors with fewer than 4096 numbers in 32 bits, so that small adapters save nothing.
Whether it runs here is found out by taking a step with it, not by its version.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.loop.config import OPTIMIZERS


def build_optimizer(
    name: str, groups: Sequence[dict[str, Any]], learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimizer over parameter groups.

    Raises:
        UserError: an unknown name, or `adamw8bit` where it does not run.
    """
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=learning_rate, weight_decay=weight_decay)
    if name != "adamw8bit":
        raise UserError(f"unknown optimizer {name!r}; choose {' or '.join(OPTIMIZERS)}")
    device = groups[0]["params"][0].device
    trouble = probe_adamw8bit(device.type)
    if trouble is not None:
        raise UserError(f"optimizer='adamw8bit' does not run here: {trouble}; take 'adamw'")
    from bitsandbytes.optim import AdamW8bit

    return AdamW8bit(groups, lr=learning_rate, weight_decay=weight_decay)


@lru_cache
def probe_adamw8bit(device: str) -> str | None:
    """`None` where a step in eight bits agrees with AdamW's, else what went wrong."""
    try:
        from bitsandbytes.optim import AdamW8bit
    except Exception as error:  # a broken installation raises whatever it likes
        return f"bitsandbytes cannot be imported ({type(error).__name__}: {error})"
    start = torch.linspace(-1, 1, 8192, device=device).reshape(64, 128)
    gradient = start.flip(0).contiguous()
    after = []
    for kind in (AdamW8bit, torch.optim.AdamW):
        parameter = torch.nn.Parameter(start.clone())
        optimizer = kind([parameter], lr=1e-2, weight_decay=0.0)
        try:
            for _ in range(3):
                parameter.grad = gradient.clone()
                optimizer.step()
        except Exception as error:  # a missing kernel raises whatever it likes
            return f"a step with it failed ({type(error).__name__}: {error})"
        after.append(parameter.detach())
        if kind is AdamW8bit and optimizer.state[parameter]["state1"].dtype != torch.uint8:
            return "its moments are not in eight bits"
    moved = float((after[1] - start).abs().mean())
    off = float((after[0] - after[1]).abs().mean())
    return None if off < 0.2 * moved else f"its steps are off by {off / moved:.0%} of AdamW's"
