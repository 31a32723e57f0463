"""The languages the sandbox runs, one row of a table each.

>>> get("c++").title
'C++'
>>> [row["language"] for row in table()][:3]
['python', 'javascript', 'typescript']

A language whose toolchain is not on this machine is a sentence in the table, and a `UserError`
with the same sentence where somebody wants to use it.

Names are resolved when they are first used, and toolchains are looked for once per process.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.sandbox.languages.names import NAMES, canonical

if TYPE_CHECKING:
    from rlkit.sandbox.languages.row import Language, LanguageMissing, Toolchain

__all__ = [
    "NAMES",
    "canonical",
    "detect",
    "get",
    "prepared_folder",
    "readable_paths",
    "require",
    "table",
    "toolchain_folder",
]

_lock = threading.Lock()


@lru_cache(maxsize=1)
def _rows() -> dict[str, Language]:
    from rlkit.sandbox.languages import compiled, scripted

    rows = (
        *(scripted.PYTHON, scripted.JAVASCRIPT, scripted.TYPESCRIPT),
        *(compiled.C, compiled.CPP, compiled.JAVA, compiled.RUST, compiled.GO),
        *(scripted.BASH, scripted.SQL, scripted.MATH),
    )
    return {row.name: row for row in rows}


def get(name: str) -> Language:
    """The row of a language, by any of its names.

    Raises:
        UserError: no such language.
    """
    return _rows()[canonical(name)]


def detect(name: str) -> Toolchain | LanguageMissing:
    """The toolchain of a language on this machine, or why there is none. Looked for once."""
    return _detected(canonical(name), os.environ.get("PATH", ""))


@lru_cache(maxsize=64)
def _detected(name: str, path: str) -> Toolchain | LanguageMissing:
    return _rows()[name].find()


def require(name: str) -> Toolchain:
    """The toolchain of a language on this machine.

    Raises:
        UserError: there is none; the sentence says what would bring it.
    """
    from rlkit.sandbox.languages.row import LanguageMissing

    found = detect(name)
    if isinstance(found, LanguageMissing):
        raise UserError(f"{get(name).title} cannot be run here: {found.sentence}")
    return found


def table() -> list[dict[str, Any]]:
    """The whole table as plain data, one dict a language, for documents and lessons."""
    from rlkit.sandbox.languages.row import LanguageMissing

    made = []
    for row in _rows().values():
        found = detect(row.name)
        missing = isinstance(found, LanguageMissing)
        made.append(
            {
                "language": row.name,
                "title": row.title,
                "available": not missing,
                "toolchain": found.sentence if missing else found.version,
                "compiled": row.compile is not None,
                "modes": list(row.modes),
                "memory": row.memory,
                "needs_mb": row.needs_mb,
                "processes": row.processes,
                "honest": [smoke.name for smoke in row.honest],
                "hostile": [smoke.name for smoke in row.hostile],
            }
        )
    return made


def toolchain_folder() -> Path:
    """Where lies what is made once from a toolchain's own files; read by compilers inside.

    Root's own folder is closed to others, and without namespaces a program of root's runs as
    another user: then it is `/var/cache/rlkit`, unless `RLKIT_HOME` says where.
    """
    from rlkit.home import home
    from rlkit.sandbox.languages.search import closed_to_others

    own = home() / "sandbox" / "toolchains"
    root = hasattr(os, "getuid") and os.getuid() == 0
    if root and "RLKIT_HOME" not in os.environ and closed_to_others(own):
        return Path("/var/cache/rlkit/toolchains")
    return own


def readable_paths() -> tuple[str, ...]:
    """Every folder and file that the toolchains of this machine read, each once.

    The folder of `toolchain_folder()` is among them, and is made if it is not there, so that
    what is prepared later can be read by a sandbox that is open already.
    """
    from rlkit.sandbox.languages.row import LanguageMissing

    paths: list[str] = []
    for name in _rows():
        found = detect(name)
        if not isinstance(found, LanguageMissing):
            paths += found.readable
    folder = toolchain_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        paths.append(str(folder))
    except OSError:
        pass  # then nothing can be prepared either, and `prepared_folder` says so
    return tuple(dict.fromkeys(paths))


def prepared_folder(name: str) -> Path:
    """The folder with what a language's compiler needs made once; makes it the first time.

    Two threads, or two processes, that need it at once wait for the first.

    Raises:
        UserError: the toolchain is missing, or its own files cannot be compiled.
    """
    row, toolchain = get(name), require(name)
    folder = toolchain_folder() / f"{row.name}-{toolchain.identity[:16]}"
    if row.prepare is None or (folder / "ready").exists():
        return folder
    with _lock:
        return _prepare(row, toolchain, folder)


def _prepare(row: Language, toolchain: Toolchain, folder: Path) -> Path:
    import shutil
    import subprocess

    from rlkit.sandbox.languages.locking import one_process_at_a_time

    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        with one_process_at_a_time(folder.with_suffix(".lock")):
            if (folder / "ready").exists():
                return folder
            shutil.rmtree(folder, ignore_errors=True)  # half made by a process that was killed
            folder.mkdir(mode=0o755)
            print(
                f"{row.title}: preparing {toolchain.version} once, in {folder}",
                file=sys.stderr,
                flush=True,
            )
            row.prepare(toolchain, folder)
            (folder / "ready").touch()
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(
            f"{row.title} cannot be prepared in {folder}: {error}; set RLKIT_HOME to a folder "
            "that can be written"
        ) from None
    return folder
