"""Settings of a panel, changed by name: what a slider does, a line of code can do.

`Adjustable` is the panel's side, without widgets, so that a panel also works headless;
`rlkit.lab.settings_controls` has the side of the widgets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

from rlkit.errors import UserError
from rlkit.lab.frontend import headless

Settings = TypeVar("Settings")


def changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    """The settings (a frozen dataclass) with some of them changed.

    Raises:
        UserError: a name that is no setting, or whatever the dataclass refuses.
    """
    unknown = set(changes) - set(vars(settings))
    if unknown:
        raise UserError(f"no setting {sorted(unknown)}; there are {list(vars(settings))}")
    return replace(settings, **changes)


class Adjustable(ABC):
    """A panel with settings, which its controls or a line of code may change.

    A subclass calls `_begin` once all is there that its figures need, and says in `_page` what
    is shown where no widgets are; `_checked` may refuse settings.

    Attributes:
        settings: a frozen dataclass of what the controls say.
    """

    settings: Any
    _controls: Any = None

    def _begin(self, settings: Any, controls: str) -> None:
        """Takes the first settings, and opens the controls where somebody can see them.

        Args:
            controls: the module whose `Controls` these are.
        """
        self.settings = self._checked(settings)
        if not headless():
            self._controls = import_module(controls).Controls(self)

    def set(self, **changes: Any) -> None:
        """Changes settings by name, as the controls do.

        Raises:
            UserError: a value that makes no sense, or a name that is no setting.
        """
        self.settings = self._checked(changed(self.settings, changes))
        self._draw()

    def _checked(self, wanted: Any) -> Any:
        """The settings, if they can be had here."""
        return wanted

    def _draw(self) -> None:
        if self._controls is not None:
            self._controls.draw()

    @abstractmethod
    def _page(self) -> str:
        """What it shows, as HTML that stands still."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = {"text/plain": str(self), "text/html": self._page()}
        if self._controls is None:
            return static
        return {**static, **self._controls.box._repr_mimebundle_(), "text/plain": str(self)}
