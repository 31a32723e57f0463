"""A running job as the zygote holds it: one or two forked children, their pipes, their end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time

from rlkit.sandbox.zygote import child
from rlkit.sandbox.zygote.plumbing import pidfd, pipe, socket_pair
from rlkit.sandbox.zygote.watch import (
    Watch,
    descendants,
    freeze_then_kill,
    kill_all_but_me,
    read_at,
    resident_pages,
)

#: A pipe for answers is made this large where the system allows it, so that no job waits for us.
PIPE_BYTES = 1 << 20


class Job:
    """One forked child (or one of the two of a job), and what connects the zygote to it."""

    def __init__(self, zygote, order, seat: str, main, role: str = "") -> None:
        self.zygote = zygote
        self.order = order
        self.seat = seat
        self.main = main
        self.role = role
        self.folder = zygote.folder_of(seat)
        self.channel = self.peer = self.out = self.err = None
        self.doorbell = zygote.pages[1 if role == "candidate" else 0]
        self.go = zygote.gos[1 if role == "candidate" else 0]
        self.tasks = 0
        self.pid = 0
        self.status: int | None = None
        self.usage = None

    def start(self) -> None:
        """Fork; in the child this never returns."""
        with contextlib.suppress(FileExistsError):  # as `Zygote.clear` left it
            os.mkdir(self.folder, 0o700)
        self.doorbell.clear()
        # What there is now no child need ever look through for garbage, and counting begins anew.
        gc.freeze()
        gc.collect(0)
        pid = os.fork()
        if pid == 0:
            child.run(self)
        self.pid = pid

    def has_exited(self) -> bool:
        """Whether it ended; then its exit status is taken."""
        if self.status is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.status, self.usage = status, usage
        return self.status is not None

    def stop(self) -> None:
        """Kill it with its group."""
        if self.status is not None:
            return  # its id may belong to another by now
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Wait for its end and take its exit status."""
        if self.status is None:
            _, self.status, self.usage = os.wait4(self.pid, 0)

    def release(self, length: int) -> None:
        """Tell the child to go ahead and read its request."""
        os.write(self.go[1], length.to_bytes(8, "little"))


class Running:
    """The one or two processes of a job together, as `watch.Watch` sees them."""

    def __init__(self, zygote, order, pair: tuple | None) -> None:
        self.zygote = zygote
        self.order = order
        out, err = pipe(), pipe()
        command = order.mode == "command"
        answers = (None, None) if command else pipe(PIPE_BYTES)
        self.pipes = (answers[0], out[0], err[0])
        tasks = _tasks(zygote) if order.limits["processes"] else 0
        main = None if command or pair else zygote.modes[order.mode]
        self.jobs = [Job(zygote, order, "one", main)]
        ends = ()
        if pair:
            ends = socket_pair()
            self.jobs = [
                Job(zygote, order, "two", pair[0], "candidate"),
                Job(zygote, order, "one", pair[1], "verifier"),
            ]
            self.jobs[0].peer, self.jobs[1].peer = ends
        self.last = self.jobs[-1]
        self.last.channel = answers[1]
        self.doorbells = [job.doorbell for job in self.jobs]
        for job in self.jobs:
            job.out, job.err, job.tasks = out[1], err[1], tasks
            zygote.fences.prepare(job.seat, zygote.own(job.seat), order.limits, command)
        zygote.fences.wanted_limits(order.limits, command, order.memory)
        for job in self.jobs:
            job.start()
        for end in (out[1], err[1], answers[1], *ends):
            if end is not None:
                os.close(end)
        self.exits = pidfd(self.last.pid)

    def release(self, lengths: list[int]) -> None:
        """Let each process read its request, one after the other from the same stream."""
        for job, length in zip(self.jobs, lengths, strict=False):
            job.release(length)
            if job is not self.last:
                self._wait_until_read(job)

    def _wait_until_read(self, job: Job) -> None:
        deadline = time.monotonic() + 20.0
        while job.doorbell.state < child.RECEIVED:
            if time.monotonic() > deadline or job.has_exited():
                return  # the watch will find out
            time.sleep(0.0002)

    def has_exited(self) -> bool:
        return self.last.has_exited()

    def resident_pages(self) -> int:
        if self.order.limits["processes"]:
            return sum(_resident_pages(self.zygote, pid) for pid in _all_processes(self.zygote))
        return sum(_resident_pages(self.zygote, job.pid) for job in self.jobs)

    def reap_strays(self, watch: Watch) -> None:
        """Take the exit status of dead processes that a job started and left to us."""
        own = {job.pid for job in self.jobs}
        while self.order.limits["processes"] and hasattr(os, "waitid"):
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None or dead.si_pid in own:
                return
            os.waitpid(dead.si_pid, 0)
            watch.orphans += 1

    def stop(self, watch: Watch | None) -> None:
        """End every process of the job and take their exit status."""
        zygote = self.zygote
        for job in self.jobs:
            job.stop()
        all_mine = zygote.alone or zygote.lone_user
        if all_mine:
            kill_all_but_me()
        for job in self.jobs:
            job.reap()
        # Whatever loses its parent becomes our child: without children nothing is left.
        while _has_children():
            if not all_mine:
                count = freeze_then_kill()
                if count == 0:
                    break
            else:
                os.waitpid(-1, 0)  # all of them are dead or dying
                count = 1
            if watch is not None:
                watch.orphans += count

    def close(self) -> None:
        for descriptor in (*self.pipes, self.exits):
            if descriptor is not None:
                os.close(descriptor)
        for job in self.jobs:
            self.zygote.clear(job.seat)


def _resident_pages(zygote, pid: int) -> int:
    if zygote.proc is None and zygote.outer_proc is not None:
        # No /proc of our own: the outer one knows our children by other numbers.
        children = read_at(zygote.outer_proc, "thread-self/children").split()
        return sum(resident_pages(zygote.outer_proc, child.decode()) for child in children)
    return resident_pages(zygote.proc, pid)


def _all_processes(zygote) -> list[int]:
    """Ids of everything that a job started."""
    if zygote.alone and zygote.proc is not None:
        names = os.listdir(zygote.proc)
        return [int(name) for name in names if name.isdigit() and name != "1"]
    if zygote.alone:
        return []
    return descendants()


def _tasks(zygote) -> int:
    """How many processes and threads count against a job's process limit already."""
    if zygote.own_uid or zygote.alone:
        return 2  # this process, and the one that keeps it
    count, me = 0, os.geteuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == me:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue  # it ended meanwhile
    return count


def _has_children() -> bool:
    if not hasattr(os, "waitid"):
        return False  # nor does such a system give us the children of others
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
