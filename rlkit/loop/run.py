"""Run: a directory that holds all there is to know of a training run.

    config.json        what was run, written once
    metrics.jsonl      one line a step
    rollouts.jsonl.gz  one line a rollout
    tokens.jsonl.gz    one line a group: token ids and log-probabilities, see `stored_batch`
    events.jsonl       what happened: started, evaluation, intervention, finished, ...
    checkpoints/       see `rlkit.loop.checkpoint`

Files are only ever appended to. After a resume, later lines of a step supersede
earlier ones. A reader takes what is whole: a last line or a last gzip member that
was cut off by a kill is left out, and the next append starts on a fresh line.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlkit.errors import UserError

CONFIG, METRICS, ROLLOUTS, EVENTS, TOKENS = (
    "config.json",
    "metrics.jsonl",
    "rollouts.jsonl.gz",
    "events.jsonl",
    "tokens.jsonl.gz",
)
#: Free space, in bytes, without which no run is started.
NEEDED_BYTES = 64 << 20

_GZIP_MAGIC = b"\x1f\x8b\x08"


class Run:
    """A run directory. Use `Run.create` for a new one and `Run.open` to read one."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path = path
        self.config = config

    def __repr__(self) -> str:
        return f"Run({self.path})"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any]) -> Run:
        """Starts a run directory, or goes on with one of the same configuration.

        Args:
            path: the directory; it may exist when it is empty or holds the same run.
            config: what is being run. Its `fingerprint` decides whether an existing run
                is the same; it is computed here when it is missing.

        Raises:
            UserError: the directory belongs to another configuration or holds other
                files, cannot be written, or the disk is nearly full.
        """
        path = Path(path)
        config = {**config, "fingerprint": config.get("fingerprint") or fingerprint(config)}
        if (path / CONFIG).exists():
            run = cls.open(path)
            if run.config.get("fingerprint") != config["fingerprint"]:
                raise UserError(
                    f"the run directory {str(path)!r} belongs to another configuration "
                    f"({difference(run.config, config)}); choose another directory"
                )
            return run
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{str(path)!r} exists and holds no run; choose an empty directory")
        try:
            check_space(path)
            path.mkdir(parents=True, exist_ok=True)
            config["created"] = _now()
            write_whole(path / CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")
        except OSError as error:
            raise UserError(
                f"the run directory {str(path)!r} cannot be written: {error}"
            ) from error
        return cls(path, config)

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Opens a run for reading, also while it is being written.

        Raises:
            UserError: there is no run here.
        """
        path = Path(path)
        try:
            config = json.loads((path / CONFIG).read_text())
        except FileNotFoundError as error:
            raise UserError(f"{str(path)!r} is no run directory: {CONFIG} is missing") from error
        except (ValueError, OSError) as error:
            raise UserError(f"{CONFIG} of {str(path)!r} cannot be read: {error}") from error
        return cls(path, config)

    # -- reading ----------------------------------------------------------------------

    def metrics(self) -> list[dict[str, Any]]:
        """One row a step, in order; of a step that was done twice, the later one."""
        by_step = {row["step"]: row for row in _json_lines(_read(self.path / METRICS))}
        return [by_step[step] for step in sorted(by_step)]

    def rollouts(self, step: int | None = None) -> list[dict[str, Any]]:
        """Rows of rollouts, of one step or of all; of a step done twice, the later ones."""
        by_step: dict[int, dict[tuple[int, int], dict[str, Any]]] = {}
        for row in _json_lines(_gunzip(_read(self.path / ROLLOUTS))):
            if step is None or row["step"] == step:
                by_step.setdefault(row["step"], {})[row["group"], row["index"]] = row
        return [row for s in sorted(by_step) for row in by_step[s].values()]

    def tokens(self, step: int) -> list[dict[str, Any]]:
        """One row a group of a step, see `rlkit.loop.stored_batch`; empty in older runs."""
        rows = _json_lines(_gunzip(_read(self.path / TOKENS)))
        return list({row["group"]: row for row in rows if row["step"] == step}.values())

    def events(self) -> list[dict[str, Any]]:
        """Everything that happened, in order."""
        return _json_lines(_read(self.path / EVENTS))

    # -- writing ----------------------------------------------------------------------

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        _append_line(self.path / METRICS, row)

    def append_event(self, kind: str, step: int, **fields: Any) -> dict[str, Any]:
        event = {"time": _now(), "step": step, "kind": kind, **fields}
        _append_line(self.path / EVENTS, event)
        return event

    def append_rollouts(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends one gzip member with these rows."""
        self._append_member(ROLLOUTS, rows)

    def append_tokens(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Appends one gzip member with the tokens of a step."""
        self._append_member(TOKENS, rows)

    def _append_member(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        member = io.BytesIO()
        with gzip.GzipFile(fileobj=member, mode="wb", mtime=0, compresslevel=5) as stream:
            stream.write(text.encode())
        with (self.path / name).open("ab") as file:
            file.write(member.getvalue())


def fingerprint(config: Mapping[str, Any]) -> str:
    """Hash of a configuration, without what may differ between two sessions of a run."""
    kept = {k: v for k, v in config.items() if k not in _NOT_IDENTITY}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


_NOT_IDENTITY = ("created", "fingerprint", "isolation", "rlkit")


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The settings in which two configurations differ, as a short sentence."""
    a, b = _flat(old), _flat(new)
    names = [n for n in sorted({*a, *b}) if a.get(n) != b.get(n) and n not in _NOT_IDENTITY]
    names = [n for n in names if n.split(".")[0] not in _NOT_IDENTITY]
    shown = [f"{n} is {a.get(n)!r} there and {b.get(n)!r} here" for n in names[:3]]
    more = f", and {len(names) - 3} more" if len(names) > 3 else ""
    return "; ".join(shown) + more


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    out: dict[str, Any] = {}
    for key, inner in value.items():
        out.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
    return out


def check_space(path: Path) -> None:
    """Raises OSError when the disk below `path` is nearly full."""
    existing = next(p for p in (path, *path.resolve().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < NEEDED_BYTES:
        raise OSError(
            f"only {free >> 20} MB are free on the disk, and a run needs {NEEDED_BYTES >> 20} MB"
        )


def write_whole(file: Path, text: str) -> None:
    """Writes a small file aside and renames it, so that it is whole or absent."""
    aside = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, file)
    finally:
        aside.unlink(missing_ok=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _append_line(file: Path, row: Mapping[str, Any]) -> None:
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    with file.open("ab+") as stream:
        if stream.tell() > 0:
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":  # the last line was cut off by a kill
                line = b"\n" + line
        stream.write(line)


def _json_lines(data: bytes) -> list[dict[str, Any]]:
    """The whole lines; one that a kill cut off is left out."""
    rows = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off in the middle: its step is done again after the resume
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _gunzip(data: bytes) -> bytes:
    """All whole members of a gzip file, also beyond one that was cut off."""
    out = []
    start = 0
    while 0 <= start < len(data):
        reader = zlib.decompressobj(wbits=31)
        try:
            member = reader.decompress(data[start:])
            whole = reader.eof
        except zlib.error:
            whole = False
        if whole:
            out.append(member)
            start = len(data) - len(reader.unused_data)
        else:
            start = data.find(_GZIP_MAGIC, start + 1)
    return b"".join(out)
