"""LocalBackend: this machine's own zygotes, a pool of warm processes that fork for each job.

A zygote is of one kind: which libraries it has loaded, whether it can run other programs,
whether it has a network, how large its scratch folder is. Jobs of the same kind share
zygotes, one job at a time each. A zygote that dies takes its job with it, as a fault of
the sandbox, and is replaced; after many jobs it is replaced as well.

How strongly a job is kept apart is found out by trying, see `ladder`, and stays the same as
long as the backend lives: a later zygote that comes up weaker is a fault, not a surprise.

Left out on purpose: verdicts, retries and queues, which belong to the front.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import PurePosixPath
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends import ladder
from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.flavours import (
    FLAVOURS,
    IMPORTS,
    PROGRAMS,
    READABLE,
    environment,
    site_folders,
)
from rlkit.sandbox.backends.link import Cancelled, Link, Refused, outcome_of
from rlkit.sandbox.codec import encode
from rlkit.sandbox.types import IsolationReport, Limits

#: A zygote is replaced after so many jobs.
RECYCLE_AFTER = 1_000

#: Zygotes that may stand idle beside those that work, for kinds of jobs that take turns.
SPARE = 4

#: Seconds that zygotes have to end by themselves.
PATIENCE_S = 2.0

_tags = count(1)


@dataclass(frozen=True)
class Kind:
    """What distinguishes one zygote from another."""

    flavour: str = "base"
    mode: str = ""  # of the harness, when it is not `func`
    programs: bool = False
    network: bool = False
    box_mb: int = 128


class LocalBackend:
    """Runs jobs in forks of warm, isolated processes on this machine.

    Args:
        workers: jobs at a time; whoever brings more waits.
        python: interpreter of the zygotes; this one when None.
        layers: fences of the kernel to use where it has them, see `ladder.LAYERS`.

    Raises:
        UserError: not on this system, or `RLKIT_SANDBOX_HIDE` makes no sense.

    >>> from rlkit.sandbox.types import Limits
    >>> backend = LocalBackend(workers=1)
    >>> outcome = backend.execute(Command(("/bin/echo", "hello")), Limits(), lambda: False)
    >>> outcome.stdout, outcome.exit_code
    (b'hello\\n', 0)
    >>> backend.close()
    """

    name = "local"

    def __init__(
        self,
        workers: int = 1,
        python: str | None = None,
        layers: Sequence[str] = ladder.LAYERS,
    ) -> None:
        if os.name != "posix":
            raise UserError("the local sandbox needs Linux or macOS; on Windows use WSL 2")
        self.workers = workers
        self.python = python or sys.executable
        self.layers = tuple(sorted(set(layers)))
        self.allowed = ladder.allowed(self.layers)
        self._lock = threading.Condition()
        self._reset()
        self._finalizer = weakref.finalize(self, _end_all, self._links, os.getpid())

    # ------------------------------------------------------------ jobs

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a mode of the harness; see `base.Backend`.

        Raises:
            InfrastructureFault: the sandbox itself failed.
        """
        kind = self._kind(call.flavour, "" if call.mode == "func" else call.mode, limits)
        request = call.request
        parts = (request,)
        if "candidate" in request and "verifier" in request:
            parts = (request["candidate"], request["verifier"])
        head = _head(call.mode, limits)
        return self._run(kind, head, [_packed(part) for part in parts], limits, cancelled)

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a program; see `base.Backend`.

        Raises:
            InfrastructureFault: the sandbox itself failed, or there is no such program.
            ValueError: a file name that leads out of the scratch folder.
        """
        for name in (*command.files, *command.keep):
            check_name(name)
        kind = self._kind(command.flavour, "", limits, programs=True)
        head = _head("command", limits, command.memory, tuple(command.keep))
        request = {
            "argv": list(command.argv),
            "stdin": command.stdin,
            "files": dict(command.files),
            "environment": dict(command.environment),
        }
        return self._run(kind, head, [_packed(request)], limits, cancelled)

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine, as seen by probes run inside the sandbox.

        Raises:
            InfrastructureFault: no zygote can be started.
        """
        from rlkit.sandbox.probe import probe_backend

        about = self.isolation
        seen = [about[name] for name in ("fences", "landlock", "seccomp", "notes")]
        key = (self.python, self.layers, self.allowed, os.getuid(), os.getpid(), *seen)
        with _reports_lock:  # once per process; the others wait for it
            if key not in _reports:
                _reports[key] = probe_backend(self)
            return _reports[key]

    @property
    def isolation(self) -> dict[str, Any]:
        """What a zygote says about itself; starts one if none runs."""
        with self._borrowed(Kind(), lambda: False) as link:
            return dict(link.about, refused=self._refused, hidden=self.allowed.hidden)

    def pids(self) -> list[int]:
        """Process ids of this backend's zygotes, as seen from here."""
        with self._lock:
            return [link.pid for link in self._links]

    def close(self) -> None:
        """End every zygote and what runs in it, and leave nothing behind; may be called twice."""
        with self._lock:
            self._closed = True
            links = list(self._links) if self._pid == os.getpid() else []
            self._links.clear()
            self._idle.clear()
            self._lock.notify_all()
        _end(links)

    # ------------------------------------------------------------ zygotes

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._idle: dict[Kind, list[Link]] = {}
        self._links: set[Link] = set()
        self._working = 0
        self._namespaces: bool | None = None
        self._refused = ""
        self._first: frozenset[str] | None = None

    def _kind(self, flavour: str, mode: str, limits: Limits, programs: bool = False) -> Kind:
        if flavour not in FLAVOURS:
            raise UserError(f"flavour {flavour!r} is none of {', '.join(FLAVOURS)}")
        programs = programs or flavour == "tools" or limits.processes > 0
        # Some room beyond the limit, so that passing it can be seen.
        box = 1 << limits.scratch_mb.bit_length()
        return Kind(flavour, mode, programs, limits.network, box)

    def _run(
        self,
        kind: Kind,
        head: bytes,
        requests: Sequence[bytes],
        limits: Limits,
        cancelled: Callable[[], bool],
    ) -> Outcome:
        try:
            with self._borrowed(kind, cancelled) as link:
                facts, body = link.run(head, requests, limits.wall_s, cancelled)
        except Cancelled:
            return Outcome(ended="cancelled")
        outcome = outcome_of(facts, body)
        if outcome.ended == "cancelled":
            raise InfrastructureFault("the zygote lost its host")
        missing = link.wanted - outcome.fences
        if missing:
            raise InfrastructureFault(f"the kernel refused what it gave before: {sorted(missing)}")
        return outcome

    @contextlib.contextmanager
    def _borrowed(self, kind: Kind, cancelled: Callable[[], bool]) -> Iterator[Link]:
        """A zygote of this kind for one job; it comes back only if all went well."""
        link = self._take(kind, cancelled)
        try:
            yield link
        except BaseException:
            self._drop(link)
            raise
        else:
            self._give_back(kind, link)

    def _take(self, kind: Kind, cancelled: Callable[[], bool]) -> Link:
        spare = []
        with self._lock:
            if self._pid != os.getpid():
                # A forked copy of this process must not share the original's zygotes.
                self._reset()
                weakref.finalize(self, _end_all, self._links, os.getpid())
            while True:
                if self._closed:
                    raise Cancelled
                if self._working < self.workers:
                    break
                self._lock.wait(0.1)
                if cancelled():
                    raise Cancelled
            self._working += 1
            idle = self._idle.get(kind)
            while idle:
                link = idle.pop()
                if link.alive():
                    return link
                self._links.discard(link)
                spare.append(link)
            if len(self._links) >= self.workers + SPARE:
                # Of those that stand about, the one that has waited longest makes room.
                for other, waiting in self._idle.items():
                    if waiting and other != kind:
                        spare.append(waiting.pop(0))
                        self._links.discard(spare[-1])
                        break
        try:
            _end(spare)
            return self._start(kind)
        except BaseException:
            with self._lock:
                self._working -= 1
                self._lock.notify()
            raise

    def _give_back(self, kind: Kind, link: Link) -> None:
        worn = link.jobs >= RECYCLE_AFTER
        with self._lock:
            self._working -= 1
            worn = worn or self._closed
            if worn:
                self._links.discard(link)
            else:
                # Kinds are kept in the order of their last use.
                waiting = self._idle.pop(kind, [])
                waiting.append(link)
                self._idle[kind] = waiting
            self._lock.notify()
        if worn:
            _end([link])

    def _drop(self, link: Link) -> None:
        with self._lock:
            self._working -= 1
            self._links.discard(link)
            self._lock.notify()
        link.kill()

    def _start(self, kind: Kind) -> Link:
        """Start a zygote, as strongly isolated as this machine allows."""
        if self._namespaces is None and not self.allowed.namespaces:
            self._namespaces = False
        if self._namespaces is not False:
            try:
                link = self._start_one(kind, namespaces=True)
                self._namespaces = True
                return self._keep(link)
            except Refused as refused:
                if self._namespaces:  # it was granted before, so it is no property of the machine
                    raise InfrastructureFault(f"no zygote can be started: {refused}") from None
                self._namespaces, self._refused = False, str(refused)
        try:
            return self._keep(self._start_one(kind, namespaces=False))
        except Refused as refused:
            raise InfrastructureFault(f"no zygote can be started: {refused}") from None

    def _keep(self, link: Link) -> Link:
        """Take a new zygote in; it must be as strong as the first one was."""
        about = link.about
        wanted = set(about["fences"])
        if about["landlock"]:
            wanted.add(f"landlock:{about['landlock']}")
        if about["seccomp"]:
            wanted.add("seccomp")
        link.wanted = frozenset(wanted)
        stands = _worlds(wanted, network=link.network)
        with self._lock:
            first = self._first = self._first or _worlds(wanted, network=True)
            missing = first - stands
            if not missing and not self._closed:
                self._links.add(link)
                return link
        link.kill()
        if missing:
            raise InfrastructureFault(
                f"the kernel refused what it gave before: {', '.join(sorted(missing))}"
            )
        raise Cancelled

    def _start_one(self, kind: Kind, namespaces: bool) -> Link:
        return Link(self.python, self._plan(kind, namespaces), environment())

    def _plan(self, kind: Kind, namespaces: bool) -> dict[str, Any]:
        """What a zygote is told about itself."""
        allowed = self.allowed
        imports, warm = FLAVOURS[kind.flavour]
        readable = READABLE
        if kind.programs:
            readable += PROGRAMS
        if kind.flavour == "tools":
            from rlkit.sandbox.languages import readable_paths

            readable += tuple(readable_paths())
        return {
            "parent": os.getpid(),
            "tag": (os.getpid() << 32) + 2 * next(_tags),
            "namespaces": namespaces,
            "userns": allowed.userns,
            "landlock": allowed.landlock,
            "seccomp": allowed.seccomp,
            "docker": allowed.docker,
            "uid": allowed.uid,
            "limits": allowed.limits,
            "programs": kind.programs,
            "network": kind.network,
            "box_mb": kind.box_mb,
            "readable": tuple(dict.fromkeys(readable)),
            "tmp": (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"),
            "site": site_folders(self.python) if imports else (),
            "imports": IMPORTS + imports,
            "preload": bool(imports),
            "modes": (kind.mode,) if kind.mode else (),
            "warm": warm,
        }


_reports: dict[tuple, IsolationReport] = {}
_reports_lock = threading.Lock()


def check_name(name: str) -> None:
    """Refuse a file name that is no plain relative one.

    Raises:
        ValueError: it could lead out of the scratch folder.

    >>> check_name("src/main.c")
    """
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or {"..", "."} & set(name.split("/")):
        raise ValueError(f"{name!r} is not the name of a file in the scratch folder")


@lru_cache(maxsize=256)
def _head(mode: str, limits: Limits, memory: str = "address", keep: tuple[str, ...] = ()) -> bytes:
    """What a zygote is told about a job beside its request; the same bytes for equal jobs."""
    return encode({"mode": mode, "limits": dict(vars(limits)), "memory": memory, "keep": keep})


def _packed(request: Any) -> bytes:
    return encode(dict(request), max_bytes=1 << 30)


def _worlds(fences: set[str], network: bool) -> frozenset[str]:
    """The fences by name, each namespace as one; those of the network only where wanted."""
    found = set()
    for name in fences:
        kind, _, parts = name.partition(":")
        if kind == "namespaces":
            found |= {f"{part} namespace" for part in parts.split("+")}
        else:
            found.add(name)
    return frozenset(found - ({"net namespace"} if network else set()))


def _end(links: Sequence[Link]) -> None:
    """End zygotes: all are told at once, and then waited for."""
    for link in links:
        link.hang_up()
    deadline = time.monotonic() + PATIENCE_S
    for link in links:
        link.kill(max(0.05, deadline - time.monotonic()))


def _end_all(links: set[Link], pid: int) -> None:
    if os.getpid() == pid:  # a forked copy of this process runs this too, and must not
        _end(list(links))
        links.clear()
