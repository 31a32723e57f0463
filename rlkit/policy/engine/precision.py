"""Which type of numbers this machine multiplies fastest: measured once, not assumed.

bfloat16 is fast where the processor has instructions for it (AMX, AVX512-BF16) and slow
where it is emulated. On a GPU it exists from compute capability 8; before that, float16.
"""

from __future__ import annotations

import time
from functools import cache

import torch
from torch.nn import functional

#: bfloat16 must be at least this many times faster to be worth its rounding.
WORTH = 1.3


@cache
def fastest_dtype(device: str = "cpu") -> torch.dtype:
    """float32, bfloat16 or float16, whichever multiplies fastest here.

    >>> fastest_dtype() in (torch.float32, torch.bfloat16)
    True
    """
    if device.startswith("cuda"):
        major, _ = torch.cuda.get_device_capability(device)
        return torch.bfloat16 if major >= 8 else torch.float16
    return torch.bfloat16 if speed_ratio() >= WORTH else torch.float32


@cache
def speed_ratio(rows: int = 32, width: int = 576, out: int = 3072) -> float:
    """How many times faster bfloat16 products are than float32's; some 20 ms once."""
    seconds: dict[torch.dtype, float] = {}
    pairs = []
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(rows, width, dtype=dtype)
        weight = torch.ones(out, width, dtype=dtype)
        try:
            functional.linear(x, weight)
        except RuntimeError:  # no such product in this build
            return 0.0
        pairs.append((x, weight))
    # In turns, and the least of many: what else runs here must not decide it.
    for _ in range(25):
        for x, weight in pairs:
            begun = time.perf_counter()
            functional.linear(x, weight)
            took = time.perf_counter() - begun
            seconds[x.dtype] = min(took, seconds.get(x.dtype, took))
    return seconds[torch.float32] / seconds[torch.bfloat16]
