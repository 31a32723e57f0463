"""Every status that a job can end with, and what a learner reads then."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from rlkit.sandbox import Job, Limits, Sandbox, Status, TestSpec

SHORT = Limits(wall_s=0.5)


def statuses(verdict):
    return [result.status for result in verdict.tests]


def test_pass(check, honest):
    verdict = check(honest)
    assert verdict.status is Status.PASS
    assert statuses(verdict) == [Status.PASS] * 3
    assert (verdict.passed, verdict.total, verdict.reward) == (3, 3, 1.0)
    assert verdict.summary == "3 of 3 tests passed"
    assert verdict.tests[0].got_repr == verdict.tests[0].expected_repr == "[1, 2, 3]"
    assert verdict.tests[0].seconds >= 0.0
    assert verdict.exit_code == 0
    assert verdict.signal is None
    assert 0.0 < verdict.cpu_s < 1.0
    assert verdict.peak_rss_mb is None or 1.0 < verdict.peak_rss_mb < 256.0
    assert (verdict.trust, verdict.backend, verdict.cached) == ("strong", "local", False)
    assert verdict.isolation.sentence


def test_fail_says_what_came_and_what_was_expected(check):
    tests = [TestSpec(str(n), args=(n,), expected=2 * n) for n in range(5)]
    verdict = check(Job(source="def f(n): return n * n", entry="f", tests=tests))
    assert verdict.status is Status.FAIL
    assert statuses(verdict) == [Status.PASS, Status.FAIL, Status.PASS, Status.FAIL, Status.FAIL]
    assert verdict.reward == 2 / 5
    assert verdict.summary == "2 of 5 tests passed; f(1) returned 1, expected 2"


def test_a_value_of_the_wrong_type_is_named(check, job_of):
    one = [TestSpec("one", args=(1,), kwargs={"k": "a"}, expected=2)]
    verdict = check(job_of("def f(n, k): return 2.0", tests=one))
    assert verdict.status is Status.FAIL
    assert verdict.tests[0].message == "f(1, k='a') returned 2.0 (float), expected 2 (int)"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(x)\n    return x", "SyntaxError: expected ':' (line 1)"),
        ("x = 1\nreturn x", "SyntaxError: 'return' outside function (line 2)"),
        ("def f(x):\n  return 1\n return 2", "IndentationError"),
        ("x = 1\x00", "null byte"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("I would sort the list.", "SyntaxError"),
    ],
)
def test_compile_error(check, job_of, source, says):
    verdict = check(job_of(source))
    assert verdict.status is Status.COMPILE_ERROR
    assert statuses(verdict) == [Status.COMPILE_ERROR] * 3
    assert verdict.reward == 0.0
    assert says in verdict.message
    assert says in verdict.summary


def test_runtime_error_in_a_test(check):
    tests = [TestSpec("0", args=(0,), expected=0), TestSpec("2", args=(2,), expected=5)]
    verdict = check(Job(source="def f(n):\n    return 10 // n", entry="f", tests=tests))
    assert statuses(verdict) == [Status.RUNTIME_ERROR, Status.PASS]
    assert verdict.status is Status.RUNTIME_ERROR
    message = verdict.tests[0].message
    assert message.startswith("f(0) raised ZeroDivisionError: integer division or modulo by zero")
    assert message.endswith("(line 2)")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1 / 0", "ZeroDivisionError: division by zero (line 1)"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (line 2)"),
        ("def g(x): return x\ndef h(x): return x", "no 'f'; it defines g, h"),
        ("x = 1", "no 'f'; it defines no function at all"),
        ("f = 3", "'f' is not a function"),
        ("", "no 'f'"),
        ("import rlkit", "ModuleNotFoundError"),
    ],
)
def test_runtime_error_while_loading(check, job_of, source, says):
    verdict = check(job_of(source))
    assert verdict.status is Status.RUNTIME_ERROR
    assert statuses(verdict) == [Status.RUNTIME_ERROR] * 3
    assert verdict.reward == 0.0
    assert says in verdict.summary


def test_what_an_exception_says_is_shown_on_one_harmless_line(check, job_of):
    verdict = check(job_of("def f(x): raise ValueError('a\\nb \\x1b[2J \\ud800 é')"))
    message = verdict.tests[0].message
    assert message == "f([3, 1, 2]) raised ValueError: a\\nb \\x1b[2J \\ud800 é (line 1)"
    assert message.encode()


def test_timeout_keeps_what_was_answered_before(check):
    source = "import time\ndef f(n):\n    if n: time.sleep(60)\n    return n"
    tests = [TestSpec(str(n), args=(n,), expected=n) for n in (0, 1, 2)]
    verdict = check(Job(source=source, entry="f", tests=tests, limits=SHORT))
    assert verdict.status is Status.TIMEOUT
    assert statuses(verdict) == [Status.PASS, Status.TIMEOUT, Status.NO_RESULT]
    assert verdict.reward == pytest.approx(1 / 3)
    assert verdict.summary == "1 of 3 tests passed; stopped after 0.5 s"
    assert verdict.tests[2].message == "not reached: stopped after 0.5 s"
    assert 0.5 <= verdict.wall_s < 10.0
    assert verdict.signal == signal.SIGKILL


def test_cpu_limit(check, job_of):
    verdict = check(job_of("while True: pass"))
    assert verdict.status is Status.CPU_LIMIT
    assert verdict.reward == 0.0
    assert 0.5 <= verdict.cpu_s <= 2.5
    assert "1 s of processor time" in verdict.message


@pytest.mark.parametrize(
    "source",
    [
        "x = bytearray(8 * 10**9)\ndef f(x): return sorted(x)",
        "a = []\nwhile True: a.append(bytearray(1 << 24))",
        "x = 'a' * (1 << 40)",
        "def f(x): return [0] * (1 << 30)",
    ],
)
def test_memory_limit(check, job_of, source):
    verdict = check(job_of(source))
    assert verdict.status is Status.MEMORY_LIMIT
    assert verdict.reward == 0.0
    assert "MemoryError" in verdict.summary


@pytest.mark.parametrize(
    "source",
    [
        'while True: print("x" * 4096)',
        'import sys\nwhile True: sys.stderr.write("x" * 4096)',
        'import sys\nwhile 1: sys.stdout.write("y" * 65536)',
    ],
)
def test_output_limit(check, job_of, source):
    verdict = check(job_of(source))
    assert verdict.status is Status.OUTPUT_LIMIT
    assert verdict.reward == 0.0
    assert verdict.truncated
    assert len(verdict.stdout) + len(verdict.stderr) == 64 * 1024


def test_output_limit_does_not_depend_on_when_it_was_noticed(check, job_of):
    # All answers are right and in before the last of the output leaves the program.
    verdict = check(job_of("def f(x):\n    print('x' * 30_000)\n    return sorted(x)"))
    assert verdict.status is Status.OUTPUT_LIMIT
    assert statuses(verdict) == [Status.OUTPUT_LIMIT] * 3
    assert verdict.reward == 0.0


def test_output_below_the_limit_is_kept_for_showing(check, job_of):
    source = "import sys\ndef f(x):\n    print('hi √2')\n    print('ho', file=sys.stderr)\n"
    verdict = check(job_of(source + "    return sorted(x)"))
    assert verdict.status is Status.PASS
    assert verdict.stdout == "hi √2\n" * 3
    assert verdict.stderr == "ho\n" * 3
    assert not verdict.truncated


def test_returning_too_much_is_a_limit_too(check, job_of):
    verdict = check(job_of("def f(x): return '%' * 900_000"))  # three bytes each on the way
    assert verdict.status is Status.OUTPUT_LIMIT
    assert verdict.summary == "0 of 3 tests passed; returned more than 1024 KiB"
    verdict = check(job_of("def f(x): return 'x' * 2_000_000"))
    assert verdict.status is Status.BAD_VALUE
    assert "too large" in verdict.summary


def test_storing_too_much_is_a_limit_too(check, job_of):
    source = """
