"""The child's side of a job: load the program, call it, send back what it returned.

It runs as a fresh interpreter (`python -s -S -B harness.pyc`) for one job and
knows the program, the name to call and the arguments. It does not know what is
expected, so there is nothing in this process to find, to patch or to compare
with: whatever a program does to the harness, the only way to be paid is to send
the right values.

It first rings a doorbell, a pipe of its own that is closed before the program is
touched: the fences that stand, and the time. Answers then go as one line each
through the channel. A line holds an encoded tuple: `("broken", kind, message)`,
`("value", index, bytes, seconds)`, `("error", index, kind, message, seconds)`,
`("odd", index, message, seconds)`, `("done", peak_kb)`.

Speed decides what is imported here: nothing beyond built-in modules, see `guard`.
"""

from __future__ import annotations

import posix
import sys
import time

if __name__ == "__main__":
    import codec
    import guard
else:  # read by documentation and tests; in a job the three files lie side by side
    from rlkit.sandbox import codec, guard

FILE_NAME = "solution.py"

#: Names that solutions use in annotations and forget to import.
TYPING_NAMES = frozenset(
    (
        *("Any", "Callable", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator"),
        *("Iterable", "Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional"),
        *("Sequence", "Set", "Tuple", "TypeVar", "Union"),
    )
)


def main() -> None:
    request = codec.decode(_read_all(0))
    _replace_stdin()
    channel = request["channel"]
    status = _own_status()
    # What the program could import or look up by name must be Python's own.
    del sys.path[0], sys.modules["codec"], sys.modules["guard"]
    sys.path_importer_cache.clear()
    sys.argv[:] = [FILE_NAME]
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    # To import from later: the standard library, and shared libraries next to it.
    request["readable"] += (*sys.path, sys.base_prefix + "/lib")
    send = Sender(channel, request["result_bytes"])
    ready = guard.install(request), time.monotonic()
    posix.write(request["doorbell"], codec.encode(ready))
    posix.close(request["doorbell"])

    find = load(request, send)
    if find is not None:
        for index, wire in enumerate(request["inputs"]):
            run_test(send, index, find, wire)
    _flush()
    send("done", _peak_kb(status))
    # No atexit, no finalisers: they are the program's code, and the job is over.
    posix._exit(0)


class Sender:
    """Writes messages to the host, whole lines at a time."""

    def __init__(self, channel: int, limit: int) -> None:
        self.channel = channel
        self.limit = limit

    def __call__(self, *message: object) -> None:
        text = codec.encode(message)
        # A line may not contain a line break: %0A stands for it, and %25 for a per cent sign.
        line = b"\n" + text.replace(b"%", b"%25").replace(b"\n", b"%0A") + b"\n"
        while line:
            line = line[posix.write(self.channel, line) :]


def load(request: dict, send: Sender):
    """Compile and execute the program; returns a function that finds its entry, or None."""
    source = request["source"].removeprefix("\ufeff")
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        send("broken", "COMPILE_ERROR", f"{type(error).__name__}: {error.msg}{where}")
        return None
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        # NUL bytes, lone surrogates, a program too large or too deep for the compiler
        send("broken", "COMPILE_ERROR", describe(error))
        return None
    module = type(sys)("solution")
    module.__file__ = FILE_NAME
    sys.modules["solution"] = module
    space = module.__dict__
    if "random" in source:
        import random

        random.seed(request["seed"])
    missing = TYPING_NAMES.intersection(_names(code))
    if missing:
        import typing

        space.update({name: getattr(typing, name) for name in missing})
    try:
        exec(code, space)
        find = find_entry(space, request["entry"])
    except BaseException as error:  # SystemExit and KeyboardInterrupt are failures too
        send("broken", kind_of(error), describe(error))
        return None
    return find


def find_entry(space: dict, entry: str):
    """A function that gives the callable for one test, freshly bound for each."""
    first, *rest = entry.split(".")
    if first in space:
        owner = space[first]
        if not rest:
            if not callable(owner):
                raise TypeError(f"{entry!r} is not a function")
            return lambda: owner
    elif not rest and isinstance(space.get("Solution"), type):
        owner, rest = space["Solution"], [first]
    else:
        defined = [name for name in space if not name.startswith("_") and callable(space[name])]
        listed = ", ".join(defined[:8]) if defined else "no function at all"
        raise NameError(f"the program defines no {entry!r}; it defines {listed}")

    def find():
        found = owner() if isinstance(owner, type) else owner
        for name in rest:
            found = getattr(found, name)
        return found

    if not callable(find()):
        raise TypeError(f"{entry!r} is not a function")
    return find


def run_test(send: Sender, index: int, find, wire: bytes) -> None:
    args, kwargs = codec.decode(wire)
    started = time.perf_counter()
    try:
        value = find()(*args, **kwargs)
    except BaseException as error:
        seconds = time.perf_counter() - started
        send("error", index, kind_of(error), describe(error), seconds)
        return
    seconds = time.perf_counter() - started
    try:
        answer = codec.encode(value, max_bytes=send.limit)
    except codec.CodecError as error:
        send("odd", index, str(error), seconds)
        return
    except BaseException as error:  # a metaclass may do anything when its name is asked for
        send("odd", index, describe(error), seconds)
        return
    send("value", index, answer, seconds)


def kind_of(error: BaseException) -> str:
    return "MEMORY_LIMIT" if isinstance(error, MemoryError) else "RUNTIME_ERROR"


def describe(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (line 3)`, whatever the exception does."""
    try:
        name = str.__str__(type(error).__name__)[:80]
        text = str.__str__(str(error))[:300]
        line, step = 0, error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == FILE_NAME:
                line = step.tb_lineno
            step = step.tb_next
        where = f" (line {line})" if line else ""
        return f"{name}: {text}{where}" if text else f"{name}{where}"
    except BaseException:
        return "an exception that cannot be described"


def _names(code) -> set[str]:
    """Every global name that the program or one of its functions looks up."""
    names, todo = set(), [code]
    while todo:
        part = todo.pop()
        names.update(part.co_names)
        todo.extend(constant for constant in part.co_consts if type(constant) is type(code))
    return names


def _read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := posix.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _replace_stdin() -> None:
    # input() then ends at once instead of waiting, and the request is out of reach.
    nothing = posix.open("/dev/null", posix.O_RDONLY)
    posix.dup2(nothing, 0)
    posix.close(nothing)


def _own_status() -> int | None:
    """Our own status file, opened before the fence closes /proc."""
    try:
        return posix.open("/proc/self/status", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return None


def _peak_kb(status: int | None) -> int | None:
    """The most memory ever resident, in KiB; None where the system does not tell."""
    try:
        text = posix.pread(status, 8192, 0)
        return int(text.split(b"VmHWM:")[1].split()[0])
    except (OSError, TypeError, IndexError, ValueError):  # no /proc, or closed by the program
        return None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException as error:
            # The program closed or replaced its own stream; its output is only for showing.
            del error


if __name__ == "__main__":
    main()
