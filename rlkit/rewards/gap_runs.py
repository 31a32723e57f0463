"""gap_runs: ten recorded runs of lesson 03, five through a hole and five without one.

Each is 50 updates of `tiny` on countdown (12 problems, 8 answers each, learning rate
4e-3): the mean reward of every step's 96 answers, and the truth of 32 held-out answers,
which is what one can afford in practice. They are what an alarm is tried on.

Left out: the answers themselves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

#: A reward above this, to the end of the run, is what a person would call success.
TRIUMPH = 0.9


@dataclass(frozen=True)
class GapRun:
    """One recorded run.

    Attributes:
        name: verifier and seed.
        holey: whether the verifier had a hole.
        proxy: mean reward of each step.
        truth: share of right answers among 32 held-out ones after each step.
    """

    name: str
    holey: bool
    proxy: tuple[float, ...]
    truth: tuple[float, ...]

    @property
    def too_late(self) -> int | None:
        """The first step of the first five in a row above `TRIUMPH`; `None` without any.

        >>> GapRun("x", True, (0.5, 0.95, 0.96, 0.97, 0.98, 0.99), (0.0,) * 6).too_late
        2
        """
        for start in range(len(self.proxy) - 4):
            if min(self.proxy[start : start + 5]) > TRIUMPH:
                return start + 1
        return None


def gap_runs() -> list[GapRun]:
    """The recorded runs, those with a hole first.

    >>> [run.holey for run in gap_runs()].count(True), len(gap_runs())
    (5, 10)
    """
    text = files("rlkit.rewards").joinpath("gap_runs.json").read_text(encoding="utf-8")
    return [
        GapRun(row["name"], row["holey"], tuple(row["proxy"]), tuple(row["truth"]))
        for row in json.loads(text)
    ]
