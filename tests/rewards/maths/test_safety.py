"""Hostile and absurd answers: nothing is run, nothing hangs, nothing raises, nothing is paid."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.rewards.maths import judge
from rlkit.rewards.maths.reading import read

NOTATION = (
    r"1 2 0.5 10^ {9} \frac{ } { ( ) [ ] , ; \{ \} \sqrt{ \pi x y + - * / ^ _ ! | = < \le \in "
    r"\cup \infty \text{ cm and or not % $ \boxed{ \begin{pmatrix} \end{pmatrix} & \\ : ' \pm e i "
    r"\sin \log_ \int \sum A (B) ... . ** \left \right ^\circ \pmod{5} \overline{3} ½ ² ° −"
)
PIECES = st.sampled_from(NOTATION.split())


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=25), st.booleans())
def test_no_mixture_of_notation_raises_or_is_paid(pieces, spaced):
    text = (" " if spaced else "").join(pieces)
    for wrapped in (f"\\boxed{{{text}}}", f"The answer is {text}", text):
        for mode in ("strict", "flexible"):
            # No piece and no sum of few pieces makes this number.
            assert judge(wrapped, "86028157", mode=mode).value in (0.0, None)
    assert judge(r"\boxed{86028157}", text).value in (0.0, None)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_can_be_read_and_asked_for(text):
    read(text)
    assert judge(f"\\boxed{{{text}}}", "86028157").value in (0.0, None)


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=997), st.fractions(max_denominator=997))
def test_two_fractions_agree_when_they_are_equal(a, b):
    text = f"\\boxed{{\\frac{{{a.numerator}}}{{{a.denominator}}}}}"
    assert judge(text, str(a)).value == 1.0
    assert judge(text, str(b)).value == float(a == b)
    assert judge(text, a).value == 1.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6), st.randoms())
def test_a_bare_list_has_no_order_and_a_tuple_has_one(numbers, random):
    mixed = list(numbers)
    random.shuffle(mixed)
    bare, gold = (", ".join(map(str, row)) for row in (mixed, numbers))
    assert judge(f"\\boxed{{{bare}}}", gold).value == 1.0
    if len(numbers) > 1:
        assert judge(f"\\boxed{{({bare})}}", f"({gold})").value == float(mixed == numbers)
    extra = judge(f"\\boxed{{{bare}, 51}}", gold)
    assert extra.value == 0.0


HUGE = [
    "9^{9^{9^{9}}}",
    "(10^{9})!",
    "2^{30^{7}}",
    "\\sqrt{" * 300 + "2" + "}" * 300,
    "(" * 1900,
    "+".join(f"\\sin({i}x)" for i in range(150)),
    "*".join(["(x+1)^{99}"] * 150),
    "*".join(f"(a_{{{i}}}+1/{i})^{{200}}" for i in range(2, 26)),
    ", ".join(f"\\sqrt{{{i}}}" for i in range(60)),
    "\\max(" * 30 + "1" + ")" * 30,
    "\\binom{10^9}{5*10^8}",
    "1,000 " * 300,
]
LONG = [
    "\n" * 190_000,
    "answer\n" * 28_000,
    "not answer is " * 12_000,
    "answer" + " " * 190_000,
    "\\boxed{" * 20_000,
    "\\boxed{" * 20_000 + "7" + "}" * 20_000,
    "\\boxed{1}" + "\\," * 60_000 + "x\\boxed{2}",
    "<think>" * 20_000,
    "\\(" * 90_000,
    "1," * 90_000,
    "9" * 190_000,
    "**" * 90_000,
]


@pytest.mark.timeout(60)  # a hang ends here; a healthy run takes about a second
def test_nothing_absurd_is_paid_or_hangs():
    for text in HUGE:
        assert judge(f"\\boxed{{{text}}}", "7").value == 0.0, text[:40]
        assert judge("\\boxed{7}", text).value in (0.0, None), text[:40]
    for text in LONG:
        for mode in ("strict", "flexible"):
            assert judge(text, "7", mode=mode).value == 0.0, text[:40]


def test_two_different_towers_are_too_large_to_tell_apart():
    found = judge(r"\boxed{9^{9^{9^{9}}}}", "9^{9^{9^{8}}}")
    assert (found.value, found.status) == (None, "TOO_LARGE")


@pytest.mark.timeout(60)
def test_nothing_absurd_hangs_in_a_thread():
    verdicts = []
    thread = threading.Thread(
        target=lambda: verdicts.extend(judge(f"\\boxed{{{text}}}", "7").value for text in HUGE)
    )
    thread.start()
    thread.join(50)
    assert verdicts == [0.0] * len(HUGE)


@pytest.mark.parametrize("mode", ["strict", "flexible"])
@pytest.mark.parametrize("frame", [r"\boxed{%s}", "The answer is %s", "%s"])
def test_code_in_an_answer_is_not_run(tmp_path, mode, frame):
    mark = tmp_path / "mark"
    for code in (
        f"__import__('os').system('touch {mark}')",
        f"open('{mark}','w').close() or 0",
        f"[0 for _ in [open('{mark}','w')]][0]",
        f"(lambda: open('{mark}','w'))() and 0",
    ):
        assert judge(frame % code, "0", mode=mode).value == 0.0
    assert not mark.exists()
