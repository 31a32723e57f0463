"""One input of the corpora: a program that means harm, or means to be paid for nothing.

A case is plain data: a program, the tests it is given, and the statuses that a sandbox
may answer with. In both corpora `PASS` is what the attacker wants: an attack on the
machine returns "it worked" exactly where it worked, and a cheat passes exactly where it
was paid.

Markers such as `@OUTSIDE@` in a program are replaced when it is run, by what
`surroundings.py` has planted outside the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlkit.sandbox.types import Job, Limits, Status, TestSpec

#: What every hostile case may use, unless it says otherwise.
BRIEF = Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256)

#: For languages with a large runtime of their own (node, java), and for compiled ones.
ROOMY = Limits(wall_s=3.0, cpu_s=2.0, memory_mb=1024, processes=16)

STOPPED = frozenset({Status.CPU_LIMIT, Status.TIMEOUT})
DIED = frozenset({Status.CRASH, Status.MEMORY_LIMIT, Status.RUNTIME_ERROR})
#: It came back and said that it was refused.
REFUSED = frozenset({Status.FAIL})
#: Any end at all, but not paid, and not a fault of ours.
NOT_PAID = frozenset(Status) - {Status.PASS, Status.SANDBOX_ERROR}

WORKED = "it worked"


@dataclass(frozen=True)
class Case:
    """A program of a corpus, and how a sandbox may answer it.

    Attributes:
        name: unique in its corpus.
        corpus: `hostile` (against the machine) or `cheat` (against the judge).
        language: as in `Job`.
        mode: as in `Job`.
        source: the program, with markers.
        tests: a `TestSpec` each, or its keyword arguments, with markers.
        expected: statuses that mean that it was contained, or not paid.
        attacks: the property of an `IsolationReport` that it is against, or for a cheat the
            part of the judge.
        lesson: one sentence for a learner: what it tries.
        entry: the function that the tests call.
        limits: what it may use.
        needs: properties that must be enforced before it is let loose; where they are not, it
            would harm the machine, and is reported as not run.
        options: further keyword arguments of the `Job`.

    >>> from rlkit.sandbox.corpus.case import attack
    >>> case = attack("read", "files_read", 'open("@OUTSIDE@/secret").read()', "Reads a file.")
    >>> case.job({"@OUTSIDE@": "/nowhere"}).tests[0].expected
    'it worked'
    """

    name: str
    corpus: Literal["hostile", "cheat"]
    language: str
    mode: str
    source: str
    tests: tuple[Mapping[str, Any] | TestSpec, ...]
    expected: frozenset[Status]
    attacks: str
    lesson: str
    entry: str = "f"
    limits: Limits = BRIEF
    needs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def job(self, places: Mapping[str, str]) -> Job:
        """The job that this case is, with every marker replaced.

        Args:
            places: what each marker stands for.

        Raises:
            UserError: the sandbox does not know the language or the mode.
        """
        tests = [
            test
            if isinstance(test, TestSpec)
            else TestSpec(**{key: replaced(value, places) for key, value in test.items()})
            for test in self.tests
        ]
        entry = {"entry": self.entry} if self.entry else {}
        options = {key: replaced(value, places) for key, value in self.options.items()}
        return Job(
            language=self.language,
            source=replaced(self.source, places),
            tests=tests,
            mode=self.mode,
            limits=self.limits,
            **entry,
            **options,
        )

    @property
    def key(self) -> str:
        """Name that tells it from all others: corpus, language and name."""
        return f"{self.corpus}/{self.language}/{self.name}"


def replaced(value: Any, places: Mapping[str, str]) -> Any:
    """The value with every marker in its texts replaced.

    >>> replaced(["@PORT@", 1], {"@PORT@": "80"})
    ['80', 1]
    """
    if isinstance(value, str):
        for marker, text in places.items():
            value = value.replace(marker, text)
        return value
    if isinstance(value, bytes):
        for marker, text in places.items():
            value = value.replace(marker.encode(), text.encode())
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, places) for item in value)
    if isinstance(value, Mapping):
        return {key: replaced(item, places) for key, item in value.items()}
    return value


#: `f` is to sort a list. No program of the corpora does.
SORT_TESTS: tuple[Mapping[str, Any], ...] = (
    {"name": "three", "args": ([3, 1, 2],), "expected": [1, 2, 3]},
    {"name": "equal", "args": ([2, 2],), "expected": [2, 2]},
    {"name": "below zero", "args": ([0, -5, 4],), "expected": [-5, 0, 4]},
)


def bomb(
    name: str,
    attacks: str,
    source: str,
    expected: frozenset[Status],
    lesson: str,
    **more: Any,
) -> Case:
    """A Python program that uses up something; it is to be stopped."""
    return Case(name, "hostile", "python", "func", source, SORT_TESTS, expected, attacks, lesson,
                **more)  # fmt: skip


def attack(
    name: str,
    attacks: str,
    lines: str,
    lesson: str,
    expected: frozenset[Status] = REFUSED,
    **more: Any,
) -> Case:
    """Python lines that raise where they are refused; a last `return` may say so instead."""
    body = "\n        ".join(lines.strip().splitlines())
    source = (
        "import os\ndef f():\n    try:\n        "
        f"{body}\n"
        "    except BaseException as error:\n        return type(error).__name__\n"
        f"    return {WORKED!r}\n"
    )
    tests = ({"name": "attack", "expected": WORKED},)
    return Case(name, "hostile", "python", "func", source, tests, expected, attacks, lesson, **more)


def program(
    name: str,
    language: str,
    attacks: str,
    source: str,
    lesson: str,
    expected: frozenset[Status] = NOT_PAID,
    *,
    says: str = WORKED,
    **more: Any,
) -> Case:
    """A whole program in any language, which prints "it worked" exactly where it did."""
    tests = ({"name": "attack", "stdin": "", "expected": says},)
    more.setdefault("limits", BRIEF if language == "python" else ROOMY)
    return Case(name, "hostile", language, "io", source, tests, expected, attacks, lesson,
                entry="", **more)  # fmt: skip


def cheat(
    name: str,
    attacks: str,
    source: str,
    lesson: str,
    expected: frozenset[Status] = NOT_PAID,
    *,
    mode: str = "func",
    language: str = "python",
    tests: tuple[Mapping[str, Any], ...] = SORT_TESTS,
    **more: Any,
) -> Case:
    """A program that wants to be paid and does not solve the task."""
    more.setdefault("limits", Limits(wall_s=3.0, cpu_s=2.0, memory_mb=256))
    return Case(name, "cheat", language, mode, source, tests, expected, attacks, lesson, **more)
