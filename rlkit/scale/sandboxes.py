"""The sandbox of each rank: its share of the machine's processors.

Every rank opens a sandbox of its own. One pool for all ranks of a machine would balance a
little better, but then the death of the rank that holds it would take the verdicts of all
others along, and a rank would have to trust what comes over a socket. With a share each, a
rank that dies leaves the others whole, and its programs end with it.
"""

from __future__ import annotations

import os
from typing import Any

from rlkit.errors import UserError


def share_of(workers: int, local_rank: int, local_ranks: int) -> int:
    """How many of a machine's workers one of its ranks gets; at least one.

    >>> [share_of(8, rank, 3) for rank in range(3)]
    [3, 3, 2]
    >>> share_of(1, 1, 2)
    1
    """
    if not 0 <= local_rank < local_ranks:
        raise UserError(f"rank {local_rank} is none of {local_ranks} ranks")
    more = 1 if local_rank < workers % local_ranks else 0
    return max(1, workers // local_ranks + more)


def rank_sandbox(workers: int | None = None, **options: Any) -> Any:
    """A sandbox with this rank's share of the workers.

    Args:
        workers: programs at a time on this machine, over all its ranks; one a processor when
            not given.
        options: of `rlkit.Sandbox`.
    """
    from rlkit.sandbox import Sandbox

    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    total = processors() if workers is None else workers
    return Sandbox(workers=share_of(total, local_rank, local_ranks), **options)


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
