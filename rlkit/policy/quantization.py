"""NF4: whether four bits really work here, and the trap that kills learning.

bitsandbytes 0.50 and later quantise on the CPU too. That is probed with a tiny
layer, never assumed (Dettmers et al., 2305.14314, for NF4 itself).

The trap: on a CPU with AVX512-BF16, the first `Linear4bit` call in eval mode on
an input without gradient repacks the weight for an inference kernel. From then
on no gradient passes through the layer, without an error. `keep_gradients`
turns the repacking off right after loading.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from typing import Any

import torch


def _bitsandbytes() -> Any:
    """The library, without its advice to download a kernel that is not needed here."""
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return importlib.import_module("bitsandbytes")
    finally:
        logger.setLevel(level)


@cache
def probe_nf4(device: str = "cpu") -> str | None:
    """Tries a forward and a backward pass of one 4-bit layer.

    Returns:
        `None` when NF4 works on this device, else the reason why not.
    """
    try:
        bnb = _bitsandbytes()
    except ImportError as error:
        return f"bitsandbytes cannot be imported here ({error})"
    try:
        layer = bnb.nn.Linear4bit(
            64, 64, bias=False, quant_type="nf4", compute_dtype=torch.float32
        ).to(device)
        keep_gradients(layer)
        x = torch.ones(2, 64, device=device, requires_grad=True)
        layer(x).sum().backward()
    except Exception as error:  # any failure of the kernel means "not here"; it is reported
        return f"bitsandbytes cannot run a 4-bit layer on {device} ({error})"
    if not is_four_bit(layer):
        return f"bitsandbytes left the layer unquantised on {device}"
    if x.grad is None or not bool(torch.isfinite(x.grad).all()):
        return f"bitsandbytes gives no gradient through a 4-bit layer on {device}"
    return None


@cache
def probe_uneven_rows(device: str = "cpu", block: int = 64) -> str | None:
    """Tries a matrix whose rows are no whole number of blocks.

    bitsandbytes 0.50.2 gives such a matrix back wrongly on some processors, without an error:
    codes and scales are right, and the result is not.

    Returns:
        `None` when it comes back as well as any other, else the reason why not.
    """
    four_bit = importlib.import_module("bitsandbytes.functional")
    # Blocks of different sizes, or one's scale would do for the next.
    sizes = torch.tensor([1.0, 8.0, 2.0], device=device)[:, None]
    matrix = torch.sin(torch.arange(16.0 * 3 * block // 2, device=device)).view(-1, 3, block // 2)
    matrix = (matrix * sizes).view(16, -1)
    packed, state = four_bit.quantize_4bit(matrix, blocksize=block, quant_type="nf4")
    error = four_bit.dequantize_4bit(packed, state).float() - matrix
    share = float(error.norm() / matrix.norm())
    if share < 0.15:  # four bits alone cost about a tenth
        return None
    return (
        "bitsandbytes gives matrices back wrongly here whose rows are no whole number of "
        f"{block} numbers ({share:.0%} off)"
    )


def uneven_layers(model: torch.nn.Module, block: int = 64) -> int:
    """How many four-bit layers have rows that are no whole number of blocks."""
    return sum(layer.in_features % block != 0 for layer in four_bit_layers(model))


def four_bit_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers of a model whose weights are stored in four bits."""
    try:
        bnb = _bitsandbytes()
    except ImportError:
        return []
    return [m for m in model.modules() if isinstance(m, bnb.nn.Linear4bit)]


def is_four_bit(layer: Any) -> bool:
    """Whether the layer's weight has really been packed."""
    return layer.weight.dtype == torch.uint8 and layer.weight.quant_state is not None


def keep_gradients(model: torch.nn.Module) -> int:
    """Turns off the repacking for inference; returns how many layers were touched."""
    layers = four_bit_layers(model)
    for layer in layers:
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
    return len(layers)


def nf4_config(compute_dtype: torch.dtype) -> Any:
    """NF4 with double quantisation, as in QLoRA."""
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )
