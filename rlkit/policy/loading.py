"""Finding and loading a model: `tiny`, `smol`, a local folder, or a hub id.

All of them come out as ordinary `transformers` models, with `peft` adapters
where asked for, so that TRL takes them as they are.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.lora import LoraSpec
from rlkit.policy.quantization import (
    four_bit_layers,
    keep_gradients,
    nf4_config,
    probe_nf4,
    probe_uneven_rows,
    uneven_layers,
)
from rlkit.policy.saving import POLICY_FILE
from rlkit.policy.smol import find_smol

#: The weights that ship with the package.
TINY = Path(__file__).parent / "tiny"

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Precision:
    """Which numbers the model really computes with.

    Attributes:
        weights: `nf4`, `float32`, `bfloat16` or `float16`.
        compute: type of the matrix products.
        four_bit_layers: how many layers are stored in four bits.
        note: one sentence when this is not what was asked for, else empty.
    """

    weights: str
    compute: str
    four_bit_layers: int
    note: str = ""

    def __str__(self) -> str:
        if self.weights == "nf4":
            text = f"NF4 weights in {self.four_bit_layers} layers, {self.compute} products"
        else:
            text = f"{self.weights} weights"
        return f"{text} ({self.note})" if self.note else text


def resolve_device(device: str) -> str:
    """`auto` becomes `cuda` where there is one, else `cpu`.

    Raises:
        UserError: cuda was asked for and is not there.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device {device!r} was asked for, but no CUDA device is here; use 'cpu'")
    return device


def compute_dtype(device: str) -> torch.dtype:
    """float32 on a CPU; on a GPU bfloat16 from compute capability 8, else float16."""
    if not device.startswith("cuda"):
        return torch.float32
    major, _ = torch.cuda.get_device_capability(device)
    return torch.bfloat16 if major >= 8 else torch.float16


def resolve_source(name: str | Path) -> str:
    """The folder or hub id that a policy's name stands for.

    Raises:
        UserError: the name is neither known, nor a model folder, nor a hub id, or `smol`
            cannot be fetched.
    """
    text = str(name)
    if text == "tiny":
        if not (TINY / "model.safetensors").exists():
            raise UserError(
                f"the weights of 'tiny' are missing from {TINY}; reinstall rlkit, or make them "
                "with `rlkit build-tiny --out DIR` and load DIR"
            )
        return str(TINY)
    if text == "smol":
        return find_smol()
    folder = Path(text)
    if folder.is_dir():
        if not any((folder / f).exists() for f in ("config.json", POLICY_FILE)):
            raise UserError(f"folder {text!r} holds no model: config.json is missing")
        return text
    if _HUB_ID.fullmatch(text) and not text.startswith("."):
        return text
    raise UserError(
        f"unknown policy {text!r}; give 'tiny', 'smol', a folder with a model, "
        "or a hub id like 'owner/name'"
    )


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a model, padding on the left.

    Raises:
        UserError: it cannot be loaded; the message gives the loader's reason.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise UserError(_not_loaded(source, error)) from error
    tokenizer.padding_side = "left"
    return tokenizer


def load_base(source: str, quantize: str | None, device: str) -> tuple[Any, Precision]:
    """The base model and the precision that is really in force.

    Where NF4 cannot run, the model is loaded without it and a warning says so.

    Raises:
        UserError: unknown `quantize`, or the model cannot be loaded.
    """
    if quantize not in (None, "nf4"):
        raise UserError(f"quantize must be 'nf4' or None, not {quantize!r}")
    dtype = compute_dtype(device)
    note = ""
    if quantize == "nf4" and (reason := probe_nf4(device)) is not None:
        note = f"NF4 was asked for, but {reason}"
        warnings.warn(f"{note}; loading {source} without quantisation", stacklevel=3)
        quantize = None
    model = _from_pretrained(source, dtype, device, quantize)
    if uneven_layers(model) and (reason := probe_uneven_rows(device)) is not None:
        note = f"NF4 was asked for, but {reason}, and this model has {uneven_layers(model)} of them"
        warnings.warn(f"{note}; loading {source} without quantisation", stacklevel=3)
        quantize, model = None, None  # the first goes before the second comes
        model = _from_pretrained(source, dtype, device, None)
    keep_gradients(model)
    packed = len(four_bit_layers(model))
    if quantize == "nf4" and packed == 0:
        note = "NF4 was asked for, but the model has no linear layer that bitsandbytes replaces"
        warnings.warn(note, stacklevel=3)
    model.eval()
    name = str(dtype).removeprefix("torch.")
    return model, Precision("nf4" if packed else name, name, packed, note)


def _from_pretrained(source: str, dtype: torch.dtype, device: str, quantize: str | None) -> Any:
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"dtype": dtype, "device_map": {"": device}}
    if quantize == "nf4":
        options["quantization_config"] = nf4_config(dtype)
    try:
        with quiet_transformers():
            return AutoModelForCausalLM.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        raise UserError(_not_loaded(source, error)) from error


def add_lora(model: Any, lora: LoraSpec, seed: int) -> Any:
    """A fresh LoRA adapter in float32, drawn from this seed alone.

    Raises:
        UserError: an adapter on a layer whose weights are tied to another's.
    """
    from peft import get_peft_model

    _refuse_tied(model, lora)
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(seed)
        adapted = get_peft_model(model, lora.peft_config(), autocast_adapter_dtype=True)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return adapted.eval()


def _refuse_tied(model: Any, lora: LoraSpec) -> None:
    """Merged into a tied layer, an adapter would change the other layer too."""
    inside, outside = model.get_input_embeddings(), model.get_output_embeddings()
    if outside is None or inside.weight is not outside.weight:
        return
    for name, module in model.named_modules():
        if module is not inside and module is not outside:
            continue
        if isinstance(lora.targets, str):
            hit = lora.targets != "all-linear" and re.fullmatch(lora.targets, name) is not None
        else:
            hit = any(name == target or name.endswith(f".{target}") for target in lora.targets)
        if hit:
            raise UserError(
                f"{name!r} shares its weights with the other end of this model, so an adapter on "
                "it could not be merged without changing both; leave it out of LoRA's targets"
            )


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """All ids that end a completion, from the generation config and the tokenizer."""
    declared = model.generation_config.eos_token_id if model.generation_config else None
    ids = list(declared) if isinstance(declared, (list, tuple)) else [declared]
    ids.append(tokenizer.eos_token_id)
    return tuple(sorted({i for i in ids if i is not None}))


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bar of the weights, and no advice to the library's own developers."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _not_loaded(source: str, error: Exception) -> str:
    first_line = str(error).strip().split("\n")[0]
    return f"the model {source!r} cannot be loaded: {first_line}"
