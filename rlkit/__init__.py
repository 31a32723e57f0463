"""rlkit: close the post-training loop by hand, on two laptop cores.

Nothing heavy is imported here. Names are resolved when they are first used,
so that a notebook about rewards starts in a moment and without torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# Threads that wait for each other should not burn the processor for long: beside other work
# that makes torch several times slower. It is read when torch is first imported; whoever has
# set one of the two keeps what they set. Numbers: docs/LOG.md.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

__version__ = "0.1.0"

_HOMES = {
    "Problem": "rlkit.tasks",
    "Domain": "rlkit.tasks",
    "get_domain": "rlkit.tasks",
    "domain_names": "rlkit.tasks",
    "Policy": "rlkit.policy",
    "LoraSpec": "rlkit.policy",
    "Rollout": "rlkit.policy",
    "Group": "rlkit.policy",
    "Sandbox": "rlkit.sandbox",
    "Job": "rlkit.sandbox",
    "Limits": "rlkit.sandbox",
    "TestSpec": "rlkit.sandbox",
    "Verdict": "rlkit.sandbox",
    "Reward": "rlkit.rewards",
    "Score": "rlkit.rewards",
    "reward": "rlkit.rewards.reward",
    "tests_pass": "rlkit.rewards",
    "exact_answer": "rlkit.rewards",
    "format_reward": "rlkit.rewards",
    **dict.fromkeys(
        ("GRPO", "DrGRPO", "DAPO", "GSPO", "CISPO", "RLOO", "Reinforce", "PPO"), "rlkit.objectives"
    ),
    "Curriculum": "rlkit.curriculum",
    "Monitor": "rlkit.monitor",
    "ClosedLoop": "rlkit.loop",
    "LoopConfig": "rlkit.loop",
    "Replay": "rlkit.loop",
    "Run": "rlkit.loop",
    "audit": "rlkit.rewards.audit",
    "doctor": "rlkit.doctor",
    "UserError": "rlkit.errors",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rlkit' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
