"""The same cheats against other people's checkers: how many of them does each one pay?

The corpus's own cheats are used (Python, one function, values), in the same run as ours.
Each is judged in a process of its own, in throw-away namespaces without network, as an
ordinary user, and is killed when it takes too long; nothing is installed. What is not
installed here is named and left out.

Left out on purpose: a ranking. Those checkers say themselves that they are no sandbox, and
most of them were never meant to hold against a program that is trained against them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import levels
from rlkit.sandbox.corpus import cases
from rlkit.sandbox.corpus.case import Case
from rlkit.sandbox.corpus.check import Check
from rlkit.sandbox.corpus.peer_harnesses import HARNESSES, SECONDS

#: A folder with packages that are not installed in this environment.
FOLDER = "RLKIT_PEERS"

_HONEST = "def f(x):\n    return sorted(x)\n"


@dataclass
class Tally:
    """What one checker said of all cheats.

    Attributes:
        name: the checker's.
        version: of the package it is from; empty for a pattern.
        paid: cheats that it took for right.
        total: cheats that it was given.
        broke: cheats after which it gave no answer at all.
        honest: whether it pays an honest solution.
        missing: why it was left out; empty when it was not.
    """

    name: str
    version: str = ""
    paid: list[str] = field(default_factory=list)
    total: int = 0
    broke: list[str] = field(default_factory=list)
    honest: bool | None = None
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dict(vars(self))


#: Right by `==`, as those checkers compare, so it would be unfair to count them.
_EQUAL_IN_PYTHON = frozenset({"True for one", "one for True"})


def cheats() -> tuple[Case, ...]:
    """The cheats that every checker can be given: one Python function, plain values."""
    return tuple(
        case
        for case in cases("cheat", "python", "func")
        if case.entry == "f" and case.name not in _EQUAL_IN_PYTHON
    )


def compare(
    check: Check | None = None,
    chosen: Sequence[Case] | None = None,
    harnesses: Sequence[str] = tuple(HARNESSES),
    say: Callable[[str], None] | None = None,
) -> list[Tally]:
    """Give the cheats to every checker that is here; ours comes first.

    Args:
        check: our own results, from the same run; without it ours is left out.
        chosen: some of `cheats()`; all when None.
        harnesses: names of `peer_harnesses.HARNESSES`.
        say: called with a line now and then.

    Raises:
        UserError: this machine cannot keep them apart, so they are not run.
    """
    wanted = tuple(cheats() if chosen is None else chosen)
    tallies = [] if check is None else [_ours(check, wanted)]
    with _folder() as folder:
        for name in harnesses:
            _, module = HARNESSES[name]
            tally = Tally(name)
            tallies.append(tally)
            tally.missing = _missing(module)
            if tally.missing:
                if say:
                    say(f"{name}: left out, {tally.missing}")
                continue
            tally.version = _version(module)
            honest, _ = _judge(folder, name, _HONEST, wanted[0].tests)
            tally.honest = honest
            for case in wanted:
                paid, said = _judge(folder, name, case.source, case.tests)
                tally.total += 1
                if paid:
                    tally.paid.append(case.name)
                elif paid is None:
                    tally.broke.append(f"{case.name}: {said}")
            if say:
                say(f"{name}: paid {len(tally.paid)} of {tally.total}")
    return tallies


def table(tallies: Sequence[dict[str, Any]]) -> str:
    """The comparison as text.

    >>> print(table([Tally("pytest", "9.0", ["a"], 2).to_json()]).splitlines()[1].strip())
    pytest 9.0                         1 of 2
    """
    lines = ["cheats paid, by who judges:"]
    for tally in tallies:
        name = f"{tally['name']} {tally['version']}".strip()
        if tally["missing"]:
            lines.append(f"  {name:<30} left out: {tally['missing']}")
            continue
        broke = f"; no answer after {len(tally['broke'])}" if tally["broke"] else ""
        lines.append(f"  {name:<30} {len(tally['paid']):>5} of {tally['total']}{broke}")
    return "\n".join(lines)


def _ours(check: Check, wanted: Sequence[Case]) -> Tally:
    names = {case.name for case in wanted}
    ran = [c for c in check.cases if c.corpus == "cheat" and c.mode == "func" and c.name in names]
    return Tally(
        "rlkit, func mode", "", [c.name for c in ran if c.status == "PASS"], len(ran), honest=True
    )


def _missing(module: str) -> str:
    """Why a package cannot be used; empty if it can."""
    if not module or _found_in_folder(module) or find_spec(module) is not None:
        return ""
    package = module.replace("_", "-")
    return (
        f"{package} is not here; pip install --no-deps --target FOLDER {package}, and set "
        f"{FOLDER}=FOLDER"
    )


def _found_in_folder(module: str) -> bool:
    folder = os.environ.get(FOLDER, "")
    return bool(folder) and (Path(folder) / module).is_dir()


def _version(module: str) -> str:
    if not module:
        return ""
    folder = os.environ.get(FOLDER, "")
    for place in Path(folder).glob(f"{module}-*.dist-info") if folder else ():
        return place.name.removesuffix(".dist-info").rpartition("-")[2]
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return ""


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder that the ordinary user whom the checkers run as may write."""
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        raise UserError(
            "the other checkers hold nothing back, so they are run in namespaces of their own, "
            "which need Linux and the program `unshare`"
        )
    folder = Path(tempfile.mkdtemp(prefix="rlkit-peers-"))
    try:
        folder.chmod(0o777)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(folder: Path, name: str, source: str, tests: Sequence[Any]) -> tuple[bool | None, str]:
    """One case by one checker: whether it pays (None without an answer), and what it says."""
    place = Path(tempfile.mkdtemp(dir=folder))
    place.chmod(0o777)
    result = place / "verdict.json"
    python, more = levels.interpreter()
    command = [python, str(Path(__file__).with_name("peer_harnesses.py")), name, str(result)]
    asked = [(repr(tuple(t.get("args", ()))), repr(t.get("expected"))) for t in tests]
    request = {"source": source, "tests": asked}
    environment = {
        **{"PATH": "/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)},
        **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        "PYTHONPATH": _paths(more.get("PYTHONPATH", "")),
    }
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    alone += ["--mount-proc", "--net", "--ipc", "--uts"]
    wrapped = levels.wrap("user", [*alone, *command])
    with contextlib.suppress(subprocess.TimeoutExpired):
        process = subprocess.Popen(
            wrapped, cwd=place, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            # Half characters in a program travel as JSON escapes.
            process.communicate(json.dumps(request).encode(), timeout=4 * SECONDS)
        finally:
            # Its first process ends, and with it everything that it ever started.
            process.kill()
            process.wait()
    try:
        found = json.loads(result.read_text())
    except (OSError, ValueError) as error:
        return None, f"no answer ({type(error).__name__})"
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return bool(found["paid"]), str(found["said"])


def _paths(more: str) -> str:
    """Where Python finds the checkers, and this package before it becomes somebody else."""
    above = str(Path(__file__).parents[3])
    known = (os.environ.get(FOLDER, ""), more, above, os.environ.get("PYTHONPATH", ""))
    return ":".join(part for part in known if part)
