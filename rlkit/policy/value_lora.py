"""ValueLora: low-rank additions to the base that only the values see.

PPO's values are often read from a model of their own size. Here the base is shared, as it
is frozen anyway, and the values get what the policy has: an adapter (Hu et al.,
2106.09685), of the policy's rank, on the same layers. While values are computed the
policy's own adapter is switched off, so that neither disturbs the other.

It is no second `peft` adapter: `peft` trains the adapter that is switched on and freezes
the others, and here both are trained at once.

Left out: dropout, and adapters on embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rlkit.errors import UserError


class ValueLora(torch.nn.Module):
    """Additions `alpha / rank * B(A(x))` to every linear layer that the policy adapts.

    They start at 0: B is 0, so that the values are first read from the base alone.

    Args:
        model: the policy's model, with its adapter.
        rank, alpha: as in `LoraSpec`.
        seed: decides the first weights of A.

    Raises:
        UserError: the model has no adapted linear layer.
    """

    def __init__(self, model: Any, rank: int, alpha: int, seed: int = 0) -> None:
        super().__init__()
        layers = _adapted_layers(model)
        if not layers:
            raise UserError("the policy adapts no linear layer, so the values have none either")
        self.scale = alpha / rank
        self.down, self.up = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        generator = torch.Generator().manual_seed(seed)
        for name, layer in layers.items():
            first = torch.randn(rank, layer.in_features, generator=generator)
            self.down[name] = torch.nn.Parameter(first * layer.in_features**-0.5)
            self.up[name] = torch.nn.Parameter(torch.zeros(layer.out_features, rank))

    @contextmanager
    def inside(self, model: Any) -> Iterator[None]:
        """Within this block the model is the base with these additions.

        Flags and adapter are put back at the end, also after an error or Ctrl-C.
        """
        flags = {name: p.requires_grad for name, p in model.named_parameters()}
        handles = [
            layer.register_forward_hook(self._adding(name))
            for name, layer in _adapted_layers(model).items()
        ]
        try:
            with model.disable_adapter():
                yield
        finally:
            for handle in handles:
                handle.remove()
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(flags[name])

    def _adding(self, name: str) -> Any:
        def add(_: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            lowered = torch.nn.functional.linear(inputs[0].float(), self.down[name])
            return output + self.scale * torch.nn.functional.linear(lowered, self.up[name]).to(
                output.dtype
            )

        return add


def _adapted_layers(model: Any) -> dict[str, Any]:
    """The linear layers with a LoRA, by a name that a parameter may have."""
    from peft.tuners.lora import LoraLayer

    return {
        name.replace(".", "_"): module
        for name, module in model.named_modules()
        if isinstance(module, LoraLayer) and len(module.lora_A)
    }
