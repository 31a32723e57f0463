"""The zygote's side of a running job: drain it, stop it at its limits, leave nothing.

No verdict is formed here. Facts are collected (what arrived, who ended the process and
how) and sent to the host in one piece. What a program wrote never becomes an object of
this process: it goes from the pipe into a block of memory that no child inherits, from
there to the host, and is wiped.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import time

from rlkit.sandbox.zygote.child import NOT_RUN, READY, RECEIVED

#: A child that has not come up after so many seconds never will.
START_S = 20.0
#: How often a running job is looked at: memory, disk, its answers.
TICK_S = 0.025
#: After its channel has closed, a process gets so many seconds to end by itself.
GRACE_S = 0.1
#: How much is taken out of a pipe at once.
READ_BYTES = 1 << 16
#: Rounds of search after which a fork bomb is killed as it stands.
MAX_ROUNDS = 50

_PAGE = os.sysconf("SC_PAGE_SIZE")
_DONTFORK = getattr(mmap, "MADV_DONTFORK", None)


class Room:
    """Memory for what one job writes; no child ever sees it."""

    def __init__(self) -> None:
        self._make(1 << 21)

    def _make(self, size: int) -> None:
        self.size = size
        self.block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if _DONTFORK is not None:
            self.block.madvise(_DONTFORK)
        self.view = memoryview(self.block)

    def fit(self, size: int) -> None:
        """Make sure that it holds so many bytes."""
        if size > self.size:
            self.view.release()
            self.block.close()
            self._make(-(-size // _PAGE) * _PAGE)

    def wipe(self, used: int) -> None:
        """Forget the first so many bytes."""
        if used and hasattr(mmap, "MADV_DONTNEED"):
            self.block.madvise(mmap.MADV_DONTNEED, 0, -(-used // _PAGE) * _PAGE)
        elif used:
            self.block[:used] = bytes(used)


class Stream:
    """One pipe of a job, and the part of the room that its contents go to."""

    __slots__ = ("end", "open", "pipe", "start")

    def __init__(self, pipe: int, start: int) -> None:
        self.pipe = pipe
        self.start = self.end = start
        self.open = True

    @property
    def size(self) -> int:
        return self.end - self.start


class Watch:
    """Follows one job to its end.

    Args:
        job: the running `serve.Job`.
        room: where to put what it writes.
    """

    def __init__(self, job, room: Room) -> None:
        self.job = job
        self.view = room.view
        limits = job.order.limits
        self.limits = limits
        output = limits["output_kb"] * 1024
        results = limits["result_kb"] * 1024 + 65536  # values, and their wrapping
        self.channel = Stream(job.pipes[0], 0)
        self.out = Stream(job.pipes[1], results)
        self.err = Stream(job.pipes[2], results + output)
        self.output_left = output
        self.results = results
        self.ended = "exit"
        self.stopped_by = ""
        self.truncated = False
        self.peak_pages = 0
        self.orphans = 0
        self.gone = False
        self.ready_ns = 0
        self.fences: frozenset[str] = frozenset()
        self.closed_at: float | None = None

    def until_the_end(self) -> None:
        """Returns when the job's last process ended or a limit is passed."""
        job, streams = self.job, {}
        poll = select.poll()
        for stream in (self.channel, self.out, self.err):
            if stream.pipe is not None:
                streams[stream.pipe] = stream
                # Answers wait in their pipe until it closes or the next tick: waking up for
                # each of them would take the processor from the program that makes them.
                poll.register(stream.pipe, 0 if stream is self.channel else select.POLLIN)
        exits = job.exits
        if exits is not None:
            poll.register(exits, select.POLLIN)
        poll.register(job.zygote.source, 0)
        if job.zygote.host is not None:
            poll.register(job.zygote.host, select.POLLIN)
        started = time.monotonic()
        looked_at = started
        while True:
            left = self._seconds_left(started)
            if left <= 0:
                self.end("wall" if self.ready_ns else "start", "wall clock")
                return
            ready = poll.poll(1000 * min(left, TICK_S if exits is not None else 0.002) + 1)
            for descriptor, _ in ready:
                stream = streams.get(descriptor)
                if stream is not None:
                    if not self.take(stream):
                        poll.unregister(descriptor)
                        del streams[descriptor]
                elif descriptor == exits:
                    return
                else:  # the host is gone, or has gone away from this job
                    self.end("cancelled", "the host")
                    self.gone = True
                    return
            if self.ended != "exit":
                return
            if exits is None and job.has_exited():
                return
            if not self.channel.open:
                # The program closed its channel; give it a moment to end by itself.
                now = time.monotonic()
                self.closed_at = self.closed_at or now
                if now - self.closed_at > GRACE_S:
                    self.end("closed", "")
                    return
            now = time.monotonic()
            if now - looked_at > TICK_S:
                looked_at = now
                if self.channel.pipe in streams and not self.take(self.channel):
                    poll.unregister(self.channel.pipe)
                    del streams[self.channel.pipe]
                self._look()
                if self.ended != "exit":
                    return

    def drain(self) -> None:
        """Take what still lies in the pipes of processes that are gone."""
        for stream in (self.channel, self.out, self.err):
            if stream.open and stream.pipe is not None:
                self.take(stream)

    def end(self, why: str, layer: str) -> None:
        if self.ended == "exit":
            self.ended, self.stopped_by = why, layer

    def take(self, stream: Stream) -> bool:
        """Take what a pipe holds; False at its end."""
        answers = stream is self.channel
        while True:
            room = self.results - stream.size if answers else self.output_left
            want = min(room, READ_BYTES)
            # One byte beyond the limit tells that there was more.
            target = self.view[stream.end : stream.end + want] if want else bytearray(1)
            try:
                count = os.readv(stream.pipe, [target])
            except BlockingIOError:
                return True
            if count == 0:
                stream.open = False
                return False
            if not want:
                self.truncated = self.truncated or not answers
                self.end(*(("result", "result limit") if answers else ("output", "output limit")))
                return True
            stream.end += count
            if not answers:
                self.output_left -= count
            if count < want:
                return True

    def _seconds_left(self, started: float) -> float:
        if not self.ready_ns:
            for doorbell in self.job.doorbells:
                if doorbell.state != READY:
                    return started + START_S - time.monotonic()
            self.learn()
        return self.ready_ns / 1e9 + self.limits["wall_s"] - time.monotonic()

    def learn(self) -> None:
        """Take from the doorbells when the job began, and behind which fences."""
        told = [doorbell.read() for doorbell in self.job.doorbells]
        self.ready_ns = max(when for when, _ in told)
        self.fences = frozenset.intersection(*(fences for _, fences in told))

    def _look(self) -> None:
        """Memory and disk of the running job."""
        job = self.job
        job.reap_strays(self)
        pages = job.resident_pages()
        if pages > self.peak_pages:
            self.peak_pages = pages
        if pages * _PAGE > self.limits["memory_mb"] << 20:
            self.end("memory", "memory poll")
        if job.zygote.used_mb(job) > self.limits["scratch_mb"]:
            self.end("disk", "scratch limit")

    def finish(self) -> None:
        """After the processes are gone: the last of what they wrote, and of what they used."""
        self.drain()
        if not self.ready_ns and all(d.state in (READY, NOT_RUN) for d in self.job.doorbells):
            self.learn()
        if self.job.zygote.used_mb(self.job) > self.limits["scratch_mb"]:
            self.end("disk", "scratch limit")

    @property
    def in_step(self) -> bool:
        """Whether the request was read to its end, so that the next one can follow."""
        return all(doorbell.state >= RECEIVED for doorbell in self.job.doorbells)


