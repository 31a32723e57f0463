"""The policy: loading, generating, scoring, and going back.

`Rollout` and `Group` come without torch; the rest is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rlkit.policy.lora import LoraSpec
from rlkit.policy.rollout import Group, Rollout, flatten

_HOMES = {"Policy": "rlkit.policy.policy", "Precision": "rlkit.policy.loading"}

__all__ = ["Group", "LoraSpec", "Policy", "Precision", "Rollout", "flatten", "tiny_facts"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlkit.policy' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def tiny_facts() -> dict[str, Any]:
    """What is known of the shipped `tiny`: sizes, what it was taught, measured pass rates."""
    import json

    from rlkit.policy.loading import TINY

    return json.loads((TINY / "facts.json").read_text())