import time
for n in range(100):
    with open(f"file{n}", "wb") as file:
        file.write(b"x" * (1 << 20))
time.sleep(60)
"""
    limits = Limits(wall_s=20.0, scratch_mb=8)
    verdict = check(job_of(source, limits=limits))
    assert verdict.status is Status.OUTPUT_LIMIT
    assert verdict.message == "stored more than 8 MiB in files"


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("import os\nos.kill(os.getpid(), 9)", signal.SIGKILL),
        ("import os\nos.abort()", signal.SIGABRT),
        ("import ctypes\nctypes.string_at(0)", signal.SIGSEGV),
        ("def f(x):\n    import os\n    os.kill(os.getpid(), 15)", signal.SIGTERM),
    ],
)
def test_crash(check, job_of, source, number):
    verdict = check(job_of(source))
    assert verdict.status is Status.CRASH
    assert verdict.signal == number
    assert verdict.exit_code is None
    assert verdict.reward == 0.0
    assert verdict.message == f"the program was killed by {number.name}"


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos._exit(0)",
        "import os\ndef f(x): os._exit(0)",
        "quit = __import__('os')._exit\nquit(7)",
    ],
)
def test_no_result(check, job_of, source):
    verdict = check(job_of(source))
    assert verdict.status is Status.NO_RESULT
    assert verdict.reward == 0.0
    assert "ended itself (exit code" in verdict.summary


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("(i for i in x)", "type 'generator' is not plain data"),
        ("object()", "type 'object' is not plain data"),
        ("range(3)", "type 'range' is not plain data"),
        ("[[[lambda: 1]]]", "type 'function' is not plain data"),
        ("(lambda l: l.append(l) or l)([])", "nested deeper"),
    ],
)
def test_bad_value(check, job_of, value, says):
    verdict = check(job_of(f"def f(x): return {value}"))
    assert verdict.status is Status.BAD_VALUE
    assert verdict.reward == 0.0
    assert says in verdict.summary


def test_tampered(check, job_of):
    source = """
