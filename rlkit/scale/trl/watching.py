"""RewardWatch: sees what the rewards said on every rank, and tells the curriculum.

TRL takes `rlkit.Reward` objects as they are. It keeps their values to itself, though, and
the curriculum needs them, domain by domain. So each reward is given to TRL in a thin sleeve
of the same name, which calls it and remembers the scores. When the last of them has been
asked, the ranks put their rows together, and every rank knows the whole batch: groups,
scores, and what the domains' own verifiers say.

What comes of it has the names of `rlkit.loop.metrics`, since the same code makes it.

Left out: reward models (`nn.Module`), which TRL must see itself; give those to the trainer
beside the sleeves. Their part is then missing in the totals here.

Axes: B problems, G rollouts a problem, N = B x G, K rewards.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelerate.utils import gather_object

from rlkit.errors import UserError
from rlkit.loop.judging import Judged
from rlkit.loop.metrics import Batch, build_metrics, rollout_rows
from rlkit.objectives import GRPO, Objective
from rlkit.policy import Group, Rollout
from rlkit.rewards import Reward, Score, get_reward
from rlkit.rewards.completions import completion_rows
from rlkit.rewards.score import log_scores
from rlkit.scale.trl.dataset import DomainDataset
from rlkit.tasks import Problem
from rlkit.tasks.problem import split_of

#: Columns that belong to the problem itself or to TRL, not to what a domain's verifier needs.
_NOT_ASKED = ("trainer_state", "log_extra", "log_metric")


class Sleeve:
    """One reward as TRL calls it; remembers the scores."""

    def __init__(self, owner: RewardWatch, place: int, reward: Any) -> None:
        self.reward = reward
        self.__name__ = getattr(reward, "__name__", type(reward).__name__)
        self._owner, self._place = owner, place

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        if isinstance(self.reward, Reward):
            scores = self.reward.score(prompts=prompts, completions=completions, **columns)
            log_scores(
                self.reward.name, scores, columns.get("log_metric"), columns.get("log_extra")
            )
        else:
            values = self.reward(prompts=prompts, completions=completions, **columns)
            scores = [Score(value, parts={self.__name__: value}) for value in values]
        self._owner.take(self._place, scores, prompts, completions, columns)
        return [score.value for score in scores]


class RewardWatch:
    """Rewards for TRL, and what they said. Use `watch` to make one.

    Attributes:
        functions: what to give to the trainer as `reward_funcs`.
        batch: the last batch of all ranks, `None` before there was one.
    """

    def __init__(
        self,
        rewards: Sequence[Any],
        dataset: DomainDataset,
        group_size: int,
        *,
        weights: Sequence[float] | None = None,
        objective: Objective | None = None,
        sandbox: Any = None,
        end_ids: Sequence[int] = (),
    ) -> None:
        _check(rewards, group_size, weights)
        self.dataset = dataset
        self.group_size = group_size
        self.weights = [1.0] * len(rewards) if weights is None else [float(w) for w in weights]
        self.objective = objective or GRPO()
        self.end_ids = frozenset(end_ids)
        leaves = [leaf for r in rewards if isinstance(r, Reward) for leaf in r.leaves()]
        self._verifiers: dict[str, tuple[Reward, bool]] = {}
        for domain in dataset.curriculum.domains:
            verifier = get_reward(domain.success)
            inside = any(leaf is verifier for leaf in leaves)
            if sandbox is not None:
                verifier = verifier.with_sandbox(sandbox)
            self._verifiers[domain.name] = (verifier, inside)
        if sandbox is not None:
            rewards = [r.with_sandbox(sandbox) if isinstance(r, Reward) else r for r in rewards]
        self.rewards = list(rewards)
        self.functions: list[Callable[..., list[float | None]]] = [
            Sleeve(self, k, reward) for k, reward in enumerate(self.rewards)
        ]
        self.batch: Batch | None = None
        self._fresh = False
        self._scores: dict[int, list[Score]] = {}

    def take(
        self,
        place: int,
        scores: list[Score],
        prompts: Sequence[Any],
        completions: Any,
        columns: Mapping[str, Any],
    ) -> None:
        """Called by a sleeve; with the last reward of a batch the ranks are put together."""
        self._scores[place] = scores
        if len(self._scores) < len(self.rewards):
            return
        parts, self._scores = [self._scores[k] for k in range(len(self.rewards))], {}
        if "domain" not in columns or "key" not in columns:
            raise UserError(
                "the columns 'domain' and 'key' are missing; train on a domain_dataset, or give "
                "the rewards to TRL as they are"
            )
        if all(split_of(key) == "held_out" for key in columns["key"]):
            return  # an evaluation: held-out problems teach the curriculum nothing
        texts = completion_rows(completions)
        totals = [_total(row, self.weights) for row in zip(*parts, strict=True)]
        solved = self._solved(parts, texts, columns)
        rows = gather_object(self._rows(totals, solved, prompts, texts, columns))
        step = getattr(columns.get("trainer_state"), "global_step", 0) + 1
        self.batch, self._fresh = self._batch(rows, step), True
        for group, truth, alive in zip(
            self.batch.groups, self.batch.solved, self.batch.alive_B, strict=True
        ):
            known = [value for value in truth if value is not None]
            rate = sum(known) / len(known) if known else None
            self.dataset.observe(group.problem.domain, rate, dead=not alive)

    def metrics(self) -> dict[str, float | None]:
        """Numbers of the batch that was scored last, once; empty when nothing is new."""
        if self.batch is None or not self._fresh:
            return {}
        self._fresh = False
        return {**build_metrics(self.batch, _NoUpdate()), **self.dataset.curriculum.metrics()}

    def rollout_rows(self) -> list[dict[str, Any]]:
        """The batch as rows of `rollouts.jsonl.gz`."""
        return [] if self.batch is None else rollout_rows(self.batch)

    # -- one rank ----------------------------------------------------------------------------

    def _solved(
        self, parts: Sequence[Sequence[Score]], texts: list[str], columns: Mapping[str, Any]
    ) -> list[bool | None]:
        solved: list[bool | None] = [None] * len(texts)
        domains = columns["domain"]
        for name in dict.fromkeys(domains):
            places = [i for i, d in enumerate(domains) if d == name]
            verifier, inside = self._verifiers[name]
            said = next(
                (p for p in parts if inside and all(verifier.name in p[i].parts for i in places)),
                None,
            )
            if said is not None:
                values = [said[i].parts[verifier.name] for i in places]
            else:
                values = verifier(
                    completions=[texts[i] for i in places],
                    **{
                        column: [values[i] for i in places]
                        for column, values in columns.items()
                        if column not in _NOT_ASKED and isinstance(values, (list, tuple))
                    },
                )
            for i, value in zip(places, values, strict=True):
                solved[i] = None if value is None else value >= 1.0
        return solved

    def _rows(
        self,
        totals: Sequence[Score],
        solved: Sequence[bool | None],
        prompts: Sequence[Any],
        texts: Sequence[str],
        columns: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        ids = columns["completion_ids"]
        reasons = columns.get("finish_reason")
        if reasons is None:
            if not self.end_ids:
                raise UserError(
                    "nobody says how an answer ended; give the watch end_ids, or train with "
                    "rollout_func=SharedPrefixRollouts()"
                )
            reasons = ["stop" if row and row[-1] in self.end_ids else "length" for row in ids]
        return [
            {
                "key": columns["key"][i],
                "domain": columns["domain"][i],
                "difficulty": columns["difficulty"][i],
                "prompt": prompts[i],
                "text": texts[i],
                "ids": list(ids[i]),
                "finish_reason": reasons[i],
                "score": totals[i],
                "solved": solved[i],
            }
            for i in range(len(texts))
        ]

    # -- all ranks ---------------------------------------------------------------------------

    def _batch(self, rows: Sequence[Mapping[str, Any]], step: int) -> Batch:
        size = self.group_size
        groups, scores, solved = [], [], []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            if len(part) < size or len({row["key"] for row in part}) > 1:
                raise RuntimeError(
                    f"a group of {size} answers belongs to {sorted({r['key'] for r in part})}: the "
                    "ranks have drawn different problems, and nothing learned from it would be true"
                )
            first = part[0]
            asked = tuple(dict(message) for message in first["prompt"])
            problem = Problem(first["key"], first["domain"], asked, {}, first["difficulty"])
            groups.append(Group(problem, tuple(_rollout(problem, row, step) for row in part)))
            scores.append([row["score"] for row in part])
            solved.append([row["solved"] for row in part])
        return Batch.of(step, groups, Judged(scores, solved), self.objective)


class _NoUpdate:
    """Stands where the loop has its update: TRL reports that part itself."""

    def metrics(self) -> dict[str, float | None]:
        return {}


def watch(
    rewards: Any,
    dataset: DomainDataset,
    group_size: int,
    **options: Any,
) -> RewardWatch:
    """Rewards for TRL that also move the curriculum.

    Args:
        rewards: one reward or several; `rlkit.Reward` objects or plain functions.
        dataset: from `domain_dataset`; its curriculum learns from every batch.
        group_size: G, `num_generations` of TRL's settings.
        options: `weights` of the rewards, as in TRL's `reward_weights`; `objective`, for the
            advantages that are written down; `sandbox`, where code is run; `end_ids`, needed
            when TRL generates by itself.

    Raises:
        UserError: no rewards, an async function, or weights of another number.
    """
    several = rewards if isinstance(rewards, (list, tuple)) else [rewards]
    return RewardWatch(several, dataset, group_size, **options)


def _total(row: Sequence[Score], weights: Sequence[float]) -> Score:
    """The weighted sum of one completion's scores, as TRL takes it: `None` parts are left out."""
    if len(row) == 1 and weights[0] == 1.0:
        return row[0]
    known = [(s, w) for s, w in zip(row, weights, strict=True) if s.value is not None]
    value = sum(w * s.value for s, w in known) if known else None
    unshaped = [w * s.unshaped for s, w in known if s.unshaped is not None]
    worst = next((s for s in row if s.status != "OK"), row[0])
    return Score(
        value,
        worst.status,
        {name: part for s in row for name, part in s.parts.items()},
        worst.reason,
        {name: w * part for s, w in known for name, part in s.contributions.items()},
        sum(unshaped) if unshaped else None,
        next((s.truth for s in row if s.truth is not None), None),
    )


def _rollout(problem: Problem, row: Mapping[str, Any], step: int) -> Rollout:
    ids = tuple(row["ids"])
    unknown = (float("nan"),) * len(ids)
    return Rollout(
        problem, (), ids, unknown, (1,) * len(ids), row["text"], row["finish_reason"], step - 1
    )


def _check(rewards: Sequence[Any], group_size: int, weights: Sequence[float] | None) -> None:
    if not rewards:
        raise UserError("there are no rewards to watch; give at least one")
    if group_size < 2:
        raise UserError(f"TRL compares answers in groups of 2 or more, not {group_size}")
    if weights is not None and len(weights) != len(rewards):
        raise UserError(f"{len(weights)} weights for {len(rewards)} rewards; give one for each")
    for reward in rewards:
        call = reward if inspect.isroutine(reward) else type(reward).__call__
        if inspect.iscoroutinefunction(call):
            name = getattr(reward, "__name__", reward)
            raise UserError(
                f"{name!r} is async; wrap it with rlkit.reward(...), which runs it to its end"
            )
