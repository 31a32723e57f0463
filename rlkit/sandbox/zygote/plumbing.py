"""Descriptors of the zygote: pipes, streams, and the process ids that one can wait on."""

from __future__ import annotations

import os

#: No descriptor of the zygote itself lies below, so that a child can use the low numbers.
FIRST_DESCRIPTOR = 16


def move_descriptors(source: int, target: int) -> tuple[int, int]:
    """Our own descriptors go up; below, standard input and output are nothing."""
    nothing = os.open("/dev/null", os.O_RDWR)
    while True:  # everything below the first of ours is taken
        number = os.dup(nothing)
        if number >= FIRST_DESCRIPTOR:
            os.close(number)
            break
    high = os.dup(source)
    other = os.dup(target)
    os.dup2(nothing, 0, inheritable=True)
    os.dup2(nothing, 1, inheritable=True)
    for descriptor in {source, target} - {0, 1}:
        os.dup2(nothing, descriptor)
    return high, other


def pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def pipe(size: int = 0, blocking: bool = False) -> tuple[int, int]:
    reading, writing = os.pipe()
    if not blocking:
        os.set_blocking(reading, False)
    if size:
        import fcntl

        if hasattr(fcntl, "F_SETPIPE_SZ"):
            try:
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, size)
            except OSError:
                return reading, writing  # a small one is emptied at each tick
    return reading, writing


def socket_pair() -> tuple[int, int]:
    import _socket

    ends = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    return ends[0].detach(), ends[1].detach()


def read(descriptor: int, count: int) -> bytes | None:
    """Exactly so many bytes, or None at the end of the stream."""
    pieces = []
    while count:
        piece = os.read(descriptor, count)
        if not piece:
            return None
        pieces.append(piece)
        count -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write(descriptor: int, pieces: list) -> None:
    views = [memoryview(piece) for piece in pieces]
    while views:
        count = os.writev(descriptor, views)
        while views and count >= len(views[0]):
            count -= len(views[0])
            views.pop(0)
        if views and count:
            views[0] = views[0][count:]
