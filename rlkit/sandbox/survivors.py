"""Processes that outlive the job that started them: finding and killing them.

A process can leave its group (`setsid`), lose its parent, clear its environment
and change its folder, but it cannot raise a resource limit again. Each job
carries a number of its own in a limit that the kernel ignores (see
`zygote.fences.RLIMIT_LOCKS`), every descendant inherits it, and here /proc is searched
for it.

Killing one by one loses against a program that forks faster; so all of them are
stopped first, until no new one appears, and killed then.

Left out on purpose: a process that lowers the number, which it may do, gets away.
Where seccomp denies new processes there is nothing to search for.
"""

from __future__ import annotations

import os
import signal
import sys

#: Rounds of search after which a fork bomb is killed as it stands.
MAX_ROUNDS = 50


def kill_tagged(tag: int) -> int:
    """Kill every process that carries the number; returns how many were found."""
    if not sys.platform.startswith("linux"):
        return 0
    stopped: set[int] = set()
    for _ in range(MAX_ROUNDS):
        new = {pid for pid in _tagged(tag) if pid not in stopped and _send(pid, signal.SIGSTOP)}
        if not new:
            break
        stopped |= new
    for _ in range(MAX_ROUNDS):
        found = [pid for pid in _tagged(tag) if _send(pid, signal.SIGKILL)]
        if not found:
            break
        stopped.update(found)
    return len(stopped)


def _tagged(tag: int) -> list[int]:
    wanted = str(tag).encode()
    return [int(name) for name in _process_ids() if _tag_of(name) == wanted]


def _tag_of(name: str) -> bytes | None:
    try:
        with open(f"/proc/{name}/limits", "rb") as file:
            text = file.read()
        with open(f"/proc/{name}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):  # it ended meanwhile, or belongs to somebody else
        return None
    if state in (b"Z", b"X"):
        return None  # dead already, waiting for its parent
    # The line reads "Max file locks   <soft>   <hard>   locks".
    line = next((line for line in text.splitlines() if line.startswith(b"Max file locks")), b"")
    words = line.split()
    return words[4] if len(words) > 4 else None


def _process_ids() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
