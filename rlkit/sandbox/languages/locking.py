"""One process at a time, by a lock on a file that the kernel releases however a process ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def one_process_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock of a file; others wait for it. Without such locks (Windows) nobody waits."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
