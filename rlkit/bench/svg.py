"""Small charts for the docs: SVG text, made without a plotting library.

One panel for each curve, all on the same axes: the median over seeds as a line, the range
as a ribbon, and another curve in grey to compare with. Text is grey enough for a light and
a dark page; a title and a description stand inside for those who cannot see it.

Left out: everything that a browser's scripts could do; a chart in the docs stands still.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from rlkit.errors import UserError

#: Blue of Okabe and Ito's palette; and greys that can be read on white and on near-black.
LINE, TEXT, GRID = "#0072B2", "#757575", "#9a9a9a"
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 205, 132, 46, 46, 30

#: Values of each seed at each x; `None` where there is none.
Curve = Mapping[float, Sequence[float | None]]


def ribbons_svg(
    curves: Mapping[str, Curve],
    *,
    title: str,
    description: str,
    x_title: str,
    y_title: str,
    beside: str | None = None,
    columns: int = 4,
    low: float = 0.0,
    high: float = 1.0,
) -> str:
    """One panel for each curve, as the text of an SVG file.

    Args:
        curves: by name; each maps x to the values of all seeds.
        title, description: for those who cannot see it.
        x_title, y_title: of the axes, with units.
        beside: name of a curve that is drawn in grey in all other panels.
        columns: panels in a row.
        low, high: range of the y axis.

    >>> text = ribbons_svg({"a": {0: [0.1, 0.3], 10: [0.5, 0.7]}}, title="t", description="d",
    ...                    x_title="steps", y_title="share")
    >>> text.count("<polyline"), text.count("<polygon"), "a" in text
    (1, 1, True)
    """
    rows = -(-len(curves) // columns)
    across = min(columns, len(curves))
    width = _LEFT + across * (_WIDTH + _GAP)
    height = _TOP + rows * (_HEIGHT + _GAP + 16) - 8
    last = max(x for curve in curves.values() for x in curve)
    body = []
    for number, (name, curve) in enumerate(curves.items()):
        left = _LEFT + (number % columns) * (_WIDTH + _GAP)
        top = _TOP + (number // columns) * (_HEIGHT + _GAP + 16)
        place = _Place(left, top, last or 1, low, high)
        body.append(_frame(place, name, first=number % columns == 0))
        if beside is not None and beside != name:
            body.append(place.line(curves[beside], GRID, "5 3", 1.5))
        body.append(place.ribbon(curve))
        body.append(place.line(curve, LINE, None, 2.2))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-labelledby="t d" font-family="system-ui, sans-serif" font-size="11" fill="{TEXT}">'
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(description)}</desc>'
        f'<text x="{_LEFT}" y="16" font-size="13">{escape(title)}</text>{"".join(body)}'
        f'<text x="{width / 2:.0f}" y="{height - 6}" text-anchor="middle">{escape(x_title)}</text>'
        f'<text transform="translate(11 {height / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text></svg>\n"
    )


def write_svg(file: str | Path | None, text: Callable[[], str]) -> None:
    """Draws a chart into a file, where one is named.

    Raises:
        UserError: it cannot be written.
    """
    if file is None:
        return
    try:
        Path(file).write_text(text(), encoding="utf-8")
    except OSError as error:
        raise UserError(f"the curves cannot be written to {str(file)!r}: {error}") from None


class _Place:
    """Where a panel stands, and how numbers become places in it."""

    def __init__(self, left: float, top: float, last: float, low: float, high: float) -> None:
        self.left, self.top, self.last, self.low, self.high = left, top, last, low, high

    def x(self, value: float) -> float:
        return self.left + _WIDTH * value / self.last

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.top + _HEIGHT * (1 - min(1.0, max(0.0, share)))

    def line(self, curve: Curve, colour: str, dash: str | None, width: float) -> str:
        points = " ".join(
            f"{self.x(x):.1f},{self.y(statistics.median(known)):.1f}" for x, known in _known(curve)
        )
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        return (
            f'<polyline points="{points}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def ribbon(self, curve: Curve) -> str:
        known = _known(curve)
        there = [f"{self.x(x):.1f},{self.y(max(values)):.1f}" for x, values in known]
        back = [f"{self.x(x):.1f},{self.y(min(values)):.1f}" for x, values in reversed(known)]
        points = " ".join(there + back)
        return f'<polygon points="{points}" fill="{LINE}" fill-opacity="0.22"/>'


def _known(curve: Curve) -> list[tuple[float, list[float]]]:
    pairs = [(x, [v for v in values if v is not None]) for x, values in sorted(curve.items())]
    return [(x, values) for x, values in pairs if values]


def _frame(place: _Place, name: str, first: bool) -> str:
    lines = []
    for step in range(5):
        value = place.low + (place.high - place.low) * step / 4
        y = place.y(value)
        lines.append(
            f'<line x1="{place.left}" x2="{place.left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{GRID}" stroke-opacity="0.35"/>'
        )
        if first:
            lines.append(
                f'<text x="{place.left - 5}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
            )
    for value in (0, place.last / 2, place.last):
        lines.append(
            f'<text x="{place.x(value):.1f}" y="{place.top + _HEIGHT + 13}" '
            f'text-anchor="middle">{value:g}</text>'
        )
    lines.append(
        f'<text x="{place.left}" y="{place.top - 6}" font-weight="600">{escape(name)}</text>'
    )
    return "".join(lines)
