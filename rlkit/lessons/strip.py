"""The progress strip of a lesson: what is done, what is not, with a sign and a word each.

Left out on purpose: percentages and points; a lesson is done when its parts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlkit.lab.frontend import headless
from rlkit.lessons.cards import inline_html, with_widget
from rlkit.lessons.store import Data

_SIGNS = {"right": "✓", "wrong": "✗", "open": "○"}


@dataclass(frozen=True)
class Part:
    """One part of a lesson.

    Attributes:
        name: what a learner calls it.
        state: `right`, `wrong` or `open`.
        words: the state in words, such as "right after 3 tries".
    """

    name: str
    state: str
    words: str

    def __str__(self) -> str:
        return f"{_SIGNS[self.state]} {self.name}: {self.words}"


def parts_of(titles: dict[str, str], saved: Data, seen: dict[str, str] | None = None) -> list[Part]:
    """The parts of a lesson out of the progress file.

    Args:
        titles: of the exercises, by ID, in order.
        saved: what the progress file says of this lesson.
        seen: predictions and quizzes that this session met, as `prediction` or `quiz` by name.
    """
    exercises, predictions, quizzes = (
        saved.get(name, {}) for name in ("exercises", "predictions", "quizzes")
    )
    parts = [_exercise(title, exercises.get(name, {})) for name, title in titles.items()]
    seen = seen or {}
    for name in _in_order("prediction", seen, predictions):
        score = predictions.get(name, {}).get("score")
        state, words = "open", "open"
        if score is not None:
            state, words = "right", f"made, score {score:.2f} of 1"
        parts.append(Part(f"Prediction {_spoken(name)}", state, words))
    for name in _in_order("quiz", seen, quizzes):
        found = quizzes.get(name, {})
        right, of = found.get("right", 0), found.get("of", 0)
        if not found.get("answers"):
            parts.append(Part(f"Quiz {_spoken(name)}", "open", "open"))
        else:
            state = "right" if right == of else "wrong"
            parts.append(Part(f"Quiz {_spoken(name)}", state, f"{right} of {of} right"))
    return parts


class Strip:
    """The parts of a lesson in one line each; it follows along where there is a front end."""

    def __init__(self, title: str, parts: list[Part]) -> None:
        self._title, self._parts = title, parts
        self._widget: Any = None

    def update(self, parts: list[Part]) -> None:
        """Shows a new state."""
        self._parts = parts
        if self._widget is not None:
            self._widget.value = self.html()

    @property
    def done(self) -> int:
        """How many parts are done."""
        return sum(part.state == "right" for part in self._parts)

    def __str__(self) -> str:
        head = f"{self._title}: {self.done} of {len(self._parts)} done"
        return "\n".join([head, *(f"  {part}" for part in self._parts)])

    __repr__ = __str__

    def html(self) -> str:
        """The strip as HTML: a list of framed words, never colour alone."""
        style = (
            "display:inline-block;margin:2px 6px 2px 0;padding:1px 8px;border-radius:10px;"
            "border:1px {} currentColor"
        )
        lines = {"right": "solid", "wrong": "dashed", "open": "dotted"}
        items = "".join(
            f'<li style="{style.format(lines[part.state])}">'
            f'<span aria-hidden="true">{_SIGNS[part.state]}</span> '
            f"{inline_html(part.name)}: {inline_html(part.words)}</li>"
            for part in self._parts
        )
        head = f"{self._title}: {self.done} of {len(self._parts)} done"
        return (
            f'<div class="rlkit-strip" role="status" aria-label="Your progress">'
            f"<b>{inline_html(head)}</b>"
            f'<ul style="list-style:none;margin:4px 0;padding:0">{items}</ul></div>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = {"text/plain": str(self), "text/html": self.html()}
        if headless():
            return static
        import ipywidgets as w

        if self._widget is None:
            self._widget = w.HTML(self.html())
        return with_widget(self._widget, static)


def _exercise(title: str, saved: Data) -> Part:
    tries = saved.get("attempts", 0)
    count = f"{tries} {'try' if tries == 1 else 'tries'}"
    help_used = []
    if saved.get("hints"):
        help_used.append(f"{saved['hints']} {'hint' if saved['hints'] == 1 else 'hints'}")
    if saved.get("solution_seen"):
        help_used.append("the solution seen")
    extra = f", {' and '.join(help_used)}" if help_used else ""
    if saved.get("right"):
        return Part(title, "right", f"right after {count}{extra}")
    if saved.get("state") == "WRONG":
        return Part(title, "wrong", f"not yet, {count}{extra}")
    return Part(title, "open", f"open{extra}" if not tries else f"open, {count}{extra}")


def _in_order(kind: str, seen: dict[str, str], saved: Data) -> list[str]:
    met = [name for name, what in seen.items() if what == kind]
    return [*met, *(name for name in saved if name not in met)]


def _spoken(name: str) -> str:
    return name.replace("_", " ")
