"""Rank against quality: what is stored, and one run made small."""

from __future__ import annotations

from statistics import fmean

import pytest

from rlkit.errors import UserError
from rlkit.lab.rank_runs import RankRun, make, rank_figure, rank_run, stored_runs


def last(held: str, rank: int) -> float:
    return fmean(r.pass_at_1[-1] for r in stored_runs() if (r.held, r.rank) == (held, rank))


def test_the_stored_runs_say_what_the_lesson_says():
    ranks = sorted({r.rank for r in stored_runs()})
    assert ranks == [1, 4, 16, 64]
    for run in stored_runs():
        assert run.alpha == (2 * run.rank if run.held == "factor" else 32)
        assert run.steps == (0, 15, 30, 45)
    # With the factor held, rank 64 falls over; with alpha held, all four end alike.
    assert last("factor", 64) < last("factor", 16) - 0.1
    ends = [last("alpha", rank) for rank in ranks]
    assert max(ends) - min(ends) < 0.06


def test_a_run_is_made_and_trains_what_its_rank_says():
    run = rank_run(2, held="alpha", steps=2, every=1, held_out=4)
    assert (run.rank, run.alpha, run.steps) == (2, 32, (0, 1, 2))
    assert len(run.pass_at_1) == 3 and all(0 <= p <= 1 for p in run.pass_at_1)
    assert run.trained == 13_824 * 2  # rank 1 has 13,824 numbers
    for wrong in ({"held": "rank"}, {"every": 0}, {"every": 9, "steps": 3}):
        with pytest.raises(UserError):
            rank_run(1, **wrong)


def test_the_file_is_made_with_each_alpha_trained_once(tmp_path, monkeypatch):
    import rlkit.lab.rank_runs as module

    trained = []

    def quick(rank, *, held, seed, **_):
        trained.append((rank, module.HELD[held](rank), seed))
        return RankRun(rank, module.HELD[held](rank), held, seed, rank, (0, 1), (0.1, 0.2))

    monkeypatch.setattr(module, "rank_run", quick)
    runs = make(tmp_path / "runs.json", ranks=(1, 16), seeds=(0,))
    # Rank 16 has alpha 32 both ways.
    assert trained == [(1, 2, 0), (16, 32, 0), (1, 32, 0)]
    assert [(r.held, r.rank) for r in runs] == [
        ("factor", 1), ("factor", 16), ("alpha", 1), ("alpha", 16)
    ]  # fmt: skip
    assert stored_runs(tmp_path / "runs.json") == tuple(runs)
    with pytest.raises(UserError, match="exists already"):
        make(tmp_path / "runs.json")


def test_the_figure_has_a_curve_for_each_rank_and_for_each_live_run():
    live = RankRun(1, 32, "alpha", 0, 13_824, (0, 15), (0.4, 0.5))
    figure = rank_figure("alpha", [live])
    assert [trace.name for trace in figure.data][-1] == "live: rank 1"
    assert len(figure.data) == 5
    assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    with pytest.raises(UserError, match="no run holds"):
        rank_figure("nothing")
