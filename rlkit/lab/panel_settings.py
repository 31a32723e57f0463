"""Settings of a panel, changed by name: what a slider does, a line of code can do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from rlkit.errors import UserError

Settings = TypeVar("Settings")


def changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    """The settings (a frozen dataclass) with some of them changed.

    Raises:
        UserError: a name that is no setting, or whatever the dataclass refuses.
    """
    unknown = set(changes) - set(vars(settings))
    if unknown:
        raise UserError(f"no setting {sorted(unknown)}; there are {list(vars(settings))}")
    return replace(settings, **changes)
