"""`rlkit bench`: measurements beside others, written down where the docs show them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rlkit.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Measure rlkit beside others, in one run.")


@app.callback()
def bench() -> None:
    """Measure rlkit beside others, in one run."""


@app.command()
def accuracy(
    rows: Annotated[
        Path | None,
        typer.Option(help="File of cases.", show_default="the checkout's tests/cases"),
    ] = None,
    grader: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="all")
    ] = None,
    limit: Annotated[float, typer.Option(help="Seconds after which a call counts as hung.")] = 10.0,
    write: Annotated[Path | None, typer.Option(help="Also write the page to this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Graders of maths answers on the same cases: ours, math-verify, TRL's accuracy_reward."""
    from rlkit.bench.accuracy import GRADERS, load_rows, markdown, measure

    if limit <= 0:
        raise UserError(f"the limit must be above 0 seconds, not {limit}")
    found = measure(
        load_rows(rows),
        grader or tuple(GRADERS),
        limit_s=limit,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    page = markdown(found)
    if write is not None:
        try:
            write.write_text(page, encoding="utf-8")
        except OSError as error:
            raise UserError(f"the page cannot be written to {str(write)!r}: {error}") from None
    print(json.dumps(found.to_dict()) if as_json else page)


@app.command()
def rewards(
    count: Annotated[int, typer.Option(help="Code completions to score.")] = 2000,
    repeats: Annotated[int, typer.Option(help="How often each re-scoring is measured.")] = 5,
    workers: Annotated[
        int | None, typer.Option(help="Programs at a time.", show_default="the processors")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """How long it takes to score the stored completions again: text; code, fresh and cached."""
    from rlkit.bench.rewards import measure
    from rlkit.lab.stored import stored_rollouts
    from rlkit.rewards import countdown_answer, exact_answer, format_reward

    if count < 1 or repeats < 1:
        raise UserError(f"count and repeats must be 1 or more, not {count} and {repeats}")
    stored = stored_rollouts()
    columns = dict(zip(stored.domains, (call for _, call in stored.calls), strict=True))
    judges = {"arith": exact_answer, "sort": exact_answer, "countdown": countdown_answer}
    found = measure(
        [(0.9 * judge + 0.1 * format_reward, columns[name]) for name, judge in judges.items()]
        # The text of programs is judged by its form alone; running them is measured apart.
        + [(format_reward, columns["pyfunc"])],
        columns["pyfunc"],
        count,
        repeats,
        workers,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if as_json:
        print(json.dumps(found))
        return
    for timing in found["timings"]:
        known = "" if timing["hits"] is None else f", {timing['hits']:,} known to the cache"
        print(
            f"{timing['name']}: {timing['completions']:,} completions "
            f"({timing['different']:,} different{known}) in {timing['median_ms']:,.0f} ms "
            f"(worst of {timing['repeats']}: {timing['worst_ms']:,.0f} ms)"
        )
    print(f"{found['workers']} programs at a time on {found['processors']} processors")
