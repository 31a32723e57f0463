"""How figures and pages of rlkit look, and what stands beside every figure.

A figure is never alone: it has a caption in plain words, a text for those who cannot
see it, and a table of its data to open. Colours come from Okabe and Ito ("Color
Universal Design", 2008), cut to those that are readable on white and on near-black;
dash, marker and pattern differ along with the colour, which never speaks alone.

Left out on purpose: a choice of themes.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import plotly.graph_objects as go

#: Blue, vermilion, green, purple, grey, sky: at least 3:1 on white and on #111111, and
#: apart for red-blind, green-blind and blue-blind eyes. More lines repeat them with
#: another dash.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6A6A6A", "#3C96D2")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "8px,2px,2px,2px")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "cross", "bowtie")
PATTERNS = ("", "/", "x", "\\", ".", "-", "+")

#: Text and grid that can be read on a light and on a dark page, for figures that do not
#: know where they are shown. A page that knows puts its own there.
TEXT, GRID = "#757575", "rgba(128,128,128,0.25)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"

#: Rows that a data table shows; of more, evenly spaced ones, and it says so.
TABLE_ROWS = 200
#: Marks a trace that only decorates and has no place in the data table.
DECORATION = "decoration"
MISSING = "–"

#: The type of a bare figure among the outputs of a notebook.
PLOTLY_MIME = "application/vnd.plotly.v1+json"
#: No row of buttons over the curves: dragging zooms in, and a double click goes back.
PLOT_CONFIG = {"responsive": True, "displaylogo": False, "displayModeBar": False}

# Characters that a page would hide or obey: controls, lone surrogates, and those that
# reorder text or have no width.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)

# Written out, because many fonts have no pictures of them.
_CONTROLS = re.findall(
    r"\w+",
    "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI "
    "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US",
)


def bar_pattern(shape: str) -> dict[str, object]:
    """The pattern of a bar, over its colour, so that colour never speaks alone.

    Args:
        shape: one of `PATTERNS`; the empty one is a plain bar.

    >>> bar_pattern("/")["shape"]
    '/'
    """
    return {
        "shape": shape,
        "fillmode": "overlay",
        "fgcolor": "rgba(255,255,255,0.75)",
        "size": 7,
        "solidity": 0.25,
    }


def visible(text: object) -> str:
    """The text with its control and invisible characters spelled out.

    Tabs and line breaks stay. Lone surrogates are spelled out, too, so that the result
    can always be encoded.

    >>> visible("red: \\x1b[31m, end\\x7f, turned \\u202e")
    'red: ⟨ESC⟩[31m, end⟨DEL⟩, turned ⟨U+202E⟩'
    """
    return _HIDDEN.sub(_spell_out, str(text))


def _spell_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    name = _CONTROLS[code] if code < 0x20 else "DEL" if code == 0x7F else f"U+{code:04X}"
    return f"⟨{name}⟩"


def escape(text: object) -> str:
    """Text for HTML, between tags or in a quoted attribute, with nothing hidden in it."""
    return html.escape(visible(text), quote=True)


def plain(text: object, most: int = 200) -> str:
    """Text for a figure, where plotly would otherwise obey tags; cut to `most` characters."""
    shown = visible(text).replace("\n", " ")
    if len(shown) > most:
        shown = shown[: most - 1] + "…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def number(value: object) -> str:
    """A value for people: four significant digits, a dash where there is none.

    >>> [number(v) for v in (0.123456, 12345678, None, float("nan"), True, "PASS")]
    ['0.1235', '12,345,678', '–', '–', 'yes', 'PASS']
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def line_style(index: int) -> dict[str, str]:
    """Colour, dash and marker of the line with this index; no two of them agree in all."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "dash": DASHES[index % len(DASHES)],
        "symbol": MARKERS[index % len(MARKERS)],
    }


@lru_cache(maxsize=1)
def template() -> go.layout.Template:
    """The plotly template of all figures: see-through, with a thin grid and a legend on top."""
    axis = {
        "showgrid": True,
        "gridcolor": GRID,
        "zerolinecolor": GRID,
        "linecolor": GRID,
        "automargin": True,
        "title": {"standoff": 8},
    }
    return go.layout.Template(
        layout={
            "colorway": list(PALETTE),
            "font": {"family": FONT, "size": 13, "color": TEXT},
            "title": {"x": 0, "xref": "paper", "yref": "container", "y": 0.97, "yanchor": "top"},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "hovermode": "x unified",
            "hoverlabel": {"namelength": -1},
            "margin": {"l": 56, "r": 16, "t": 76, "b": 48},
            "height": 340,
        }
    )


# -- tables -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Data of a figure.

    Attributes:
        columns: headings; the first column heads the rows.
        rows: one value for each column; `None` where there is none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def table_of(figure: go.Figure) -> Table:
    """The data that a figure shows: a row for each x, a column for each trace.

    An error bar becomes two columns more, with its ends. A trace's `meta` names its column
    where its name in the legend would not do. A heat map is its own table. A figure that was
    described with a table of its own has that one.
    """
    own = (figure.layout.meta or {}).get("table")
    if own is not None:
        return Table(own["columns"], own["rows"])
    for trace in figure.data:
        if trace.type == "heatmap":
            rows = [[y, *values] for y, values in zip(trace.y, trace.z, strict=True)]
            return Table(["", *map(html.unescape, trace.x)], rows)
    title = next((axis.title.text for axis in figure.select_xaxes() if axis.title.text), None)
    columns: dict[str, dict[Any, Any]] = {}
    for trace in figure.data:
        if trace.meta == DECORATION:
            continue
        # plotly's names are markup, ours are escaped; the table escapes by itself.
        name = trace.meta or html.unescape(trace.name or "value")
        values = columns.setdefault(name, {})
        values.update(zip(trace.x, trace.y, strict=True))
        if trace.error_y.array is not None:
            bars = trace.error_y
            ends = zip(trace.x, trace.y, bars.arrayminus, bars.array, strict=True)
            for x, y, down, up in ends:
                known = None not in (y, down, up)
                columns.setdefault(f"{name}, low", {})[x] = y - down if known else None
                columns.setdefault(f"{name}, high", {})[x] = y + up if known else None
    places = {x for values in columns.values() for x in values}
    rows = [[x, *(values.get(x) for values in columns.values())] for x in sorted(places)]
    return Table([html.unescape(title or "x"), *columns], rows)


def spaced(count: int, most: int) -> list[int]:
    """`most` indices out of `count`, evenly spaced, the first and the last among them.

    >>> spaced(10, 4), spaced(3, 4)
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    if most == 1:
        return [count - 1]
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def table_html(table: Table, caption: str, most: int = TABLE_ROWS) -> str:
    """A table as HTML, scrollable by keyboard; of many rows, evenly spaced ones."""
    chosen = spaced(len(table.rows), most)
    if len(chosen) < len(table.rows):
        caption += f" {len(chosen)} of {len(table.rows):,} rows, evenly spaced."
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(number(row[0]))}</th>'
        + "".join(f"<td>{escape(number(value))}</td>" for value in row[1:])
        + "</tr>"
        for row in (table.rows[i] for i in chosen)
    )
    return (
        f'<div class="rlkit-scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


# -- figures with all that belongs to them -------------------------------------------------


def describe(figure: go.Figure, caption: str, alt: str, table: Table | None = None) -> go.Figure:
    """Keeps caption and alternative text with the figure, for `figure_block`.

    `table` is for figures whose drawing is not their data, such as bars that lie on their side.
    """
    meta: dict[str, Any] = {"caption": caption, "alt": alt}
    if table is not None:
        meta["table"] = {"columns": list(table.columns), "rows": [list(r) for r in table.rows]}
    figure.update_layout(meta=meta)
    return figure


def figure_notes(
    figure: go.Figure,
    caption: str | None = None,
    alt: str | None = None,
    table: Table | None = None,
) -> str:
    """Caption, description and data table of a figure as HTML, without the figure.

    For a notebook, where the figure itself is displayed beside it. What is not given is
    taken from the figure.
    """
    caption, alt = _words(figure, caption, alt)
    return (
        f"<p>{escape(caption)}</p>"
        f"<details><summary>Description and data</summary><p>{escape(alt)}</p>"
        f"{_data(figure, table)}</details>"
    )


def figure_block(
    figure: go.Figure,
    caption: str | None = None,
    alt: str | None = None,
    table: Table | None = None,
    *,
    heading: str | None = None,
    plotlyjs: bool = False,
) -> str:
    """A figure as HTML: the drawing with its alternative text, caption and data table.

    Args:
        figure: the figure; `caption`, `alt` and `table` are taken from it when not given.
        caption: what is seen, in plain words.
        alt: what one would say of it to somebody who cannot see it.
        table: the data, to be opened below the caption.
        heading: a tag such as `h3` to put the title in, outside of the drawing.
        plotlyjs: whether to bring plotly.js along (about 5 MB), for a place that has
            none, such as `IPython.display.HTML`. A page that has it, as the report, draws
            what lies in the block's `rlkit-figure-data`. Where a figure is drawn again
            and again, display it as it is, with `figure_notes` below (`show_figure`).

    Raises:
        ValueError: no caption or no alternative text.
    """
    caption, alt = _words(figure, caption, alt)
    top = ""
    if heading:
        top = f"<{heading}>{escape(html.unescape(figure.layout.title.text or ''))}</{heading}>"
        room = 16 if figure.layout.showlegend is False else 52
        figure = go.Figure(figure).update_layout(title=None, margin_t=room)
    drawing, data = "", ""
    if plotlyjs:
        drawing = figure.to_html(full_html=False, include_plotlyjs=True, config=PLOT_CONFIG)
    else:
        body = {"config": PLOT_CONFIG, **figure_data(figure)}
        data = f'<script type="application/json" class="rlkit-figure-data">{embed(body)}</script>'
    height = figure.layout.height or template().layout.height
    return (
        f'<figure class="rlkit-figure">{top}'
        f'<div class="rlkit-plot" role="img" aria-label="{escape(alt)}" '
        f'style="min-height:{height:.0f}px">{drawing}</div>{data}'
        f"<figcaption>{escape(caption)}</figcaption>"
        f"<details><summary>Data of this figure</summary>{_data(figure, table)}</details></figure>"
    )


def show_figure(figure: go.Figure) -> None:
    """Displays a figure in a notebook, and its caption, description and data below it."""
    from IPython.display import HTML, display

    display(figure_bundle(figure), raw=True)
    display(HTML(figure_notes(figure)))


def figure_bundle(figure: go.Figure) -> dict[str, Any]:
    """The figure as data of a display, in the form that this front end draws."""
    import plotly.io as pio

    chosen = pio.renderers.default
    # Colab knows pages only, and loads plotly.js by itself; others were asked for by name.
    if "colab" in chosen or (chosen and "plotly_mimetype" not in chosen):
        return dict(figure._repr_mimebundle_())
    # JupyterLab and VS Code draw the bare data; the page version would be megabytes.
    bundle = pio.renderers["plotly_mimetype"].to_mimebundle(figure.to_dict())
    # Their own renderers follow the window. Plotly's way of it makes the drawing as high as what
    # is around it, which in a notebook is as high as the drawing: nothing.
    bundle[PLOTLY_MIME]["config"] = {**PLOT_CONFIG, "responsive": False}
    return bundle


def figure_data(figure: go.Figure) -> dict[str, Any]:
    """Traces and layout as plain data, numbers cut to six significant digits."""
    body = json.loads(figure.to_json())
    body["layout"].pop("meta", None)
    return rounded(body)


def rounded(value: Any) -> Any:
    """Floats with six significant digits and holes where they are not finite, all the way down."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return value


def embed(value: Any) -> str:
    """JSON that may stand in a `<script>` element: nothing in it can end or open a tag.

    >>> embed("</script>\\u2028")
    '"\\\\u003c/script\\\\u003e\\\\u2028"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _words(figure: go.Figure, caption: str | None, alt: str | None) -> tuple[str, str]:
    own = figure.layout.meta or {}
    caption, alt = caption or own.get("caption"), alt or own.get("alt")
    if not caption or not alt:
        raise ValueError("a figure needs a caption and an alternative text; give both")
    return caption, alt


def _data(figure: go.Figure, table: Table | None) -> str:
    return table_html(table_of(figure) if table is None else table, "Data of this figure.")
