"""What leads to a verdict beside the job itself, by version: parts of a result's key.

The tools of a language, and our own code that runs and judges.

Left out on purpose: the versions of system libraries. A machine that changes its C library
under a running cache is told by `rlkit sandbox cache clear`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path


def toolchain(
    language: str, preload: str = "base", python: str = sys.executable, mode: str = "func"
) -> str:
    """What would run a program of this language, by version.

    Args:
        language: a name of the table.
        preload: libraries that are loaded already.
        python: interpreter of the sandbox.
        mode: `io` starts a language's own tools; the other modes run in the sandbox's Python.

    >>> toolchain("python").startswith("python")
    True
    """
    machine = f"{platform.system()} {platform.machine()}"
    if mode != "io":
        return f"python {_interpreter(python)} {_libraries(language, preload)} {machine}"
    return f"{language} {_tools(language)} {machine}"


def _interpreter(python: str) -> str:
    if python == sys.executable:
        return sys.version
    place = os.path.realpath(python)
    try:
        about = os.stat(place)
    except OSError:
        return place
    return f"{place} {about.st_size} {about.st_mtime_ns}"


def _libraries(language: str, preload: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    wanted = {"numpy": ("numpy",), "sympy": ("sympy", "mpmath")}.get(preload, ())
    if language == "math":
        wanted = ("sympy", "mpmath")
    said = []
    for name in wanted:
        try:
            said.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            said.append(f"no {name}")
    return ", ".join(said)


def _tools(language: str) -> str:
    from rlkit.sandbox import languages

    found = languages.detect(language)
    return getattr(found, "identity", "absent")


def harness_version() -> str:
    """A hash of our own files that run a job and judge it; another hash, another key."""
    global _harness
    if _harness is None:
        here = Path(__file__).parent
        digest = hashlib.sha256()
        for name in sorted(here.rglob("*.py")):
            part = name.relative_to(here)
            if part.parts[0] in _DECIDES_NOTHING:
                continue
            digest.update(str(part).encode() + b"\0" + name.read_bytes() + b"\0")
        _harness = digest.hexdigest()[:16]
    return _harness


_harness: str | None = None

#: Files and folders here that no verdict depends on.
_DECIDES_NOTHING = frozenset(
    (
        *("__init__.py", "cache.py", "flaky.py", "scheduler.py", "sandbox.py", "engine.py"),
        *("badges.py", "doctor.py", "job_file.py", "serve", "corpus"),
    )
)
