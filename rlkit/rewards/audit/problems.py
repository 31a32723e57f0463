"""AuditProblem and Subject: what is needed to try a reward, and where it comes from.

An `AuditProblem` is one question with completions whose worth is known: honest ones
that deserve the full reward, and wrong ones that deserve none. A `Subject` says what a
kind of reward judges, makes problems for it, and names the attack suites that fit.

`subject_for` finds the subject of a reward: by its name, by the names of its parts, or
by the columns it needs. A reward of your own can bring its problems along instead.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.audit.mutation import mutate_list, mutate_number
from rlkit.rewards.reward import Reward

#: Where an answer stands in a template.
SLOT = "ANSWER"
#: Names under which data sets keep the right answer.
ANSWER_COLUMNS = ("answer", "gold", "solution", "ground_truth", "target", "label", "expected")
#: Arguments of a reward function that are no columns.
_NO_COLUMNS = ("completions", "completion", "text", "response", "prompts", "self")
#: Ways of writing an answer that are tried on a reward whose own way is not known.
TEMPLATES = (
    f"<answer>{SLOT}</answer>",
    f"<think>I work it out.</think><answer>{SLOT}</answer>",
    rf"The answer is \boxed{{{SLOT}}}.",
    f"#### {SLOT}",
    f"The answer is {SLOT}",
    SLOT,
)


@dataclass(frozen=True)
class AuditProblem:
    """One question, and completions whose worth is known.

    Attributes:
        columns: what the reward needs to judge one completion, by column name.
        honest: completions that deserve the full reward, by the name of their form.
        wrong: completions that deserve none, by what is wrong with them.
        answer: the bare right answer as text, where there is one.
        wrong_answers: bare wrong answers, at least two where `answer` is given.
        template: how an answer is written; `ANSWER` stands for it.
        question: what was asked.
        ladder: completions from least to most right.
        same: sets of completions that must earn the same.
        mutants: right answers made wrong in one place, by what was done.
        partial: part of the reward for part of the work is no fault.
        facts: further things that attacks read (`entry`, `solution_code`, `tests`, …).

    >>> problem = AuditProblem({"answer": "42"}, answer="42", wrong_answers=("41", "43"))
    >>> problem.write("7")
    '<answer>7</answer>'
    """

    columns: Mapping[str, Any]
    honest: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)
    answer: str | None = None
    wrong_answers: tuple[str, ...] = ()
    template: str = f"<answer>{SLOT}</answer>"
    question: str = ""
    ladder: tuple[str, ...] = ()
    same: tuple[tuple[str, ...], ...] = ()
    mutants: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    def write(self, answer: str) -> str:
        """A completion that gives this answer the way the reward expects it."""
        return self.template.replace(SLOT, answer)

    def fact(self, name: str) -> Any:
        """`answer`, `wrong_answers`, a fact or a column by name; `None` when there is none."""
        if name in ("answer", "wrong_answers", "question", "honest", "wrong"):
            return getattr(self, name) or None
        return self.facts.get(name, self.columns.get(name))

    def in_template(self, template: str) -> AuditProblem:
        """The same problem with its answers written another way."""
        honest = {"plain answer": template.replace(SLOT, self.answer or "")}
        wrong = {f"wrong {w}": template.replace(SLOT, w) for w in self.wrong_answers}
        gold = self.answer or ""
        same = (tuple(template.replace(SLOT, t) for t in (gold, f" {gold} ", f"\n{gold}\n")),)
        ladder = (template.replace(SLOT, self.wrong_answers[0]), template.replace(SLOT, gold))
        mutated = self.facts.get("bare_mutants") or mutate_number(gold) or mutate_list(gold)
        return replace(
            self,
            template=template,
            honest=honest,
            wrong=wrong,
            same=same,
            ladder=ladder,
            mutants={name: template.replace(SLOT, new) for name, new in mutated.items()},
        )


@dataclass(frozen=True)
class Subject:
    """What a kind of reward judges, and how it is tried.

    Attributes:
        name: what it is called (`answer`, `code`, `format`, …).
        judges: `"answer"` when only right answers may be paid; `"form"` when the reward
            looks at the form alone, so that a wrong answer in good form is paid rightly.
        says: what it judges, in words; finishes "this reward judges …".
        suites: attack suites that fit.
        make: problems for a seed.
        columns: columns that its problems carry.
        not_tried: attacks that the reward's contract allows, with the reason.
        probe: the way of writing an answer is found out by trying `TEMPLATES`.
        prepare: gives the reward as it is tried, for example with a sandbox of short limits.
        fitted: gives the subject for one reward, where its settings decide what is right.
        line: share of the way from the lowest to the full reward at which an attack counts
            as paid.
    """

    name: str
    judges: str
    says: str
    suites: tuple[str, ...]
    make: Callable[[int], Sequence[AuditProblem]]
    columns: tuple[str, ...] = ()
    not_tried: Mapping[str, str] = field(default_factory=dict)
    probe: bool = False
    prepare: Callable[[Reward], Reward] | None = None
    fitted: Callable[[Reward], Subject] | None = None
    line: float = 0.5


_SUBJECTS: dict[str, Subject] = {}
_BY_COLUMNS: list[str] = []


def register_subject(reward_name: str, subject: Subject, by_columns: bool = False) -> Subject:
    """Says how the reward of this name is tried.

    Args:
        reward_name: name of the reward, as in `Reward.name`.
        subject: how it is tried.
        by_columns: use it also for unknown rewards that need only its columns.
    """
    _SUBJECTS[reward_name] = subject
    if by_columns and reward_name not in _BY_COLUMNS:
        _BY_COLUMNS.append(reward_name)
    return subject


def subjects() -> dict[str, Subject]:
    """The known subjects by the name of their reward."""
    from rlkit.rewards.audit.builtin import load

    load()
    return dict(_SUBJECTS)


def needed_columns(reward: Reward) -> tuple[str, ...]:
    """The columns a reward cannot do without: those it names, or its function's arguments."""
    if isinstance(getattr(reward, "text", None), str):
        return _columns_of_source(reward.text)
    if reward.columns or not hasattr(reward, "function"):
        return tuple(column for column in reward.columns if column != "prompts")
    try:
        parameters = inspect.signature(reward.function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        and p.name not in _NO_COLUMNS
    )


