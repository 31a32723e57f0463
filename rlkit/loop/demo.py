"""The demo: QLoRA against the sandbox, measured before and after on held-out problems."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.closed_loop import ClosedLoop
from rlkit.loop.config import LoopConfig
from rlkit.loop.evaluation import Evaluation
from rlkit.objectives import GRPO, Truncate
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.sampler import RolloutKind

#: Steps after which the shipped `tiny` has learnt what the demo wants to show.
DEFAULT_STEPS = 60


@dataclass(frozen=True)
class DemoResult:
    """What the demo found out.

    Attributes:
        before, after: pass@1 on held-out problems.
        seconds: wall clock of everything after the imports.
        tokens: completion tokens sampled for training, in the whole run.
        peak_memory_mb: largest resident memory of this process.
        run: the run directory.
    """

    before: Evaluation
    after: Evaluation
    steps: int
    seconds: float
    tokens: int
    peak_memory_mb: float | None
    precision: str
    run: Path

    def to_dict(self) -> dict[str, Any]:
        return {
            "pass_at_1": {"before": self.before.pass_at_1, "after": self.after.pass_at_1},
            "interval": {
                "before": [self.before.low, self.before.high],
                "after": [self.after.low, self.after.high],
            },
            "by_domain": {
                name: {"before": self.before.by_domain[name].to_dict(), "after": after.to_dict()}
                for name, after in self.after.by_domain.items()
            },
            "steps": self.steps,
            "seconds": round(self.seconds, 2),
            "tokens": self.tokens,
            "peak_memory_mb": self.peak_memory_mb,
            "precision": self.precision,
            "run": str(self.run),
        }


def run_demo(
    *,
    policy: str = "tiny",
    domains: list[str],
    steps: int = DEFAULT_STEPS,
    run: Path,
    config: LoopConfig,
    objective: GRPO | None = None,
    lora: LoraSpec | None = None,
    quantize: str | None = "nf4",
    rollouts: RolloutKind = "exact",
    problems: int = 256,
    samples: int = 2,
    say: Callable[[str], None] = lambda text: None,
    progress: bool = True,
) -> DemoResult:
    """Trains a policy in four bits with LoRA, and measures what that changed.

    Args:
        rollouts: as in `Policy.load`; `fast` brings GRPO with a truncated weight for the gap
            to the rounded weights, unless an objective is given.
        problems, samples: size of the evaluations, before and after.
        say: called with a sentence at each stage.

    Raises:
        UserError: see `Policy.load`, `ClosedLoop` and `Run.create`.
    """
    if steps < 1:
        raise UserError(f"steps must be at least 1, not {steps}")
    objective = objective or GRPO(off_policy=Truncate(2.0) if rollouts == "fast" else None)
    config.check_group(objective)  # before anything is loaded
    started = time.perf_counter()
    loaded = Policy.load(
        policy, quantize=quantize, lora=lora or LoraSpec(), seed=config.seed, rollouts=rollouts
    )
    total, trained = loaded.parameter_counts()
    say(f"policy {policy}: {total:,} parameters, {trained:,} of them trained; {loaded.precision}")
    loop = ClosedLoop(loaded, domains, objective, config, run=run)
    if loop.steps_done:
        say(f"going on from step {loop.steps_done} of {run}")
    isolation = loop.judge.isolation()
    if isolation is not None:
        say("sandbox: {backend}, {level}: {sentence}".format(**isolation))
    before = loop.first_evaluation(problems, samples)
    for line in before.by_domain.values():
        say(f"before  {line}")
    loop.run(steps, progress=progress)
    after = loop.evaluate(problems, samples)
    for line in after.by_domain.values():
        say(f"after   {line}")
    return DemoResult(
        before=before,
        after=after,
        steps=loop.steps_done,
        seconds=time.perf_counter() - started,
        tokens=loop.tokens_done,
        peak_memory_mb=peak_memory_mb(),
        precision=str(loaded.precision),
        run=run,
    )


def peak_memory_mb() -> float | None:
    """Largest resident memory of this process so far, in MB; `None` where unknown."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
