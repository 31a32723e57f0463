"""The hostile programs that the table of languages brings itself, one or more a row.

They try several things in one program and print `LEAK` for what they manage; here they become
cases like the others. Honest programs of the same rows are run by `check.py` before the first
case of a language.
"""

from __future__ import annotations

from rlkit.sandbox import languages
from rlkit.sandbox.corpus.case import ROOMY, Case
from rlkit.sandbox.languages.row import Language, Smoke
from rlkit.sandbox.types import Status


def _case(row: Language, smoke: Smoke) -> Case:
    lesson = f"{row.title}: {smoke.name}."
    limits = smoke.limits or ROOMY
    return Case(smoke.name, "hostile", row.name, "io", smoke.source, smoke.tests,
                frozenset(smoke.acceptable) - {Status.PASS}, "files_read", lesson, entry="",
                limits=limits, needs=("teardown", "files_write"))  # fmt: skip


CASES = tuple(
    _case(languages.get(name), smoke)
    for name in languages.NAMES
    if name != "math"
    for smoke in languages.get(name).hostile
)
