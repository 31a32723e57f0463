"""The widgets of an `ExpertPanel`: buttons, a slider, and a line for the keyboard.

Core ipywidgets only. Buttons and slider are reached with Tab; into the line one writes a
score, `s` to skip, `n` or `p` for the next or the previous answer, and Enter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from rlkit.errors import UserError
from rlkit.lab.theme import PALETTE, escape

if TYPE_CHECKING:
    from rlkit.lab.expert import ExpertPanel

KEYS = "A score, s (skip), n (next) or p (previous), then Enter"


class Controls:
    """The widgets of one panel. They hold nothing but what is shown."""

    def __init__(self, panel: ExpertPanel) -> None:
        from rlkit.lab.expert import CHOICES

        self.panel = panel
        self._quiet = False
        low, high = panel.scale
        self.item = w.HTML()
        self.said, self.message = w.HTML(), w.HTML()
        self.bar = w.IntProgress(
            min=0,
            max=len(panel),
            description="Done",
            style={"description_width": "initial", "bar_color": PALETTE[0]},
        )
        self.counter = w.HTML()
        self.choices = {
            label: w.Button(
                description=f"{label} ({low + share * (high - low):g})",
                tooltip=f"Give {low + share * (high - low):g} and show the next answer",
                layout=w.Layout(width="auto", min_width="110px", height="40px"),
            )
            for label, share in CHOICES.items()
        }
        for label, share in CHOICES.items():
            score = low + share * (high - low)
            self._on(self.choices[label], lambda score=score: panel.answer(score))
        self.slider = w.FloatSlider(
            min=low,
            max=high,
            value=low + (high - low) / 2,
            step=(high - low) / 20,
            description="Score",
            readout_format=".3g",
            continuous_update=False,
            style={"description_width": "initial"},
            layout=w.Layout(width="320px"),
        )
        self.give = _button("Give this score", "check", "Give what the slider shows")
        self.skip = _button("Skip", "forward", "No score: the answer has no verdict")
        self.previous = _button("Previous", "arrow-left", "Show the answer before")
        self.next = _button("Next", "arrow-right", "Show the answer after")
        self.keys = w.Text(
            placeholder=KEYS,
            description="Keyboard",
            tooltip=KEYS,
            continuous_update=False,
            style={"description_width": "initial"},
            layout=w.Layout(width="460px"),
        )
        self._on(self.give, lambda: panel.answer(self.slider.value))
        self._on(self.skip, lambda: panel.answer(None))
        self._on(self.previous, lambda: self._move(-1))
        self._on(self.next, lambda: self._move(1))
        self.keys.observe(self._typed, "value")
        row = w.Layout(flex_flow="wrap")
        self.box = w.VBox(
            [
                self.item,
                self.said,
                w.HBox([*self.choices.values(), self.skip], layout=row),
                w.HBox([self.slider, self.give], layout=row),
                w.HBox([self.previous, self.next, self.keys], layout=row),
                w.HBox([self.bar, self.counter], layout=row),
                self.message,
            ]
        )
        self.draw()

    def draw(self) -> None:
        """Shows the item the panel is at."""
        panel = self.panel
        self.item.value = panel.item_html()
        self.said.value = f'<div role="status">{escape(panel.said_text())}</div>'
        self.bar.value = len(panel) - panel.counts["open"]
        self.counter.value = escape(panel.progress)
        self.previous.disabled = panel.at == 0
        self.next.disabled = panel.at == len(panel) - 1
        said = panel.said(panel.at)
        if said is not None and said.score is not None:
            self.slider.value = min(max(said.score, self.slider.min), self.slider.max)

    def _move(self, by: int) -> None:
        self.panel.go(min(max(self.panel.at + by, 0), len(self.panel) - 1))

    def _typed(self, change: dict[str, Any]) -> None:
        text = change["new"].strip().casefold()
        if self._quiet or not text:
            return
        self._quiet = True
        self.keys.value = ""
        self._quiet = False
        self._do(lambda: self._obey(text))

    def _obey(self, text: str) -> None:
        moves: dict[str, Callable[[], None]] = {
            "s": lambda: self.panel.answer(None),
            "n": lambda: self._move(1),
            "p": lambda: self._move(-1),
        }
        if text in moves:
            return moves[text]()
        try:
            score = float(text.replace(",", "."))
        except ValueError:
            raise UserError(f"{text!r} is no score; write one, or s, n or p") from None
        self.panel.answer(score)

    def _on(self, button: w.Button, act: Callable[[], Any]) -> None:
        button.on_click(lambda _: self._do(act))

    def _do(self, act: Callable[[], Any]) -> None:
        """What goes wrong is said here; in a widget's handler it would be lost."""
        self.message.value = ""
        try:
            act()
        except UserError as error:
            style = f"border-left:4px solid {PALETTE[1]};padding:4px 8px"
            self.message.value = f'<div role="alert" style="{style}">⚠ {escape(error)}</div>'


def _button(text: str, icon: str, tooltip: str) -> w.Button:
    return w.Button(
        description=text,
        icon=icon,
        tooltip=tooltip,
        layout=w.Layout(width="auto", min_width="110px", height="40px"),
    )
