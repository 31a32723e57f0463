"""What only lesson 05 promises: five functions that train, and that agree with TRL."""

from __future__ import annotations

import re

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def said(solved) -> str:
    """All that the lesson printed or showed as text."""
    cells = solved("05_grpo_from_scratch").execution.notebook["cells"]
    return "\n".join(text_of(cell) for cell in cells)


def test_the_size_of_a_group_is_counted(said):
    # 1 - 0.95^13 - 0.05^13 = 0.487 and 1 - 0.95^14 - 0.05^14 = 0.512.
    assert "it is 14 answers" in said
    assert "8: 34%, 14: 51%" in said


def test_a_fresh_ratio_is_1_and_the_clip_holds(said):
    assert float(re.search(r"largest \|log ratio\|: (\S+)", said)[1]) < 1e-4
    assert re.findall(r"ratio ([\d.]+): pull ([\d.]+)", said) == [
        ("0.5", "0.50"),
        ("1.0", "1.00"),
        ("1.5", "0.00"),
    ]


def test_the_printed_loss_is_small_and_the_gradient_is_there(said):
    row = r"^ +(\d+) +([\d.]+) +([+-][\d.]+) +([\d.]+) +([\d.]+)$"
    rows = [list(map(float, found)) for found in re.findall(row, said, re.M)]
    assert [step for step, *_ in rows] == list(range(1, 9))
    assert all(abs(printed) < 0.15 for _, _, printed, _, _ in rows)
    assert all(norm > 0.02 for *_, norm, _ in rows)


def test_dead_groups_are_skipped_and_the_gradient_is_the_same(said):
    skipped = int(re.search(r"it is (\d+) groups", said)[1])
    assert f"with contrast  {16 - skipped:>2} groups" in said
    assert f"frac_reward_zero_std {skipped / 16:.2f}" in said
    assert float(re.search(r"largest difference of the two gradients: (\S+)", said)[1]) < 1e-6


def test_our_numbers_are_trls(said):
    ours, theirs = re.search(r"loss: ours (\S+), TRL's (\S+)", said).groups()
    assert float(ours) == pytest.approx(float(theirs), abs=1e-6)
    for name in ("advantages", "gradient"):
        assert float(re.search(rf"{name}: largest difference (\S+)", said)[1]) < 1e-5


def test_a_forgotten_detach_is_exactly_zero_and_a_shifted_mask_is_not(said):
    healthy = re.search(r"as it should be +loss \S+ +gradient ([\d.]+)", said)[1]
    assert float(healthy) > 0.01
    assert re.search(r"detach forgotten +loss \S+ +gradient 0\.0000", said)
    assert float(re.search(r"smallest ratio (\S+), not 1", said)[1]) < 0.1
    assert float(re.search(r"([\d.]+) in the worst group", said)[1]) < 0.95
    # The first token of the answer is left out.
    trained = re.search(r"tokens that are trained: \[(.*)\]", said)[1]
    assert not trained.startswith("'<answer>'")


def test_the_kits_loop_learns_and_smol_is_left_out_in_one_sentence(said):
    before = float(re.search(r"before: sort: pass@1 ([\d.]+)", said)[1])
    after = float(re.search(r"after:  sort: pass@1 ([\d.]+)", said)[1])
    # 100 problems each; 20 updates raise it by about 0.26, so 0.1 is no unlucky draw.
    assert after > before + 0.1
    assert "smol is trained in the full length only" in said
