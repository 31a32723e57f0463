"""Rewards by domain, and a held-out truth beside a reward.

`PerDomain` sends each row to the reward of its domain. `WithTruth` scores a second
reward that is logged and never trained on; how far both are apart is the verifier gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.algebra import Composed, bracketed, weighted, with_changes
from rlkit.rewards.reward import Reward
from rlkit.rewards.score import Score


class PerDomain(Composed):
    """Another reward for each domain, chosen by the column `domain`.

    Each domain's rows go to its reward in one call, with their part of every column.

    Args:
        rewards: a reward, its name, a function, a weight for `otherwise`, or `None`
            ("not judged"), by domain.
        otherwise: the reward of domains that are not named; without it such a domain is
            an error.
    """

    names_must_differ = False

    def __init__(self, rewards: Mapping[str, Any], otherwise: Reward | None = None) -> None:
        self.domains: dict[str, int | None] = {}
        members: list[Reward] = [] if otherwise is None else [otherwise]
        for domain, chosen in rewards.items():
            found = _chosen(domain, chosen, otherwise)
            self.domains[domain] = None if found is None else len(members)
            members += [] if found is None else [found]
        self.has_otherwise = otherwise is not None
        inside = ", ".join(rewards)
        start = "" if otherwise is None else f"{bracketed(otherwise)}."
        super().__init__(f"{start}per_domain({inside})", members)
        # Each domain has columns of its own; they are checked where its rows are.
        self.columns = ("domain",)

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        rows: list[Score | None] = [None] * len(texts)
        domains = columns["domain"]
        for domain in dict.fromkeys(domains):
            places = [i for i, d in enumerate(domains) if d == domain]
            if domain in self.domains:
                member = self.domains[domain]
            elif self.has_otherwise:
                member = 0
            else:
                raise UserError(
                    f"{self.name!r} has no reward for the domain {domain!r}; it has "
                    f"{', '.join(map(repr, self.domains))}"
                )
            if member is None:
                scores = [Score(None, "NOT_JUDGED", {}, f"{domain} is not judged")] * len(places)
            else:
                scores = self.members[member].score(
                    completions=[texts[i] for i in places],
                    prompts=_part(prompts, places, len(texts)),
                    **{n: _part(values, places, len(texts)) for n, values in columns.items()},
                )
            for place, score in zip(places, scores, strict=True):
                rows[place] = score
        return [row for row in rows if row is not None]


class WithTruth(Composed):
    """A reward with a held-out truth beside it: `Score.truth`, never part of the value.

    The difference of both is the verifier gap: how far the proxy that is trained on
    has moved from what was meant.
    """

    def __init__(self, inner: Reward, truth: Reward) -> None:
        if not isinstance(truth, Reward):
            raise UserError(f"a held-out truth is a reward, not {type(truth).__name__}")
        super().__init__(inner.name, [inner, truth])

    def is_off(self) -> bool:
        return self.members[0].is_off()

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        rows = zip(*self._scores(texts, prompts, columns), strict=True)
        return [with_changes(score, truth=truth.value) for score, truth in rows]


def per_domain(rewards: Mapping[str, Any]) -> PerDomain:
    """One reward for each domain, by the column `domain`; any other domain is an error.

    >>> from rlkit.rewards import exact_answer, format_reward
    >>> by = per_domain({"arith": exact_answer, "chat": format_reward})
    >>> by(completions=["<answer>4</answer>"] * 2, domain=["arith", "chat"], answer=["5", None])
    [0.0, 1.0]
    """
    return PerDomain(rewards)


def _part(values: Any, places: Sequence[int], rows: int) -> Any:
    """The rows of a column at these places; what is no column stays as it is."""
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__getitem__"):
        return values
    return [values[i] for i in places] if len(values) == rows else values


def _chosen(domain: str, chosen: Any, otherwise: Reward | None) -> Reward | None:
    if chosen is None or isinstance(chosen, Reward):
        return chosen
    if isinstance(chosen, (int, float)):
        if otherwise is None:
            raise UserError(
                f"the domain {domain!r} has the weight {chosen!r}, and there is no reward to weigh;"
                " use reward.per_domain({...})"
            )
        return weighted(otherwise, chosen)
    from rlkit.rewards import get_reward

    return get_reward(chosen)
