"""Runs one test beside the program: assertions, `test...` functions, `unittest` classes.

A few of pytest's fixtures are here (`monkeypatch`, `capsys`, `tmp_path`), as far as tests of
one function use them; `pytest` itself is `proxy_pytest`. Left out: conftest files, fixtures of
the test's own, plugins.
"""

from __future__ import annotations

import sys
import types

from rlkit.sandbox.zygote import proxy_pytest
from rlkit.sandbox.zygote.harness import line_in
from rlkit.sandbox.zygote.proxy_errors import describe

TEST_FILE = "test.py"


def run(code: str, space: dict, entry: str) -> tuple[str, str, int]:
    """Run a test in the name space of the program.

    Returns:
        a status (empty when it holds), a message, and how many functions were run.
    """
    sys.modules.setdefault("pytest", proxy_pytest.module())
    names = {**space, "__name__": "__test__"}
    if entry and entry in space:
        names.setdefault("candidate", space[entry])
    ran = 0
    try:
        exec(compile(code, TEST_FILE, "exec", dont_inherit=True), names)
        for name, value in list(names.items()):
            if space.get(name) is value and name in space:
                continue  # the program's own
            if isinstance(value, type):
                ran += _run_class(name, value)
            elif type(value) is types.FunctionType and name.startswith("test"):
                for arguments in getattr(value, "_cases", [{}]):
                    _run_function(value, arguments)
                ran += 1
        check = names.get("check")
        if type(check) is types.FunctionType and check.__code__.co_filename == TEST_FILE:
            if code.count("check(") == 1:
                check(names["candidate"])
            ran += 1
    except AssertionError as error:
        text = str(error)[:200]
        return "FAIL", f"the test does not hold{_line(error)}" + (f": {text}" if text else ""), ran
    except BaseException as error:
        kind = "MEMORY_LIMIT" if isinstance(error, MemoryError) else "RUNTIME_ERROR"
        return kind, describe(error), ran
    return "", "", ran


def _line(error: BaseException) -> str:
    line = line_in(error, TEST_FILE)
    return f" (line {line} of the test)" if line else ""


def _run_class(name: str, kind: type) -> int:
    """The methods of a test class; `unittest` is only loaded where a test has done so."""
    unittest = sys.modules.get("unittest")
    if unittest is not None and issubclass(kind, unittest.TestCase):
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
        outcome = unittest.TestResult()
        suite.run(outcome)
        for _, trace in (*outcome.failures, *outcome.errors):
            raise AssertionError(trace.strip().rpartition("\n")[2])
        return outcome.testsRun - len(outcome.skipped)
    methods = [method for method in vars(kind) if method.startswith("test")]
    if not name.startswith("Test") or not methods:
        return 0
    for method in methods:
        found = kind()
        if hasattr(found, "setup_method"):
            found.setup_method()
        for arguments in getattr(vars(kind)[method], "_cases", [{}]):
            _run_function(getattr(found, method), arguments)
    return len(methods)


def _run_function(function, arguments: dict) -> None:
    code = function.__code__
    wanted = code.co_varnames[: code.co_argcount]
    fixtures = {name: FIXTURES[name]() for name in wanted if name in FIXTURES}
    try:
        function(**arguments, **fixtures)
    finally:
        for fixture in reversed(fixtures.values()):
            fixture.undo()


class MonkeyPatch:
    """Attributes, items and variables replaced until the test is over."""

    def __init__(self) -> None:
        self._steps: list = []

    def setattr(self, target, name, *value):
        if isinstance(target, str):
            path, _, attribute = target.rpartition(".")
            __import__(path)
            target, name, value = sys.modules[path], attribute, (name,)
        self._steps.append((setattr, target, name, getattr(target, name)))
        setattr(target, name, *value)

    def setitem(self, mapping, key, value):
        missing = key not in mapping
        self._steps.append(
            (type(mapping).__delitem__, mapping, key)
            if missing
            else (type(mapping).__setitem__, mapping, key, mapping[key])
        )
        mapping[key] = value

    def setenv(self, name, value):
        import os

        self.setitem(os.environ, name, value)

    def undo(self):
        while self._steps:
            step, *arguments = self._steps.pop()
            step(*arguments)


class CapSys:
    """What is printed meanwhile."""

    def __init__(self) -> None:
        import io

        self._kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()

    def readouterr(self):
        import collections

        pair = collections.namedtuple("CaptureResult", "out err")
        told = pair(sys.stdout.getvalue(), sys.stderr.getvalue())
        for stream in (sys.stdout, sys.stderr):
            stream.seek(0)
            stream.truncate()
        return told

    def undo(self):
        sys.stdout, sys.stderr = self._kept


def _tmp_path():
    import pathlib
    import tempfile

    path = pathlib.Path(tempfile.mkdtemp())
    kind = type(path)
    return type("TmpPath", (kind,), {"undo": lambda self: None})(path)


FIXTURES = {"monkeypatch": MonkeyPatch, "capsys": CapSys, "tmp_path": _tmp_path}
