from __future__ import annotations

import json
import pickle
import re

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import (
    IsolationReport,
    Job,
    Level,
    Limits,
    Property,
    Status,
    TestResult,
    TestSpec,
    Verdict,
)

ONE = TestSpec("one", args=(1,), expected=2)


def test_status_is_its_bare_name_everywhere():
    assert str(Status.PASS) == "PASS"
    assert f"{Status.CPU_LIMIT}" == "CPU_LIMIT"
    assert "%s" % Status.FAIL == "FAIL"  # noqa: UP031
    assert json.dumps({"status": Status.FAIL}) == '{"status": "FAIL"}'
    assert Status("TIMEOUT") is Status.TIMEOUT
    assert {s.value for s in Status} == {
        *("PASS", "FAIL", "COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT", "CPU_LIMIT"),
        *("MEMORY_LIMIT", "OUTPUT_LIMIT", "CRASH", "NO_RESULT", "BAD_VALUE", "TAMPERED"),
        *("REJECTED", "SANDBOX_ERROR"),
    }


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"tests": ()}, "without tests proves nothing"),
        ({"mode": "io"}, "mode 'io' runs the whole program; leave out entry='f'"),
        ({"mode": "vote"}, "mode 'vote' is none of io, func, proxy, inproc"),
        ({"language": "rust"}, "rust programs are tested by what they print"),
        ({"language": "pyton"}, "did you mean 'python'"),
        ({"mode": "io", "entry": ""}, "has arguments or code, which mode 'io' does not use"),
        ({"mode": "proxy"}, "has no code; mode 'proxy' runs code"),
        ({"tests": [TestSpec("a", code="assert f(1)")]}, "is code; use mode='proxy'"),
        ({"tests": [TestSpec("a", stdin="1")]}, "belong to mode='io'"),
        ({"tests": [TestSpec("a", checker="set")]}, "compares text; it belongs to mode='io'"),
        ({"files": {"../x": "1"}}, "'../x' leads out of the folder"),
        ({"args": "-n"}, "must be a list of words"),
        ({"preload": "torch"}, "preload='torch' is none of base, numpy, sympy"),
        ({"min_isolation": 9}, "is no Level"),
        ({"cache": "maybe"}, "is none of use, refresh, off"),
        ({"draw": 1}, "only 0 of the tests are hidden"),
        ({"draw": 0}, "not a number of tests"),
        ({"compile_limits": 3}, "compile_limits must be Limits"),
        ({"entry": ""}, "not the name of a function"),
        ({"entry": "f(1)"}, "not the name of a function"),
        ({"source": b"def f(): pass"}, "must be the program's text"),
        ({"tests": [(1, 2)]}, "list of TestSpec"),
        ({"limits": 3}, "limits must be Limits"),
        ({"seed": "x"}, "not a whole number"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_in_words(kwargs, says):
    arguments = {"source": "def f(x): return x", "entry": "f", "tests": [ONE], **kwargs}
    with pytest.raises(UserError, match=re.escape(says)):
        Job(**arguments)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"expected": object()}, "expected of test 'a' cannot be used"),
        ({"args": (object(),)}, "inputs of test 'a' cannot be used"),
        ({"args": "text"}, "must be a list"),
        ({"kwargs": {1: 2}}, "must have names"),
        ({"stdin": 3}, "stdin of test 'a' must be text, bytes or None"),
        ({"stdin": "a\ud800"}, "holds half a character"),
        ({"argv": ["a\0b"]}, "must be text without NUL"),
        ({"expected_files": {"a": 1}}, "must be text or bytes"),
        ({"checker": "nearly"}, "checker 'nearly' is unknown"),
        ({"checker": lambda e, g: True}, "cannot be sent to another process"),
        ({"code": 1}, "must be the source of the test"),
        ({"expected": Status.PASS}, "type 'Status' is not plain data"),
    ],
)
def test_a_test_takes_plain_data_only(kwargs, says):
    with pytest.raises(UserError, match=says):
        TestSpec("a", **kwargs)


