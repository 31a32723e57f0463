"""Subjects of rewards that compare an answer: exact, numeric, countdown, and unknown ones.

The problems come from the domains of `rlkit.tasks`, so the truth is computed there.
Chosen are those whose answer can be attacked: two or more different digits, and not
standing in the question already.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from rlkit.rewards.audit.mutation import mutate_list, mutate_number
from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject
from rlkit.tasks import Problem, get_domain
from rlkit.tasks.countdown import verify_countdown

_TAGS = "<answer>ANSWER</answer>"
#: Problems of one kind that a subject draws.
EACH = 3
#: Forms of a right answer in tags, by name.
_FORMS = {
    "answer block alone": _TAGS,
    "thought and answer": f"<think>I work it out step by step.</think>{_TAGS}",
    "thought over lines": f"<think>\nFirst one part.\nThen the other.\n</think>\n{_TAGS}\n",
    "white space inside": "<answer> ANSWER </answer>",
    "line breaks inside": "<answer>\nANSWER\n</answer>",
    "a wrong turn in the thought": f"<think>Is it 7? No, that is too small.</think>{_TAGS}",
}


def answer_problem(problem: Problem, wrong: Sequence[str], **facts: object) -> AuditProblem:
    """An audit problem from a domain's problem whose answer stands in tags."""
    answer = str(problem.columns["answer"])
    mutated = mutate_number(answer) or mutate_list(answer)
    return AuditProblem(
        columns={"answer": answer},
        honest={name: form.replace("ANSWER", answer) for name, form in _FORMS.items()},
        wrong={
            **{f"wrong answer {w}": _TAGS.replace("ANSWER", w) for w in wrong},
            "empty completion": "",
            "question repeated": problem.question,
        },
        answer=answer,
        wrong_answers=tuple(wrong),
        template=_TAGS,
        question=problem.question,
        ladder=("", _TAGS.replace("ANSWER", wrong[0]), _TAGS.replace("ANSWER", answer)),
        same=(
            tuple(form.replace("ANSWER", answer) for form in _FORMS.values()),
            tuple(form.replace("ANSWER", wrong[0]) for form in _FORMS.values()),
        ),
        mutants={name: _TAGS.replace("ANSWER", new) for name, new in mutated.items()},
        facts={"expression": problem.columns.get("expression"), **facts},
    )


def _numbers(seed: int) -> Iterator[AuditProblem]:
    """Sums whose answers have two or three different digits, and one that is negative."""
    arith = get_domain("arith")
    found, negative = 0, 0
    for level in (3, 2, 1):
        for problem in arith.held_out(200, level, seed):
            answer = problem.columns["answer"]
            digits = answer.lstrip("-")
            if len(digits) < 2 or len(set(digits)) < len(digits) or answer in problem.question:
                continue
            if digits in problem.question or digits.endswith("1"):
                continue
            if answer.startswith("-"):
                negative += 1
                if negative > 1:
                    continue
            else:
                found += 1
                if found > EACH:
                    continue
            value = int(answer)
            yield answer_problem(problem, [str(value - 1), str(value + 4), str(value + 1)])


def _orders(seed: int) -> Iterator[AuditProblem]:
    sort = get_domain("sort")
    for problem in sort.held_out(EACH - 1, 2, seed):
        answer = problem.columns["answer"]
        numbers = " ".join(map(str, problem.columns["numbers"]))
        wrong = list(mutate_list(answer).values())
        if numbers != answer:
            wrong.insert(0, numbers)
        yield answer_problem(problem, wrong[:3])


def _exact(seed: int) -> list[AuditProblem]:
    return [*_numbers(seed), *_orders(seed)]


def _numeric(seed: int) -> list[AuditProblem]:
    return list(_numbers(seed))


def _countdown(seed: int) -> list[AuditProblem]:
    """Countdown problems for which `**`, `//` and `%` would reach the target as well."""
    from rlkit.rewards.audit.suite_countdown import forbidden_expression

    domain = get_domain("countdown")
    rng = random.Random(f"audit/countdown/{seed}")
    chosen: list[Problem] = []
    for operator in ("**", "//", "%"):
        for problem in domain.held_out(150, 2, seed):
            numbers, target = problem.columns["numbers"], problem.columns["target"]
            if problem not in chosen and forbidden_expression(numbers, target, operator):
                chosen.append(problem)
                break
    return [_countdown_problem(problem, rng) for problem in chosen]


def _countdown_problem(problem: Problem, rng: random.Random) -> AuditProblem:
    solution = problem.columns["solution"]
    numbers, target = problem.columns["numbers"], problem.columns["target"]
    changed = {
        f"{old} for {new} at {i}": f"{solution[:i]}{new}{solution[i + 1 :]}"
        for i, old in enumerate(solution)
        if old in "+-*"
        for new in "+-*"
        if new != old
    }
    changed |= mutate_list(solution)
    wrong = {
        name: text
        for name, text in changed.items()
        if not verify_countdown(text, numbers, target)[0]
    }
    forms = {
        **_FORMS,
        "brackets around all": "<answer>(ANSWER)</answer>",
        "no blanks": f"<answer>{solution.replace(' ', '')}</answer>",
    }
    plain = list(wrong.values())
    return AuditProblem(
        columns={"numbers": list(numbers), "target": target},
        honest={name: form.replace("ANSWER", solution) for name, form in forms.items()},
        wrong={
            **{name: _TAGS.replace("ANSWER", text) for name, text in list(wrong.items())[:3]},
            "empty completion": "",
            "question repeated": problem.question,
            "slip of the domain": domain_wrong(problem, rng),
        },
        answer=solution,
        wrong_answers=(plain[0], plain[1], plain[-1]),
        template=_TAGS,
        question=problem.question,
        ladder=("", _TAGS.replace("ANSWER", plain[0]), _TAGS.replace("ANSWER", solution)),
        same=(tuple(form.replace("ANSWER", solution) for form in forms.values()),),
        mutants={name: _TAGS.replace("ANSWER", text) for name, text in wrong.items()},
        facts={
            "numbers": list(numbers),
            "target": target,
            "solution": solution,
            "bare_mutants": wrong,
        },
    )


def domain_wrong(problem: Problem, rng: random.Random) -> str:
    """A wrong answer as the domain teaches them, in tags, so that it is wrong for everybody."""
    domain = get_domain(problem.domain)
    while True:
        text = domain.wrong_answer(problem, rng)
        if text.startswith("<answer>"):
            return text


_ANSWER = ("answer", "length", "strain")

EXACT = Subject("exact answer", "answer", "the answer, word by word", _ANSWER, _exact, ("answer",))
register_subject("exact_answer", EXACT)
register_subject(
    "numeric_answer",
    Subject("numeric answer", "answer", "the answer, as a number", _ANSWER, _numeric, ("answer",)),
)
COUNTDOWN = Subject(
    "countdown",
    "answer",
    "an expression over given numbers",
    ("answer", "countdown", "length", "strain"),
    _countdown,
    ("numbers", "target"),
)
register_subject("countdown_answer", COUNTDOWN)
register_subject(
    "answer",
    Subject(
        "answer",
        "answer",
        "the answer, in a way of its own",
        _ANSWER,
        _numeric,
        ("answer",),
        probe=True,
    ),
)
register_subject(
    "countdown",
    Subject(
        "countdown",
        "answer",
        "an expression over given numbers, in a way of its own",
        COUNTDOWN.suites,
        _countdown,
        ("numbers", "target"),
        probe=True,
    ),
    by_columns=True,
)
