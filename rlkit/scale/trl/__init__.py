"""The bridge to TRL: each object of the kit in the place that TRL's trainers have for it.

Importing it is light; TRL, torch and datasets are imported when a name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "DomainDataset": "rlkit.scale.trl.dataset",
    "domain_dataset": "rlkit.scale.trl.dataset",
    "RewardWatch": "rlkit.scale.trl.watching",
    "watch": "rlkit.scale.trl.watching",
    "SharedPrefixRollouts": "rlkit.scale.trl.rollouts",
    "MonitorCallback": "rlkit.scale.trl.monitoring",
    "trl_settings": "rlkit.scale.trl.objectives",
    "HOOKS": "rlkit.scale.trl.hooks",
    "drift": "rlkit.scale.trl.hooks",
}

__all__ = [
    "HOOKS",
    "DomainDataset",
    "MonitorCallback",
    "RewardWatch",
    "SharedPrefixRollouts",
    "domain_dataset",
    "drift",
    "trl_settings",
    "watch",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
