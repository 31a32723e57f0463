"""What counts as a value, and what is made of values that nobody vouches for."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards.values import as_number, check_bounds, fault, sanitise


@pytest.mark.parametrize(
    "value, number",
    [
        (1, 1.0),
        (False, 0.0),
        (numpy.float64(0.25), 0.25),
        (numpy.array(0.25), 0.25),
        (10**400, math.inf),
        ("1", None),
        (b"1", None),
        (1j, None),
        (None, None),
        ([1.0], None),
        (numpy.array([1.0]), None),
    ],
)
def test_numbers(value: object, number: float | None) -> None:
    assert as_number(value) == number


def test_a_torch_scalar_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    assert as_number(torch.tensor(0.5)) == 0.5
    assert as_number(torch.tensor([0.5])) is None


@pytest.mark.parametrize(
    "value, kept",
    [
        (0.5, 0.5),
        (0, 0.0),
        (1, 1.0),
        ("0.5", 0.5),
        (" 1 ", 1.0),
        ("nan", None),
        ("-inf", None),
        ("1e999", None),
        (math.nan, None),
        (1.0000001, None),
        (-1e-9, None),
        (True, None),
        ("True", None),
        ("", None),
        (None, None),
        ([1.0], None),
        ({"reward": 1.0}, None),
        ("1" * 5000, None),
    ],
)
def test_only_finite_numbers_in_range_are_believed(value: object, kept: float | None) -> None:
    assert sanitise([value]) == [kept]


def test_another_range() -> None:
    assert sanitise([-2, 2, 5, "inf"], low=-2, high=None) == [-2.0, 2.0, 5.0, None]


@given(st.lists(st.one_of(st.floats(), st.text(), st.booleans(), st.none(), st.integers())))
def test_whatever_comes_in_a_finite_share_or_none_comes_out(values: list) -> None:
    kept = sanitise(values)
    assert len(kept) == len(values)
    assert all(value is None or 0.0 <= value <= 1.0 for value in kept)
    assert sanitise([v for v in kept if v is not None]) == [v for v in kept if v is not None]


def test_faults_in_words() -> None:
    assert fault(0.5, (0.0, 1.0)) is None
    assert fault(math.nan, (None, None)) == "nan is not finite"
    assert fault(2.0, (None, 1.0)) == "2 is outside [-inf, 1]"


@pytest.mark.parametrize("bounds", [(1, 0), (math.nan, 1), (0,), 3, ("a", "b")])
def test_a_range_runs_upwards(bounds: object) -> None:
    with pytest.raises(UserError, match="range"):
        check_bounds(bounds)
