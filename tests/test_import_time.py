"""`import rlkit` and the light rooms start in a moment: no torch, little memory.

What makes an import slow is what it pulls in, so that is what is counted here: modules and
memory, never seconds, which say more about the machine than about the code.
"""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest

HEAVY = ("torch", "transformers", "peft", "bitsandbytes", "pandas", "plotly", "IPython")
# Generous: it ends a hang, and no machine that can train needs as long for an import.
HANG_SECONDS = 60

# The child reports what it imported, then waits, so that its memory can be read from outside.
# (The peak that a child reads about itself may be its parent's, inherited through exec.)
CHILD = """
import json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    __import__(name)
print(json.dumps(sorted(set(sys.modules) - before)), flush=True)
sys.stdin.read()
"""


def measure_import(*names: str) -> tuple[set[str], float]:
    """The modules that importing `names` in a fresh interpreter adds, and its memory in MB."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            line = child.stdout.readline()
            megabytes = psutil.Process(child.pid).memory_info().rss / 1e6 if line else 0.0
            child.communicate(timeout=HANG_SECONDS)
        finally:
            child.kill()
    assert line, f"importing {names} in a fresh interpreter failed, see its traceback above"
    return set(json.loads(line)), megabytes


def test_importing_rlkit_is_light():
    modules, megabytes = measure_import("rlkit")
    assert "rlkit" in modules
    assert not modules & {*HEAVY, "numpy", "typer", "rich"}
    # A bare interpreter has about 40 modules and 10 MB.
    assert len(modules) < 60
    assert megabytes < 60


@pytest.mark.parametrize("room", ["rlkit.tasks", "rlkit.sandbox", "rlkit.rewards"])
def test_the_light_rooms_import_no_model_library(room):
    modules, _ = measure_import(room)
    assert room in modules
    assert not modules & set(HEAVY), f"{room} imports {sorted(modules & set(HEAVY))}"


def test_the_measurement_sees_a_heavy_import():
    modules, megabytes = measure_import("numpy")
    assert "numpy" in modules
    _, bare = measure_import("sys")
    assert megabytes > bare + 5
