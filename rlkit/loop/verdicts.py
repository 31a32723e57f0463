"""Verdicts: what a probe of some problems says about a run on them, and why.

A verdict comes with its reason and with what to change; where the reward has contrast and
solving has none, or the other way round, that is said.

Axes: n samples of a problem, G rollouts of a group.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.loop.contrast import chance_of_contrast, pass_at
from rlkit.loop.evaluation import evaluate_domain, wilson
from rlkit.objectives import DEAD_BELOW

#: Below this share of groups with contrast a run is refused: three of four groups are paid
#: for and teach nothing. Of the twelve runs in docs/trainability.md none below it learnt.
LEAST_CONTRAST = 0.25
#: Below this share of pairs in which the solved answer is paid more than the unsolved one,
#: the reward does not say what solving is.
LEAST_PREFERENCE = 0.5
#: Below this pass rate there is little to prefer, whatever the contrast.
LITTLE_TO_PREFER = 0.1
#: Above this share of answers without a verdict nothing can be said.
MOST_UNSCORED = 0.5
#: What can be said of a run.
VERDICTS = ("trainable", "too easy", "too hard", "flat reward", "no verdicts")


@dataclass(frozen=True)
class DomainTrainability:
    """What was found out about one domain, or about all together.

    Attributes:
        domain: its name; `all` for all together.
        difficulty: its level; `None` for all together.
        problems, samples: size of the probe: problems, and answers to each.
        pass_at_1: share of answers that solve their problem, with its 95 % interval
            `pass_low`, `pass_high`; `None` without verdicts.
        pass_at_group: share of problems that one of G answers solves.
        contrast: share of groups of G answers whose rewards differ, with its 95 %
            interval over problems, `contrast_low` and `contrast_high`.
        pass_contrast: the same, if only solving the problem were paid.
        prefers_solved: of all pairs of a solved and an unsolved answer to one problem, the
            share in which the solved one is paid more; `None` without such pairs.
        all_solved, none_solved: share of groups in which every answer solves, or none.
        reward, spread: mean of the rewards, and mean deviation within a problem.
        unscored: share of answers without a verdict.
        clipped: share of answers cut by the token budget.
        verdict: one of `VERDICTS`.
        reason: why, in a sentence.
        advice: what to change.
    """

    domain: str
    difficulty: int | None
    problems: int
    samples: int
    pass_at_1: float | None
    pass_low: float | None
    pass_high: float | None
    pass_at_group: float | None
    contrast: float
    contrast_low: float
    contrast_high: float
    pass_contrast: float | None
    prefers_solved: float | None
    all_solved: float
    none_solved: float
    reward: float | None
    spread: float | None
    unscored: float
    clipped: float
    verdict: str
    reason: str
    advice: tuple[str, ...]

    def __str__(self) -> str:
        level = "" if self.difficulty is None else f", level {self.difficulty}"
        passed = "no verdict"
        if self.pass_at_1 is not None:
            passed = f"pass@1 {self.pass_at_1:.3f} [{self.pass_low:.3f}, {self.pass_high:.3f}]"
        return (
            f"{self.domain}{level}: {passed}, contrast {self.contrast:.2f} "
            f"[{self.contrast_low:.2f}, {self.contrast_high:.2f}]: {self.verdict}"
        )


@dataclass(frozen=True)
class Seen:
    """Answers to one problem: rewards, whether they solve, share cut, why not judged."""

    domain: str
    rewards: list[float | None]
    solved: list[bool | None]
    clipped: float
    why: str


def judge_problems(
    seen: Sequence[Seen], name: str, level: int | None, size: int, samples: int, domain: Any
) -> DomainTrainability:
    """Numbers and verdict of some problems."""
    draws = max(2, size)
    passed = evaluate_domain(name, [s.solved for s in seen], samples)
    chances = [chance_of_contrast(s.rewards, draws) for s in seen]
    contrast = statistics.fmean(chances)
    low, high = wilson(contrast, len(chances))
    known = [[v for v in s.solved if v is not None] for s in seen]
    full = [row for row in known if len(row) >= draws]
    all_solved = [_all_of(len(row), sum(row), draws) for row in full]
    none_solved = [_all_of(len(row), len(row) - sum(row), draws) for row in full]
    rewards = [[v for v in s.rewards if v is not None] for s in seen]
    flat = [v for row in rewards for v in row]
    spreads = [statistics.stdev(row) for row in rewards if len(row) > 1]
    total = sum(len(s.rewards) for s in seen)
    unscored = 1 - len(flat) / total
    numbers = {
        "domain": name,
        "difficulty": level,
        "problems": len(seen),
        "samples": samples,
        "pass_at_1": passed.pass_at_1,
        "pass_low": passed.low,
        "pass_high": passed.high,
        "pass_at_group": _mean([pass_at(len(row), sum(row), draws) for row in full]),
        "contrast": contrast,
        "contrast_low": low,
        "contrast_high": high,
        "pass_contrast": _mean([chance_of_contrast([float(v) for v in r], draws) for r in full]),
        "prefers_solved": _preference(seen),
        "all_solved": _mean(all_solved) or 0.0,
        "none_solved": _mean(none_solved) or 0.0,
        "reward": _mean(flat),
        "spread": _mean(spreads),
        "unscored": unscored,
        "clipped": statistics.fmean(s.clipped for s in seen),
    }
    verdict, reason, advice = _verdict(
        numbers, size, domain, next((s.why for s in seen if s.why), "")
    )
    return DomainTrainability(**numbers, verdict=verdict, reason=reason, advice=tuple(advice))


def _preference(seen: Sequence[Seen]) -> float | None:
    better = pairs = 0
    for one in seen:
        rows = [*zip(one.rewards, one.solved, strict=True)]
        right = [reward for reward, solved in rows if solved and reward is not None]
        wrong = [reward for reward, solved in rows if solved is False and reward is not None]
        pairs += len(right) * len(wrong)
        better += sum(a > b + DEAD_BELOW for a in right for b in wrong)
    return better / pairs if pairs else None


def _all_of(count: int, right: int, draws: int) -> float:
    return math.comb(right, draws) / math.comb(count, draws)


def _verdict(n: dict[str, Any], size: int, domain: Any, why: str) -> tuple[str, str, list[str]]:
    """The verdict, its reason, and what to change."""
    share = f"{n['contrast']:.0%} of groups of {size} have answers that are worth different amounts"
    if n["unscored"] > MOST_UNSCORED:
        told = f" The first reason: {why}." if why else ""
        return (
            "no verdicts",
            f"{n['unscored']:.0%} of the answers got no verdict.{told}",
            ["Make the reward judge them first: `rlkit audit` shows what it does."],
        )
    advice = _remarks(n)
    if (
        (n["pass_contrast"] or 0.0) >= LEAST_CONTRAST
        and n["prefers_solved"] is not None
        and n["prefers_solved"] < LEAST_PREFERENCE
    ):
        advice.append("Check what the reward pays for with `rlkit audit`.")
        return (
            "flat reward",
            f"in {n['prefers_solved']:.0%} of the pairs of a solved and an unsolved answer is the "
            f"solved one paid more. {share}.",
            advice,
        )
    if n["contrast"] >= LEAST_CONTRAST:
        if (n["pass_contrast"] or 0.0) < LEAST_CONTRAST:
            advice.append(
                "But hardly any group differs in whether the problem is solved: what is learned "
                "at first is what the rest of the reward pays for."
            )
        return "trainable", f"{share}.", advice
    least = f"{share}, below the {LEAST_CONTRAST:.0%} that a run is worth."
    solved = "unknown" if n["pass_at_1"] is None else f"{n['pass_at_1']:.1%}"
    if n["all_solved"] > n["none_solved"]:
        up = "Ask for something harder"
        if domain is not None and n["difficulty"] < domain.levels:
            up += f": level {n['difficulty'] + 1} of {domain.name}"
        advice.append(f"{up}, or measure a finer reward. More rollouts a problem hardly help.")
        return "too easy", f"{least} {solved} of the answers solve their problem.", advice
    down = "Ask for something easier"
    if domain is not None and n["difficulty"] > 1:
        down += f": level {n['difficulty'] - 1} of {domain.name}"
    advice.append(
        f"{down}; pay for parts of a solution; let it imitate right answers first; or take more "
        f"rollouts a problem than {size}."
    )
    return "too hard", f"{least} {solved} of the answers solve their problem.", advice


def _remarks(n: dict[str, Any]) -> list[str]:
    """What is worth knowing whatever the verdict."""
    told = []
    if n["clipped"] > 0.3:
        told.append(
            f"{n['clipped']:.0%} of the answers are cut by the token budget: raise max_new_tokens."
        )
    if n["unscored"] > 0.05:
        told.append(f"{n['unscored']:.0%} of the answers get no verdict and teach nothing.")
    enough = n["contrast"] >= LEAST_CONTRAST
    if enough and n["pass_at_1"] is not None and n["pass_at_1"] < LITTLE_TO_PREFER:
        told.append(
            f"Only {n['pass_at_1']:.1%} of the answers solve their problem: a run starts slowly, "
            "and what the policy does not know at all is not taught by a reward."
        )
    if enough and n["contrast"] < 0.5:
        told.append(
            "More than half of the rollouts would teach nothing: max_refills=2 replaces them."
        )
    return told


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
