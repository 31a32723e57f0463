"""The cells around a lesson that nobody writes by hand: header, install, opener, recap, sources.

They are made from the lesson's card, so what a header promises (minutes, memory, what you will be
able to do) stands in one place, and the first code cell is the same in every lesson.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping

from rlkit.lessons.building.published import Published
from rlkit.lessons.building.source import LessonSource

WIDTH = 96
#: Lines of the longest cell that a lesson may have.
MOST_LINES = 25
#: The first code cell of every lesson. It names the versions of torch and numpy that are here,
#: so that pip keeps them or says why it cannot, and never exchanges them under a running kernel.
INSTALL = """\
import importlib.metadata
import importlib.util

PUBLISHED = {source}
if importlib.util.find_spec("rlkit") is None:  # Colab, Kaggle
    from IPython import get_ipython

    if not PUBLISHED:
        raise RuntimeError("rlkit is not installed: see its README")
    version = importlib.metadata.version
    keep = " ".join(f"{{n}}=={{version(n)}}" for n in ("torch", "numpy"))
    command = f'install -q "rlkit[colab] @ {{PUBLISHED}}" {{keep}}'
    get_ipython().run_line_magic("pip", command)
import rlkit

rlkit.doctor()"""
OPEN = """\
from rlkit import lessons

lesson = lessons.open("{name}")"""
STRIP = "lesson.strip()"


def header(lesson: LessonSource, published: Published | None, names: Iterable[str]) -> str:
    """The first cell: title, promise, badges, minutes and memory, needs and objectives."""
    card = lesson.card
    count = len(lesson.exercises)
    exercises = f"{count} exercises that check themselves"
    if count == 1:
        exercises = "1 exercise that checks itself"
    facts = (
        f"*Length **fast**: {minutes(card.minutes_fast)} · "
        f"**full**: {minutes(card.minutes_full)} · memory: {gigabytes(card.memory_mb)} · "
        f"{exercises}. `RLKIT_MODE=fast` or `full` chooses the length; without it, it is fast on "
        "Binder and where nobody watches, and full elsewhere.*"
    )
    parts = [f"# {card.title}", _wrap(f"**{card.promise}**")]
    if published is not None:
        parts.append(published.badges(lesson.name))
    parts += [
        _wrap(facts),
        "## You need, and you will be able to",
        "**You need**",
        _bullets(_link_lessons(need, names) for need in card.needs),
        "**You will be able to**",
        _bullets(card.objectives),
    ]
    return "\n\n".join(parts)


def install(published: Published | None) -> str:
    """The first code cell."""
    source = "" if published is None else published.install_source
    return INSTALL.format(source=json.dumps(source))


def opener(lesson: LessonSource) -> str:
    return OPEN.format(name=lesson.name)


def footer(lesson: LessonSource, titles: Mapping[str, str]) -> list[str]:
    """Recap, next and sources: one cell where they fit into one, else two.

    `titles` are those of all lessons, by name.
    """
    parts = [recap(lesson, titles), sources(lesson)]
    together = "\n\n".join(parts)
    return [together] if len(together.splitlines()) <= MOST_LINES else parts


def recap(lesson: LessonSource, titles: Mapping[str, str]) -> str:
    """What you have seen, and where it goes on."""
    following = next_lesson(lesson, titles)
    if following is None:
        onward = "This is the last lesson so far."
    else:
        onward = f"[{titles.get(following, following)}]({following}.ipynb)"
    return "\n\n".join(
        ["## What you have seen", _bullets(lesson.card.recap), f"**Next:** {onward}"]
    )


def sources(lesson: LessonSource) -> str:
    return f"## Sources\n\n{_bullets(lesson.card.sources)}"


def next_lesson(lesson: LessonSource, names: Iterable[str]) -> str | None:
    """The lesson that its card names, or the one with the following number, or none."""
    if lesson.card.next is not None:
        return lesson.card.next
    return min((name for name in names if name > lesson.name), default=None)


def minutes(amount: float | None) -> str:
    """`1 minute`, `2.5 minutes`."""
    if amount is None:
        return "unknown"
    return f"{amount:g} minute{'' if amount == 1 else 's'}"


def gigabytes(megabytes: int | None) -> str:
    """`0.9 GB`, from megabytes."""
    return "unknown" if megabytes is None else f"{megabytes / 1000:.1f} GB"


def _link_lessons(text: str, names: Iterable[str]) -> str:
    """Makes `lesson 03` in a text a link, where lesson 03 is there."""
    known = {name.split("_")[0]: name for name in names}

    def link(match: re.Match[str]) -> str:
        name = known.get(match[2])
        return match[0] if name is None else f"[{match[0]}]({name}.ipynb)"

    return re.sub(r"\b([Ll]esson) (\d\d)\b", link, text)


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(
        textwrap.fill(
            item,
            WIDTH,
            initial_indent="* ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for item in items
    )


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
