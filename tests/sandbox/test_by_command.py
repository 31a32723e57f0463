"""`call` by means of `execute`: everything through one standard input and output."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from rlkit.sandbox import Job, Limits, TestSpec
from rlkit.sandbox.backends.base import InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_command import CallByCommand
from rlkit.sandbox.codec import decode
from rlkit.sandbox.judge import prepare

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")

LIMITS = Limits(wall_s=10.0)


class Plain(CallByCommand):
    """The least that a backend can do: run a command in a folder of its own."""

    name = "plain"
    python = sys.executable

    def execute(self, command, limits, cancelled):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command.argv, input=command.stdin, env=dict(command.environment), cwd=folder,
                capture_output=True, check=False, timeout=limits.wall_s + 20,
            )  # fmt: skip
        return Outcome(stdout=done.stdout, stderr=done.stderr, exit_code=done.returncode)


def call(source: str, *args, limits: Limits = LIMITS, **more) -> Outcome:
    tests = [TestSpec(str(n), args=a) for n, a in enumerate(args or ((),))]
    job = Job(source=source, entry="f", tests=tests, **more)
    return Plain().call(prepare(job, limits), limits, lambda: False)


def test_values_come_back_and_prints_are_kept_apart():
    source = (
        "import sys\nprint('hello')\ndef f(x):\n    print(x, file=sys.stderr)\n    return x + 1"
    )
    outcome = call(source, (1,), (2,))
    assert [decode(m[2]) for m in outcome.messages[:2]] == [2, 3]
    assert outcome.messages[2][0] == "done"
    assert sorted(outcome.stdout.split()) == [b"1", b"2", b"hello"]
    assert outcome.garbage == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fences of Linux")
def test_the_fences_of_the_place_are_put_on_and_named():
    source = """
import os, socket
def f(what):
    try: exec(what, {"os": os, "socket": socket})
    except OSError as error: return type(error).__name__
    return "worked"
"""
    tries = [("os.fork() or os._exit(0)",), ("socket.socket()",), ("open('/etc/passwd')",)]
    outcome = call(source, *tries)
    came = [decode(m[2]) for m in outcome.messages[:3]]
    if "seccomp" in outcome.fences:
        assert came[:2] == ["BlockingIOError", "PermissionError"]
    if any(name.startswith("landlock") for name in outcome.fences):
        assert came[2] == "PermissionError"
    assert {"cpu", "memory", "no_new_privileges"} <= outcome.fences


def test_fences_are_told_by_the_harness_and_not_by_the_program():
    source = """
import os
from sys import modules
codec = modules["__main__"].codec
os.write(3, b"\\n" + codec.encode(("fences", ("magic",))) + b"\\n")
def f(): return 1
"""
    outcome = call(source)
    assert "magic" not in outcome.fences
    assert ("fences", ("magic",)) in outcome.messages  # to be judged as strange


def test_what_is_expected_never_goes_in():
    job = Job(
        source="def f(): return 1", entry="f", tests=[TestSpec("t", expected="unlikely-1234")]
    )
    command = Plain().command_of(prepare(job, LIMITS), LIMITS)
    assert b"unlikely-1234" not in command.stdin


def test_a_mode_of_two_processes():
    proxy = pytest.importorskip("rlkit.sandbox.modes.proxy")
    code = "assert Box(2).twice() == 4"
    tests = [TestSpec("right", code=code), TestSpec("wrong", code="assert Box(2).twice() == 5")]
    source = (
        "class Box:\n    def __init__(self, n): self.n = n\n    def twice(self): return 2 * self.n"
    )
    job = Job(source=source, entry="Box", mode="proxy", tests=tests)
    outcome = Plain().call(proxy.prepare(job, LIMITS), LIMITS, lambda: False)
    verdict = proxy.judge(job, LIMITS, outcome, None)
    assert [str(result.status) for result in verdict.tests] == ["PASS", "FAIL"]


def test_an_interpreter_that_does_not_come_up_is_a_fault():
    class Broken(Plain):
        python = "/bin/false"

    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t")])
    with pytest.raises(InfrastructureFault, match="no interpreter came up"):
        Broken().call(prepare(job, LIMITS), LIMITS, lambda: False)


def test_limits_on_prints_and_results_are_kept():
    outcome = call("def f(): print('x' * 200_000)")
    assert (outcome.ended, outcome.truncated, len(outcome.stdout)) == ("output", True, 65536)
    outcome = call("def f(): return '%' * 900_000")  # three bytes each on the way
    assert outcome.ended == "result"
