"""Replay of a batch that a run has stored, with the weights that drew it where they can be had.

A run keeps a few checkpoints, not the weights of every step. The newest one from before
the batch is loaded, or the policy as it started; then the updates between are taken again
from the stored batches, which gives the same weights. Whether it did is seen from the
ratios, and said. Where it cannot be done, the older weights are used, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.loop.checkpoint import checkpoint_folders, load_checkpoint, why_broken
from rlkit.loop.config import LoopConfig
from rlkit.loop.metrics import Batch
from rlkit.loop.optimizers import build_optimizer
from rlkit.loop.replay.measure import Subject, measure, moments_of, ratio_error
from rlkit.loop.replay.result import Replay, labelled
from rlkit.loop.run import Run
from rlkit.loop.state import put_back, restore_moments
from rlkit.loop.stored_batch import read_batch
from rlkit.loop.update import RatioMismatch, reference_logprobs, update_policy
from rlkit.objectives import Objective, ObjectiveState, objective_from
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.value_head import attach_value_head, parameter_groups
from rlkit.tasks import get_domain


def replay(
    run: Run | str | Path,
    step: int | None = None,
    objectives: Sequence[str | Objective] | Mapping[str, str | Objective] = ("GRPO", "DAPO"),
    *,
    ahead: int = 0,
    held_out: int = 64,
    samples: int = 4,
    say: Callable[[str], None] = lambda text: None,
) -> Replay:
    """The update that each objective would have made of one step's batch.

    Args:
        run: a `Run`, or the path of its directory; it is only read.
        step: number of the step; the last one when not given.
        objectives: names of presets or objectives, or a mapping from label to one.
        ahead: steps that GRPO takes on the batch first, so that clips can act.
        held_out: problems a domain that the pass rate is measured on; 0 leaves it out.
        samples: samples a problem.
        say: called with a sentence at each stage.

    Raises:
        UserError: no such step, a run that did not keep its tokens, or a policy that
            cannot be loaded.
    """
    wanted = labelled(objectives)
    run = run if isinstance(run, Run) else Run.open(run)
    rows = run.metrics()
    if step is None:
        if not rows:
            raise UserError(f"the run {str(run.path)!r} has no steps yet, so nothing to replay")
        step = rows[-1]["step"]
    groups, judged = read_batch(run, step)
    config = _config_of(run)
    say(f"step {step}: {sum(len(g) for g in groups)} answers to {len(groups)} problems")
    found = _Weights.of(run, step, config, rows, groups)
    say(f"weights: {found.sentence}")
    row = next((r for r in rows if r["step"] == step), {})
    rate = row.get("learning_rate") or config.learning_rate
    value_rate = config.value_learning_rate * rate / config.learning_rate
    subject = Subject(
        found.policy,
        groups,
        judged,
        replace(config, learning_rate=rate, value_learning_rate=value_rate),
        _budget(run, config),
        step=step,
        moments=found.moments,
        states={name: _carried(o, rows, step, groups) for name, o in wanted.items()},
    )
    return measure(
        subject,
        wanted,
        weights=found.sentence,
        exact=found.exact,
        ahead=ahead,
        held_out=held_out,
        samples=samples,
    )


@dataclass
class _Weights:
    """A policy with the weights to replay with."""

    policy: Policy
    moments: dict[str, torch.Tensor]
    sentence: str
    exact: bool

    @classmethod
    def of(
        cls,
        run: Run,
        step: int,
        config: LoopConfig,
        rows: Sequence[Mapping[str, Any]],
        groups: Sequence[Any],
    ) -> _Weights:
        policy, moments, start = _start(run, step)
        kept = policy.snapshot()
        where = f"the checkpoint after step {start}" if start else "the policy as it started"
        sentence, trouble = where, None
        if start < step - 1:
            behind = step - 1 - start
            trouble = _obstacle(run, start, step)
            if trouble is None:
                try:
                    moments_now = _take_again(run, policy, moments, config, rows, start, step)
                except (RatioMismatch, UserError) as error:
                    trouble = str(error)
                else:
                    sentence = (
                        f"{where}, with the {_updates(behind)} since taken again from the "
                        "stored batches"
                    )
            if trouble is None:
                error = ratio_error(policy, groups, config)
                if error <= config.ratio_tolerance:
                    return cls(policy, moments_now, f"{sentence}; they drew the batch", True)
                trouble = f"taking them again ended at other weights: ratios are off by {error:.3g}"
            put_back(policy, kept)
        error = ratio_error(policy, groups, config)
        if error <= config.ratio_tolerance:
            return cls(policy, moments, f"{where}; they drew the batch", True)
        if start == step - 1:
            trouble = "it should have drawn the batch, but another machine or version may round"
        told = (
            f"{where}, {_updates(step - 1 - start)} before the batch was drawn ({trouble}); ratios "
            f"differ from 1 by up to {error:.3g}"
        )
        return cls(policy, moments, told, False)


def _updates(count: int) -> str:
    return f"{count} update{'' if count == 1 else 's'}"


def _start(run: Run, step: int) -> tuple[Policy, dict[str, torch.Tensor], int]:
    """The newest weights from before the batch: policy, moments, steps done."""
    policy = _policy_of(run)
    for folder in reversed(checkpoint_folders(run.checkpoints)):
        done = int(folder.name.removeprefix("step-"))
        if done > step - 1 or why_broken(folder) is not None:
            continue
        tensors = load_checkpoint(folder).tensors
        weights = {n[7:]: t for n, t in tensors.items() if n.startswith("policy/")}
        if any(name.startswith("value_head.") for name in weights):
            _attach_head(policy, run)
        policy.restore(weights)
        moments = {n: t for n, t in tensors.items() if n.startswith("optimizer/")}
        return policy, moments, done
    if (run.config.get("objective") or {}).get("baseline") == "value":
        _attach_head(policy, run)
    return policy, {}, 0


def _policy_of(run: Run) -> Policy:
    about = run.config.get("policy") or {}
    if "name" not in about:
        raise UserError(f"config.json of {str(run.path)!r} does not say which policy was trained")
    lora = about.get("lora")
    if lora is not None:
        targets = lora.get("targets", "all-linear")
        lora = LoraSpec(**{**lora, "targets": targets if isinstance(targets, str) else (*targets,)})
    return Policy.load(
        about["name"], quantize=about.get("quantize"), lora=lora, seed=about.get("seed", 0)
    )


def _attach_head(policy: Policy, run: Run) -> None:
    trunk = (run.config.get("objective") or {}).get("value_trunk", "detached")
    attach_value_head(policy, trunk=trunk, seed=_config_of(run).seed)


def _config_of(run: Run) -> LoopConfig:
    known = {f.name for f in fields(LoopConfig)}
    given = run.config.get("loop") or {}
    return LoopConfig(**{name: value for name, value in given.items() if name in known})


def _budget(run: Run, config: LoopConfig) -> int:
    names = run.config.get("domains") or []
    return config.max_new_tokens or max(get_domain(name).max_new_tokens for name in names)


def _obstacle(run: Run, start: int, step: int) -> str | None:
    """Why the updates between cannot be taken again, or `None`."""
    for event in run.events():
        rolled = event.get("kind") == "intervention" and event.get("action") == "rollback"
        if rolled and start < event.get("step", 0) < step:
            return f"the monitor rolled the policy back at step {event['step']}"
    return None


def _take_again(
    run: Run,
    policy: Policy,
    moments: Mapping[str, torch.Tensor],
    config: LoopConfig,
    rows: Sequence[Mapping[str, Any]],
    start: int,
    step: int,
) -> dict[str, torch.Tensor]:
    """The updates of steps `start + 1` to `step - 1`, from what the run has stored."""
    objective = objective_from(run.config.get("objective") or {})
    optimizer = build_optimizer(
        config.optimizer, parameter_groups(policy), config.learning_rate, config.weight_decay
    )
    restore_moments(policy, optimizer, moments)
    by_step = {row["step"]: row for row in rows}
    for number in range(start + 1, step):
        row = by_step.get(number)
        if row is None:
            raise UserError(f"the run has no numbers of step {number}")
        if not row.get("stepped"):
            continue
        groups, judged = read_batch(run, number)
        rate = row["learning_rate"]
        for group in optimizer.param_groups:
            value_rate = config.value_learning_rate * rate / config.learning_rate
            group["lr"] = value_rate if group["value"] else rate
        state = _carried(objective, rows, number, groups)
        reference = None
        if objective.needs_reference:
            reference = reference_logprobs(policy, groups, config)
        update_policy(
            policy,
            optimizer,
            objective,
            Batch.of(number, groups, judged, objective, state, reference),
            config,
            lambda norm, loss: None,
            state=state,
            max_length=_budget(run, config),
        )
    return moments_of(policy, optimizer)


def _carried(
    objective: Objective, rows: Sequence[Mapping[str, Any]], step: int, groups: Sequence[Any]
) -> ObjectiveState:
    """What the objective would have carried into this step, from the rows before it."""
    state = objective.start()
    count = sum(len(group) for group in groups)
    for row in rows:
        if row["step"] >= step:
            break
        reward = row.get("reward")
        rewards = torch.full((1, count), float("nan") if reward is None else reward).double()
        state = objective.next_state(state, rewards, kl=row.get("kl"), entropy=row.get("entropy"))
    return state
