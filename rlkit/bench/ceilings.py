"""What this machine can do at most: matrix products, and memory read and copied.

Every speed of the policy engine is a share of these. Products are measured with few rows, as
when one token is decoded for each of 32 sequences, and with many, as when answers are scored;
then with weights that lie in no cache, as those of a model do not. Each number is the best of
several tries, since a ceiling is what can be reached and noise only lowers it.

Left out: convolutions, sparse products, other types. The engine has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

#: Width of the square matrices, and rows of the two kinds of product.
WIDTH, FEW, MANY = 1536, 32, 2048
#: Bytes of weights that are streamed; several times what a large cache holds.
STREAMED = 256 << 20


def measure(
    device: str = "cpu", *, seconds: float = 0.25, streamed: int = STREAMED, width: int = WIDTH
) -> dict[str, Any]:
    """The ceilings, in a few seconds.

    Args:
        device: `cpu` or `cuda`.
        seconds: how long each is tried.
        streamed: bytes of weights and of what is copied.
        width: of the square matrices.

    Returns:
        `gflops` by type and rows (10^9 multiplications and additions a second), `copy_gb_s`
        (10^9 bytes read and as many written count as twice that), `stream_gb_s` by type (weights
        read a second while 32 rows go through them), and `best_gflops`, `best_gb_s`.
    """
    import torch

    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    gflops: dict[str, dict[str, float]] = {}
    stream: dict[str, float] = {}
    for name, kind in kinds.items():
        weight = torch.randn(width, width, device=device).to(kind)
        gflops[name] = {}
        for rows in (FEW, MANY):
            x = torch.randn(rows, width, device=device).to(kind)
            best = _best(lambda x=x, w=weight: x @ w.T, seconds, wait)
            gflops[name][str(rows)] = round(2 * rows * width * width / best / 1e9, 1)
        many = max(2, streamed // (weight.numel() * weight.element_size()))
        weights = [weight.clone() for _ in range(many)]
        x = torch.randn(FEW, width, device=device).to(kind)
        best = _best(lambda x=x, ws=weights: [x @ w.T for w in ws], seconds, wait)
        stream[name] = round(many * weight.numel() * weight.element_size() / best / 1e9, 2)
        del weights
    source = torch.ones(max(1, streamed // 4), device=device)
    target = torch.empty_like(source)
    best = _best(lambda: target.copy_(source), seconds, wait)
    copied = round(2 * source.numel() * 4 / best / 1e9, 2)
    return {
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "threads": torch.get_num_threads(),
        "gflops": gflops,
        "copy_gb_s": copied,
        "stream_gb_s": stream,
        "best_gflops": max(max(by_rows.values()) for by_rows in gflops.values()),
        "best_gb_s": max(copied, *stream.values()),
    }


def line(found: dict[str, Any]) -> str:
    """The ceilings in one line."""
    parts = [
        f"{name} products {found['gflops'][name][str(FEW)]:,.0f} GFLOP/s at {FEW} rows and "
        f"{found['gflops'][name][str(MANY)]:,.0f} at {MANY:,}, weights streamed at "
        f"{found['stream_gb_s'][name]:.1f} GB/s"
        for name in found["gflops"]
    ]
    return (
        f"Ceilings of {found['device']} with {found['threads']} threads: "
        f"{'; '.join(parts)}; copies {found['copy_gb_s']:.1f} GB/s (read and written)."
    )


def _best(work: Callable[[], Any], seconds: float, wait: Callable[[], None]) -> float:
    """Seconds of the fastest try, after one that warms up."""
    work()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begun = time.perf_counter()
        work()
        wait()
        now = time.perf_counter()
        best = min(best, now - begun)
        if now > end:
            return best
