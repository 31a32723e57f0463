from __future__ import annotations

import signal

import pytest

from rlkit.sandbox import IsolationReport, Level, Limits, Status, TestResult, TestSpec, languages
from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.io_judge import judge_test, last_words, verdict_of

LIMITS = Limits(wall_s=2.0, cpu_s=1.0, memory_mb=100, output_kb=8)
SEVEN = TestSpec("sum", stdin="3 4", expected="7\n")
REPORT = IsolationReport(Level.NAMESPACED, "a sentence")


def outcome(**facts) -> Outcome:
    return Outcome(**{"exit_code": 0, "stdout": b"7\n", "wall_s": 0.1, **facts})


def judged(test: TestSpec = SEVEN, language: str = "python", **facts) -> TestResult:
    return judge_test(languages.get(language), test, LIMITS, outcome(**facts))


def test_right_output_and_a_good_end_pass():
    result = judged()
    assert result == TestResult("sum", Status.PASS, 0.1, r"'7\n'", r"'7\n'", "", False)


@pytest.mark.parametrize(
    ("facts", "status", "says"),
    [
        # An exit code of 0 proves nothing,
        ({"stdout": b""}, Status.FAIL, "ends after 0 lines, expected '7' next"),
        ({"stdout": b"8\n"}, Status.FAIL, "line 1 is '8', expected '7'"),
        # and right output before a bad end is no pass.
        ({"exit_code": 1}, Status.RUNTIME_ERROR, "ended with exit code 1"),
        ({"exit_code": None, "signal": signal.SIGSEGV}, Status.CRASH, "killed by SIGSEGV"),
        ({"exit_code": None, "ended": "wall"}, Status.TIMEOUT, "stopped after 2 s"),
        ({"ended": "output", "truncated": True}, Status.OUTPUT_LIMIT, "more than 8 KiB"),
        ({"ended": "disk"}, Status.OUTPUT_LIMIT, "MiB in files"),
        ({"ended": "memory"}, Status.MEMORY_LIMIT, "its 100 MiB of memory"),
        ({"ended": "closed"}, Status.NO_RESULT, "closed its output and went on"),
        ({"signal": signal.SIGXCPU, "cpu_s": 1.0}, Status.CPU_LIMIT, "its 1 s of processor"),
        ({"signal": signal.SIGXFSZ}, Status.OUTPUT_LIMIT, "a file of more than 16 MiB"),
        ({"signal": signal.SIGKILL, "cpu_s": 0.1}, Status.CRASH, "killed by SIGKILL"),
        ({"signal": signal.SIGKILL, "peak_rss_mb": 95.0}, Status.MEMORY_LIMIT, "its 100 MiB"),
        ({"peak_rss_mb": 101.0}, Status.MEMORY_LIMIT, "held more than its 100 MiB"),
        ({"exit_code": None}, Status.RUNTIME_ERROR, "an unknown exit code"),
        (
            {"exit_code": 1, "stderr": b"Traceback\nValueError: \x1b[31mno\n"},
            Status.RUNTIME_ERROR,
            r"ended with exit code 1: ValueError: \x1b[31mno",
        ),
        (
            {"exit_code": 1, "stdout": b"", "stderr": b"...\nMemoryError\n"},
            Status.MEMORY_LIMIT,
            "ran out of its 100 MiB",
        ),
        (
            {
                "exit_code": 1,
                "stdout": b"",
                "stderr": b'  File "/scratch/main.py", line 1\n    x =\n       ^\n'
                b"SyntaxError: invalid syntax\n",
            },
            Status.COMPILE_ERROR,
            "is not a Python program: SyntaxError: invalid syntax",
        ),
        # The same words from a program that has run already are its own.
        (
            {"exit_code": 1, "stderr": b"SyntaxError: invalid syntax\n"},
            Status.RUNTIME_ERROR,
            "SyntaxError",
        ),
    ],
)
def test_nothing_else_passes(facts, status, says):
    result = judged(**facts)
    assert result.status is status
    assert says in result.message


