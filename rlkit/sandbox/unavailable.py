"""Refusing to run: what to say when a machine cannot keep a program apart well enough.

A sandbox that silently falls back to less is worse than none, so below the level that was
asked for nothing runs, and one message says what is missing here and what can be done.

Left out on purpose: doing any of it. Settings of a machine belong to its owner.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

from rlkit.errors import UserError
from rlkit.sandbox.verdict import IsolationReport, Level

WINDOWS = (
    "no program can be kept apart on Windows by rlkit itself; run rlkit in WSL 2, in a container "
    "or on a Linux machine, or let such a machine do it: `rlkit sandbox serve` there, and "
    "Sandbox(backend=...) with its address here"
)


class SandboxUnavailable(UserError):
    """The machine cannot keep programs apart as strongly as was asked for.

    Attributes:
        report: what was seen to hold; None where nothing could be tried.
    """

    def __init__(self, message: str, report: IsolationReport | None = None) -> None:
        super().__init__(message)
        self.report = report

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.report)


def refusal(
    report: IsolationReport,
    wanted: Level,
    backend: str,
    left_out: Collection[str] = (),
    platform: str = sys.platform,
) -> SandboxUnavailable:
    """The error that names what is missing and the ways out.

    Args:
        report: what the probes saw.
        wanted: the level below which nothing is to run.
        backend: the name of what would run it.
        left_out: fences that the user chose not to use.
        platform: as in `sys.platform`.

    >>> weak = IsolationReport(Level.LIMITS, "limits only")
    >>> "allow_unsafe=True" in str(refusal(weak, Level.CONFINED, "local", (), "darwin"))
    True
    """
    missing = [p for p in report.properties if p.state != "enforced"]
    # The user's own id and names are never fully hidden below a container; they decide nothing.
    deciding = [p for p in missing if p.name not in ("same_uid", "names", "disk")] or missing
    named = "; ".join(f"{p.name}: {p.mechanism}" for p in deciding[:3])
    reason = f" ({named})" if named else ""
    ways = _remedies(backend, left_out, platform)
    return SandboxUnavailable(
        f"the {backend} backend reaches only level {report.level.name} here, and "
        f"{wanted.name} is asked for{reason}. What can be done: {ways}; "
        "or type Sandbox(allow_unsafe=True) if you would run these programs without a sandbox",
        report,
    )


def unsafe(report: IsolationReport, needed: Level) -> IsolationReport:
    """The same report, saying that the user typed `allow_unsafe=True`.

    >>> unsafe(IsolationReport(Level.LIMITS, "limits only"), Level.CONFINED).sentence
    'UNSAFE, allowed by allow_unsafe=True: limits only'
    """
    if report.level < needed:
        sentence = f"UNSAFE, allowed by allow_unsafe=True: {report.sentence}"
    else:
        sentence = f"{report.sentence} (allow_unsafe=True was given and was not needed)"
    return IsolationReport(report.level, sentence, report.properties)


def _remedies(backend: str, left_out: Collection[str], platform: str) -> str:
    elsewhere = (
        "let a Linux machine run them (`rlkit sandbox serve` there, and Sandbox(backend=...) "
        "with its address here)"
    )
    if left_out:
        return f"use the layers that were left out ({', '.join(sorted(left_out))})"
    if backend != "local":
        return f"choose another backend, or {elsewhere}"
    if platform.startswith("linux"):
        return (
            "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, and "
            "kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), use a kernel with "
            "Landlock (5.13 or later), choose Sandbox(backend='docker') where a daemon runs, or "
            f"{elsewhere}"
        )
    system = "macOS" if platform == "darwin" else "this system"
    return (
        f"{system} has limits on time, memory and files, but nothing that keeps a program away "
        f"from your files and the network; choose Sandbox(backend='docker'), or {elsewhere}"
    )
