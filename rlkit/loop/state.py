"""LoopState: all that a loop must remember, as tensors and plain values.

One mechanism serves three needs: a checkpoint on disk, a way back after Ctrl-C,
and a rollback. Nothing is pickled: tensors go to safetensors, the rest to JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    restore_moments(policy, optimizer, tensors)
    optimizer.zero_grad(set_to_none=True)


def restore_moments(
    policy: Policy, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Puts an optimizer's moments back; those of a parameter without any stay empty.

    Raises:
        KeyError: moments of a parameter that the policy does not train.
    """
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


@contextmanager
def untouched(policy: Policy) -> Iterator[None]:
    """Weights, counters and mode are as before at the end; gradients are dropped."""
    kept, state = policy.snapshot(), policy.state_dict()
    was_training = policy.model.training
    try:
        yield
    finally:
        put_back(policy, kept)
        policy.load_state_dict(state)
        policy.model.train(was_training)
        for parameter in policy.trainable().values():
            parameter.grad = None


def put_back(policy: Policy, kept: Mapping[str, torch.Tensor]) -> None:
    """Copies a snapshot into the parameters of these names; others are left alone."""
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if name in kept:
                parameter.copy_(kept[name])
