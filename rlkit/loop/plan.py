"""Plan: how much memory and how many seconds a step will take, before a run is started.

First the model's size is counted from its configuration, without its weights: what cannot be
loaded is not loaded. Then some small real steps run in a process of their own
(`rlkit.loop.plan_probe`), and what they took is carried over to the size that is asked for
(`rlkit.loop.plan_fit`). Where that is more than the machine has, the plan says what to lower
and to what.

Planned is the step at its dearest: every answer uses its whole budget and every group is
learned from. `docs/plan.md` compares plans with what was seen.

Left out: the memory of the sandbox's processes, the time of slow rewards, and GPUs, whose
memory `rlkit.scale.memory` estimates.

Axes: B problems, G rollouts a problem, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.plan_advice import after_a_kill, model_advice, what_fits
from rlkit.loop.plan_counted import Counted, check_size, count, own_rank
from rlkit.loop.plan_fit import Fit, Prediction
from rlkit.loop.plan_machine import available_mb
from rlkit.loop.plan_sizes import Size, first_size, generations, in_two, second_size

#: Above this share of the memory a plan is called tight: a plan may be off by a fifth.
TIGHT = 0.8
#: A process with torch and transformers and no model, in MB: what a step starts from.
BARE_MB = 450.0
#: The signal by which a system ends a process that takes too much memory.
KILLED = 9


@dataclass(frozen=True)
class Plan:
    """What a step will take, and whether it fits.

    Attributes:
        policy, quantize, rank, rollouts, learner: what was planned for, as it would run.
        size: of the step.
        peak_mb: largest memory of the process; `None` where the system does not tell.
        seconds: of a step.
        prediction: both by what they are for; `None` where not even the model fits.
        counted: from the configuration alone.
        limit_mb: memory that there is; `None` where unknown.
        fits: `None` where it is not known.
        advice: what to lower, and to what value; each line would do by itself.
        probe_s: how long the probe took.
    """

    policy: str
    quantize: str | None
    rank: int
    rollouts: str
    learner: str
    size: Size
    peak_mb: float | None
    seconds: float | None
    prediction: Prediction | None
    counted: Counted
    limit_mb: float | None
    fits: bool | None
    advice: tuple[str, ...]
    probe_s: float

    @property
    def tight(self) -> bool:
        """Whether it fits on paper only: a plan may be off by a fifth."""
        known = bool(self.fits) and self.peak_mb is not None and self.limit_mb is not None
        return known and self.peak_mb > TIGHT * self.limit_mb

    def require(self) -> Plan:
        """Itself, where the step fits or nobody knows.

        Raises:
            UserError: it does not; with what to lower.
        """
        if self.fits is False:
            raise UserError(self.refusal())
        return self

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tight": self.tight}

    def refusal(self) -> str:
        """One sentence for a step that does not fit: what it takes, and what to lower."""
        needed = "more" if self.peak_mb is None else f"about {self.peak_mb:.0f} MB"
        there = "less" if self.limit_mb is None else f"{self.limit_mb:.0f} MB"
        return f"such a step takes {needed}, and there are {there}; " + "; or ".join(self.advice)

    def __str__(self) -> str:
        size, found = self.size, self.prediction
        lines = [
            f"{self.policy}, {self.quantize or 'not quantised'}, rank {self.rank}, rollouts "
            f"{self.rollouts}, learner {self.learner}",
            f"{size.problems} problems x {size.group_size} rollouts, {size.prompt_tokens} prompt "
            f"tokens, {size.new_tokens} new tokens",
        ]
        if found is not None:
            lines += [
                f"{self.seconds:.1f} s a step: {found.generate_s:.1f} generating, "
                f"{found.update_s:.1f} learning, {found.other_s:.1f} for the rest",
                f"{found.part.parts} micro-batches, {found.part.rows} rollouts in the largest",
            ]
        if found is not None and self.peak_mb is not None:
            lines.append(
                f"{self.peak_mb:.0f} MB at most: {found.load_mb:.0f} loading, "
                f"{found.generate_mb:.0f} generating, {found.update_mb:.0f} learning"
            )
        if self.limit_mb is not None:
            lines.append(f"{self.limit_mb:.0f} MB of memory can be had")
        verdict = {True: "it fits", False: "it does not fit", None: "whether it fits is not known"}
        tight = ", but a plan may be off by a fifth" if self.tight else ""
        return "\n".join([*lines, verdict[self.fits] + tight, *self.advice])


def plan(
    policy: str,
    size: Size,
    *,
    quantize: str | None = "nf4",
    rank: int = 16,
    rollouts: str = "exact",
    learner: str = "auto",
    seed: int = 0,
    memory_limit_mb: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Plans a step of a size.

    Args:
        policy: what `Policy.load` takes.
        size: of the step.
        quantize, rollouts, learner, seed: as in `Policy.load`; `rank` of its adapter.
        memory_limit_mb: memory that there is; what can be had here now when not given.
        say: called with a sentence before what takes a while.

    Raises:
        UserError: a policy that cannot be loaded, or a size that it cannot have.
    """
    _refuse_gpu()
    rank = own_rank(policy) or rank
    check_size(policy, size)
    limit = available_mb() if memory_limit_mb is None else float(memory_limit_mb)
    counted = count(policy, quantize, rank, rollouts)
    settings = {"policy": policy, "quantize": quantize, "rank": rank, "seed": seed}
    ways = {"rollouts": rollouts, "learner": learner}
    begun = time.perf_counter()

    def made(**found: Any) -> Plan:
        known = {
            **{n: v for n, v in settings.items() if n != "seed"},
            **ways,
            "size": size,
            "peak_mb": None,
            "seconds": None,
            "prediction": None,
            "counted": counted,
            "limit_mb": limit,
            "advice": (),
            "probe_s": round(time.perf_counter() - begun, 2),
        }
        return Plan(**{**known, **found})

    base = _own_mb()
    if limit is not None and base + counted.total_mb > limit:
        advice = model_advice(counted, quantize, rank, limit - base)
        return made(peak_mb=base + counted.total_mb, fits=False, advice=advice)
    say(f"counted: {counted.total_mb:.0f} MB beside Python; some small steps are taken")
    rows = probe({**settings, **ways}, size)
    if rows is None:
        advice = (after_a_kill(size), *model_advice(counted, quantize, rank, limit))
        return made(fits=False, advice=advice)
    fit = Fit(rows)
    about = next(row["about"] for row in rows if row["kind"] == "facts")
    ways = {"rollouts": about["rollouts"], "learner": about.get("learner", learner)}
    found = fit.predict(size)
    fits = None if limit is None or found.peak_mb is None else found.peak_mb <= limit
    advice: tuple[str, ...] = ()
    if fits is False:
        advice = what_fits(fit, size, limit)
        advice = advice or model_advice(counted, quantize, rank, limit - base)
    return made(
        peak_mb=found.peak_mb, seconds=found.seconds, prediction=found, fits=fits, advice=advice
    )


