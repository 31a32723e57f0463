"""Jobs and verdicts as JSON: what `rlkit sandbox run` reads and prints.

A file of tests is a list of tests, or an object with `tests` and any other field of a job:

    [{"name": "two", "args": [2], "expected": 4}]
    {"mode": "io", "tests": [{"stdin": "1 2\\n", "expected": "3\\n"}], "limits": {"wall_s": 2}}

JSON has no tuples, so in tests from a file lists and tuples stand for each other.

Left out on purpose: the formats of other projects' services.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.types import Limits, TestSpec, Verdict

#: Endings of program files, and the language that each stands for.
ENDINGS = {
    **{".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript"},
    **{".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".java": "java", ".rs": "rust"},
    **{".go": "go", ".sh": "bash", ".bash": "bash", ".sql": "sql"},
}

_TEST_FIELDS = {f.name for f in fields(TestSpec) if f.init} - {"checker"}
_JOB_FIELDS = {"tests", "entry", "mode", "limits", "language", "seed", "files", "args", "preload"}
_JOB_FIELDS |= {"compile_limits", "stop_on_first", "draw"}


def language_of(path: str, named: str | None = None) -> str:
    """The language of a program: the one that was named, or by the ending of its file.

    Raises:
        UserError: none was named, and the ending tells nothing.

    >>> language_of("a/sort.rs"), language_of("-", "c++")
    ('rust', 'c++')
    """
    if named:
        return named
    found = ENDINGS.get(Path(path).suffix.lower())
    if found is None:
        raise UserError(f"the language of {path!r} cannot be told from its name; give --lang")
    return found


def read_tests(path: Path) -> dict[str, Any]:
    """The fields of a job that a file of tests gives: `tests`, and perhaps others.

    Raises:
        UserError: no such file, no JSON, or a field that no test or job has.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"the tests cannot be read from {str(path)!r}: {error}") from None
    if isinstance(found, list):
        found = {"tests": found}
    if not isinstance(found, dict) or not isinstance(found.get("tests"), list):
        raise UserError(f'{str(path)!r} must hold a list of tests, or an object with "tests"')
    _known(found, _JOB_FIELDS, "a file of tests")
    for name in ("limits", "compile_limits"):
        if found.get(name) is not None:
            found[name] = limits_of(found[name])
    tests = [spec_of(row, number) for number, row in enumerate(found["tests"], 1)]
    return {**found, "tests": tests, "mode": found.get("mode") or mode_of(tests)}


def spec_of(row: Any, number: int = 1) -> TestSpec:
    """One test from plain data.

    >>> spec_of({"args": [2], "expected": [4]}).name
    'test 1'
    """
    if not isinstance(row, Mapping):
        raise UserError(f"test {number} must be an object, not {row!r}")
    _known(row, _TEST_FIELDS | {"checker"}, f"test {number}")
    row = {"name": f"test {number}", "tuples_as_lists": True, **row}
    if not isinstance(row.get("checker", ""), str):
        raise UserError(f"the checker of test {number} must be the name of one")
    return TestSpec(**row)


def mode_of(tests: list[TestSpec]) -> str:
    """The mode that a list of tests is written for.

    >>> mode_of([TestSpec("t", stdin="1", expected="2")]), mode_of([TestSpec("t", args=(1,))])
    ('io', 'func')
    """
    if any(test.code for test in tests):
        return "proxy"
    if any(test.stdin is not None or test.argv or test.expected_files for test in tests):
        return "io"
    return "func"


def limits_of(row: Any) -> Limits:
    """Limits from plain data.

    >>> limits_of({"wall_s": 2}).wall_s
    2
    """
    if not isinstance(row, Mapping):
        raise UserError(f"limits must be an object, not {row!r}")
    _known(row, {f.name for f in fields(Limits)}, "limits")
    return Limits(**row)


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data for JSON.

    >>> from rlkit.sandbox.types import Status
    >>> verdict_json(Verdict(Status.PASS, (), 1, 1, 1.0))["status"]
    'PASS'
    """
    facts = {name: value for name, value in vars(verdict).items() if name != "isolation"}
    facts["status"] = verdict.status.value
    facts["summary"] = verdict.summary
    facts["tests"] = [{**vars(test), "status": test.status.value} for test in verdict.tests]
    facts["suspicion"] = list(verdict.suspicion)
    if verdict.compile is not None:
        facts["compile"] = {**asdict(verdict.compile), "status": verdict.compile.status.value}
    facts["isolation"] = None if verdict.isolation is None else verdict.isolation.to_json()
    return facts


def _known(row: Mapping[str, Any], names: set[str], what: str) -> None:
    unknown = set(row) - names
    if unknown:
        raise UserError(
            f"{what} has no field {', '.join(sorted(map(str, unknown)))}; "
            f"it has {', '.join(sorted(names))}"
        )
