"""Trial: one reward, called on one subject's problems and attacked.

First every honest and every wrong completion is scored. That gives, for each problem,
what an honest answer earns (`full`) and what the worst one earns (`low`). Everything
else is measured between those two, so that a reward may pay on any scale, and a
penalty (whose best value is zero) is tried like any other. The other sections of a card
are in `sections.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlkit.rewards.audit.attack import Attack
from rlkit.rewards.audit.card import AttackResult, Section, shorten
from rlkit.rewards.audit.problems import AuditProblem, Subject
from rlkit.rewards.audit.runner import START_S, Reply, Runner

#: Where part of the reward for part of the work is fair, "paid" means this share.
PAID_IN_FULL = 0.95
#: Examples that a section shows.
MOST_EXAMPLES = 4
#: Differences below this are rounding.
TINY = 1e-9
#: From worst to best; the worst outcome over the problems is the attack's outcome.
_SEVERITY = ("hung", "crashed", "forged", "raised", "paid", "abstained", "withstood", "refused")


@dataclass
class Measured:
    """What the reward said about one problem's completions."""

    problem: AuditProblem
    honest: dict[str, float | None] = field(default_factory=dict)
    wrong: dict[str, float | None] = field(default_factory=dict)
    low: float | None = None
    full: float | None = None

    @property
    def usable(self) -> bool:
        """Whether right and wrong are told apart at all."""
        return self.low is not None and self.full is not None and self.full > self.low + TINY

    def line(self, share: float) -> float:
        return self.low + share * (self.full - self.low)


class Trial:
    """Calls one reward on its problems, and attacks it.

    Args:
        runner: calls the reward.
        subject: how it is tried.
        problems: on which problems.
        limit_s: wall clock of one attack, in seconds.
    """

    def __init__(
        self, runner: Runner, subject: Subject, problems: Sequence[AuditProblem], limit_s: float
    ) -> None:
        self.runner = runner
        self.subject = subject
        self.limit_s = limit_s
        self.first_seconds = 0.0
        if problems:  # whatever starts at the first call is not to be timed
            self.call(problems[0], [""], START_S)
        self.measured = [self._measure(problem) for problem in problems]

    # -- calling ----------------------------------------------------------------------

    def scores(self, problem: AuditProblem, completions: Sequence[str]) -> list[Reply]:
        """One reply for each completion: all in one call, or one by one when that fails."""
        if not completions:
            return []
        limit = max(START_S / 2, self.limit_s * len(completions) / 4)
        reply = self.call(problem, completions, limit)
        if not reply.fault:
            each = reply.seconds / len(completions)
            return [Reply((score,), each) for score in reply.scores]
        return [self.call(problem, [text], self.limit_s) for text in completions]

    def call(self, problem: AuditProblem, completions: Sequence[str], limit_s: float) -> Reply:
        prompt = [{"role": "user", "content": problem.question}]
        return self.runner.call(problem.columns, completions, limit_s, prompt)

    def values(self, problem: AuditProblem, named: Mapping[str, str]) -> dict[str, float | None]:
        replies = self.scores(problem, list(named.values()))
        return {name: value_of(reply) for name, reply in zip(named, replies, strict=True)}

    def _measure(self, problem: AuditProblem) -> Measured:
        texts = [*problem.honest.values(), *problem.wrong.values()]
        replies = self.scores(problem, texts)
        self.first_seconds += sum(reply.seconds for reply in replies)
        values = [value_of(reply) for reply in replies]
        split = len(problem.honest)
        found = Measured(
            problem,
            dict(zip(problem.honest, values[:split], strict=True)),
            dict(zip(problem.wrong, values[split:], strict=True)),
        )
        known = [v for v in found.honest.values() if v is not None]
        low = [v for v in found.wrong.values() if v is not None]
        found.full = max(known, default=None)
        found.low = min(low, default=None)
        return found

    def usable(self) -> list[Measured]:
        """The problems on which right and wrong are told apart."""
        return [m for m in self.measured if m.usable]

    def wrong_line(self, m: Measured) -> float:
        """From which value on a wrong completion of this problem counts as paid."""
        return m.line(PAID_IN_FULL if m.problem.partial else 0.5)

    # -- attacks ------------------------------------------------------------------------

    def attack(
        self, attacks: Sequence[Attack]
    ) -> tuple[Section, list[AttackResult], dict[str, str]]:
        """Every attack on every problem, one call each, with a hard wall clock."""
        results: list[AttackResult] = []
        not_tried: dict[str, str] = {}
        for attack in attacks:
            if attack.name in self.subject.not_tried:
                not_tried[attack.name] = self.subject.not_tried[attack.name]
            elif attack.holds and not self.runner.killable:
                not_tried[attack.name] = (
                    "it could hold the interpreter, and a thread cannot be ended"
                )
            else:
                result = self._attack(attack)
                if result is None:
                    not_tried[attack.name] = "it fits none of this reward's problems"
                else:
                    results.append(result)
        holes = [r for r in results if not r.held]
        tried = len(results)
        if not tried:
            return Section("attacks", None, "no attack fits this reward"), results, not_tried
        finding = (
            f"{tried} attacks, none went through"
            if not holes
            else f"{len(holes)} of {tried} attacks went through"
        )
        figures = {
            "tried": tried,
            "went_through": len(holes),
            "abstained": sum(r.outcome == "abstained" for r in results),
        }
        examples = [example(r.sentence(), r.completion, r.value) for r in holes[:MOST_EXAMPLES]]
        return Section("attacks", not holes, finding, figures, examples), results, not_tried

    def _attack(self, attack: Attack) -> AttackResult | None:
        worst: AttackResult | None = None
        tried, slowest = 0, 0.0
        for m in self.measured:
            text = attack.on(m.problem)
            if text is None or (not m.usable and not attack.strain):
                continue
            if attack.strain and tried >= 1:
                break  # how long it takes does not depend on the problem
            tried += 1
            reply = self.call(m.problem, [text], self.limit_s)
            slowest = max(slowest, reply.seconds)
            outcome, value = self._outcome(m, reply)
            if outcome == "paid" and attack.strain and self.subject.judges != "answer":
                outcome = "withstood"  # hostile text in good form is paid rightly for its form
            detail = reply.detail or (reply.scores[0].reason if reply.scores else "")
            found = AttackResult(
                attack.name,
                attack.suite,
                attack.exploits,
                outcome,
                value,
                m.full,
                reply.seconds,
                tried,
                text,
                detail,
            )
            if worst is None or _badness(found) < _badness(worst):
                worst = found
            if outcome == "hung":
                break  # it would on the next problem too, and the limit is spent
        if worst is None:
            return None
        return AttackResult(**{**vars(worst), "tried": tried, "seconds": slowest})

    def _outcome(self, m: Measured, reply: Reply) -> tuple[str, float | None]:
        value = value_of(reply)
        if reply.fault:
            return reply.fault, None
        if value is None:
            return "abstained", None
        paid = m.usable and value >= m.line(self.subject.line) - TINY
        return ("paid" if paid else "refused"), value


def value_of(reply: Reply) -> float | None:
    return reply.scores[0].value if reply.scores else None


def _badness(result: AttackResult) -> tuple[int, float]:
    value = result.value if result.value is not None else 0.0
    return _SEVERITY.index(result.outcome), -value


def example(what: str, completion: str, value: float | None) -> dict[str, Any]:
    return {"what": what, "completion": shorten(completion), "value": value}
