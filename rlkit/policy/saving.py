"""Writing a policy's adapter to a folder, whole or not at all, and finding one again.

The folder is in peft's format with the tokenizer beside it, and one file of our own says
which base the adapter belongs to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlkit.policy.lora import LoraSpec

#: Written beside the adapter, so that a saved policy knows its base by name.
POLICY_FILE = "rlkit_policy.json"


def write_policy(policy: Any, folder: Path) -> None:
    """Writes a policy's adapter, tokenizer and note, whole or not at all."""

    def write(aside: Path) -> None:
        policy.model.save_pretrained(aside)
        policy.tokenizer.save_pretrained(aside)
        write_note(aside, policy.name, policy.lora, policy.version)

    write_aside(folder, write)


def write_aside(folder: Path, write: Callable[[Path], None]) -> None:
    """Has a folder written under another name, and puts it in its place by renaming."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        write(aside)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_note(folder: Path, base: str, lora: LoraSpec, version: int) -> None:
    """Notes which base an adapter belongs to, its sizes, and how many updates it has seen."""
    note = {"base": base, "lora": vars(lora), "version": version}
    (folder / POLICY_FILE).write_text(json.dumps(note, indent=2))


def saved_policy(folder: str) -> dict[str, Any] | None:
    """What was noted in this folder, `lora` as a `LoraSpec`; `None` when it is a plain model."""
    file = Path(folder) / POLICY_FILE
    if not file.exists():
        return None
    saved = json.loads(file.read_text())
    sizes = saved["lora"]
    if isinstance(sizes["targets"], list):
        sizes["targets"] = tuple(sizes["targets"])
    return {**saved, "lora": LoraSpec(**sizes)}
