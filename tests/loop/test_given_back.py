"""Memory freed by a step does not stay with the process."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from rlkit.loop.given_back import give_back


def held() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_holes_are_given_back() -> None:
    if give_back() is None:
        pytest.skip("this C library cannot be asked")
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    # 1,000 blocks of 100 kB, below what is mapped apart; every tenth stays, so that the
    # heap cannot shrink from its end.
    size = 100_000
    blocks = [libc.malloc(size) for _ in range(1000)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for i, block in enumerate(blocks):
        if i % 10:
            libc.free(block)
    before = held()
    assert give_back() is True
    assert before - held() > 40 << 20
    for block in blocks[::10]:
        libc.free(block)
