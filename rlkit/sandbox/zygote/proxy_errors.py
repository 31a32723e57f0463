"""Exceptions that travel: Python's own by name, a program's own classes by number.

The receiver raises its own builtin class with the same arguments, or a class that
stands for the program's and has the same bases, so `except` by name works. Left out:
tracebacks, notes, and the context (the cause is carried, a few deep).
"""

from __future__ import annotations

import builtins

from rlkit.sandbox.zygote.harness import describe, text_of

_MAX_CAUSES = 4

#: Every exception class that Python itself has, by name.
BUILTIN_ERRORS = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and value.__name__ == name
}


def pack_error(values, error: BaseException, causes: int = _MAX_CAUSES) -> tuple:
    """An exception as plain data: (what, args, text, told, cause)."""
    kind = type(error)
    text = text_of(error)
    known = BUILTIN_ERRORS.get(kind.__name__) is kind
    own = values.home_number(error)
    if own is not None:
        what: object = ("o", own)
    else:
        what = kind.__name__ if known else values.pack(error)
    try:
        args = [values.pack(arg) for arg in tuple(error.args)] if known else []
    except BaseException:
        args = [text]
    cause = error.__cause__
    packed = pack_error(values, cause, causes - 1) if cause is not None and causes else None
    return what, args, text, describe(error), packed


def unpack_error(values, packed: object) -> BaseException:
    """This end's own exception for one that the other end packed."""
    if type(packed) is not tuple or len(packed) != 5:
        values.end("TAMPERED", "the program sent a broken exception")
    what, args, text, told, cause = packed
    if type(text) is not str or type(told) is not str or type(args) is not list:
        values.end("TAMPERED", "the program sent a broken exception")
    if type(what) is str:
        kind = BUILTIN_ERRORS.get(what, RuntimeError)
        try:
            error = kind(*[values.unpack(arg) for arg in args])
        except (TypeError, ValueError):  # a class that wants other arguments, as Unicode errors do
            error = RuntimeError(text)
    else:
        error = values.unpack(what)
        if not isinstance(error, BaseException):
            values.end("TAMPERED", "the program raised what is no exception")
        if getattr(type(error), "_rl_stands", False):
            error._rl_text = text
    if values.leads:
        error._rl_told = told[:300]
    if cause is not None:
        error.__cause__ = unpack_error(values, cause)
    return error
