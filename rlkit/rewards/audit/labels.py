"""Labels of people in an audit: what a reward pays, beside what people said it is worth.

A label of 0.5 and more is right, less is wrong; where raters are far apart it is neither,
and is counted. A completion is paid when its reward lies in the upper half: of the
declared range, or else of what the reward gave to these completions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.audit.card import Section
from rlkit.rewards.audit.problems import ANSWER_COLUMNS, AuditProblem, Subject, needed_columns
from rlkit.rewards.audit.runner import Runner
from rlkit.rewards.audit.trial import MOST_EXAMPLES, example, value_of
from rlkit.rewards.expert import ExpertScores, Label
from rlkit.rewards.reward import Reward

#: From here on a label says "right", as a share of the scale.
RIGHT = 0.5
#: Precision and recall that a reward needs; people are not always right either.
ENOUGH = 0.9


def read_labels(given: Any) -> list[Label]:
    """Labels from a file, from `ExpertScores`, or as they are.

    Raises:
        UserError: no such file, no labels in it, or something else.
    """
    if isinstance(given, (str, Path)):
        if not Path(given).is_file():
            raise UserError(f"there is no file {str(given)!r} with labels")
        given = ExpertScores(given)
    found = given.labels() if isinstance(given, ExpertScores) else given
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes)):
        raise UserError("labels are a file of people's scores, ExpertScores, or Labels in a list")
    found = list(found)
    if not found or not all(isinstance(label, Label) for label in found):
        raise UserError("labels must hold at least one Label, and nothing else")
    return found


def problems_of(labels: Sequence[Label]) -> list[AuditProblem]:
    """Problems made of the labelled completions: those with a right and a wrong one.

    Raises:
        UserError: no prompt has both.
    """
    by_prompt: dict[str, list[Label]] = {}
    for label in labels:
        if not label.disputed:
            by_prompt.setdefault(repr((label.prompt, dict(label.columns))), []).append(label)
    made = []
    for group in by_prompt.values():
        right = {f"labelled {n}": g.completion for n, g in enumerate(group) if g.value >= RIGHT}
        wrong = {f"labelled {n}": g.completion for n, g in enumerate(group) if g.value < RIGHT}
        if right and wrong:
            # Half a score for half an answer is fair where people themselves gave it.
            partial = any(0 < label.value < 1 for label in group)
            made.append(
                AuditProblem(
                    dict(group[0].columns),
                    honest=right,
                    wrong=wrong,
                    question=question_of(group[0].prompt),
                    partial=partial,
                    facts={"worthless": next(iter(wrong.values()))},
                )
            )
    if not made:
        raise UserError(
            "no prompt has both a completion that people call right and one that they call wrong; "
            "score more completions of the same prompts"
        )
    return made


def subject_of(labels: Sequence[Label]) -> Subject:
    """How a reward is tried of which nothing is known but these labels."""
    problems = problems_of(labels)
    return Subject(
        "labelled completions",
        "answer",
        "what people say an answer is worth",
        ("length", "judge", "strain"),
        lambda seed: problems,
    )


def question_of(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"]) if prompt else ""


def by_people(runner: Runner, reward: Reward, labels: Sequence[Label], limit_s: float) -> Section:
    """Precision and recall on completions that people labelled.

    Raises:
        UserError: a label lacks a column that the reward needs.
    """
    sure = [label for label in labels if not label.disputed]
    values = [_value(runner, reward, label, limit_s) for label in sure]
    known = [(label, value) for label, value in zip(sure, values, strict=True) if value is not None]
    line = _line(reward, [value for _, value in known])
    right = [(label, value) for label, value in known if label.value >= RIGHT]
    paid = [(label, value) for label, value in known if line is not None and value >= line]
    good = [label for label, _ in paid if label.value >= RIGHT]
    precision = len(good) / len(paid) if paid else None
    recall = len(good) / len(right) if right else None
    examples = [
        example(f"people say {label.value:g}", label.completion, value)
        for label, value in known
        if line is not None and (value >= line) != (label.value >= RIGHT)
    ]
    figures = {
        "labels": len(labels),
        "disputed": len(labels) - len(sure),
        "abstained": len(sure) - len(known),
        "precision": precision,
        "recall": recall,
        "ranked_rightly": _ranked(known),
        "line": line,
    }
    if line is None or not right or len(right) == len(known):
        why = "there is nothing to tell apart: people's labels with a verdict are "
        why += "all right" if right else "all wrong" if known else "none"
        return Section("labels of people", None, why, figures, examples[:MOST_EXAMPLES])
    finding = (
        f"precision {_share(precision)}, recall {recall:.3f} on {len(known)} labelled completions"
    )
    if figures["disputed"]:
        finding += f"; people are apart on {figures['disputed']} more"
    if figures["abstained"]:
        finding += f"; no verdict on {figures['abstained']} more"
    passed = precision is not None and precision >= ENOUGH and recall >= ENOUGH
    return Section("labels of people", passed, finding, figures, examples[:MOST_EXAMPLES])


def _value(runner: Runner, reward: Reward, label: Label, limit_s: float) -> float | None:
    columns = dict(label.columns)
    for name in needed_columns(reward):
        if name not in columns:
            other = next((columns[c] for c in ANSWER_COLUMNS if c in columns), None)
            if name not in ANSWER_COLUMNS or other is None:
                raise UserError(
                    f"reward {reward.name!r} needs the column {name!r}; these labels have "
                    f"{', '.join(columns) or 'none'}; give columns when the scores are given"
                )
            columns[name] = other
    prompt = label.prompt
    chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return value_of(runner.call(columns, [label.completion], limit_s, chat))


def _line(reward: Reward, values: Sequence[float]) -> float | None:
    """The middle of the declared range, or else of what was given; `None` when all is one."""
    low, high = reward.bounds
    if low is not None and high is not None:
        return (low + high) / 2
    if not values or max(values) == min(values):
        return None
    return (max(values) + min(values)) / 2


def _ranked(known: Sequence[tuple[Label, float]]) -> float | None:
    """Share of the pairs that people tell apart which the reward orders as they do."""
    points = [
        (first > second) + 0.5 * (first == second)
        for better, first in known
        for worse, second in known
        if better.value > worse.value
    ]
    return math.fsum(points) / len(points) if points else None


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
