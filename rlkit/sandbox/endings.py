"""What ended a process: a limit that it passed, a crash, or nothing but itself.

Named by who ended it (the kernel, the supervisor) and never by what the program says.

Left out on purpose: exit codes. They are the program's word, and each mode has its own use
for them.
"""

from __future__ import annotations

import math
import signal

from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.verdict import Status

#: What the kernel counts against the limit and what it reports afterwards differ by up to a
#: third on some virtual machines. A program that sends itself the signal earlier is a crash.
CPU_SHARE = 0.5

#: By number, as Linux has them: a program may have run on another system than this one.
SIGKILL, SIGXCPU, SIGXFSZ = 9, 24, 25

#: A process that dies with this share of its memory in use is taken to have died of it.
MEMORY_SHARE = 0.9


def what_ended_it(limits: Limits, outcome: Outcome) -> tuple[Status | None, str]:
    """The limit that was passed, the crash, or None when the process went its way.

    >>> what_ended_it(Limits(wall_s=2.0), Outcome(ended="wall"))
    (<Status.TIMEOUT: 'TIMEOUT'>, 'stopped after 2 s')
    """
    if outcome.ended == "wall":
        return Status.TIMEOUT, f"stopped after {limits.wall_s:g} s"
    if outcome.ended == "output":
        return Status.OUTPUT_LIMIT, f"printed more than {limits.output_kb} KiB"
    if outcome.ended == "result":
        return Status.OUTPUT_LIMIT, f"returned more than {limits.result_kb} KiB"
    if outcome.ended == "disk":
        return Status.OUTPUT_LIMIT, f"stored more than {limits.scratch_mb} MiB in files"
    if outcome.ended == "memory":
        return Status.MEMORY_LIMIT, f"used up its {limits.memory_mb} MiB of memory"
    if outcome.ended == "closed":
        return Status.TAMPERED, "the program closed the channel that carries the answers"
    number = outcome.signal
    if number is None:
        return None, ""
    # Where nobody measured it, processor time is at most what the clock says.
    spent = outcome.wall_s if outcome.cpu_s is None else outcome.cpu_s
    share = CPU_SHARE if number == SIGXCPU else 0.9  # killed a second after the signal
    if number in (SIGXCPU, SIGKILL) and spent >= share * math.ceil(limits.cpu_s):
        return Status.CPU_LIMIT, f"used up its {math.ceil(limits.cpu_s)} s of processor time"
    if number == SIGXFSZ:
        return Status.OUTPUT_LIMIT, f"wrote a file of more than {limits.files_mb} MiB"
    peak = outcome.peak_rss_mb  # as seen by us; what the program says of itself is for showing
    if peak is not None and peak >= MEMORY_SHARE * limits.memory_mb:
        return Status.MEMORY_LIMIT, f"used up its {limits.memory_mb} MiB of memory"
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        name = f"signal {number}"
    return Status.CRASH, f"the program was killed by {name}"
