"""The fences that a child puts around itself before it runs foreign code.

In this order: resource limits, die with the zygote, Landlock (which files), seccomp
(which system calls). Each step can only be tightened afterwards, never undone, and
each is reported by name only after the kernel accepted it, so the host knows what is
in force. What all jobs have in common (no new privileges, no capabilities, the
namespaces) stands in the zygote already, and is inherited.

Rules and filters are built once and kept: building costs more than putting them on.

Source: the manual pages landlock(7), seccomp(2), prctl(2), capabilities(7), setrlimit(2).
Left out on purpose: control groups.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator

from rlkit.sandbox.zygote import kernel, landlock, seccomp

#: Number that resource(2) gives a limit the kernel ignores since 2.4. Processes inherit
#: it and cannot raise it, so a number of ours in it marks everything a job ever starts.
RLIMIT_LOCKS = 10

#: Threads that a job may have beside its processes; the kernel counts both together.
THREADS = 48

#: Mebibytes of stack; the kernel leaves so much room below the stack of any process.
STACK_MB = 96

_SIGKILL = 9
_CAP_DAC_READ_SEARCH = 1 << 2
_PR_CAP_AMBIENT = 47
_MEBIBYTE = 1 << 20


class Fences:
    """What a zygote has prepared for its children.

    Args:
        abi: version of Landlock to use, 0 for none.
        filters: whether seccomp is to be used.
        limits: whether resources are to be limited.
        readable: what a job may read beside its own folder.
        programs: whether other programs than Python may be run.
        network: whether sockets may be opened.
        private: whether the job sees only a tree of files of its own.
        alone: whether the job sees only processes of its own.
        writing: whether files may be written at all.
        tag: number that marks every process of a job; None for none.
        extra_mb: mebibytes of address space that the loaded libraries take.
    """

    def __init__(
        self,
        *,
        abi: int,
        filters: bool,
        limits: bool,
        readable: tuple[str, ...],
        programs: bool,
        network: bool,
        private: bool,
        alone: bool,
        writing: bool,
        tag: int | None,
        extra_mb: int = 0,
    ) -> None:
        self.abi = abi
        self.filters = filters
        self.limits = limits
        self.readable = readable
        self.programs = programs
        self.network = network
        self.private = private
        self.alone = alone
        self.writing = writing
        self.tag = tag
        self.extra_mb = extra_mb
        self.parent = os.getpid()
        self._rules: dict[tuple, int] = {}
        self._filters: dict[tuple, Filter | None] = {}
        self._limits: dict[tuple, list[tuple[str, int, tuple[int, int]]]] = {}

    def prepare(self, seat: str, own: tuple[str, ...], limits: dict, command: bool) -> None:
        """Build, in the zygote, what `put_on` will need for such a job."""
        if self.abi and (seat, command) not in self._rules:
            self._rules[seat, command] = landlock.ruleset(
                self.abi, own, self.readable, self.programs, self.network
            )
        key = self._key(limits, command)
        if self.filters and key not in self._filters:
            code = seccomp.program(
                platform.machine(),
                processes=key[0],
                programs=key[1],
                network=self.network,
                metadata=self.private,
                truncate=self.private or self.abi >= 3,
                writing=self.writing,
                signals=key[0] and self.alone,
            )
            self._filters[key] = None if code is None else Filter(code)

    def put_on(self, seat: str, command: bool, die: bool = True) -> list[str]:
        """Bind the child to its parent's life and to its folder; returns the names that stand."""
        if not kernel.available():
            return []
        standing = []
        if die and kernel.call("prctl", kernel.PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0) == 0:
            # The zygote may have died before the line above.
            if os.getppid() != self.parent:
                os._exit(1)
            standing.append("dies_with_parent")
        rules = self._rules.get((seat, command))
        if rules is not None and landlock.restrict(rules):
            standing.append(f"landlock:{self.abi}")
        return standing

    def limit(self, limits: dict, command: bool, memory: str, tasks: int) -> list[str]:
        """Limit what the child may use; returns the names of the limits that stand.

        Args:
            limits: as in `types.Limits`, by name.
            command: whether another program is about to take this process's place.
            memory: `address` or `data`, see `backends.base.Command`.
            tasks: processes that count against the process limit already.
        """
        standing = []
        for name, number, value in self.wanted_limits(limits, command, memory):
            if _set(number, value) and name:
                standing.append(name)
        if self.limits and limits["processes"]:
            _lower(resource.RLIMIT_NPROC, tasks + limits["processes"] + THREADS)
        return standing

    def wanted_limits(
        self, limits: dict, command: bool, memory: str
    ) -> list[tuple[str, int, tuple[int, int]]]:
        """Names, numbers and values of the limits of such a job, worked out once."""
        if not self.limits:
            return []
        room = limits["memory_mb"] + (0 if command else self.extra_mb)
        key = (limits["cpu_s"], room, limits["files_mb"], limits["open_files"], memory)
        found = self._limits.get(key)
        if found is None:
            found = self._limits[key] = list(_wanted(limits, room, memory, self.tag))
        return found

    def filter(self, limits: dict, command: bool) -> list[str]:
        """The last fence; a separate step, because some calls are needed until right before."""
        prepared = self._filters.get(self._key(limits, command))
        if prepared is not None and prepared.install(os.getpid()):
            return ["seccomp"]
        unfiltered = self.limits and limits["processes"] == 0 and os.geteuid() != 0
        # Counts threads too, and nothing at all for root: only where the filter is missing.
        if unfiltered and _lower(resource.RLIMIT_NPROC, 1):
            return ["no_processes"]
        return []

    def _key(self, limits: dict, command: bool) -> tuple[bool, bool]:
        processes = limits["processes"] > 0
        return processes, command or processes


