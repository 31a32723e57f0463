"""Which rollouts a page holds: whole groups, bounded, and what is left out is said."""

from __future__ import annotations

import itertools

from rlkit.lab.rollout_data import MOST_TEXT, pack_rollouts


def rollout(step, group=0, index=0, text="42"):
    return {"step": step, "group": group, "index": index, "text": text, "question": "What is 40+2?"}


def test_of_many_steps_the_newest_and_evenly_spaced_ones_are_kept_whole():
    rows = [rollout(step, 0, index) for step in range(1, 101) for index in range(4)]
    packed = pack_rollouts(rows, most_rollouts=80)
    steps = [group["step"] for group in packed["groups"]]
    assert all(len(group["rollouts"]) == 4 for group in packed["groups"])
    # 80 rollouts are 20 steps: the newest 5, and 15 spaced from 1 to 95.
    assert steps[0] == 1 and steps[14:] == [95, 96, 97, 98, 99, 100]
    assert {b - a for a, b in itertools.pairwise(steps[:15])} <= {6, 7}
    assert packed["note"].startswith("80 of 400 rollouts are here: all groups of 20 of 100 steps")


def test_of_one_huge_step_some_groups_are_kept_whole_and_one_at_least():
    rows = [rollout(1, group, index) for group in range(10) for index in range(4)]
    packed = pack_rollouts(rows, most_rollouts=13)
    assert [group["group"] for group in packed["groups"]] == [0, 4, 9]
    assert packed["note"].startswith("12 of 40 rollouts are here: groups of step 1")
    assert pack_rollouts(rows, most_rollouts=1)["shown"] == 4


def test_the_amount_of_text_is_bounded_too():
    rows = [rollout(step, text="x" * 1000) for step in range(1, 101)]
    # 10,500 characters hold ten answers of 1,000 with their questions of 13.
    assert pack_rollouts(rows, most_characters=10_500)["shown"] == 10


def test_a_very_long_answer_is_cut_and_says_so():
    text = pack_rollouts([rollout(1, text="x" * 30_000)])["groups"][0]["rollouts"][0]["text"]
    assert text.startswith("x" * MOST_TEXT + "\n… cut here")
    assert text.endswith("the text has 30,000 characters.")


def test_no_rollouts_is_a_sentence():
    assert pack_rollouts([]) == {
        "groups": [],
        "shown": 0,
        "total": 0,
        "note": "No rollouts have been recorded yet.",
    }
