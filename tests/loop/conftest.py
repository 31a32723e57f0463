"""A small loop whose model is random: quick, and good for everything but learning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlkit.loop import ClosedLoop, LoopConfig
from rlkit.policy import LoraSpec, Policy
from rlkit.rewards import Reward


def _letters(completions, **_):
    # Dense and different within a group even for a model that babbles.
    return [text.count("e") - 0.1 * text.count(" ") for text in completions]


@pytest.fixture(scope="session")
def make_loop(untrained: Path) -> Callable[..., ClosedLoop]:
    """Builds a small loop; keyword arguments go to `LoopConfig` or `ClosedLoop`."""

    def build(**options) -> ClosedLoop:
        own = ("reward", "curriculum", "monitor", "sandbox", "run", "objective")
        loop_options = {k: options.pop(k) for k in own if k in options}
        domains = options.pop("domains", ["arith", "sort"])
        quantize = options.pop("quantize", "nf4")
        settings = {
            "problems_per_step": 2,
            "group_size": 4,
            "max_new_tokens": 8,
            "checkpoint_every": 2,
            **options,
        }
        config = LoopConfig(**settings)
        policy = Policy.load(untrained, quantize=quantize, lora=LoraSpec(rank=4), seed=config.seed)
        loop_options.setdefault("reward", Reward(_letters, "letters"))
        return ClosedLoop(policy, domains, config=config, **loop_options)

    return build
