"""`rlkit plan`: the memory and the seconds of a step, before a run is started."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

#: Exit code of a step that cannot fit.
REFUSED = 2


def plan(
    policy: Annotated[
        str, typer.Option(help="tiny, smol, a folder with a model, or a hub id.")
    ] = "tiny",
    group_size: Annotated[int, typer.Option(help="Rollouts a problem.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 64,
    problems: Annotated[int, typer.Option(help="Problems a step.")] = 8,
    prompt_tokens: Annotated[
        int, typer.Option(help="Tokens of a prompt, chat template included.")
    ] = 48,
    rank: Annotated[int, typer.Option(help="Rank of the adapter.")] = 16,
    quantize: Annotated[str, typer.Option(help="nf4 or none.")] = "nf4",
    rollouts: Annotated[str, typer.Option(help="exact, fast or plain.")] = "exact",
    learner: Annotated[str, typer.Option(help="auto, copy or model.")] = "auto",
    micro_batch: Annotated[int, typer.Option(help="Rollouts scored at once.")] = 64,
    micro_batch_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens scored at once.", show_default="what the policy can bear"),
    ] = None,
    inner_epochs: Annotated[int, typer.Option(help="Updates on the same rollouts.")] = 1,
    memory_limit: Annotated[
        float | None,
        typer.Option(help="Memory that there is, in MB.", show_default="what can be had here"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything that is drawn.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Memory and seconds of a step, from a short probe; exit code 2 when it cannot fit."""
    from rlkit.errors import UserError
    from rlkit.loop.plan import plan as examine
    from rlkit.loop.plan_sizes import Size

    if quantize not in ("nf4", "none"):
        raise UserError(f"--quantize must be nf4 or none, not {quantize!r}")
    size = Size(
        problems=problems,
        group_size=group_size,
        prompt_tokens=prompt_tokens,
        new_tokens=max_new_tokens,
        micro_batch=micro_batch,
        micro_batch_tokens=micro_batch_tokens,
        inner_epochs=inner_epochs,
    )
    found = examine(
        policy,
        size,
        quantize=None if quantize == "none" else quantize,
        rank=rank,
        rollouts=rollouts,
        learner=learner,
        seed=seed,
        memory_limit_mb=memory_limit,
        say=lambda text: None if as_json else print(f"rlkit: {text}", file=sys.stderr),
    )
    print(json.dumps(found.to_dict()) if as_json else found)
    if found.fits is False:
        print(f"rlkit: {found.refusal()}", file=sys.stderr)
        raise typer.Exit(REFUSED)
