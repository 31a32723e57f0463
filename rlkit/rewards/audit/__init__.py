"""audit: a report card for a reward, from attacks, honest answers and mutants.

>>> from rlkit.rewards.audit import audit
>>> from rlkit.rewards.audit.bad import BAD
>>> card = audit(BAD["generous_format"])
>>> card.passed, card.holes[0].sentence()
(False, "pays empty tags ('empty_tags', 1 of 1)")
"""

from __future__ import annotations

from rlkit.rewards.audit.attack import SUITES, Attack, all_attacks, attacks
from rlkit.rewards.audit.card import AttackResult, ReportCard, Section
from rlkit.rewards.audit.problems import (
    AuditProblem,
    Subject,
    register_subject,
    subject_for,
    subjects,
)
from rlkit.rewards.audit.run import audit

__all__ = [
    "SUITES",
    "Attack",
    "AttackResult",
    "AuditProblem",
    "ReportCard",
    "Section",
    "Subject",
    "all_attacks",
    "attacks",
    "audit",
    "register_subject",
    "subject_for",
    "subjects",
]