class Filter:
    """A filter of system calls in the form that the kernel takes, but for the process id."""

    def __init__(self, code: bytes) -> None:
        address, self.block = kernel.kept(code)
        mark = seccomp.PID_MARK.to_bytes(4, "little")
        self.places = [at for at in range(4, len(code), 8) if code[at : at + 4] == mark]
        # struct sock_fprog: the number of instructions, padding, and where they are
        self.header = (len(code) // 8).to_bytes(2, "little") + bytes(6)
        self.header += address.to_bytes(8, "little")

    def install(self, pid: int) -> bool:
        """Put the filter on this process, for ever."""
        number = pid.to_bytes(4, "little")
        view = memoryview(self.block).cast("B")
        for place in self.places:
            view[place : place + 4] = number
        return kernel.call("prctl", kernel.PR_SET_SECCOMP, 2, self.header, 0, 0) == 0


def no_new_privileges() -> bool:
    """From now on no program that this process runs gains a privilege by being run."""
    return kernel.call("prctl", kernel.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def drop_capabilities(keep_reading: bool = False) -> bool:
    """Give up every special privilege, also those that could come back later.

    Args:
        keep_reading: keep the one that lets root read everybody's files.
    """
    for number in range(64):
        if keep_reading and 1 << number == _CAP_DAC_READ_SEARCH:
            continue
        if kernel.call("prctl", kernel.PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    kept = _CAP_DAC_READ_SEARCH if keep_reading else 0
    header = (0x20080522).to_bytes(4, "little") + bytes(4)
    low = kept.to_bytes(4, "little") * 3  # effective, permitted, inheritable
    done = kernel.call("capset", header, low + bytes(12)) == 0
    if keep_reading:  # also in the programs that a job runs
        kernel.call("prctl", _PR_CAP_AMBIENT, 2, _CAP_DAC_READ_SEARCH.bit_length() - 1, 0, 0)
    return done


def limit_for_all(tag: int | None) -> list[str]:
    """Limits that are the same for the zygote and every job; returns their names."""
    wanted = [
        ("core", "RLIMIT_CORE", 0),
        ("message_queues", "RLIMIT_MSGQUEUE", 0),
        ("locked_memory", "RLIMIT_MEMLOCK", 0),
    ]
    standing = []
    for name, constant, value in wanted:
        number = getattr(resource, constant, None)
        if number is not None and _lower(number, value):
            standing.append(name)
    if tag is not None and kernel.LINUX:
        # One more than a job's, so that the two can be told apart.
        _lower(RLIMIT_LOCKS, tag + 1)
    return standing


def _wanted(
    limits: dict, room: int, memory: str, tag: int | None
) -> Iterator[tuple[str, int, tuple[int, int]]]:
    seconds = max(1, -int(-limits["cpu_s"] // 1))  # rounded up
    infinity = resource.RLIM_INFINITY
    stack = min(STACK_MB, limits["memory_mb"] // 2) * _MEBIBYTE
    for name, constant, soft, hard in (
        # SIGXCPU at the limit, SIGKILL a second later for those who ignore it
        ("cpu", "RLIMIT_CPU", seconds, seconds + 1),
        ("memory", "RLIMIT_AS" if memory == "address" else "", room * _MEBIBYTE, None),
        ("data", "RLIMIT_DATA", room * _MEBIBYTE, None),
        ("file_size", "RLIMIT_FSIZE", limits["files_mb"] * _MEBIBYTE, None),
        ("open_files", "RLIMIT_NOFILE", limits["open_files"], None),
        # Deep recursion is to end as an exception where Python can notice it, not as a crash.
        ("", "RLIMIT_STACK", stack, infinity),
    ):
        number = getattr(resource, constant, None) if constant else None
        if number is not None:
            yield name, number, _below(number, soft, soft if hard is None else hard)
    if tag is not None and kernel.LINUX:
        # A host that has lowered this one itself leaves no room for a number of our own.
        soft, hard = _below(RLIMIT_LOCKS, tag, tag)
        yield "tag" if hard == tag else "", RLIMIT_LOCKS, (soft, hard)


def _below(number: int, soft: int, hard: int) -> tuple[int, int]:
    """The pair of limits, never above what is already the ceiling."""
    infinity = resource.RLIM_INFINITY
    ceiling = resource.getrlimit(number)[1]
    if ceiling != infinity:
        hard = ceiling if hard == infinity else min(hard, ceiling)
        soft = min(soft, ceiling)
    return soft, hard


def _set(number: int, value: tuple[int, int]) -> bool:
    try:
        resource.setrlimit(number, value)
    except (OSError, ValueError):  # macOS refuses RLIMIT_AS, for one
        return False
    return True


def _lower(number: int, value: int) -> bool:
    """Set a limit, never above what is already the ceiling; False where the system refuses."""
    return _set(number, _below(number, value, value))
