"""Where rlkit keeps what belongs to a person rather than to a project: one folder.

`RLKIT_HOME`, or `.rlkit` in the home folder. Progress in the lessons, fetched models and
cached results lie there; removing it loses nothing that cannot be made again, except the
progress.
"""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder, whether it exists or not.

    >>> home().name != ""
    True
    """
    given = os.environ.get("RLKIT_HOME")
    return Path(given).expanduser() if given else Path.home() / ".rlkit"
