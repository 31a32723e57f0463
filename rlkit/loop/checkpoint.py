"""Checkpoints: written aside, checked by hash, renamed into place.

`checkpoints/step-000010/` holds `tensors.safetensors`, `state.json` and, written
last, `COMPLETE` with the hashes of both. A folder without a marker, or whose
files do not match it, is not a checkpoint: the newest whole one is taken, and
what was passed over is said.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from rlkit.loop.state import LoopState

TENSORS, VALUES, MARKER = "tensors.safetensors", "state.json", "COMPLETE"


def save_checkpoint(folder: Path, step: int, state: LoopState, keep: int) -> Path:
    """Writes a checkpoint and removes the oldest beyond `keep`."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:06d}"
    aside = folder / f".step-{step:06d}.{os.getpid()}.part"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        save_file({n: t.contiguous() for n, t in state.tensors.items()}, aside / TENSORS)
        (aside / VALUES).write_text(json.dumps(state.values, allow_nan=False))
        for name in (TENSORS, VALUES):
            _flush(aside / name)
        marker = {name: _sha256(aside / name) for name in (TENSORS, VALUES)}
        (aside / MARKER).write_text(json.dumps(marker))
        _flush(aside / MARKER)
        if final.exists():  # the same step written again after a resume
            shutil.rmtree(final)
        os.replace(aside, final)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for old in checkpoint_folders(folder)[:-keep]:
        shutil.rmtree(old)
    for left in folder.glob(".step-*.part"):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    return final


def checkpoint_folders(folder: Path) -> list[Path]:
    """All folders that are named like a checkpoint, oldest first, whole or not."""
    return sorted(p for p in folder.glob("step-*") if p.is_dir())


def why_broken(checkpoint: Path) -> str | None:
    """`None` for a whole checkpoint, else what is wrong with it."""
    marker = checkpoint / MARKER
    if not marker.exists():
        return f"its marker {MARKER} is missing"
    try:
        hashes = json.loads(marker.read_text())
    except ValueError:
        return f"its marker {MARKER} cannot be read"
    for name in (TENSORS, VALUES):
        file = checkpoint / name
        if not file.exists():
            return f"{name} is missing"
        if _sha256(file) != hashes.get(name):
            return f"{name} does not match its hash"
    return None


def newest_checkpoint(folder: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest whole checkpoint, and the newer ones passed over with the reason."""
    passed: list[tuple[Path, str]] = []
    for checkpoint in reversed(checkpoint_folders(folder)):
        reason = why_broken(checkpoint)
        if reason is None:
            return checkpoint, passed
        passed.append((checkpoint, reason))
    return None, passed


def load_checkpoint(checkpoint: Path) -> LoopState:
    """The state kept in a whole checkpoint."""
    values = json.loads((checkpoint / VALUES).read_text())
    return LoopState(load_file(checkpoint / TENSORS), values)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _flush(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
