"""One job in an interpreter of its own, for places where nothing can be kept warm.

A container, or a remote service that runs one program, starts this with everything on its
standard input: the code, a head (mode, limits), and one request for each process. What the
host is to hear goes to standard output; what the program prints goes to standard error. The
same fences as in a zygote are put on, as far as the place has them, and the first line that
the host hears, before the program was read, says which. The mode `command` runs another program
in this one's place, behind the same fences; the rest of standard input is the program's.

Some services carry text only. For them the requests are hexadecimal, and what the host is to
hear is ASCII.

Left out on purpose: supervision. The wall clock and the end of all processes are a matter of
the place that this runs in.
"""

from __future__ import annotations

import os
import sys
import time

from rlkit.sandbox import codec
from rlkit.sandbox.zygote import fences, harness, kernel, landlock, seccomp
from rlkit.sandbox.zygote.child import CHANNEL, PEER

#: A candidate has so many seconds to end by itself, when the verifier is done.
PATIENCE_S = 0.5

_SIGPIPE, _SIGXFSZ = 13, 25


def main(text: bool = False) -> None:
    """Read the head and the requests from standard input, and run them.

    Args:
        text: whether only text can be carried, in both directions.
    """
    if text:
        _Stream.read = staticmethod(_read_text)
    head = codec.decode(_read_block())
    limits, mode = head["limits"], head["mode"]
    sys.path[:] = [path for path in sys.path if path and path != os.getcwd()]
    if not head.get("imports"):  # what is installed here is no part of the language
        sys.path[:] = [path for path in sys.path if not path.endswith("-packages")]
    if mode == "command":
        _become(codec.decode(_read_block()), _Fence(limits, head["readable"], True), head)
    name = "harness" if mode == "func" else mode
    module = f"rlkit.sandbox.zygote.{name}"
    __import__(module)
    module = sys.modules[module]
    for library in head["imports"]:  # where one is missing, no program is to blame
        __import__(library)
    _move_descriptors()
    held = kernel.address_space_mb() if head["imports"] else 0
    fence = _Fence(limits, head["readable"], wanted=head["fences"], extra_mb=held)
    harness.prepare_interpreter()
    sender = _TextSender if text else harness.Sender
    send = sender(CHANNEL, limits["result_kb"] * 1024)
    if not hasattr(module, "candidate"):
        request = codec.decode(_read_block())
        _nothing_more_to_read()
        send("fences", tuple(sorted(fence.put_on())))
        module.main(request, send)
    else:
        _two(module, fence, send)
    os._exit(0)


def _two(module, fence: _Fence, send: harness.Sender) -> None:
    """The candidate is forked before the verifier's part is read, and never sees it."""
    import _socket

    if kernel.available():  # from now on nobody looks into what this process reads
        kernel.call("prctl", kernel.PR_SET_DUMPABLE, 0, 0, 0, 0)
    here, there = (end.detach() for end in _socket.socketpair())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(CHANNEL)
            os.close(reading)
            os.close(here)
            request = codec.decode(_read_block())
            _nothing_more_to_read()
            os.close(writing)
            _take_place(there, PEER)
            fence.put_on(die=True)
            module.candidate(request, PEER)
        finally:
            os._exit(0)
    # The candidate dies with this process, whatever becomes of it.
    os.close(writing)
    os.close(there)
    os.read(reading, 1)  # at its end the candidate has its part, and the next is ours
    os.close(reading)
    request = codec.decode(_read_block())
    _nothing_more_to_read()
    _take_place(here, PEER)
    send("fences", tuple(sorted(fence.put_on())))
    module.verifier(request, PEER, send)
    os.close(PEER)
    send("ended", _end_of(child))


def _end_of(child: int) -> int | None:
    """Exit code, or minus the number of the signal; None for one that goes on running."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def _become(request: dict, fence: _Fence, head: dict) -> None:
    """Run another program in this process's place; never returns."""
    import _signal

    for number in (_SIGPIPE, _SIGXFSZ):  # Python ignores them, and that would be inherited
        _signal.signal(number, _signal.SIG_DFL)
    fence.put_on(command=True, memory=head["memory"])
    try:
        os.execve(request["argv"][0], request["argv"], request["environment"])
    finally:
        os._exit(127)


class _TextSender(harness.Sender):
    """A sender whose lines are ASCII: every other byte is a per cent sign and two digits."""

    def __call__(self, *message: object) -> None:
        text = codec.encode(message).replace(b"%", b"%25").replace(b"\n", b"%0A")
        if not text.isascii():
            text = b"".join(b"%%%02X" % byte if byte > 127 else _BYTES[byte] for byte in text)
        line = b"\n" + text + b"\n"
        while line:
            line = line[os.write(self.channel, line) :]


_BYTES = tuple(bytes((byte,)) for byte in range(128))


class _Fence:
    """The fences of a zygote's child, for a process that has no zygote.

    Args:
        command: whether another program takes this process's place.
        wanted: False leaves all of them out, to see what the place itself holds back.
    """

    def __init__(
        self,
        limits: dict,
        readable: tuple[str, ...],
        command: bool = False,
        wanted: bool = True,
        extra_mb: int = 0,
    ) -> None:
        self.limits = limits
        self.wanted = wanted
        abi = landlock.version()
        filters = kernel.available() and seccomp.program(os.uname().machine) is not None
        self.fences = fences.Fences(
            abi=abi,
            filters=bool(filters),
            limits=True,
            readable=(*sys.path, sys.base_prefix + "/lib", *readable),
            programs=command or limits["processes"] > 0,
            network=limits["network"],
            private=False,
            alone=False,
            writing=True,
            tag=None,
            extra_mb=extra_mb,
        )
        if wanted:
            self.fences.prepare("here", (os.getcwd(),), limits, command)

    def put_on(
        self, die: bool = False, command: bool = False, memory: str = "address"
    ) -> list[str]:
        standing = []
        if not self.wanted:
            os.closerange(PEER + 1, 64)
            return standing
        self.fences.parent = os.getppid()
        if kernel.available():
            if fences.drop_capabilities():
                standing.append("no_capabilities")
            if fences.no_new_privileges():
                standing.append("no_new_privileges")
            kernel.call("prctl", kernel.PR_SET_DUMPABLE, 0, 0, 0, 0)
        standing += self.fences.put_on("here", command, die)
        os.closerange(3 if command else PEER + 1, 64)
        standing += self.fences.limit(self.limits, command, memory, 1)
        return standing + self.fences.filter(self.limits, command)


def _move_descriptors() -> None:
    """The channel is what was standard output; prints go where errors go."""
    os.dup2(1, CHANNEL, inheritable=False)
    os.dup2(2, 1)
    os.dup2(0, PEER, inheritable=False)  # keeps the number free


def _nothing_more_to_read() -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _take_place(descriptor: int, number: int) -> None:
    if descriptor != number:
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)


def _read_block() -> bytes:
    """A length of four bytes, and so many bytes."""
    pieces, left = [], int.from_bytes(_exactly(4), "little")
    while left:
        piece = _exactly(min(left, 1 << 20))
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _exactly(count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = _Stream.read(count - len(data))
        if not piece:
            os._exit(1)  # whoever started this has gone away
        data += piece
    return data


def _read_bytes(count: int) -> bytes:
    return os.read(0, count)


def _read_text(count: int) -> bytes:
    """So many bytes at most, from twice as many digits."""
    digits = os.read(0, 2 * count)
    if len(digits) % 2:
        digits += os.read(0, 1)
    return bytes.fromhex(digits.decode("ascii"))


class _Stream:
    """Where orders come from."""

    read = staticmethod(_read_bytes)
