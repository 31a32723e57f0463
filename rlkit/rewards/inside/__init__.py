"""Programs that the rewards send into the sandbox around what a model wrote.

They are read as text (`source_of`) and become part of a job's source; this process
never runs them around a model's text. Standard library only, and as little of it as
can be, because a fresh interpreter loads them for every job. None of them knows what
is expected.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def source_of(*names: str) -> str:
    """The text of these modules of this folder, one after the other.

    >>> "def run(" in source_of("names", "program")
    True
    """
    here = Path(__file__).parent
    return "\n".join((here / f"{name}.py").read_text(encoding="utf-8") for name in names)
