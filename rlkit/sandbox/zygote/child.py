"""What a forked child does from its first instruction to the first line of the program.

It puts on the fences, receives its request (which has never been in the zygote's own
memory, so no later job can find it there), rings the doorbell, a page of shared memory
that it unmaps before the program is touched, and becomes the program.
"""

from __future__ import annotations

import gc
import mmap
import os
import posix
import time

from rlkit.sandbox import codec
from rlkit.sandbox.zygote import harness, kernel

#: Descriptors of a child: answers to the zygote, the other process of a mode of two, and,
#: until the request has been read, where it comes from and the word to begin.
CHANNEL, PEER, SOURCE, GO = 3, 4, 5, 6
#: Only where root's Python is to be read by another user: the folder of the standard library.
LIBRARY = 7

#: No descriptor of the zygote is higher.
DESCRIPTORS = 256

#: How far a child has come, as it writes it on its page.
EMPTY, RECEIVED, READY, NOT_RUN = 0, 1, 2, 3

PAGE = 4096
_SIGPIPE, _SIGXFSZ = 13, 25


class Doorbell:
    """A page that the zygote and one child share until the child is ready."""

    def __init__(self) -> None:
        self.page = mmap.mmap(-1, PAGE)

    def clear(self) -> None:
        self.page[0] = EMPTY

    @property
    def state(self) -> int:
        return self.page[0]

    def received(self) -> None:
        self.page[0] = RECEIVED

    def ring(self, fences: list[str]) -> None:
        """Say which fences stand, and when; from here on the child knows nothing of the page."""
        text = ",".join(fences).encode()
        word = time.monotonic_ns().to_bytes(8, "little") + len(text).to_bytes(2, "little") + text
        self.page[1 : 1 + len(word)] = word
        self.page[0] = READY

    def not_run(self, error: int) -> None:
        self.page[0] = NOT_RUN
        self.page[1] = min(error, 255)

    def read(self) -> tuple[int, frozenset[str]]:
        """When the child was ready, in nanoseconds, and its fences."""
        length = int.from_bytes(self.page[9:11], "little")
        names = self.page[11 : 11 + length].decode().split(",")
        return int.from_bytes(self.page[1:9], "little"), frozenset(filter(None, names))


def run(job) -> None:
    """Be the child of a `serve.Job`; never returns."""
    leave = posix._exit
    try:
        _run(job)
        leave(0)
    except BaseException:
        leave(1)
    while True:  # whatever a program made of its own process, it goes no further than here
        posix.kill(posix.getpid(), 9)


def _run(job) -> None:
    order, fences = job.order, job.zygote.fences
    command = order.mode == "command"
    posix.setsid()
    _place_descriptors(job)
    os.chdir(job.folder)
    limits = order.limits
    if command:  # its files are put there first, and may be larger than it may write itself
        request = codec.decode(_receive(job.doorbell))
        _unpack(request)
        standing = fences.put_on(job.seat, command)
        posix.closerange(CHANNEL, DESCRIPTORS)
        standing += fences.limit(limits, command, order.memory, job.tasks)
        standing += fences.filter(limits, command)
        _become(request, job, standing)
    standing = fences.put_on(job.seat, command)
    posix.closerange(LIBRARY + 1 if job.zygote.holds_library else LIBRARY, DESCRIPTORS)
    standing += fences.filter(limits, command)
    if not job.role:
        harness.rehearse()  # while there is time: it touches the memory that the job will touch
    request = codec.decode(_receive(job.doorbell))
    standing += fences.limit(limits, command, order.memory, job.tasks)
    if job.peer is None:
        posix.close(PEER)
        # What it may see of itself it may read; of two processes neither may see the other.
        if kernel.available():
            kernel.call("prctl", kernel.PR_SET_DUMPABLE, 1, 0, 0, 0)
    if job.role == "candidate":
        posix.close(CHANNEL)
    job.doorbell.ring([*job.zygote.standing, *standing])
    for page in job.zygote.pages:
        page.page.close()
    send = harness.Sender(CHANNEL, limits["result_kb"] * 1024)
    main = job.main
    gc.enable()
    if job.role == "candidate":
        main(request, PEER)
    elif job.role == "verifier":
        main(request, PEER, send)
    else:
        main(request, send)


def _place_descriptors(job) -> None:
    """Put what the child needs under the numbers above; the zygote keeps its own elsewhere."""
    nothing = 0
    posix.dup2(nothing if job.channel is None else job.channel, CHANNEL)
    posix.dup2(nothing if job.peer is None else job.peer, PEER)
    posix.dup2(job.zygote.source, SOURCE)
    posix.dup2(job.go[0], GO)
    posix.dup2(job.out, 1)
    posix.dup2(job.err, 2)


def _receive(doorbell: Doorbell) -> bytes:
    """Wait for the word to begin, which is the length of the request, and read that much."""
    word = posix.read(GO, 8)
    if len(word) != 8:
        posix._exit(1)  # the zygote is gone
    posix.close(GO)
    left, pieces = int.from_bytes(word, "little"), []
    while left:
        piece = posix.read(SOURCE, min(left, 1 << 20))
        if not piece:
            posix._exit(1)
        pieces.append(piece)
        left -= len(piece)
    posix.close(SOURCE)
    doorbell.received()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unpack(request: dict) -> None:
    """Put the files of a command into its folder, which is the current one."""
    for name, data in request["files"].items():
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, 0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        _write_all(os.open(name, flags, 0o700), data)
    data = request["stdin"]
    if data:
        # Unlike a pipe it never fills up, and nobody has to feed it.
        if hasattr(os, "memfd_create"):
            place = os.memfd_create("stdin", os.MFD_CLOEXEC)
        else:
            place = os.open(".stdin", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.unlink(".stdin")
        posix.dup2(place, 0)
        _write_all(place, data)
        os.lseek(0, 0, os.SEEK_SET)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(descriptor, view) :]
    posix.close(descriptor)


def _become(request: dict, job, standing: list[str]) -> None:
    """Run the program of a command in this process's place."""
    import _signal

    for number in (_SIGPIPE, _SIGXFSZ):  # Python ignores them, and that would be inherited
        _signal.signal(number, _signal.SIG_DFL)
    folder = job.folder
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "LC_ALL": "C.UTF-8",
        **request["environment"],
    }
    job.doorbell.ring([*job.zygote.standing, *standing])
    try:
        posix.execve(request["argv"][0], request["argv"], environment)
    except OSError as error:
        job.doorbell.not_run(error.errno)
        posix._exit(127)
