"""Inproc mode: tests that share a process with the program, because they reach into it.

A test that replaces a part of the program, reads what it prints or derives from its classes
needs it at hand, and a program that means to can then pay itself. What is done against it
makes cheating a matter of intent, not of luck: `trust` stays weak.

* Each test has a process of its own, forked from one that never imports the program.
* A second process, which never does either, keeps the channel to the host. It hands the test
  and a nonce over after the program has been imported, and takes one record back.
* Builtins and the modules that tests are made of are compared by identity, before the import
  and after the test: a difference is tampering.
* The host counts the functions that a test has, and the record must name as many.
* Only a record and an exit by itself with code 0 together are a pass.

The socket is closed when anything else is executed. Left out: hiding the nonce from a program
that looks at its callers' frames.
"""

from __future__ import annotations

import builtins
import fcntl
import posix
import sys
import time

from rlkit.sandbox import codec
from rlkit.sandbox.zygote import harness, inproc_tests
from rlkit.sandbox.zygote.harness import load_program
from rlkit.sandbox.zygote.proxy_errors import describe

_MAX_FRAME = 1 << 20

#: Modules whose parts must be the same before and after.
WATCHED = ("builtins", "json", "os", "posix", "sys", "operator", "math", "re", "unittest")
#: Names that change by themselves.
_RESTLESS = frozenset(
    (
        *("_", "__warningregistry__", "last_traceback", "last_type", "last_value", "last_exc"),
        *("modules", "path_importer_cache", "meta_path", "path", "argv", "flags", "environ"),
        *("stdout", "stderr", "stdin"),
    )
)


def candidate(request: dict, sock: int) -> None:
    """The process of the program and its tests."""
    fcntl.fcntl(sock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    for name in request["imports"]:
        __import__(name)
    before = snapshot()
    compare, run, write, read = differences, inproc_tests.run, _write, _read
    space, status, message = load_program(request["source"], request["seed"])
    write(sock, ("loaded", status, message))
    while not status:
        order = read(sock)
        if order is None:
            break
        nonce, code, entry = order
        try:
            told = run(code, space, entry)
        except BaseException as error:  # not even the way of running tests is safe here
            told = "RUNTIME_ERROR", describe(error), 0
        write(sock, ("record", nonce, *told, compare(before)))
    harness.flush()


def verifier(request: dict, sock: int, send) -> None:
    """The process that hands out tests, takes records and tells the host."""
    word = _read(sock)
    if word is None or len(word) != 3 or [type(part) for part in word] != [str] * 3:
        send("broken", "NO_RESULT", "the program ended while it was loaded")
    elif word[1]:
        send("broken", word[1], word[2])
    else:
        for index, (code, count) in enumerate(request["tests"]):
            started = time.perf_counter()
            told = _one(sock, code, count, request["entry"])
            seconds = time.perf_counter() - started
            if told is None:
                send("passed", index, seconds)
                continue
            send("failed", index, *told, None, seconds)
            if told[0] in ("NO_RESULT", "TAMPERED"):
                break
        else:
            posix.write(sock, bytes(4))  # that is all
            if posix.read(sock, 1):
                send("more")
    send("done")


def _one(sock: int, code: str, count: int, entry: str) -> tuple[str, str] | None:
    nonce = posix.urandom(16)
    try:
        _write(sock, (nonce, code, entry))
        record = _read(sock)
    except OSError:
        record = None
    if record is None:
        return "NO_RESULT", "the program ended before the test was over"
    shape = [str, bytes, str, str, int, list]
    if [type(part) for part in record] != shape or record[:2] != ("record", nonce):
        return "TAMPERED", "what came back is not the record of this test"
    _, _, status, message, ran, changed = record
    if changed:
        return "TAMPERED", f"the program replaced {', '.join(map(str, changed[:3]))}"
    if status:
        return status, message
    if ran != count:
        return "TAMPERED", f"{ran} of {count} test functions were run"
    return None


def snapshot() -> dict[str, dict[str, object]]:
    """Every part of the watched modules, by name."""
    return {
        name: {key: part for key, part in vars(module).items() if key not in _RESTLESS}
        for name in WATCHED
        if (module := sys.modules.get(name)) is not None
    }


def differences(before: dict) -> list[str]:
    """Names of the parts that are not what they were."""
    changed = []
    for name, parts in before.items():
        module = sys.modules.get(name)
        now = {} if module is None else module.__dict__
        for key, part in parts.items():
            if now.get(key) is not part:
                changed.append(f"{name}.{key}")
    if sys.gettrace() is not None or sys.getprofile() is not None:
        changed.append("sys.settrace")
    if vars(builtins).get("__import__") is not before["builtins"]["__import__"]:
        changed.append("__import__")
    return changed


def _write(sock: int, message: tuple) -> None:
    wire = codec.encode(message, max_bytes=_MAX_FRAME)
    view = memoryview(len(wire).to_bytes(4, "big") + wire)
    while view:
        view = view[posix.write(sock, view) :]


def _read(sock: int) -> tuple | None:
    """One message; None at the end, or where it is none."""
    try:
        size = int.from_bytes(_exactly(sock, 4), "big")
        message = codec.decode(_exactly(sock, size)) if 0 < size <= _MAX_FRAME else None
    except (OSError, EOFError, codec.CodecError):
        return None
    return message if type(message) is tuple else None


def _exactly(sock: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = posix.read(sock, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
