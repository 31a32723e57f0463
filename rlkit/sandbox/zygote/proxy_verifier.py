"""The verifier's end of proxy mode: runs the tests, and never loads the program.

Names of the program are stand-ins (`proxy_stubs`); everything a test compares is made by
this process from its own types. What the other end may ask of the test's objects is as
little as callbacks need: call a function it was given, use public attributes and special
methods of the test's own classes.

It tells the host, for each test: `("passed", index, seconds)` or
`("failed", index, status, message, got, seconds)`; before them `("broken", status, message)`
when the program does not load; at the end `("done",)`. The host counts.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import time
import types

from rlkit.sandbox.zygote import proxy_pytest
from rlkit.sandbox.zygote.harness import line_in
from rlkit.sandbox.zygote.proxy_describe import SPECIAL
from rlkit.sandbox.zygote.proxy_peer import OPERATIONS, RECURSION_LIMIT, Ended, Peer
from rlkit.sandbox.zygote.proxy_stubs import (
    Remote,
    RemoteClass,
    RemoteError,
    RemoteFunction,
    RemoteModule,
)

TEST_FILE = "test.py"

#: A wrapper of the LeetCode kind; no test does arithmetic with it.
NEVER_OPEN = frozenset(("Solution",))

#: Modules that tests use without importing them; a program cannot put its own in their place.
OWN_MODULES = frozenset(
    (
        *("bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools"),
        *("heapq", "itertools", "json", "math", "numpy", "operator", "os", "pytest", "random"),
        *("re", "statistics", "string", "sys", "time", "typing"),
    )
)

#: Libraries that a zygote may have loaded for both processes.
INSTALLED = frozenset(("numpy", "sympy", "mpmath"))

_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_EITHER_SIDE = frozenset(("add", "eq", "lt", "le", "gt", "ge", "ne"))
_FORBIDDEN = (types.ModuleType, types.CodeType, types.FrameType, types.TracebackType)


def verifier(request: dict, sock: int, send) -> None:
    """Run the tests.

    Args:
        request: `tests` (source, names and class names of each), `max_bytes`, `entry`, `share`
            (see `Job.share`) and `stop_on_first`.
        sock: descriptor of the socket to the program's process.
        send: tells the host.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)
    strict = Strict(sock, request["max_bytes"], request["entry"])
    if not _loaded(strict, send):
        return
    sys.modules["pytest"] = proxy_pytest.module()
    together = request["share"] == "names"
    space: dict = {}
    for index, (code, names, classes) in enumerate(request["tests"]):
        if index and request["share"] == "nothing" and not _loaded(strict, send):
            return
        space.update(own_names(strict))
        started = time.perf_counter()
        told = strict.run_test(code, names, frozenset(classes), space)
        seconds = time.perf_counter() - started
        if told is None:
            send("passed", index, seconds)
        else:
            send("failed", index, *told, seconds)
            if request["stop_on_first"]:
                break
        if not together:
            space.clear()
            strict.stale = True
    send("done")


def _loaded(strict: Strict, send) -> bool:
    """Have the program loaded; when it does not, the host is told."""
    try:
        status, message = strict.load()
    except Ended as end:
        status, message = end.args
    if status:
        send("broken", status, message)
        send("done")
    return not status


def own_names(strict: Strict) -> dict:
    """The name space in which a test begins."""
    own = {**vars(builtins), "__import__": strict.find_module}
    return {"__name__": "__main__", "__builtins__": own}


