"""LoRA: the small trained part beside a frozen base (Hu et al., 2106.09685)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError


@dataclass(frozen=True)
class LoraSpec:
    """Size and place of the adapter.

    Attributes:
        rank: inner width r of each adapter; raise it when the reward stalls early.
        alpha: scale; the adapter's output is multiplied by `alpha / rank`.
        dropout: dropout on the adapter's input; only in force in train mode, which
            the loop never uses.
        targets: `all-linear`, or names of the layers to adapt.
    """

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    targets: str | tuple[str, ...] = "all-linear"

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise UserError(f"LoRA rank must be at least 1, not {self.rank}")
        if not 0.0 <= self.dropout < 1.0:
            raise UserError(f"LoRA dropout must lie in [0, 1), not {self.dropout}")

    def peft_config(self) -> Any:
        """The same as a `peft.LoraConfig` for a causal language model."""
        from peft import LoraConfig

        targets = self.targets if isinstance(self.targets, str) else list(self.targets)
        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=targets,
            task_type="CAUSAL_LM",
        )
