"""The card of a lesson: what the block `rlkit` in its source's YAML header promises.

Left out on purpose: how it is shown; see `frame`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: The YAML header of a source, between two lines `# ---`.
HEADER = re.compile(r"\A# ---\n(.*?)^# ---\n", re.DOTALL | re.MULTILINE)
#: Takes a sentence and the number of a line.
Complain = Callable[[str, int], None]


@dataclass(frozen=True)
class Card:
    """What a lesson promises, from the block `rlkit` of its source's header.

    Attributes:
        title: the lesson's one H1.
        promise: one sentence under it.
        minutes_fast, minutes_full: measured minutes of computing in each length.
        memory_mb: the most memory that the kernel takes, in megabytes.
        needs: what a learner has to know or have; "lesson 03" becomes a link.
        objectives: what they will be able to do.
        recap: what they have seen, one sentence each.
        sources: where it comes from, as Markdown.
        next: name of the lesson after this one; `None`: the following number, if there is one.
    """

    title: str = ""
    promise: str = ""
    minutes_fast: float | None = None
    minutes_full: float | None = None
    memory_mb: int | None = None
    needs: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    recap: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    next: str | None = None


def read_card(text: str, complain: Complain) -> Card:
    """Reads the card out of a source's text; whatever is missing is complained about."""
    return _card_of(_block_of(text, complain), complain)


def _block_of(text: str, complain: Complain) -> dict[str, Any]:
    import yaml

    match = HEADER.match(text)
    if match is None:
        complain("has no YAML header between two lines `# ---`", 1)
        return {}
    try:
        found = yaml.safe_load(re.sub(r"^# ?", "", match[1], flags=re.MULTILINE))
    except yaml.YAMLError as error:
        complain(f"its header is not YAML: {' '.join(str(error).split())}", 1)
        return {}
    jupyter = found.get("jupyter", {}) if isinstance(found, dict) else {}
    if jupyter.get("kernelspec", {}).get("name") != "python3":
        complain("its header does not name the kernelspec python3", 1)
    return jupyter.get("rlkit") or {}


def _card_of(block: dict[str, Any], complain: Complain) -> Card:
    def words(key: str) -> str:
        value = block.get(key)
        if not isinstance(value, str) or not value.strip():
            complain(f"its header lacks rlkit.{key}: {_WANTED[key]}", 1)
            return ""
        return " ".join(value.split())

    def several(key: str) -> tuple[str, ...]:
        value = block.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            complain(f"its header lacks rlkit.{key}: {_WANTED[key]}", 1)
            return ()
        return tuple(" ".join(v.split()) for v in value)

    def amount(value: Any, key: str) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            complain(f"its header lacks rlkit.{key}: {_WANTED[key]}", 1)
            return None
        return value

    for key in sorted(set(block) - set(_WANTED) - {"minutes"}):
        complain(f"its header has an unknown field rlkit.{key}", 1)
    minutes = block.get("minutes") if isinstance(block.get("minutes"), dict) else {}
    memory = amount(block.get("memory_mb"), "memory_mb")
    following = block.get("next")
    return Card(
        title=words("title"),
        promise=words("promise"),
        minutes_fast=amount(minutes.get("fast"), "minutes.fast"),
        minutes_full=amount(minutes.get("full"), "minutes.full"),
        memory_mb=None if memory is None else int(memory),
        needs=several("needs"),
        objectives=several("objectives"),
        recap=several("recap"),
        sources=several("sources"),
        next=following if isinstance(following, str) else None,
    )


_WANTED = {
    "title": "the heading of the lesson",
    "promise": "one sentence on what the learner gets",
    "minutes.fast": "measured minutes in the fast length",
    "minutes.full": "measured minutes in the full length",
    "memory_mb": "the most memory it takes, in megabytes",
    "needs": "a list of what a learner needs",
    "objectives": "a list of what a learner will be able to do",
    "recap": "a list of what the lesson has shown",
    "sources": "a list of sources, as Markdown",
    "next": "the name of the next lesson",
}
