"""The loop: one step on one screen, and the run it leaves behind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Batch": "rlkit.loop.metrics",
    "ClosedLoop": "rlkit.loop.closed_loop",
    "Evaluation": "rlkit.loop.evaluation",
    "LoopConfig": "rlkit.loop.config",
    "Replay": "rlkit.loop.replay",
    "Run": "rlkit.loop.run",
    "Trainability": "rlkit.loop.trainability",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlkit.loop' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
