"""What one row of the table of languages is made of.

A row knows how to find its toolchain, how to compile (or that nothing is compiled), how to
run, what it needs, and two kinds of small programs that show that all of it works: honest
ones, which must pass, and hostile ones, which must be contained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import Status

if TYPE_CHECKING:
    from rlkit.sandbox.job import Job

#: Every program's environment; nothing of ours is inherited.
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


@dataclass(frozen=True)
class Toolchain:
    """What was found on this machine to compile and run a language with.

    Attributes:
        language: the row's name.
        version: name and version in one line, for people.
        tools: real path of each program, by a short name.
        readable: folders and files that these programs read.
        identity: changes whenever the toolchain does; part of every key of the caches.
        reserves_mb: memory that its runtime reserves, writable, and does not use; a limit on
            data counts it, so it comes on top.
    """

    language: str
    version: str
    tools: Mapping[str, str]
    readable: tuple[str, ...] = ()
    identity: str = ""
    reserves_mb: int = 0


@dataclass(frozen=True)
class LanguageMissing:
    """Why a language cannot be used here, and what would bring it, in one sentence."""

    language: str
    sentence: str


@dataclass(frozen=True)
class Compilation:
    """How a program is compiled, inside the sandbox.

    Attributes:
        argv: the compiler's command line.
        keep: what it leaves behind that is kept; all of it is needed.
        files: further files it needs beside the source.
        environment: added to `ENVIRONMENT`.
    """

    argv: tuple[str, ...]
    keep: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """How a program is run, inside the sandbox.

    Attributes:
        argv: its command line, up to the arguments of the test.
        environment: added to `ENVIRONMENT`.
        files: further files it needs beside the program.
        by_stdin: whether the program itself is read from stdin, after the test's own.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    by_stdin: bool = False


@dataclass(frozen=True)
class Smoke:
    """A small program that shows whether a language works, or is contained.

    Attributes:
        name: what it does, in a few words.
        source: the program.
        tests: what it is asked; hostile programs print `LEAK` if they get out.
        acceptable: the ends that are all right.
        limits: what it may use, in place of the language's.
    """

    name: str
    source: str
    tests: tuple[TestSpec, ...]
    acceptable: tuple[Status, ...] = (Status.PASS,)
    limits: Limits | None = None


@dataclass(frozen=True)
class Language:
    """One row of the table.

    Attributes:
        name: as in `Job.language`.
        title: as people write it.
        find: looks for the toolchain.
        source_name: what the file with the program is called; may depend on the program.
        launch: how it is run: `launch(toolchain, job, limits)`; None where a mode of its own
            does that.
        compile: how it is compiled: `compile(toolchain, source, prepared)`; None if it is not.
        prepare: makes, once and outside the sandbox, from the toolchain's own files, what
            every later compilation reads: `prepare(toolchain, folder)`.
        memory: what the limit on memory counts: all address space, or only data, for
            programs that reserve much more than they use.
        needs_mb: least memory that makes sense; raises limits that nobody chose.
        processes: how many the language itself needs beside the program.
        compile_limits: what the compiler may use.
        modes: which modes of testing it has.
        syntax_error: how its interpreter's stderr says that this is no program.
        out_of_memory: how its runtime's stderr says that memory ran out.
        honest: programs that must pass.
        hostile: programs that must be contained.
    """

    name: str
    title: str
    find: Callable[[], Toolchain | LanguageMissing]
    source_name: Callable[[str], str]
    launch: Callable[[Toolchain, Job, Limits], Launch] | None
    compile: Callable[[Toolchain, str, Path], Compilation] | None = None
    prepare: Callable[[Toolchain, Path], None] | None = None
    memory: Literal["address", "data"] = "address"
    needs_mb: int = 64
    processes: int = 0
    compile_limits: Limits = field(default_factory=Limits)
    modes: tuple[str, ...] = ("io",)
    syntax_error: re.Pattern[str] | None = None
    out_of_memory: re.Pattern[str] | None = None
    honest: tuple[Smoke, ...] = ()
    hostile: tuple[Smoke, ...] = ()

    def fit(self, limits: Limits, chosen: bool) -> Limits:
        """The limits under which a program of this language can start at all.

        Args:
            limits: what the job or the sandbox says.
            chosen: whether somebody chose them for this job; then its memory is left alone.
        """
        processes = max(limits.processes, self.processes)
        memory = limits.memory_mb if chosen else max(limits.memory_mb, self.needs_mb)
        return replace(limits, processes=processes, memory_mb=memory)
