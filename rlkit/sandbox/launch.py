"""What a child process is given: its code, its environment, its request.

The request is everything that enters the sandbox. `expected` is not in it, and
neither is anything from this process's environment but the search path for shared
libraries.
"""

from __future__ import annotations

import marshal
import os
import platform
import sys
from collections.abc import Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from rlkit.sandbox import seccomp, survivors
from rlkit.sandbox.types import Job, Limits

#: Folders that Python may need while it imports from its standard library.
READABLE = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
)


def request(
    job: Job, limits: Limits, layers: Sequence[str], folder: str, number: int
) -> dict[str, Any]:
    """All that the child is told, as plain data; see `harness.main` and `guard.install`.

    Args:
        job: its source, entry and inputs go in.
        limits: what the child is to limit itself to.
        layers: fences of the kernel to try.
        folder: the job's scratch folder.
        number: tells the jobs of this process apart.
    """
    return {
        "source": job.source,
        "entry": job.entry,
        "inputs": tuple(test.inputs_wire for test in job.tests),
        "seed": job.seed,
        "result_bytes": limits.result_kb * 1024,
        "limits": dict(vars(limits)),
        "layers": tuple(layers),
        "scratch": folder,
        "readable": READABLE,
        "tag": (os.getpid() << 32) + number,
        "tasks": survivors.tasks_of_user() if limits.processes else 0,
        "parent": os.getpid(),
        "seccomp": seccomp.program(
            platform.machine(), processes=limits.processes > 0, network=limits.network
        ),
        "pid_mark": seccomp.PID_MARK,
    }


def put_child_code(folder: Path, python: str) -> Path:
    """Put the child's three modules into a folder of their own; returns the one to run.

    For this interpreter they are compiled, so that no job spends its time on that;
    another one may be of another version and gets the sources.
    """
    here = Path(__file__).parent
    child = folder / "child"
    child.mkdir()
    compiled = python == sys.executable
    for name in ("codec", "guard", "harness"):
        text = (here / f"{name}.py").read_bytes()
        if not compiled:
            (child / f"{name}.py").write_bytes(text)
            continue
        code = compile(text, f"{name}.py", "exec", dont_inherit=True)
        # A .pyc file: magic number, flags, and eight bytes about a source that is not there.
        (child / f"{name}.pyc").write_bytes(MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    return child / ("harness.pyc" if compiled else "harness.py")


def environment(job: Job, folder: str) -> dict[str, str]:
    """All that the child's environment holds; nothing of ours is inherited but one path."""
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        # The order of sets follows from it: equal jobs must end equally.
        "PYTHONHASHSEED": str(job.seed % (1 << 32)),
        # Libraries that start a thread per processor run into the memory limit.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # Some interpreters do not start without it.
    if "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return variables
