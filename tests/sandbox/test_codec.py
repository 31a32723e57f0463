from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlkit.sandbox import CodecError, decode, encode, same
from rlkit.sandbox.codec import MAX_DEPTH

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())  # lone surrogates included
    | st.binary()
    | st.decimals()
    | st.fractions()
)
KEYS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.frozensets(st.integers(), max_size=3)
    | st.tuples(st.integers(), st.text())
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=5)
        | st.sets(KEYS, max_size=5)
        | st.frozensets(KEYS, max_size=5)
    ),
    max_leaves=20,
)


@given(PLAIN)
@example([True, 1, 1.0, -0.0, "", b"", (), {}, set(), frozenset()])
@example({1: 0, "1": 0, b"1": 0, (1,): 0})
@example("\ud800")
@example(10**5000)
def test_a_value_survives_the_journey_with_its_types(value):
    back = decode(encode(value))
    assert type(back) is type(value)
    assert encode(back) == encode(value)
    assert same(value, back)


@given(st.sets(st.text(max_size=3), max_size=8))
def test_the_encoding_does_not_depend_on_the_order_of_a_set(members):
    shuffled = set(sorted(members, reverse=True))
    assert encode(members) == encode(shuffled)


@given(st.binary(max_size=60))
@settings(max_examples=500)
@example(b"")
@example(b"l99999999999:")
@example(b"s5:ab")
@example(b"d1:i1;")
@example(b"e1:l0:")  # a list cannot be in a set
@example(b"Q1/0;")
@example(b"D3:abc")
@example(b"fzz;")
@example(b"l1:" * 200)
@example(b"i1;i1;")
def test_any_other_bytes_are_refused_and_nothing_else_happens(data):
    try:
        value = decode(data)
    except CodecError:
        return
    assert same(value, decode(encode(value)))


@given(PLAIN, st.data())
def test_a_damaged_encoding_raises_nothing_but_codec_error(value, data):
    wire = bytearray(encode(value))
    place = data.draw(st.integers(0, len(wire) - 1))
    wire[place] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(wire))
    except CodecError as error:
        assert str(error)


class Listlike(list):
    def __eq__(self, other):
        return True


class Liar:
    __class__ = list

    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    "value",
    [Listlike(), Liar(), object(), (i for i in ()), range(3), bytearray(), len, Decimal, [Liar()]],
)
def test_only_exact_builtin_types_are_plain_data(value):
    with pytest.raises(CodecError, match="is not plain data"):
        encode(value)


def test_depth_is_bounded_on_both_sides():
    nested: list = []
    for _ in range(MAX_DEPTH - 1):
        nested = [nested]
    assert decode(encode(nested)) == nested
    endless: list = []
    endless.append(endless)
    for value in ([nested], endless):
        with pytest.raises(CodecError, match="nested deeper"):
            encode(value)
    with pytest.raises(CodecError, match="nested deeper"):
        decode(b"l1:" * MAX_DEPTH + b"l0:")


def test_size_is_bounded_also_for_values_that_share_their_parts():
    bush: list = []
    for _ in range(40):  # 2 ** 40 leaves when written out
        bush = [bush, bush]
    for value in (bush, "x" * 2000, list(range(2000))):
        with pytest.raises(CodecError, match="too large"):
            encode(value, max_bytes=1000)


def test_keys_chosen_to_collide_are_refused():
    prime = (1 << 61) - 1  # hash(n) is n modulo this number
    wire = b"d1000:" + b"".join(encode(n * prime) + b"N" for n in range(1000))
    with pytest.raises(CodecError, match="same hash"):
        decode(wire)
    assert len(decode(encode(set(range(5000))))) == 5000


def test_a_fraction_that_takes_minutes_to_reduce_is_refused():
    digits = b"f" * 20_000
    with pytest.raises(CodecError, match="too long"):
        decode(b"Q" + digits + b"/" + digits + b";")
    assert decode(encode(Fraction(6, 4))) == Fraction(3, 2)
