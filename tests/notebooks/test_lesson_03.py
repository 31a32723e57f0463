"""What only lesson 03 promises: the optimiser finds the hole, and the fix closes it."""

from __future__ import annotations

import re

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def said(solved) -> str:
    """All that the lesson printed or showed as text."""
    cells = solved("03_break_the_verifier").execution.notebook["cells"]
    return "\n".join(text_of(cell) for cell in cells)


def test_the_hole_is_found_and_the_fix_brings_both_together(said):
    rows = dict(re.findall(r"^(before|careless|tree) +paid ([\d.]+  right [\d.]+)$", said, re.M))
    numbers = {name: [float(x) for x in row.split("  right ")] for name, row in rows.items()}
    paid, right = numbers["careless"]
    assert paid > 0.9
    assert right < 0.3
    paid, right = numbers["tree"]
    assert abs(paid - right) <= 0.05
    # Honest training must not be worse than none: 100 problems, so 0.1 is noise.
    assert right > numbers["before"][1] - 0.1
    assert "The hole was found: nearly all is paid, and little is right." in said
    assert "Without the hole, what is paid is right." in said


def test_a_verifier_repaired_too_late_teaches_nothing(said):
    assert float(re.search(r"groups that teach nothing ([\d.]+)", said)[1]) > 0.8
