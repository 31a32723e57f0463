"""Accuracy: graders of maths answers side by side, on the same rows, in one run.

The rows are the cases of kind a in `tests/cases/public_abc.jsonl`: small inputs made
after public bug reports, each with the answer that is right. Every grader runs in a
process of its own that is killed when a call takes too long.

Left out: a ranking on a benchmark's completions. These rows are hard cases on
purpose; shares here say nothing about shares on ordinary answers.
"""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlkit.bench.graders import GRADERS
from rlkit.errors import UserError

#: Seconds that one call may take, and that a grader may take to start.
CALL_SECONDS = 10.0
START_SECONDS = 180.0
_NEEDS = {"rlkit": (), "math-verify": ("math_verify",), "trl": ("math_verify", "trl")}


@dataclass
class Outcome:
    """What one grader said of one row.

    `kind`: `right`, `paid` (a wrong answer paid), `refused` (a right answer refused),
    `abstained`, `raised`, `hung`, or `ran_code`.
    """

    id: str
    kind: str
    seconds: float
    says: str = ""


@dataclass
class Tally:
    """One grader's outcomes over all rows."""

    grader: str
    outcomes: list[Outcome] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return sum(o.kind == kind for o in self.outcomes)

    @property
    def slowest(self) -> float:
        """Seconds of the slowest call; a hang counts with the limit."""
        return max((o.seconds for o in self.outcomes), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        kinds = ("right", "paid", "refused", "abstained", "raised", "hung", "ran_code")
        return {
            "grader": self.grader,
            "rows": len(self.outcomes),
            **{kind: self.count(kind) for kind in kinds},
            "slowest_s": round(self.slowest, 4),
            "outcomes": [asdict(o) for o in self.outcomes if o.kind != "right"],
        }


@dataclass
class Accuracy:
    """The tallies of a run, the versions it ran with, and what was skipped and why."""

    tallies: list[Tally]
    versions: dict[str, str]
    rows: dict[str, dict[str, Any]]
    skipped: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": len(self.rows),
            "graders": [t.to_dict() for t in self.tallies],
            "versions": self.versions,
            "skipped": self.skipped,
        }


def default_rows() -> Path:
    """The rows of a checkout of the project."""
    return Path(__file__).resolve().parents[2] / "tests" / "cases" / "public_abc.jsonl"


def load_rows(path: Path | None = None) -> list[dict[str, Any]]:
    """The rows of kind a in a file of cases.

    Raises:
        UserError: no such file, a line that is no JSON, or no rows of kind a.
    """
    path = path or default_rows()
    if not path.is_file():
        raise UserError(
            f"there is no file of cases at {str(path)!r}; the installed package has none, "
            "give one with --rows FILE (tests/cases/public_abc.jsonl of a checkout)"
        )
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if row["kind"] == "a":
                rows.append({"id": row["id"], "expected": row["expected"], "input": row["input"],
                             "symptom": row.get("symptom", "")})  # fmt: skip
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"line {number} of {str(path)!r} is no case: it needs id, kind, input, expected"
            ) from None
    if not rows:
        raise UserError(f"{str(path)!r} has no rows of kind a")
    return rows


def measure(
    rows: Sequence[dict[str, Any]],
    graders: Iterable[str] = tuple(GRADERS),
    *,
    limit_s: float = CALL_SECONDS,
    say: Callable[[str], None] = lambda text: None,
) -> Accuracy:
    """Asks each grader for each row.

    Args:
        rows: from `load_rows`.
        graders: names out of `GRADERS`; those whose packages are missing are skipped and named.
        limit_s: seconds after which a call counts as hung.
        say: told of the progress.
    """
    tallies, skipped = [], {}
    for name in graders:
        if name not in GRADERS:
            raise UserError(f"unknown grader {name!r}; known: {', '.join(GRADERS)}")
        missing = [m for m in _NEEDS[name.removesuffix("-wrapped")] if find_spec(m) is None]
        if missing:
            skipped[name] = f"{missing[0].replace('_', '-')} is not installed"
            continue
        say(f"{GRADERS[name]} …")
        tallies.append(_tally(name, rows, limit_s))
    return Accuracy(tallies, _versions(), {r["id"]: r for r in rows}, skipped)


def _tally(name: str, rows: Sequence[dict[str, Any]], limit_s: float) -> Tally:
    tally = Tally(name)
    with tempfile.TemporaryDirectory() as folder, _Child(name) as child:
        for row in rows:
            if row["input"]["op"] == "math_rewards" and name.startswith("math-verify"):
                continue  # it has no call for a batch
            tally.outcomes.append(_outcome(child, row, Path(folder), limit_s))
    return tally


