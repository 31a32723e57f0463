"""How the package's 2,000 rollouts are made: one short run of `tiny`, asked at five moments.

    python -m rlkit.lab.stored --make OUT --seed 0

The policy is trained for real over the four domains by the closed loop. Before the first
step and at four moments after it, 50 problems are put to it, 8 answers each: 20 problems
that are the same at every moment, so that one can compare, and 30 new ones. One in five
is of the second level, which it mostly fails, and one in ten has so small a budget that
long answers are cut off. All are training problems: what is held out
stays held out for those who train on these rollouts.

Left out on purpose: hand-picked completions. What is there is what was sampled.

Axes: B groups, G rollouts of a group.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.stored import (
    FACTS,
    FILE,
    StoredGroup,
    StoredRollout,
    StoredRollouts,
    write_rollouts,
)
from rlkit.tasks import Domain, Problem, domain_names, get_domain, get_domains

#: Steps of the run at which the policy is asked, the last one being its end.
MOMENTS = (0, 10, 25, 50, 100)
#: Problems of each moment that come up at every moment, and those that are new.
SAME, NEW = 20, 30
GROUP_SIZE = 8
#: One problem in so many is of the second level.
HARD_ONE_IN = 5
#: One problem in so many gets a budget of only so many tokens.
TIGHT_ONE_IN, TIGHT_BUDGET = 10, 12
#: Training problems a step.
PROBLEMS_PER_STEP = 16
#: Answers are sampled from streams of their own, far from those of the training.
_DRAWS = 1 << 29


def make(
    out: Path,
    *,
    seed: int = 0,
    moments: Sequence[int] = MOMENTS,
    same: int = SAME,
    new: int = NEW,
    say: Callable[[str], None] = lambda text: None,
) -> StoredRollouts:
    """Trains, asks, verifies, and writes `rollouts.jsonl.gz` and `facts.json` into `out`.

    Args:
        out: folder to write into; it is made when missing.
        seed: decides problems, adapter and everything that is sampled.
        moments: steps at which the policy is asked, ascending.
        same, new: problems of each moment.
        say: called with a sentence now and then.

    Raises:
        UserError: the folder holds such a file already, or the moments do not ascend.
    """
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.loop.judging import Judge
    from rlkit.policy import LoraSpec, Policy

    out = Path(out)
    if (out / FILE).exists():
        raise UserError(f"{str(out / FILE)!r} exists already; choose another folder")
    if list(moments) != sorted(set(moments)) or not moments or moments[0] < 0:
        raise UserError(f"the moments must be steps that ascend, not {list(moments)}")
    started = time.perf_counter()
    names = domain_names()[:4]
    domains = get_domains(names)
    config = LoopConfig(
        problems_per_step=PROBLEMS_PER_STEP, group_size=GROUP_SIZE, learning_rate=1e-3, seed=seed
    )
    policy = Policy.load("tiny", quantize=None, lora=LoraSpec(), seed=seed)
    loop = ClosedLoop(policy, names, config=config)
    judge = Judge(domains)
    asked = questions(domains, len(moments), same, new, seed)
    groups: list[StoredGroup] = []
    for moment, problems in zip(moments, asked, strict=True):
        if moment > loop.steps_done:
            loop.run(moment, progress=False)
        groups += _ask(loop, judge, problems, moment)
        solved = [r.solved for g in groups if g.step == moment for r in g.rollouts]
        rate = sum(map(bool, solved)) / len(solved)
        say(f"step {moment}: {rate:.1%} solved ({time.perf_counter() - started:.0f} s)")
    stored = StoredRollouts(tuple(groups), _facts(groups, policy, config, seed, moments))
    out.mkdir(parents=True, exist_ok=True)
    sha256 = write_rollouts(out / FILE, stored)
    facts = {**stored.facts, "sha256": sha256, "bytes": (out / FILE).stat().st_size}
    (out / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return stored


def questions(
    domains: Sequence[Domain], moments: int, same: int, new: int, seed: int
) -> list[list[Problem]]:
    """The problems of each moment: the same ones first, then new ones; no other repeats."""
    rng = random.Random(f"stored/{seed}")
    seen: set[str] = set()

    def draw(count: int, shift: int) -> list[Problem]:
        drawn: list[Problem] = []
        while len(drawn) < count:
            number = len(drawn)
            domain = domains[(number + shift) % len(domains)]
            hard = number % HARD_ONE_IN == HARD_ONE_IN - 1
            problem = domain.sample(rng, min(2 if hard else 1, domain.levels), "train")
            if problem.key not in seen:
                seen.add(problem.key)
                drawn.append(problem)
        return drawn

    repeated = draw(same, 0)
    # Shifted each time, so that no domain always gets the odd problem out.
    return [[*repeated, *draw(new, 2 * moment)] for moment in range(moments)]


def _ask(loop: Any, judge: Any, problems: Sequence[Problem], moment: int) -> list[StoredGroup]:
    """Answers to these problems, verified; the training goes on as if nobody had asked."""
    policy = loop.policy
    before = policy.state_dict()
    policy.load_state_dict({**before, "draws": _DRAWS + moment})
    try:
        stored = []
        for name, budget in dict.fromkeys(budgets := _budgets(problems)):
            here = [p for p, b in zip(problems, budgets, strict=True) if b == (name, budget)]
            groups = policy.generate(here, GROUP_SIZE, budget, 1.0)
            scores = judge.verify(groups).scores
            stored += [_stored(g, s, moment, budget) for g, s in zip(groups, scores, strict=True)]
    finally:
        policy.load_state_dict(before)
    by_key = {group.key: group for group in stored}
    return [by_key[problem.key] for problem in problems]


def _budgets(problems: Sequence[Problem]) -> list[tuple[str, int]]:
    """Domain and token budget of each problem."""
    tight = {n for n in range(len(problems)) if n % TIGHT_ONE_IN == TIGHT_ONE_IN - 1}
    return [
        (p.domain, TIGHT_BUDGET if n in tight else get_domain(p.domain).max_new_tokens)
        for n, p in enumerate(problems)
    ]


def _stored(group: Any, scores: Sequence[Any], moment: int, budget: int) -> StoredGroup:
    problem = group.problem
    return StoredGroup(
        key=problem.key,
        domain=problem.domain,
        difficulty=problem.difficulty,
        step=moment,
        prompt=tuple(dict(message) for message in problem.prompt),
        columns=json.loads(json.dumps(dict(problem.columns))),
        budget=budget,
        rollouts=tuple(
            StoredRollout(
                rollout.text,
                None if score.value is None else round(score.value, 4),
                round(sum(rollout.behaviour_logprobs), 4),
                len(rollout),
                rollout.finish_reason,
            )
            for rollout, score in zip(group.rollouts, scores, strict=True)
        ),
    )


def _facts(
    groups: Sequence[StoredGroup], policy: Any, config: Any, seed: int, moments: Sequence[int]
) -> dict[str, Any]:
    from rlkit.policy.loading import resolve_source

    rates: dict[str, dict[str, float | None]] = {}
    for domain in dict.fromkeys(g.domain for g in groups):
        for moment in moments:
            solved = [
                r.solved for g in groups if (g.domain, g.step) == (domain, moment)
                for r in g.rollouts if r.solved is not None
            ]  # fmt: skip
            rate = round(sum(solved) / len(solved), 4) if solved else None
            rates.setdefault(domain, {})[str(moment)] = rate
    weights = json.loads((Path(resolve_source("tiny")) / "facts.json").read_text())["sha256"]
    return {
        "made_by": f"python -m rlkit.lab.stored --make OUT --seed {seed}",
        "policy": policy.name,
        "policy_sha256": weights,
        "precision": str(policy.precision),
        "temperature": 1.0,
        "seed": seed,
        "rollouts": sum(len(g.rollouts) for g in groups),
        "groups": len(groups),
        "group_size": GROUP_SIZE,
        "steps": list(moments),
        "config": config.to_dict(),
        "share_solved": rates,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command: `python -m rlkit.lab.stored --make OUT --seed 0`."""
    parser = argparse.ArgumentParser(
        prog="python -m rlkit.lab.stored", description="Makes the stored rollouts anew."
    )
    parser.add_argument("--make", metavar="OUT", type=Path, required=True, help="folder to fill")
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is sampled")
    given = parser.parse_args(arguments)
    try:
        stored = make(given.make, seed=given.seed, say=lambda text: print(text, flush=True))
    except UserError as error:
        sys.exit(f"error: {error}")
    print(f"{stored!r} in {given.make / FILE}, {(given.make / FILE).stat().st_size:,} bytes")
