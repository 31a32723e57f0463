"""LoopConfig: everything about a run that is neither policy nor objective."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rlkit.curriculum import WEIGHTINGS
from rlkit.errors import UserError

#: Optimizers by name, see `rlkit.loop.optimizers`.
OPTIMIZERS = ("adamw", "adamw8bit")


@dataclass(frozen=True)
class LoopConfig:
    """Sizes and speeds of a training run. Each line says when to move it."""

    #: B, problems a step; raise it when the reward jumps about from step to step
    problems_per_step: int = 8
    #: G, rollouts a problem; raise it when most groups are all right or all wrong
    group_size: int = 8
    #: further draws of problems, at most, in place of groups without contrast (DAPO); raise
    #: it when frac_reward_zero_std is high and sampling is cheap; 2 is a good start
    max_refills: int = 0
    #: completion budget in tokens, the domain's own when None; raise it when
    #: completions/clipped_ratio is high
    max_new_tokens: int | None = None
    #: temperature of the rollouts; raise it when the answers in a group are all alike
    temperature: float = 1.0
    #: peak learning rate; halve it when the reward rises and then breaks down
    learning_rate: float = 2e-3
    #: steps over which the learning rate rises to its peak
    warmup_steps: int = 2
    #: least learning rate that rollbacks may lead to
    min_learning_rate: float = 1e-6
    #: longest gradient that an update may take; lower it when grad_norm has spikes
    max_grad_norm: float = 1.0
    #: AdamW's weight decay on the adapter
    weight_decay: float = 0.0
    #: optimizer steps on the same rollouts; raise it when sampling takes most of the time,
    #: lower it when clip_ratio/region_mean rises
    inner_epochs: int = 1
    #: adamw, or adamw8bit, whose moments take a quarter of the memory (large adapters only)
    optimizer: str = "adamw"
    #: learning rate of a value head, where the objective has one
    value_learning_rate: float = 1e-3
    #: rollouts scored at once; lower it when memory runs out, nothing else changes
    micro_batch: int = 64
    #: prompt and completion tokens scored at once, the policy's own measure when None; lower
    #: it when memory runs out (below a prompt's length each answer reads its prompt again, which
    #: is slow), nothing else changes
    micro_batch_tokens: int | None = None
    #: difficulty level of every domain
    difficulty: int = 1
    #: how the curriculum weighs domains: uniform or learnability
    weighting: str = "uniform"
    #: largest |ratio - 1| allowed at the first inner step; beyond it sampler and
    #: learner disagree and the loop stops
    ratio_tolerance: float = 1e-2
    #: steps between two checkpoints; lower it when a crash would cost too much
    checkpoint_every: int = 10
    #: checkpoints kept on disk
    keep_checkpoints: int = 3
    #: decides problems, adapter and everything that is sampled
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = ("problems_per_step", "group_size", "micro_batch", "inner_epochs")
        for name in (*sizes, "checkpoint_every"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_refills < 0:
            raise UserError(f"max_refills must not be negative, not {self.max_refills}")
        if self.keep_checkpoints < 1:
            raise UserError(f"keep_checkpoints must be at least 1, not {self.keep_checkpoints}")
        if self.micro_batch_tokens is not None and self.micro_batch_tokens < 1:
            raise UserError(f"micro_batch_tokens must be at least 1, not {self.micro_batch_tokens}")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise UserError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}")
        if self.temperature <= 0:
            raise UserError(
                f"temperature must be above 0 for training, not {self.temperature}: greedy "
                "answers in a group are all alike and teach nothing"
            )
        if self.weighting not in WEIGHTINGS:
            raise UserError(
                f"unknown weighting {self.weighting!r}; choose {' or '.join(WEIGHTINGS)}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise UserError(
                f"unknown optimizer {self.optimizer!r}; choose {' or '.join(OPTIMIZERS)}"
            )
        if min(self.learning_rate, self.value_learning_rate, self.max_grad_norm) <= 0:
            raise UserError("learning_rate, value_learning_rate and max_grad_norm must be above 0")

    def check_group(self, objective: Any) -> None:
        """Refuses a group of one where the group is its own baseline, or is refilled.

        Raises:
            UserError: nothing could be learned.
        """
        if objective.needs_group and self.group_size < 2:
            raise UserError(
                f"group_size={self.group_size} with a group baseline: a lone answer is compared "
                "with itself and nothing is learned; use 2 or more"
            )
        if self.max_refills and self.group_size < 2:
            raise UserError(
                f"max_refills={self.max_refills} replaces groups without contrast, and a group of "
                "one never has any; use group_size=2 or more, or max_refills=0"
            )

    @classmethod
    def from_yaml(cls, file: str | Path) -> LoopConfig:
        """Reads a config from a YAML file of field names and values.

        Raises:
            UserError: no such file, or a name that is no field.
        """
        import yaml

        try:
            values = yaml.safe_load(Path(file).read_text()) or {}
        except OSError as error:
            raise UserError(f"the config {str(file)!r} cannot be read: {error.strerror}") from error
        known = {f.name for f in fields(cls)}
        if not isinstance(values, dict) or set(values) - known:
            wrong = sorted(set(values) - known) if isinstance(values, dict) else values
            raise UserError(
                f"{file} has unknown settings {wrong}; known: {', '.join(sorted(known))}"
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        """The config as aligned lines of `name  value`."""
        width = max(len(f.name) for f in fields(self))
        return "\n".join(f"{f.name:<{width}}  {getattr(self, f.name)}" for f in fields(self))
