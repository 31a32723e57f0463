from __future__ import annotations

import operator
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox.checkers import (
    CheckerFault,
    agree,
    checked_checker,
    checker_identity,
    expects_nothing,
)

RIGHT = [
    ("exact", "1\n2\n", b"1\n2"),
    ("exact", "1\n2", b"1  \t\r\n2 \n\n\n"),  # blanks at ends of lines, breaks at the end
    ("exact", "", b"\n \n"),
    ("exact", "\u2028x", "\u2028x".encode()),  # a line separator that is no line break here
    ("exact", "gr\u00fc\u00df", "gr\u00fc\u00df".encode()),
    ("exact", b"\xff\x00", b"\xff\x00"),  # bytes: the very same
    ("tokens", "1 2\n3", b" 1\n2\t3 "),
    ("tokens", "1.50", b"1.5"),
    ("tokens", "1000", b"1e3"),
    ("tokens", "0", b"-0.0"),
    ("tokens", ".5", b"0.50"),
    ("tokens", "+7", b"7"),
    ("tokens", "007", b"007"),
    ("tokens", "nan", b"nan"),  # letter by letter
    # 0.1 as a float is 0.1000000000000000055..., but decimals are exact
    ("tokens", "0.1", b"0.1000"),
    ("tokens", "123456789012345678901234567890.10", b"123456789012345678901234567890.1"),
    ("floats", "0.333333333", b"0.3333333333"),  # 3.3e-10 apart
    ("floats", "1e20", b"1.0000000005e20"),  # relative distance 5e-10
    ("floats", "3", b"3.0"),
    ("floats", "3.0", b"3"),
    ("floats", "yes 0.5", b"yes 0.5000000001"),
    ("floats", "nan", b"NaN"),
    ("floats", "inf", b"Infinity"),
    ("floats", "-inf", b"-inf"),
    ("floats", "1e400", b"1e400"),  # too large for a float, but written alike
    ("set", "b\na\na\n", b"a\nb\na"),
    ("set", "", b""),
]
WRONG = [
    ("exact", "1\n2\n", b"1\n3\n", "line 2 is '3', expected '2'"),
    ("exact", "1", b" 1", "line 1 is ' 1', expected '1'"),
    ("exact", "1\n2", b"1", "ends after 1 line, expected '2' next"),
    ("exact", "1", b"1\n2", "line 2 is '2', expected the end"),
    ("exact", "1", b"", "ends after 0 lines, expected '1' next"),
    ("exact", "1\n\n2", b"1\n2", "line 2 is '2', expected ''"),
    ("exact", "a", b"A", "line 1 is 'A', expected 'a'"),
    ("exact", "1", b"\xef\xbb\xbf1", r"line 1 is '\ufeff1', expected '1'"),  # byte order mark
    ("exact", "1", b"1\0", r"line 1 is '1\x00', expected '1'"),
    ("exact", "1.0", b"1.00", "line 1 is '1.00', expected '1.0'"),
    ("exact", b"1\n", b"1", r"wrote b'1', expected b'1\n'"),
    ("tokens", b"1 2", b"1  2", "wrote b'1  2', expected b'1 2'"),  # bytes, whatever the checker
    ("tokens", "1 2", b"1 2 3", "word 3 is '3', expected the end"),
    ("tokens", "1 2", b"12", "word 1 is '12', expected '1'"),
    ("tokens", "007", b"7", "word 1 is '7', expected '007'"),
    ("tokens", "7", b"007", "word 1 is '007', expected '7'"),
    ("tokens", "1", b"0x1", "word 1 is '0x1', expected '1'"),
    ("tokens", "1000", b"1_000", "word 1 is '1_000', expected '1000'"),  # float() would take it
    ("tokens", "1", "\u0661".encode(), "word 1 is '\u0661', expected '1'"),  # an Arabic digit one
    ("tokens", "nan", b"NaN", "word 1 is 'NaN', expected 'nan'"),
    # as floats these two are the same number
    ("tokens", "0.1", b"0.1000000000000000055", "expected '0.1'"),
    ("tokens", "1", b"1e99999999999", "expected '1'"),
    ("floats", "0.5", b"0.5001", "word 1 is '0.5001', expected '0.5'"),
    ("floats", "1.0", b"nan", "word 1 is 'nan', expected '1.0'"),
    ("floats", "nan", b"1.0", "expected 'nan'"),
    ("floats", "inf", b"-inf", "expected 'inf'"),
    ("floats", "inf", b"1e999", "expected 'inf'"),
    ("floats", "1e400", b"1e500", "expected '1e400'"),  # both would be infinite as floats
    ("floats", "1e308", b"inf", "expected '1e308'"),
    # two whole numbers get no tolerance: their relative distance is 1e-17
    ("floats", "100000000000000000", b"100000000000000001", "expected '100000000000000000'"),
    ("floats", "yes", b"no", "word 1 is 'no', expected 'yes'"),
    ("set", "a\na\nb", b"a\nb\nb", "the line 'a' is missing"),
    ("set", "a", b"a\na", "the line 'a' is too much"),
    ("set", "a b", b"b a", "the line 'a b' is missing"),
]


@pytest.mark.parametrize(("checker", "expected", "got"), RIGHT, ids=range(len(RIGHT)))
def test_right(checker, expected, got):
    agreement = agree(checker, expected, got)
    assert agreement.right and agreement.reason == ""


@pytest.mark.parametrize(("checker", "expected", "got", "says"), WRONG, ids=range(len(WRONG)))
def test_wrong(checker, expected, got, says):
    agreement = agree(checker, expected, got)
    assert not agreement.right
    assert says in agreement.reason


