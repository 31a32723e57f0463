"""Snapshot: what is trained and Adam's moments, copied so that a run can go back.

Each rank copies what it holds: everything under DDP, its own shard under FSDP2. DeepSpeed
keeps its own copies of the weights inside its engine, where a callback cannot reach them, so
there is no way back there but a checkpoint.

Memory: three times the trained parameters a snapshot, and two snapshots are held (the best,
and the newest that may become it). For an adapter that is little, for a whole model it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


@dataclass(frozen=True)
class Snapshot:
    """Copies of the trained parameters and of the optimizer's state, by name.

    Attributes:
        step: updates that had been made.
        parameters: by the parameter's name.
        moments: by name of the parameter, then of the moment.
    """

    step: int
    parameters: dict[str, torch.Tensor]
    moments: dict[str, dict[str, torch.Tensor]]

    @classmethod
    def take(cls, step: int, model: torch.nn.Module, optimizer: Any) -> Snapshot:
        """Copies now."""
        trained = trained_parameters(model)
        state = optimizer.state
        return cls(
            step,
            {name: p.detach().clone() for name, p in trained.items()},
            {
                name: {k: torch.as_tensor(v).detach().clone() for k, v in state[p].items()}
                for name, p in trained.items()
                if p in state
            },
        )

    def restore(self, model: torch.nn.Module, optimizer: Any) -> None:
        """Puts everything back, in place, and drops gradients that belong to the past."""
        state = optimizer.state
        with torch.no_grad():
            for name, parameter in trained_parameters(model).items():
                parameter.copy_(self.parameters[name])
                parameter.grad = None
                kept = self.moments.get(name)
                if kept is None:
                    state.pop(parameter, None)
                else:
                    state[parameter] = {k: v.clone() for k, v in kept.items()}

    def save(self, file: Path) -> None:
        """Writes this rank's part."""
        tensors = {f"parameter/{name}": _local(p) for name, p in self.parameters.items()}
        for name, kept in self.moments.items():
            tensors.update({f"moment/{k}/{name}": _local(v) for k, v in kept.items()})
        save_file(tensors, file, metadata={"step": str(self.step)})

    @classmethod
    def load(cls, file: Path, step: int, model: torch.nn.Module) -> Snapshot:
        """Reads this rank's part; shards become tensors of the model's own kind again."""
        trained = trained_parameters(model)
        parameters: dict[str, torch.Tensor] = {}
        moments: dict[str, dict[str, torch.Tensor]] = {}
        for key, tensor in load_file(file).items():
            kind, rest = key.split("/", 1)
            if kind == "parameter":
                parameters[rest] = _as(trained[rest], tensor)
            else:
                moment, name = rest.split("/", 1)
                # AdamW counts its steps in a number of its own, on the CPU.
                whole = tensor if tensor.dim() == 0 else _as(trained[name], tensor)
                moments.setdefault(name, {})[moment] = whole
        return cls(step, parameters, moments)


def trained_parameters(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters that an update may change, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def finite_gradients(model: torch.nn.Module) -> bool:
    """Whether no rank has a NaN or an infinity in its gradients; all ranks agree."""
    own = trained_parameters(model).values()
    gradients = [_local(p.grad) for p in own if p.grad is not None]
    bad = sum(int(not torch.isfinite(g).all()) for g in gradients)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        device = gradients[0].device if gradients else next(model.parameters()).device
        total = torch.tensor([bad], device=device)
        torch.distributed.all_reduce(total)
        bad = int(total)
    return bad == 0


def drop_gradients(model: torch.nn.Module) -> None:
    """Without gradients an optimizer changes nothing, its moments included."""
    for parameter in trained_parameters(model).values():
        parameter.grad = None


def slow_down(optimizer: Any, scheduler: Any, factor: float) -> list[float]:
    """Multiplies the learning rate, now and in all of the schedule; gives the new rates.

    A scheduler computes each rate from its base rates, so changing the optimizer's alone
    would last for one step.
    """
    inner = getattr(scheduler, "scheduler", scheduler)
    inner.base_lrs = [rate * factor for rate in inner.base_lrs]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    inner._last_lr = [group["lr"] for group in optimizer.param_groups]
    return list(inner._last_lr)


def as_plain(values: Mapping[str, Any]) -> dict[str, float | None]:
    """Numbers by name; what is no number is left out, `None` is kept."""
    return {
        name: value
        for name, value in values.items()
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    }


def _local(tensor: torch.Tensor) -> torch.Tensor:
    whole = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return whole.detach().contiguous()


def _as(model_tensor: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    if not hasattr(model_tensor, "to_local"):
        return local.to(model_tensor.device)
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        local.to(model_tensor.device),
        model_tensor.device_mesh,
        model_tensor.placements,
        run_check=False,
        shape=model_tensor.shape,
        stride=model_tensor.stride(),
    )