def test_what_it_says_on_stderr_is_never_held_against_right_output():
    assert judged(stderr=b"MemoryError\nSyntaxError: x\nwarning").status is Status.PASS


def test_an_abort_for_want_of_memory_is_told_from_others():
    def aborted(words: bytes) -> Status:
        facts = {"signal": signal.SIGABRT, "exit_code": None, "stderr": words}
        return judged(language="javascript", **facts).status

    assert aborted(b"FATAL ERROR: JavaScript heap out of memory") is Status.MEMORY_LIMIT
    assert aborted(b"FATAL ERROR: something") is Status.CRASH


def test_files_are_compared_and_must_be_there():
    test = TestSpec("f", expected_files={"out/a.txt": "1\n", "b.bin": b"\0"})
    right = {"out/a.txt": b"1", "b.bin": b"\0"}
    assert judged(test, files=right, stdout=b"chatter").status is Status.PASS  # stdout is free
    result = judged(test, files={"b.bin": b"\0"})
    assert (result.status, result.message) == (Status.FAIL, "the file out/a.txt was not written")
    result = judged(test, files={**right, "b.bin": b"\0\n"})
    assert result.message == r"in the file b.bin, wrote b'\x00\n', expected b'\x00'"
    assert result.expected_repr == "files b.bin, out/a.txt"
    both = TestSpec("f", expected="7", expected_files={"b.bin": b"\0"})
    assert judged(both, files=right).status is Status.PASS
    assert judged(both, files=right, stdout=b"8").status is Status.FAIL
    assert judged(both, files={}).status is Status.FAIL


def test_the_checker_and_its_tolerance_are_the_tests():
    near = TestSpec("t", expected="0.5 yes", checker="floats", tolerance=0.01)
    assert judged(near, stdout=b"0.501   yes").status is Status.PASS
    assert judged(near, stdout=b"0.52 yes").status is Status.FAIL


def test_a_verdict_adds_up_and_shows_the_first_visible_failure():
    tests = [TestSpec("h", expected="1", hidden=True), SEVEN, SEVEN, SEVEN]
    facts = [
        {"stdout": b"secret", "cpu_s": 0.5, "orphans": 2, "stopped_by": "seccomp"},
        {"cpu_s": 0.25, "wall_s": 0.4, "peak_rss_mb": 10.0},
        {"stdout": b"8", "stderr": b"words", "exit_code": 3, "peak_rss_mb": 30.0},
        {"cpu_s": None},
    ]
    outcomes = [outcome(**each) for each in facts]
    row = languages.get("python")
    results = [judge_test(row, t, LIMITS, o) for t, o in zip(tests, outcomes, strict=True)]
    verdict = verdict_of(results, outcomes, REPORT, None)
    assert verdict.status is Status.FAIL  # of the first that did not pass, the hidden one
    assert (verdict.passed, verdict.total, verdict.reward) == (2, 4, 0.5)
    assert (verdict.stdout, verdict.stderr, verdict.exit_code) == ("8", "words", 3)
    assert verdict.cpu_s == 0.75  # 0.5 + 0.25; two are unknown
    assert verdict.wall_s == pytest.approx(0.7)  # 0.1 + 0.4 + 0.1 + 0.1
    assert (verdict.peak_rss_mb, verdict.orphans_killed) == (30.0, 2)
    assert verdict.stopped_by == "seccomp"
    first = verdict.tests[0]
    assert (first.got_repr, first.expected_repr) == (None, None)
    assert first.message == "a hidden test ended in FAIL"
    assert verdict.summary == "2 of 4 tests passed; a hidden test ended in FAIL"


def test_output_is_decoded_whatever_it_is():
    verdict = verdict_of([judged(stdout=b"\xff\xfe")], [outcome(stdout=b"\xff\xfe")], REPORT, None)
    assert verdict.stdout == "\ufffd\ufffd"
    assert verdict.tests[0].status is Status.FAIL


def test_last_words():
    assert last_words("") == ""
    assert last_words("a\n  b \n \n") == "b"
    assert last_words("x" * 500, width=10) == "x" * 10
    assert last_words("a\x07b") == r"a\x07b"
