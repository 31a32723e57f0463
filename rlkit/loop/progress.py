"""A progress bar for long jobs, and the seconds that each stage of a step takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rlkit.monitor import StepRecord


@contextmanager
def progress_bar(done: int, total: int, *, enabled: bool) -> Iterator[Callable[[StepRecord], None]]:
    """Shows steps, reward and pass rate; gives a function to call after each step.

    It writes to standard error, so that standard output stays a program's own.
    """
    if not enabled or total <= done:
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total, completed=done, numbers="")

        def show(record: StepRecord) -> None:
            shown = (("reward", "reward"), ("pass rate", "pass_rate"), ("entropy", "entropy"))
            numbers = "  ".join(
                f"{label} {record[name]:.2f}" for label, name in shown if record[name] is not None
            )
            progress.update(task, completed=record.step, numbers=numbers)

        yield show


class Clock:
    """Seconds of each stage of a step."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[f"time/{name}"] = self._laps.get(f"time/{name}", 0.0) + now - self._last
        self._last = now

    def metrics(self) -> dict[str, float]:
        return {"step_time": time.perf_counter() - self._start, **self._laps}
