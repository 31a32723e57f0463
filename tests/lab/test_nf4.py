"""NF4 by hand: against bitsandbytes, against numbers worked out, and its panel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.lab.nf4 import (
    bits_a_weight,
    error,
    library_codes,
    library_matrix,
    nf4_levels,
    quantise,
    repaired,
    through_8_bits,
)
from rlkit.lab.nf4_figures import blocks_of, level_figure, size_figure
from rlkit.lab.nf4_panel import Nf4Panel
from rlkit.policy.quantization import probe_nf4

needs_library = pytest.mark.skipif(
    probe_nf4("cpu") is not None, reason=f"no four bits here: {probe_nf4('cpu')}"
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_the_levels_are_quantiles_with_an_exact_zero():
    levels = nf4_levels()
    assert len(levels) == 16 and levels[0] == -1 and levels[15] == 1 and levels[7] == 0
    assert bool((levels.diff() > 0).all())
    # Seven below 0 and eight above. The innermost one below is the quantile one seventh of the
    # way from 0.5 to 0.9677, divided by the outermost: ndtri(0.5668) / ndtri(0.9677) = 0.0911.
    assert float(levels[6]) == pytest.approx(-0.0911, abs=1e-4)


@needs_library
def test_the_levels_are_the_librarys():
    import bitsandbytes.functional as library

    theirs = library.get_4bit_type("nf4", device="cpu")
    assert torch.allclose(nf4_levels(), theirs, atol=1e-6, rtol=0)


def test_a_block_by_hand():
    # Scale 0.5. Shares 0.2, -1, 0, 0.52; nearest levels 0.161 (9), -1 (0), 0 (7), and for
    # 0.52, between 0.4407 (12) and 0.5626 (13) with their middle at 0.5017, it is 13.
    coded = quantise(torch.tensor([[0.1, -0.5, 0.0, 0.26]]), block=4)
    assert coded.codes_KS.tolist() == [[9, 0, 7, 13]]
    assert coded.scales_K.tolist() == [0.5]
    assert coded.matrix().tolist()[0] == pytest.approx([0.0805, -0.5, 0.0, 0.2813], abs=1e-4)


def test_zeros_stay_zeros_and_have_no_scale_to_divide_by():
    back = quantise(torch.zeros(2, 64), block=64).matrix()
    assert torch.equal(back, torch.zeros(2, 64))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-8, 8, width=32), min_size=16, max_size=16))
def test_what_comes_back_is_near_and_the_largest_exact(numbers):
    block = torch.tensor(numbers)
    back = quantise(block, block=16).matrix()
    scale = float(block.abs().max())
    widest = float(nf4_levels().diff().max())
    assert float((back - block).abs().max()) <= scale * widest / 2 + 1e-6
    at = int(block.abs().argmax())
    assert float(back[at]) == pytest.approx(float(block[at]), rel=1e-6, abs=1e-30)


@needs_library
@pytest.mark.parametrize("block", [32, 64, 128, 512])
def test_codes_and_scales_are_the_librarys(block):
    matrix = normal(24, 512) * 0.07
    ours, theirs = quantise(matrix, block), library_codes(matrix, block)
    assert torch.equal(ours.codes_KS, theirs.codes_KS)
    assert torch.equal(ours.scales_K, theirs.scales_K)
    # Rows of 512 are whole numbers of these blocks, so the library's way back is right, too.
    assert torch.allclose(ours.matrix(), library_matrix(matrix, block), atol=1e-6)


@needs_library
def test_double_quantisation_costs_as_little_as_the_librarys():
    matrix = normal(64, 512) * 0.07
    plain, ours = quantise(matrix), quantise(matrix).double()
    theirs = library_matrix(matrix, double=True)
    for back in (ours.matrix(), theirs):
        assert error(matrix, back) == pytest.approx(error(matrix, plain.matrix()), rel=0.01)
    assert not torch.equal(plain.scales_K, ours.scales_K)


def test_scales_in_8_bits_are_off_by_half_a_step_at_most():
    scales = normal(600).abs()
    back = through_8_bits(scales)
    # 127 steps on each side of the mean; half a step of the block's own largest distance.
    for part, kept in zip(scales.split(256), back.split(256), strict=True):
        far = float((part - scales.mean()).abs().max())
        assert float((kept - part).abs().max()) <= far / 254 + 1e-6


def test_bits_and_errors_grow_with_small_and_large_blocks():
    # 4 + 32 / 64 = 4.5; with 8-bit scales 4 + (8 + 32 / 256) / 64 = 4.126953125.
    assert bits_a_weight(64, False) == 4.5
    assert bits_a_weight(64, True) == pytest.approx(4.126953125)
    matrix = normal(32, 1024)
    errors = [error(matrix, quantise(matrix, block).matrix()) for block in (16, 64, 256, 1024)]
    assert errors == sorted(errors) and errors[0] < 0.09 < errors[3]


def test_an_adapter_takes_back_its_share_of_the_energy():
    matrix, off = torch.zeros(4, 4), torch.diag(torch.tensor([4.0, 2.0, 1.0, 0.0]))
    whole = matrix + off + torch.eye(4) * 0
    # Energy 16 + 4 + 1 = 21; without the largest part 5, without two 1.
    for rank, left in ((0, 21), (1, 5), (2, 1), (3, 0)):
        found = repaired(whole, matrix, rank)
        assert found == pytest.approx((left / 21) ** 0.5, abs=1e-5)
    with pytest.raises(UserError, match="negative"):
        repaired(whole, matrix, -1)


def test_blocks_that_do_not_fill_a_matrix_are_refused():
    with pytest.raises(UserError, match="do not fill"):
        quantise(torch.ones(3, 5), block=4)
    assert blocks_of(torch.ones(4, 64), (64, 96, 256, 512)) == [64, 256]


# -- the panel ------------------------------------------------------------------------------


@pytest.fixture
def panel(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    return Nf4Panel(normal(64, 128) * 0.1)


def test_its_numbers_are_those_of_the_functions(panel):
    matrix = panel.matrix
    assert panel.error == pytest.approx(error(matrix, quantise(matrix).double().matrix()))
    panel.set(double=False, block=256, rank=64)
    assert panel.error == pytest.approx(error(matrix, quantise(matrix, 256).matrix()))
    assert panel.left == pytest.approx(0, abs=1e-5)  # the full rank takes all of it back
    # 8,192 weights in 4 + 32 / 256 bits are 4,224 bytes; the adapter 64 * (64 + 128) numbers.
    rows = panel.table().rows
    assert rows[0][1] == 16384 and rows[1][1] == 4224 and rows[2][1] == 4224 + 4 * 64 * 192


def test_what_makes_no_sense_is_refused_and_leaves_it_as_it_was(panel):
    kept = panel.settings
    for changes, words in (
        ({"block": 96}, "do not fill"),
        ({"rank": 65}, "0 to 64"),
        ({"bits": 3}, "no setting"),
    ):
        with pytest.raises(UserError, match=words):
            panel.set(**changes)
        assert panel.settings == kept
    for nothing in (torch.zeros(4, 4), torch.ones(4)):
        with pytest.raises(UserError, match="not 0 everywhere"):
            Nf4Panel(nothing)


def test_its_figures_can_be_read_without_being_seen(panel):
    for figure in (panel.figure(), panel.levels()):
        assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
        assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    levels = level_figure(panel.coded).layout.meta["table"]["rows"]
    assert len(levels) == 16 and sum(row[2] for row in levels) == pytest.approx(100)
    sizes = size_figure(panel.matrix, 64, True).layout.meta["table"]["rows"]
    assert [row[0] for row in sizes] == [16, 32, 64, 128, 256, 512, 1024]
    assert [row[2] for row in sizes] == sorted(row[2] for row in sizes)


def test_it_is_text_without_a_front_end_and_widgets_with_one(panel, monkeypatch):
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert "blocks of 64, scales in 8 bits: 4.127 bits a weight" in str(panel)
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    shown = Nf4Panel(panel.matrix, rank=3)
    c = shown._controls
    assert c.rank.value == 3  # a value of its own is among the slider's
    said, plot = c.status.value, c.plot.shown
    c.block.value = 512
    c.double.value = False
    c.rank.value = 0
    assert vars(shown.settings) == {"block": 512, "double": False, "rank": 0}
    assert c.status.value != said and c.plot.shown != plot
    shown.set(rank=5)  # from outside, to a value that the slider lacks
    assert c.rank.value == 5 and "rank 5" in c.status.value
