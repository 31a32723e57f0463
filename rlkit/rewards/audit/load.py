"""load_reward: the reward that somebody names on the command line.

A name of a known reward, `module:object`, or a file with a reward's source. A file is
not run in this process: its reward runs in a child, see `rlkit.rewards.source`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.reward import Reward


def load_reward(named: str) -> Reward:
    """The reward of a name, of `module:object`, or of a file.

    Raises:
        UserError: nothing of the kind is there.

    >>> load_reward("exact_answer").name
    'exact_answer'
    """
    from rlkit.rewards import get_reward

    if named.endswith(".py") or "/" in named:
        return _from_file(Path(named))
    if ":" in named:
        return _from_module(*named.split(":", 1))
    try:
        return get_reward(named)
    except UserError as error:
        raise UserError(f"{error}; or give module:object, or a file that ends in .py") from None


def _from_file(path: Path) -> Reward:
    if not path.is_file():
        raise UserError(f"there is no file {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{str(path)!r} cannot be read as text: {error}") from None
    return Reward.from_source(text, name=path.stem)


def _from_module(module: str, name: str) -> Reward:
    from rlkit.rewards import get_reward

    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        found: Any = import_module(module)
    except ImportError as error:
        raise UserError(f"module {module!r} cannot be imported: {error}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"module {module!r} has no {name!r}")
        found = getattr(found, part)
    if isinstance(found, type) or not callable(found):
        raise UserError(f"{module}:{name} is no reward; give a Reward or a function")
    return get_reward(found)
