"""The corpora: programs that attack the machine, and programs that attack the judge.

`cases()` gives all of them. `check.run_check` runs them against a sandbox and looks after
each whether anything is left running, anything outside has changed, and the next honest job
passes. A reader may also take them as examples: every case says in a sentence what it tries.

>>> from rlkit.sandbox.corpus import cases
>>> len(cases("hostile")) >= 110, len(cases("cheat")) >= 40
(True, True)
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from rlkit.sandbox.corpus.case import Case

#: Where the cases are; hostile ones first.
_MODULES = (
    *("exhaustion", "machine", "texts", "native", "scripts", "language_rows"),
    *("expressions", "cheats_values", "cheats_harness", "cheats_output", "cheats_code"),
)

__all__ = ["Case", "cases"]


@lru_cache
def _all() -> tuple[Case, ...]:
    found = [
        case for name in _MODULES for case in import_module(f"rlkit.sandbox.corpus.{name}").CASES
    ]
    names = [case.key for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two cases of one name: {sorted(twice)}")
    return tuple(found)


def cases(
    corpus: str | None = None, language: str | None = None, mode: str | None = None
) -> tuple[Case, ...]:
    """All cases, or those of one corpus, language or mode.

    >>> sorted({case.language for case in cases("hostile", mode="func")})
    ['math', 'python']
    """
    return tuple(
        case
        for case in _all()
        if corpus in (None, case.corpus)
        and language in (None, case.language)
        and mode in (None, case.mode)
    )
