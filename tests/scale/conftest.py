"""What the tests of the bridge share: TRL's trainer on a small model, with few settings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|torch|peft)\.")


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Builds a `GRPOTrainer` on the CPU around a policy, as a user would write it."""
    from trl import GRPOConfig, GRPOTrainer

    def make(policy: Any, rewards: Any, dataset: Any, *, settings: Any = None, **options: Any):
        base = {
            "output_dir": str(tmp_path / "trl"),
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 12,
            "max_steps": 2,
            "learning_rate": 1e-2,
            "lr_scheduler_type": "constant",
            "logging_steps": 1,
            "save_strategy": "no",
            "shuffle_dataset": False,
            "gradient_checkpointing": False,
            "bf16": False,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
        }
        return GRPOTrainer(
            model=policy.model,
            reward_funcs=rewards,
            args=GRPOConfig(**{**base, **(settings or {})}),
            train_dataset=dataset,
            processing_class=policy.tokenizer,
            **options,
        )

    return make


@pytest.fixture
def small(untrained: Path) -> Any:
    """A small policy with random weights and an adapter."""
    from rlkit.policy import LoraSpec, Policy

    return Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=0)
