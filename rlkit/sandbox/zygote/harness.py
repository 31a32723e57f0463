"""The mode `func`: load the program, call it, send back what it returned.

It knows the program, the name to call and the arguments. It does not know what is
expected, so there is nothing in this process to find, to patch or to compare with:
whatever a program does to the harness, the only way to be paid is to send the right
values.

Answers go as one line each through the channel, a pipe that is the only descriptor
beside the standard ones. A line holds an encoded tuple: `("broken", kind, message)`,
`("value", index, bytes, seconds)`, `("error", index, kind, message, seconds)`,
`("odd", index, message, seconds)`, `("done", None)`.

A zygote has loaded this before the job began. Speed decides what is imported here:
nothing beyond built-in modules.
"""

from __future__ import annotations

import posix
import sys
import time

from rlkit.sandbox import codec

FILE_NAME = "solution.py"

#: No program gets a higher recursion limit: each level takes memory, and an endless recursion
#: is to end as an exception long before the memory does.
MAX_RECURSION = 200_000

#: Names that solutions use in annotations and forget to import.
TYPING_NAMES = frozenset(
    (
        *("Any", "Callable", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator"),
        *("Iterable", "Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional"),
        *("Sequence", "Set", "Tuple", "TypeVar", "Union"),
    )
)


def main(request: dict, send: Sender) -> None:
    """Run the tests of one job; `request` has source, entry, inputs and seed."""
    find = load(request, send)
    if find is not None:
        for index, wire in enumerate(request["inputs"]):
            run_test(send, index, find, wire)
    flush()
    send("done", None)


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
    """Load the program; returns a function that finds its entry, or None."""
    space, status, message = load_program(request["source"], request["seed"])
    if not status:
        try:
            return find_entry(space, request["entry"])
        except BaseException as error:  # a property of the program's may do anything
            status, message = kind_of(error), describe(error)
    send("broken", status, message)
    return None


def load_program(source: str, seed: int) -> tuple[dict, str, str]:
    """Compile and run a program as the module `solution`; status and message are empty if it ran.

    Returns:
        its name space, a status, and a message.
    """
    source = source.removeprefix("\ufeff")
    try:
        code = compile(source, FILE_NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        return {}, "COMPILE_ERROR", f"{type(error).__name__}: {error.msg}{where}"
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        # NUL bytes, lone surrogates, a program too large or too deep for the compiler
        return {}, "COMPILE_ERROR", describe(error)
    module = type(sys)("solution")
    module.__file__ = FILE_NAME
    sys.modules["solution"] = module
    space = module.__dict__
    if "random" in source:
        import random

        random.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "random"):
            numpy.random.seed(seed % (1 << 32))
    missing = TYPING_NAMES.intersection(_names(code))
    if missing:
        import typing

        space.update({name: getattr(typing, name) for name in missing})
    try:
        exec(code, space)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are failures too
        return {}, kind_of(error), describe(error)
    return space, "", ""


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


def rehearse() -> None:
    """Run a small job for nobody; what every job needs is then at hand."""
    inputs = (codec.encode(((1,), {})),) * 2
    told = {"source": "def f(x):\n    return [x]\n", "entry": "f", "inputs": inputs, "seed": 0}
    main(codec.decode(codec.encode(told)), _Nowhere(-1, 1024))
    del sys.modules["solution"]


class _Nowhere(Sender):
    def __call__(self, *message: object) -> None:
        codec.encode(message)


def kind_of(error: BaseException) -> str:
    return "MEMORY_LIMIT" if isinstance(error, MemoryError) else "RUNTIME_ERROR"


def describe(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (line 3)`, whatever the exception does."""
    try:
        name = str.__str__(type(error).__name__)[:80]
        text = text_of(error)[:300]
        line = line_in(error, FILE_NAME)
        where = f" (line {line})" if line else ""
        return f"{name}: {text}{where}" if text else f"{name}{where}"
    except BaseException:
        return "an exception that cannot be described"


def text_of(error: BaseException) -> str:
    """What an exception says of itself, empty when that is no text or fails."""
    try:
        text = str(error)
        return str.__str__(text)[:2000] if issubclass(type(text), str) else ""
    except BaseException:
        return ""


def line_in(error: BaseException, file: str) -> int:
    """The innermost line of a file that an exception came through, 0 for none."""
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            line = step.tb_lineno
        step = step.tb_next
    return line


def prepare_interpreter() -> None:
    """Make this interpreter look to a program as if nothing of ours were there."""
    for finder in [finder for finder in sys.meta_path if hasattr(finder, "rlkit")]:
        sys.meta_path.remove(finder)
        finder.find_spec.__globals__["code"].clear()  # what was not needed is not kept
    # A program that looks for us finds us, under the name where it would look first.
    sys.modules["__main__"] = sys.modules[__name__]
    for name in [name for name in sys.modules if name.partition(".")[0] == "rlkit"]:
        del sys.modules[name]
    sys.argv[:] = [FILE_NAME]
    sys.orig_argv[:] = ["python", FILE_NAME]
    sys.path_importer_cache.clear()
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    set_limit = sys.setrecursionlimit

    def setrecursionlimit(limit, /):
        """Set the maximum depth of the Python interpreter stack, to 200,000 at most."""
        set_limit(min(limit, MAX_RECURSION) if type(limit) is int else limit)

    sys.setrecursionlimit = setrecursionlimit


def flush() -> None:
    """Write out what the program printed and Python still holds."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException as error:
            # The program closed or replaced its own stream; its output is only for showing.
            del error


def _names(code) -> set[str]:
    """Every global name that the program or one of its functions looks up."""
    names, todo = set(), [code]
    while todo:
        part = todo.pop()
        names.update(part.co_names)
        todo.extend(constant for constant in part.co_consts if type(constant) is type(code))
    return names
