"""%%reward: a notebook cell as the code box of the Reward Lab.

    %%reward
    def reward(completions, answer):
        ...

The cell is applied to the lab that was opened last. It is never run in the notebook's own
process. For front ends that show no widgets, and for those who like the notebook's editor.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError

if TYPE_CHECKING:
    from rlkit.lab.rewardlab.panel import RewardLab

_latest: weakref.ReferenceType[Any] | None = None


def register_magic(lab: RewardLab) -> bool:
    """Makes `%%reward` apply its cell to this lab; whether there is a notebook to do it in."""
    global _latest
    _latest = weakref.ref(lab)
    shell = _shell()
    if shell is None:
        return False
    shell.register_magic_function(_reward_cell, "cell", "reward")
    return True


def apply_cell(source: str) -> Any:
    """Applies a cell's source to the lab that was opened last, and shows what came of it.

    Raises:
        UserError: no lab is open.
    """
    lab = None if _latest is None else _latest()
    if lab is None:
        raise UserError("no Reward Lab is open; run lab = rlkit.lab.reward_lab() first")
    outcome = lab.apply(source)
    return lab.snapshot(outcome.sentence) if outcome.ok else outcome


def _reward_cell(line: str, cell: str) -> Any:
    """The magic: a cell that holds the source of a reward."""
    if line.strip():
        raise UserError(f"%%reward takes nothing on its own line, not {line.strip()!r}")
    return apply_cell(cell)


def _shell() -> Any:
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()