@pytest.mark.parametrize(
    "name",
    [
        *("", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b", "a\nb", "a\\b", "\ud800"),
        "x" * 201,
        "/".join("abcdefghi"),
        "\u202egnp.exe",
        None,
    ],
)
def test_a_file_outside_the_folder_is_refused(name):
    with pytest.raises(UserError):
        Job(source="f = 1", entry="f", tests=[ONE], files={name: "x"})


def test_an_io_job_must_expect_something():
    def job(*tests):
        return Job("js", "1", tests, mode="io")

    with pytest.raises(UserError, match="an empty program would pass"):
        job(TestSpec("a", expected=" \n\n"), TestSpec("b", expected=b""))
    with pytest.raises(UserError, match="must be the text that the program prints"):
        job(TestSpec("a"))
    with pytest.raises(UserError, match="must be the text that the program prints"):
        job(TestSpec("a", expected=4))
    assert len(job(TestSpec("a", expected=""), TestSpec("b", expected="1")).tests) == 2
    assert job(TestSpec("a", expected_files={"out.txt": "1"})).language == "javascript"


def test_hidden_tests_are_drawn_by_the_seed():
    tests = [TestSpec(f"t{i}", args=(i,), expected=i, hidden=i % 2 == 1) for i in range(10)]

    def names(seed):
        job = Job(source="f = abs", entry="f", tests=tests, draw=2, seed=seed)
        return [test.name for test in job.drawn().tests]

    assert names(3) == names(3)
    drawn = {tuple(name for name in names(seed) if int(name[1]) % 2) for seed in range(200)}
    # 5 hidden tests, 2 of them at a time: 5 * 4 / 2 = 10 pairs, all of which 200 draws meet
    assert len(drawn) == 10
    assert all(set(names(seed)) >= {"t0", "t2", "t4", "t6", "t8"} for seed in range(5))
    no_draw = Job(source="f = abs", entry="f", tests=tests)
    assert no_draw.drawn() is no_draw


def test_a_hidden_result_gives_nothing_away():
    result = TestResult("h", Status.FAIL, 0.1, "5", "4", "f(2) returned 5, expected 4")
    assert result.veiled() == TestResult(
        "h", Status.FAIL, 0.1, None, None, "a hidden test ended in FAIL", True
    )
    assert TestResult("h", Status.PASS, got_repr="4").veiled().message == ""


def test_limits_refuse_what_is_not_a_limit():
    for wrong in (
        {"wall_s": 0},
        {"wall_s": float("nan")},
        {"cpu_s": float("inf")},
        {"memory_mb": 1},
        {"output_kb": 1.5},
        {"processes": -1},
        {"open_files": True},
        {"files_mb": "2"},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            Limits(**wrong)


def test_a_test_keeps_its_own_copy():
    given = [3, 1, 2]
    test = TestSpec("sort", args=(given,), expected=given)
    given.append(4)
    assert test.args == ([3, 1, 2],)
    assert test.expected == [3, 1, 2]


def test_the_key_tells_apart_what_equality_does_not():
    def key(**changes):
        settings = {"source": "s", "entry": "f", "tests": [ONE], **changes}
        return Job(**settings).key(Limits())

    assert key() == key()
    assert key(tests=[TestSpec("one", args=(True,), expected=2)]) != key()  # True == 1
    assert key(tests=[TestSpec("one", args=(1,), expected=2.0)]) != key()  # 2.0 == 2
    assert key(seed=1) != key()
    assert key(tests=[TestSpec("one", args=(1,), expected=2, hidden=True)]) != key()
    assert key(files={"a": "1"}) != key(files={"a": b"1"}) != key()
    assert key(stop_on_first=True) != key()
    assert key(preload="numpy") != key()
    assert key(group="mine", cache="off", min_isolation=Level.NONE) == key()
    assert key(source="t") != key()
    assert key(limits=Limits(wall_s=1.0)) != key()
    assert key(limits=Limits()) == key()  # the limits that apply anyway


def test_everything_can_be_pickled():
    report = IsolationReport(Level.LIMITS, "a sentence", (Property("time", "enforced", "clock"),))
    job = Job(source="s", entry="f", tests=[ONE], limits=Limits(wall_s=1.0))
    verdict = Verdict(Status.FAIL, (), 0, 1, 0.0, isolation=report)
    for thing in (report, job, verdict):
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_report_is_plain_data_for_a_run():
    report = IsolationReport(Level.LIMITS, "a sentence", (Property("time", "enforced", "clock"),))
    assert json.loads(json.dumps(report.to_json())) == {
        "level": "LIMITS",
        "sentence": "a sentence",
        "properties": {"time": {"state": "enforced", "mechanism": "clock"}},
    }
    assert report["time"].state == "enforced"
    with pytest.raises(KeyError):
        report["colour"]
