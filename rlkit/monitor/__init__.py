"""The monitor: records, rules, and what is done about trouble."""

from rlkit.monitor.monitor import Intervention, Monitor
from rlkit.monitor.record import StepRecord
from rlkit.monitor.rules import (
    EntropyCollapse,
    Finding,
    NonFiniteGradient,
    RewardCollapse,
    Rule,
    default_rules,
)

__all__ = [
    "EntropyCollapse",
    "Finding",
    "Intervention",
    "Monitor",
    "NonFiniteGradient",
    "RewardCollapse",
    "Rule",
    "StepRecord",
    "default_rules",
]
