"""Dashboard: the loop as a panel with buttons, a slider, the latest group and the pass rate.

It watches a loop through `loop.callbacks`, whoever takes the steps: its own buttons, a
run started in a cell, or `loop.step()` by hand. Building it again takes the place of
the older panel of the same loop and keeps what that one has seen.

Only core ipywidgets are used, and figures are static and drawn anew, at most three
times a second: that works in JupyterLab, Colab and VS Code alike. Where there is no
front end, or one that shows no widgets, `snapshot` gives the same as text and tables.

Left out on purpose: a choice of metrics, and the rollout browser; both have later places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlkit.lab.controls import RATE_FACTORS, Controls, Pace
from rlkit.lab.figures import pass_rate_figure
from rlkit.lab.frontend import headless
from rlkit.lab.group_view import GroupView
from rlkit.lab.live import current, origin_of, start, start_afresh
from rlkit.lab.live_run import LiveRun
from rlkit.lab.theme import escape, figure_notes, number

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rlkit.loop import Batch, ClosedLoop, Evaluation
    from rlkit.monitor import StepRecord

HINT = (
    "If you see no buttons here, your front end shows no widgets. The panel's snapshot() shows "
    "the same without them; in Colab, run this once in a cell and build the panel again: "
    "from google.colab import output; output.enable_custom_widget_manager()"
)


class Dashboard:
    """A panel for one loop. Make it the last line of a cell to see it.

    Args:
        loop: the loop to watch and to train.
        evaluate_every: measure held-out pass@1 whenever so many more steps are done;
            `None` for never.
        problems: held-out problems of such an evaluation.

    Attributes:
        rows: one row of metrics for each step that was seen.
        events: held-out evaluations that were made or added.
    """

    def __init__(
        self, loop: ClosedLoop, *, evaluate_every: int | None = None, problems: int = 200
    ) -> None:
        self.loop = loop
        self.rows: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.origin = origin_of(loop)
        self._evaluate_every = evaluate_every
        self._problems = problems
        self._factor = "×1"
        self._take_over()
        self._controls = None if headless() else Controls(self)
        self._pace = Pace(self._draw)
        # In front: it draws what a run, behind it, may then wait on.
        loop.callbacks.insert(0, self)
        self._show_state(current(loop))
        self._pace.now()

    def _take_over(self) -> None:
        """Continues an older panel of this loop, or the run directory it keeps."""
        older = next((c for c in self.loop.callbacks if isinstance(c, Dashboard)), None)
        if older is not None:
            self.rows, self.events, self._factor = older.rows, older.events, older._factor
            self.loop.callbacks.remove(older)
            older._close()
        elif self.loop.run_directory is not None:
            from rlkit.loop import Run

            run = Run.open(self.loop.run_directory)
            self.rows, self.events = run.metrics(), run.events()
            self._forget_what_is_undone()

    def _close(self) -> None:
        if self._controls is not None:
            self._controls.say_moved()

    # -- what it is told ------------------------------------------------------------------

    def __call__(self, record: StepRecord, batch: Batch) -> None:
        """After each step of the loop, whoever took it."""
        self.rows = [row for row in self.rows if row["step"] < record.step] + [record.to_dict()]
        self._pace.ask()

    def run_changed(self, run: LiveRun) -> None:
        """A run of the loop began, rests, or ended."""
        self._forget_what_is_undone()
        self._show_state(run)
        if run.state != "running":
            self._pace.now()

    def add_evaluation(self, evaluation: Evaluation) -> None:
        """Adds a held-out evaluation to the pass-rate figure."""
        for result in evaluation.by_domain.values():
            self.events.append(
                {"kind": "evaluation", "step": evaluation.step, "split": "held_out"}
                | result.to_dict()
            )
        self._pace.ask()

    def _forget_what_is_undone(self) -> None:
        """After a fresh start the steps beyond it are no longer true of this policy."""
        done = self.loop.steps_done
        undone = any(row["step"] > done for row in self.rows)
        self.rows = [row for row in self.rows if row["step"] <= done]
        self.events = [event for event in self.events if event["step"] <= done]
        if undone:  # and so is what the slider says
            self._show_factor("×1")

    # -- what may be asked of it ------------------------------------------------------------

    def run(self, steps: int = 1) -> LiveRun:
        """Takes so many steps more, as the buttons do; a run that rests goes on."""
        run = current(self.loop)
        if run is not None and run.going:
            return run.step(steps)
        every = self._evaluate_every
        if every and steps < every and (self.loop.steps_done % every) + steps < every:
            every = None  # a few single steps are not worth an evaluation each
        return start(self.loop, steps, evaluate_every=every, problems=self._problems, quiet=True)

    def stop(self) -> None:
        """Ends a run of the loop after the step under way."""
        run = current(self.loop)
        if run is not None:
            run.stop()

    def wait(self) -> Dashboard:
        """Waits until no step is under way, and raises what ended the latest run, if anything."""
        run = current(self.loop)
        if run is not None:
            run.wait()
        return self

    def start_afresh(self) -> None:
        """Puts the loop back to where it was before anybody trained it here.

        Raises:
            UserError: a run is going, or the loop keeps a run directory.
        """
        start_afresh(self.loop)
        self._forget_what_is_undone()
        self._show_state(None)
        self._pace.now()

    def set_learning_rate_factor(self, label: str) -> None:
        """Scales the configured learning rate by one of `RATE_FACTORS`, from the next step on."""
        self._show_factor(label)
        run = current(self.loop)
        if run is not None:
            run.set_learning_rate_factor(RATE_FACTORS[label])
        else:
            self.loop.set_learning_rate_factor(RATE_FACTORS[label])

    def _show_factor(self, label: str) -> None:
        self._factor = label
        if self._controls is not None:
            self._controls.show_rate(label, RATE_FACTORS[label] * self.loop.config.learning_rate)

    # -- what it shows ----------------------------------------------------------------------

    def status(self) -> str:
        """The latest step in one line."""
        if not self.rows:
            return "no step yet"
        row = self.rows[-1]
        shown = {"reward": "reward", "pass rate": "pass_rate", "gradient norm": "grad_norm"}
        parts = [f"{name} {number(row.get(key))}" for name, key in shown.items()]
        if row.get("step_time") is not None:
            parts.append(f"took {row['step_time']:.1f} s")
        return ", ".join(parts)

    def group(self) -> GroupView | None:
        """The answers of the latest step: a group with contrast, if there is one."""
        return None if self.loop.batch is None else GroupView.of(self.loop.batch)

    def figure(self) -> go.Figure:
        """Pass rate in training and on held-out problems."""
        return pass_rate_figure(self.rows, self.events)

    def snapshot(self) -> Snapshot:
        """Everything the panel shows, as it is now, without widgets."""
        figure, group = self.figure(), self.group()
        head = f"Step {self.loop.steps_done}: {self.status()}"
        alt = figure.layout.meta["alt"]
        text = [head, *([] if group is None else [str(group)]), alt]
        html = [f"<p><b>{escape(head)}</b></p>"]
        html += [] if group is None else [group._repr_html_()]
        return Snapshot("\n".join(text), "".join([*html, figure_notes(figure)]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.snapshot().beside(self._controls, HINT)

    # -- drawing ------------------------------------------------------------------------------

    def _draw(self) -> None:
        if self._controls is not None:
            self._controls.draw(self.loop.steps_done, self.status(), self.group(), self.figure())

    def _show_state(self, run: LiveRun | None) -> None:
        if self._controls is not None:
            self._controls.show_state(run)


@dataclass(frozen=True)
class Snapshot:
    """The panel as it was at one moment: HTML where HTML is shown, else plain text."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html

    def beside(self, controls: Any, hint: str) -> dict[str, Any]:
        """What a panel shows: its widgets where there are some, and this where they are not.

        Args:
            controls: of the panel, with the widget `box`; None without a front end.
            hint: what to do where widgets are not shown.
        """
        if controls is None:
            return {"text/plain": self.text, "text/html": self.html}
        # What shows no widgets, a page made of the notebook for one, takes the other two.
        return {
            **controls.box._repr_mimebundle_(),
            "text/plain": f"{self.text}\n{hint}",
            "text/html": f"{self.html}<p>{escape(hint)}</p>",
        }
