"""Rewards: what a completion is worth, as TRL's callables that add and scale."""

from __future__ import annotations

from collections.abc import Callable

from rlkit.errors import UserError
from rlkit.rewards.algebra import WeightedSum
from rlkit.rewards.answer import (
    NumericAnswer,
    countdown_answer,
    exact_answer,
    extract_answer,
    numeric_answer,
)
from rlkit.rewards.code import TestsPass, extract_code, tests_pass
from rlkit.rewards.completions import completion_text, until_eos
from rlkit.rewards.domains import per_domain
from rlkit.rewards.expert import ExpertReward, ExpertScores, Label, expert_reward
from rlkit.rewards.format import (
    FormatReward,
    TagCount,
    format_reward,
    tag_count,
    think_answer_format,
    think_text_format,
)
from rlkit.rewards.graded import CodeReward, code_reward, runs_and_passes
from rlkit.rewards.judge import JudgeReward, judge_reward
from rlkit.rewards.judge_cache import JudgeCache
from rlkit.rewards.judge_client import Endpoint
from rlkit.rewards.learned import Calibration, LearnedReward, learned_reward
from rlkit.rewards.maths import MathAnswer, math_answer
from rlkit.rewards.preferences import Preference, train_reward_model
from rlkit.rewards.retention import RetentionReward, retention_reward
from rlkit.rewards.reward import Reward, RewardWarning, reward
from rlkit.rewards.rubric import Criterion, Rubric
from rlkit.rewards.score import Score, verifier_gap
from rlkit.rewards.shaping import (
    CosineLength,
    LanguageConsistency,
    RepetitionPenalty,
    SoftOverlong,
)
from rlkit.rewards.source import RewardSourceError, SourceReward
from rlkit.rewards.sql import SqlReward, sql_reward
from rlkit.rewards.table import TableReward, table_reward
from rlkit.rewards.values import sanitise

__all__ = [
    "Calibration",
    "CodeReward",
    "CosineLength",
    "Criterion",
    "Endpoint",
    "ExpertReward",
    "ExpertScores",
    "FormatReward",
    "JudgeCache",
    "JudgeReward",
    "Label",
    "LanguageConsistency",
    "LearnedReward",
    "MathAnswer",
    "NumericAnswer",
    "Preference",
    "RepetitionPenalty",
    "RetentionReward",
    "Reward",
    "RewardSourceError",
    "RewardWarning",
    "Rubric",
    "Score",
    "SoftOverlong",
    "SourceReward",
    "SqlReward",
    "TableReward",
    "TagCount",
    "TestsPass",
    "WeightedSum",
    "code_reward",
    "completion_text",
    "countdown_answer",
    "exact_answer",
    "expert_reward",
    "extract_answer",
    "extract_code",
    "format_reward",
    "get_reward",
    "judge_reward",
    "learned_reward",
    "math_answer",
    "numeric_answer",
    "per_domain",
    "register_reward",
    "retention_reward",
    "reward",
    "runs_and_passes",
    "sanitise",
    "sql_reward",
    "table_reward",
    "tag_count",
    "tests_pass",
    "think_answer_format",
    "think_text_format",
    "train_reward_model",
    "until_eos",
    "verifier_gap",
]

_REWARDS: dict[str, Reward] = {
    r.name: r
    for r in (
        exact_answer,
        countdown_answer,
        numeric_answer,
        format_reward,
        think_answer_format,
        think_text_format,
        tag_count,
        math_answer,
        tests_pass,
        code_reward,
        runs_and_passes,
        sql_reward,
        table_reward,
        retention_reward,
    )
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
