"""FigureBox: a plotly figure inside a panel, with its caption and its data below it.

The figure is static and drawn anew when something changes, which works in JupyterLab, Colab
and VS Code alike. Its place has a fixed height, so that the page does not jump.

Left out on purpose: what the panel does; see `bandit_controls` for one that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w
import plotly.graph_objects as go

from rlkit.lab.live_run import describe_error
from rlkit.lab.theme import escape, figure_bundle, figure_notes, template

#: Keys pressed in a panel belong to its controls. JupyterLab would take an arrow on a button
#: for a move to the next cell; its own keys with Ctrl still reach it.
PANEL_KEYS = (
    "<style onload=\"this.closest('.rlkit-panel').addEventListener('keydown', "
    'key => key.ctrlKey || key.metaKey || key.stopPropagation())">'
    ".rlkit-panel, .rlkit-panel .widget-box {overflow: visible}"
    ".rlkit-panel .widget-html-content {line-height: 1.4; min-width: 0}"
    ".rlkit-panel .widget-html-content :is(caption, th) {text-align: left}"
    # On a phone a label stands above its slider, which else would have no length left.
    "@media (max-width: 700px) {"
    ".rlkit-panel :is(.widget-hslider, .widget-dropdown) {flex-wrap: wrap; height: auto}"
    ".rlkit-panel :is(.widget-hslider, .widget-dropdown) > label {flex: 1 0 100%; text-align: left}"
    "}</style>"
)


class FigureBox:
    """A place for one figure.

    Attributes:
        box: the widget to put into a panel.
    """

    def __init__(self, least_width: int = 380) -> None:
        self._plot = w.Output(layout=w.Layout(overflow="hidden"))
        self._notes = w.HTML()
        self.box = w.VBox(
            [self._plot, self._notes], layout=w.Layout(flex=f"1 1 {least_width}px", min_width="0")
        )

    def show(self, figure: go.Figure) -> None:
        """Draws a figure that carries its caption and its alternative text."""
        height = figure.layout.height or template().layout.height
        self._plot.layout.height = f"{height + 12:.0f}px"
        data = {**figure_bundle(figure), "text/plain": figure.layout.meta["alt"]}
        # Set as a whole: a `with` block would also catch what other cells print meanwhile.
        self._plot.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)
        self._notes.value = f'<div style="line-height:1.4">{figure_notes(figure)}</div>'

    @property
    def shown(self) -> tuple[Any, ...]:
        """What stands in the place now."""
        return self._plot.outputs


def panel(*rows: Any) -> w.VBox:
    """A panel of rows from top to bottom, whose keys are its own."""
    box = w.VBox([w.HTML(PANEL_KEYS), *rows])
    box.add_class("rlkit-panel")
    return box


def row(*parts: Any) -> w.HBox:
    """Parts side by side, below each other where there is no room."""
    return w.HBox(list(parts), layout=w.Layout(flex_flow="wrap"))


def slider(description: str, options: Any, value: Any, tooltip: str = "") -> w.SelectionSlider:
    """A slider over listed values, which the arrow keys move; its label is never cut off."""
    return w.SelectionSlider(
        options=options,
        value=value,
        description=description,
        tooltip=tooltip or description,
        continuous_update=False,
        style={"description_width": "initial"},
        layout=w.Layout(width="330px", max_width="100%"),
    )


def checkbox(description: str, value: bool) -> w.Checkbox:
    """A box to tick, its label beside it."""
    layout = w.Layout(width="auto", margin="2px 24px 2px 2px")
    return w.Checkbox(value=value, description=description, indent=False, layout=layout)


def button(description: str, icon: str, tooltip: str, primary: bool = False) -> w.Button:
    """A button as wide as its label."""
    return w.Button(
        description=description,
        icon=icon,
        tooltip=tooltip,
        button_style="primary" if primary else "",
        layout=w.Layout(width="auto", min_width="120px", height="36px"),
    )


def status(sentence: str) -> str:
    """A line that a screen reader tells when it changes."""
    return f'<div role="status" aria-live="polite">{escape(sentence)}</div>'


class Alert:
    """A place for a sentence about what went wrong; empty while nothing did."""

    def __init__(self) -> None:
        self.box = w.HTML()

    def guarded(self, act: Callable[[], Any]) -> Callable[[Any], None]:
        """A widget's handler; what it raises would else be lost in the server's log."""

        def handle(_: Any) -> None:
            self.box.value = ""
            try:
                act()
            except Exception as error:
                style = "border-left:4px solid #D55E00;padding:4px 8px"
                self.box.value = (
                    f'<div role="alert" style="{style}">⚠ {escape(describe_error(error))}</div>'
                )
                raise

        return handle
