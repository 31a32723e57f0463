"""A verdict in words: what happened, and which layer of the sandbox stopped what.

Everything that a program printed or returned is escaped before it is shown: its HTML for the
page, and its control characters (colours and cursor moves of a terminal, marks that turn text
around) by their names.

Left out on purpose: certainty about fences. The kernel answers a program with one error,
whichever of several fences said no; so the layers that hold a property are named as the probes
of this machine found them.
"""

from __future__ import annotations

from rlkit.lab.sandboxbench.marks import MARKS
from rlkit.lab.sandboxbench.timeline import milliseconds
from rlkit.lab.theme import Table, escape, number, table_html, visible
from rlkit.sandbox.badges import Badge
from rlkit.sandbox.types import Status, Verdict

#: Which property of the isolation report is behind a status.
_PROPERTY = {
    Status.TIMEOUT: "time",
    Status.CPU_LIMIT: "time",
    Status.MEMORY_LIMIT: "memory",
    Status.OUTPUT_LIMIT: "output",
}
#: What the judge says no to, whatever the fences.
_JUDGE = {
    Status.BAD_VALUE: "only plain data leaves the sandbox, so nothing of the program's takes part "
    "in the comparison",
    Status.NO_RESULT: "a program that ends without an answer has passed no test; an exit code is "
    "no evidence",
    Status.TAMPERED: "what was written into the channel of the answers is no message of the "
    "harness",
    Status.FAIL: "the value was compared outside the sandbox, where the right one is kept",
    Status.REJECTED: "it was refused before it started",
}
#: How the kernel says no to a program, in Python's words.
_REFUSALS = ("PermissionError", "BlockingIOError", "Operation not permitted", "Permission denied")
_UNSEEN = ("FileNotFoundError", "ProcessLookupError", "Network is unreachable")
#: So many characters of what a program printed are shown, on the page and as text.
_SHOWN, _SHOWN_AS_TEXT = 4000, 300


def stopped_what(verdict: Verdict) -> list[str]:
    """Which layer stopped what, a sentence each; empty where nothing had to be stopped.

    >>> from rlkit.sandbox.types import TestResult
    >>> tests = (TestResult("t", Status.BAD_VALUE),)
    >>> stopped_what(Verdict(Status.BAD_VALUE, tests, 0, 1, 0.0))[0].partition(":")[0]
    'The judge'
    """
    found = []
    report = verdict.isolation
    if verdict.stopped_by:
        found.append(f"The supervisor ended it: {verdict.stopped_by}.")
    for status in dict.fromkeys((verdict.status, *(t.status for t in verdict.tests))):
        name = _PROPERTY.get(status)
        if name and report is not None and not verdict.stopped_by:
            known = {p.name: p for p in report.properties}
            if name in known:
                found.append(f"A limit, {name}: {known[name].mechanism}.")
        if status in _JUDGE and not (status is Status.NO_RESULT and verdict.stopped_by):
            found.append(f"The judge: {_JUDGE[status]}.")
    said = " ".join((verdict.message, *(t.message for t in verdict.tests), verdict.stderr))
    if any(word in said for word in _REFUSALS):
        found.append("A fence: the kernel refused the program something (see what holds, below).")
    if any(word in said for word in _UNSEEN):
        found.append("A fence, or nothing at all: what the program looked for is not in its world.")
    if verdict.orphans_killed:
        found.append(f"Clearing away: {verdict.orphans_killed} processes it left were ended.")
    return found


def verdict_text(verdict: Verdict) -> str:
    """The verdict as plain text."""
    lines = [f"{verdict.status}: {visible(verdict.summary)}", _facts(verdict)]
    lines += [f"  {line}" for line in stopped_what(verdict)]
    for test in verdict.tests:
        message = f": {visible(test.message)}" if test.message else ""
        lines.append(f"  {MARKS[test.status].letter} {visible(test.name)}{message}")
    lines += [f"  looks like cheating: {visible(what)}" for what in verdict.suspicion]
    if verdict.compile is not None and verdict.compile.stderr:
        lines.append(f"the compiler: {_head(verdict.compile.stderr)}")
    for name, text in (("printed", verdict.stdout), ("errors", verdict.stderr)):
        if text:
            lines.append(f"{name}: {_head(text)}")
    return "\n".join(lines)


