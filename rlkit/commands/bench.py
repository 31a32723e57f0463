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


@app.command()
def objectives(
    objective: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="all eight")
    ] = None,
    seeds: Annotated[int, typer.Option(help="So many seeds, from 0.")] = 3,
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 40,
    domain: Annotated[str, typer.Option(help="What is trained on.")] = "pyfunc",
    inner_epochs: Annotated[int, typer.Option(help="Optimizer steps on each batch.")] = 2,
    learning_rate: Annotated[float, typer.Option(help="The same for all.")] = 1e-3,
    held_out: Annotated[int, typer.Option(help="Held-out problems of each evaluation.")] = 128,
    out: Annotated[
        Path | None, typer.Option(help="Folder that keeps finished runs, and goes on with them.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw the curves into this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """The objectives side by side on one task: same seeds, same batches, same steps."""
    from rlkit.bench import objectives as bench
    from rlkit.bench.svg import write_svg

    found = bench.measure(
        objective or bench.NAMES,
        range(seeds),
        bench.Setting(
            domain=domain,
            steps=steps,
            inner_epochs=inner_epochs,
            learning_rate=learning_rate,
            held_out=held_out,
        ),
        out=out,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    write_svg(svg, lambda: bench.svg(found))
    print(json.dumps(found) if as_json else bench.markdown(found))


@app.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, alike but for the seed.")],
    svg: Annotated[Path | None, typer.Option(help="Also draw the curves into this file.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Runs that are done, seed beside seed: a table, and the curves."""
    from rlkit.bench import curves as bench
    from rlkit.bench.svg import write_svg

    found = bench.read(runs)
    write_svg(svg, lambda: bench.svg(found))
    print(json.dumps(found) if as_json else bench.markdown(found))


@app.command()
def trainability(
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 40,
    out: Annotated[
        Path | None, typer.Option(help="Folder that keeps finished runs, and goes on with them.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """What trainability says of twelve settings, against what happens when they are trained."""
    from rlkit.bench.trainability import markdown, measure

    if steps < 5:
        raise UserError(f"steps must be at least 5, not {steps}: the first five are compared")
    rows = measure(steps=steps, out=out, say=lambda text: print(text, file=sys.stderr, flush=True))
    print(json.dumps({"rows": rows}) if as_json else markdown(rows))


@app.command()
def sandbox(
    rounds: Annotated[int, typer.Option(help="How often it goes round all contestants.")] = 20,
    calls: Annotated[int, typer.Option(help="Calls of each in each round.")] = 20,
    workers: Annotated[
        list[int] | None,
        typer.Option(help="Jobs at a time; may be repeated.", show_default="1 2 4"),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Name of a contestant; may be repeated.")
    ] = None,
    caller: Annotated[
        str, typer.Option(help="training: the calling process has torch loaded; light: nothing.")
    ] = "training",
    soak: Annotated[int, typer.Option(help="Jobs in a row; 0 leaves it out.")] = 2000,
    training: Annotated[
        int, typer.Option(help="Groups scored beside a training thread; 0 leaves it out.")
    ] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """What one job in the sandbox costs, beside others; many jobs in a row; beside training."""
    from rlkit.bench import sandbox as bench
    from rlkit.bench.sandbox_endurance import beside_training
    from rlkit.bench.sandbox_endurance import soak as soak_it

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    found = bench.measure(rounds, calls, workers or (1, 2, 4), only or (), caller, say)
    found["batch"] = bench.batch(say=say)
    if soak:
        found["soak"] = soak_it(soak, say=say)
    if training:
        found["training"] = beside_training(training, say=say)
    print(json.dumps(found) if as_json else bench.page(found))


@app.command("rollout-func")
def rollout_func(
    policy: Annotated[str, typer.Option(help="smol, tiny, a folder, or a hub id.")] = "smol",
    pairs: Annotated[int, typer.Option(help="Measured steps of each generator.")] = 5,
    problems: Annotated[int, typer.Option(help="Problems a step.")] = 4,
    group_size: Annotated[int, typer.Option(help="Answers a problem.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(help="Budget of an answer.")] = 64,
    plain: Annotated[bool, typer.Option("--plain", help="No four-bit weights.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """TRL's step with our shared-prefix generator and with its own, in turns."""
    from rlkit.bench.rollout_func import measure

    found = measure(
        policy,
        pairs=pairs,
        problems=problems,
        group_size=group_size,
        max_new_tokens=max_new_tokens,
        quantize=None if plain else "nf4",
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    print(json.dumps(found.to_dict()) if as_json else found.table())


from rlkit.commands.bench_policy import add_to  # noqa: E402

add_to(app)
