"""One job: a program, the tests it is to pass, and how they are to be run.

Left out on purpose: jobs without tests. Running a program only to look at it is an io job
with one test.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from rlkit.errors import UserError
from rlkit.sandbox.checkers import checker_identity, expects_nothing, is_custom
from rlkit.sandbox.codec import encode
from rlkit.sandbox.languages.names import canonical
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec, named_files, words
from rlkit.sandbox.verdict import Level

Mode = Literal["io", "func", "proxy", "inproc"]
Preload = Literal["base", "numpy", "sympy"]
CacheUse = Literal["use", "refresh", "off"]
Share = Literal["process", "names", "nothing"]

#: No program that a language model writes is longer; the sandbox does not start such a one.
MAX_SOURCE_CHARS = 16_000_000


@dataclass(frozen=True)
class Job:
    """A program and the tests it is to pass.

    Attributes:
        language: see `rlkit.sandbox.languages.table()`; `js`, `c++`, … are understood.
        source: the program's text; it may be anything at all.
        tests: at least one; nothing passes without evidence.
        mode: `func`: each test calls one function and its value is compared; `io`: each test
            runs the program, and what it prints is compared; `proxy`: tests are code that
            runs in a second process; `inproc`: they run beside the program (weak). Other
            languages than Python have `io` only.
        entry: what the tests call: a function, `Class.method`, or a method of a class
            named `Solution`, of which every test gets a fresh object. Empty in io mode.
        limits: what it may use, in io mode for each test; None takes the sandbox's.
        seed: of `hash()` and of the `random` module, so that equal jobs end equally, and of
            the draw of hidden tests.
        files: relative name to content, put beside the program before it starts.
        args: command line arguments for every test (io mode).
        compile_limits: what the compiler may use; None takes the language's.
        preload: what the interpreter has imported already (`numpy`, `sympy`).
        min_isolation: below this level the job is not run.
        cache: `use` a stored verdict, `refresh` it, or `off`.
        stop_on_first: whether the tests after the first that fails are left out.
        draw: so many of the hidden tests, drawn at random by `seed`; None takes all.
        group: whose job it is; groups share the workers fairly.
        share: what the tests of a proxy job have in common: the program's `process`, with a
            name space for each test; also their `names`, so that each goes on where the last
            one stopped; or `nothing`: the program is loaded anew for each. In inproc mode
            each test has a process of its own unless they share `names`.

    Raises:
        UserError: no tests, a mode that the language has not, no entry, …: in one sentence.

    >>> job = Job(source="def f(x): return x + 1", entry="f",
    ...           tests=[TestSpec("one", args=(1,), expected=2)])
    >>> job.mode, len(job.tests)
    ('func', 1)
    >>> Job("js", "console.log(2)", [TestSpec("two", expected="2")], mode="io").language
    'javascript'
    """

    language: str = "python"
    source: str = ""
    tests: Sequence[TestSpec] = ()
    mode: Mode = "func"
    entry: str = ""
    limits: Limits | None = None
    seed: int = 0
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    compile_limits: Limits | None = None
    preload: Preload = "base"
    min_isolation: Level = Level.CONFINED
    cache: CacheUse = "use"
    stop_on_first: bool = False
    draw: int | None = None
    group: str = ""
    share: Share = "process"

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", canonical(self.language))
        if self.mode not in get_args(Mode):
            raise UserError(f"mode {self.mode!r} is none of {', '.join(get_args(Mode))}")
        if self.language == "math" and self.mode != "func":
            raise UserError(f"mathematics has mode 'func' only, not {self.mode!r}")
        if self.language not in ("python", "math") and self.mode != "io":
            raise UserError(
                f"{self.language} programs are tested by what they print, not in mode "
                f"{self.mode!r}; use mode='io' with tests that have stdin and expected"
            )
        if not isinstance(self.source, str):
            raise UserError(f"source must be the program's text, not {type(self.source).__name__}")
        if not isinstance(self.tests, Sequence) or not all(
            isinstance(test, TestSpec) for test in self.tests
        ):
            raise UserError("tests must be a list of TestSpec(name, args, kwargs, expected)")
        if not self.tests:
            raise UserError("a job without tests proves nothing; give at least one TestSpec")
        if not isinstance(self.seed, int):
            raise UserError(f"seed={self.seed!r} is not a whole number")
        for name in ("limits", "compile_limits"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Limits):
                raise UserError(f"{name} must be Limits(...) or None, not {value!r}")
        if self.preload not in get_args(Preload):
            raise UserError(f"preload={self.preload!r} is none of {', '.join(get_args(Preload))}")
        if self.cache not in get_args(CacheUse):
            raise UserError(f"cache={self.cache!r} is none of {', '.join(get_args(CacheUse))}")
        if self.share not in get_args(Share):
            raise UserError(f"share={self.share!r} is none of {', '.join(get_args(Share))}")
        try:
            level = Level(self.min_isolation)
        except ValueError:
            raise UserError(
                f"min_isolation={self.min_isolation!r} is no Level; use Level.CONFINED or another"
            ) from None
        if not isinstance(self.group, str):
            raise UserError(f"group must be a name, not {self.group!r}")
        for name, value in (
            ("tests", tuple(self.tests)),
            ("files", named_files(self.files, "files")),
            ("args", words(self.args, "args")),
            ("min_isolation", level),
        ):
            object.__setattr__(self, name, value)
        self._check_mode()
        self._check_draw()

    def _check_mode(self) -> None:
        calls = self.mode == "func" and self.language == "python"
        if not isinstance(self.entry, str) or not all(
            part.isidentifier() for part in self.entry.split(".") if calls or self.entry
        ):
            raise UserError(f"entry={self.entry!r} is not the name of a function to call")
        if self.mode == "io":
            self._check_io()
            return
        if self.args or any(t.stdin is not None or t.argv or t.expected_files for t in self.tests):
            raise UserError(
                f"stdin, argv and expected_files belong to mode='io', not to {self.mode!r}"
            )
        for test in self.tests:
            if self.mode in ("proxy", "inproc") and not test.code.strip():
                raise UserError(
                    f"test {test.name!r} has no code; mode {self.mode!r} runs code such as "
                    "'assert f(2) == 4'"
                )
            if self.mode == "func" and test.code:
                raise UserError(
                    f"test {test.name!r} is code; use mode='proxy', which runs it in a second "
                    "process"
                )
            if is_custom(test.checker) and self.mode != "func":
                raise UserError(
                    f"test {test.name!r} checks itself by its code; leave out its checker"
                )
            if not is_custom(test.checker) and test.checker != "exact":
                raise UserError(
                    f"checker {test.checker!r} of test {test.name!r} compares text; it belongs to "
                    "mode='io'"
                )

    def _check_io(self) -> None:
        if self.entry:
            raise UserError(f"mode 'io' runs the whole program; leave out entry={self.entry!r}")
        for test in self.tests:
            if test.args or test.kwargs or test.code:
                raise UserError(
                    f"test {test.name!r} has arguments or code, which mode 'io' does not use; "
                    "give stdin, argv and the expected output"
                )
            if is_custom(test.checker) or isinstance(test.expected, (str, bytes)):
                continue
            if test.expected is not None or not test.expected_files:
                raise UserError(
                    f"expected of test {test.name!r} must be the text that the program prints, "
                    f"not {test.expected!r}"
                )
        if all(
            expects_nothing(test.checker, test.expected, test.expected_files) for test in self.tests
        ):
            raise UserError(
                "no test expects any output, so an empty program would pass; give one that does"
            )

    def _check_draw(self) -> None:
        if self.draw is None:
            return
        hidden = sum(test.hidden for test in self.tests)
        if not isinstance(self.draw, int) or isinstance(self.draw, bool) or self.draw < 1:
            raise UserError(f"draw={self.draw!r} is not a number of tests; give 1 or more")
        if self.draw > hidden:
            raise UserError(f"draw={self.draw}, but only {hidden} of the tests are hidden")

    def drawn(self) -> Job:
        """The job with only the hidden tests that its seed draws; itself when it draws none.

        >>> tests = [TestSpec(f"t{i}", args=(i,), expected=i, hidden=i > 0) for i in range(9)]
        >>> job = Job(source="f = abs", entry="f", tests=tests, draw=3, seed=1)
        >>> [test.name for test in job.drawn().tests], len(job.drawn().drawn().tests)
        (['t0', 't1', 't3', 't5'], 4)
        """
        if self.draw is None:
            return self
        hidden = [place for place, test in enumerate(self.tests) if test.hidden]
        kept = set(random.Random(self.seed).sample(hidden, self.draw))
        tests = [t for place, t in enumerate(self.tests) if not t.hidden or place in kept]
        return replace(self, tests=tests, draw=None)

    def key(self, limits: Limits) -> str:
        """Content key: two jobs with the same key end in the same way.

        Args:
            limits: what applies when the job names none of its own.
        """
        tests = tuple(
            (
                *(t.name, t.inputs_wire, t.expected_wire),
                *(t.tolerance, t.tuples_as_lists, t.mixed_numbers),
                *(t.stdin, t.argv, dict(t.expected_files)),
                *(checker_identity(t.checker), t.hidden, t.code),
            )
            for t in self.tests
        )
        content = (self.language, self.mode, self.entry, self.source, self.seed, self.share, tests)
        compiling = None if self.compile_limits is None else _numbers(self.compile_limits)
        how = (dict(self.files), self.args, compiling, self.preload, self.stop_on_first, self.draw)
        return hashlib.sha256(
            encode((content, how, _numbers(self.limits or limits)), max_bytes=1 << 30)
        ).hexdigest()


def _numbers(limits: Limits) -> tuple[int | float, ...]:
    """All fields in order; `dataclasses.astuple` copies each, at ten times the cost."""
    return tuple(vars(limits).values())