import os
for fd in range(3, 64):
    try: os.write(fd, b"\\nforged\\n")
    except OSError: pass
def f(x): return None
"""
    verdict = check(job_of(source))
    assert verdict.status is Status.TAMPERED
    assert statuses(verdict) == [Status.FAIL] * 3
    assert verdict.reward == 0.0


def test_rejected(check, job_of):
    verdict = check(job_of("#" * 16_000_001))
    assert verdict.status is Status.REJECTED
    assert statuses(verdict) == [Status.REJECTED] * 3
    assert verdict.reward == 0.0
    assert "longer than 16,000,000 characters" in verdict.summary


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/true", "/bin/cat"])
def test_sandbox_error_is_nobodys_zero(honest, nothing_left, python):
    with Sandbox(python=python, workers=1) as broken:
        verdict = broken.run(honest)
        nothing_left(broken)
    assert verdict.status is Status.SANDBOX_ERROR
    assert statuses(verdict) == [Status.SANDBOX_ERROR] * 3
    assert verdict.reward is None
    assert verdict.summary.startswith("no verdict, the sandbox failed: ")


def test_a_fault_of_ours_is_tried_again_once(honest, tmp_path, assert_soon):
    flag, runs = tmp_path / "flag", tmp_path / "runs"
    wrapper = tmp_path / "python"
    wrapper.write_text(
        f"#!/bin/sh\necho run >> {runs}\n"
        f"if [ -e {flag} ]; then rm {flag}; exit 3; fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    with Sandbox(python=str(wrapper), workers=1) as sandbox:
        assert sandbox.run(honest).status is Status.PASS
        before = len(runs.read_text().split())
        flag.touch()
        zygotes = list(sandbox._state.backend._links)
        for zygote in zygotes:  # the next one does not come up at first
            os.kill(zygote.pid, 9)
        assert_soon(lambda: not any(zygote.alive() for zygote in zygotes))
        verdict = sandbox.run(honest)
    assert verdict.status is Status.PASS
    assert verdict.reward == 1.0
    assert len(runs.read_text().split()) - before == 2
