"""LoopState: all that a loop must remember, as tensors and plain values.

One mechanism serves three needs: a checkpoint on disk, a way back after Ctrl-C,
and a rollback. Nothing is pickled: tensors go to safetensors, the rest to JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlkit.policy.policy import Policy


@dataclass(frozen=True)
class LoopState:
    """Tensors and plain values by name. Tensors are copies, never views."""

    tensors: dict[str, torch.Tensor]
    values: dict[str, Any]


def training_tensors(policy: Policy, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Copies of the adapter and of the optimizer's moments, by name."""
    tensors = {f"policy/{n}": t for n, t in policy.snapshot().items()}
    for name, parameter in policy.trainable().items():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{key}/{name}"] = torch.as_tensor(value).detach().clone()
    return tensors


def restore_training(
    policy: Policy, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Puts adapter and moments back, and drops gradients that belong to the past."""
    prefix = "policy/"
    policy.restore({n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)})
    optimizer.state.clear()
    parameters = policy.trainable()
    for name, tensor in tensors.items():
        if not name.startswith("optimizer/"):
            continue
        _, key, parameter_name = name.split("/", 2)
        parameter = parameters[parameter_name]
        if key == "step" and not isinstance(optimizer, torch.optim.AdamW):
            optimizer.state[parameter][key] = int(tensor)  # bitsandbytes counts in plain numbers
            continue
        device = "cpu" if key == "step" else parameter.device
        optimizer.state[parameter][key] = tensor.clone().to(device)
    optimizer.zero_grad(set_to_none=True)