def kill_all_but_me() -> None:
    """Every process that this one may signal: all of a namespace, or of a user of its own."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def freeze_then_kill() -> int:
    """End every descendant of this process; returns how many there were.

    Killing one by one loses against a program that forks faster; so all of them are stopped
    first, until no new one appears, and killed then.
    """
    stopped: set[int] = set()
    for _ in range(MAX_ROUNDS):
        new = [pid for pid in descendants() if pid not in stopped]
        new = [pid for pid in new if _send(pid, signal.SIGSTOP)]
        if not new:
            break
        stopped.update(new)
    for _ in range(MAX_ROUNDS):
        left = [pid for pid in descendants() if _send(pid, signal.SIGKILL)]
        stopped.update(left)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                return len(stopped)
        if not left:
            break
        time.sleep(0.0005)
    return len(stopped)


def descendants() -> list[int]:
    """Ids of every process below this one; needs a kernel that lists children."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            text = read_at(None, f"/proc/{pid}/task/{task}/children")
            below = [int(word) for word in text.split()]
            found += below
            todo += below
    return found


def read_at(proc: int | None, path: str) -> bytes:
    """A small file below a folder that is held open; empty when it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def resident_pages(proc: int, pid: int | str) -> int:
    """Pages of memory that a process holds, 0 when the system does not tell."""
    words = read_at(proc, f"{pid}/statm").split()
    return int(words[1]) if len(words) > 1 else 0


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
