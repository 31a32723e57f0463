"""What a process holds in memory, now and at its peak: main memory, or a GPU's.

On Linux the peak can be put back to what is held now, so that the peak of one step can be told
from that of loading the model. Elsewhere the peak is that of the whole process.
"""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def held_mb() -> float | None:
    """Resident memory now, in MiB; `None` where the system does not say.

    >>> held = held_mb()
    >>> held is None or held > 1
    True
    """
    return _field("VmRSS:")


def peak_mb() -> float | None:
    """Largest resident memory since the start, or since `reset_peak` where that works, in MiB."""
    found = _field("VmHWM:")
    if found is not None:
        return found
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def reset_peak() -> bool:
    """Lets the peak begin anew; says whether the system can do that."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def _field(name: str) -> float | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), None)


class Memory:
    """The memory that counts on a device: of the process on a CPU, torch's own on a GPU.

    Args:
        device: `cpu` or `cuda`.
    """

    def __init__(self, device: str) -> None:
        self.on_gpu = device == "cuda"

    def held_mb(self) -> float | None:
        """Held now, in MiB."""
        return self._gpu("memory_allocated") if self.on_gpu else held_mb()

    def peak_mb(self) -> float | None:
        """Held at most since `reset_peak`, in MiB."""
        return self._gpu("max_memory_allocated") if self.on_gpu else peak_mb()

    def reset_peak(self) -> None:
        """Lets the peak begin anew."""
        if self.on_gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()
        else:
            reset_peak()

    def wait(self) -> None:
        """Waits until a GPU has done what it was given."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()

    @staticmethod
    def _gpu(name: str) -> float:
        import torch

        return getattr(torch.cuda, name)() / (1 << 20)
