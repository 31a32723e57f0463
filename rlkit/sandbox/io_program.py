"""A job of io mode, made ready: the files that go in, and the command lines that are run.

Left out on purpose: running anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rlkit.sandbox.backends.base import Command
from rlkit.sandbox.io_judge import plain
from rlkit.sandbox.job import Job
from rlkit.sandbox.languages.row import Compilation, Language, Launch, Toolchain
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec, text_bytes
from rlkit.sandbox.verdict import Status


class Refused(Exception):
    """A program that is not started, for a reason that lies in it."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Program:
    """A job, ready to be compiled and run.

    Attributes:
        files: the program's text under its name, and all that lies beside it.
        beside: only what lies beside it.
        text: the program's text, for languages that read it from stdin.
    """

    row: Language
    toolchain: Toolchain
    job: Job
    limits: Limits
    launch: Launch
    files: dict[str, bytes]
    beside: dict[str, bytes]
    text: bytes

    @staticmethod
    def of(row: Language, toolchain: Toolchain, job: Job, limits: Limits) -> Program:
        try:
            text = job.source.removeprefix("\ufeff").encode("utf-8")
        except UnicodeEncodeError as error:
            at = f"character {error.start}"
            raise Refused(
                Status.COMPILE_ERROR, f"the program holds half a character at {at}"
            ) from None
        launch = row.launch(toolchain, job, limits)
        name = row.source_name(job.source)
        beside = {place: text_bytes(data, place) for place, data in job.files.items()}
        own = {*launch.files, *(() if launch.by_stdin else (name,))}
        taken = sorted(place for place in beside if place in own or place in ("main", "main.jar"))
        if taken:
            raise Refused(
                Status.REJECTED, f"the file {plain(taken[0])} would replace the program itself"
            )
        beside.update(launch.files)
        files = dict(beside) if launch.by_stdin else {name: text, **beside}
        return Program(row, toolchain, job, limits, launch, files, beside, text)

    def command(self, test: TestSpec, files: dict[str, bytes]) -> Command:
        stdin = text_bytes(test.stdin or "", "stdin")
        if self.launch.by_stdin:
            stdin = stdin + b"\n" + self.text if stdin else self.text
        return Command(
            argv=(*self.launch.argv, *self.job.args, *test.argv),
            stdin=stdin,
            files=files,
            keep=tuple(test.expected_files),
            environment={"TZ": "UTC", **self.launch.environment},
            memory=self.row.memory,
            flavour="tools",
        )

    @property
    def allowed(self) -> Limits:
        """The limits given to the backend: what the program may use, and what it reserves."""
        return _on_top(self.limits, self.toolchain) if self.row.memory == "data" else self.limits

    def compilation(self, prepared: Path) -> tuple[Compilation, dict[str, bytes], Limits]:
        """How it is compiled, with which files, within which limits."""
        recipe = self.row.compile(self.toolchain, self.job.source, prepared)
        limits = self.job.compile_limits or self.row.compile_limits
        return recipe, {**self.files, **recipe.files}, _on_top(limits, self.toolchain)


def _on_top(limits: Limits, toolchain: Toolchain) -> Limits:
    """The limits that let a program use what it may, beside what its runtime only reserves."""
    return replace(limits, memory_mb=limits.memory_mb + toolchain.reserves_mb)
