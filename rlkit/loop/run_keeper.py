"""RunKeeper: writes a loop's run directory, and finds the way back after a break."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from rlkit import __version__
from rlkit.errors import UserError
from rlkit.loop.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from rlkit.loop.evaluation import DomainEvaluation, Evaluation
from rlkit.loop.metrics import Batch, rollout_rows
from rlkit.loop.run import Run
from rlkit.loop.stored_batch import token_rows
from rlkit.monitor import Intervention, StepRecord

if TYPE_CHECKING:
    from rlkit.loop.closed_loop import ClosedLoop


class RunKeeper:
    """Keeps one loop's run on disk. Built by `ClosedLoop`."""

    def __init__(self, run: Run, loop: ClosedLoop) -> None:
        self.run = run
        self._loop = loop
        self._saved_step: int | None = None

    @classmethod
    def start(cls, run: Run | Path | str, loop: ClosedLoop) -> RunKeeper:
        """Creates the run directory, or goes on where its newest whole checkpoint is."""
        path = run.path if isinstance(run, Run) else Path(run)
        config = {"rlkit": __version__, **loop.describe(), "isolation": loop.judge.isolation()}
        keeper = cls(Run.create(path, config), loop)
        keeper._resume()
        return keeper

    def _resume(self) -> None:
        checkpoint, passed = newest_checkpoint(self.run.checkpoints)
        for broken, reason in passed:
            self.run.append_event(
                "checkpoint_ignored", self._loop.steps_done, checkpoint=broken.name, reason=reason
            )
            taken = checkpoint.name if checkpoint else "the start"
            warnings.warn(
                f"checkpoint {broken.name} is not whole ({reason}); going on from {taken}",
                stacklevel=5,
            )
        if checkpoint is not None:
            self._loop.load_state_dict(load_checkpoint(checkpoint))
            self._saved_step = self._loop.steps_done
            self.run.append_event("resumed", self._loop.steps_done, checkpoint=checkpoint.name)
        elif self.run.events():
            self.run.append_event("resumed", 0, checkpoint=None)

    def before_run(self, steps: int) -> None:
        step = self._loop.steps_done
        if step > steps:
            raise UserError(
                f"the run has done {step} steps already, more than the {steps} asked for"
            )
        self.run.append_event("started", step, steps=steps)

    def after_step(
        self, record: StepRecord, batch: Batch, decisions: Sequence[Intervention]
    ) -> None:
        """Appends the step's lines; a checkpoint follows when it is due."""
        self.run.append_rollouts(rollout_rows(batch))
        self.run.append_tokens(token_rows(batch))
        for decision in decisions:
            fields = {k: v for k, v in decision.to_dict().items() if k != "step"}
            self.run.append_event("intervention", record.step, **fields)
        self.run.append_metrics(record.to_dict())
        if record.step % self._loop.config.checkpoint_every == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Writes a checkpoint of the loop as it is now, unless there is one already."""
        step = self._loop.steps_done
        if self._saved_step == step:
            return
        keep = self._loop.config.keep_checkpoints
        save_checkpoint(self.run.checkpoints, step, self._loop.state_dict(), keep)
        self._saved_step = step

    def evaluated(self, evaluation: Evaluation) -> None:
        for result in evaluation.by_domain.values():
            self.run.append_event(
                "evaluation", evaluation.step, split="held_out", **result.to_dict()
            )

    def evaluation_at(self, step: int) -> Evaluation | None:
        """The held-out evaluation that the run keeps of a step, or `None`."""
        names = {f.name for f in fields(DomainEvaluation)}
        results = {
            event["domain"]: DomainEvaluation(**{k: v for k, v in event.items() if k in names})
            for event in self.run.events()
            if event["kind"] == "evaluation" and event["step"] == step
        }
        return Evaluation.of(step, list(results.values())) if results else None

    def interrupted(self) -> None:
        self.checkpoint()
        self.run.append_event("interrupted", self._loop.steps_done)

    def finished(self, *, stopped: bool) -> None:
        self.checkpoint()
        self.run.append_event("stopped" if stopped else "finished", self._loop.steps_done)
