"""The host's side of one child process: start it, drain it, stop it, leave nothing.

No verdict is formed here; `run_child` reports facts (what arrived on which pipe,
who ended the process and how) and `judge.py` draws the conclusion. Everything is
done by the calling thread with `poll`, so it works in any thread and inside a
running event loop: no signals, no `preexec_fn`, no fork of this process.

Left out on purpose: a warm process that forks for each job. A fresh interpreter
costs some 6 ms, and shares nothing with the job before it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlkit.sandbox import scratch, survivors
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.types import Limits

#: An interpreter that has not come up after so many seconds never will.
START_S = 20.0

#: How often a running job is looked at: memory, disk, cancellation.
TICK_S = 0.05

#: After its channel has closed, a process gets so many seconds to end by itself.
GRACE_S = 0.1

#: A killed process that is not gone after so many seconds hangs in the kernel.
REAP_S = 10.0

#: The channel is made this large where the system allows it, so that a job never waits for us.
PIPE_BYTES = 1 << 20

#: How much is taken out of a pipe at once.
READ_BYTES = 1 << 16

Ending = Literal["exit", "wall", "output", "result", "disk", "closed", "cancelled"]


class InfrastructureFault(Exception):
    """The sandbox itself failed; nothing is known about the program."""


@dataclass
class Outcome:
    """The facts about one child process.

    Attributes:
        ended: `exit` when it ended by itself or by a signal of its own, else what we stopped
            it for; `closed` is a channel closed by a program that went on running.
        messages: what arrived on the channel, in order, decoded.
        fences: names of the fences that the child put up before it read the program.
        garbage: lines on the channel that the harness cannot have written.
        stdout: first bytes that it printed, up to the limit.
        stderr: the same for errors.
        truncated: whether it printed more.
        exit_code: as given to exit(); None after a signal, or when unknown.
        signal: that ended it, or None.
        cpu_s: processor seconds, None when unknown.
        wall_s: seconds from `ready` to the end.
        peak_rss_mb: most memory seen resident by us, in MiB; None when it was never seen.
    """

    ended: Ending = "exit"
    messages: list[tuple] = field(default_factory=list)
    fences: frozenset[str] = frozenset()
    garbage: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    exit_code: int | None = None
    signal: int | None = None
    cpu_s: float | None = None
    wall_s: float = 0.0
    peak_rss_mb: float | None = None


def run_child(
    command: list[str],
    request: Mapping[str, Any],
    limits: Limits,
    folder: str,
    environment: Mapping[str, str],
    cancelled: Callable[[], bool],
    tag: int,
) -> Outcome:
    """Run one child to its end and report the facts.

    Args:
        command: argv of the child.
        request: what it reads from its stdin, encoded; added are the numbers of `channel`, its
            descriptor for answers, and of `doorbell`, on which it says that it is ready.
        limits: the host enforces wall clock, output, results and disk; the child the rest.
        folder: its working directory, see `scratch`.
        environment: its whole environment.
        cancelled: asked at every tick; True stops the child.
        tag: number that marks everything the child may start; what bears it and survives is
            killed, unless the child reported a fence that let it start nothing.

    Raises:
        InfrastructureFault: it could not be started, never came up, or cannot be reaped.
    """
    reading, channel = os.pipe()
    # A second pipe, because the program could read its own channel and take the message back.
    # The child closes this one before it touches the program.
    listening, doorbell = os.pipe()
    process = None
    try:
        try:
            ends = {"channel": channel, "doorbell": doorbell}
            payload = encode({**request, **ends}, max_bytes=1 << 30)
            with scratch.as_file(payload) as stdin:
                process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env=dict(environment),
                    pass_fds=(channel, doorbell),
                    close_fds=True,
                    start_new_session=True,
                    bufsize=0,
                )
        except (OSError, ValueError) as error:
            raise InfrastructureFault(f"cannot start {command[0]}: {error}") from error
        finally:
            os.close(channel)
            os.close(doorbell)
        watch = _Watch(process, reading, listening, limits, folder, cancelled)
        try:
            watch.until_the_end()
            ended_at = time.monotonic()
        finally:
            watch.listen()
            fenced = not limits.processes and watch.outcome.fences & {"seccomp", "no_processes"}
            _stop(process, watch.outcome, None if fenced else tag)
        watch.drain_the_rest()
    finally:
        os.close(reading)
        os.close(listening)
        if process is not None:
            process.stdout.close()
            process.stderr.close()
    outcome = watch.outcome
    if watch.ready_at is not None:
        outcome.wall_s = ended_at - watch.ready_at
    if watch.ready_at is None and outcome.ended != "cancelled":
        last_words = outcome.stderr.decode("utf-8", "replace").strip()[-300:]
        how = f"signal {outcome.signal}" if outcome.signal else f"exit code {outcome.exit_code}"
        raise InfrastructureFault(f"the interpreter did not come up ({how}) {last_words}".strip())
    return outcome


class _Watch:
    """Drains the three pipes of a process and decides when it has had enough."""

    def __init__(
        self,
        process: subprocess.Popen,
        reading: int,
        listening: int,
        limits: Limits,
        folder: str,
        cancelled: Callable[[], bool],
    ) -> None:
        self.pid = process.pid
        self.limits = limits
        self.folder = folder
        self.cancelled = cancelled
        self.outcome = Outcome()
        self.ready_at: float | None = None
        self.started_at = time.monotonic()
        self.line = b""
        self.channel = reading
        self.listening = listening
        self.result_left = limits.result_kb * 1024 + 64 * 1024  # values, and their wrapping
        self.output_left = limits.output_kb * 1024
        self.pipes = {
            reading: self._channel_bytes,
            process.stdout.fileno(): self._stdout_bytes,
            process.stderr.fileno(): self._stderr_bytes,
        }
        for pipe in (*self.pipes, listening):
            os.set_blocking(pipe, False)
        _enlarge(reading)

    def until_the_end(self) -> None:
        """Returns when the channel closes or a limit is passed; then `ended` says which."""
        poll = select.poll()
        for pipe in self.pipes:
            # Answers wait in their pipe until it closes or the next tick: waking up for each
            # of them would take the processor from the very program that makes them.
            poll.register(pipe, 0 if pipe == self.channel else select.POLLIN)
        looked_at = self.started_at
        while True:
            now = time.monotonic()
            if self.ready_at is None:
                left = self.started_at + START_S - now
            else:
                left = self.ready_at + self.limits.wall_s - now
            if left <= 0:
                self.outcome.ended = "wall"
                break
            ready = [pipe for pipe, _ in poll.poll(1000 * min(left, TICK_S))]
            tick = time.monotonic() - looked_at > TICK_S
            if tick and self.channel not in ready:
                ready.append(self.channel)
            for pipe in ready:
                if not self._take_all(pipe):
                    poll.unregister(pipe)
                    del self.pipes[pipe]
            if self.outcome.ended != "exit" or self.channel not in self.pipes:
                break
            if tick:
                self.listen()
                self._look()
                looked_at = time.monotonic()
            if self.cancelled():
                self.outcome.ended = "cancelled"
                break

    def listen(self) -> None:
        """Did the child say that it is ready? What it says there is the harness's own word."""
        if self.ready_at is not None:
            return
        try:
            word = os.read(self.listening, READ_BYTES)
        except BlockingIOError:
            return
        if word:  # one write, shorter than what a pipe takes in one piece
            fences, clock = decode(word)
            self.ready_at = min(clock, time.monotonic())
            self.outcome.fences = frozenset(fences)

    def drain_the_rest(self) -> None:
        """What still lies in the pipes of a process that is gone."""
        for pipe in self.pipes:
            self._take_all(pipe)
        if self.line:
            self._line(self.line)

    def _take_all(self, pipe: int) -> bool:
        """Take what a pipe holds; False at its end."""
        # Whoever delivers more than a pipe holds keeps writing, and gets its turn again.
        for _ in range(PIPE_BYTES // READ_BYTES + 1):
            try:
                data = os.read(pipe, READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.pipes[pipe](data)
        return True

    def _stdout_bytes(self, data: bytes) -> None:
        self.outcome.stdout += self._within_limit(data)

    def _stderr_bytes(self, data: bytes) -> None:
        self.outcome.stderr += self._within_limit(data)

    def _within_limit(self, data: bytes) -> bytes:
        kept = data[: self.output_left]
        self.output_left -= len(kept)
        if len(kept) < len(data):
            self.outcome.truncated = True
            self._end("output")
        return kept

    def _channel_bytes(self, data: bytes) -> None:
        self.result_left -= len(data)
        if self.result_left < 0:
            self._end("result")
            return
        *lines, self.line = (self.line + data).split(b"\n")
        for line in lines:
            self._line(line)

    def _end(self, why: Ending) -> None:
        if self.outcome.ended == "exit":
            self.outcome.ended = why

    def _line(self, line: bytes) -> None:
        if not line:
            return
        try:
            message = decode(line.replace(b"%0A", b"\n").replace(b"%25", b"%"))
        except CodecError:
            message = None
        if type(message) is not tuple or not message:
            self.outcome.garbage += 1
            return
        self.outcome.messages.append(message)

    def _look(self) -> None:
        """Memory and disk of the running job."""
        resident = survivors.peak_memory_mb(self.pid)
        if resident is not None:
            self.outcome.peak_rss_mb = max(self.outcome.peak_rss_mb or 0.0, resident)
        if scratch.megabytes_in(self.folder) > self.limits.scratch_mb:
            self._end("disk")


def _enlarge(pipe: int) -> None:
    import fcntl  # not on Windows, where this module can be read but no job can run

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            return  # this user has many large pipes already; a small one is emptied at each tick


def _stop(process: subprocess.Popen, outcome: Outcome, tag: int | None) -> None:
    """End the process and all it started, and take its exit status and its processor time."""
    pid = process.pid
    if outcome.ended == "exit":
        # Its channel is closed, so it is dying; let it, to learn what it dies of.
        deadline = time.monotonic() + GRACE_S
        while not _has_exited(pid):
            if time.monotonic() > deadline:
                outcome.ended = "closed"
                break
            time.sleep(0.0002)
    # Before it is reaped: until then its id cannot belong to anybody else.
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty already
        os.killpg(pid, signal.SIGKILL)
    if tag is not None:
        survivors.kill_tagged(tag)
    deadline = time.monotonic() + REAP_S
    while True:
        try:
            reaped, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            # Somebody else in this process waits for every child; the status is lost.
            process.returncode = 0
            return
        if reaped:
            break
        if time.monotonic() > deadline:
            raise InfrastructureFault(f"process {pid} does not end although it was killed")
        time.sleep(0.0002)
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    outcome.exit_code = code if code >= 0 else None
    outcome.signal = -code if code < 0 else None
    outcome.cpu_s = usage.ru_utime + usage.ru_stime


def _has_exited(pid: int) -> bool:
    if not hasattr(os, "waitid"):  # macOS before Python 3.13 has no way to look and not touch
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False
        ).stdout.strip()
        return not state or state.startswith(b"Z")
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
