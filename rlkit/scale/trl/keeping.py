"""StateCallback: what our objects must remember, kept inside TRL's checkpoints.

A checkpoint of transformers is a folder that is written file by file, so a kill can leave
half of one. Its last file here is `COMPLETE`, which names every file with its size; a folder
without it, or whose files differ, is no checkpoint and is passed over.

Left out: hashes of the files, which would cost more than the checkpoint for a large model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate.state import PartialState
from transformers import TrainerCallback

from rlkit.errors import UserError
from rlkit.loop.run import write_whole

STATE, MARKER = "rlkit_state.json", "COMPLETE"


class StateCallback(TrainerCallback):
    """Puts the state of our parts into each checkpoint, and marks it as whole.

    Args:
        parts: objects with `state_dict()` and `load_state_dict()`, by name.
        dataset: a `DomainDataset`, which is asked for the state after so many steps.
        monitoring: a `MonitorCallback`, whose best state is kept beside its rules'.
    """

    def __init__(
        self, parts: Mapping[str, Any], dataset: Any = None, monitoring: Any = None
    ) -> None:
        self.parts = dict(parts)
        self.dataset = dataset
        self.monitoring = monitoring

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        processes = PartialState()
        if self.monitoring is not None:
            self.monitoring.save_best(folder)
        if processes.is_main_process:
            values = {name: part.state_dict() for name, part in self.parts.items()}
            if self.monitoring is not None:
                values["monitoring"] = self.monitoring.state_dict()
            if self.dataset is not None:
                done = state.global_step * args.gradient_accumulation_steps
                each = args.steps_per_generation * args.num_iterations
                values["dataset"] = self.dataset.state_dict(done // each)
            write_whole(folder / STATE, json.dumps(values, allow_nan=False))
        processes.wait_for_everyone()  # every rank's files lie there
        if processes.is_main_process:
            mark_complete(folder)

    def load(self, folder: Path) -> None:
        """Takes up the state of a checkpoint; before `trainer.train(resume_from_checkpoint=...)`.

        Raises:
            UserError: the checkpoint was written by other parts.
        """
        values = json.loads((folder / STATE).read_text())
        extra = {"monitoring": self.monitoring, "dataset": self.dataset}
        for name, part in {**self.parts, **extra}.items():
            if part is None:
                continue
            if name not in values:
                raise UserError(f"the checkpoint {folder.name} keeps nothing of {name!r}")
            part.load_state_dict(values[name])
        if self.monitoring is not None:
            self.monitoring.resume_from(folder)


def mark_complete(folder: Path) -> None:
    """Names every file of a checkpoint with its size, as its last file."""
    sizes = {str(f.relative_to(folder)): f.stat().st_size for f in _files(folder)}
    write_whole(folder / MARKER, json.dumps(sizes, indent=0))


def why_broken(folder: Path) -> str | None:
    """`None` for a whole checkpoint, else what is wrong with it."""
    marker = folder / MARKER
    if not marker.exists():
        return f"its marker {MARKER} is missing"
    try:
        sizes = json.loads(marker.read_text())
    except ValueError:
        return f"its marker {MARKER} cannot be read"
    for name, size in sizes.items():
        file = folder / name
        if not file.exists():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size} bytes and should have {size}"
    return None


def newest_checkpoint(folder: Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest whole checkpoint of a trainer, and the newer ones passed over, with reasons."""
    passed = []
    for checkpoint in reversed(_checkpoints(folder)):
        reason = why_broken(checkpoint)
        if reason is None:
            return checkpoint, passed
        passed.append((checkpoint, reason))
    return None, passed


def remove_broken(folder: Path) -> list[tuple[str, str]]:
    """Removes checkpoints that are not whole; gives their names with what was wrong.

    A later save of the same step would otherwise leave files of the broken one among its own.
    """
    removed = []
    for checkpoint in _checkpoints(folder):
        reason = why_broken(checkpoint)
        if reason is not None:
            removed.append((checkpoint.name, reason))
            shutil.rmtree(checkpoint)
    return removed


def _checkpoints(folder: Path) -> list[Path]:
    """Folders named like a checkpoint, oldest first."""
    found = []
    for path in folder.glob("checkpoint-*") if folder.is_dir() else ():
        number = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if number and path.is_dir():
            found.append((int(number[1]), path))
    return [path for _, path in sorted(found)]


def _files(folder: Path) -> list[Path]:
    names = []
    for root, _, files in os.walk(folder):
        names += [
            Path(root) / name for name in files if name != MARKER and not name.startswith(".")
        ]
    return sorted(names)
