"""The widgets' side of an `Adjustable` panel whose widgets are named as its settings.

Only core ipywidgets. A widget that the user moves changes the setting of its name; settings
that a line of code has changed move the widgets.
"""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from rlkit.lab.figure_box import Alert


class SettingsControls:
    """Binds widgets to settings by name.

    A subclass makes one widget for each setting, under its name, then calls `_bind`.

    Args:
        owner: the panel.

    Attributes:
        alert: shows what was refused.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.alert = Alert()
        self._quiet = False  # while widgets are set from here, their handlers rest

    def _bind(self) -> None:
        for name in vars(self.owner.settings):
            widget = getattr(self, name)
            guarded = self.alert.guarded(self._setter(name, widget))
            widget.observe(
                lambda change, guarded=guarded: None if self._quiet else guarded(change), "value"
            )

    def _setter(self, name: str, widget: w.Widget) -> Any:
        return lambda: self.owner.set(**{name: widget.value})

    def _show_settings(self) -> None:
        """Moves the widgets to the settings in force; a value that a list lacks joins it."""
        self._quiet = True
        try:
            for name, value in vars(self.owner.settings).items():
                widget = getattr(self, name)
                if isinstance(widget, w.SelectionSlider) and value not in widget.options:
                    widget.options = sorted({*widget.options, value})
                widget.value = value
        finally:
            self._quiet = False
