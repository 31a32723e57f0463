"""What `rlkit trainability` says before a run, against what happens in it.

Twelve settings: domains, levels, group sizes, seeds, and two that are bad on purpose (a
reward that does not look at the answer, and a temperature at which the answers to a
problem are all alike). Each is probed, then trained as it was asked about.

Runs that are done are kept in a file and not done again.

Left out: runs that are long enough to pick up after a slow start.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: File of finished runs, in the folder given.
RUNS = "trainability.jsonl"


@dataclass(frozen=True)
class Case:
    """One setting."""

    domain: str
    level: int
    group_size: int
    seed: int
    reward: str | None = None
    temperature: float = 1.0

    @property
    def label(self) -> str:
        extra = f", reward {self.reward}" if self.reward else ""
        extra += f", temperature {self.temperature:g}" if self.temperature != 1.0 else ""
        return f"{self.domain} {self.level}, G={self.group_size}, seed {self.seed}{extra}"


CASES = (
    Case("pyfunc", 1, 8, 0),
    Case("pyfunc", 3, 4, 1),
    Case("arith", 1, 8, 2),
    Case("arith", 2, 8, 0),
    Case("arith", 3, 8, 1),
    Case("sort", 1, 2, 2),
    Case("sort", 2, 8, 0),
    Case("sort", 3, 8, 1),
    Case("countdown", 2, 8, 2),
    Case("countdown", 3, 16, 0),
    Case("arith", 1, 8, 1, reward="format_reward"),
    Case("pyfunc", 1, 8, 2, temperature=0.1),
)


def measure(
    cases: Sequence[Case] = CASES,
    *,
    steps: int = 40,
    problems: int = 32,
    held_out: int = 128,
    policy: str = "tiny",
    out: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """One row a setting: what was foretold, and what happened.

    Args:
        steps: of each run; all of them are paid for, whatever the verdict.
        problems: training problems that are asked before.
        held_out: problems of the evaluations before and after.
        out: folder whose file of finished runs is read and added to.
        say: called with a sentence after each run.
    """
    size = {"steps": steps, "problems": problems, "held_out": held_out, "policy": policy}
    done = _finished(out, size)
    rows = []
    for case in cases:
        row = done.get(case)
        if row is None:
            row = {**_run(case, **size), "size": size}
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                with (out / RUNS).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(row) + "\n")
            say(f"{case.label}: {row['verdict']}, gain {row['gain']:+.3f}")
        rows.append(row)
    return rows


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table as the docs show it."""
    lines = [
        "| setting | verdict | pass@1 | contrast foretold | seen, first 5 steps | seen, whole run "
        "| gain of held-out pass@1 | minutes foretold / taken |",
        "|---|---|---:|---|---:|---:|---|---|",
    ]
    for row in rows:
        case = Case(**row["case"])
        lines.append(
            f"| {case.label} | {row['verdict']} | {row['pass_at_1']:.3f} | {row['contrast']:.2f} "
            f"[{row['low']:.2f}, {row['high']:.2f}] | {row['seen_first']:.2f} "
            f"| {row['seen']:.2f} | {row['before']:.3f} → {row['after']:.3f} "
            f"({row['gain']:+.3f}) | {row['minutes']:.1f} / {row['took']:.1f} |"
        )
    return "\n".join(lines)


def _run(case: Case, *, steps: int, problems: int, held_out: int, policy: str) -> dict[str, Any]:
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.loop.trainability import trainability
    from rlkit.policy import LoraSpec, Policy

    config = LoopConfig(
        group_size=case.group_size,
        difficulty=case.level,
        temperature=case.temperature,
        seed=case.seed,
    )
    loaded = Policy.load(policy, quantize="nf4", lora=LoraSpec(), seed=case.seed)
    found = trainability(
        loaded, [case.domain], config, reward=case.reward, problems=problems, steps=steps
    )
    loop = ClosedLoop(loaded, [case.domain], config=config, reward=case.reward)
    before = loop.evaluate(held_out, 2).pass_at_1
    started = time.perf_counter()
    records = loop.run(steps, progress=False)
    took = (time.perf_counter() - started) / 60
    after = loop.evaluate(held_out, 2).pass_at_1
    alive = [1 - r["frac_reward_zero_std"] for r in records]
    told = found.overall
    return {
        "case": asdict(case),
        "verdict": told.verdict,
        "prefers_solved": told.prefers_solved,
        "pass_at_1": told.pass_at_1,
        "pass_at_group": told.pass_at_group,
        "contrast": told.contrast,
        "low": told.contrast_low,
        "high": told.contrast_high,
        "minutes": found.minutes,
        "seen_first": statistics.fmean(alive[:5]),
        "seen": statistics.fmean(alive),
        "before": before,
        "after": after,
        "gain": after - before,
        "took": took,
        "memory_mb": found.memory_mb,
    }


def _finished(out: Path | None, size: dict[str, Any]) -> dict[Case, dict[str, Any]]:
    file = None if out is None else out / RUNS
    if file is None or not file.exists():
        return {}
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off by a kill: that run is done again
        if row.get("size") == size:
            found[Case(**row["case"])] = row
    return found
