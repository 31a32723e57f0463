"""Several measurements of the same thing in few numbers."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, least, largest, and all of them.

    >>> spread([3.0, 1.0, 2.0])
    {'median': 2.0, 'least': 1.0, 'largest': 3.0, 'all': [3.0, 1.0, 2.0]}
    """
    rounded = [round(value, 4) for value in values]
    return {
        "median": round(statistics.median(values), 4),
        "least": min(rounded),
        "largest": max(rounded),
        "all": rounded,
    }


def in_turns(
    contestants: Mapping[str, Callable[[], float]],
    repeats: int,
    say: Callable[[str], None] = lambda text: None,
    warm: bool = True,
) -> dict[str, list[float]]:
    """What each contestant returns in each round; every other round goes the other way round.

    Args:
        contestants: each does its work once and gives its measurement.
        repeats: rounds.
        say: told after each round.
        warm: whether one more round comes first and is left out.

    >>> in_turns({"a": lambda: 1.0, "b": lambda: 2.0}, 2)
    {'a': [1.0, 1.0], 'b': [2.0, 2.0]}
    """
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(repeats + warm):
        names = list(contestants) if number % 2 == 0 else list(reversed(contestants))
        seen = {name: contestants[name]() for name in names}
        if warm and number == 0:
            continue
        for name, value in seen.items():
            found[name].append(value)
        shown = ", ".join(f"{name} {seen[name]:.2f}" for name in contestants)
        say(f"round {number + 1 - warm} of {repeats}: {shown}")
    return found


def machine() -> dict[str, Any]:
    """What the numbers depend on: versions, processors, and who else is busy."""
    import platform

    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": processors(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_line(found: Mapping[str, Any]) -> str:
    """The same in one line."""
    load = "unknown" if found["load"] is None else f"{found['load']:g}"
    return (
        f"Python {found['python']}, torch {found['torch']}, transformers "
        f"{found['transformers']}, {found['system']}, {found['processors']} processors, load "
        f"{load} at the end."
    )


def percent(share: float | None) -> str:
    """A share for a table.

    >>> percent(0.1234), percent(None)
    ('12 %', '')
    """
    return "" if share is None else f"{100 * share:.0f} %"
