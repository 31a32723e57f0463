"""Fixtures of the lab's tests: a real loop, small enough to take a step in a blink."""

from __future__ import annotations

import pytest


@pytest.fixture
def build_loop(untrained):
    """Makes a fresh loop on `arith`; keyword arguments go to `ClosedLoop`.

    An untrained model never answers, so its reward is another one: the share of different
    characters in what it says, which has contrast from the first step on.
    """
    from rlkit import ClosedLoop, LoopConfig, LoraSpec, Policy, reward

    @reward
    def variety(completions, **columns):
        return [len(set(text)) / max(1, len(text)) for text in completions]

    def build(seed: int = 0, **options):
        policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=seed)
        options.setdefault("reward", variety)
        config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8, seed=seed)
        return ClosedLoop(policy, ["arith"], config=config, **options)

    return build
