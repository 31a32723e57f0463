"""Every lesson is run solved once, and all tests look at that run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from rlkit.lessons.building.build import Shelf
from rlkit.lessons.building.lanes import run_lesson

ROOT = Path(__file__).resolve().parents[2]
#: Runs after the last cell of lesson 00, in its kernel.
NUMBERS_OF_00 = """
import json
print(json.dumps({
    "before": before.pass_at_1,
    "after": after.pass_at_1,
    "held_out": after.by_domain["pyfunc"].problems,
    "steps": [row["step"] for row in panel.rows],
    "pass_rates": [row["pass_rate"] for row in panel.rows],
    "quantized": policy.precision.weights,
}))
"""


@pytest.fixture(scope="session")
def solved():
    """Name of a lesson in, its solved version's run out."""

    @cache
    def run(name: str):
        tail = NUMBERS_OF_00 if name == "00_start_here" else ""
        return run_lesson(Shelf(ROOT), name, version="solved", tail=tail)

    return run
