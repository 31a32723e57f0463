"""The trap: what it does where it can be shown, and what is stored where it cannot."""

from __future__ import annotations

from statistics import fmean

import pytest

from rlkit.errors import UserError
from rlkit.lab import four_bit_trap, trap_records
from rlkit.lab.four_bit_trap import Trap, spring, train, why_not
from rlkit.lab.trap_records import make, stored_runs, stored_traps, trap, trap_figure

needs_trap = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be shown")


@needs_trap
def test_one_evaluation_takes_the_gradient_away():
    found = spring("tiny", problems=4, group_size=4)
    assert found.where == "here" and len(found.by_block) == 4
    assert 1e-4 < found.largest < 1.0
    assert found.after < 0.5 * found.before and found.cosine < 0.7
    # The lowest block, with most spoilt layers above it, keeps least.
    kept = [after / before for before, after in found.by_block]
    assert kept[0] == min(kept) and kept[0] < 0.3
    # The whole is made of the blocks.
    for index, whole in ((0, found.before), (1, found.after)):
        assert sum(both[index] ** 2 for both in found.by_block) == pytest.approx(whole**2)


@needs_trap
def test_training_goes_through_without_it_and_hardly_with_it():
    healthy, ill = train(False, steps=2, held_out=10), train(True, steps=2, held_out=10)
    assert len(healthy.grad_norms) == len(ill.grad_norms) == 2
    assert max(ill.grad_norms) < 0.5 * min(healthy.grad_norms)
    assert "with the trap" in str(ill) and "without it" in str(healthy)


def test_what_is_stored_tells_the_same_story():
    for found in stored_traps():
        assert found.where != "here"
        assert found.after < 0.4 * found.before
    gains = {
        on: fmean(run.after - run.before for run in stored_runs() if run.sprung is on)
        for on in (False, True)
    }
    assert gains[False] > 0.1 and gains[True] < gains[False] / 2


def test_where_it_cannot_be_shown_the_stored_numbers_are(monkeypatch):
    for module in (four_bit_trap, trap_records):
        monkeypatch.setattr(module, "why_not", lambda: "The trap cannot be shown here: test.")
    assert trap("tiny") == stored_traps()[0]
    with pytest.raises(UserError, match="Nothing is stored of 'big'"):
        trap("big")
    with pytest.raises(UserError, match="cannot be shown"):
        spring("tiny")
    with pytest.raises(UserError, match="cannot be shown"):
        train(True)


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "x.json").write_text("")
    with pytest.raises(UserError, match="exists already"):
        make(tmp_path / "x.json", "somewhere")


def test_its_figure_can_be_read_without_being_seen():
    found = Trap("x", "elsewhere", 0.1, 0.01, 5.0, 1.0, 0.2, ((4.0, 0.4), (3.0, 1.5)))
    figure = trap_figure(found)
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    # 0.4 of 4 and 1.5 of 3.
    assert "10 % of the gradient's length" in figure.layout.meta["alt"]
    assert "50 %" in figure.layout.meta["alt"]
    assert "elsewhere" in figure.layout.meta["caption"]
