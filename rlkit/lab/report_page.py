"""ReportPage: the reports of a folder's runs as one page, for Voila or a notebook cell.

    from rlkit.lab import ReportPage
    ReportPage()

It opens with the newest run; another one is chosen from a list, and "Read again" brings a run
up to date that is still going on. The report itself is the page that `rlkit report` writes, in a
frame that may run the page's own two scripts and reach nothing around it, since it holds text
that a model wrote.

Left out on purpose: anything that changes a run, because Voila shows the page to visitors.
"""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.frontend import headless

#: Of so many runs, the newest, is one chosen.
MOST_RUNS = 50


def find_runs(folder: str | Path | None = None) -> list[Path]:
    """The run directories in a folder, the newest first.

    Args:
        folder: where to look. Without it, `RLKIT_RUNS`, or the first `runs` that is found here
            or in a folder above.

    Raises:
        UserError: there is no such folder, or no run in it.
    """
    chosen = folder or os.environ.get("RLKIT_RUNS")
    if chosen is None:
        here = Path.cwd().resolve()
        places = [place / "runs" for place in (here, *here.parents)]
        found = next((place for place in places if place.is_dir()), None)
        if found is None:
            raise UserError(
                "there is no folder `runs` here or above; make a run with `rlkit demo`, or name "
                "the folder of your runs in RLKIT_RUNS"
            )
    else:
        found = Path(chosen)
        if not found.is_dir():
            raise UserError(f"there is no folder {str(chosen)!r}; name the one that holds runs")
    runs = [path.parent for path in found.glob("*/config.json")]
    if not runs:
        raise UserError(f"there is no run in {str(found)!r}; make one with `rlkit demo`")
    return sorted(runs, key=lambda run: (_last_change(run), run.name), reverse=True)


class ReportPage:
    """The report of one of a folder's runs, the newest at first. Make it a cell's last line.

    Args:
        folder: the folder that holds the runs; see `find_runs`.

    Attributes:
        runs: the run directories that can be chosen, the newest first.
        run: the one that is shown.

    Raises:
        UserError: there is no such folder, or no run in it.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.runs = find_runs(folder)[:MOST_RUNS]
        self.run = self.runs[0]
        self._box: Any = None

    def show(self, run: Path) -> None:
        """Shows another run, or the same one as it is now.

        Raises:
            UserError: the run cannot be read.
        """
        page = self.html(run)
        self.run = run
        if self._box is not None:
            self._frame.value = page

    def html(self, run: Path | None = None) -> str:
        """A run's report in a frame; of the run that is shown when none is given."""
        from rlkit.lab.report import report_html
        from rlkit.loop.run import Run

        run = self.run if run is None else run
        page = html.escape(report_html(Run.open(run)), quote=True)
        return (
            f'<iframe title="Report of the run {html.escape(run.name)}" sandbox="allow-scripts" '
            f'srcdoc="{page}" style="display:block;width:100%;height:92vh;border:0;'
            'background:transparent"></iframe>'
        )

    def __str__(self) -> str:
        return f"Report of {self.run.name}, the newest of {len(self.runs)} runs"

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if headless():
            return {"text/plain": str(self)}
        if self._box is None:
            self._box = self._widgets()
        return {**self._box._repr_mimebundle_(), "text/plain": str(self)}

    def _widgets(self) -> Any:
        import ipywidgets as w

        choice = w.Dropdown(
            options=[(run.name, run) for run in self.runs],
            value=self.run,
            description="Run:",
            tooltip="Which run is shown, the newest first",
            layout=w.Layout(width="420px", max_width="100%"),
        )
        again = w.Button(description="Read again", tooltip="Bring the page up to date")
        self._said = w.HTML()
        self._frame = w.HTML(self.html(), layout=w.Layout(width="auto"))

        def act(_: Any) -> None:
            try:
                self.show(choice.value)
                self._said.value = ""
            except UserError as error:
                said = html.escape(str(error))
                self._said.value = f'<div role="alert">⚠ {said}</div>'

        choice.observe(act, "value")
        again.on_click(act)
        bar = w.HBox([choice, again, self._said], layout=w.Layout(flex_flow="wrap"))
        return w.VBox([bar, self._frame])


def _last_change(run: Path) -> float:
    """When something was last written into a run."""
    files = [run / name for name in ("metrics.jsonl", "events.jsonl", "config.json")]
    return max(file.stat().st_mtime for file in files if file.exists())
