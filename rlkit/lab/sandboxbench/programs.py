"""Programs to pick from: honest ones, some that attack the machine, some that want to be paid.

The hostile ones and the cheats are taken from the corpora (`rlkit.sandbox.corpus`), and the
honest ones of other languages from the table of languages, so that nothing here is a program
that was never tried.

Left out on purpose: programs of the corpora that need something planted outside the sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlkit.lab.sandboxbench.test_lines import write_lines
from rlkit.sandbox import languages
from rlkit.sandbox.corpus import cases
from rlkit.sandbox.types import Limits, TestSpec

_HOSTILE = (
    *("infinite loop", "sleeps for ever", "memory by large pieces", "floods stdout"),
    *("one large file", "a crash by a null pointer", "read the list of users"),
)
_CHEATS = (
    *("exit 0 while loading", "a list that equals everything", "searches the callers"),
    *("results in JSON on every descriptor", "our own messages with a wrong value"),
    "the first visible test by heart",
)

_SORT_TESTS = "assert f([3, 1, 2]) == [1, 2, 3]\nassert f([2, 2]) == [2, 2]\nassert f([]) == []"
_COUNTER = """\
class Counter:
    def __init__(self):
        self.count = 0

    def up(self, by=1):
        if by < 0:
            raise ValueError("only up")
        self.count += by
        return self
"""
_COUNTER_TESTS = """\
c = Counter(); c.up().up(2); assert c.count == 3
assert Counter().up(0).count == 0
assert isinstance(Counter(), Counter)"""
_FLAKY = """\
import random, time

def f(x):
    if time.time_ns() % 3 == 0:
        return x                # asks the clock
    random.shuffle(x)           # asks a die
    return sorted(x) if random.random() < 0.8 else x
"""
_ESCAPES = """\
print("\\x1b[31mred\\x1b[0m <b>bold</b> <img src=x onerror=alert(1)>")

def f(x):
    return "<script>alert('hello')</script>"
"""


@dataclass(frozen=True)
class Program:
    """One program to pick.

    Attributes:
        name: for people, its kind in front.
        kind: `honest`, `hostile` or `cheat`.
        says: what it does, in a sentence.
        language, mode: as in `Job`.
        source: its text.
        tests: a test a line, see `test_lines`.
        limits: what it may use; None takes what the sliders say.
    """

    name: str
    kind: str
    says: str
    source: str
    tests: str
    language: str = "python"
    mode: str = "func"
    limits: Limits | None = None


@lru_cache(maxsize=1)
def programs() -> tuple[Program, ...]:
    """All of them, honest ones first.

    >>> [program.name for program in programs()][0], len(programs()) > 20
    ('honest: sorts a list', True)
    """
    own = (
        Program("honest: sorts a list", "honest", "Does what it is asked to do.",
                "def f(x):\n    return sorted(x)\n", _SORT_TESTS),
        Program("honest: wrong for equal numbers", "honest",
                "Loses what stands there twice: an honest mistake, and partial credit.",
                "def f(x):\n    return sorted(set(x))\n", _SORT_TESTS),
        Program("honest: a class, tested by assertions", "honest",
                "Its objects never leave the sandbox; the assertions run in a second process.",
                _COUNTER, _COUNTER_TESTS, mode="proxy"),
        Program("honest: flaky", "honest", "Asks the clock and a die; run it ten times.",
                _FLAKY, _SORT_TESTS),
    )  # fmt: skip
    shown = Program(
        "hostile: prints HTML and terminal codes", "hostile",
        "Would take over the page that shows it, if its text were not escaped.",
        _ESCAPES, _SORT_TESTS,
    )  # fmt: skip
    return (*own, *_smoke(), *_picked("hostile", _HOSTILE), shown, *_picked("cheat", _CHEATS))


def find_program(name: str) -> Program | None:
    """The program of this name."""
    return next((program for program in programs() if program.name == name), None)


def first_of(language: str, mode: str) -> Program | None:
    """An honest program in this language and mode, if there is one."""
    honest = [p for p in programs() if p.kind == "honest" and p.language == language]
    return next((p for p in honest if p.mode == mode), honest[0] if honest else None)


def _picked(corpus: str, names: Sequence[str]) -> list[Program]:
    known = {case.name: case for case in cases(corpus, "python", "func")}
    made = []
    for name in names:
        case = known[name]
        tests = [t if isinstance(t, TestSpec) else TestSpec(**t) for t in case.tests]
        lines = write_lines(tests, case.language, case.mode, case.entry)
        made.append(Program(f"{corpus}: {name}", corpus, case.lesson, case.source, lines,
                            limits=case.limits))  # fmt: skip
    return made


def _smoke() -> list[Program]:
    """An honest program that prints, of each language that has one."""
    made = []
    for name in languages.NAMES:
        row = languages.get(name)
        if "io" in row.modes and row.honest:
            smoke = row.honest[0]
            lines = write_lines(smoke.tests, name, "io")
            says = f"{row.title}: {smoke.name}, and prints it."
            made.append(Program(f"honest: {row.title}, {smoke.name}", "honest", says,
                                smoke.source, lines, name, "io"))  # fmt: skip
    same = Program(
        "honest: mathematics", "honest", "The same expression, written in another way.",
        "2*x + 2", "2*(x + 1)\n(4*x + 4)/2\n2*x + 3", "math", "func",
    )  # fmt: skip
    return [*made, same]
