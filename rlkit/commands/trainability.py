"""`rlkit trainability`: whether a run would learn anything, before it is started."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

#: Exit code of a run that would not learn.
REFUSED = 3


def trainability(
    policy: Annotated[str, typer.Option(help="tiny, a folder with a model, or a hub id.")] = "tiny",
    domain: Annotated[
        list[str] | None, typer.Option(help="May be given several times.", show_default="pyfunc")
    ] = None,
    difficulty: Annotated[int, typer.Option(help="Level of every domain.")] = 1,
    steps: Annotated[int, typer.Option(help="Updates of the run that is asked about.")] = 60,
    seed: Annotated[int, typer.Option(help="Decides everything that is drawn.")] = 0,
    group_size: Annotated[int, typer.Option(help="Rollouts a problem.")] = 8,
    problems: Annotated[int, typer.Option(help="Problems a step.")] = 8,
    max_refills: Annotated[int, typer.Option(help="Refills of groups without contrast.")] = 0,
    reward: Annotated[
        str | None, typer.Option(help="A known reward.", show_default="the domain's own")
    ] = None,
    probe: Annotated[int, typer.Option(help="Training problems a domain that are asked.")] = 32,
    samples: Annotated[
        int | None, typer.Option(help="Answers to each.", show_default="twice the group")
    ] = None,
    force: Annotated[bool, typer.Option(help="Exit code 0 also where it would not learn.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object and nothing else.")
    ] = False,
) -> None:
    """Would a run learn? pass@1, contrast, cost and a verdict; exit code 3 when it would not."""
    from rlkit.loop.config import LoopConfig
    from rlkit.tasks import get_domains

    names = [d.name for d in get_domains(domain or ["pyfunc"])]
    config = LoopConfig(
        group_size=group_size,
        problems_per_step=problems,
        difficulty=difficulty,
        max_refills=max_refills,
        seed=seed,
    )
    from rlkit.loop.trainability import trainability as examine
    from rlkit.objectives import GRPO

    config.check_group(GRPO())
    found = examine(
        policy, names, config, reward=reward, problems=probe, samples=samples, steps=steps
    )
    print(json.dumps(found.to_dict()) if as_json else found)
    refuse(found, force)


def refuse(found: Any, force: bool) -> None:
    """Ends the command politely where a run would not learn, unless it is forced."""
    if found.trainable:
        return
    if force:
        print("rlkit: going on all the same, as --force asks", file=sys.stderr)
        return
    print(
        f"rlkit: such a run would hardly learn ({found.overall.verdict}); change what is said "
        "above, or go on with --force",
        file=sys.stderr,
    )
    raise typer.Exit(REFUSED)