def probe(settings: Mapping[str, Any], size: Size) -> list[dict[str, Any]] | None:
    """A smaller and a larger step, each in a fresh process; `None` if one was killed for memory."""
    first = first_size(size)
    settings = {**settings, "size": size.to_dict()}
    lengths = [one.to_dict() for one in generations(size)]
    small = run_probe({**settings, "steps": [first.to_dict()], "generations": lengths})
    if small is None:
        return None
    seconds = next(r for r in small if r["kind"] == "step" and not r.get("warm"))["step_s"]
    second = second_size(size, first, seconds, small[0]["tokens_at_once"])
    both = [second.to_dict(), in_two(second).to_dict()]
    large = run_probe({**settings, "steps": both})
    return None if large is None else small + large


def run_probe(settings: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Runs `rlkit.loop.plan_probe` in a process of its own; `None` if it was killed for memory.

    Raises:
        UserError: what the probe says it cannot do.
        RuntimeError: the probe broke, with its last lines.
    """
    done = subprocess.run(
        [sys.executable, "-m", "rlkit.loop.plan_probe", json.dumps(settings)],
        capture_output=True,
        text=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    refused = next((row["why"] for row in rows if row["kind"] == "cannot"), None)
    if refused is not None:
        raise UserError(refused)
    if done.returncode in (-KILLED, 128 + KILLED) or _no_memory(done.stderr):
        return None
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise RuntimeError(f"the probe ended with exit code {done.returncode}:\n{last}")
    return rows


def _refuse_gpu() -> None:
    import torch

    if torch.cuda.is_available():
        raise UserError(
            "a policy would be trained on this machine's GPU, and a plan measures main memory; "
            "hide it with CUDA_VISIBLE_DEVICES=-1 to plan for the processor, or let "
            "rlkit.scale.memory estimate the GPU's"
        )


def _no_memory(said: str) -> bool:
    return "MemoryError" in said or "can't allocate memory" in said


def _own_mb() -> float:
    """What Python and the libraries hold, at most; this process may hold much else."""
    from rlkit.loop.plan_probe import held_mb

    return min(BARE_MB, held_mb() or 0.0)
