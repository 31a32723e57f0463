"""Runs a notebook from top to bottom in a kernel of its own, with the network cut off.

`execute` starts this module as another process (inside a network namespace, where there are
any), which drives the kernel by nbclient and hands back the executed notebook with what was
measured: seconds of each cell, and the most memory that one process took. The lesson's progress
file lands in a scratch folder, and so does everything that the lesson writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons.building.build import joined
from rlkit.lessons.building.network import (
    Cut,
    available_cut,
    command_prefix,
    raise_loopback,
)

#: Seconds that one cell may take.
CELL_SECONDS = 600
_GUARD = "from rlkit.lessons.building.network import guard\n\nguard()"


@dataclass(frozen=True)
class Failure:
    """A cell that raised: its number in the notebook, the error in one line, and its traceback."""

    cell: int
    error: str
    traceback: str = ""


@dataclass(frozen=True)
class Execution:
    """What running a notebook gave.

    Attributes:
        notebook: the executed notebook, as JSON objects; cells after a failure have no outputs.
        seconds: wall time from the first cell to the last, without the kernel's start.
        cell_seconds: the same for each cell; `None` for cells that did not run.
        peak_memory_mb: the most that one process of the lesson took; `None` where unknown.
        failures: cells that raised; more than one only with `go_on`.
        network: how the network was cut off, `namespace` or `guard`.
    """

    notebook: dict[str, Any]
    seconds: float
    cell_seconds: list[float | None]
    peak_memory_mb: float | None
    failures: list[Failure]
    network: Cut

    @property
    def slowest(self) -> tuple[int, float] | None:
        """Number and seconds of the cell that took longest."""
        ran = [(s, n) for n, s in enumerate(self.cell_seconds, start=1) if s is not None]
        return (max(ran)[1], max(ran)[0]) if ran else None


@dataclass
class _Measured:
    """What the child process hands back beside the notebook."""

    seconds: float = 0.0
    cell_seconds: list[float | None] = field(default_factory=list)
    peak_memory_mb: float | None = None
    failures: list[Failure] = field(default_factory=list)


def execute(
    text: str,
    *,
    mode: str = "fast",
    go_on: bool = False,
    cut: Cut | None = None,
    environment: dict[str, str] | None = None,
) -> Execution:
    """Runs a notebook, given as the text of its file.

    Args:
        mode: `fast` or `full`, handed on as `RLKIT_MODE`.
        go_on: run the cells after one that raised, too.
        cut: how to cut the network off; the best way that there is when None.
        environment: further environment variables for the kernel.

    Raises:
        UserError: the kernel could not be started, or nbclient is missing.
    """
    cut = cut or available_cut()
    with tempfile.TemporaryDirectory(prefix="rlkit-lesson-") as scratch:
        folder = Path(scratch)
        (folder / "work").mkdir()
        order = {"text": text, "go_on": go_on, "cut": cut}
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
        finished = subprocess.run(
            [*command_prefix(cut), sys.executable, "-m", __name__, scratch],
            env={
                **os.environ,
                "RLKIT_MODE": mode,
                "RLKIT_HEADLESS": "1",
                "RLKIT_HOME": str(folder / "home"),
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        answer = folder / "answer.json"
        if finished.returncode != 0 or not answer.exists():
            last = (finished.stderr.strip() or "nothing was said").splitlines()[-1]
            raise UserError(f"the notebook could not be run: {last}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    found["failures"] = [Failure(**failure) for failure in found["failures"]]
    return Execution(network=cut, **found)


def text_of(cell: dict[str, Any]) -> str:
    """All that a cell printed or showed, as plain text."""
    parts = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            parts.append(joined(output["text"]))
        elif "data" in output and "text/plain" in output["data"]:
            parts.append(joined(output["data"]["text/plain"]))
    return "\n".join(parts)


# -- the child process ---------------------------------------------------------------------


def _drive(folder: Path) -> None:
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    guarded = order["cut"] == "guard"
    if not guarded:
        raise_loopback()
    try:
        import nbclient
        import nbformat
    except ImportError as error:
        raise SystemExit('notebooks are run by nbclient: pip install "rlkit[lab]"') from error

    notebook = nbformat.reads(order["text"], as_version=4)
    if guarded:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(_GUARD))
    cells = len(notebook.cells)
    started: dict[int, float] = {}
    ended: dict[int, float] = {}

    def begin(cell: Any, cell_index: int) -> None:
        started[cell_index] = time.perf_counter()

    def finish(cell: Any, cell_index: int, execute_reply: Any) -> None:
        ended[cell_index] = time.perf_counter()

    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        allow_errors=order["go_on"],
        record_timing=False,
        on_cell_execute=begin,
        on_cell_executed=finish,
        resources={"metadata": {"path": str(folder / "work")}},
    )
    late = ""
    try:
        client.execute()
    except nbclient.exceptions.CellTimeoutError:
        late = f"TimeoutError: took more than {CELL_SECONDS} seconds"
    except nbclient.exceptions.CellExecutionError:
        late = ""  # the cell's own output says it, see _failures
    except nbclient.exceptions.DeadKernelError:
        late = "DeadKernelError: the kernel died; was there too little memory?"

    measured = _Measured(
        cell_seconds=[ended[i] - started[i] if i in ended else None for i in range(cells)],
        peak_memory_mb=_peak_memory_mb(),
        failures=_failures(notebook.cells),
    )
    if late:
        measured.failures.append(Failure(max(started) + 1, late))
    if guarded:
        del notebook.cells[0]
        del measured.cell_seconds[0]
        measured.failures = [Failure(f.cell - 1, f.error, f.traceback) for f in measured.failures]
    measured.seconds = sum(s for s in measured.cell_seconds if s is not None)
    answer = {"notebook": notebook, **asdict(measured)}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _failures(cells: list[Any]) -> list[Failure]:
    return [
        Failure(number, f"{output.ename}: {output.evalue}", "\n".join(output.traceback))
        for number, cell in enumerate(cells, start=1)
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]


def _peak_memory_mb() -> float | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


if __name__ == "__main__":
    _drive(Path(sys.argv[1]))
