"""The command line. Every command has `--json`; bad input is one sentence and exit code 2."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rlkit.errors import UserError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Close the post-training loop by hand: policy, sandbox, reward, curriculum, monitor.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main() -> None:
    """Entry point of the console script."""
    _quiet_libraries()
    try:
        app()
    except UserError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _fail("the disk is full; free some space and run the same command again to go on")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Versions, device, memory, precision, isolation; what will run and how long."""
    from rlkit.doctor import doctor as examine

    checkup = examine()
    _show(checkup.to_dict(), as_json, lambda: print(checkup))


@app.command()
def demo(
    policy: Annotated[
        str, typer.Option(help="tiny, smol, a folder with a model, or a hub id.")
    ] = "tiny",
    domain: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="pyfunc")
    ] = None,
    steps: Annotated[int, typer.Option(help="Updates in all.")] = 60,
    seed: Annotated[int, typer.Option(help="Decides everything that is drawn.")] = 0,
    run: Annotated[
        Path | None, typer.Option(help="Run directory; a run that was broken off goes on.")
    ] = None,
    group_size: Annotated[int, typer.Option(help="Rollouts a problem.")] = 8,
    problems: Annotated[int, typer.Option(help="Problems a step.")] = 8,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    weighting: Annotated[str, typer.Option(help="uniform or learnability.")] = "uniform",
    rollouts: Annotated[
        str, typer.Option(help="exact, fast (rounded weights, corrected for), or plain.")
    ] = "exact",
    held_out: Annotated[int, typer.Option(help="Held-out problems of the evaluations.")] = 256,
    check: Annotated[
        bool,
        typer.Option("--check", help="First ask whether it would learn, as trainability does."),
    ] = False,
    force: Annotated[bool, typer.Option(help="Train whatever the check says.")] = False,
    as_json: Json = False,
) -> None:
    """Trains a 4-bit policy with LoRA against the sandbox, and measures before and after."""
    from rlkit.tasks import get_domains

    domains = [d.name for d in get_domains(domain or ["pyfunc"])]
    from rlkit.loop.config import LoopConfig

    rate = {} if learning_rate is None else {"learning_rate": learning_rate}
    config = LoopConfig(
        group_size=group_size, problems_per_step=problems, seed=seed, weighting=weighting, **rate
    )
    if check:
        from rlkit.commands.trainability import refuse
        from rlkit.loop.trainability import trainability as examine

        found = examine(policy, domains, config, steps=steps)
        _say(as_json)(str(found))
        refuse(found, force)
    folder = run or _new_run_folder("-".join(domains), seed)
    from rlkit.lab.report import write_report
    from rlkit.loop.demo import run_demo

    result = run_demo(
        policy=policy,
        domains=domains,
        steps=steps,
        run=folder,
        config=config,
        rollouts=rollouts,
        problems=held_out,
        say=_say(as_json),
        progress=not as_json,
    )
    report_file = write_report(folder)
    found = {**result.to_dict(), "report": str(report_file)}
    _show(found, as_json, lambda: _print_demo(result, report_file))


@app.command("build-tiny")
def build_tiny(
    out: Annotated[Path, typer.Option(help="Folder for weights, tokenizer and card.")],
    seed: Annotated[int, typer.Option(help="Decides data and weights.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Updates; fewer for a trial.")] = None,
    as_json: Json = False,
) -> None:
    """Pretrains the tiny policy on the domains' own generators, and measures it."""
    from rlkit.loop.build_tiny import build

    facts = build(out, seed=seed, steps=steps, progress=not as_json)
    _show(facts, as_json, lambda: print(f"written to {out}\n\n{(out / 'CARD.md').read_text()}"))


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file.")] = None,
    as_json: Json = False,
) -> None:
    """Writes one self-contained HTML page of a run, which opens offline."""
    from rlkit.lab.report import write_report

    file = write_report(run, out)
    _show({"report": str(file)}, as_json, lambda: print(f"report: {file}"))


def _new_run_folder(name: str, seed: int) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = Path("runs") / f"{name}-seed{seed}-{stamp}"
    return folder if not folder.exists() else folder.with_name(f"{folder.name}-{os.getpid()}")


def _print_demo(result: Any, report_file: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="held-out pass@1, with its 95 % interval")
    for heading in ("domain", "before", "after", "problems"):
        table.add_column(heading)
    for name, after in result.after.by_domain.items():
        before = result.before.by_domain[name]
        table.add_row(name, _interval(before), _interval(after), str(after.problems))
    console = Console()
    console.print(table)
    peak = "unknown" if result.peak_memory_mb is None else f"{result.peak_memory_mb:.0f} MB"
    console.print(
        f"{result.steps} steps, {result.tokens:,} tokens sampled, {result.seconds:.0f} s, "
        f"peak memory {peak}; {result.precision}",
        highlight=False,
    )
    print(f"run:    {result.run}\nreport: {report_file}")


def _interval(evaluation: Any) -> str:
    if evaluation.pass_at_1 is None:
        return "no verdict"
    return f"{evaluation.pass_at_1:.3f} [{evaluation.low:.3f}, {evaluation.high:.3f}]"


def _say(as_json: bool) -> Callable[[str], None]:
    return lambda text: print(text, file=sys.stderr) if as_json else print(text, flush=True)


def _show(found: dict[str, Any], as_json: bool, show: Callable[[], None]) -> None:
    if as_json:
        print(json.dumps(found))
    else:
        show()


def _fail(message: str) -> None:
    print(f"rlkit: {message}", file=sys.stderr)
    sys.exit(2)


def _quiet_libraries() -> None:
    """Keeps what the libraries say about themselves off a learner's screen."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|torch|peft)\.")
    warnings.showwarning = _one_line_warning


def _one_line_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"rlkit: note: {message}", file=sys.stderr)


from rlkit.commands.lessons import app as lessons_app  # noqa: E402

app.add_typer(lessons_app, name="lessons")

from rlkit.commands.audit import audit  # noqa: E402

app.command("audit")(audit)

from rlkit.commands.bench import app as bench_app  # noqa: E402

app.add_typer(bench_app, name="bench")

from rlkit.commands.fetch import fetch  # noqa: E402

app.command("fetch")(fetch)

from rlkit.commands.plan import plan  # noqa: E402

app.command("plan")(plan)

from rlkit.commands.replay import replay  # noqa: E402

app.command("replay")(replay)

from rlkit.commands.sandbox import app as sandbox_app  # noqa: E402

app.add_typer(sandbox_app, name="sandbox")

from rlkit.commands.trainability import trainability  # noqa: E402

app.command("trainability")(trainability)

if __name__ == "__main__":
    main()
