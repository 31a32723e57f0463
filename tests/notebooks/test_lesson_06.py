"""What only lesson 06 promises: what the clip holds, what a critic knows, and an honest table."""

from __future__ import annotations

import re

import pytest

from rlkit.lessons.building.execute import text_of

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def said(solved) -> str:
    """All that the lesson printed or showed as text."""
    cells = solved("06_ppo_and_clipping").execution.notebook["cells"]
    return "\n".join(text_of(cell) for cell in cells)


def test_a_wall_has_one_side_only(said):
    rows = re.findall(r"^ +([\d.]+) +([+-][\d.]+) +([+-][\d.]+) +([+-][\d.]+)$", said, re.M)
    # By hand: min(1.5, 1.2); min(-1.5, -1.2); min(0.5, 0.8); min(-0.5, -0.8).
    assert [tuple(map(float, row)) for row in rows] == [
        (1.5, 1.0, 1.2, 0.0),
        (1.5, -1.0, -1.5, -1.5),
        (0.5, 1.0, 0.5, 0.5),
        (0.5, -1.0, -0.8, 0.0),
    ]


def test_the_higher_wall_is_for_rare_tokens(said):
    # 1.05^4 = 1.2155 is past 1.2, 1.05^6 = 1.3401 past 1.28; 0.9 * 1.2 is above 1.
    assert len(re.findall(r"held after 4 and 6", said)) == 3
    assert "held after never and never" in said


def test_the_clip_is_no_fence_and_slows_the_drift(said):
    beyond, held = map(
        float, re.search(r"([\d.]+) % are outside of the walls, ([\d.]+) % are held", said).groups()
    )
    assert 5 < held <= beyond < 50
    drift = re.search(r"drift ([\d.]+) nats a token, ([\d.]+) without a clip", said)
    walled, free = map(float, drift.groups())
    assert free > 2 * walled > 0


def test_the_first_ratio_is_1_and_mistakes_show(said):
    rows = dict(re.findall(r"^(\S.*?) +largest \|ratio - 1\| ([\d.]+),", said, re.M))
    assert float(rows["as it should be"]) < 1e-3
    assert float(rows["scored at temperature 1.25"]) > 0.05
    assert float(rows["the sampler is one update behind"]) > 0.05


def test_gspos_walls_silence_nearly_all_and_wider_ones_fewer(said):
    rows = re.findall(r"^0\.\d+ and 1\.\d+ +([\d.]+)% +([\d.]+)%$", said, re.M)
    after_one = [float(one) for one, _ in rows]
    assert len(after_one) == 3
    assert after_one[0] > 64 and after_one == sorted(after_one, reverse=True)


def test_a_critic_that_knows_its_batch_by_heart_knows_no_other(said):
    heart = re.search(r"by heart +(\S+) +(\S+) +(\S+) (\S+)", said)
    new = re.search(r"new answers +(\S+) +(\S+)", said)
    own, others, first, last = map(float, heart.groups())
    assert own > 0.2 > others and last < first
    assert float(new[2]) > 0.03 > others


def test_a_bad_critic_adds_variance(said):
    rows = {
        name: (float(share), float(spread))
        for name, share, spread in re.findall(
            r"^(silent|new ones, 2 levels|of another answer|turned round) +(\S+) +(\S+)$",
            said,
            re.M,
        )
    }
    assert rows["silent"][0] == 0
    assert rows["new ones, 2 levels"][1] < rows["silent"][1] < rows["turned round"][1]


def test_nothing_is_held_at_the_first_epoch_and_something_at_the_second(said):
    rows = re.findall(r"^ +\d+ +[\d.]+ +([\d.]+)% +([\d.]+)% +-?[\d.]+$", said, re.M)
    assert len(rows) == 4
    assert all(float(first) == 0 for first, _ in rows)
    assert all(float(second) > 0 for _, second in rows)


def test_on_a_fresh_batch_clips_do_not_matter_and_later_they_do(said):
    told = re.search(r"cosine to GRPO's gradient: (.*)", said)[1]
    fresh = {name: float(value) for name, value in re.findall(r"(\w+) (-?[\d.]+)", told)}
    assert fresh["DAPO"] == fresh["CISPO"] == 1.0
    rows = re.findall(r"^ +(GRPO|DAPO|GSPO|CISPO) +\S+ +(\S+) +\S+ +(\S+) +\S+", said, re.M)
    moved = {name: (float(cosine), float(silent)) for name, cosine, silent in rows}
    assert moved["GRPO"][1] > 0.02
    assert moved["CISPO"][1] == 0 and moved["CISPO"][0] < 0.9
    assert moved["GSPO"][1] > 0.64


def test_the_table_compares_equal_tokens_with_intervals_and_a_control(said):
    rows = re.findall(
        r"^((?:GRPO|PPO|no critic), \d+ x \d) +(\d+) +(the base|\S+ \[\S+, \S+\]) +(.*?) +\d+ +"
        r"([\d.]+)$",
        said,
        re.M,
    )
    known = {name: more for name, *more in rows}
    assert list(known) == ["GRPO, 4 x 8", "PPO, 4 x 8", "PPO, 32 x 1", "no critic, 32 x 1"]
    tokens = [int(row[0]) for row in known.values()]
    # All go on until 2,400; a step draws about 300, so none is further than two steps beyond.
    assert min(tokens) >= 2400 and max(tokens) < 3000
    base = float(known["GRPO, 4 x 8"][3])
    for _, gap, _, after in list(known.values())[1:]:
        middle, low, high = map(float, re.findall(r"[+-][\d.]+", gap))
        assert middle == pytest.approx(float(after) - base, abs=0.011)
        # 200 problems, rates near 0.5: 2 * 1.96 * sqrt(2 * 0.25 / 200) = 0.196.
        assert 0.18 < high - low < 0.21
    # tiny solves 0.42 of them before, and about 0.54 after 8 steps; one share is good to 0.07.
    assert all(float(row[3]) > 0.45 for row in known.values())
    assert known["no critic, 32 x 1"][2] == known["GRPO, 4 x 8"][2] == "no critic"
    # Trained on 8 batches, the critic explains nothing of the last.
    assert all(float(known[name][2]) < 0.1 for name in known if name.startswith("PPO"))
