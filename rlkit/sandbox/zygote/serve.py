"""The zygote: one warm process that forks once for every job, and supervises the fork.

It is started by exec, isolates itself once, and then waits for orders on a stream. An
order is four numbers (the lengths of what follows, and a number of its own), a head
that describes the job (limits, mode), and one request for each process of the job,
which the zygote leaves to the child to read. It answers with one frame. While it waits, the
next child stands ready already, with the fences of the job before.

It dies with the host: the stream ends, or the host's process does, and either wakes it
wherever it waits.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time

from rlkit.sandbox import codec
from rlkit.sandbox.zygote import child, harness, kernel
from rlkit.sandbox.zygote.plumbing import move_descriptors, read, write
from rlkit.sandbox.zygote.running import Running
from rlkit.sandbox.zygote.seats import copy, open_kept
from rlkit.sandbox.zygote.watch import Room, Watch
from rlkit.sandbox.zygote.wipe import remove_folder
from rlkit.sandbox.zygote.world import World

#: An order begins with so many numbers of four bytes: head, first request, second, sequence.
NUMBERS = 4

#: Heads of orders that are remembered in decoded form.
MAX_HEADS = 64


#: Which fence a signal comes from.
_LAYERS = {
    getattr(signal, name): layer
    for name, layer in (
        ("SIGXCPU", "processor limit"),
        ("SIGXFSZ", "file size limit"),
        ("SIGSYS", "seccomp"),
    )
    if hasattr(signal, name)
}


class Order:
    """What a job may use and how it is to be run; equal for very many jobs."""

    def __init__(self, head: bytes) -> None:
        told = codec.decode(head)
        self.head = head
        self.mode: str = told["mode"]
        self.limits: dict = told["limits"]
        self.memory: str = told["memory"]
        self.keep: tuple[str, ...] = told["keep"]


class Zygote(World):
    """A world that takes orders.

    Attributes:
        modes: by name, the function that runs a mode of the harness.
        pairs: the same for modes of two processes: the candidate's and the verifier's.
    """

    def __init__(self, plan: dict, source: int, target: int) -> None:
        super().__init__(plan, source, target)
        self.modes: dict = {}
        self.pairs: dict = {}
        self.room: Room | None = None  # made last: no fork leaves it in the other process
        self._heads: dict[bytes, Order] = {}
        self._ready: Running | None = None

    def serve(self) -> None:
        """Do one order after the other until the host goes away."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        if self.host is not None:
            poll.register(self.host, select.POLLIN)
        while True:
            ready = poll.poll()
            if self.host is not None and any(fd == self.host for fd, _ in ready):
                return
            numbers = read(self.source, 4 * NUMBERS)
            if numbers is None:
                return
            length, first, second, sequence = (
                int.from_bytes(numbers[4 * n : 4 * n + 4], "little") for n in range(NUMBERS)
            )
            head = read(self.source, length)
            if head is None:
                return
            order = self._heads.get(head)
            if order is None:
                if len(self._heads) >= MAX_HEADS:
                    self._heads.clear()
                order = self._heads[head] = Order(head)
            if not self._do(order, [first, second], sequence):
                return

    def leave(self) -> None:
        """End what stands ready."""
        if self._ready is not None:
            self._ready.stop(None)

    def _do(self, order: Order, lengths: list[int], sequence: int) -> bool:
        """Run one job; False when this zygote cannot go on."""
        pair = self.pairs.get(order.mode)
        running, self._ready = self._ready, None
        if running is not None and running.order is not order:
            running.stop(None)
            running.close()
            running = None
        if running is None:
            running = Running(self, order, pair)
        limits = order.limits
        self.room.fit((limits["result_kb"] + 2 * limits["output_kb"]) * 1024 + 65536)
        running.release(lengths)
        watch = Watch(running, self.room)
        watch.until_the_end()
        ended_ns = time.monotonic_ns()
        if not watch.ready_ns and all(d.state == child.READY for d in running.doorbells):
            watch.learn()
        running.stop(watch)
        watch.finish()
        if watch.gone:
            running.close()
            return False
        sound = watch.in_step
        files = open_kept(running, order.keep)
        try:
            self._answer(running, watch, files, ended_ns, sequence)
        finally:
            for _, _, descriptor in files:
                os.close(descriptor)
        self.room.wipe(watch.err.end)
        try:
            running.close()
        except OSError:
            sound = False
        if sound and pair is None and order.mode != "command":
            self._ready = Running(self, order, None)
        return sound

    def _answer(self, running: Running, watch: Watch, files, ended_ns: int, sequence: int) -> None:
        last = running.last
        code = os.waitstatus_to_exitcode(last.status)
        other = None
        if len(running.jobs) == 2:
            other = os.waitstatus_to_exitcode(running.jobs[0].status)
        usages = [job.usage for job in running.jobs]
        peak = max(usage.ru_maxrss for usage in usages)  # KiB on Linux, bytes on macOS
        doorbell = last.doorbell
        if watch.ended == "exit" and -code in _LAYERS:
            watch.stopped_by = _LAYERS[-code]
        head = codec.encode(
            (
                sequence,
                "start" if not watch.ready_ns and watch.ended != "cancelled" else watch.ended,
                watch.stopped_by,
                code,
                other,
                sum(usage.ru_utime + usage.ru_stime for usage in usages),
                max(0, ended_ns - watch.ready_ns) if watch.ready_ns else 0,
                max(peak if kernel.LINUX else peak // 1024, watch.peak_pages * 4),
                tuple(sorted(watch.fences)),
                watch.truncated,
                watch.orphans,
                doorbell.page[1] if doorbell.state == child.NOT_RUN else 0,
                tuple((name, size) for name, size, _ in files),
                (watch.channel.size, watch.out.size, watch.err.size),
            )
        )
        streams = (watch.channel, watch.out, watch.err)
        views = [self.room.view[s.start : s.end] for s in streams if s.size]
        total = sum(s.size for s in streams) + sum(size for _, size, _ in files)
        prefix = len(head).to_bytes(4, "little") + total.to_bytes(8, "little")
        write(self.target, [prefix + head, *views])
        for _, size, descriptor in files:
            copy(descriptor, size, self.target, self.room)


def main(source: int, target: int) -> None:
    """Be a zygote: read the plan, isolate, say hello, serve."""
    length = read(source, 4)
    plan = codec.decode(read(source, int.from_bytes(length, "little")))
    source, target = move_descriptors(source, target)
    own = [path for path in sys.path if path]
    sys.path[:] = [*own, *plan["site"]]
    plan["readable"] = (*own, sys.base_prefix + "/lib", *plan["readable"])
    if plan["programs"]:
        plan["readable"] += (sys.base_prefix + "/bin",)
    zygote = Zygote(plan, source, target)
    stage = "failed"
    try:
        _preload(zygote)
        stage = "refused"
        zygote.isolate()
        stage = "failed"
        os.environ["HOME"] = os.environ["TMPDIR"] = zygote.folder_of("one")
        _warm(zygote)
        zygote.room = Room()
    except Exception as error:  # whatever it is, the host is to hear of it
        write(target, [_frame((stage, f"{type(error).__name__}: {error}"))])
        return
    hello = (
        "ready",
        {
            "fences": tuple(zygote.standing),
            "landlock": zygote.fences.abi,
            "seccomp": zygote.fences.filters,
            "own_user": zygote.own_uid,
            "private": zygote.private,
            "folder": "" if zygote.private else zygote.top,
            "uid": os.getuid(),
            "python": sys.version.split()[0],
            "notes": tuple(zygote.notes),
        },
    )
    write(target, [_frame(hello)])
    try:
        zygote.serve()
    finally:
        zygote.leave()
        if not zygote.private:
            remove_folder(zygote.top)


def _frame(message: tuple) -> bytes:
    data = codec.encode(message)
    return len(data).to_bytes(4, "little") + bytes(8) + data


def _preload(zygote: Zygote) -> None:
    """Import what jobs are to find loaded, before the files are out of reach."""
    # Some modules would run code in every child, to become different from one another.
    hook, os.register_at_fork = getattr(os, "register_at_fork", None), lambda **functions: None
    for name in zygote.plan["imports"]:
        __import__(name)
    os.register_at_fork = hook
    for name in zygote.plan["modes"]:
        module = _module(f"rlkit.sandbox.zygote.{name}")
        if hasattr(module, "candidate"):
            zygote.pairs[name] = (module.candidate, module.verifier)
        else:
            zygote.modes[name] = module.main
    zygote.modes["func"] = harness.main
    zygote.plan["readable"] += tuple(_packages(zygote.plan["site"]))


def _packages(site: tuple[str, ...]) -> set[str]:
    """What lies in folders of installed packages and was imported, with its shared libraries."""
    found = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        for folder in site:
            if path.startswith(folder + "/"):
                top = f"{folder}/{path[len(folder) + 1 :].split('/')[0]}"
                found |= {top, f"{top}.libs"}
    return found


def _module(name: str):
    __import__(name)
    return sys.modules[name]


def _warm(zygote: Zygote) -> None:
    """Run what every job runs a few times, so that the children find it warmed up."""

    for _ in range(8):
        harness.rehearse()
    harness.prepare_interpreter()
    if zygote.plan["warm"]:
        exec(compile(zygote.plan["warm"], "warm.py", "exec"), {})
    gc.collect()
    gc.disable()
    gc.freeze()
