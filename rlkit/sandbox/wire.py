"""Jobs and verdicts as bytes, for a client and a server of ours on two machines.

Both are written by the codec, so what arrives is what was sent: exact types, exact floats, bytes
and tuples, which JSON has not. Everything is checked when it is read; a job goes through the same
constructors as one that was typed.

Left out on purpose: checkers that are functions. Code is never sent to be run outside the
sandbox, in either direction.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.checkers import is_custom
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.types import (
    CompileReport,
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

#: Goes up when an older server could not understand what is sent.
VERSION = 1

#: Longest job or verdict, in bytes.
MOST_BYTES = 64 << 20

#: What the content is called on the way.
KIND = "application/x-rlkit"

_TEST = (
    *("name", "tolerance", "tuples_as_lists", "mixed_numbers", "stdin", "argv"),
    *("expected_files", "checker", "hidden", "code"),
)
#: Who asks, how it is cached and what is enough isolation are a matter of the client.
_JOB = (
    *("language", "source", "mode", "entry", "seed", "files", "args", "preload"),
    *("stop_on_first", "draw", "share"),
)


class Damaged(ValueError):
    """The bytes are no job or verdict."""


def pack_job(job: Job, limits: Limits) -> bytes:
    """A job as bytes.

    Args:
        job: without checkers of the user's own.
        limits: what applies when the job names none of its own.

    Raises:
        UserError: a test is checked by a function, or the job is too large.

    >>> job = Job(source="f = abs", entry="f", tests=[TestSpec("t", args=(-2,), expected=2)])
    >>> unpack_job(pack_job(job, Limits()))[0] == job
    True
    """
    tests = []
    for test in job.tests:
        if is_custom(test.checker):
            raise UserError(
                f"test {test.name!r} is checked by a function, and functions are not sent to "
                "another machine; use the checker 'exact', 'tokens', 'floats' or 'set'"
            )
        told = {name: _plain(getattr(test, name)) for name in _TEST}
        tests.append({**told, "inputs": test.inputs_wire, "expected": test.expected_wire})
    told = {name: _plain(getattr(job, name)) for name in _JOB}
    told["compile_limits"] = _limits(job.compile_limits)
    told["min_isolation"] = int(job.min_isolation)
    told["limits_chosen"] = job.limits is not None
    whole = {"version": VERSION, "job": told, "tests": tests}
    whole["limits"] = _limits(job.limits or limits)
    try:
        return encode(whole, max_bytes=MOST_BYTES)
    except CodecError as error:
        raise UserError(f"the job cannot be sent: {error}") from None


def unpack_job(data: bytes) -> tuple[Job, Limits]:
    """A job from bytes, and the limits of each of its runs.

    Raises:
        Damaged: not what `pack_job` makes.
        UserError: a job that makes no sense.
    """
    told = _told(data)
    job, tests, limits = told.get("job"), told.get("tests"), told.get("limits")
    if not (isinstance(job, dict) and isinstance(tests, list) and isinstance(limits, dict)):
        raise Damaged("it holds no job")
    try:
        made = [_test(test) for test in tests]
        given = {name: job[name] for name in _JOB}
        compiling, allowed = job["compile_limits"], Limits(**limits)
        whole = Job(
            **given,
            tests=made,
            limits=allowed if job["limits_chosen"] else None,
            compile_limits=None if compiling is None else Limits(**compiling),
            min_isolation=job["min_isolation"],
        )
        return whole, allowed
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"it is no job: {type(error).__name__}: {error}") from None


def pack_verdict(verdict: Verdict) -> bytes:
    """A verdict as bytes.

    >>> verdict = Verdict(Status.PASS, (TestResult("t", Status.PASS),), 1, 1, 1.0)
    >>> unpack_verdict(pack_verdict(verdict)) == verdict
    True
    """
    told = {name: value for name, value in vars(verdict).items()}
    told["status"] = verdict.status.value
    told["tests"] = [{**vars(test), "status": test.status.value} for test in verdict.tests]
    if verdict.compile is not None:
        told["compile"] = {**vars(verdict.compile), "status": verdict.compile.status.value}
    if verdict.isolation is not None:
        told["isolation"] = pack_report(verdict.isolation)
    return encode({"version": VERSION, "verdict": told}, max_bytes=MOST_BYTES)


def unpack_verdict(data: bytes) -> Verdict:
    """A verdict from bytes.

    Raises:
        Damaged: not what `pack_verdict` makes.
    """
    told = _told(data).get("verdict")
    try:
        given = {field.name: told[field.name] for field in fields(Verdict)}
        given["status"] = Status(told["status"])
        given["tests"] = tuple(
            TestResult(**{**test, "status": Status(test["status"])}) for test in told["tests"]
        )
        if given["compile"] is not None:
            compiled = given["compile"]
            given["compile"] = CompileReport(**{**compiled, "status": Status(compiled["status"])})
        if given["isolation"] is not None:
            given["isolation"] = unpack_report(given["isolation"])
        verdict = Verdict(**given)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"it is no verdict: {type(error).__name__}: {error}") from None
    numbers = (verdict.passed, verdict.total)
    right = all(type(number) is int for number in numbers)
    right = right and verdict.total == len(verdict.tests) and type(verdict.message) is str
    right = right and verdict.passed == sum(t.status is Status.PASS for t in verdict.tests)
    if not right or not isinstance(verdict.reward, (int, float, type(None))):
        raise Damaged("the numbers of a verdict do not agree")
    return verdict


def pack_report(report: IsolationReport) -> dict[str, Any]:
    """A report on isolation as plain data.

    >>> unpack_report(pack_report(IsolationReport(Level.CONFINED, "confined"))).level.name
    'CONFINED'
    """
    return {
        "level": int(report.level),
        "sentence": report.sentence,
        "properties": [[p.name, p.state, p.mechanism] for p in report.properties],
    }


def unpack_report(told: Any) -> IsolationReport:
    """The report from plain data.

    Raises:
        Damaged: something else.
    """
    try:
        properties = tuple(Property(*map(str, entry)) for entry in told["properties"])
        return IsolationReport(Level(told["level"]), str(told["sentence"]), properties)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"it is no report: {type(error).__name__}: {error}") from None


def _told(data: bytes) -> dict[str, Any]:
    try:
        told = decode(data)
    except CodecError as error:
        raise Damaged(str(error)) from None
    if not isinstance(told, dict) or told.get("version") != VERSION:
        found = told.get("version") if isinstance(told, dict) else None
        raise Damaged(f"version {found!r} of the format is not known here, only {VERSION}")
    return told


def _test(told: dict[str, Any]) -> TestSpec:
    args, kwargs = decode(told["inputs"])
    given = {name: told[name] for name in _TEST}
    return TestSpec(args=args, kwargs=kwargs, expected=decode(told["expected"]), **given)


def _limits(limits: Limits | None) -> dict[str, Any] | None:
    return None if limits is None else dict(vars(limits))


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value
