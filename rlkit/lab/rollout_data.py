"""Which rollouts a page holds, and how: whole groups, newest and evenly spaced steps.

A page must open in a browser, so it holds a few thousand rollouts at most. Groups stay
whole, because an answer is read against the others of its group. What is left out is
counted and said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlkit.lab.theme import rounded, spaced

#: Rollouts and characters of text that a page holds at most.
MOST_ROLLOUTS = 3000
MOST_CHARACTERS = 8_000_000
#: An answer or a question beyond so many characters is cut, and says so.
MOST_TEXT = 20_000

#: Fields that belong to a group, and those of each of its rollouts.
GROUP_FIELDS = ("step", "group", "key", "domain", "difficulty", "question")
ROLLOUT_FIELDS = (
    "index",
    "text",
    "reward",
    "parts",
    "status",
    "reason",
    "solved",
    "advantage",
    "finish_reason",
    "length",
    "policy_version",
)


def pack_rollouts(
    rows: Iterable[Mapping[str, Any]],
    most_rollouts: int = MOST_ROLLOUTS,
    most_characters: int = MOST_CHARACTERS,
) -> dict[str, Any]:
    """Rollouts as the page's browser takes them: `groups`, and a `note` on what is missing.

    Args:
        rows: rows of `Run.rollouts()`.
        most_rollouts: how many to keep at most; one whole group is kept in any case.
        most_characters: how much text to keep at most, likewise.
    """
    groups: dict[tuple[Any, Any], dict[str, Any]] = {}
    total = 0
    for row in rows:
        total += 1
        group = groups.setdefault(
            (row.get("step"), row.get("group")),
            {**{name: _cut(row.get(name)) for name in GROUP_FIELDS}, "rollouts": []},
        )
        group["rollouts"].append({name: _cut(row.get(name)) for name in ROLLOUT_FIELDS})
    kept = _choose(list(groups.values()), most_rollouts, most_characters)
    shown = sum(len(group["rollouts"]) for group in kept)
    return {
        "groups": rounded(kept),
        "shown": shown,
        "total": total,
        "note": _note(kept, shown, total, len({g["step"] for g in groups.values()})),
    }


def _choose(
    groups: Sequence[dict[str, Any]], most_rollouts: int, most_characters: int
) -> list[dict[str, Any]]:
    """Whole steps as far as they fit, or else groups of the newest step."""
    steps: dict[Any, list[dict[str, Any]]] = {}
    for group in groups:
        steps.setdefault(group["step"], []).append(group)
    names = list(steps)

    def some_steps(count: int) -> list[list[dict[str, Any]]]:
        # A quarter of the places for the newest steps, the others evenly over all before.
        newest = max(1, count // 4) if count < len(names) else count
        earlier = names[: len(names) - newest]
        chosen = [earlier[i] for i in spaced(len(earlier), count - newest)]
        return [steps[name] for name in chosen + names[len(names) - newest :]]

    def some_groups(count: int) -> list[list[dict[str, Any]]]:
        return [[last[i]] for i in spaced(len(last), count)]

    limits = (most_rollouts, most_characters)
    sizes = {id(group): _size(group) for group in groups}
    last = steps[names[-1]] if names else []
    found = _largest(some_steps, len(names), sizes, limits)
    found = found or _largest(some_groups, len(last), sizes, limits) or [last[:1]]
    return [group for part in found for group in part]


def _largest(
    some: Callable[[int], list[list[dict[str, Any]]]],
    most: int,
    sizes: Mapping[int, tuple[int, int]],
    limits: tuple[int, int],
) -> list[list[dict[str, Any]]]:
    """The largest selection within the limits, found by halving; empty when none is."""
    best: list[list[dict[str, Any]]] = []
    low, high = 1, most
    count = most  # everything is the usual case, so it is tried first
    while low <= high:
        found = some(count)
        used = [sizes[id(group)] for part in found for group in part]
        rollouts, characters = (sum(column) for column in zip(*used, strict=True))
        if rollouts <= limits[0] and characters <= limits[1]:
            best, low = found, count + 1
        else:
            high = count - 1
        count = (low + high) // 2
    return best


def _size(group: Mapping[str, Any]) -> tuple[int, int]:
    """Rollouts and characters of text of a group."""
    texts = [group["question"], *(rollout["text"] for rollout in group["rollouts"])]
    return len(group["rollouts"]), sum(len(str(text)) for text in texts)


def _note(kept: Sequence[dict[str, Any]], shown: int, total: int, steps: int) -> str:
    if not total:
        return "No rollouts have been recorded yet."
    if shown == total:
        return f"All {total:,} rollouts of the run are here."
    here = sorted({group["step"] for group in kept})
    if len(here) == 1:
        where = f"groups of step {here[0]}"
    else:
        where = f"all groups of {len(here):,} of {steps:,} steps, the newest and evenly spaced ones"
    return (
        f"{shown:,} of {total:,} rollouts are here: {where}. "
        "All of them are in rollouts.jsonl.gz of the run."
    )


def _cut(value: Any) -> Any:
    """Text of bearable length; it says what was cut."""
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return f"{value[:MOST_TEXT]}\n… cut here; the text has {len(value):,} characters."
    return value
