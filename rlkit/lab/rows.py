"""Reading a run's rows and events: which lines there are, and what an event says.

Rows are mappings as `Run.metrics()` gives them, events as `Run.events()` does. Both may
come from a run of another version or from a damaged file: what is missing or not finite
becomes a gap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.lab.theme import number

Rows = Sequence[Mapping[str, Any]]
Events = Sequence[Mapping[str, Any]]
Line = tuple[str, str]  # the line's name, and the metric it shows

PROBABILITY = "curriculum/probability/"


def domains_of(rows: Rows, events: Events = ()) -> list[str]:
    """The domains that rows and evaluations speak of, always in the same order."""
    names = [key.removeprefix(PROBABILITY) for key in keys_of(rows, PROBABILITY)]
    names += [key.removeprefix("reward/") for key in keys_of(rows, "reward/")]
    names += list(evaluations(events))
    return list(dict.fromkeys(names))


def evaluations(events: Events) -> dict[str, list[Mapping[str, Any]]]:
    """Held-out evaluations of each domain by step; of one done twice, the later."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for event in events:
        if event.get("kind") == "evaluation" and event.get("split", "held_out") == "held_out":
            found.setdefault(str(event.get("domain", "")), {})[step_of(event)] = event
    return {name: [by[step] for step in sorted(by)] for name, by in found.items()}


def step_of(event: Mapping[str, Any]) -> int:
    """The step of an event; 0, the start, when it names none."""
    step = event.get("step")
    return step if isinstance(step, int) else 0


def finite(value: Any) -> float | None:
    """The value, or `None` when it is no finite number."""
    known = isinstance(value, (int, float)) and math.isfinite(value)
    return value if known else None


def steps_of(rows: Rows) -> list[int]:
    """The step of each row."""
    return [row["step"] for row in rows]


def values_of(rows: Rows, key: str) -> list[float | None]:
    """A metric of each row, with `None` for a gap."""
    return [finite(row.get(key)) for row in rows]


def keys_of(rows: Rows, prefix: str, suffix: str = "") -> list[str]:
    """Metrics with this prefix and suffix, in the order of their first appearance."""
    seen = dict.fromkeys(key for row in rows for key in row)
    return [key for key in seen if key.startswith(prefix) and key.endswith(suffix)]


def lines_of(rows: Rows, key: str, name: str) -> list[Line]:
    """The line of a metric, and one for each domain when there are several."""
    domains = domains_of(rows)
    if len(domains) < 2:
        return [(name, key)]
    return [("all domains", key), *((domain, f"{key}/{domain}") for domain in domains)]


def event_sentence(event: Mapping[str, Any]) -> str:
    """An event as one line of text.

    >>> event_sentence({"kind": "resumed", "step": 10, "checkpoint": "step-000010"})
    'step 10: resumed, checkpoint step-000010'
    """
    kind = str(event.get("kind", "?")).replace("_", " ")
    details = event_details(event)
    return f"step {event.get('step', '?')}: {kind}{', ' if details else ''}{details}"


def event_details(event: Mapping[str, Any]) -> str:
    """What an event says beyond its step, its kind and its time.

    >>> event_details({"kind": "evaluation", "domain": "sort", "pass_at_1": 0.5, "low": 0.4,
    ...                "high": 0.6, "problems": 100})
    'sort: pass@1 0.5 [0.4, 0.6] on 100 held-out problems'
    """
    if event.get("kind") == "intervention":
        held = f" (held back: {event['held_back']})" if event.get("held_back") else ""
        action, rule = event.get("action", "?"), event.get("rule", "?")
        return f"{action} by {rule}: {event.get('reason', '')}{held}"
    if event.get("kind") == "evaluation":
        value, low, high = (number(finite(event.get(k))) for k in ("pass_at_1", "low", "high"))
        split = str(event.get("split", "held_out")).replace("held_out", "held-out")
        return (
            f"{event.get('domain', '?')}: pass@1 {value} [{low}, {high}] "
            f"on {number(event.get('problems'))} {split} problems"
        )
    details = [
        f"{key.replace('_', ' ')} {value if isinstance(value, dict) else number(value)}"
        for key, value in event.items()
        if key not in ("time", "step", "kind") and value not in (None, "")
    ]
    return ", ".join(details)
