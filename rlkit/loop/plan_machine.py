"""Main memory that a new process could have here: the machine's, or what a container leaves.

A container's limit is that of its control group or of any group above it (cgroup v2's
`memory.max`, v1's `memory.limit_in_bytes`), less what the group holds already; what it holds
only as a cache of files can be had back.

Left out: swap, which is too slow for a step to live in, and limits of a batch system that
watches from outside.
"""

from __future__ import annotations

import os
from pathlib import Path

MB = 1 << 20
#: Above this a limit of cgroup v1 means that there is none.
NONE = 1 << 60


def available_mb(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Memory in MB that could be taken now; `None` where the system does not say.

    Args:
        proc, groups: where the system tells of itself.

    >>> found = available_mb()
    >>> found is None or found > 0
    True
    """
    free = _free_mb(proc)
    rooms = [room for room in _rooms(proc, groups) if room is not None]
    known = [m for m in (free, *rooms) if m is not None]
    return max(0.0, min(known)) if known else None


def _free_mb(proc: Path) -> float | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        pages = "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ())
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MB if pages else None
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if ":" in line}
    free = kilobytes.get("MemAvailable", kilobytes.get("MemFree"))
    return None if free is None else free / 1024


def _rooms(proc: Path, groups: Path) -> list[float | None]:
    """What each group that this process is in, and each above it, leaves."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[float | None] = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            names = ("memory.max", "memory.current", "inactive_file")
            tops = [groups, groups / "unified"]
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            tops = [groups / "memory"]
        else:
            continue
        for top in tops:
            here = top / path.strip("/")
            # A container may see its own group at the top, under another path.
            places = [here, *(p for p in here.parents if p == top or top in p.parents), top]
            found += [_room(place, *names) for place in dict.fromkeys(places)]
    return found


def _room(group: Path, limit: str, usage: str, cache: str) -> float | None:
    try:
        most = (group / limit).read_text().strip()
        held = int((group / usage).read_text())
        stat = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None
    if not most.isdigit() or int(most) >= NONE:
        return None
    back = next((int(line.split()[1]) for line in stat if line.split()[0] == cache), 0)
    return (int(most) - max(0, held - back)) / MB
