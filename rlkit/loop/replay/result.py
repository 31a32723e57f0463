"""Replay: what several objectives would have made of the same batch, side by side.

Left out: several steps in a row; the effect of one update says little about a hundred.

Axes: N rollouts in the batch's order, T completion tokens, K objectives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.objectives import Objective, get_objective

if TYPE_CHECKING:
    from rlkit.loop.config import LoopConfig
    from rlkit.loop.metrics import Batch
    from rlkit.policy import Group, Policy


@dataclass(frozen=True)
class ReplayedRollout:
    """One answer of the batch.

    Attributes:
        group, index: its place.
        question, text: what was asked and answered.
        tokens: the text of each token, the end mark included.
        reward: what it was worth; `None` without a verdict.
        solved: whether it solved its problem; `None` without a verdict.
    """

    group: int
    index: int
    question: str
    text: str
    tokens: tuple[str, ...]
    reward: float | None
    solved: bool | None


@dataclass(frozen=True)
class ReplayedObjective:
    """The update that one objective would make.

    Attributes:
        name: its label.
        loss: its value on the batch.
        grad_norm: length of the gradient over the policy's own parameters, before clipping.
        update_norm: length of the step that the optimizer takes.
        clipped: share of tokens whose gradient the clip takes away (or the cap holds).
        advantages: of each rollout, the mean over its tokens.
        weights: minus the derivative of the loss by each token's log-probability: above 0
            the token is pushed up, below 0 down, at 0 it is left alone.
        changes: what one step does to each token's log-probability, in nats.
        pass_rate: held-out pass@1 after the step; `None` when it was not measured.
        gain: its difference to before, on the same problems and random numbers.
        low, high: 95 % interval of `gain` over problems.
        note: what else has to be known, such as a fresh value head.
    """

    name: str
    loss: float
    grad_norm: float
    update_norm: float
    clipped: float
    advantages: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    changes: tuple[tuple[float, ...], ...]
    pass_rate: float | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def rollout_changes(self) -> tuple[float, ...]:
        """What one step does to the log-probability of each whole answer, in nats."""
        return tuple(math.fsum(row) for row in self.changes)

    @property
    def silent(self) -> float:
        """Share of tokens that are left alone."""
        flat = [weight for row in self.weights for weight in row]
        return sum(weight == 0 for weight in flat) / max(1, len(flat))


@dataclass(frozen=True)
class Replay:
    """What each objective would have made of one batch.

    Attributes:
        step: number of the step that drew the batch; `None` when it is of no run.
        policy: the policy's name.
        weights: which weights are in use, in a sentence.
        exact: whether they are those that drew the batch.
        max_ratio_error: largest |ratio - 1| of a token before any objective's step.
        learning_rate: of the step that is tried.
        optimizer: whose moments are in use, in a sentence.
        pass_rate: held-out pass@1 before; `None` when it was not measured.
        problems, samples: size of that measurement.
        rollouts: the answers.
        objectives: one entry for each objective.
        cosines: of the gradients, objective by objective; `None` where one is 0.

    >>> from rlkit import LoraSpec, Policy, get_domain
    >>> policy = Policy.load("tiny", quantize=None, lora=LoraSpec(rank=4))
    >>> groups = policy.generate(get_domain("arith").held_out(2), group_size=4, max_new_tokens=8)
    >>> found = Replay.from_batch(policy, groups, ["grpo", "rloo"], held_out=0)
    >>> [o.name for o in found.objectives], found.exact, len(found.rollouts)
    (['GRPO', 'RLOO'], True, 8)
    """

    step: int | None
    policy: str
    weights: str
    exact: bool
    max_ratio_error: float
    learning_rate: float
    optimizer: str
    pass_rate: float | None
    problems: int
    samples: int
    rollouts: tuple[ReplayedRollout, ...]
    objectives: tuple[ReplayedObjective, ...]
    cosines: tuple[tuple[float | None, ...], ...]

    @classmethod
    def from_batch(
        cls,
        policy: Policy,
        groups: Batch | Sequence[Group],
        objectives: Sequence[str | Objective] | Mapping[str, str | Objective],
        *,
        config: LoopConfig | None = None,
        reward: Any = None,
        optimizer: Any = None,
        ahead: int = 0,
        held_out: int = 64,
        samples: int = 4,
    ) -> Replay:
        """The same for a batch in memory, on the policy as it is now.

        Args:
            policy: put back to where it is when all is done, also after an error.
            groups: `loop.batch`, with its scores; or groups of rollouts, which are judged
                now, by their domains' own rewards or by `reward`.
            objectives: names of presets or objectives, or a mapping from label to one.
            config: learning rate, clip of the gradient and so on; the defaults when not
                given.
            reward: as in `ClosedLoop`; only for groups that are not judged yet.
            optimizer: whose moments are taken over, such as `loop.optimizer`; without
                one each objective takes the first step of a fresh optimizer.
            ahead: steps that GRPO takes on the batch first, so that ratios have moved and
                clips can act.
            held_out: problems a domain that the pass rate is measured on; 0 leaves it out.
            samples: samples a problem.

        Raises:
            UserError: no rollouts, no or unknown objectives, or sizes out of range.
        """
        from rlkit.loop.replay.memory import replay_batch

        return replay_batch(
            policy,
            groups,
            objectives,
            config=config,
            reward=reward,
            optimizer=optimizer,
            ahead=ahead,
            held_out=held_out,
            samples=samples,
        )

    def __getitem__(self, name: str) -> ReplayedObjective:
        """The objective of this label.

        Raises:
            UserError: there is none.
        """
        for objective in self.objectives:
            if objective.name.lower() == name.lower():
                return objective
        known = ", ".join(o.name for o in self.objectives)
        raise UserError(f"this replay has no objective {name!r}; it has {known}")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, numbers with six significant digits."""
        body = asdict(self)
        for objective, row in zip(self.objectives, body["objectives"], strict=True):
            row["rollout_changes"] = objective.rollout_changes
            row["silent"] = objective.silent
        return _rounded(body)

    def table(self) -> list[dict[str, Any]]:
        """One row an objective: what a table shows of it.

        The loss is left out: it is near 0 whatever the update, see `ReplayedObjective.loss`.
        """
        rows = []
        for k, objective in enumerate(self.objectives):
            pairs = zip(objective.rollout_changes, self.rollouts, strict=True)
            sides = [(change, r.solved) for change, r in pairs]
            rows.append(
                {
                    "objective": objective.name,
                    "gradient norm": objective.grad_norm,
                    "cosine to the first": self.cosines[k][0],
                    "step norm": objective.update_norm,
                    "tokens left alone": objective.silent,
                    "tokens clipped": objective.clipped,
                    "solved, nats": _mean([c for c, solved in sides if solved]),
                    "not solved, nats": _mean([c for c, solved in sides if solved is False]),
                    "pass@1 after": objective.pass_rate,
                    "change of pass@1": objective.gain,
                }
            )
        return rows

    def __str__(self) -> str:
        rows = self.table()
        heads = list(rows[0])
        cells = [heads] + [[_shown(row[h]) for h in heads] for row in rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        return "\n".join([*self.sentences(), "", *lines])

    __repr__ = __str__

    def sentences(self) -> list[str]:
        """What has to be known before the numbers are read."""
        where = "A batch in memory" if self.step is None else f"The batch of step {self.step}"
        groups = len({r.group for r in self.rollouts})
        told = [
            f"{where}: {len(self.rollouts)} answers to {groups} problems.",
            f"Weights: {self.weights}.",
            f"One step at learning rate {self.learning_rate:.3g}, with {self.optimizer}.",
        ]
        if self.max_ratio_error < 1e-3:
            told.append(
                "All ratios are 1, so no clip acts, and objectives that differ in their clip "
                "alone have the same gradient; ahead=2 moves the ratios first."
            )
        if self.pass_rate is not None:
            told.append(
                f"Held-out pass@1 before: {self.pass_rate:.3f} ({self.problems} problems, "
                f"{self.samples} samples each; after: the same problems and random numbers)."
            )
        return told + [f"{o.name}: {o.note}." for o in self.objectives if o.note]


def labelled(
    objectives: Sequence[str | Objective] | Mapping[str, str | Objective],
) -> dict[str, Objective]:
    """Objectives by label: the preset's name, and what was changed in it.

    Raises:
        UserError: none, an unknown name, or the same one twice.

    >>> from rlkit.objectives import GRPO
    >>> list(labelled(["dapo", GRPO(epsilon=0.1)]))
    ['DAPO', 'GRPO(epsilon=0.1)']
    """
    if isinstance(objectives, (str, Objective)):
        objectives = [objectives]
    if isinstance(objectives, Mapping):
        found = {str(name): get_objective(value) for name, value in objectives.items()}
    else:
        found = {}
        for given in objectives:
            objective = get_objective(given)
            changed = type(objective)().difference(objective)
            told = ", ".join(f"{name}={there}" for name, (_, there) in changed.items())
            label = type(objective).__name__ + (f"({told})" if told else "")
            if label in found:
                raise UserError(f"the objective {label} is given twice; give each one once")
            found[label] = objective
    if not found:
        raise UserError("the list of objectives is empty; give at least one, such as GRPO")
    return found


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.4g}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, (list, tuple)) else value
