"""Stored batches: a step's rollouts token by token, as a run keeps them, and read again.

`rollouts.jsonl.gz` is for people: text, reward, reasons. What a gradient needs lies
beside it in `tokens.jsonl.gz`, one line a group:

    step, group, temperature, prompt_ids, rollouts: [{completion_ids, behaviour_logprobs,
    trainable where it is not 1 throughout}, ...]

Log-probabilities keep nine significant digits, which is all that float32 has; one that is
not finite is kept as `null`. Runs made before this file existed have no such lines.

Axes: B groups, G rollouts a group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.judging import Judged
from rlkit.loop.metrics import Batch
from rlkit.loop.run import TOKENS, Run
from rlkit.policy import Group, Rollout
from rlkit.rewards import Score
from rlkit.tasks import Problem


def token_rows(batch: Batch) -> list[dict[str, Any]]:
    """What `tokens.jsonl.gz` keeps of a step: one row a group."""
    return [
        {
            "step": batch.step,
            "group": b,
            "temperature": group.rollouts[0].temperature,
            "prompt_ids": list(group.rollouts[0].prompt_ids),
            "rollouts": [_tokens_of(rollout) for rollout in group.rollouts],
        }
        for b, group in enumerate(batch.groups)
    ]


def read_batch(run: Run, step: int) -> tuple[list[Group], Judged]:
    """The rollouts of a step as they were sampled, and what they were worth.

    Questions come back as one user message, without the columns that a reward needs:
    nothing is judged again.

    Raises:
        UserError: the run has no such step, or did not keep its tokens.
    """
    rows = run.rollouts(step)
    if not rows:
        known = sorted({row["step"] for row in run.metrics()})
        span = f"it has steps {known[0]} to {known[-1]}" if known else "it has no steps yet"
        raise UserError(f"the run {str(run.path)!r} has no rollouts of step {step}; {span}")
    tokens = {row["group"]: row for row in run.tokens(step)}
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    missing = [b for b in groups if len(tokens.get(b, {}).get("rollouts", ())) < len(groups[b])]
    if missing:
        raise UserError(
            f"the run {str(run.path)!r} did not keep the tokens of step {step} ({TOKENS} is "
            "missing or cut off): it was made by an older rlkit, or broken off while writing. "
            "Train it again to have them, or replay a batch that a loop holds in memory with "
            "Replay.from_batch(policy, loop.batch, objectives)"
        )
    read = [_group(groups[b], tokens[b]) for b in sorted(groups)]
    scores = [[_score(row) for row in groups[b]] for b in sorted(groups)]
    solved = [[row.get("solved") for row in groups[b]] for b in sorted(groups)]
    return read, Judged(scores, solved)


def _tokens_of(rollout: Rollout) -> dict[str, Any]:
    logprobs = [_short(value) for value in rollout.behaviour_logprobs]
    row = {"completion_ids": list(rollout.completion_ids), "behaviour_logprobs": logprobs}
    if not all(rollout.trainable):
        row["trainable"] = list(rollout.trainable)
    return row


def _short(value: float) -> float | None:
    return float(f"{value:.9g}") if math.isfinite(value) else None


def _group(rows: Sequence[Mapping[str, Any]], tokens: Mapping[str, Any]) -> Group:
    first = rows[0]
    problem = Problem(
        key=first["key"],
        domain=first["domain"],
        prompt=({"role": "user", "content": first["question"]},),
        difficulty=first["difficulty"],
    )
    rollouts = []
    for row in rows:
        kept = tokens["rollouts"][row["index"]]
        ids = tuple(kept["completion_ids"])
        rollouts.append(
            Rollout(
                problem=problem,
                prompt_ids=tuple(tokens["prompt_ids"]),
                completion_ids=ids,
                behaviour_logprobs=tuple(
                    math.nan if value is None else value for value in kept["behaviour_logprobs"]
                ),
                trainable=tuple(kept.get("trainable", (1,) * len(ids))),
                text=row["text"],
                finish_reason=row["finish_reason"],
                policy_version=row["policy_version"],
                temperature=tokens["temperature"],
            )
        )
    return Group(problem, tuple(rollouts))


def _score(row: Mapping[str, Any]) -> Score:
    return Score(
        row["reward"],
        row.get("status", ""),
        dict(row.get("parts") or {}),
        row.get("reason", ""),
        dict(row.get("contributions") or {}),
        row.get("unshaped"),
        row.get("truth"),
    )
