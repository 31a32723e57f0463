"""The sections of a card, beside the attacks: what a good reward keeps to.

Honest answers keep their reward, labelled completions are told apart, answers made wrong
in one place are refused, more right never earns less, white space and the order of rows
change nothing, the same completion earns the same again, and none takes for ever.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rlkit.rewards.audit.card import AttackResult, Section
from rlkit.rewards.audit.mutation import mutate_program, really_wrong
from rlkit.rewards.audit.problems import AuditProblem
from rlkit.rewards.audit.trial import MOST_EXAMPLES, TINY, Trial, example, value_of

#: An honest answer keeps its reward when it earns this share of what the best one earns.
KEPT = 0.95
#: Mutants of one program that are tried.
MOST_MUTANTS = 12


def tells_apart(trial: Trial) -> Section:
    """Whether honest answers earn more than wrong ones at all."""
    examples = []
    for m in trial.measured:
        if m.usable:
            continue
        form, text = next(iter(m.problem.honest.items()), ("", ""))
        what = "honest" if m.full is None else f"honest ({form}), no more than a wrong one"
        examples.append(example(what, text, m.full))
    bad = len(trial.measured) - len(trial.usable())
    finding = (
        f"tells right from wrong on {_count(len(trial.measured), 'problem')}"
        if not bad
        else f"does not tell right from wrong on {bad} of {len(trial.measured)} problems"
    )
    return Section(
        "right and wrong",
        not bad,
        finding,
        {"problems": len(trial.measured), "not_told_apart": bad},
        examples[:MOST_EXAMPLES],
    )


def honest(trial: Trial) -> Section:
    """Whether every right form keeps its reward."""
    refused, forms = [], 0
    for m in trial.usable():
        for form, value in m.honest.items():
            forms += 1
            if value is None or value < m.line(KEPT) - TINY:
                refused.append(example(form, m.problem.honest[form], value))
    if not forms:
        return Section("honest answers", None, "no problem gives honest answers")
    finding = (
        f"all {forms} honest answers keep their reward"
        if not refused
        else f"refuses {len(refused)} of {forms} honest answers "
        f"({', '.join(dict.fromkeys(e['what'] for e in refused))})"
    )
    figures = {"honest": forms, "refused": len(refused)}
    return Section("honest answers", not refused, finding, figures, refused[:MOST_EXAMPLES])


def labelled(trial: Trial) -> Section:
    """Precision and recall on the labelled completions."""
    right_paid = right = wrong_paid = abstained = 0
    examples = []
    for m in trial.measured:
        for value in m.honest.values():
            right += 1
            abstained += value is None
            right_paid += value is not None and m.usable and value >= m.line(KEPT) - TINY
        for name, value in m.wrong.items():
            abstained += value is None
            paid = value is not None and (not m.usable or value >= trial.wrong_line(m) - TINY)
            if paid:
                wrong_paid += 1
                examples.append(example(name, m.problem.wrong[name], value))
    if trial.subject.judges != "answer":
        return Section(
            "precision and recall",
            None,
            "does not judge the answer, so a wrong answer in good form is paid rightly",
        )
    paid = right_paid + wrong_paid
    precision = right_paid / paid if paid else None
    recall = right_paid / right if right else None
    passed = precision == 1.0 and recall is not None and recall >= KEPT
    finding = f"precision {_share(precision)}, recall {_share(recall)}"
    if wrong_paid:
        finding += f"; pays {_count(wrong_paid, 'wrong answer')}"
    figures = {
        "precision": precision,
        "recall": recall,
        "right": right,
        "wrong": sum(len(m.wrong) for m in trial.measured),
        "wrong_paid": wrong_paid,
        "abstained": abstained,
    }
    return Section("precision and recall", passed, finding, figures, examples[:MOST_EXAMPLES])


def mutation(trial: Trial) -> Section:
    """The share of slightly wrong answers that is refused."""
    if trial.subject.judges != "answer":
        return Section("mutation score", None, "does not judge the answer")
    refused = total = still_right = 0
    examples = []
    for m in trial.usable():
        mutants = dict(m.problem.mutants)
        if m.problem.fact("truth") is not None:
            programs, equal = _wrong_programs(m.problem)
            mutants.update(programs)
            still_right += equal
        for name, value in trial.values(m.problem, mutants).items():
            total += 1
            if value is not None and value >= trial.wrong_line(m) - TINY:
                examples.append(example(name, mutants[name], value))
            else:
                refused += 1
    if not total:
        return Section("mutation score", None, "no problem has answers that can be mutated")
    score = refused / total
    finding = f"refuses {refused} of {total} answers made wrong in one place"
    figures = {"score": score, "mutants": total, "still_right": still_right}
    return Section("mutation score", not examples, finding, figures, examples[:MOST_EXAMPLES])


def monotone(trial: Trial) -> Section:
    """Whether more right never earns less."""
    ladders = [m for m in trial.usable() if len(m.problem.ladder) > 1]
    if not ladders:
        return Section("monotonicity", None, "no problem has a ladder of better answers")
    examples = []
    for m in ladders:
        steps = [value_of(r) for r in trial.scores(m.problem, m.problem.ladder)]
        for i, (lower, higher) in enumerate(itertools.pairwise(steps)):
            if lower is None or higher is None or higher < lower - TINY:
                what = f"step {i + 2}, less than step {i + 1} ({lower})"
                examples.append(example(what, m.problem.ladder[i + 1], higher))
        if steps[0] is not None and steps[-1] is not None and steps[-1] <= steps[0] + TINY:
            examples.append(example("the best earns no more", m.problem.ladder[-1], steps[-1]))
    finding = (
        f"more right never earns less, on {_count(len(ladders), 'ladder')}"
        if not examples
        else f"earns less for more in {_count(len(examples), 'place')}"
    )
    return Section(
        "monotonicity",
        not examples,
        finding,
        {"ladders": len(ladders), "broken": len(examples)},
        examples[:MOST_EXAMPLES],
    )


def invariance(trial: Trial) -> Section:
    """Whether white space and the order of the rows change anything."""
    examples, sets, rows = [], 0, 0
    for m in trial.measured:
        for same in m.problem.same:
            sets += 1
            values = [value_of(r) for r in trial.scores(m.problem, same)]
            for text, value in zip(same, values, strict=True):
                if not _equal(value, values[0]):
                    what = f"another form of one that earns {values[0]}"
                    examples.append(example(what, text, value))
        before = {**m.honest, **m.wrong}
        texts = {**m.problem.honest, **m.problem.wrong}
        backwards = dict(reversed(texts.items()))
        rows += len(texts)
        for name, value in trial.values(m.problem, backwards).items():
            if not _equal(value, before[name]):
                what = f"{name}, which earned {before[name]} in another order of rows"
                examples.append(example(what, texts[name], value))
    finding = (
        f"{_count(sets, 'set')} of equal completions and {_count(rows, 'row')} "
        "in another order earn the same"
        if not examples
        else f"{len(examples)} completions earn something else in another white space or order"
    )
    figures = {"sets": sets, "rows": rows, "changed": len(examples)}
    return Section("invariance", not examples, finding, figures, examples[:MOST_EXAMPLES])


def repeatable(trial: Trial) -> Section:
    """Whether the same completion earns the same again."""
    examples, rows = [], 0
    for m in trial.measured:
        texts = {**m.problem.honest, **m.problem.wrong}
        before = {**m.honest, **m.wrong}
        replies = trial.scores(m.problem, list(texts.values()))
        for (name, text), reply in zip(texts.items(), replies, strict=True):
            rows += 1
            if not _equal(value_of(reply), before[name]):
                what = f"{name}, which earned {before[name]} before"
                examples.append(example(what, text, value_of(reply)))
    if not rows:
        return Section("determinism", None, "there are no completions to score twice")
    finding = (
        f"{rows} completions earn the same when they are scored again"
        if not examples
        else f"{len(examples)} of {rows} completions earn something else the second time"
    )
    figures = {"rows": rows, "changed": len(examples)}
    return Section("determinism", not examples, finding, figures, examples[:MOST_EXAMPLES])


def timing(trial: Trial, results: Sequence[AttackResult]) -> Section:
    """How long scoring takes, and the longest that one completion can make it."""
    rows = sum(len(m.honest) + len(m.wrong) for m in trial.measured)
    per_thousand = 1000 * trial.first_seconds / rows if rows else None
    slowest = max(results, key=lambda r: r.seconds, default=None)
    hung = [r for r in results if r.outcome == "hung"]
    if slowest is None or per_thousand is None:
        return Section("time", None, "nothing was timed")
    figures = {
        "seconds_per_1000": per_thousand,
        "worst_seconds": slowest.seconds,
        "worst_attack": slowest.name,
        "limit_seconds": trial.limit_s,
    }
    finding = f"{per_thousand:.3g} s for 1,000 completions; the slowest attack ({slowest.name}) "
    if hung:
        finding += f"was stopped after {trial.limit_s:g} s"
    else:
        finding += f"took {slowest.seconds:.3g} s"
    return Section("time", not hung, finding, figures)


def _wrong_programs(problem: AuditProblem) -> tuple[dict[str, str], int]:
    """Mutants of the problem's solution that are really wrong, and how many are not."""
    mutants = mutate_program(problem.fact("solution"))
    step = max(1, len(mutants) // MOST_MUTANTS)
    chosen = dict(list(mutants.items())[::step][:MOST_MUTANTS])
    wrong = really_wrong(chosen, problem.fact("entry"), problem.fact("truth"))
    fenced = {name: f"```python\n{source}\n```" for name, source in wrong.items()}
    return fenced, len(chosen) - len(wrong)


def _equal(a: float | None, b: float | None) -> bool:
    return a == b if a is None or b is None else abs(a - b) <= TINY


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
