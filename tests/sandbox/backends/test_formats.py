"""Tests in other projects' formats: there, back, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, Sandbox, TestSpec
from rlkit.sandbox.formats import job_from_verl, verl_from_job


def test_stdin_and_stdout():
    job = job_from_verl("print(input())", {"inputs": ["1\n", "2"], "outputs": ["1\n", "2"]})
    assert (job.mode, len(job.tests)) == ("io", 2)
    assert (job.tests[1].stdin, job.tests[1].expected) == ("2", "2")


def test_calls_are_one_json_value_a_line():
    tests = {"inputs": ['[1, 2]\n"a"', "[]\nnull"], "outputs": ["[2, 1]", "true"], "fn_name": "f"}
    job = job_from_verl("", json.dumps(tests))
    assert [test.args for test in job.tests] == [([1, 2], "a"), ([], None)]
    assert [test.expected for test in job.tests] == [[2, 1], True]
    assert (job.mode, job.entry, job.tests[0].tuples_as_lists) == ("func", "f", True)


def test_calls_may_be_lists_too_and_expected_values_wrapped():
    tests = {"inputs": [[3, 4]], "outputs": [[7]], "fn_name": "add"}
    assert job_from_verl("", tests).tests[0].expected == [7]
    job = job_from_verl("", tests, wrapped=True)
    assert (job.tests[0].args, job.tests[0].expected) == ((3, 4), 7)


def test_assertions_become_proxy_tests():
    job = job_from_verl("def f(x): return x", {"assert_case": ["assert f(2) == 2"]})
    assert (job.mode, job.tests[0].code) == ("proxy", "assert f(2) == 2")


def test_they_run():
    jobs = [
        job_from_verl("print(int(input()) * 2)", {"inputs": ["2", "3"], "outputs": ["4", "7"]}),
        # (1, 2) for [1, 2] and 2.0 for 2: as JSON writes it down
        job_from_verl("def f(x): return (x, 2)",
                      {"inputs": ["1"], "outputs": ["[1, 2.0]"], "fn_name": "f"}),
        job_from_verl("class Solution:\n    def g(self, x): return x + 1",
                      {"inputs": ["1"], "outputs": ["2"], "fn_name": "g"}),
        job_from_verl("def f(x): return x", {"assert_case": ["assert f(2) == 2"]}),
    ]  # fmt: skip
    with Sandbox(workers=1) as box:
        assert [verdict.reward for verdict in box.run_many(jobs)] == [0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("{", "no JSON"),
        ("[]", "must be an object"),
        ({}, "inputs"),
        ({"inputs": ["1"], "outputs": []}, "1 inputs and 0 outputs"),
        ({"inputs": "1", "outputs": "1"}, "two lists"),
        ({"inputs": [], "outputs": []}, "proves nothing"),
        ({"inputs": ["1"], "outputs": [""]}, "empty program would pass"),
        ({"inputs": [1], "outputs": ["1"]}, "must have text"),
        ({"inputs": ["{"], "outputs": ["1"], "fn_name": "f"}, "one JSON value a line"),
        ({"inputs": ["1"], "outputs": ["1"], "fn_name": "a b"}, "not the name of a function"),
        ({"assert_case": []}, "proves nothing"),
        ({"assert_case": [1]}, "list of Python assertions"),
    ],
)
def test_what_is_no_such_object_is_refused(tests, said):
    with pytest.raises(UserError, match=said):
        job_from_verl("def f(x): return x", tests)


@pytest.mark.parametrize(
    "test",
    [
        TestSpec("bytes", args=(b"\xff",), expected=1),
        TestSpec("set", args=(1,), expected={1}),
        TestSpec("nan", args=(1,), expected=float("nan")),
        TestSpec("key", args=({1: 2},), expected=1),
        TestSpec("names", kwargs={"x": 1}, expected=1),
    ],
    ids=lambda test: test.name,
)
def test_what_it_cannot_say_is_refused(test):
    with pytest.raises(UserError):
        verl_from_job(Job(source="f = 1", entry="f", tests=[test]))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.lists(JSON, max_size=3), JSON), min_size=1, max_size=3))
def test_calls_come_back_as_they_went(cases):
    specs = [TestSpec(f"test {n}", args=a, expected=e, tuples_as_lists=True, mixed_numbers=True)
             for n, (a, e) in enumerate(cases, 1)]  # fmt: skip
    job = Job(source="f = abs", entry="f", tests=specs)
    assert job_from_verl("f = abs", json.dumps(verl_from_job(job))) == job


@given(st.lists(st.tuples(st.text(), st.text(min_size=1)), min_size=1, max_size=3))
def test_texts_come_back_as_they_went(cases):
    try:
        specs = [TestSpec(f"test {n}", stdin=i, expected=o) for n, (i, o) in enumerate(cases, 1)]
        job = Job("python", "pass", specs, mode="io")
    except UserError:
        return  # half a character, or nothing but blanks expected
    assert job_from_verl("pass", verl_from_job(job)) == job
