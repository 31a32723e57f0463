"""Calls into the C library without `ctypes`, which takes 3 ms to import where `_ctypes` takes 0.3.

Numbers come back as C longs, -1 for failure with the reason in `error()`. A pointer is
given as bytes, a number as an int, nothing as None.

Left out on purpose: everything that Python's own `posix` module can do.
"""

from __future__ import annotations

import os
import sys

try:
    import _ctypes
except ImportError:  # an interpreter built without it can only limit resources
    _ctypes = None

LINUX = sys.platform.startswith("linux")

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_SECCOMP = 1, 4, 8, 22
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 24, 38, 36


class Refused(OSError):
    """The kernel refused a step that the rest depends on."""


if _ctypes is not None:

    class _Long(_ctypes._SimpleCData):
        _type_ = "l"

    class _Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = _Long

    _handle = _ctypes.dlopen(None, 0)
    _functions: dict[str, _Function] = {}


def available() -> bool:
    """Whether calls can be made here at all."""
    return LINUX and _ctypes is not None


def call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library.

    >>> call("getpid") > 1 if available() else True
    True
    """
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = _Function(_ctypes.dlsym(_handle, name))
    return function(*[_Long(a) if type(a) is int else a for a in arguments])


def error() -> int:
    """Why the last call failed, as an error number."""
    return _ctypes.get_errno()


def must(what: str, name: str, *arguments: int | bytes | None) -> int:
    """Call, and raise `Refused` with the name of the step when the kernel says no."""
    answer = call(name, *arguments)
    if answer < 0:
        import os

        number = error()
        raise Refused(number, f"{what}: {os.strerror(number)}")
    return answer


def kept(data: bytes) -> tuple[int, object]:
    """The address of a copy of the data, and what must be held on to while it is used."""

    class Char(_ctypes._SimpleCData):
        _type_ = "c"

    class Block(_ctypes.Array):
        _type_ = Char
        _length_ = len(data)

    block = Block.from_buffer_copy(data)
    return _ctypes.addressof(block), block


def address_space_mb() -> int:
    """Mebibytes of address space that are in use already, beyond a bare interpreter's 20."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
    except OSError:
        return 0
    return max(0, pages * os.sysconf("SC_PAGE_SIZE") // (1 << 20) - 20)
