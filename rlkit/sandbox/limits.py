"""What one job may use: time, memory, processes, files, output."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlkit.errors import UserError


@dataclass(frozen=True)
class Limits:
    """What one job may use.

    Attributes:
        wall_s: seconds by the clock, from the first line of the program to its end.
        cpu_s: seconds of processor time, rounded up to whole seconds by the kernel.
        memory_mb: mebibytes of address space, the interpreter's own 20 or so included.
        processes: how many further processes the job may start; threads are free.
        files_mb: mebibytes that one file may grow to.
        scratch_mb: mebibytes that all files of the job may hold together.
        output_kb: kibibytes that it may print, stdout and stderr together.
        result_kb: kibibytes that all returned values may take together.
        open_files: how many descriptors may be open at once.
        network: whether it may open sockets.

    >>> Limits(wall_s=1).memory_mb
    512
    """

    wall_s: float = 4.0
    cpu_s: float = 2.0
    memory_mb: int = 512
    processes: int = 0
    files_mb: int = 16
    scratch_mb: int = 64
    output_kb: int = 64
    result_kb: int = 1024
    open_files: int = 64
    network: bool = False

    def __post_init__(self) -> None:
        lowest = {"wall_s": 0.01, "cpu_s": 0.01, "memory_mb": 64, "processes": 0, "open_files": 8}
        for name, value in vars(self).items():
            if name == "network":
                continue
            least = lowest.get(name, 1)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < least:
                raise UserError(f"{name}={value!r} is not a limit; give a number from {least} up")
            if name not in ("wall_s", "cpu_s") and not isinstance(value, int):
                raise UserError(f"{name}={value!r} is not a limit; give a whole number")
