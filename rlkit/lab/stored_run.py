"""Stored rollouts from a run directory: its own rows, and the problems that they answer.

A run keeps what was answered and which problem it was, by key; it may not keep the columns
that a reward needs (answer, tests). Those come from the domains' generators: the problems
are drawn again as the run drew them, and a problem counts as found when its key, a hash of
its content, is the same. What is not found is left out, and that is said.

Left out on purpose: log-probabilities. A run's rows do not have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.stored import StoredGroup, StoredRollout, StoredRollouts
from rlkit.tasks import Problem


def rollouts_of_run(source: Any) -> StoredRollouts:
    """The rollouts of a `Run` or of a run directory.

    Raises:
        UserError: no run there, no rollouts in it, or none of its problems is known.
    """
    from rlkit.loop import Run

    if isinstance(source, (str, Path)):
        run = Run.open(source)
    elif isinstance(source, Run):
        run = source
    else:
        raise UserError(
            f"rollouts come from a run directory or a Run, not from {type(source).__name__}"
        )
    rows = run.rollouts()
    if not rows:
        raise UserError(f"the run in {str(run.path)!r} has no rollouts yet; take a step first")
    grouped: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["step"], row["group"]), []).append(row)
    problems = {} if "columns" in rows[0] else _problems(run.config, grouped)
    groups = []
    for members in grouped.values():
        group = _group(members, problems)
        if group is not None:
            groups.append(group)
    if not groups:
        domains = ", ".join(sorted({row["domain"] for row in rows}))
        raise UserError(
            f"none of the problems of {str(run.path)!r} could be found again; its domains "
            f"({domains}) must be registered as they were"
        )
    lost = len(grouped) - len(groups)
    left_out = f"{lost:,} of {len(grouped):,} groups are left out: their problems are not known"
    facts = {"run": run.path.name, "config": run.config}
    return StoredRollouts(tuple(groups), facts, f"{left_out}." if lost else "")


def _group(
    rows: Sequence[Mapping[str, Any]], problems: Mapping[str, Problem]
) -> StoredGroup | None:
    first = rows[0]
    problem = problems.get(first["key"])
    if problem is not None:
        prompt, columns = problem.prompt, dict(problem.columns)
    elif "columns" in first:
        prompt = first.get("prompt") or [{"role": "user", "content": first["question"]}]
        columns = first["columns"]
    else:
        return None
    return StoredGroup(
        key=first["key"],
        domain=first["domain"],
        difficulty=first["difficulty"],
        # A row's step is the update that was made of it; the policy had seen one fewer.
        step=first.get("policy_version", first["step"] - 1),
        prompt=tuple(prompt),
        columns=json.loads(json.dumps(columns)),
        budget=None,
        rollouts=tuple(_rollout(row) for row in sorted(rows, key=lambda row: row["index"])),
    )


def _rollout(row: Mapping[str, Any]) -> StoredRollout:
    solved = row.get("solved")
    return StoredRollout(
        text=row["text"],
        truth=None if solved is None else float(solved),
        logprob=None,
        length=row["length"],
        finish_reason=row["finish_reason"],
    )


def _problems(
    config: Mapping[str, Any], grouped: Mapping[tuple[int, int], list[dict[str, Any]]]
) -> dict[str, Problem]:
    """The problems of a run by key, drawn again by the curriculum that drew them."""
    from rlkit.curriculum import Curriculum

    loop, curriculum = config.get("loop", {}), config.get("curriculum", {})
    try:
        drawn = Curriculum(
            config["domains"],
            curriculum.get("weighting", "uniform"),
            floor=curriculum.get("floor", 0.05),
            decay=curriculum.get("decay", 0.9),
            difficulty=curriculum.get("difficulty", 1),
            seed=loop["seed"],
        )
        count = int(loop["problems_per_step"])
    except (KeyError, TypeError, UserError) as error:
        raise UserError(
            f"this run does not say how its problems were drawn ({error}), so they cannot be "
            "drawn again"
        ) from error
    found: dict[str, Problem] = {}
    for step in sorted({step for step, _ in grouped}):
        found.update((problem.key, problem) for problem in drawn.sample(count))
        for members in _of_step(grouped, step):
            solved = [row["solved"] for row in members if row["solved"] is not None]
            rate = sum(solved) / len(solved) if solved else None
            alive = any(row["advantage"] for row in members)
            if members[0]["domain"] in drawn.stats:
                drawn.observe(members[0]["domain"], rate, dead=not alive)
    keys = {members[0]["key"] for members in grouped.values()}
    return {key: problem for key, problem in found.items() if key in keys}


def _of_step(
    grouped: Mapping[tuple[int, int], list[dict[str, Any]]], step: int
) -> Iterable[list[dict[str, Any]]]:
    return (members for (at, _), members in sorted(grouped.items()) if at == step)
