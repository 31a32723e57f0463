"""Programs whose text, or whose output, is the attack: on compilers, terminals and web pages.

What they print is kept as it is and escaped by whoever shows it; here only the runner
has to survive.
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import DIED, NOT_PAID, STOPPED, Case, program
from rlkit.sandbox.types import Status

_BROKEN = frozenset({Status.COMPILE_ERROR, Status.RUNTIME_ERROR})
#: It ran, and nobody was hurt; whether it printed what the test wants is beside the point.
_RAN = frozenset({Status.PASS, Status.FAIL})


def _text(name: str, source: str, expected: frozenset[Status], lesson: str) -> Case:
    return program(name, "python", "output", source, lesson, expected)


def _defines(name: str, source: str, expected: frozenset[Status], lesson: str) -> Case:
    tests = ({"name": "one", "args": (1,), "expected": 1},)
    return Case(name, "hostile", "python", "func", source, tests, expected, "output", lesson)


CASES = (
    _defines("a NUL byte in the program", "x = 1\x00\ndef f(x): return 1", _BROKEN,
             "Has a zero byte in its text, where C programs stop to read."),
    _defines("half a character in the program", "def f(x): return '\ud800' and 1",
             _BROKEN | _RAN, "Has a character that cannot be written as UTF-8."),
    _defines("a mark at the beginning", "\ufeffdef f(x):\r\n    return x\r\n", _RAN,
             "Begins with a byte order mark, as files from some editors do."),
    _defines("a name that is another name", "def f(x): return 1\ndef \U0001d41f(x): return 2",
             _RAN, "Defines a function twice in different letters that Python takes as equal."),
    _defines("text that runs backwards", "def f(x):\n    # \u202e } \u2066 if admin \u2069 \u2066\n"
             "    return x", _RAN, "Looks different to a reader and to the compiler."),
    _defines("no program at all", "", _BROKEN | {Status.FAIL}, "Is empty."),
    _defines("prose", "Sure! Here is the solution:\n\n```python\ndef f(x): return x\n```", _BROKEN,
             "Is a chat message around a program."),
    _defines("an encoding of its own", "# -*- coding: rot13 -*-\nqrs s(k): erghea k", _BROKEN,
             "Declares an encoding that would turn it into another program."),
    _defines("ten thousand nested blocks",
             "".join(" " * i + "if 1:\n" for i in range(200)) + " " * 200 + "pass", _BROKEN,
             "Nests blocks deeper than Python takes."),
    _defines("a syntax warning bomb", "\n".join(["'\\d'"] * 20_000) + "\ndef f(x): return x",
             _RAN | _BROKEN | {Status.OUTPUT_LIMIT} | STOPPED,
             "Makes the compiler warn twenty thousand times."),
    _text("escapes for a terminal", 'print("\\x1b[2J\\x1b]0;owned\\x07\\x1b[8mhidden")',
          _RAN, "Prints codes that clear a terminal and set its title."),
    _text("a script for a web page", 'print("<script>alert(1)</script><img src=x onerror=1>")',
          _RAN, "Prints HTML that would run in a notebook which shows it unescaped."),
    _text("bytes that are no text",
          'import sys\nsys.stdout.buffer.write(bytes(range(256)))', _RAN,
          "Prints bytes that are not UTF-8."),
    _text("half a character", 'import sys\nsys.stdout.write("\\ud800")',
          _RAN | DIED, "Prints half of a surrogate pair."),
    _text("a million lines", 'print("\\n" * 1_000_000)', NOT_PAID,
          "Prints nothing but line ends."),
    _text("a giant number", "import sys\nprint(10 ** 5000)", _RAN | DIED,
          "Prints a number longer than Python likes to print."),
    _text("zeros in the output", 'print("it" + "\\0" + "worked")', NOT_PAID,
          "Prints a zero byte in the middle, where C programs stop to compare."),
    _text("nothing but spaces", 'print(" " * 60_000)', NOT_PAID,
          "Prints what vanishes when it is stripped."),
    _text("the source of the page it will be shown on",
          'print("</pre></div><h1>PASS</h1><div><pre>")', _RAN,
          "Closes the box in which it will be shown, and draws its own verdict."),
)  # fmt: skip