class Strict(Peer):
    """The end that believes nothing: see `proxy_stubs` for its rules."""

    def __init__(self, sock: int, max_bytes: int, entry: str) -> None:
        self.entry = entry
        self.classes: frozenset[str] = frozenset()
        self.fault: tuple[str, str] | None = None  # of this test
        self.over: tuple[str, str] | None = None  # of the conversation
        self.last: tuple[str, object] | None = None
        self.stale = False
        super().__init__(sock, leads=True, max_bytes=max_bytes)

    # -- a test -----------------------------------------------------------------------

    def load(self) -> tuple[str, str]:
        """Let the program be loaded; how that ended."""
        told = self.ask("load", "")
        if type(told) is not tuple or [type(part) for part in told] != [str, str]:
            self.end("TAMPERED", "the program's process did not say how it was loaded")
        status, message = told
        if status not in ("", "COMPILE_ERROR", "RUNTIME_ERROR", "MEMORY_LIMIT"):
            self.end("TAMPERED", "the program's process said how it was loaded in unknown words")
        return status, message

    def run_test(self, code: str, names: list, classes: frozenset, space: dict) -> tuple | None:
        """Run one test; None when it holds, else status, message and what was returned last."""
        self.classes, self.fault, self.last = classes, None, None
        if self.over is not None:
            return "NO_RESULT", f"not reached: {self.over[1]}", None
        error = None
        try:
            self._supply(names, space)
            exec(compile(code, TEST_FILE, "exec", dont_inherit=True), space)
            _run_functions(code, space)
        except BaseException as raised:
            error = raised
        # What went wrong in between counts, also when the test has swallowed it.
        if self.over or self.fault:
            return (*(self.over or self.fault), None)
        if error is None:
            return None
        return self._told(error)

    def _supply(self, names: list, space: dict) -> None:
        """Put what the test's names mean into its name space."""
        wanted = [
            name
            for name in names
            if name not in space and (name == self.entry or not _is_own(name))
        ]
        for name in names:
            if name in OWN_MODULES and name not in space and name != self.entry:
                space[name] = importlib.import_module(name)
        # The objects of the test before are forgotten at both ends, by one question.
        if self.stale:
            self.forget()
        word = "anew" if self.stale else ""
        told = self.ask("names", word, tuple(wanted)) if wanted or self.stale else ()
        self.stale = False
        if type(told) is not tuple or any(type(t) is not tuple or len(t) != 3 for t in told):
            self.end("TAMPERED", "the program's process did not say which names it has")
        for name, known, value in told:
            if known is True and name in wanted:
                self.named(value, name)
                space[name] = value

    def _told(self, error: BaseException) -> tuple:
        try:
            got = None if self.last is None else _shown(self.last[1])
            line = _line_of(error)
            if type(error) is AssertionError and not hasattr(error, "_rl_told"):
                said = str(error)[:200] if error.args and type(error.args[0]) is str else ""
                message = f"the test does not hold{line}"
                if said:
                    message += f": {said}"
                if self.last is not None:
                    message += f"; {self.last[0]} returned {got}"
                return "FAIL", message, got
            told = getattr(error, "_rl_told", None)
            if told is not None:
                status = "MEMORY_LIMIT" if type(error) is MemoryError else "RUNTIME_ERROR"
                return status, f"the program raised {told}{line}", got
            if type(error) is MemoryError:
                return "MEMORY_LIMIT", f"the test ran out of memory{line}", got
            text = f"{type(error).__name__}: {str(error)[:200]}"
            return "FAIL", f"the test does not hold{line}: {text}", got
        except BaseException as second:
            return "FAIL", f"the test raised {type(second).__name__}", None

    # -- what makes it strict ---------------------------------------------------------

    def ask(self, verb: str, name: str, *operands: object) -> object:
        if self.over or self.fault:
            raise Ended(*(self.over or self.fault))
        return super().ask(verb, name, *operands)

    def call(self, number: int, name: str, args: tuple, kwargs: dict) -> object:
        self.last = None
        value = super().call(number, name, args, kwargs)
        self.last = (f"{name}()", value)
        return value

    def end(self, status: str, message: str) -> object:
        ending = (status, message)
        if status == "BAD_VALUE":
            self.fault = self.fault or ending
        else:
            self.over = self.over or ending
        raise Ended(*ending)

    def refuse(self, what: str) -> object:
        return self.end("BAD_VALUE", f"{what}, which proxy mode refuses")

    def opaque(self, what: str) -> object:
        return self.end(
            "BAD_VALUE",
            f"the program returned an object of a class that the test does not name; {what} is "
            "only asked of plain data and of classes that the test names",
        )

    def exactly(self, kind: type, value: object) -> object:
        if type(value) is not kind:
            self.end("BAD_VALUE", f"the program gave no {kind.__name__} where one is due")
        return value

    def named(self, found: object, name: str) -> None:
        a_class = isinstance(found, RemoteClass) and name in self.classes - NEVER_OPEN
        if a_class or type(found) is RemoteFunction:
            found._rl_open = True

    def noticed(self, error: BaseException) -> None:
        if type(error) is AssertionError and not hasattr(error, "_rl_told"):
            # An assertion inside a callback does not hold; the program cannot undo that.
            self.fault = self.fault or ("FAIL", "an assertion in a callback does not hold")

    def permit(self, verb: str, name: str, operands: list) -> None:
        """What the program may ask about the test's objects."""
        target = operands[0] if operands else None
        if verb == "op" and name in _EITHER_SIDE and operands[1:] and not self._is_ours(target):
            target = operands[1]  # the test's object may stand on the right
        if verb not in ("call", "get", "set", "op") or not self._is_ours(target):
            raise TypeError("the test's objects do not offer that")
        if verb == "call":
            if type(target) in _CALLABLE or isinstance(target, type) or _has(target, "__call__"):
                return
        elif isinstance(target, _CALLABLE):
            raise AttributeError(f"a function of the test does not show its {name or 'inside'}")
        elif verb == "get":
            if not name.startswith("_"):
                return
        elif verb == "set":
            # Only what the test defined itself, and never a class.
            if not name.startswith("_") and type(target).__module__ == "__main__":
                return
        elif name in ("copy", "deepcopy", "bool", "str", "repr", "format", "hash", "dir", "eq") or (
            name in OPERATIONS
            and (_has(target, f"__{name.rstrip('_')}__") or f"__{name}__" not in SPECIAL)
        ):
            return
        raise TypeError(f"{type(target).__name__!r} object of the test does not offer {name!r}")

    def _is_ours(self, target: object) -> bool:
        if isinstance(target, _FORBIDDEN) or target is None:
            return False
        return self.out.get(self.out_ids.get(id(target), -1)) is target

    def find_module(self, name, globals=None, locals=None, fromlist=(), level=0):
        """`__import__` for tests: what this process does not have is the program's."""
        top = name.partition(".")[0]
        if level or top in sys.stdlib_module_names or top in sys.modules or top in INSTALLED:
            return builtins.__import__(name, globals, locals, fromlist, level)
        try:
            found = self.ask("import", name)
            found = found if fromlist else self.ask("import", top)
        except ImportError:
            # Tests are written for a file whose name nobody knows.
            found = self.ask("import", "solution")
        if not isinstance(found, RemoteModule):
            raise ImportError(f"the program's {name!r} is no module")
        return found


