"""The widgets of a `Dashboard`, and the pace at which they are drawn.

Only core ipywidgets and static plotly figures. Widgets hold no state of the training.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlkit.lab.live_run import LiveRun, describe_error
from rlkit.lab.theme import escape, figure_bundle, figure_notes

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rlkit.lab.dashboard import Dashboard
    from rlkit.lab.group_view import GroupView

#: Least time between two drawings, in seconds.
DRAW_EVERY_S = 1 / 3
#: What the learning-rate slider multiplies the configured rate by.
RATE_FACTORS = {"÷8": 1 / 8, "÷4": 1 / 4, "÷2": 1 / 2, "×1": 1.0, "×2": 2.0, "×4": 4.0, "×8": 8.0}


class Pace:
    """Draws at most once in `least_s` seconds, and always the last state.

    Args:
        draw: called without arguments.
        least_s: least time between two drawings, in seconds.
        clock, sleep: of the `time` module; others for tests.
    """

    def __init__(
        self,
        draw: Callable[[], None],
        least_s: float = DRAW_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._draw, self._least_s, self._clock, self._sleep = draw, least_s, clock, sleep
        self._drawn: float | None = None
        self._lock = threading.Lock()  # a button and the training thread may both want to draw

    def ask(self) -> None:
        """Draws if it is time; otherwise the next drawing shows it, too."""
        with self._lock:
            if self._wait_s() <= 0:
                self._do()

    def now(self) -> None:
        """Draws as soon as it is allowed, and returns when it has."""
        with self._lock:
            if (wait_s := self._wait_s()) > 0:
                self._sleep(wait_s)
            self._do()

    def _wait_s(self) -> float:
        return 0.0 if self._drawn is None else self._drawn + self._least_s - self._clock()

    def _do(self) -> None:
        self._draw()
        self._drawn = self._clock()


class Controls:
    """The widgets of one panel. They hold no state of the training."""

    def __init__(self, panel: Dashboard) -> None:
        import ipywidgets as w

        self.one = w.Button(
            description="Run one step",
            button_style="primary",
            icon="play",
            tooltip="Ask, answer, judge, learn: once",
            layout=w.Layout(width="200px", height="48px"),
        )
        self.ten = w.Button(description="Run 10 steps", icon="forward", layout=_tall(w))
        self.halt = w.Button(
            description="Stop", icon="stop", tooltip="After the step under way", layout=_tall(w)
        )
        self.afresh = w.Button(
            description="Start afresh",
            icon="undo",
            tooltip="Policy and optimizer go back to where this loop began",
            layout=_tall(w),
        )
        self.rate = w.SelectionSlider(
            options=list(RATE_FACTORS),
            value=panel._factor,
            description="Learning rate",
            continuous_update=False,
            style={"description_width": "initial"},
            layout=w.Layout(width="320px"),
        )
        self.rate_text = w.HTML()
        self.counter, self.error = w.HTML(), w.HTML()
        self.group = w.HTML(layout=w.Layout(flex="1 1 440px", min_width="0"))
        # A fixed height, so that the page does not jump with each drawing.
        self.plot = w.Output(layout=w.Layout(height="350px", overflow="hidden"))
        self.notes = w.HTML()
        figure = w.VBox([self.plot, self.notes], layout=w.Layout(flex="1 1 380px", min_width="0"))
        self.box = w.VBox(
            [
                w.HBox(
                    [self.one, self.ten, self.halt, self.afresh], layout=w.Layout(flex_flow="wrap")
                ),
                w.HBox([self.rate, self.rate_text], layout=w.Layout(flex_flow="wrap")),
                self.counter,
                self.error,
                w.HBox([self.group, figure], layout=w.Layout(flex_flow="wrap")),
            ]
        )
        self._html = w.HTML
        self._state = ""
        self.show_rate(panel._factor, RATE_FACTORS[panel._factor] * panel.loop.config.learning_rate)
        for button, act in (
            (self.one, lambda: panel.run(1)),
            (self.ten, lambda: panel.run(10)),
            (self.halt, panel.stop),
            (self.afresh, panel.start_afresh),
        ):
            button.on_click(self._guarded(act))
        self.rate.observe(
            self._guarded(lambda: panel.set_learning_rate_factor(self.rate.value)), "value"
        )

    def _guarded(self, act: Callable[[], Any]) -> Callable[[Any], None]:
        """A widget's handler; what it raises would else be lost in the server's log."""

        def handle(_: Any) -> None:
            self.error.value = ""
            try:
                act()
            except Exception as error:
                self.show_error(describe_error(error))
                raise

        return handle

    def show_error(self, sentence: str) -> None:
        style = "border-left:4px solid #D55E00;padding:4px 8px"
        self.error.value = f'<div role="alert" style="{style}">⚠ {escape(sentence)}</div>'

    def show_rate(self, label: str, rate: float) -> None:
        self.rate.value = label
        self.rate_text.value = f"{label} gives {rate:g} from the next step on"

    def show_state(self, run: LiveRun | None) -> None:
        """Which buttons may be pressed, and what ended a run."""
        running = run is not None and run.state == "running"
        for button in (self.one, self.ten, self.afresh):
            button.disabled = running
        self.halt.disabled = run is None or not run.going
        self._state = "" if run is None else run.state
        if run is not None and run.error is not None:
            self.show_error(f"Training ended: {describe_error(run.error)}")

    def draw(self, step: int, status: str, group: GroupView | None, figure: go.Figure) -> None:
        state = f" · {self._state}" if self._state else ""
        self.counter.value = (
            f'<div role="status" aria-live="polite"><span style="font-size:20px;font-weight:600">'
            f"Step {step}</span>&ensp;{escape(status)}{escape(state)}</div>"
        )
        if group is not None:
            self.group.value = group._repr_html_()
        else:
            self.group.value = "<p>Run one step to see eight answers to one problem.</p>"
        data = {**figure_bundle(figure), "text/plain": figure.layout.meta["alt"]}
        # Set as a whole: a `with` block would also catch what other cells print meanwhile.
        self.plot.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
        self.notes.value = f'<div style="line-height:1.4">{figure_notes(figure)}</div>'

    def say_moved(self) -> None:
        self.box.children = [self._html("<p>This panel was built again; see the newer one.</p>")]


def _tall(w: Any) -> Any:
    return w.Layout(width="130px", height="48px")