def verdict_html(verdict: Verdict) -> str:
    """The same as HTML, with a table of the tests and what keeps programs apart here."""
    mark = MARKS[verdict.status]
    passed = verdict.status is Status.PASS
    parts = [
        f'<div role="status" aria-live="polite" style="border-left:4px solid {mark.colour};'
        f'padding:4px 8px"><span style="font-size:18px;font-weight:600">{escape(mark.letter)} '
        f"{escape(verdict.status)}</span>&ensp;{escape(verdict.summary)}<br>"
        f"<small>{escape(_facts(verdict))}</small></div>"
    ]
    stopped = stopped_what(verdict)
    if stopped and not passed:
        items = "".join(f"<li>{escape(line)}</li>" for line in stopped)
        parts.append(f"<p style='margin:6px 0 0'>What held:</p><ul style='margin:0'>{items}</ul>")
    parts.append(_tests(verdict))
    if verdict.suspicion:
        items = "".join(f"<li>{escape(line)}</li>" for line in verdict.suspicion)
        parts.append(
            "<details><summary>Looks like cheating (shown, never a reason)</summary>"
            f"<ul>{items}</ul></details>"
        )
    if verdict.compile is not None:
        parts.append(_box("What the compiler said", _compiler(verdict)))
    parts.append(_box("What it printed", verdict.stdout))
    parts.append(_box("What it printed to stderr", verdict.stderr))
    if verdict.isolation is not None:
        parts.append(Badge(verdict.isolation, verdict.backend)._repr_html_())
    return "".join(parts)


def _head(text: str) -> str:
    more = " …" if len(text) > _SHOWN_AS_TEXT else ""
    return f"{visible(text[:_SHOWN_AS_TEXT])}{more}"


def _facts(verdict: Verdict) -> str:
    """Reward, times and memory in one line."""
    facts = [f"reward {number(verdict.reward)}" if verdict.reward is not None else "no reward"]
    if verdict.wall_s is not None:
        facts.append(f"{milliseconds(verdict.wall_s)} by the clock")
    if verdict.cpu_s is not None:
        facts.append(f"{milliseconds(verdict.cpu_s)} of processor time")
    if verdict.peak_rss_mb is not None:
        facts.append(f"{number(round(verdict.peak_rss_mb, 1))} MiB at most")
    facts.append(f"trust {verdict.trust}")
    if verdict.cached:
        facts.append("from the cache")
    return ", ".join(facts)


def _tests(verdict: Verdict) -> str:
    rows = [
        [f"{MARKS[t.status].letter} {t.name}", str(t.status),
         "" if t.seconds is None else milliseconds(t.seconds), t.message]
        for t in verdict.tests
    ]  # fmt: skip
    return table_html(Table(["test", "status", "took", "what happened"], rows), "The tests.")


def _compiler(verdict: Verdict) -> str:
    report = verdict.compile
    took = "" if report.seconds is None else f", {milliseconds(report.seconds)}"
    kept = ", kept from an earlier run" if report.cached else ""
    return "\n".join(filter(None, [f"{report.compiler}{took}{kept}", report.stdout, report.stderr]))


def _box(title: str, text: str) -> str:
    if not text:
        return ""
    more = "" if len(text) <= _SHOWN else "\n… (more was printed)"
    return (
        f"<details open><summary>{escape(title)}</summary><pre tabindex='0' style='max-height:"
        "160px;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere'>"
        f"{escape(text[:_SHOWN])}{more}</pre></details>"
    )
