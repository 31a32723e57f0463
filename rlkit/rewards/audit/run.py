"""audit: try a reward the way an optimiser would, and give it a report card.

Left out on purpose: searching for attacks that nobody has listed. That is what an
optimiser does; the lessons do it with a real one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.audit import sections as checks
from rlkit.rewards.audit.attack import SUITES
from rlkit.rewards.audit.attack import attacks as attacks_of
from rlkit.rewards.audit.card import ReportCard, Section
from rlkit.rewards.audit.labels import by_people, read_labels, subject_of
from rlkit.rewards.audit.problems import (
    ANSWER_COLUMNS,
    TEMPLATES,
    AuditProblem,
    Subject,
    needed_columns,
    parts_of,
    subject_for,
    subjects,
)
from rlkit.rewards.audit.runner import START_S, Runner
from rlkit.rewards.audit.trial import Trial
from rlkit.rewards.reward import Reward

#: Wall clock of one attack, in seconds.
LIMIT_S = 5.0

_UNKNOWN = "no problems are known for a reward like this; give some with problems=[AuditProblem(…)]"


def audit(
    reward: Reward | Callable | str,
    *,
    problems: Sequence[AuditProblem] | None = None,
    labels: Any = None,
    subject: str | Subject | None = None,
    limit_s: float = LIMIT_S,
    seed: int = 0,
) -> ReportCard:
    """Tries a reward with attacks, honest answers and mutants, and reports what it found.

    Args:
        reward: a `Reward`, a function with TRL's signature, or the name of a known reward.
        problems: problems of your own, for a reward that judges something of its own.
        labels: what people said of completions: a file of `expert_panel`, `ExpertScores` or
            `Label`s; a section more tells precision and recall on them. For a reward of which
            nothing is known they are the problems, too.
        subject: what the reward judges (`"answer"`, `"code"`, `"format"`, …), when its name
            and its columns do not say so.
        limit_s: wall clock of one attack, in seconds; a reward that takes longer hangs.
        seed: decides which problems are drawn.

    Raises:
        UserError: an unknown reward or subject, or columns that no problem has.

    >>> from rlkit.rewards import format_reward
    >>> card = audit(format_reward)
    >>> card.passed, card.section("attacks").figures["went_through"]
    (True, 0)
    """
    begun = time.perf_counter()
    reward = _as_reward(reward)
    if not isinstance(limit_s, (int, float)) or not limit_s > 0:
        raise UserError(f"limit_s={limit_s!r} is not a time; give seconds above 0")
    chosen = subject if isinstance(subject, Subject) else subject_for(reward, subject)
    if problems is not None:
        chosen = _with_problems(chosen, list(problems))
    people = None if labels is None else read_labels(labels)
    if chosen is None and people is not None:
        chosen = subject_of(people)
    if chosen is not None and chosen.prepare is not None:
        reward_tried = chosen.prepare(reward)
    else:
        reward_tried = reward
    with Runner(reward_tried) as runner:
        if chosen is None:
            chosen = _guess(reward, runner)
        made = [_columns_for(reward, problem) for problem in chosen.make(seed)]
        made, left_out = _in_the_form_of_its_parts(reward, chosen, made)
        if chosen.probe:
            made = _in_its_own_way(runner, made)
        sections, results, not_tried = _tried(Trial(runner, chosen, made, limit_s), chosen)
        not_tried.update(left_out)
        if people is not None:
            sections.append(by_people(runner, reward, people, limit_s))
        if not runner.killable and reward_tried is not reward:
            for sandbox in reward_tried.sandboxes():
                sandbox.close()
        how = f"called in {runner.how}" + (f", because {runner.why}" if runner.why else "")
        if runner.left_behind:
            how += f"; {runner.left_behind} calls that hung were left behind"
    return ReportCard(
        reward=reward.name,
        judges=chosen.says,
        sections=tuple(sections),
        attacks=tuple(results),
        not_tried=not_tried,
        how=f"{how}, {limit_s:g} s for each attack",
        seconds=time.perf_counter() - begun,
    )


def _tried(trial: Trial, subject: Subject) -> tuple[list[Section], list, dict[str, str]]:
    attacks, results, not_tried = trial.attack(attacks_of(*subject.suites))
    sections = [
        checks.tells_apart(trial),
        attacks,
        checks.honest(trial),
        checks.labelled(trial),
        checks.mutation(trial),
        checks.monotone(trial),
        checks.invariance(trial),
        checks.repeatable(trial),
        checks.timing(trial, results),
    ]
    others = [suite for suite in SUITES if suite not in subject.suites]
    if others:
        not_tried[f"suites {', '.join(others)}"] = f"this reward judges {subject.says}"
    return sections, results, not_tried


def _as_reward(reward: Any) -> Reward:
    if isinstance(reward, Reward):
        return reward
    from rlkit.rewards import get_reward

    return get_reward(reward)


def _with_problems(known: Subject | None, problems: list[AuditProblem]) -> Subject:
    if not problems or not all(isinstance(p, AuditProblem) for p in problems):
        raise UserError("problems must be a list of at least one AuditProblem(…)")
    if known is not None:
        return replace(known, make=lambda seed: problems, probe=False)
    suites = ["length", "strain"]
    if any(p.answer is not None for p in problems):
        suites.insert(0, "answer")
    return Subject(
        "own problems", "answer", "what its own problems ask", tuple(suites), lambda seed: problems
    )


def _columns_for(reward: Reward, problem: AuditProblem) -> AuditProblem:
    """The problem with its answer also under the name that the reward uses for it.

    Raises:
        UserError: the reward needs a column that the problem does not have.
    """
    columns = dict(problem.columns)
    for name in needed_columns(reward):
        if name not in columns and name in ANSWER_COLUMNS and problem.answer is not None:
            columns[name] = problem.answer
        if name == "completion_ids":
            columns[name] = []  # filled in for each completion by the worker
        if name not in columns:
            raise UserError(
                f"reward {reward.name!r} needs the column {name!r}; the audit's problems have "
                f"{', '.join(columns) or 'none'}; give your own with problems=[AuditProblem(…)]"
            )
    return replace(problem, columns=columns)


def _in_the_form_of_its_parts(
    reward: Reward, subject: Subject, problems: Sequence[AuditProblem]
) -> tuple[list[AuditProblem], dict[str, str]]:
    """The problems with those honest completions only that the reward's parts for form pay.

    A sum of right answer and good form takes something away for bad form, and rightly so.
    """
    known = subjects()
    form_parts = [
        part
        for part in parts_of(reward)
        if part.name in known and known[part.name].judges == "form"
    ]
    if subject.judges != "answer" or not form_parts:
        return list(problems), {}
    kept: list[AuditProblem] = []
    left_out: dict[str, str] = {}
    for problem in problems:
        honest = dict(problem.honest)
        for part in form_parts:
            values = part(completions=list(honest.values()))
            best = max((value for value in values if value is not None), default=None)
            for (form, _), value in zip(list(honest.items()), values, strict=True):
                if value != best:
                    del honest[form]
                    left_out[f"honest form '{form}'"] = f"its part {part.name} does not pay it"
        same = tuple(
            group
            for group in problem.same
            if all(len(set(part(completions=list(group)))) == 1 for part in form_parts)
        )
        kept.append(replace(problem, honest=honest, same=same))
    return kept, left_out


def _guess(reward: Reward, runner: Runner) -> Subject:
    """The subject of a reward that needs no columns: found out by trying two completions.

    Raises:
        UserError: it needs columns, or tells nothing apart.
    """
    needed = needed_columns(reward)
    if needed:
        raise UserError(
            f"reward {reward.name!r} needs the columns {', '.join(needed)}, and {_UNKNOWN}"
        )
    framed = "<think>Six times seven.</think><answer>42</answer>"
    reply = runner.call({}, [framed, "Six times seven is 42."], START_S)
    values = [score.value for score in reply.scores]
    if len(values) == 2 and None not in values and values[0] > values[1]:
        known = subjects()["format"]
        return replace(known, says=f"{known.says} (it pays tags more than plain prose)")
    raise UserError(
        f"reward {reward.name!r} needs no columns and does not pay tags, so the audit cannot tell "
        "what it judges; say it with subject=…, or give problems=[AuditProblem(…)]"
    )


def _in_its_own_way(runner: Runner, problems: Sequence[AuditProblem]) -> list[AuditProblem]:
    """The problems with their answers written in the first way that the reward pays."""
    best: tuple[int, list[AuditProblem]] = (-1, list(problems))
    for template in TEMPLATES:
        changed = [problem.in_template(template) for problem in problems]
        told = 0
        for problem in changed:
            right = next(iter(problem.honest.values()))
            reply = runner.call(problem.columns, [right, ""], START_S)
            values: Mapping[int, float | None] = dict(
                enumerate(score.value for score in reply.scores)
            )
            low, full = values.get(1), values.get(0)
            told += full is not None and (low is None or full > low)
        if told > best[0]:
            best = (told, changed)
        if told == len(changed):
            break
    return best[1]