def _run_functions(code: str, space: dict) -> None:
    """Call `check(candidate)` and the `test...` functions that a test only defines."""
    functions = {
        name: value
        for name, value in list(space.items())
        if type(value) is types.FunctionType and value.__code__.co_filename == TEST_FILE
    }
    check = functions.get("check")
    if check is not None and check.__code__.co_argcount == 1 and code.count("check(") == 1:
        check(space["candidate"])
    for name, function in functions.items():
        if name.startswith("test") and f"{name}(" not in code.replace(f"def {name}(", ""):
            for arguments in getattr(function, "_cases", [{}]):
                function(**arguments)


def _is_own(name: str) -> bool:
    return hasattr(builtins, name) or name in OWN_MODULES


def _has(target: object, method: str) -> bool:
    return any(method in base.__dict__ for base in type(target).__mro__)


def _line_of(error: BaseException) -> str:
    line = line_in(error, TEST_FILE)
    return f" (line {line} of the test)" if line else ""


def _shown(value: object, width: int = 120) -> str:
    """About `width` characters of a value; an object of the program says nothing itself."""
    if isinstance(value, (Remote, RemoteError)):
        return "an object"
    if type(value) in (list, tuple, set, dict):
        pieces = []
        for item in list(value.items() if type(value) is dict else value)[:20]:
            pieces.append(_shown(item, 30))
        text = f"{type(value).__name__}({', '.join(pieces)})"
        if type(value) is list:
            text = f"[{', '.join(pieces)}]"
    elif type(value) is int and value.bit_length() > 400:
        text = "a very large integer"
    elif type(value) in (str, bytes):
        text = repr(value[:width])
    else:
        text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."
