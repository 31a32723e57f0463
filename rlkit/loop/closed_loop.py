"""ClosedLoop: the whole loop on one screen, see `ClosedLoop.step`.

    curriculum -> problems -> policy -> rollouts -> reward (sandbox) -> scores
               -> objective -> loss -> update -> record -> monitor

Groups without contrast teach nothing. What they cost is shown as `frac_reward_zero_std`;
`LoopConfig(max_refills=2)` replaces them, see `rlkit.loop.sampling`.

Axes: B problems, G rollouts a problem, N = B x G, T completion tokens.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.loop.config import LoopConfig
from rlkit.loop.evaluation import Evaluation, evaluate_domain
from rlkit.loop.given_back import give_back
from rlkit.loop.judging import Judge
from rlkit.loop.metrics import Batch, build_metrics, objective_metrics
from rlkit.loop.optimizers import build_optimizer
from rlkit.loop.progress import Clock, progress_bar
from rlkit.loop.run import Run
from rlkit.loop.run_keeper import RunKeeper
from rlkit.loop.sampling import Drawn, draw
from rlkit.loop.state import LoopState, restore_training, training_tensors
from rlkit.loop.update import Update, reference_logprobs, update_policy
from rlkit.monitor import Intervention, Monitor, StepRecord
from rlkit.objectives import GRPO, Objective, ObjectiveState
from rlkit.policy import Policy
from rlkit.policy.value_head import attach_value_head, parameter_groups
from rlkit.tasks import Domain, get_domains

#: Evaluations draw from streams of their own, so that they change no training step.
_EVALUATION_DRAWS = 1 << 30


@dataclass(frozen=True)
class _Best:
    """The state that earned the best average reward, for a rollback."""

    step: int
    state: LoopState


class ClosedLoop:
    """Trains a policy on domains, with all five components in play.

    Args:
        policy: the policy to train; it needs an adapter, or plain weights.
        domains: names or `Domain` objects.
        objective: how rewards become a gradient: any preset of `rlkit.objectives`.
        config: sizes and speeds.
        reward: one reward for all domains, a mapping by domain name, or `None` for each
            domain's own.
        curriculum, monitor: built from the config when not given.
        sandbox: where code is run.
        run: a `Run`, a path for one, or `None` to keep nothing on disk. A run that was
            broken off goes on where its newest whole checkpoint is.

    Raises:
        UserError: nothing to train, no domains, a group of one with a group baseline,
            or a run directory of another configuration.
    """

    def __init__(
        self,
        policy: Policy,
        domains: Sequence[str | Domain],
        objective: Objective | None = None,
        config: LoopConfig | None = None,
        *,
        reward: Any = None,
        curriculum: Curriculum | None = None,
        monitor: Monitor | None = None,
        sandbox: Any = None,
        run: Run | Path | str | None = None,
    ) -> None:
        self.policy = policy
        self.config = config = config or LoopConfig()
        self.objective = objective or GRPO()
        self.domains = get_domains(domains)
        config.check_group(self.objective)
        if not policy.trainable():
            raise UserError("the policy has nothing to train; load it with lora=LoraSpec()")
        if not policy.sampler.exact and self.objective.off_policy is None:
            raise UserError(
                f"rollouts={policy.sampler.asked!r} samples from rounded weights ("
                f"{policy.sampler}), which the ratio of an on-policy objective cannot bear; give "
                "it a correction, GRPO(off_policy=Truncate(2.0)), or load with rollouts='exact'"
            )
        self.curriculum = curriculum or Curriculum(
            self.domains, config.weighting, difficulty=config.difficulty, seed=config.seed
        )
        self.monitor = monitor or Monitor()
        self.judge = Judge(self.domains, reward, sandbox)
        self.objective_state = self.objective.start()
        if self.objective.needs_value:
            attach_value_head(policy, trunk=self.objective.value_trunk, seed=config.seed)
        self.optimizer = build_optimizer(
            config.optimizer, parameter_groups(policy), config.learning_rate, config.weight_decay
        )
        self.steps_done = 0
        self.tokens_done = 0
        self.batch: Batch | None = None
        self.callbacks: list[Callable[[StepRecord, Batch], None]] = []
        self._planned: int | None = None  # steps in all, once `run` says so
        self._schedule_step = 0
        self._slowdown = 1.0
        self._best: _Best | None = None
        self._stop = False
        self._busy = threading.RLock()
        self._keeper: RunKeeper | None = None
        if run is not None:
            self._keeper = RunKeeper.start(run, self)

    # -- the loop -----------------------------------------------------------------------

    def step(self) -> StepRecord:
        """One turn of the loop: ask, answer, judge, learn, record, watch.

        If it is broken off, by Ctrl-C or an error, everything is put back to where the
        step began.
        """
        with self._busy:  # one thing at a time, whichever thread asks
            return self._step()

    def _step(self) -> StepRecord:
        before = self._capture()
        try:
            clock = Clock()
            self.judge.set_progress(self.steps_done, self._planned)
            drawn = self._draw(clock)
            groups, judged = drawn.groups, drawn.judged
            reference = None
            if self.objective.needs_reference:
                reference = reference_logprobs(self.policy, groups, self.config)
            state = self.objective_state
            batch = Batch.of(self.steps_done + 1, groups, judged, self.objective, state, reference)
            self._set_learning_rate()
            give_back()  # caches of the answers, before the update needs room
            update = update_policy(
                self.policy,
                self.optimizer,
                self.objective,
                batch,
                self.config,
                self._may_step,
                state=state,
                max_length=self._token_budget(),
            )
            clock.lap("update")
            if self.objective.token_level:  # they are made in the update, token by token
                batch = batch.with_advantages(update.mean_advantages)
            self.tokens_done += batch.tokens + drawn.discarded_tokens
            self._observe(batch, drawn)
            record = self._record(batch, update, clock, drawn)
            self.objective_state = self._next_objective_state(batch, update)
            decisions = [d for d in (update.skipped,) if d] + self.monitor.observe(record)
        except BaseException:
            self._apply(before)
            raise
        self.steps_done, self.batch = batch.step, batch
        self._schedule_step += 1
        self._keep_best(before)
        self._act(decisions)
        if self._keeper is not None:
            self._keeper.after_step(record, batch, decisions)
        for callback in self.callbacks:
            callback(record, batch)
        give_back()
        return record

    def run(self, steps: int, progress: bool | Callable[..., Any] = True) -> list[StepRecord]:
        """Takes steps until `steps` of them are done in all, or `stop` is called.

        A resumed run counts the steps it has done already. Ctrl-C gives up the step
        that is under way, writes a checkpoint, and leaves policy and run usable.

        Args:
            steps: total number of steps, those done before included.
            progress: whether to show a progress bar.

        Returns:
            The records of the steps taken now.
        """
        self._stop, self._planned = False, steps
        records: list[StepRecord] = []
        if self._keeper is not None:
            self._keeper.before_run(steps)
        with progress_bar(self.steps_done, steps, enabled=bool(progress)) as show:
            try:
                while self.steps_done < steps and not self._stop:
                    records.append(self.step())
                    show(records[-1])
            except KeyboardInterrupt:
                if self._keeper is not None:
                    self._keeper.interrupted()
                raise
        if self._keeper is not None:
            self._keeper.finished(stopped=self._stop)
        return records

    def stop(self) -> None:
        """Asks a running loop to end after the step under way; safe from any thread."""
        self._stop = True

    def evaluate(self, problems: int = 200, samples: int = 1) -> Evaluation:
        """pass@1 on held-out problems, sampled at the training temperature.

        The problems are the same each time, and training is not disturbed: it goes on
        exactly as it would have without the evaluation.
        """
        with self._busy:
            return self._evaluate(problems, samples)

    def _evaluate(self, problems: int, samples: int) -> Evaluation:
        kept = self.policy.state_dict()
        self.policy.load_state_dict({**kept, "draws": _EVALUATION_DRAWS + self.steps_done})
        results = []
        self.policy.sampler.forget()
        try:
            for domain in self.domains:
                level = self.curriculum.difficulty[domain.name]
                held_out = domain.held_out(problems, level)
                budget = self.config.max_new_tokens or domain.max_new_tokens
                groups = self.policy.generate(held_out, samples, budget, self.config.temperature)
                solved = self.judge.verify(groups).solved
                results.append(evaluate_domain(domain.name, solved, samples))
        finally:
            self.policy.load_state_dict(kept)
        evaluation = Evaluation.of(self.steps_done, results)
        if self._keeper is not None:
            self._keeper.evaluated(evaluation)
        return evaluation

    def first_evaluation(self, problems: int = 200, samples: int = 1) -> Evaluation:
        """pass@1 before training: measured now, or read from the run that is resumed.

        Raises:
            UserError: the run has taken steps, and nobody measured before them.
        """
        if self.steps_done == 0:
            return self.evaluate(problems, samples)
        kept = None if self._keeper is None else self._keeper.evaluation_at(0)
        if kept is None:
            raise UserError(
                f"{self.steps_done} steps are done and no evaluation was made before them; "
                "start a new run to measure before and after"
            )
        return kept

    # -- its parts ------------------------------------------------------------------------

    @property
    def run_directory(self) -> Path | None:
        return None if self._keeper is None else self._keeper.run.path

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step, after warm-up and rollbacks."""
        warmup = min(1.0, (self._schedule_step + 1) / max(1, self.config.warmup_steps))
        floor = min(self.config.min_learning_rate, self.config.learning_rate)
        return max(floor, self.config.learning_rate * self._slowdown) * warmup

    def set_learning_rate_factor(self, factor: float) -> None:
        """Scales the configured learning rate from the next step on; 1.0 is as configured."""
        if not factor > 0 or not math.isfinite(factor):
            raise UserError(f"the learning rate's factor must be above 0, not {factor}")
        self._slowdown = float(factor)

    def _set_learning_rate(self) -> None:
        rate = self.learning_rate
        value_rate = self.config.value_learning_rate * rate / self.config.learning_rate
        for group in self.optimizer.param_groups:
            group["lr"] = value_rate if group["value"] else rate

    def _draw(self, clock: Clock) -> Drawn:
        """Problems from the curriculum, answered and judged; see `rlkit.loop.sampling`."""
        config = self.config
        self.policy.sampler.forget()  # or a resumed run would differ in the last digits
        return draw(
            self.curriculum.sample,
            lambda problems: self.policy.generate(
                problems, config.group_size, self._token_budget(), config.temperature
            ),
            self.judge,
            self.objective,
            config.problems_per_step,
            config.max_refills,
            clock,
        )

    def _token_budget(self) -> int:
        return self.config.max_new_tokens or max(d.max_new_tokens for d in self.domains)

    def _may_step(self, grad_norm: float, loss: float) -> Intervention | None:
        metrics = {"grad_norm": grad_norm, "loss": loss}
        return self.monitor.before_update(StepRecord.of(self.steps_done + 1, metrics))

    def _observe(self, batch: Batch, drawn: Drawn) -> None:
        rows = [*zip(batch.groups, batch.solved, batch.alive_B, strict=True)]
        thrown = zip(drawn.discarded, drawn.discarded_judged.solved, strict=True)
        rows += [(group, solved, False) for group, solved in thrown]
        for group, solved, alive in rows:
            known = [value for value in solved if value is not None]
            rate = sum(known) / len(known) if known else None
            self.curriculum.observe(group.problem.domain, rate, dead=not alive)

    def _next_objective_state(self, batch: Batch, update: Update) -> ObjectiveState:
        rewards = [[math.nan if r is None else r for r in row] for row in batch.rewards_BG]
        return self.objective.next_state(
            self.objective_state,
            torch.tensor(rewards, dtype=torch.float64),
            kl=update.per_token("kl"),
            entropy=update.per_token("entropy"),
        )

    def _record(self, batch: Batch, update: Update, clock: Clock, drawn: Drawn) -> StepRecord:
        metrics = build_metrics(batch, update)
        metrics.update(drawn.metrics())
        metrics.update(self.policy.sampler.metrics())
        metrics.update(self.curriculum.metrics())
        metrics.update(objective_metrics(self.objective, self.objective_state))
        metrics["learning_rate"] = self.learning_rate
        metrics["num_tokens"] = self.tokens_done
        metrics.update(clock.metrics())
        return StepRecord.of(batch.step, metrics)

    def _keep_best(self, before: LoopState) -> None:
        # What earned this step's reward is the policy from before its update.
        if self.monitor.best_step() == self.steps_done:
            self._best = _Best(self.steps_done - 1, before)

    def _act(self, decisions: Sequence[Intervention]) -> None:
        if any(d.action == "rollback" for d in decisions) and self._best is not None:
            self._roll_back(self._best)

    def _roll_back(self, best: _Best) -> None:
        """Adapter, moments, schedule and generators go back; the rate is halved for good."""
        restore_training(self.policy, self.optimizer, best.state.tensors)
        self.policy.load_state_dict(best.state.values["policy"])
        self._restore_objective(best.state.values)
        self.curriculum.load_state_dict(best.state.values["curriculum"])
        self._schedule_step = best.state.values["schedule_step"]
        # After the restore, and on top of earlier halvings: the old rate must not come back.
        self._slowdown = self._slowdown / 2

    # -- remembering ------------------------------------------------------------------------

    def _capture(self) -> LoopState:
        values = {
            "steps_done": self.steps_done,
            "tokens_done": self.tokens_done,
            "schedule_step": self._schedule_step,
            "slowdown": self._slowdown,
            "objective": self.objective_state.state_dict(),
            "policy": self.policy.state_dict(),
            "curriculum": self.curriculum.state_dict(),
            "monitor": self.monitor.state_dict(),
        }
        return LoopState(training_tensors(self.policy, self.optimizer), values)

    def _apply(self, state: LoopState) -> None:
        restore_training(self.policy, self.optimizer, state.tensors)
        self.steps_done = state.values["steps_done"]
        self.tokens_done = state.values["tokens_done"]
        self._schedule_step = state.values["schedule_step"]
        self._slowdown = state.values["slowdown"]
        self._restore_objective(state.values)
        self.policy.load_state_dict(state.values["policy"])
        self.curriculum.load_state_dict(state.values["curriculum"])
        self.monitor.load_state_dict(state.values["monitor"])

    def _restore_objective(self, values: Mapping[str, Any]) -> None:
        # Checkpoints from before objectives had a state bring none.
        kept = values.get("objective")
        self.objective_state = (
            self.objective.start() if kept is None else ObjectiveState.from_state_dict(kept)
        )

    def state_dict(self) -> LoopState:
        """All that is needed to go on as if never stopped, the best state included."""
        now = self._capture()
        if self._best is None:
            return now
        tensors = {**now.tensors, **{f"best/{n}": t for n, t in self._best.state.tensors.items()}}
        best = {"step": self._best.step, "values": self._best.state.values}
        return LoopState(tensors, {**now.values, "best": best})

    def load_state_dict(self, state: LoopState) -> None:
        """Goes on as if never stopped."""
        now = {n: t for n, t in state.tensors.items() if not n.startswith("best/")}
        self._apply(LoopState(now, state.values))
        best: Mapping[str, Any] | None = state.values.get("best")
        self._best = None
        if best is not None:
            kept = {n[5:]: t for n, t in state.tensors.items() if n.startswith("best/")}
            self._best = _Best(best["step"], LoopState(kept, best["values"]))

    def describe(self) -> dict[str, Any]:
        """What a run's `config.json` keeps: enough to tell two configurations apart."""
        return {
            "policy": self.policy.describe(),
            "domains": [d.name for d in self.domains],
            "objective": self.objective.describe(),
            "loop": self.config.to_dict(),
            "curriculum": {
                "weighting": self.curriculum.weighting,
                "floor": self.curriculum.floor,
                "decay": self.curriculum.decay,
                "difficulty": self.curriculum.difficulty,
            },
            "monitor": {
                "rules": [rule.name for rule in self.monitor.rules],
                "budget": self.monitor.budget,
                "cooldown": self.monitor.cooldown,
            },
            "rewards": {name: reward.name for name, reward in self.judge.rewards.items()},
        }
