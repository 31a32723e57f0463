"""doctor: what is here, what is really in force, and what will run how fast.

Everything is probed, nothing is assumed; what could not be found out is `None`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "bitsandbytes",
    "trl",
    "accelerate",
    "plotly",
    "ipywidgets",
    "jupyterlab",
)
#: Memory that a demo with `tiny` takes at its peak, as measured, with room to spare.
NEEDED_MB = 1500


@dataclass(frozen=True)
class Checkup:
    """The doctor's findings; printing it gives the same as a table.

    Attributes:
        versions: installed version by package; `None` where it is missing.
        device: `cpu`, or the name of the GPU.
        cores: processor cores that this process may use.
        memory_mb, available_mb: main memory in all, and free for a new program.
        precision: `NF4` or why four bits do not work here.
        isolation: the sandbox's own sentence about what contains the code.
        mode: `full`, or `fast` where sessions are short.
        advice: what will run, and what to do about what will not.
    """

    python: str
    platform: str
    versions: dict[str, str | None]
    device: str
    cores: int
    memory_mb: int | None
    available_mb: int | None
    precision: str
    isolation: str
    mode: str
    advice: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        memory = "unknown" if self.memory_mb is None else f"{self.memory_mb} MB"
        if self.available_mb is not None:
            memory += f", {self.available_mb} MB available"
        versions = ", ".join(f"{n} {v or 'missing'}" for n, v in self.versions.items())
        lines = [
            ("python", f"{self.python} on {self.platform}"),
            ("packages", versions),
            ("device", f"{self.device}, {self.cores} cores"),
            ("memory", memory),
            ("precision", self.precision),
            ("sandbox", self.isolation),
            ("mode", self.mode),
        ]
        text = "\n".join(f"{name:<10} {value}" for name, value in lines)
        return "\n".join([text, *(f"- {line}" for line in self.advice)])

    __repr__ = __str__


def doctor() -> Checkup:
    """Looks at this machine and says what of rlkit will run on it."""
    versions = {name: _version(name) for name in _PACKAGES}
    device, precision = _device_and_precision(versions)
    total, available = memory_mb()
    isolation, safe = _isolation()
    return Checkup(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        versions=versions,
        device=device,
        cores=_cores(),
        memory_mb=total,
        available_mb=available,
        precision=precision,
        isolation=isolation,
        mode=lesson_mode(),
        advice=_advice(versions, available, precision, safe),
    )


def lesson_mode() -> str:
    """`fast` or `full`: from `RLKIT_MODE`, else fast on Binder or headless, else full.

    Raises:
        UserError: `RLKIT_MODE` is set to something else.
    """
    chosen = os.environ.get("RLKIT_MODE")
    if chosen:
        if chosen not in ("fast", "full"):
            from rlkit.errors import UserError

            raise UserError(f"RLKIT_MODE must be 'fast' or 'full', not {chosen!r}")
        return chosen
    if os.environ.get("RLKIT_HEADLESS") == "1":
        return "fast"
    on_binder = "BINDER_SERVICE_HOST" in os.environ or "BINDER_REPO_URL" in os.environ
    return "fast" if on_binder else "full"


def memory_mb() -> tuple[int | None, int | None]:
    """Main memory in all and available, in MB; a container's limit counts."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return _other_memory_mb(), None
    kilobytes = {
        line.split(":")[0]: int(line.split()[1])
        for line in info.read_text().splitlines()
        if line.split()[-1] == "kB"
    }
    total = kilobytes["MemTotal"] // 1024
    available = kilobytes.get("MemAvailable", kilobytes["MemFree"]) // 1024
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text().strip()).isdigit():
        total = min(total, int(text) >> 20)
    return total, min(available, total)


def _other_memory_mb() -> int | None:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _device_and_precision(versions: dict[str, str | None]) -> tuple[str, str]:
    if versions["torch"] is None:
        return "unknown", "torch is missing, so no policy can be loaded"
    import torch

    from rlkit.policy.loading import compute_dtype, resolve_device
    from rlkit.policy.quantization import probe_nf4

    device = resolve_device("auto")
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    products = str(compute_dtype(device)).removeprefix("torch.")
    reason = probe_nf4(device)
    if reason is None:
        return name, f"NF4 works on {device} (probed), products in {products}"
    return name, f"{products} only: {reason}"


def _isolation() -> tuple[str, bool]:
    from rlkit.errors import UserError
    from rlkit.sandbox import Level, Sandbox

    try:
        with Sandbox(workers=1) as sandbox:
            report = sandbox.report()
    except UserError as error:
        return f"unavailable: {error}", False
    return f"{report.level.name}: {report.sentence}", report.level >= Level.CONFINED


def _advice(
    versions: dict[str, str | None], available: int | None, precision: str, safe: bool
) -> list[str]:
    lines = []
    missing = [n for n in ("jupyterlab", "ipywidgets") if versions[n] is None]
    if missing:
        lines.append(f"for the lessons install {' and '.join(missing)}: make lab does it")
    if versions["trl"] is None:
        lines.append("for training at scale install trl: pip install 'rlkit[scale]'")
    if available is not None and available < NEEDED_MB:
        lines.append(f"only {available} MB are free; the demo takes up to {NEEDED_MB} MB")
    if not precision.startswith("NF4"):
        lines.append("the demo will run without four bits, and says so")
    if not safe:
        lines.append(
            "pyfunc and pywords need the sandbox; arith, sort and countdown run without it"
        )
    if importlib.util.find_spec("IPython") and "ipykernel" in sys.modules and _widgets_split():
        lines.append(
            "ipywidgets is not installed where this kernel runs; widgets will say 'model not "
            "found' until it is"
        )
    lines.append("rlkit demo takes about three minutes on two cores")
    return lines


def _widgets_split() -> bool:
    return importlib.util.find_spec("ipywidgets") is None
