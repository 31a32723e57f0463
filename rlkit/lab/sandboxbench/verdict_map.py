"""A map of verdicts: one row for each completion, one column for each test.

A cell has a letter and a colour (`marks`), so that a group can be read at a glance: which
tests everybody fails, which programs are right in part, which were stopped. Beside each row
stands its reward, the share of its tests that passed.

Left out on purpose: sorting. Rows stay in the order in which the verdicts came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.sandboxbench.marks import MARKS, legend
from rlkit.lab.theme import (
    Table,
    describe,
    figure_bundle,
    figure_notes,
    number,
    plain,
    spaced,
    template,
    visible,
)
from rlkit.sandbox.types import Status, Verdict

#: Of more rows or columns, evenly spaced ones are drawn; the caption says so.
MOST_ROWS, MOST_COLUMNS = 64, 40
_ORDER = tuple(MARKS)


class VerdictMap:
    """Completions and tests as a map. Make it the last line of a cell to see it.

    Attributes:
        rows: a name for each verdict.
        columns: a name for each test.
        statuses: for each verdict the status of each test.
        rewards: for each verdict; None where there is no verdict.
        figure: the map, with caption, description and data.
    """

    def __init__(
        self,
        verdicts: Sequence[Verdict],
        rows: Sequence[str],
        columns: Sequence[str],
        title: str,
        kind: str = "completion",
    ) -> None:
        self.rows, self.columns = list(rows), list(columns)
        self.title, self.kind = title, kind
        self.statuses = [[test.status for test in verdict.tests] for verdict in verdicts]
        self.rewards = [verdict.reward for verdict in verdicts]
        self._messages = [[test.message for test in verdict.tests] for verdict in verdicts]
        self.figure = self._drawn()

    def table(self) -> Table:
        """The letters as a table, with the reward in the last column."""
        body = [
            [name, *(MARKS[status].letter for status in statuses), _reward(reward)]
            for name, statuses, reward in zip(self.rows, self.statuses, self.rewards, strict=True)
        ]
        return Table(["", *self.columns, "reward"], body)

    def __str__(self) -> str:
        table = self.table()
        width = max(len(visible(row[0])) for row in table.rows)
        lines = [f"{self.title}. {legend(s for row in self.statuses for s in row)}."]
        # The columns go by number: a test's name may be as long as a line.
        heads = [str(n + 1) for n in range(len(self.columns))]
        wide = len(heads[-1])
        lines.append(f"{'':<{width}}  {' '.join(h.rjust(wide) for h in heads)}  reward")
        for row in table.rows:
            cells = " ".join(str(cell).rjust(wide) for cell in row[1:-1])
            lines.append(f"{visible(row[0]):<{width}}  {cells}  {row[-1]}")
        lines += [f"{n + 1}: {visible(name)}" for n, name in enumerate(self.columns)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**figure_bundle(self.figure), "text/plain": str(self)}

    def _ipython_display_(self) -> None:
        """The figure, and its caption, description and data below it."""
        from IPython.display import HTML, display

        display(self._repr_mimebundle_(), raw=True)
        display(HTML(figure_notes(self.figure)))

    def _drawn(self) -> go.Figure:
        shown = spaced(len(self.rows), MOST_ROWS)
        tests = spaced(len(self.columns), MOST_COLUMNS)
        names = _told_apart([self.rows[i] for i in shown], shown)
        heads = _told_apart([self.columns[i] for i in tests], tests)
        codes = [[_ORDER.index(self.statuses[i][j]) for j in tests] for i in shown]
        marks = [[MARKS[self.statuses[i][j]] for j in tests] for i in shown]
        told = [
            [
                plain(f"{self.rows[i]}, {self.columns[j]}: {m.word}. {self._messages[i][j]}")
                for j, m in zip(tests, row, strict=True)
            ]
            for i, row in zip(shown, marks, strict=True)
        ]
        figure = go.Figure(layout={"template": template()})
        figure.add_heatmap(
            x=heads,
            y=names,
            z=codes,
            zmin=-0.5,
            zmax=len(_ORDER) - 0.5,
            colorscale=_colours(),
            showscale=False,
            text=[[f"<b>{mark.letter}</b>" for mark in row] for row in marks],
            texttemplate="%{text}",
            # On a telephone a cell of many columns is as wide as one letter.
            textfont={"size": 15 if len(tests) <= 5 else 11, "color": "#FFFFFF"},
            hovertext=told,
            hoverinfo="text",
            xgap=3 if len(tests) <= 5 else 1,
            ygap=3,
        )
        for name, i in zip(names, shown, strict=True):
            figure.add_annotation(
                text=_reward(self.rewards[i]),
                x=1.01,
                xref="paper",
                xanchor="left",
                y=name,
                showarrow=False,
            )
        figure.add_annotation(
            text="reward", x=1.01, xref="paper", xanchor="left", y=1, yref="paper",
            yanchor="bottom", showarrow=False,
        )  # fmt: skip
        figure.update_layout(
            title={"text": plain(self.title), "xref": "container", "x": 0.02},
            height=150 + 28 * max(len(shown), 2),
            hovermode="closest",
            margin={"l": 8, "r": 64, "t": 64, "b": 8},
        )
        figure.update_xaxes(title_text="test", side="bottom", tickangle=-35, showgrid=False)
        figure.update_yaxes(title_text=self.kind, autorange="reversed", showgrid=False)
        used = [self.statuses[i][j] for i in shown for j in tests]
        caption = (
            f"One row a completion, one column a test: {legend(used)}. On the right the reward."
        )
        if len(shown) < len(self.rows) or len(tests) < len(self.columns):
            caption += (
                f" Drawn are {len(shown)} of {len(self.rows)} rows and {len(tests)} of "
                f"{len(self.columns)} columns, evenly spaced; the table has all."
            )
        return describe(figure, caption, self._told(), self.table())

    def _told(self) -> str:
        counted = [row.count(Status.PASS) for row in self.statuses]
        full = sum(n == len(self.columns) for n in counted)
        none = sum(n == 0 for n in counted)
        by_test = [
            sum(row[j] is Status.PASS for row in self.statuses) for j in range(len(self.columns))
        ]
        hardest = min(range(len(by_test)), key=by_test.__getitem__)
        return (
            f"Map of {len(self.rows)} {self.kind}s and {len(self.columns)} tests. {full} pass all "
            f"tests, {none} pass none, {len(self.rows) - full - none} pass some. Passed least "
            f"often: {visible(self.columns[hardest])}, by {by_test[hardest]}."
        )


def verdict_map(
    verdicts: Sequence[Verdict],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str = "Completions and tests",
    kind: str = "completion",
) -> VerdictMap:
    """A map of verdicts of one problem: a row for each completion, a column for each test.

    Args:
        verdicts: at least one; all with the same number of tests.
        rows: a name for each; `completion 1`, ... when not given.
        columns: a name for each test; the tests' own when not given.
        title: of the figure.
        kind: what a row is, in one word.

    Raises:
        UserError: no verdicts, verdicts of different problems, or too few names.

    >>> from rlkit.sandbox.types import TestResult
    >>> def one(*statuses):
    ...     tests = tuple(TestResult(f"t{i}", s) for i, s in enumerate(statuses))
    ...     passed = statuses.count(Status.PASS)
    ...     return Verdict(statuses[0], tests, passed, len(tests), passed / len(tests))
    >>> print(verdict_map([one(Status.PASS, Status.PASS), one(Status.PASS, Status.TIMEOUT)]))
    Completions and tests. ✓ passed, T stopped by the clock.
                  1 2  reward
    completion 1  ✓ ✓  1
    completion 2  ✓ T  0.5
    1: t0
    2: t1
    """
    verdicts = list(verdicts)
    if not verdicts or not all(isinstance(verdict, Verdict) for verdict in verdicts):
        raise UserError("a map needs a list of verdicts, such as Sandbox.run_many gives")
    counts = {len(verdict.tests) for verdict in verdicts}
    if len(counts) > 1:
        raise UserError(
            f"these verdicts have {', '.join(map(str, sorted(counts)))} tests; a map is of one "
            "problem, whose completions all have the same tests"
        )
    if rows is None:
        rows = [f"{kind} {n + 1}" for n in range(len(verdicts))]
    if columns is None:
        columns = [test.name for test in verdicts[0].tests]
    for what, names, wanted in (
        ("rows", rows, len(verdicts)),
        ("columns", columns, counts.pop()),
    ):
        if len(names) != wanted:
            raise UserError(f"{what} has {len(names)} names; there are {wanted}")
    return VerdictMap(verdicts, rows, columns, title, kind)


def _colours() -> list[list[Any]]:
    """A scale of steps, one for each status."""
    share = 1 / len(_ORDER)
    steps: list[list[Any]] = []
    for place, status in enumerate(_ORDER):
        colour = MARKS[status].colour
        steps += [[place * share, colour], [min(1.0, (place + 1) * share), colour]]
    return steps


def _told_apart(names: Sequence[str], places: Sequence[int], most: int = 18) -> list[str]:
    """Short names, with a number in front where two of them would be the same."""
    short = [plain(name, most) for name in names]
    if len(set(short)) == len(short):
        return short
    return [f"{place + 1}. {name}" for place, name in zip(places, short, strict=True)]


def _reward(value: float | None) -> str:
    return "none" if value is None else number(round(value, 3))
