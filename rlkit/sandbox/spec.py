"""One test: what goes into a program, and what must come out of it.

The same class serves all modes. In `func` mode a test is a call and a value, in `io` mode
a standard input and a text, in `proxy` and `inproc` mode a piece of test code.

Left out on purpose: tests that are programs of their own in io mode (interactive judges).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.checkers import Checker, checked_checker
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.compare import TOLERANCE, short_repr

#: A path inside the scratch folder may have so many parts.
MAX_DEPTH = 8


@dataclass(frozen=True)
class TestSpec:
    """What a program is given and what it must make of it.

    Only inputs ever enter the sandbox; `expected` and `expected_files` stay with the host.
    All of them are plain data (see `codec.encode`) and are copied when the test is made.

    Attributes:
        name: what the test is called in results; need not be unique.
        args: positional arguments of the call (func mode).
        kwargs: named arguments of the call (func mode).
        expected: the right return value; in io mode the right stdout, as text (compared by
            the checker) or as bytes (compared byte by byte), or None where only files count.
        tolerance: distance, relative or absolute, within which floats are equal.
        tuples_as_lists: let tuples and lists stand for each other; for tests from JSON.
        mixed_numbers: let equal ints and floats stand for each other; for tests with `==`.
        stdin: what the program reads (io mode).
        argv: its command line arguments, after the job's own (io mode).
        expected_files: relative name to right content, of files it must write (io mode).
        checker: `exact`, `tokens`, `floats`, `set`, or a function `(expected, got)`; see
            `checkers`.
        hidden: whether results may say no more about it than how it ended.
        code: the test's own source, for example `assert f(2) == 4` (proxy and inproc mode).

    Raises:
        UserError: something in it is not plain data, or not what its field is for.

    >>> TestSpec("small", args=(2,), expected=4).call("square")
    'square(2)'
    """

    __test__ = False  # the name begins with "Test"; pytest must not collect it

    name: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None
    tolerance: float = TOLERANCE
    tuples_as_lists: bool = False
    mixed_numbers: bool = False
    stdin: str | bytes | None = None
    argv: tuple[str, ...] = ()
    expected_files: Mapping[str, bytes | str] = field(default_factory=dict)
    checker: str | Checker = "exact"
    hidden: bool = False
    code: str = ""
    inputs_wire: bytes = field(init=False, repr=False, compare=False)
    expected_wire: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise UserError(f"a test's name must be text, not {self.name!r}")
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, Sequence):
            raise UserError(f"args of test {self.name!r} must be a list, not {self.args!r}")
        tolerance = self.tolerance
        if not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < math.inf:
            raise UserError(f"tolerance={tolerance!r} of test {self.name!r} is not a distance")
        kwargs = dict(self.kwargs)
        if not all(type(key) is str for key in kwargs):
            raise UserError(f"kwargs of test {self.name!r} must have names (str) as keys")
        wires = {}
        for what, value in (("inputs", (tuple(self.args), kwargs)), ("expected", self.expected)):
            try:
                wires[what] = encode(value)
            except CodecError as error:
                raise UserError(
                    f"{what} of test {self.name!r} cannot be used: {error}; use None, bool, int, "
                    "float, complex, str, bytes, Decimal, Fraction, or lists, tuples, dicts and "
                    "sets of those"
                ) from None
        args, kwargs = decode(wires["inputs"])
        where = f"of test {self.name!r}"
        # The dataclass is frozen; these are private copies, which nobody can change later.
        for name, value in (
            ("args", args),
            ("kwargs", kwargs),
            ("expected", decode(wires["expected"])),
            ("inputs_wire", wires["inputs"]),
            ("expected_wire", wires["expected"]),
            ("argv", words(self.argv, f"argv {where}")),
            ("expected_files", named_files(self.expected_files, f"expected_files {where}")),
            ("checker", checked_checker(self.checker)),
        ):
            object.__setattr__(self, name, value)
        if self.stdin is not None and not isinstance(self.stdin, (str, bytes)):
            raise UserError(f"stdin {where} must be text, bytes or None, not {self.stdin!r}")
        text_bytes(self.stdin or "", f"stdin {where}")
        if not isinstance(self.code, str):
            raise UserError(f"code {where} must be the source of the test, not {self.code!r}")

    def call(self, entry: str) -> str:
        """The call as a reader would write it, shortened."""
        shown = [short_repr(value, 40) for value in self.args]
        shown += [f"{key}={short_repr(value, 40)}" for key, value in self.kwargs.items()]
        text = ", ".join(shown)
        return f"{entry}({text if len(text) <= 100 else text[:97] + '...'})"


def text_bytes(text: str | bytes, what: str) -> bytes:
    """Text as UTF-8; bytes stay as they are.

    Raises:
        UserError: half a character (a lone surrogate) is in it.

    >>> text_bytes("é", "stdin")
    b'\\xc3\\xa9'
    """
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"{what} holds half a character ({text[error.start]!a} at {error.start}); give bytes "
            "if it is meant"
        ) from None


def words(given: Sequence[str], what: str) -> tuple[str, ...]:
    """Command line arguments: text without NUL.

    >>> words(["-n", "3"], "args")
    ('-n', '3')
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise UserError(f"{what} must be a list of words, not {given!r}")
    for word in given:
        if not isinstance(word, str) or "\0" in word:
            raise UserError(f"{what} holds {word!r}; each must be text without NUL")
        text_bytes(word, what)
    return tuple(given)


def named_files(given: Mapping[str, bytes | str], what: str) -> dict[str, bytes | str]:
    """Files by name, checked: each name leads to a place inside the scratch folder.

    >>> named_files({"in/data.txt": "1"}, "files")
    {'in/data.txt': '1'}
    """
    if not isinstance(given, Mapping):
        raise UserError(f"{what} must be a dict of name to content, not {given!r}")
    for name, content in given.items():
        trouble = name_trouble(name)
        if trouble:
            raise UserError(f"{what}: {name!r} {trouble}; use a relative name such as 'in/a.txt'")
        if not isinstance(content, (str, bytes)):
            raise UserError(f"{what}: the content of {name!r} must be text or bytes")
        text_bytes(content, f"{what}: {name!r}")
    return dict(given)


def name_trouble(name: object) -> str:
    """Why a file of this name cannot lie inside the scratch folder; empty when it can.

    >>> name_trouble("../x"), name_trouble("a/b.txt")
    ('leads out of the folder', '')
    """
    if not isinstance(name, str) or not name:
        return "is no name"
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return "leads out of the folder"
    if "" in parts or "." in parts:
        return "has an empty part"
    if "\\" in name or not name.isprintable() or len(parts) > MAX_DEPTH:
        # not printable: NUL, line breaks, lone surrogates, marks that turn text around
        return "is not a plain name"
    if any(len(part.encode("utf-8")) > 200 for part in parts):
        return "is too long"
    return ""
