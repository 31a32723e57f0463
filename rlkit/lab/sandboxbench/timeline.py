"""The timeline of a verdict: waiting, compiling, starting, loading, each test, the end.

Everything is taken from the verdict. What it does not hold is worked out by subtraction, and
the caption says so: the time of the program outside of its tests is its loading (and, where
there are many tests, what lies between them), and the rest of what the caller waited is
starting and clearing away.

Left out on purpose: when each test began. The program's own clock tells how long a call took,
and a program may lie about that; the judge never uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from rlkit.lab.sandboxbench.marks import MARKS
from rlkit.lab.theme import PALETTE, Table, bar_pattern, describe, number, plain, template
from rlkit.sandbox.types import Status, Verdict

#: So many tests have a bar of their own; the others share the last one.
MOST_TESTS = 12
_GREY = PALETTE[4]


@dataclass(frozen=True)
class Phase:
    """One stretch of time.

    Attributes:
        name: for people.
        start_s: seconds from when it was asked for.
        seconds: how long it took.
        status: how the test ended; None for what is no test.
        measured: whether the number was measured, and not worked out.
    """

    name: str
    start_s: float
    seconds: float
    status: Status | None = None
    measured: bool = True


def phases(verdict: Verdict, total_s: float | None = None) -> list[Phase]:
    """What happened, one after the other.

    Args:
        verdict: of any job.
        total_s: seconds that the caller waited, if known.

    >>> from rlkit.sandbox.types import TestResult
    >>> tests = (TestResult("one", Status.PASS, 0.2), TestResult("two", Status.TIMEOUT))
    >>> made = phases(Verdict(Status.TIMEOUT, tests, 1, 2, 0.5, wall_s=1.0, queue_s=0.1))
    >>> [(phase.name, round(phase.seconds, 3)) for phase in made]
    [('waits for a worker', 0.1), ('one', 0.2), ('two', 0.8)]
    """
    found: list[Phase] = []

    def add(name: str, seconds: float, status: Status | None = None, measured: bool = True) -> None:
        start = found[-1].start_s + found[-1].seconds if found else 0.0
        found.append(Phase(name, start, seconds, status, measured))

    if verdict.queue_s is not None:
        add("waits for a worker", verdict.queue_s)
    compiled = verdict.compile
    if compiled is not None and compiled.seconds is not None and not compiled.cached:
        add("compiles", compiled.seconds)
    inside = verdict.wall_s
    if inside is None:
        return found
    known = sum(phase.seconds for phase in found) + inside
    if total_s is not None and total_s > known:
        add("starts and clears away", total_s - known, measured=False)
    timed = [test for test in verdict.tests if test.seconds is not None]
    rest = max(0.0, inside - sum(test.seconds for test in timed))
    stopped = next((t for t in verdict.tests if t.seconds is None), None)
    # Where a limit ended a test, what is left over belongs to that one.
    ended_in = stopped if stopped is not None and timed else None
    if ended_in is None and rest:
        whole = stopped is not None
        add("runs until it ends" if whole else "loads", rest, verdict.status if whole else None,
            measured=whole)  # fmt: skip
    for test in verdict.tests:
        if test.seconds is not None:
            add(test.name, test.seconds, test.status)
        elif test is ended_in:
            add(test.name, rest, test.status, measured=False)
    return found


def timeline_figure(verdict: Verdict, total_s: float | None = None) -> go.Figure:
    """The phases as bars that lie one behind the other, in milliseconds."""
    made = _folded(phases(verdict, total_s))
    figure = go.Figure(layout={"template": template()})
    end_ms = 1000 * max((p.start_s + p.seconds for p in made), default=0.0)
    figure.update_layout(
        title={"text": "Timeline", "xref": "container", "x": 0.02},
        showlegend=False,
        height=120 + 42 * max(len(made), 2),
        hovermode="closest",
        margin={"l": 32, "r": 8, "t": 40, "b": 48},
    )
    figure.update_xaxes(title_text="time (ms)", range=[0, 1.02 * end_ms], nticks=5, tickangle=0)
    # The names stand above their bars, where there is room for them on a small screen, too.
    figure.update_yaxes(
        title_text="phase", range=[len(made) - 0.4, -0.75], showticklabels=False, showgrid=False
    )
    for place, phase in enumerate(made):
        mark = None if phase.status is None else MARKS[phase.status]
        letter = "" if mark is None else f"{mark.letter} "
        figure.add_bar(
            orientation="h",
            y=[place],
            x=[1000 * phase.seconds],
            base=[1000 * phase.start_s],
            width=0.4,
            hovertext=plain(_told(phase)),
            hoverinfo="text",
            marker={
                "color": _GREY if mark is None else mark.colour,
                "pattern": bar_pattern("" if mark is None else mark.pattern),
                "line": {"width": 1.5, "color": _GREY if mark is None else mark.colour},
            },
        )
        figure.add_annotation(
            text=f"{letter}{plain(phase.name, 24)}: {milliseconds(phase.seconds)}",
            x=0,
            xref="paper",
            xanchor="left",
            y=place - 0.42,
            showarrow=False,
        )
    caption = "Where the time went, from the question to the verdict."
    guessed = [phase.name for phase in made if not phase.measured]
    if guessed:
        caption += f" Worked out from the other times, not measured: {', '.join(guessed)}."
    if verdict.cached:
        caption += " It is the timeline of the run whose verdict was kept."
    rows = [
        [p.name, 1000 * p.start_s, 1000 * p.seconds, "" if p.status is None else str(p.status)]
        for p in made
    ]
    alt = "Timeline with no phase: the job never ran."
    if made:
        alt = f"Timeline over {number(end_ms)} ms. {'; '.join(map(_told, made))}."
    else:
        figure.add_annotation(
            text="it never ran", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False
        )
    table = Table(["phase", "begins (ms)", "lasts (ms)", "status"], rows)
    return describe(figure, caption, alt, table)


def verdict_timeline(verdict: Verdict, total_s: float | None = None) -> go.Figure:
    """The timeline of a verdict as a figure; show it with `rlkit.lab.show_figure`.

    Args:
        verdict: of any job.
        total_s: seconds that you waited for it, if you measured that.

    >>> from rlkit.sandbox.types import TestResult
    >>> passed = (TestResult("t", Status.PASS, 0.001),)
    >>> figure = verdict_timeline(Verdict(Status.PASS, passed, 1, 1, 1.0, wall_s=0.002))
    >>> figure.layout.meta["alt"]
    'Timeline over 2 ms. loads takes 1 ms; t takes 1 ms, passed.'
    """
    return timeline_figure(verdict, total_s)


def milliseconds(seconds: float) -> str:
    """A time for people.

    >>> milliseconds(0.0000021), milliseconds(0.0042), milliseconds(1.5)
    ('2 µs', '4.2 ms', '1.50 s')
    """
    if seconds < 0.000_000_5:
        return "< 1 µs"
    if seconds < 0.001:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def _told(phase: Phase) -> str:
    ended = "" if phase.status is None else f", {MARKS[phase.status].word}"
    return f"{phase.name} takes {milliseconds(phase.seconds)}{ended}"


def _folded(made: list[Phase]) -> list[Phase]:
    """At most `MOST_TESTS` bars of tests; what is beyond them is one bar."""
    tests = [phase for phase in made if phase.status is not None]
    if len(tests) <= MOST_TESTS:
        return made
    kept, rest = tests[: MOST_TESTS - 1], tests[MOST_TESTS - 1 :]
    bad = next((p.status for p in rest if p.status is not Status.PASS), Status.PASS)
    seconds = sum(phase.seconds for phase in rest)
    others = [phase for phase in made if phase.status is None]
    return [*others, *kept, Phase(f"{len(rest)} more tests", rest[0].start_s, seconds, bad)]
