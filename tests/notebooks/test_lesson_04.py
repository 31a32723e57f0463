"""What only lesson 04 promises: the formula holds, and the baseline decides whether tiny learns."""

from __future__ import annotations

import re

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def said(solved) -> str:
    """All that the lesson printed or showed as text."""
    cells = solved("04_policy_gradient").execution.notebook["cells"]
    return "\n".join(text_of(cell) for cell in cells)


def test_ten_more_on_every_reward_leaves_the_gradient_and_not_the_variance(said):
    rows = re.findall(r"added +(\d+): gradient ([\d.]+), variance of one draw +([\d.]+)", said)
    assert [int(added) for added, _, _ in rows] == [0, 1, 10]
    # By hand: 0.25 * (0.8 - 0.475) = 0.08125, whatever is added.
    assert {gradient for _, gradient, _ in rows} == {"0.08125"}
    # Arm 3, all arms alike: 0.25 (0.5625 E[r^2 of 3] + 0.0625 E[r^2 of the others]) - 0.0066.
    # Nothing added: 0.25 (0.5625 * 0.8 + 0.0625 * 1.1) - 0.0066 = 0.1231.
    # Ten added, E[r^2] = 121 p + 100 (1 - p): 0.25 (0.5625 * 116.8 + 0.0625 * 323.1) - 0.0066.
    assert [float(v) for *_, v in rows] == pytest.approx([0.123, 0.570, 21.467], abs=1e-3)
    assert "it is 174.4 times" in said


def test_without_a_baseline_the_wrong_arm_wins_for_most_seeds(said):
    rows = re.findall(r"^(none|others) +(\d+) added +([\d ]+)$", said, re.M)
    third = {(kind, added): int(counts.split()[2]) for kind, added, counts in rows}
    assert third["none", "10"] < 60
    assert third["others", "10"] == third["others", "0"] > 90


def test_the_ratio_has_no_two_in_its_gradient(said):
    assert "1.000000, and the rest differs by" in said


def test_on_tiny_the_spread_with_a_baseline_does_not_see_what_is_added(said):
    rows = dict(re.findall(r"^(\d added, [a-z ]+?) +spread ([\d.]+)$", said, re.M))
    spread = {name: float(value) for name, value in rows.items()}
    assert spread["0 added, others"] == spread["3 added, others"]
    assert spread["3 added, no baseline"] > 4 * spread["3 added, others"]


def test_only_the_run_with_a_baseline_learns(said):
    known = dict(re.findall(r"(before|without a baseline|mean of the others): (0\.\d+)", said))
    before, without, with_it = (
        float(known[name]) for name in ("before", "without a baseline", "mean of the others")
    )
    # 100 problems each; 20 updates raise it by about 0.28, so 0.1 is no unlucky draw.
    assert with_it > before + 0.1
    assert without < with_it - 0.2