def test_the_tolerance_of_floats_is_the_tests():
    assert agree("floats", "0.333", b"0.3333", tolerance=1e-3)
    assert not agree("floats", "0.333", b"0.3333", tolerance=1e-4)
    assert agree("floats", "0.5", b"0.50", tolerance=0.0)


def test_stray_bytes_become_a_mark_that_nobody_expects():
    assert "\ufffd" in agree("exact", "1", b"1\xff").reason
    assert not agree("set", "\u00e9", b"\xe9")  # Latin-1 is not UTF-8


def test_hard_inputs_are_cheap():
    assert not agree("tokens", "1", b"9" * 60_000)
    assert not agree("floats", "1.0", b"1" * 60_000)
    assert not agree("tokens", "1", b"1e9999 " * 8000)
    assert not agree("exact", "x", b"\n" * 60_000 + b"y")


def even_length(expected: object, got: str) -> bool | str:
    return True if len(got.split()) % 2 == 0 else "an odd number of words"


def says_no(expected: object, got: str) -> bool | str:
    return ""


def raises(expected: object, got: str) -> bool | str:
    raise KeyError("lost")


def says_one(expected: object, got: str) -> int:
    return 1


class AtLeast:
    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, expected: object, got: str) -> bool:
        return int(got) >= self.least


def test_a_function_of_the_host():
    assert agree(even_length, None, b"a b")
    assert agree(even_length, None, b"a").reason == "an odd number of words"
    assert agree(says_no, None, b"a").reason == "the output is not right"
    assert agree(AtLeast(3), None, b"4")
    assert not agree(AtLeast(3), None, b"2")
    with pytest.raises(CheckerFault, match="the checker raises raised KeyError: 'lost'"):
        agree(raises, None, b"")
    with pytest.raises(CheckerFault, match="says_one returned 1; it must return True, False or"):
        agree(says_one, None, b"")  # 1 is not True
    with pytest.raises(CheckerFault, match="AtLeast raised ValueError"):
        agree(AtLeast(3), None, b"many")


def test_a_function_must_travel_by_name():
    assert checked_checker(even_length) is even_length
    assert pickle.loads(pickle.dumps(checked_checker(AtLeast(1)))).least == 1
    with pytest.raises(UserError, match="at the top level of a module or a cell"):
        checked_checker(lambda expected, got: True)
    with pytest.raises(UserError, match="a name or a function, not 3"):
        checked_checker(3)
    with pytest.raises(UserError, match="choose exact, tokens, floats, set"):
        checked_checker("fuzzy")


def test_the_name_for_keys_tells_functions_apart():
    names = {checker_identity(c) for c in ("exact", even_length, says_no, AtLeast(1), AtLeast(2))}
    assert len(names) == 5
    assert checker_identity(AtLeast(1)) == checker_identity(AtLeast(1))
    assert checker_identity(operator.eq).startswith("_operator:eq:")  # no source to be had


def test_what_expects_nothing():
    assert expects_nothing("tokens", " \n") and expects_nothing("exact", None)
    assert expects_nothing("exact", b"")
    assert not expects_nothing("exact", b"\n")  # bytes: one line break must come
    assert not expects_nothing(even_length, "")
    assert not expects_nothing("exact", None, {"a": "1"})


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
LINES = st.lists(st.text("ab1. ", max_size=4), max_size=6)
NUMBERS = st.decimals(-1_000_000_000, 1_000_000_000, places=6)


@given(TEXT, st.sampled_from(["exact", "tokens", "floats", "set"]))
def test_every_text_agrees_with_itself(text, checker):
    assert agree(checker, text, text.encode())


@given(LINES, st.randoms())
def test_a_set_of_lines_has_no_order(lines, random):
    mixed = list(lines)
    random.shuffle(mixed)
    ours, theirs = "\n".join([*lines, "end"]), "\n".join([*mixed, "end"])
    assert agree("set", ours, theirs.encode())
    assert agree("exact", ours, theirs.encode()).right == (
        [line.rstrip() for line in lines] == [line.rstrip() for line in mixed]
    )


@given(NUMBERS, NUMBERS)
def test_two_numbers_are_the_same_word_exactly_if_they_are_equal(first, second):
    assert agree("tokens", f"{first:f}", f"{second:f}".encode()).right == (first == second)


@given(NUMBERS, st.decimals("-2e-9", "2e-9", places=12))
def test_floats_agree_within_the_tolerance_and_not_beyond(number, step):
    near = number + step
    largest = max(abs(number), abs(near))
    distance, allowed = abs(step), max(Decimal("1e-9"), Decimal("1e-9") * largest)
    if abs(distance - allowed) > Decimal("1e-9") * allowed + Decimal("1e-15") * largest:
        said = agree("floats", f"{number:f}", f"{near:f}".encode())
        assert said.right == (distance < allowed)


@given(TEXT, TEXT, st.sampled_from(["exact", "tokens", "floats", "set"]))
def test_the_checkers_grow_more_lenient_in_order(expected, got, checker):
    if agree("exact", expected, got.encode()):
        assert agree(checker, expected, got.encode())
    if agree("tokens", expected, got.encode()):
        assert agree("floats", expected, got.encode())


@given(st.binary(max_size=60), TEXT, st.sampled_from(["exact", "tokens", "floats", "set"]))
def test_no_output_makes_a_checker_fail(got, expected, checker):
    agreement = agree(checker, expected, got)
    assert agreement.right == (agreement.reason == "")
    assert len(agreement.reason) < 400
