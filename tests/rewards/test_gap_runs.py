"""The recorded runs: what they must show for an alarm to be tried on them."""

from __future__ import annotations

from rlkit.rewards.gap_runs import GapRun, gap_runs


def test_ten_runs_of_fifty_steps():
    runs = gap_runs()
    assert [run.holey for run in runs] == [True] * 5 + [False] * 5
    assert all(len(run.proxy) == len(run.truth) == 50 for run in runs)
    assert all(0.0 <= x <= 1.0 for run in runs for x in (*run.proxy, *run.truth))


def test_runs_with_a_hole_end_paid_and_wrong_and_the_others_agree():
    for run in gap_runs():
        paid, right = sum(run.proxy[-10:]) / 10, sum(run.truth[-10:]) / 10
        if run.holey:
            assert paid > 0.9
            assert right < 0.05
        else:
            # 320 held-out answers: two deviations are 2 * sqrt(0.25 / 320) = 0.06, and the
            # rewards of ten batches of 12 problems swing as far.
            assert abs(paid - right) < 0.15


def test_too_late_is_the_start_of_five_in_a_row():
    proxy = (0.95, 0.5, 0.91, 0.92, 0.93, 0.94, 0.95, 0.2)
    assert GapRun("x", True, proxy, proxy).too_late == 3
    assert GapRun("x", True, proxy[:6], proxy[:6]).too_late is None
