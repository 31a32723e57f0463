"""Cutting the network off while a lesson runs, so that a lesson that needs it is found out.

Two ways, the stronger first:

* `namespace`: the run happens in a network namespace of its own (`unshare -rn`, Linux), where
  only the loopback interface exists. That holds for every process of the lesson.
* `guard`: Python's sockets and resolver in the kernel refuse everything but this machine. A
  process that the lesson starts is not covered, and a run in this way says so.

Left out on purpose: containers. What a lesson may do to files is not looked at here.
"""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
from functools import cache
from typing import Any, Literal

Cut = Literal["namespace", "guard"]
SENTENCES: dict[str, str] = {
    "namespace": "network cut off (a network namespace of its own)",
    "guard": "network refused in the kernel (sockets and resolver; other processes not covered)",
}
_PREFIX = ("unshare", "--map-root-user", "--net", "--")
_LOCAL = ("127.", "::1", "localhost", "0.0.0.0")


@cache
def available_cut() -> Cut:
    """`namespace` where this machine lets us have one, else `guard`."""
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        return "guard"
    trial = [*_PREFIX, sys.executable, "-m", __name__]
    return "namespace" if subprocess.run(trial, capture_output=True).returncode == 0 else "guard"


def command_prefix(cut: Cut) -> tuple[str, ...]:
    """What goes before a command so that it runs without a network."""
    return _PREFIX if cut == "namespace" else ()


def raise_loopback() -> None:
    """Switches the loopback interface on; a new namespace has it, but off.

    Raises:
        OSError: not allowed, or not Linux.
    """
    import fcntl

    get_flags, set_flags, up = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(s, get_flags, request), 16)
        fcntl.ioctl(s, set_flags, struct.pack("16sh22x", b"lo", flags | up))


def guard() -> None:
    """Makes this process refuse every connection and every name that is not of this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    sendto, resolve = socket.socket.sendto, socket.getaddrinfo

    def refuse(address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else None
        if host is not None and not str(host).startswith(_LOCAL):
            raise OSError(f"the network is cut off while lessons are checked: {host}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse(address)
        return connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse(address)
        return connect_ex(self, address)

    def guarded_sendto(self: socket.socket, data: bytes, *rest: Any) -> int:
        refuse(rest[-1])
        return sendto(self, data, *rest)

    def guarded_resolve(host: Any, *rest: Any, **more: Any) -> Any:
        if host not in (None, "", b""):
            refuse((host.decode() if isinstance(host, bytes) else host,))
        return resolve(host, *rest, **more)

    socket.socket.connect = guarded_connect  # type: ignore[method-assign]
    socket.socket.connect_ex = guarded_connect_ex  # type: ignore[method-assign]
    socket.socket.sendto = guarded_sendto  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = guarded_resolve


if __name__ == "__main__":
    raise_loopback()
