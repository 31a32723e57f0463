"""Rewards: what a completion is worth, as TRL's callables that add and scale."""

from __future__ import annotations

from collections.abc import Callable

from rlkit.errors import UserError
from rlkit.rewards.answer import countdown_answer, exact_answer, extract_answer, format_reward
from rlkit.rewards.code import TestsPass, extract_code, tests_pass
from rlkit.rewards.reward import Reward, Score, WeightedSum, completion_text, reward

__all__ = [
    "Reward",
    "Score",
    "TestsPass",
    "WeightedSum",
    "completion_text",
    "countdown_answer",
    "exact_answer",
    "extract_answer",
    "extract_code",
    "format_reward",
    "get_reward",
    "register_reward",
    "reward",
    "tests_pass",
]

_REWARDS: dict[str, Reward] = {
    r.name: r for r in (exact_answer, countdown_answer, format_reward, tests_pass)
}


def get_reward(name: str | Reward | Callable) -> Reward:
    """The reward of this name; a `Reward` is given back, a function is wrapped.

    Raises:
        UserError: no such reward.
    """
    if isinstance(name, Reward):
        return name
    if callable(name):
        return Reward(name)
    if name not in _REWARDS:
        raise UserError(f"unknown reward {name!r}; known rewards: {', '.join(_REWARDS)}")
    return _REWARDS[name]


def register_reward(new: Reward) -> Reward:
    """Makes a reward known by its name, so that a domain can name it.

    Raises:
        UserError: the name is taken.
    """
    if new.name in _REWARDS and _REWARDS[new.name] is not new:
        raise UserError(f"a reward {new.name!r} exists already; give yours another name")
    _REWARDS[new.name] = new
    return new
