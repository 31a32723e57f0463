"""Language math: expressions read without evaluating, and compared."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, Status, TestSpec
from rlkit.sandbox.modes.mathematics import prepare
from rlkit.sandbox.zygote import mathematics


def job_of(source: str, *expected, **settings) -> Job:
    tests = [TestSpec(str(text), expected=text) for text in expected]
    return Job(language="math", source=source, tests=tests, **settings)


SAME = [
    ("2x + 2", "2(x + 1)"),
    ("x^2 - 1", "(x - 1)(x + 1)"),
    ("sin(x)^2 + cos(x)^2", "1"),
    ("sqrt(8)", "2sqrt(2)"),
    ("0.5", "1/2"),
    ("1/3 + 1/6", "0.5"),
    ("log(x*e)", "ln(x) + 1"),
    ("e^(i pi)", "-1"),
    ("factorial(5)", "120"),
    ("binomial(5, 2)", "10"),
    ("(x^2 - 1)/(x - 1)", "x + 1"),
    ("abs(x)", "sqrt(x^2)"),  # of real x
    ("1/(1 + sqrt(2))", "sqrt(2) - 1"),
    ("x = 3", "2x = 6"),
    ("{1, 2}", "{2, 1}"),
    ("(1/2, x)", "(0.5, x)"),
    ("cos(pi/3)", "1/2"),
    ("2^10", "1024"),
    ("-x^2", "-(x^2)"),
    ("3 x y", "y*x*3"),
]
OTHER = [
    ("2x + 2", "2x + 1"),
    ("x", "y"),
    ("x", "abs(x)"),
    ("sqrt(8)", "2.828427"),
    ("x^2", "x^3"),
    ("1/0", "1"),
    ("x = 3", "x = 4"),
    ("x = 3", "3"),
    ("{1, 2}", "{1, 2, 3}"),
    ("(1, 2)", "(2, 1)"),
    ("(1, 2)", "[1, 2]"),
    ("sin(x)", "x"),
    ("pi", "3.14159265358979"),
    ("10^(-30)", "0"),
    ("floor(x)", "x"),
]


def test_the_same_and_not_the_same(sandbox) -> None:
    jobs = [job_of(one, two) for one, two in SAME + OTHER]
    statuses = [verdict.status for verdict in sandbox.run_many(jobs)]
    assert statuses == [Status.PASS] * len(SAME) + [Status.FAIL] * len(OTHER)


def test_a_verdict_is_strong_and_says_what_was_compared(sandbox) -> None:
    verdict = sandbox.run(job_of("2x", "x + x", "3x", 4))
    assert [t.status for t in verdict.tests] == [Status.PASS, Status.FAIL, Status.FAIL]
    assert (verdict.trust, verdict.reward) == ("strong", pytest.approx(1 / 3))
    assert verdict.tests[1].message == "2x is not 3x"
    assert (verdict.tests[1].got_repr, verdict.tests[1].expected_repr) == ("2x", "3x")


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0]",
        "x.__class__",
        "f(x)",
        "open(1)",
        "lambda x: x",
        "[x for x in y]",
        "x if x else y",
        "x := 3",
        "'a' * 3",
        "9**9**9**9",
        "10^10000",
        "x^99999",
        "factorial(10^6)",
        "1" * 400,
        "(" * 60 + "x" + ")" * 60 + "+",
        "-" * 200 + "x",
        "x" + "+x" * 600,
        "x = y = z",
        "2 <3",
        "x @ y",
        "sin",
        "(1, 2) + 3",
        "",
        "\ud800",
        "\x00",
    ],
)
def test_what_is_no_expression_is_refused(sandbox, source: str) -> None:
    verdict = sandbox.run(job_of(source, "1"))
    assert verdict.status is Status.COMPILE_ERROR, verdict.summary
    assert verdict.reward == 0.0
    assert "not an expression" in verdict.message


def test_what_takes_too_long_is_killed(check) -> None:
    hard = "((" + "+".join(f"sin(x{n})" for n in range(12)) + ")^90)" + "/(x0+1)"
    other = hard.replace("sin", "cos")
    limits = Limits(wall_s=1.0, cpu_s=1.0)
    verdict = check(job_of(hard, f"{hard} + {other} - {other}", limits=limits))
    assert verdict.status in (Status.TIMEOUT, Status.CPU_LIMIT, Status.PASS)
    assert verdict.wall_s < 3


def test_an_expected_value_that_is_not_read_is_the_problem_s(sandbox) -> None:
    verdict = sandbox.run(job_of("1", "1 +"))
    assert verdict.status is Status.BAD_VALUE
    assert "expected" in verdict.summary
    with pytest.raises(UserError, match="expression as text"):
        prepare(job_of("1", [1]), Limits())


@settings(deadline=None, max_examples=60)
@given(st.integers(-99, 99), st.integers(1, 20), st.integers(-9, 9))
def test_numbers_are_exact(a: int, b: int, c: int) -> None:
    chance = random.Random(0)
    one = mathematics.read(f"{a}/{b} + ({c})")
    assert mathematics.same(one, mathematics.read(f"({a + b * c})/{b}"), chance)
    assert not mathematics.same(one, mathematics.read(f"({a + b * c + 1})/{b}"), chance)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="x12+-*/^()., {}=sinπe", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        mathematics.read(text)
    except mathematics.Unreadable:
        return


def test_multiplication_signs_that_people_leave_out() -> None:
    written = {
        "2x": "2 * x",
        "2(x+1)": "2 * ( x + 1 )",
        "(a)(b)": "( a ) * ( b )",
        "sin(x)cos(x)": "sin ( x ) * cos ( x )",
        "x y": "x * y",
        "2 3": "2 * 3",
        "x^-1": "x ** - 1",
    }
    assert {text: mathematics._python(text) for text in written} == written
