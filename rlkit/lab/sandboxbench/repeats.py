"""The same job many times: which of its tests do not always end alike?

A flaky test pays by chance. Here a job is run again and again, without any cache, and the
runs are laid below each other in a map.

Left out on purpose: why. A program may ask a die, the clock, or for an address in memory; the
lesson on the sandbox goes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.sandboxbench.verdict_map import VerdictMap, verdict_map
from rlkit.lab.theme import visible
from rlkit.sandbox.types import Job, Verdict

#: More runs than this are no demonstration any more.
MOST_RUNS = 1000


@dataclass(frozen=True)
class Repeats:
    """What came of running one job many times.

    Attributes:
        verdicts: one for each run.
        same_seed: whether all runs had the same seed for `random`.
    """

    verdicts: Sequence[Verdict]
    same_seed: bool = False

    @property
    def differ(self) -> list[str]:
        """Names of the tests that did not always end alike."""
        columns = zip(*(verdict.tests for verdict in self.verdicts), strict=True)
        return [results[0].name for results in columns if len({r.status for r in results}) > 1]

    @property
    def flaky(self) -> bool:
        """Whether any two runs ended differently."""
        return bool(self.differ) or len({verdict.status for verdict in self.verdicts}) > 1

    @property
    def sentence(self) -> str:
        """What was found, for a person."""
        count = len(self.verdicts)
        seeds = "the same seed" if self.same_seed else "another seed each time"
        if not self.flaky:
            return f"All {count} runs ended alike ({seeds}). That is no proof: only {count} runs."
        rewards = {v.reward for v in self.verdicts if v.reward is not None}
        spread = f", with rewards from {min(rewards):.2g} to {max(rewards):.2g}" if rewards else ""
        names = ", ".join(visible(name) for name in self.differ)
        return f"Flaky: {count} runs ({seeds}){spread}. They differ in: {names or 'how they end'}."

    @cached_property
    def map(self) -> VerdictMap:
        """The runs below each other."""
        rows = [f"run {n + 1}" for n in range(len(self.verdicts))]
        return verdict_map(self.verdicts, rows, title=f"One job, {len(rows)} times", kind="run")

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.map}"


def repeat(sandbox: Any, job: Job, times: int = 10, *, same_seed: bool = False) -> Repeats:
    """Runs a job many times, without any cache.

    Args:
        sandbox: where it runs.
        job: what runs.
        times: how often, 2 or more.
        same_seed: whether all runs get the job's own seed for `random`, or each another.

    Raises:
        UserError: fewer than two runs, or more than a thousand.

    >>> from rlkit.sandbox import Sandbox, TestSpec
    >>> job = Job(source="import random\\ndef f(): return random.random() < 0.5", entry="f",
    ...           tests=[TestSpec("coin", expected=True)])
    >>> with Sandbox(workers=1, allow_unsafe=True) as sandbox:
    ...     repeat(sandbox, job, 12).differ, repeat(sandbox, job, 12, same_seed=True).differ
    (['coin'], [])
    """
    if not isinstance(times, int) or not 2 <= times <= MOST_RUNS:
        raise UserError(f"times={times!r}; give a number of runs from 2 to {MOST_RUNS}")
    job = job.drawn()
    jobs = [
        replace(job, seed=job.seed + (0 if same_seed else n), cache="off") for n in range(times)
    ]
    return Repeats(sandbox.run_many(jobs), same_seed)
