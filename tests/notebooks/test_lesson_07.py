"""What only lesson 07 promises: what it says of judges and layers is measured in it."""

from __future__ import annotations

import re

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def run(solved):
    return solved("07_the_sandbox")


@pytest.fixture(scope="module")
def said(run) -> str:
    """All that the lesson printed or showed as text."""
    return "\n".join(text_of(cell) for cell in run.execution.notebook["cells"])


def test_every_exercise_is_right_and_it_is_quick(run):
    assert set(run.exercises.values()) == {"RIGHT"} and len(run.exercises) == 5
    assert run.peak_memory_mb < 600


def test_the_cheats_are_paid_as_the_text_says(said):
    paid = {}
    for name in ("honest", "does nothing", "leaves", "equals all", "forges", "by heart"):
        words = re.search(rf"^{name} +((?:pays|-)(?: +(?:pays|-)){{3}})$", said, re.MULTILINE)
        paid[name] = words[1].split()
    assert paid["honest"] == ["pays"] * 4
    assert paid["does nothing"] == ["-"] * 4
    # exit code, marker, one process, rlkit
    assert paid["leaves"] == ["pays", "-", "-", "-"]
    assert paid["equals all"] == ["pays", "pays", "pays", "-"]
    assert paid["forges"] == ["pays", "pays", "-", "-"]
    assert paid["by heart"] == ["pays"] * 4


def test_limits_hold_in_every_row_and_learning_by_heart_in_none(said):
    rows = re.findall(r"^(all that is here|no namespaces|nor Landlock|nor seccomp) +(.*)$",
                      said, re.MULTILINE)  # fmt: skip
    assert len(rows) == 4
    for _, row in rows:
        held = row.split()
        assert len(held) == 7 and held[:2] == ["limit", "limit"] and held[-1] == "*"
    # Taking a fence away never holds more.
    free = [row.split().count("*") for _, row in rows]
    assert free == sorted(free)


def test_a_seed_steadies_the_die_alone(said):
    first, second = re.findall(r"They differ in: (.*)\.$", said, re.MULTILINE)
    assert "die" in first and "die" not in second
    assert "steady" not in first + second


def test_the_cache_runs_nothing_twice(said):
    first = re.search(r"first time .*ran (\d+), copied (\d+)", said)
    second = re.search(r"second time .*ran (\d+), copied (\d+)", said)
    different = int(re.search(r"(\d+) different programs among 8", said)[1])
    # Another run of a kept verdict is made one time in a hundred.
    assert int(first[1]) == different and int(first[2]) == 8 - different
    assert int(second[1]) <= 1


def test_what_a_program_prints_is_not_obeyed(said):
    assert "⟨ESC⟩[31mred" in said and "\x1b[31m" not in said
