"""Hints in three levels, and the solution behind a question.

Left out on purpose: counting; the lesson keeps that in the learner's progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlkit.lab.frontend import headless
from rlkit.lessons.cards import Block, Card, with_widget


def hint_card(exercise: str, title: str, hints: Sequence[str], level: int) -> Card:
    """The hints up to this level, the newest last.

    >>> print(hint_card("mean", "The mean", ("Add.", "Divide.", "sum(x) / len(x)"), 2))
    → Hint 2 of 3: The mean
      1. Add.
      2. Divide.
    """
    blocks = [Block(f"{number}. {text}") for number, text in enumerate(hints[:level], start=1)]
    if level >= len(hints):
        blocks.append(Block(f'That was the last hint; `lesson.solution("{exercise}")` shows one.'))
    return Card("note", "→", f"Hint {level} of {len(hints)}: {title}", tuple(blocks))


class Solution:
    """A solution that is shown once it is confirmed: by a button, or by asking again.

    Args:
        exercise: its ID.
        title: what a learner calls it.
        source: the solution.
        shown: whether it was confirmed already.
        on_show: called once, when the solution is shown.
    """

    def __init__(
        self,
        exercise: str,
        title: str,
        source: str,
        shown: bool,
        on_show: Callable[[], Any],
    ) -> None:
        self._exercise, self._title, self._source = exercise, title, source
        self._on_show = on_show
        self._box: Any = None
        self.shown = False
        if shown:
            self.show()

    def show(self) -> None:
        """Shows the solution, as the button does."""
        if not self.shown:
            self.shown = True
            self._on_show()
        if self._box is not None:
            import ipywidgets as w

            self._box.children = [w.HTML(self.card().html())]

    def card(self) -> Card:
        """The solution, or the question whether to show it."""
        if self.shown:
            code = Block(self._source, "One right answer among many", code=True)
            return Card("note", "→", f"Solution: {self._title}", (code,))
        again = (
            f'You learn more by one more try. Ask again, or write `lesson.solution("'
            f'{self._exercise}", confirm=True)`, to see it.'
        )
        return Card("note", "?", f"Show the solution of: {self._title}?", (Block(again),))

    def __str__(self) -> str:
        return str(self.card())

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = self.card()._repr_mimebundle_()
        if self.shown or headless():
            return static
        import ipywidgets as w

        if self._box is None:
            button = w.Button(
                description="Show the solution",
                tooltip=f"Show one right answer to: {self._title}",
                layout=w.Layout(width="180px"),
            )
            button.on_click(lambda _: self.show())
            question = Card(
                "note",
                "?",
                f"Show the solution of: {self._title}?",
                (Block("You learn more by one more try."),),
            )
            self._box = w.VBox([w.HTML(question.html()), button])
        return with_widget(self._box, static)
