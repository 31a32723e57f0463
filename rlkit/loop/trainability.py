"""Trainability: whether a run would learn anything, found out before it is started.

A group whose answers are all worth the same teaches nothing. With pass rate p on a problem
and G independent answers that happens with probability p^G + (1 - p)^G, so the share of
groups with contrast is 1 - p^G - (1 - p)^G, averaged over problems. It is what group
baselines (GRPO and its kin) live on, and it says before a run what `frac_reward_zero_std`
says in it.

How it is estimated is in `rlkit.loop.contrast`, what is made of it in
`rlkit.loop.verdicts`.

Left out: whether the reward is the right one (see `rlkit audit`), and what changes while
the policy learns: a run that starts slowly may pick up, and one that starts well saturates.

Axes: n samples of a problem, G rollouts of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.verdicts import DomainTrainability, Seen, judge_problems

#: Training problems are drawn from a stream of their own.
_SEED = 20_011


@dataclass(frozen=True)
class Trainability:
    """Whether a run would learn, what it would cost, and why.

    Attributes:
        overall: all domains together; its verdict is the run's.
        domains: each domain.
        group_size, problems_per_step, steps: of the run that is asked about.
        wasted: expected share of rollouts that teach nothing.
        seconds_per_step: measured on a step that was taken and undone.
        minutes: of `steps` such steps.
        memory_mb: largest resident memory of this process, after such a step; `None`
            where unknown.
        gpu_memory_mb: largest memory that was taken on a GPU; `None` without one.
    """

    overall: DomainTrainability
    domains: tuple[DomainTrainability, ...]
    group_size: int
    problems_per_step: int
    steps: int
    wasted: float
    seconds_per_step: float
    minutes: float
    memory_mb: float | None
    gpu_memory_mb: float | None

    @property
    def trainable(self) -> bool:
        return self.overall.verdict == "trainable"

    def require(self, force: bool = False) -> Trainability:
        """Itself, where the run would learn or is forced.

        Raises:
            UserError: it would not; with the reason and what to change.
        """
        if self.trainable or force:
            return self
        raise UserError(
            f"{self.overall.verdict}: {self.overall.reason} {' '.join(self.overall.advice)}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"trainable": self.trainable, "verdict": self.overall.verdict, **asdict(self)}

    def __str__(self) -> str:
        lines = [f"{self.overall.verdict}: {self.overall.reason}", *self.overall.advice]
        lines += [str(d) for d in self.domains]
        memory = "unknown" if self.memory_mb is None else f"{self.memory_mb:.0f} MB"
        gpu = "" if self.gpu_memory_mb is None else f", {self.gpu_memory_mb:.0f} MB on the GPU"
        lines.append(
            f"{self.wasted:.0%} of the rollouts would teach nothing at the start; {self.steps} "
            f"steps take about {self.minutes:.1f} minutes ({self.seconds_per_step:.2f} s a step), "
            f"memory {memory}{gpu}"
        )
        return "\n".join(lines)


def trainability(
    policy: Any,
    domains: Sequence[Any],
    config: Any = None,
    *,
    reward: Any = None,
    objective: Any = None,
    problems: int = 32,
    samples: int | None = None,
    steps: int = 60,
) -> Trainability:
    """Asks the policy training problems, and says whether a run on them would learn.

    Takes two steps to time them, and undoes them; the policy is put back.

    Args:
        policy: a `Policy`, or what `Policy.load` takes; then with LoRA and in four bits.
        domains: names or `Domain` objects.
        config: the `LoopConfig` of the run that is asked about.
        reward: as in `ClosedLoop`.
        objective: for the timed steps; GRPO when not given.
        problems: training problems of each domain that are asked.
        samples: answers to each, at least the group's size; twice that when not given.
        steps: of the run that is asked about.

    Raises:
        UserError: as `ClosedLoop`, or sizes out of range.

    >>> found = trainability("tiny", ["arith"], problems=6, samples=8, steps=10)
    >>> found.overall.verdict, 0 < found.overall.contrast <= 1
    ('trainable', True)
    """
    from rlkit.loop.config import LoopConfig
    from rlkit.loop.judging import Judge
    from rlkit.loop.state import untouched
    from rlkit.policy import LoraSpec, Policy
    from rlkit.policy.value_head import borrowed_value_head
    from rlkit.tasks import get_domains

    config = config or LoopConfig()
    size = config.group_size
    samples = max(2 * size, 8) if samples is None else samples
    if problems < 2 or steps < 1 or samples < max(size, 2):
        raise UserError(
            f"problems={problems} must be at least 2, steps={steps} at least 1, and "
            f"samples={samples} at least the group's size, {size}"
        )
    domains = get_domains(domains)
    for domain in domains:
        domain.check_difficulty(config.difficulty)
    if isinstance(policy, (str, Path)):
        policy = Policy.load(policy, lora=LoraSpec(), seed=config.seed)
    judge = Judge(domains, reward)
    seen: list[Seen] = []
    with untouched(policy):
        for domain in domains:
            asked = _training_problems(domain, config.difficulty, problems)
            budget = config.max_new_tokens or domain.max_new_tokens
            groups = policy.generate(asked, samples, budget, config.temperature)
            judged = judge.judge(groups)
            seen += [
                Seen(
                    domain.name,
                    [score.value for score in scores],
                    solved,
                    sum(r.finish_reason == "length" for r in group.rollouts) / len(group),
                    next((s.reason for s in scores if s.value is None and s.reason), ""),
                )
                for group, scores, solved in zip(groups, judged.scores, judged.solved, strict=True)
            ]
        wanted = objective is not None and objective.needs_value
        with borrowed_value_head(policy, objective.value_trunk) if wanted else untouched(policy):
            seconds = _timed(policy, domains, objective, config, reward)
    rows = [
        judge_problems(
            [s for s in seen if s.domain == d.name], d.name, config.difficulty, size, samples, d
        )
        for d in domains
    ]
    overall = rows[0] if len(rows) == 1 else judge_problems(seen, "all", None, size, samples, None)
    if len(rows) > 1:
        overall = _with_domains(overall, rows)
    return Trainability(
        overall=overall,
        domains=tuple(rows),
        group_size=size,
        problems_per_step=config.problems_per_step,
        steps=steps,
        wasted=1 - overall.contrast,
        seconds_per_step=seconds,
        minutes=steps * seconds / 60,
        memory_mb=_memory(),
        gpu_memory_mb=_gpu_memory(policy),
    )


def _with_domains(
    overall: DomainTrainability, rows: Sequence[DomainTrainability]
) -> DomainTrainability:
    from dataclasses import replace

    weak = [f"{row.domain} is {row.verdict}" for row in rows if row.verdict != "trainable"]
    if not weak:
        return overall
    return replace(overall, advice=(*overall.advice, f"By itself, {'; '.join(weak)}."))


# -- the probe ---------------------------------------------------------------------------------


def _training_problems(domain: Any, level: int, count: int) -> list[Any]:
    """Different training problems, or fewer where a domain has no more."""
    unique: dict[str, Any] = {}
    stream = domain.stream(_SEED, level, "train")
    for _ in range(20 * count):
        problem = next(stream)
        unique.setdefault(problem.key, problem)
        if len(unique) == count:
            break
    return list(unique.values())


def _timed(policy: Any, domains: Any, objective: Any, config: Any, reward: Any) -> float:
    """Seconds of a step: the second of two, as the first one warms everything up."""
    from rlkit.loop.closed_loop import ClosedLoop

    loop = ClosedLoop(policy, domains, objective, config, reward=reward)
    return [record["step_time"] for record in (loop.step(), loop.step())][-1]


def _memory() -> float | None:
    from rlkit.loop.demo import peak_memory_mb

    return peak_memory_mb()


def _gpu_memory(policy: Any) -> float | None:
    import torch

    if policy.device.type != "cuda":
        return None
    return round(torch.cuda.max_memory_allocated(policy.device) / (1 << 20), 1)
