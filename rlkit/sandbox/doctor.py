"""`rlkit sandbox doctor`: what holds here, what does not, and what would help.

The table is the isolation report, which is made of live probes. Beside it stand the languages
that were found, and in plain sentences what is not stopped at this level: a learner should
know that before letting a model's programs run.

Left out on purpose: changing anything. Settings of a machine belong to its owner.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from rlkit.sandbox.types import IsolationReport, Level

#: What a program can do where a property does not hold.
OPEN = {
    "time": "A program can use more processor time than it was given.",
    "output": "A program can flood this process with output.",
    "memory": "A program can take more memory than it was given.",
    "memory_total": (
        "All memory of a job together is not limited, only that of each process and file; a "
        "job can take several times its share."
    ),
    "disk": "A program can fill the disk for a moment, until the next look at its folder.",
    "files_read": "A program can read your files, keys and tokens among them.",
    "files_write": "A program can change or delete your files.",
    "metadata": "A program can change who may read your files, and when they were changed.",
    "names": (
        "A program can find out whether a file of a given name exists, but not what is in it."
    ),
    "network": "A program can reach the network, and services on this machine.",
    "other_processes": "A program can look into your other programs, or change their limits.",
    "signals": "A program can stop or kill your other programs.",
    "teardown": "A program can leave processes running after its job is over.",
    "same_uid": (
        "Jobs run under your user id, so that a hole in the other fences leads to all that is "
        "yours."
    ),
}

#: Never stopped by what runs on the same kernel, or by any sandbox at all.
ALWAYS = (
    "A bug in the kernel: every level below SEPARATE_KERNEL shares it with you.",
    "What can be measured: how busy the processor and its caches are tells a job about others.",
    "A program that knows the tests: visible tests can be learned by heart; hide some.",
    "A test that is wrong, or that a wrong program passes.",
)


@dataclass(frozen=True)
class Examination:
    """The doctor's findings about one backend; `str()` gives the page.

    Attributes:
        backend: its name.
        report: what the probes saw.
        weakened: what is hidden on purpose; empty when nothing is.
        languages: one dict a language, see `languages.table()`.
    """

    backend: str
    report: IsolationReport
    weakened: str = ""
    languages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def not_stopped(self) -> list[str]:
        """What is truthfully not stopped here, most harmful first."""
        partly = [
            f"{OPEN[p.name]} (only partly held back: {p.mechanism})"
            if p.state == "partial"
            else OPEN[p.name]
            for p in self.report.properties
            if p.state != "enforced" and p.name in OPEN
        ]
        always = ALWAYS if self.report.level < Level.SEPARATE_KERNEL else ALWAYS[2:]
        return [*partly, *always]

    @property
    def remedies(self) -> list[str]:
        """What would bring a stronger level."""
        return remedies(self.report, self.backend, bool(self.weakened))

    def to_json(self) -> dict[str, Any]:
        """Plain data, as `rlkit sandbox doctor --json` prints it."""
        return {
            "backend": self.backend,
            **self.report.to_json(),
            "weakened": self.weakened,
            "not_stopped": self.not_stopped,
            "remedies": self.remedies,
            "languages": self.languages,
        }

    def __str__(self) -> str:
        report = self.report
        width = max((len(p.name) for p in report.properties), default=0)
        lines = [f"{self.backend}: level {int(report.level)}, {report.level.name}"]
        lines += [f"{_sentence(report.sentence)}", ""]
        if self.weakened:
            lines += [f"{_sentence(self.weakened)}", ""]
        lines += [f"  {p.name:<{width}}  {p.state:<8}  {p.mechanism}" for p in report.properties]
        lines += ["", "Not stopped here:"]
        lines += [f"  - {one}" for one in self.not_stopped]
        if self.remedies:
            lines += ["", "What would help:", *(f"  - {one}" for one in self.remedies)]
        if self.languages:
            lines += ["", "Languages:"]
            lines += [
                f"  {row['title']:<12} {'' if row['available'] else 'missing: '}{row['toolchain']}"
                for row in self.languages
            ]
        return "\n".join(lines)


def examine(backend: Any = "local", with_languages: bool = True) -> Examination:
    """Open a sandbox, let it run the probes, and say what was found.

    Args:
        backend: a name, or a `Backend`.
        with_languages: whether to look for the languages' toolchains as well.

    Raises:
        UserError: nothing can be started here.

    >>> examine(with_languages=False).report["time"].state
    'enforced'
    """
    from rlkit.sandbox import levels
    from rlkit.sandbox.sandbox import Sandbox

    with Sandbox(workers=1, backend=backend) as sandbox:
        report = sandbox.report()
    found = []
    if with_languages:
        from rlkit.sandbox.languages import table

        found = table()
    name = backend if isinstance(backend, str) else backend.name
    return Examination(name, report, levels.hidden().says, found)


def remedies(report: IsolationReport, backend: str = "local", weakened: bool = False) -> list[str]:
    """What would bring a stronger level than this; empty where there is nothing to gain.

    >>> remedies(IsolationReport(Level.SEPARATE_KERNEL, ""))
    []
    """
    if weakened:
        return ["start it without what hides parts of the kernel on purpose"]
    if report.level >= Level.CONTAINER:
        return []
    found = []
    if backend == "local" and sys.platform.startswith("linux"):
        state = {p.name: p.state for p in report.properties}
        if report.level < Level.NAMESPACED:
            found.append(
                "allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, on "
                "Ubuntu kernel.apparmor_restrict_unprivileged_userns=0, in Docker a seccomp "
                "profile that allows unshare"
            )
        if state.get("files_read") != "enforced":
            found.append("use a kernel with Landlock (Linux 5.13 or later, in the list lsm=)")
        if state.get("network") != "enforced":
            found.append("use a kernel with seccomp filters")
        if state.get("same_uid") != "enforced":
            found.append("run it as root, which gives each worker a user id of its own")
    elif backend == "local":
        found.append("run it on Linux, or in WSL 2 or a container")
    found.append(
        "for programs of people who mean harm: a container with gVisor, or a machine of its own "
        "(Sandbox(backend='docker'), or `rlkit sandbox serve` there)"
    )
    return found


def doctor_command(backend: str = "local", level: str = "full", as_json: bool = False) -> int:
    """What `rlkit sandbox doctor` does; returns the exit code, 1 below `CONFINED`.

    Raises:
        UserError: an unknown level or backend.
    """
    import json

    from rlkit.sandbox import levels

    if levels.needs_a_process(level):
        command = [sys.executable, "-m", "rlkit.cli", "sandbox", "doctor", "--backend", backend]
        return levels.run_at(level, [*command, *(["--json"] if as_json else [])])
    with levels.forced(level):
        found = examine(backend)
    print(json.dumps(found.to_json()) if as_json else found)
    return 0 if found.report.level >= Level.CONFINED else 1


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