def _columns_of_source(text: str) -> tuple[str, ...]:
    """The columns that the reward function of a program demands; the text is read, not run."""
    from rlkit.rewards.source_text import outline

    name = outline(text).name
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            plain = [*node.args.posonlyargs, *node.args.args]
            demanded = plain[: len(plain) - len(node.args.defaults)]
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            demanded += [argument for argument, default in named if default is None]
            return tuple(a.arg for a in demanded if a.arg not in _NO_COLUMNS)
    return ()


def parts_of(reward: Reward) -> list[Reward]:
    """The rewards that a composed reward is made of, the outermost first."""
    children = reward.children() if hasattr(reward, "children") else ()
    children = children or [term[1] for term in getattr(reward, "terms", ())]
    return [reward, *(part for child in children for part in parts_of(child))]


def _fit(subject: Subject, reward: Reward) -> Subject:
    return subject if subject.fitted is None else subject.fitted(reward)


def subject_for(reward: Reward, name: str | None = None) -> Subject | None:
    """How this reward is tried, or `None` when nothing is known about it.

    Raises:
        UserError: `name` is given and is no known subject.
    """
    known = subjects()
    if name is not None:
        chosen = known.get(name) or next((s for s in known.values() if s.name == name), None)
        if chosen is None:
            names = sorted({s.name for s in known.values()} | set(known))
            raise UserError(f"unknown subject {name!r}; known subjects: {', '.join(names)}")
        return chosen
    parts = [_fit(known[part.name], part) for part in parts_of(reward) if part.name in known]
    judging = [subject for subject in parts if subject.judges == "answer"]
    if judging or parts:
        return (judging or parts)[0]
    needed = set(needed_columns(reward))
    if not needed:
        return None
    for reward_name in _BY_COLUMNS:
        subject = known[reward_name]
        if needed == set(subject.columns):
            return subject
    if len(needed) == 1 and needed <= set(ANSWER_COLUMNS):
        return known["answer"]
    return None
