"""Monitor: watches the records and decides; the loop carries it out.

Every decision is an `Intervention` with the numbers that caused it. Acting is
budgeted, and followed by a cool-down in which rules may look but not act. The
same records give the same decisions, with a model or without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.monitor.record import StepRecord
from rlkit.monitor.rules import Action, Finding, RewardCollapse, Rule, default_rules


@dataclass(frozen=True)
class Intervention:
    """One decision.

    Attributes:
        step: the step whose record caused it.
        rule: name of the rule.
        action: what is done: `skip_step`, `rollback` or `warn`.
        reason: a sentence with the numbers.
        evidence: the numbers by name.
        held_back: why the rule's own action was replaced by a warning, or empty.
    """

    step: int
    rule: str
    action: Action
    reason: str
    evidence: dict[str, float | None]
    held_back: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Monitor:
    """Rules over the record, with a budget and a cool-down.

    Args:
        rules: `default_rules()` when not given.
        budget: how many rollbacks are allowed in a run; afterwards it only warns.
        cooldown: steps after a rollback in which no other rollback is allowed.

    A skipped step costs no budget: there is nothing else to do with a gradient
    that is not finite.
    """

    def __init__(
        self, rules: Sequence[Rule] | None = None, *, budget: int = 3, cooldown: int = 10
    ) -> None:
        if budget < 0 or cooldown < 0:
            raise UserError(
                f"budget and cooldown must not be negative, not {budget} and {cooldown}"
            )
        self.rules = list(default_rules() if rules is None else rules)
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise UserError(f"a rule stands twice in {names}; give each one once")
        self.budget = budget
        self.cooldown = cooldown
        self.spent = 0
        self.quiet_until = 0

    def before_update(self, record: StepRecord) -> Intervention | None:
        """Whether the update must be skipped; asked before the optimizer steps."""
        for rule in self.rules:
            if rule.action == "skip_step" and (finding := rule.check(record)) is not None:
                return _decide(record, rule, finding)
        return None

    def observe(self, record: StepRecord) -> list[Intervention]:
        """What is to be done after this step, in the order of the rules."""
        decisions = []
        for rule in self.rules:
            if rule.action == "skip_step":
                continue
            finding = rule.check(record)
            if finding is None:
                continue
            held_back = self._held_back(record.step) if rule.action == "rollback" else ""
            decision = _decide(record, rule, finding, held_back)
            decisions.append(decision)
            if decision.action == "rollback":
                self.spent += 1
                self.quiet_until = record.step + self.cooldown
                rule.after_action()
        return decisions

    def _held_back(self, step: int) -> str:
        if self.spent >= self.budget:
            return f"the budget of {self.budget} rollbacks is used up"
        if step <= self.quiet_until:
            return f"cooling down until step {self.quiet_until}"
        return ""

    def best_step(self) -> int | None:
        """The step with the best average reward so far, or `None` before there is one."""
        for rule in self.rules:
            if isinstance(rule, RewardCollapse):
                return rule.best_step
        return None

    def replay(self, records: Iterable[StepRecord | Mapping[str, Any]]) -> list[Intervention]:
        """All decisions over stored records, without a model.

        Args:
            records: `StepRecord`s, or rows of `metrics.jsonl`.
        """
        decisions: list[Intervention] = []
        for row in records:
            record = row if isinstance(row, StepRecord) else StepRecord.from_dict(row)
            skipped = self.before_update(record)
            decisions += [] if skipped is None else [skipped]
            decisions += self.observe(record)
        return decisions

    def state_dict(self) -> dict[str, Any]:
        return {
            "spent": self.spent,
            "quiet_until": self.quiet_until,
            "rules": {rule.name: rule.state_dict() for rule in self.rules},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if never stopped, patience and budget included.

        Raises:
            UserError: the state belongs to other rules.
        """
        if set(state["rules"]) != {rule.name for rule in self.rules}:
            raise UserError(f"the saved monitor has other rules: {sorted(state['rules'])}")
        self.spent, self.quiet_until = state["spent"], state["quiet_until"]
        for rule in self.rules:
            rule.load_state_dict(state["rules"][rule.name])


def _decide(record: StepRecord, rule: Rule, finding: Finding, held_back: str = "") -> Intervention:
    action: Action = "warn" if held_back else rule.action
    return Intervention(record.step, rule.name, action, finding.reason, finding.evidence, held_back)
