"""The built-in subjects: which problems and attacks a known reward is tried with.

Each `subjects_*` module registers its own when `load` first imports it.
"""

from __future__ import annotations

from importlib import import_module

_MODULES = (
    "subjects_answer",
    "subjects_format",
    "subjects_maths",
    "subjects_code",
    "subjects_data",
    "subjects_reading",
    "subjects_judge",
    "subjects_shape",
)


def load() -> None:
    """Imports the modules that register the built-in subjects; cheap when called again."""
    for name in _MODULES:
        import_module(f"rlkit.rewards.audit.{name}")