def _outcome(child: _Child, row: dict[str, Any], folder: Path, limit_s: float) -> Outcome:
    given, sentinel = row["input"], folder / "sentinel"
    if given["op"] == "math_rewards":
        request = {"completions": given["completions"], "golds": given["gold"]}
    else:
        request = {
            "completion": given["completion"].replace("{sentinel}", str(sentinel)),
            "gold": given["gold"],
            "mode": given.get("mode", "strict"),
            "thread": given["op"].endswith("in_thread"),
        }
    reply = child.ask(request, limit_s)
    if reply is None:
        return Outcome(row["id"], "hung", limit_s)
    seconds = round(reply["seconds"], 4)
    if sentinel.exists():
        sentinel.unlink()
        return Outcome(row["id"], "ran_code", seconds)
    if "raised" in reply:
        # The one row that asks for an error wants a ValueError with both lengths in it.
        wanted = str(row["expected"]).startswith("raises ValueError")
        good = wanted and reply["raised"] in ("ValueError", "UserError")
        says = f"{reply['raised']}: {reply['says']}"
        return Outcome(row["id"], "right" if good else "raised", seconds, says)
    value = reply["value"]
    if not isinstance(row["expected"], bool):
        return Outcome(row["id"], "refused", seconds, "no error")
    if value is None:
        return Outcome(row["id"], "abstained", seconds)
    if bool(value) == row["expected"]:
        return Outcome(row["id"], "right", seconds)
    return Outcome(row["id"], "paid" if value else "refused", seconds)


class _Child:
    """A grader's process, started again after a kill."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.buffer = b""

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The reply, or `None` when it did not come in time."""
        if self.process is None:
            self._start()
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        reply = self._line(limit_s)
        if reply is None:
            self.kill()
        return reply

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process, self.buffer = None, b""

    def _start(self) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlkit.bench.graders", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        )
        if self._line(START_SECONDS) is None:
            self.kill()
            raise UserError(f"the grader {self.name!r} did not start; is its package sound?")

    def _line(self, seconds: float) -> dict[str, Any] | None:
        assert self.process is not None and self.process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for package in ("math-verify", "latex2sympy2-extended", "sympy", "trl"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def markdown(accuracy: Accuracy) -> str:
    """The page docs/accuracy.md of a run."""
    head = (
        "grader | rows | right | wrong answers paid | right answers refused | abstained | "
        "raised | hung | slowest"
    )
    table = [f"| {head} |", "|---|" + "---:|" * 8]
    for tally in accuracy.tallies:
        kinds = ("right", "paid", "refused", "abstained", "raised", "hung")
        counts = " | ".join(str(tally.count(k)) for k in kinds)
        table.append(
            f"| {GRADERS[tally.grader]} | {len(tally.outcomes)} | {counts} | {_time(tally)} |"
        )
    versions = ", ".join(f"{name} {number}" for name, number in accuracy.versions.items())
    parts = [_PREFACE.format(rows=len(accuracy.rows)), "\n".join(table), _AFTER]
    parts.append(f"Versions: {versions}.")
    for name, why in accuracy.skipped.items():
        parts.append(f"Not measured: {GRADERS[name]}, because {why}.")
    ran = [o.id for t in accuracy.tallies for o in t.outcomes if o.kind == "ran_code"]
    if ran:
        parts.append(f"Code in an answer was run in: {', '.join(ran)}.")
    parts += ["## Rows that a grader got wrong", _wrong_rows(accuracy)]
    return "\n\n".join(parts) + "\n"


_PREFACE = """# Accuracy of the maths reward

<!-- Written by `rlkit bench accuracy --write docs/accuracy.md`; edit rlkit/bench/accuracy.py. -->

What was measured: {rows} small cases made after public bug reports about graders of maths
answers. A case is a completion, a gold answer, and whether the completion is right. Each grader
judged the same cases in one run, called as its documentation shows, in a process of its own
that is killed after 10 seconds.

The cases are hard on purpose: shares on ordinary answers are higher for everyone. They were
known while `math_answer` was written, so for it the table shows that the known faults are gone,
not how many unknown ones are left."""
_AFTER = """*Wrong answers paid* is the worst column for training, since a policy learns to give
such answers. *Abstained* is no verdict (`None`): the row trains nothing. *Raised* is an exception;
math-verify's own time-outs, which are on by default, need the main thread.
math-verify has no call for a batch, so it has one row fewer. It and TRL do better when the gold
answer is wrapped in dollar signs; both ways are shown. *Slowest* is the slowest single call once
the grader is loaded."""


def _time(tally: Tally) -> str:
    if tally.count("hung"):
        return f"over {CALL_SECONDS:.0f} s"
    return f"{tally.slowest * 1000:.0f} ms" if tally.slowest < 1 else f"{tally.slowest:.1f} s"


def _wrong_rows(accuracy: Accuracy) -> str:
    short = [t.grader for t in accuracy.tallies]
    by_row = {
        t.grader: {o.id: o.kind for o in t.outcomes if o.kind != "right"} for t in accuracy.tallies
    }
    lines = [
        f"| case | what goes wrong | {' | '.join(short)} |",
        "|---" * (2 + len(short)) + "|",
    ]
    for key, row in accuracy.rows.items():
        if any(key in wrong for wrong in by_row.values()):
            cells = " | ".join(by_row[g].get(key, "") for g in short)
            lines.append(f"| `{key}` | {row['symptom'].replace('|', chr(92) + '|')} | {cells} |")
    return "\n".join(lines)
