from __future__ import annotations

import json
import pickle

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import IsolationReport, Job, Level, Limits, Property, Status, TestSpec, Verdict

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
        ({"mode": "io"}, "mode 'io' is not supported yet"),
        ({"language": "rust"}, "language 'rust' is not supported yet"),
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
    with pytest.raises(UserError, match=says.replace("(", r"\(").replace(")", r"\)")):
        Job(**arguments)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"expected": object()}, "expected of test 'a' cannot be used"),
        ({"args": (object(),)}, "inputs of test 'a' cannot be used"),
        ({"args": "text"}, "must be a list"),
        ({"kwargs": {1: 2}}, "must have names"),
        ({"expected": Status.PASS}, "type 'Status' is not plain data"),
    ],
)
def test_a_test_takes_plain_data_only(kwargs, says):
    with pytest.raises(UserError, match=says):
        TestSpec("a", **kwargs)


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
