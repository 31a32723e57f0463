"""replay_view: one batch under several objectives, token by token, to be looked at.

Choose an answer, an objective or all of them, and what colours the tokens. Below stand the
table, the cosines of the gradients and what one step does to each answer. Everything the
widgets do can be done with `show` and the attributes, and without a front end the same is
shown as text and HTML.

Left out on purpose: starting a replay from here; see `rlkit.loop.replay`.
"""

from __future__ import annotations

from typing import Any

from rlkit.errors import UserError
from rlkit.lab.frontend import headless
from rlkit.lab.replay_figures import (
    SHOWN,
    answer_html,
    change_figure,
    checked,
    cosine_figure,
    legend_html,
    summary_html,
)
from rlkit.lab.theme import MISSING, number, visible
from rlkit.loop.replay.result import Replay

#: Choice that shows every objective.
ALL = "all objectives"


def replay_view(replay: Replay) -> ReplayView:
    """Opens the view of a replay.

    Args:
        replay: from `rlkit.loop.replay.replay` or `Replay.from_batch`.

    Raises:
        UserError: it is no replay.
    """
    if not isinstance(replay, Replay):
        raise UserError(f"a replay is shown here, not {type(replay).__name__}; make one first")
    return ReplayView(replay)


class ReplayView:
    """The view. Make it the last line of a cell to see it. Made by `replay_view`.

    Attributes:
        replay: what is shown.
        rollout: number of the answer that is shown, from 0.
        objective: label of the objective that is shown, or `ALL`.
        by: what colours the tokens: `weights` or `changes`.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        # An answer that some objective pushes on says more than one that all leave alone.
        strongest = [max(abs(o.advantages[n]) for o in replay.objectives)
                     for n in range(len(replay.rollouts))]  # fmt: skip
        self.rollout = strongest.index(max(strongest))
        self.objective, self.by = ALL, "weights"
        self._controls: _Controls | None = None
        if not headless():
            self._controls = _Controls(self)

    def show(
        self, rollout: int | None = None, objective: str | None = None, by: str | None = None
    ) -> ReplayView:
        """Shows another answer, objective or colouring; what is not given stays.

        Raises:
            UserError: there is no such answer, objective or colouring.
        """
        if rollout is not None:
            checked(self.replay, rollout)
        if objective is not None and objective != ALL:
            objective = self.replay[objective].name
        if by is not None and by not in SHOWN:
            raise UserError(f"tokens are coloured by {' or '.join(SHOWN)}, not by {by!r}")
        self.rollout = self.rollout if rollout is None else rollout
        self.objective = objective or self.objective
        self.by = by or self.by
        if self._controls is not None:
            self._controls.draw()
        return self

    def tokens_html(self) -> str:
        """The answer that is shown, its tokens coloured."""
        names = None if self.objective == ALL else [self.objective]
        return legend_html(self.by) + answer_html(self.replay, self.rollout, names, self.by)

    def labels(self) -> list[str]:
        """One line for each answer, for a list to choose from."""
        marks = {True: "✓", False: "✗", None: MISSING}
        return [
            f"{n}: group {r.group} {marks[r.solved]} reward {number(r.reward)} "
            f"{visible(r.text)[:40].replace(chr(10), ' ⏎ ')}"
            for n, r in enumerate(self.replay.rollouts)
        ]

    def __repr__(self) -> str:
        return (
            f"{self.replay}\n\nAnswer {self.labels()[self.rollout]}\n"
            "Write view.show(rollout=3, objective='GRPO', by='changes') to see another."
        )

    def _repr_html_(self) -> str:
        return self.tokens_html() + summary_html(self.replay)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self._controls is None:
            return static
        return {**self._controls.box._repr_mimebundle_(), **static}


class _Controls:
    """The widgets of a view. They hold nothing but what is shown."""

    def __init__(self, view: ReplayView) -> None:
        import ipywidgets as w

        from rlkit.lab.figure_box import FigureBox, panel, row

        self.view = view
        wide = {"description_width": "initial"}
        names = [ALL, *(o.name for o in view.replay.objectives)]
        self.answer = w.Dropdown(
            options=[(label, n) for n, label in enumerate(view.labels())],
            value=view.rollout,
            description="Answer",
            tooltip="Which answer of the batch",
            style=wide,
            layout=w.Layout(width="420px", max_width="100%"),
        )
        self.objective = w.Dropdown(
            options=names,
            value=view.objective,
            description="Objective",
            tooltip="Whose weights are shown",
            style=wide,
        )
        self.by = w.Dropdown(
            options=[("push (weight)", "weights"), ("change of log-probability", "changes")],
            value=view.by,
            description="Colour by",
            tooltip="What colours the tokens",
            style=wide,
        )
        self.tokens = w.HTML()
        self.figures = [FigureBox(), FigureBox()]
        for box, figure in zip(
            self.figures, (cosine_figure(view.replay), change_figure(view.replay)), strict=True
        ):
            box.show(figure)
        self._drawing = False
        for control in (self.answer, self.objective, self.by):
            control.observe(self._chosen, "value")
        self.box = panel(
            row(self.answer, self.objective, self.by),
            self.tokens,
            w.HTML(summary_html(view.replay)),
            row(*(box.box for box in self.figures)),
        )
        self.draw()

    def draw(self) -> None:
        """Shows what the view is at."""
        self._drawing = True
        try:
            self.answer.value = self.view.rollout
            self.objective.value = self.view.objective
            self.by.value = self.view.by
        finally:
            self._drawing = False
        self.tokens.value = self.view.tokens_html()

    def _chosen(self, _: Any) -> None:
        if not self._drawing:
            self.view.show(self.answer.value, self.objective.value, self.by.value)
