"""`rlkit bench rollout|score|step|memory|scaling|gpu`: the policy engine, measured.

Left out: any verdict. Numbers belong to a machine and an hour; what they should be is said in
`docs/speed.md`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rlkit.errors import UserError

PolicyName = Annotated[str, typer.Option(help="smol, tiny, a folder, or a hub id.")]
Problems = Annotated[int, typer.Option(help="Problems, B.")]
GroupSize = Annotated[int, typer.Option(help="Answers a problem, G.")]
PromptTokens = Annotated[int, typer.Option(help="Tokens of a prompt.")]
NewTokens = Annotated[int, typer.Option(help="Tokens of an answer.")]
Repeats = Annotated[int, typer.Option(help="Measured rounds; one more comes first.")]
Threads = Annotated[
    int | None, typer.Option(help="Processor threads.", show_default="all processors")
]
Plain = Annotated[bool, typer.Option("--plain", help="No four-bit weights.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Learner = Annotated[
    str | None,
    typer.Option(help="Which way ours learns: copy or model.", show_default="the policy's own"),
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to `rlkit bench`."""
    for command in (rollout, score, step, memory, scaling, gpu):
        app.command(command.__name__)(command)


def rollout(
    policy: PolicyName = "smol",
    repeats: Repeats = 3,
    problems: Problems = 4,
    group_size: GroupSize = 8,
    prompt_tokens: PromptTokens = 48,
    new_tokens: NewTokens = 64,
    sequences: Annotated[
        list[int] | None,
        typer.Option(help="Batch sizes for ours; may be repeated.", show_default="1 8 32 128"),
    ] = None,
    threads: Threads = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """Tokens a second: our sampler beside transformers' model.generate, on the same model."""
    _use_threads(threads)
    from rlkit.bench import rollout as bench
    from rlkit.bench.fixed_work import Case

    found = bench.measure(
        policy,
        case=Case("rollout", problems, group_size, prompt_tokens, new_tokens),
        sequences=bench.SEQUENCES if sequences is None else sequences,
        repeats=repeats,
        quantize=None if plain else "nf4",
        say=_say,
    )
    _show(found, bench.page, as_json)


def score(
    policy: PolicyName = "smol",
    repeats: Repeats = 3,
    problems: Problems = 4,
    group_size: GroupSize = 8,
    prompt_tokens: PromptTokens = 48,
    new_tokens: NewTokens = 64,
    threads: Threads = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """Log-probabilities with gradient, and the backward pass: ours beside the plain way."""
    _use_threads(threads)
    from rlkit.bench import score as bench
    from rlkit.bench.fixed_work import Case

    found = bench.measure(
        policy,
        case=Case("score", problems, group_size, prompt_tokens, new_tokens),
        repeats=repeats,
        quantize=None if plain else "nf4",
        say=_say,
    )
    _show(found, bench.page, as_json)


def step(
    vs: Annotated[str, typer.Option(help="The peer; trl is the only one.")] = "trl",
    policy: PolicyName = "smol",
    case: Annotated[
        list[str] | None,
        typer.Option(help="24, 64 or prompt512; may be repeated.", show_default="all three"),
    ] = None,
    repeats: Repeats = 3,
    threads: Threads = None,
    learner: Learner = None,
    peer_dtype: Annotated[
        str, typer.Option(help="What TRL multiplies in: float32 or bfloat16.")
    ] = "float32",
    learning: Annotated[
        bool, typer.Option("--learning", help="Compare reward curves in place of seconds.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="With --learning: so many seeds, from 0.")] = 2,
    steps: Annotated[int, typer.Option(help="With --learning: steps of each run.")] = 20,
    learning_rate: Annotated[float, typer.Option(help="With --learning: of both.")] = 5e-4,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """A whole GRPO step beside TRL's GRPOTrainer: seconds, peak memory, and the same learning."""
    if vs != "trl":
        raise UserError(f"unknown peer {vs!r}; --vs trl is the only one")
    if learning:
        from rlkit.bench import learning as curves

        found = curves.measure(
            policy=policy,
            steps=steps,
            seeds=range(seeds),
            learning_rate=learning_rate,
            threads=threads,
            quantize=None if plain else "nf4",
            learner=learner,
            say=_say,
        )
        _show({"learning": found}, lambda all_of_it: curves.page(all_of_it["learning"]), as_json)
        return
    _use_threads(threads)
    from rlkit.bench import step as bench

    found = bench.measure(
        case or tuple(bench.CASES),
        policy=policy,
        repeats=repeats,
        threads=threads,
        quantize=None if plain else "nf4",
        learner=learner,
        peer_dtype=peer_dtype,
        say=_say,
    )
    _show(found, bench.page, as_json)


def memory(
    policy: PolicyName = "smol",
    new_tokens: Annotated[
        list[int] | None,
        typer.Option(help="Tokens of an answer; may be repeated.", show_default="24 64"),
    ] = None,
    budget: Annotated[
        list[int] | None,
        typer.Option(
            help="Tokens of a micro-batch; may be repeated.", show_default="the loop's own, 1024"
        ),
    ] = None,
    threads: Threads = None,
    learner: Learner = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """Peak memory of a step in a fresh process, and where it goes."""
    from rlkit.bench import memory as bench

    found = bench.measure(
        policy,
        new_tokens=new_tokens or bench.NEW_TOKENS,
        budgets=budget or bench.BUDGETS,
        threads=threads,
        quantize=None if plain else "nf4",
        learner=learner,
        say=_say,
    )
    _show(found, bench.page, as_json)


def scaling(
    policy: PolicyName = "smol",
    repeats: Repeats = 2,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="group_size, prompt_tokens or new_tokens; may be repeated.", show_default="all"
        ),
    ] = None,
    threads: Threads = None,
    learner: Learner = None,
    svg: Annotated[str | None, typer.Option(help="Also draw the curves into this file.")] = None,
    plain: Plain = False,
    as_json: AsJson = False,
) -> None:
    """How seconds of generation and update grow with group, prompt and answer: the curve."""
    _use_threads(threads)
    from rlkit.bench import scaling as bench
    from rlkit.bench.svg import write_svg

    found = bench.measure(
        policy,
        sweeps=sweep or tuple(bench.SWEEPS),
        repeats=repeats,
        quantize=None if plain else "nf4",
        learner=learner,
        say=_say,
    )
    write_svg(svg, lambda: bench.svg(found))
    _show(found, bench.page, as_json)


def gpu(
    dry: Annotated[
        bool, typer.Option("--dry", help="On the CPU with a very small model: does it run?")
    ] = False,
    minutes: Annotated[float, typer.Option(help="Stop beginning new parts after these.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Rollout, score and step on a GPU, with random weights in the shape of Qwen 0.5 B."""
    from rlkit.bench import gpu as bench

    found = bench.measure(dry=dry, minutes=minutes, say=_say)
    _show(found, bench.page, as_json)


def _use_threads(threads: int | None) -> None:
    """Sets the threads of this process, also for libraries that ask the environment."""
    from rlkit.bench.spread import processors

    count = processors() if threads is None else threads
    if count < 1:
        raise UserError(f"threads must be 1 or more, not {threads}")
    os.environ["OMP_NUM_THREADS"] = str(count)  # read when torch and bitsandbytes are loaded
    import torch

    torch.set_num_threads(count)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(found: dict[str, Any], page: Callable[[dict[str, Any]], str], as_json: bool) -> None:
    print(json.dumps(found) if as_json else page(found))
