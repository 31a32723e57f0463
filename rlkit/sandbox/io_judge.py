"""From what a program printed to a verdict: the judge of io mode, pure functions.

As judges of programming contests have it:

* a test passes when the program ended by itself with exit code 0, within its limits, and what
  it printed and wrote is what was expected, as the host itself finds;
* an exit code of 0 alone proves nothing, and right output before a crash, an error or a limit
  is not a pass: a program that does not come to its end is not right;
* stderr is never looked at for a pass. For a program that failed it gives the message, and may
  turn `RUNTIME_ERROR` into `COMPILE_ERROR` or `MEMORY_LIMIT`, which pay the same: nothing.

Left out on purpose: credit for partly right output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.checkers import Agreement, agree
from rlkit.sandbox.compare import short_repr
from rlkit.sandbox.endings import what_ended_it
from rlkit.sandbox.job import Job
from rlkit.sandbox.languages.row import Language
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import CompileReport, IsolationReport, Status, TestResult, Verdict

#: So many tests in a row may run into the wall clock; the others are not tried.
TIMEOUTS_IN_A_ROW = 3

_SIGTRAP, _SIGABRT = 5, 6  # by number: the program may have run on another system than this one


def judge_test(row: Language, test: TestSpec, limits: Limits, outcome: Outcome) -> TestResult:
    """What one run of a program is worth.

    Args:
        row: its language.
        test: what was expected.
        limits: what it was allowed.
        outcome: what it did.

    Raises:
        CheckerFault: the test's own checker failed.
    """
    status, message = _how_it_ended(row, limits, outcome)
    got = None
    if status is None:
        agreement = _compare(test, outcome)
        status = Status.PASS if agreement else Status.FAIL
        message = agreement.reason
    if outcome.stdout or status in (Status.PASS, Status.FAIL):
        got = short_repr(outcome.stdout.decode("utf-8", "replace"))
    return TestResult(
        test.name,
        status,
        seconds=outcome.wall_s,
        got_repr=got,
        expected_repr=expected_repr(test),
        message=message,
        hidden=test.hidden,
    )


def judge_tests(
    job: Job, row: Language, limits: Limits, run_one: Callable[[TestSpec], Outcome]
) -> tuple[list[TestResult], list[Outcome]]:
    """A result for each test, in order, and the outcomes of those that were run.

    Args:
        job: its tests are run one after the other, until it says to stop or a program has
            shown often enough that it never ends.
        row: the language of the program.
        limits: of one run.
        run_one: runs the program for one test.

    Raises:
        CheckerFault: a checker of the user's own failed; and what `run_one` raises.
    """
    results: list[TestResult] = []
    outcomes: list[Outcome] = []
    timeouts, reached = 0, ""
    for test in job.tests:
        if reached:
            results.append(not_run(test, Status.NO_RESULT, f"not reached: {reached}"))
            continue
        outcome = run_one(test)
        result = judge_test(row, test, limits, outcome)
        results.append(result)
        outcomes.append(outcome)
        timeouts = timeouts + 1 if result.status is Status.TIMEOUT else 0
        if job.stop_on_first and result.status is not Status.PASS:
            reached = "an earlier test did not pass"
        elif timeouts == TIMEOUTS_IN_A_ROW:
            reached = f"{timeouts} tests in a row ran into the wall clock"
    return results, outcomes


def not_run(test: TestSpec, status: Status, message: str) -> TestResult:
    """The result of a test that was never started."""
    return TestResult(
        test.name, status, expected_repr=expected_repr(test), message=message, hidden=test.hidden
    )


def expected_repr(test: TestSpec) -> str:
    """What a test expects, shortened: its text, or the names of its files."""
    if test.expected is None and test.expected_files:
        return f"files {', '.join(sorted(test.expected_files))}"
    return short_repr(test.expected)


def verdict_of(
    results: Sequence[TestResult],
    outcomes: Sequence[Outcome],
    isolation: IsolationReport,
    compiled: CompileReport | None,
    message: str = "",
) -> Verdict:
    """The verdict on a program whose tests were run, in order, as far as they were.

    What is shown of its output is that of the first visible test that did not pass, or else
    of the last visible one.
    """
    passed = sum(result.status is Status.PASS for result in results)
    status = next((r.status for r in results if r.status is not Status.PASS), Status.PASS)
    shown = _shown(results, outcomes)
    return Verdict(
        status=status,
        tests=tuple(r.veiled() if r.hidden else r for r in results),
        passed=passed,
        total=len(results),
        reward=passed / len(results),
        stdout=shown.stdout.decode("utf-8", "replace"),
        stderr=shown.stderr.decode("utf-8", "replace"),
        truncated=shown.truncated,
        exit_code=shown.exit_code,
        signal=shown.signal,
        cpu_s=_sum(o.cpu_s for o in outcomes),
        wall_s=_sum(o.wall_s for o in outcomes),
        peak_rss_mb=max(
            (o.peak_rss_mb for o in outcomes if o.peak_rss_mb is not None), default=None
        ),
        isolation=isolation,
        message=message,
        compile=compiled,
        orphans_killed=sum(o.orphans for o in outcomes),
        stopped_by=next((o.stopped_by for o in outcomes if o.stopped_by), ""),
    )


def _how_it_ended(row: Language, limits: Limits, outcome: Outcome) -> tuple[Status | None, str]:
    """The limit, crash or error it ended with; None when it ended well."""
    status, message = what_ended_it(limits, outcome)
    if status is Status.TAMPERED:
        # There is no channel in io mode to tamper with: it closed its output and went on.
        return Status.NO_RESULT, "closed its output and went on running"
    stderr = outcome.stderr.decode("utf-8", "replace")
    no_memory = row.out_of_memory is not None and row.out_of_memory.search(stderr)
    aborted = outcome.signal in (_SIGABRT, _SIGTRAP)
    if status is Status.CRASH and aborted and no_memory:
        return Status.MEMORY_LIMIT, f"ran out of its {limits.memory_mb} MiB of memory"
    if status is not None:
        return status, message
    if outcome.peak_rss_mb is not None and outcome.peak_rss_mb > limits.memory_mb:
        # Where the kernel's limit had to leave room for what a runtime only reserves.
        return Status.MEMORY_LIMIT, f"held more than its {limits.memory_mb} MiB of memory"
    if outcome.exit_code == 0:
        return None, ""
    if no_memory:
        return Status.MEMORY_LIMIT, f"ran out of its {limits.memory_mb} MiB of memory"
    said = last_words(stderr)
    if row.syntax_error is not None and not outcome.stdout and row.syntax_error.search(stderr):
        return Status.COMPILE_ERROR, f"is not a {row.title} program: {said}"
    code = "an unknown exit code" if outcome.exit_code is None else f"exit code {outcome.exit_code}"
    return Status.RUNTIME_ERROR, f"ended with {code}" + (f": {said}" if said else "")


def _compare(test: TestSpec, outcome: Outcome) -> Agreement:
    for name, expected in test.expected_files.items():
        got = outcome.files.get(name)
        if got is None:
            return Agreement(False, f"the file {name} was not written")
        agreement = agree(test.checker, expected, got, test.tolerance)
        if not agreement:
            return Agreement(False, f"in the file {name}, {agreement.reason}")
    if test.expected is None and test.expected_files:
        return Agreement(True)
    return agree(test.checker, test.expected, outcome.stdout, test.tolerance)


def last_words(text: str, width: int = 200) -> str:
    """The last line of a text that says something, plain, at most `width` characters.

    >>> last_words("Traceback\\n  File\\nValueError: no \\x1b[31m\\n\\n")
    'ValueError: no \\\\x1b[31m'
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return plain(lines[-1][:width]) if lines else ""


def plain(text: str) -> str:
    """One line without control characters or half characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _shown(results: Sequence[TestResult], outcomes: Sequence[Outcome]) -> Outcome:
    seen = [
        (result, outcome)
        for result, outcome in zip(results, outcomes, strict=False)
        if not result.hidden
    ]
    for result, outcome in seen:
        if result.status is not Status.PASS:
            return outcome
    return seen[-1][1] if seen else Outcome()


def _sum(numbers: object) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
