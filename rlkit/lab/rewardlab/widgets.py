"""The widgets of the Reward Lab. They hold nothing but what is shown.

Only core ipywidgets and static plotly figures. One figure is drawn at a time, and lists
are filled only when what they show has changed, so a redraw costs the same however many
completions and versions there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from rlkit.lab.controls import Pace
from rlkit.lab.live_run import describe_error
from rlkit.lab.rewardlab.comparison import EXAMPLES
from rlkit.lab.rewardlab.figures import VIEWS
from rlkit.lab.rewardlab.state import Outcome
from rlkit.lab.rewardlab.words import Example, headline_html, labels
from rlkit.lab.theme import PALETTE, escape, figure_bundle, figure_notes

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rlkit.lab.rewardlab.attacking import Attacks
    from rlkit.lab.rewardlab.panel import RewardLab

_STYLE = """<style>
.rlkit-lab textarea {font-family: var(--jp-code-font-family, monospace); font-size: 13px;
  line-height: 1.35; white-space: pre; tab-size: 4}
.rlkit-lab select {font-family: var(--jp-code-font-family, monospace); font-size: 12px}
.rlkit-lab .widget-textarea > label, .rlkit-lab .widget-select > label {text-align: left;
  width: auto}
.rlkit-lab, .rlkit-lab .widget-box {overflow: visible}
/* A figure that is drawn before it is seen has no height of its own, and would stay hidden. */
.rlkit-lab .jp-RenderedPlotly {min-height: 360px}
.rlkit-lab .widget-html-content, .rlkit-lab .widget-html-content p {line-height: 1.4; margin: 2px 0}
.rlkit-lab .widget-html-content caption, .rlkit-lab .widget-html-content th {text-align: left}
</style>"""
# Keys pressed in the lab belong to its controls. JupyterLab would take an arrow in a list for
# a move to the next cell, and a letter for a command; its own with Ctrl still reach it.
_OWN_KEYS = (
    "<style onload=\"this.closest('.rlkit-lab').addEventListener('keydown', "
    'key => key.ctrlKey || key.metaKey || key.stopPropagation())"></style>'
)
_CHOOSE = "<p>Choose a completion to see it with its group.</p>"


class Controls:
    """The widgets of one lab."""

    def __init__(self, lab: RewardLab) -> None:
        self.lab = lab
        self._quiet = False  # while widgets are set from here, their handlers rest
        self._pace = Pace(self._draw_training)
        self._code_part()
        self._view_part()
        self._example_part()
        self._training_part()
        left = w.VBox(
            [self.code, self._row(self.apply, self.back, self.forth), self.message, self.sliders],
            layout=w.Layout(flex="1 1 420px", min_width="0"),
        )
        right = w.VBox(
            [self.head, self.views, self.plot, self.notes],
            layout=w.Layout(flex="1 1 460px", min_width="0"),
        )
        self.box = w.VBox(
            [
                w.HTML(_STYLE + _OWN_KEYS),
                self._row(left, right),
                w.HTML("<h4 style='margin:8px 0 0'>Completions to look at</h4>"),
                self.kind,
                self._row(self.listed, self.shown),
                w.HTML("<h4 style='margin:8px 0 0'>Try it, keep it</h4>"),
                self._row(self.attack, self.train, self.halt, self.file, self.save),
                self.progress,
                self.training_plot,
                self.attacks,
            ]
        )
        self.box.add_class("rlkit-lab")
        self.code.value = lab.state.source
        self.draw()

    # -- its parts -------------------------------------------------------------------------

    def _code_part(self) -> None:
        self.code = w.Textarea(
            description="Source of the reward",
            tooltip="Python that defines a reward",
            rows=22,
            style={"description_width": "initial"},
            layout=w.Layout(width="auto", flex_flow="column", align_items="stretch"),
        )
        self.apply = _button("Apply", "check", "Score all completions with it", "primary")
        self.back = _button("Undo", "undo", "Back to the reward before")
        self.forth = _button("Redo", "repeat", "Take the last undo back")
        self.message, self.sliders = w.HTML(), w.VBox()
        self._on(self.apply, self._apply)
        self._on(self.back, lambda: self._travel(self.lab.undo))
        self._on(self.forth, lambda: self._travel(self.lab.redo))

    def _view_part(self) -> None:
        self.head = w.HTML()
        self.views = w.ToggleButtons(
            options=[(name, view) for view, (name, _) in VIEWS.items()],
            tooltips=[f"Show: {name}" for name, _ in VIEWS.values()],
            style={"button_width": "auto"},
        )
        # A fixed height, so that the page does not jump with each drawing.
        self.plot = w.Output(layout=w.Layout(height="366px", overflow="hidden"))
        self.notes = w.HTML()
        self._watch(self.views, self._draw_figure)

    def _example_part(self) -> None:
        self.kind = w.Dropdown(
            description="Show", style={"description_width": "initial"}, options=list(EXAMPLES)
        )
        self.listed = w.Select(
            rows=14,
            description="Completions",
            style={"description_width": "initial"},
            layout=w.Layout(flex="1 1 420px", min_width="0", width="auto", flex_flow="column",
                            align_items="stretch"),
        )  # fmt: skip
        self.shown = w.HTML(_CHOOSE, layout=w.Layout(flex="1 1 460px", min_width="0"))
        self._watch(self.kind, self._fill_list)
        self._watch(self.listed, self._show_example)

    def _training_part(self) -> None:
        lab = self.lab
        self.attack = _button("Attack it", "bug", "Run the audit's attacks against it")
        self.train = _button("Train 20 steps with this", "play", "Start a run beside the lab")
        self.train.layout.width = "210px"
        self.halt = _button("Stop", "stop", "End the training after the step under way")
        self.halt.disabled = True
        self.file = w.Text(
            value="my_reward.py",
            description="File",
            style={"description_width": "initial"},
            layout=w.Layout(width="220px"),
        )
        self.save = _button("Save", "save", "Write the source into this file")
        self.progress, self.attacks = w.HTML(), w.HTML()
        self.training_plot = w.Output()
        self._on(self.attack, self._attack)
        self._on(self.train, lambda: lab.train())
        self._on(self.halt, lab.stop)
        self._on(self.save, lambda: lab.save(self.file.value))

    # -- what it is told ----------------------------------------------------------------------

    def say(self, outcome: Outcome) -> None:
        """Shows a sentence; one that says what went wrong is announced at once."""
        mark, colour = ("✓", PALETTE[2]) if outcome.ok else ("⚠", PALETTE[1])
        role = "status" if outcome.ok else "alert"
        self.message.value = (
            f'<div role="{role}" style="border-left:4px solid {colour};padding:4px 8px;'
            f'line-height:1.35;overflow-wrap:anywhere">{mark} {escape(outcome.sentence)}</div>'
        )

    def draw(self) -> None:
        """Shows the version in force."""
        state = self.lab.state
        self.head.value = headline_html(state.comparison)
        self.back.disabled, self.forth.disabled = not state.can_undo, not state.can_redo
        self._draw_figure()
        self._draw_kinds()
        self._draw_sliders()
        if self.lab.attacks is None:
            self.attacks.value = ""

    def show_attacks(self, found: Attacks) -> None:
        self.attack.disabled = False
        self.attacks.value = f'<div role="status">{found._repr_html_()}</div>'

    def attack_failed(self, error: Exception) -> None:
        self.attack.disabled = False
        self.attacks.value = ""
        self.say(Outcome(False, f"The attacks could not be run: {describe_error(error)}"))

    def training_changed(self) -> None:
        """There is something new, often from the training's own thread; its end is always drawn."""
        training = self.lab.training
        if training is None:
            return  # its thread was faster than the one that started it, which tells again
        self.train.disabled, self.halt.disabled = training.going, not training.going
        role = "alert" if training.state == "failed" else "status"
        self.progress.value = f'<div role="{role}">{escape(training.sentence)}</div>'
        if training.going:
            self._pace.ask()
        else:
            self._pace.now()

    # -- drawing --------------------------------------------------------------------------------

    def _draw_figure(self) -> None:
        figure = self.lab.figure(self.views.value)
        _put(self.plot, figure)
        self.notes.value = f'<div style="line-height:1.4">{figure_notes(figure)}</div>'

    def _draw_kinds(self) -> None:
        compared, kind = self.lab.state.comparison, self.kind.value
        self._quiet = True
        self.kind.options = [
            (f"{name} ({compared.count(key):,})", key) for key, name in EXAMPLES.items()
        ]
        self.kind.value = kind
        self._quiet = False
        self._fill_list()

    def _fill_list(self) -> None:
        compared = self.lab.state.comparison
        self._quiet = True
        self.listed.options = labels(compared, compared.examples(self.kind.value))
        self.listed.index = None
        self._quiet = False
        self._show_example()

    def _show_example(self) -> None:
        number = self.listed.value
        if number is None:
            empty = "<p>There is no such completion.</p>"
            self.shown.value = _CHOOSE if self.listed.options else empty
        else:
            self.shown.value = Example(self.lab.state.comparison, number)._repr_html_()

    def _draw_sliders(self) -> None:
        weights = self.lab.state.weights
        known = {slider.description: slider for slider in self.sliders.children[1:]}
        if list(known) != list(weights):
            made = [self._slider(name, weight) for name, weight in weights.items()]
            heading = w.HTML("Weights of the parts" if made else "")
            self.sliders.children = [heading, *made]
            return
        self._quiet = True
        for name, weight in weights.items():
            if weight is not None:
                known[name].min = min(known[name].min, weight)
                known[name].max = max(known[name].max, weight)
                known[name].value = weight
            known[name].disabled = weight is None
        self._quiet = False

    def _slider(self, name: str, weight: float | None) -> w.FloatSlider:
        slider = w.FloatSlider(
            value=0.0 if weight is None else weight,
            min=min(-1.0, 2 * (weight or 0.0)),
            max=max(2.0, 2 * (weight or 0.0)),
            step=0.05,
            description=name,
            tooltip=f"Weight of {name}",
            disabled=weight is None,
            continuous_update=False,
            style={"description_width": "180px"},
            layout=w.Layout(width="auto", max_width="460px"),
        )
        self._watch(slider, lambda: self.lab.set_weight(name, slider.value))
        return slider

    def _draw_training(self) -> None:
        training = self.lab.training
        if training is not None and training.rows:
            self.training_plot.layout.height = "366px"
            _put(self.training_plot, training.figure())

    # -- acting -------------------------------------------------------------------------------

    def _travel(self, act: Callable[[], Outcome]) -> None:
        if act().ok:
            self.code.value = self.lab.state.source

    def _apply(self) -> None:
        self.message.value = '<div role="status">Scoring …</div>'
        self.apply.disabled = True
        try:
            self.lab.apply(self.code.value)
        finally:
            self.apply.disabled = False

    def _attack(self) -> None:
        self.attack.disabled = True
        self.attacks.value = '<div role="status">Attacking …</div>'
        self.lab.attack_in_background()

    def _on(self, button: w.Button, act: Callable[[], Any]) -> None:
        button.on_click(lambda _: self._guarded(act))

    def _watch(self, widget: w.Widget, act: Callable[[], Any]) -> None:
        widget.observe(lambda _: None if self._quiet else self._guarded(act), "value")

    def _guarded(self, act: Callable[[], Any]) -> None:
        """What a handler raises would else be lost in the server's log."""
        try:
            act()
        except Exception as error:
            self.say(Outcome(False, describe_error(error)))
            if not isinstance(error, ValueError):
                raise

    @staticmethod
    def _row(*children: w.Widget) -> w.HBox:
        return w.HBox(list(children), layout=w.Layout(flex_flow="wrap", grid_gap="4px 16px"))


def _button(text: str, icon: str, tooltip: str, style: str = "") -> w.Button:
    return w.Button(
        description=text,
        icon=icon,
        tooltip=tooltip,
        button_style=style,
        layout=w.Layout(width="120px", height="36px"),
    )


def _put(output: w.Output, figure: go.Figure) -> None:
    """Displays a figure in an output, instead of what it shows now."""
    data = {**figure_bundle(figure), "text/plain": figure.layout.meta["alt"]}
    # Set as a whole: a `with` block would also catch what other cells print meanwhile.
    output.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
