"""One bubblewrap that runs: fed, drained, watched, and ended with all that it started.

Left out on purpose: what is in its world, see `bwrap`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from rlkit.sandbox.backends.base import Command, InfrastructureFault, Outcome
from rlkit.sandbox.types import Limits
from rlkit.sandbox.zygote.wipe import megabytes_in

#: Starting bubblewrap and an interpreter in it may take so long beside the job.
START_S = 10.0
#: How often the clock, the scratch folder and the caller are looked at.
TICK_S = 0.02


@dataclass(eq=False)
class Run:
    """One bubblewrap that runs, and what came out of it."""

    folder: str
    command: Command
    limits: Limits
    marked: bool  # whether the first byte of its output says that the program begins now
    process: subprocess.Popen | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _stopped: bool = False

    def stop(self, ended: Any, by: str) -> None:
        """Kill it, and with it all that it started."""
        if not self._stopped:
            self._stopped = True
            self.outcome.ended, self.outcome.stopped_by = ended, by
        if self.process is not None and self.process.returncode is None:
            # First the world inside, by its first process: it binds its life to bubblewrap's only
            # at the end of its preparations, and would outlive one that is killed before that.
            # One that is not there yet is still in bubblewrap's own group.
            inside = _children(self.process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def watch(self, cancelled: Callable[[], bool]) -> Outcome:
        """Feed it, drain it, and wait for its end."""
        process, out, err = self.process, bytearray(), bytearray()
        most = self.limits.output_kb * 1024
        left = memoryview(self.command.stdin)
        started = time.monotonic()
        began = None if self.marked else started
        pipes = {process.stdout.fileno(): out, process.stderr.fileno(): err}
        writing = process.stdin.fileno()
        for descriptor in (*pipes, writing):
            os.set_blocking(descriptor, False)
        poll = select.poll()
        for descriptor in pipes:
            poll.register(descriptor, select.POLLIN)
        poll.register(writing, select.POLLOUT)
        looked = 0.0
        while pipes:
            for descriptor, _ in poll.poll(1000 * TICK_S):
                if descriptor == writing:
                    left = _write(writing, left)
                    if not left:
                        poll.unregister(writing)
                        process.stdin.close()
                    continue
                piece = _read(descriptor)
                if piece is None:
                    continue
                if not piece:
                    poll.unregister(descriptor)
                    del pipes[descriptor]
                    continue
                if began is None and descriptor == process.stdout.fileno():
                    began = time.monotonic()
                pipes[descriptor] += piece[: max(0, most + 1 - len(pipes[descriptor]))]
            now = time.monotonic()
            if len(out) + len(err) > most:
                self.outcome.truncated = True
                self.stop("output", "output limit")
            elif now > (started + START_S if began is None else began) + self.limits.wall_s:
                self.stop("wall", "wall clock")
            elif cancelled():
                self.stop("cancelled", "")
            elif now - looked > 0.1:
                looked = now
                if megabytes_in(self.folder) > self.limits.scratch_mb:
                    self.stop("disk", "scratch limit")
        return self._end(bytes(out[:most]), bytes(err[:most]), began or started)

    def _end(self, out: bytes, err: bytes, began: float) -> Outcome:
        process = self.process
        deadline = time.monotonic() + 1.0
        while True:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:  # it closed its outputs and goes on
                self.stop("closed", "")
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        outcome = self.outcome
        outcome.stdout, outcome.stderr = out, err
        outcome.wall_s = time.monotonic() - began
        # What bubblewrap itself used says nothing; its namespace keeps the job's use to itself.
        code = process.returncode
        if self._stopped:
            outcome.signal = signal.SIGKILL
        elif code < 0:
            raise InfrastructureFault(f"bubblewrap was killed by signal {-code}")
        elif 128 < code <= 128 + 64:  # so it tells of a signal
            outcome.signal = code - 128
        else:
            outcome.exit_code = code
        if code == 1 and err.startswith(b"bwrap: "):
            raise InfrastructureFault(err.decode("utf-8", "replace").strip()[-300:])
        outcome.files = dict(_kept(self.folder, self.command.keep, self.limits.files_mb << 20))
        return outcome


class Starter:
    """The one thread that starts bubblewraps: they die with the thread that started them."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="rlkit-bwrap", daemon=True)
        self._pid = os.getpid()
        self._thread.start()

    def start(self, argv: list[str], user: int | None) -> subprocess.Popen:
        """Start a process.

        Raises:
            InfrastructureFault: it cannot be started.
        """
        if self._pid != os.getpid():
            raise InfrastructureFault("this backend belongs to the process that was forked")
        future: Future = Future()
        self._orders.put((argv, user, future))
        return future.result()

    def close(self) -> None:
        self._orders.put(None)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            argv, user, future = order
            who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            try:
                future.set_result(
                    subprocess.Popen(
                        argv,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        cwd="/",
                        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                        bufsize=0,
                        start_new_session=True,
                        **who,
                    )
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                future.set_exception(InfrastructureFault(f"cannot start {argv[0]}: {error}"))


def _children(pid: int) -> list[int]:
    """The processes that a process has started and that live, as seen from here."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []  # it has ended


def _kept(folder: str, names: tuple[str, ...], most: int) -> Iterator[tuple[str, bytes]]:
    """The files that are wanted back: plain ones, by a way on which no part is a link."""
    for name in names:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *way, last = name.split("/")
            for part in way:
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
                os.close(place)
                place = inner
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(last, flags, dir_fd=place)
        except OSError:
            continue  # the program did not write it
        finally:
            os.close(place)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            continue
        with open(descriptor, "rb") as file:
            yield name, file.read(most)


def _write(descriptor: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(descriptor, left[: 1 << 16]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return memoryview(b"")  # it does not want to read more


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None
