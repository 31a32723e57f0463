"""MonitorCallback: the monitor in the place of TRL's callbacks.

It reads what TRL logs into a `StepRecord` and asks the same rules as `ClosedLoop`. Rank 0
decides, the others are told, and all act alike. What an action means here:

    skip_step      the gradients are dropped before the optimizer steps
    rollback       adapter and moments of the best step come back, the rate is halved for good
    learning_rate  the rate is halved for good
    pause          a checkpoint is written and training ends; a resume goes on
    stop           a checkpoint is written and training ends
    warn           it is written down

Everything goes to `metrics.jsonl` and `events.jsonl`, so reports read a run of TRL as one of
our own. Where TRL leaves no way (a rollback under DeepSpeed), training is stopped instead and
the event says why.

Left out: rules that skip a step for anything but a gradient that is not finite, since TRL
tells nobody the norm before it steps; problems and weights of the curriculum stay as they
are in a rollback, since the next step has been read ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.state import PartialState
from accelerate.utils import DistributedType, broadcast_object_list
from transformers import TrainerCallback

from rlkit.errors import UserError
from rlkit.loop.run import Run
from rlkit.monitor import Intervention, Monitor, StepRecord
from rlkit.scale.trl.snapshots import (
    Snapshot,
    as_plain,
    drop_gradients,
    finite_gradients,
    slow_down,
)

#: What TRL or transformers write beside a step's numbers.
_NO_METRICS = ("epoch", "total_flos")
_ENDS = {"pause": "paused", "stop": "stopped"}


class MonitorCallback(TrainerCallback):
    """Watches a TRL run with a `Monitor`, and steps in.

    Args:
        monitor: the rules; `Monitor()` when not given.
        run: where records and events are written, by rank 0 alone; `None` keeps them in
            `records` and `events` only.
        watch: a `RewardWatch`, for numbers by domain and for the rollouts.
        keep_best: hold copies for a rollback; see `rlkit.scale.trl.snapshots` for the memory.
            Without them a rollback becomes a stop.
        slowdown: what the learning rate is multiplied with.
        say: told one line a step, and every decision; on rank 0 alone.

    Attributes:
        records: the records of the steps taken now.
        events: the decisions, and what was done about each.
        ending: how training ended: `finished`, `stopped`, `paused` or `interrupted`.
    """

    def __init__(
        self,
        monitor: Monitor | None = None,
        *,
        run: Run | None = None,
        watch: Any = None,
        keep_best: bool = True,
        slowdown: float = 0.5,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if not 0.0 < slowdown < 1.0:
            raise UserError(f"slowdown must lie between 0 and 1, not {slowdown}")
        self.monitor = monitor or Monitor()
        self.run = run
        self.watch = watch
        self.keep_best = keep_best
        self.slowdown = slowdown
        self.say = say or (lambda text: None)
        self.records: list[StepRecord] = []
        self.events: list[dict[str, Any]] = []
        self.ending = "finished"
        self.updating = False  # between the decision to step and the end of the step
        self._candidate: Snapshot | None = None
        self._best: Snapshot | None = None
        self._skipped: Intervention | None = None
        self._resumed: Path | None = None

    # -- transformers' hooks ---------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._check(args)
        if self._resumed is not None and (file := _best_file(self._resumed)).exists():
            step = int(_read_step(file))
            self._best = Snapshot.load(file, step, kwargs["model"])
        self.ending = "finished"
        if state.is_world_process_zero and self.run is not None:
            self.run.append_event("started", state.global_step, steps=state.max_steps)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, step = kwargs["model"], state.global_step + 1
        if not finite_gradients(model):
            record = StepRecord.of(step, {"grad_norm": math.nan, "loss": None})
            decision = self.monitor.before_update(record) if state.is_world_process_zero else None
            (self._skipped,) = broadcast_object_list([decision])
            if self._skipped is not None and not _deepspeed():
                drop_gradients(model)
        if self.keep_best and not _deepspeed():
            self._candidate = Snapshot.take(state.global_step, model, kwargs["optimizer"])
        self.updating = True

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.updating = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> Any:
        if not logs or "loss" not in logs:  # the summary at the end, or an evaluation
            return control
        decided: list[Any] = [None]
        record = None
        if state.is_world_process_zero:
            record = self._record(state.global_step, logs)
            self.records.append(record)
            skipped = [] if self._skipped is None else [self._skipped]
            decisions = skipped + self.monitor.observe(record)
            decided = [(decisions, self.monitor.best_step())]
        (decided,) = broadcast_object_list(decided)
        self._skipped = None
        decisions, best = decided
        if best == state.global_step and self._candidate is not None:
            # What earned this step's reward is the policy from before its update.
            self._best = self._candidate
        done = [self._act(decision, control, kwargs) for decision in decisions]
        if state.is_world_process_zero:
            self._write(record, decisions, done)
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and self.run is not None:
            self.run.append_event(self.ending, state.global_step)

    # -- what is done ------------------------------------------------------------------------

    def _act(self, decision: Intervention, control: Any, parts: Mapping[str, Any]) -> str:
        """Carries one decision out, on every rank; a sentence says what was done."""
        if decision.action == "warn":
            return "written down"
        if decision.action == "skip_step":
            if _deepspeed():
                return "nothing: DeepSpeed had stepped already"
            return "the gradients were dropped and nothing was changed"
        if decision.action == "rollback" and self._best is not None:
            self._best.restore(parts["model"], parts["optimizer"])
            rates = slow_down(parts["optimizer"], parts["lr_scheduler"], self.slowdown)
            return (
                f"adapter and moments of step {self._best.step} are back, the learning rate is "
                f"{rates[0]:.3g} from now on"
            )
        if decision.action == "learning_rate":
            rates = slow_down(parts["optimizer"], parts["lr_scheduler"], self.slowdown)
            return f"the learning rate is {rates[0]:.3g} from now on"
        control.should_save = control.should_training_stop = True
        self.ending = _ENDS.get(decision.action, "stopped")
        if decision.action in _ENDS:
            return "a checkpoint is written and training ends"
        if decision.action == "rollback":
            why = "DeepSpeed holds the weights" if _deepspeed() else "no best step was kept"
            return (
                f"{why}, so there is no way back from here: training ends, go on from a checkpoint"
            )
        return f"this trainer knows no action {decision.action!r}: training ends"

    def stop(self, control: Any, ending: str) -> None:
        """Asks training to end after this step, with a checkpoint; on every rank alike."""
        control.should_save = control.should_training_stop = True
        self.ending = ending

    # -- what is written ------------------------------------------------------------------------

    def _record(self, step: int, logs: Mapping[str, Any]) -> StepRecord:
        numbers = as_plain({n: v for n, v in logs.items() if n not in _NO_METRICS})
        norm = numbers.get("grad_norm")
        if norm is not None and not math.isfinite(norm):
            numbers["loss"] = None  # transformers shows the mean of older losses instead
        ours = {} if self.watch is None else self.watch.metrics()
        known = {name: value for name, value in numbers.items() if value is not None}
        return StepRecord.of(step, {**dict.fromkeys(numbers), **ours, **known})

    def _write(
        self, record: StepRecord, decisions: Sequence[Intervention], done: Sequence[str]
    ) -> None:
        if self.run is not None and self.watch is not None:
            rows = [row for row in self.watch.rollout_rows() if row["step"] == record.step]
            if rows:
                self.run.append_rollouts(rows)
        for decision, sentence in zip(decisions, done, strict=True):
            fields = {k: v for k, v in decision.to_dict().items() if k != "step"}
            fields["done"] = sentence
            self.events.append({"step": record.step, **fields})
            if self.run is not None:
                self.run.append_event("intervention", record.step, **fields)
            self.say(f"step {record.step}: {decision.reason}; {sentence}")
        if self.run is not None:
            self.run.append_metrics(record.to_dict())
        self.say(_line(record))

    # -- remembering ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {"monitor": self.monitor.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.monitor.load_state_dict(state["monitor"])

    def save_best(self, folder: Path) -> None:
        """Writes this rank's part of the best state into a checkpoint."""
        if self._best is not None and (_sharded() or PartialState().is_main_process):
            self._best.save(_best_file(folder))

    def resume_from(self, folder: Path) -> None:
        """Where the best state lies; read when training begins."""
        self._resumed = folder

    def repair(self, model: Any, optimizer: Any) -> bool:
        """After an interruption: puts back an update that was broken off in the middle."""
        if not self.updating or self._candidate is None:
            return False
        self._candidate.restore(model, optimizer)
        self.updating = False
        return True

    def _check(self, args: Any) -> None:
        """Settings without which the rules would not see every step."""
        if args.logging_steps != 1 or args.logging_strategy != "steps":
            raise UserError(
                "the monitor reads TRL's log, so every step must be logged: set logging_steps=1 "
                "and logging_strategy='steps'"
            )
        if self.watch is None:
            return
        problems = self.watch.dataset.problems_per_step
        if args.num_generations != self.watch.group_size:
            raise UserError(
                f"num_generations={args.num_generations}, but the watch has groups of "
                f"{self.watch.group_size}"
            )
        if args.generation_batch_size != problems * args.num_generations:
            raise UserError(
                f"a generation batch holds {args.generation_batch_size} answers, but the dataset "
                f"draws {problems} problems a step, which with num_generations="
                f"{args.num_generations} makes {problems * args.num_generations}"
            )


def _line(record: StepRecord) -> str:
    """A step for a person who watches.

    >>> _line(StepRecord(3, {"reward": 0.5, "pass_rate": None, "step_time": 1.25}))
    'step 3: reward 0.500, 1.2 s'
    """
    shown = []
    for name, form in (("reward", "reward {:.3f}"), ("pass_rate", "solved {:.3f}")):
        if record[name] is not None:
            shown.append(form.format(record[name]))
    for name, form in (("grad_norm", "gradient {:.3g}"), ("step_time", "{:.1f} s")):
        if record[name] is not None:
            shown.append(form.format(record[name]))
    return f"step {record.step}: {', '.join(shown)}"


def _deepspeed() -> bool:
    return PartialState().distributed_type == DistributedType.DEEPSPEED


def _sharded() -> bool:
    return PartialState().distributed_type == DistributedType.FSDP


def _best_file(folder: Path) -> Path:
    rank = f"-{PartialState().process_index}" if _sharded() else ""
    return folder / f"rlkit_best{rank}.safetensors"


def _read_step(file: Path) -> str:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        return opened.metadata()["step"]
