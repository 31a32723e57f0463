"""`rlkit replay RUN`: the update that each objective would make of one stored batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def replay(
    run: Annotated[Path, typer.Argument(help="Run directory; it is only read.")],
    step: Annotated[
        int | None, typer.Option(help="Step whose batch is replayed.", show_default="the last")
    ] = None,
    objectives: Annotated[
        str, typer.Option(help="Presets, separated by commas.")
    ] = "grpo,drgrpo,dapo,gspo,cispo,rloo,reinforce,ppo",
    ahead: Annotated[
        int, typer.Option(help="Steps of GRPO on the batch first, so that clips can act.")
    ] = 0,
    held_out: Annotated[
        int, typer.Option(help="Held-out problems a domain before and after; 0: none.")
    ] = 64,
    samples: Annotated[int, typer.Option(help="Samples a held-out problem.")] = 4,
    html: Annotated[Path | None, typer.Option(help="Also write a page, tokens coloured.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """What each objective would make of one batch: weights, gradients, one step's effect."""
    from rlkit.errors import UserError

    if html is not None and (html.is_dir() or not html.absolute().parent.is_dir()):
        raise UserError(f"{str(html)!r} cannot be written: name a file in a folder that is there")
    from rlkit.loop.replay import replay as make

    found = make(
        run,
        step,
        [name.strip() for name in objectives.split(",") if name.strip()],
        ahead=ahead,
        held_out=held_out,
        samples=samples,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if html is not None:
        from rlkit.lab.replay_page import write_replay

        write_replay(found, html)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    for sentence in found.sentences():
        print(sentence)
    _print(found)
    if html is not None:
        print(f"page: {html}")


def _print(found: Any) -> None:
    """A row for each number and a column for each objective, which fits a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    rows = found.table()
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(row["objective"], justify="right", overflow="fold")
    for head in list(rows[0])[1:]:
        values = [row[head] for row in rows]
        if all(value is None for value in values):
            continue
        table.add_row(head, *("–" if value is None else f"{value:.2g}" for value in values))
    Console().print(table)
