"""From what a probe found out to the properties and the level of an isolation report.

A property is `enforced` only if each attempt against it was made and each was refused;
`absent` if all of them worked; `partial` in between, and also where an attempt could not be
made at all, which proves nothing.

Left out on purpose: trust in names of layers. They are shown as mechanisms, and decide
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlkit.sandbox.types import Level, Property

#: How an attempt ends when something holds it back.
REFUSALS = frozenset({"PermissionError", "BlockingIOError", "MemoryError", "OSError"})

#: The same where things are out of sight rather than forbidden: what is there for the host
#: (a planted file, a process, a port) is not there inside.
UNSEEN = frozenset({
    *("FileNotFoundError", "NotADirectoryError", "ProcessLookupError", "another process"),
    *("another file", "ConnectionRefusedError", "TimeoutError", "timeout", "somebody else's"),
})  # fmt: skip

#: What must hold for a level; what is not listed may be partial or absent.
NEEDED: Mapping[Level, tuple[str, ...]] = {
    Level.LIMITS: ("time", "output"),
    Level.CONFINED: (
        *("memory", "files_read", "files_write", "metadata", "network", "other_processes"),
        *("signals", "teardown"),
    ),
    Level.NAMESPACED: ("names",),
}

#: The names of all properties, in the order in which they are shown.
NAMES = (
    *("time", "output", "memory", "memory_total", "disk", "files_read", "files_write"),
    *("metadata", "names", "network", "other_processes", "signals", "teardown", "same_uid"),
)


@dataclass
class Findings:
    """Everything that the probes brought back.

    Attributes:
        came_of: by attempt, what came of it, each time that it was made; None for no answer.
        fences: names of the layers that stood when the program began.
        reached: which of our sockets somebody came to.
        one_shot: whether the first process inside lives for one job only.
        host_user: the user id of this process.
        own_processes: whether process ids inside are of a world of their own.
        other_kernel: whether it ran on another kernel than ours.
        family: what became of a process that a job left behind.
    """

    came_of: Mapping[str, list[str | None]]
    fences: frozenset[str] = frozenset()
    reached: frozenset[str] = frozenset()
    one_shot: bool = False
    host_user: int = 0
    own_processes: bool = False
    other_kernel: bool = False
    family: str = ""

    def said(self, attempt: str) -> str | None:
        """What came of an attempt that is made once."""
        return self.came_of[attempt][0]


def properties_of(found: Findings) -> tuple[Property, ...]:
    """One entry for each of `NAMES`."""
    landlock = next((f.replace(":", " version ") for f in found.fences if "landlock" in f), "")
    seccomp = "seccomp filter" if "seccomp" in found.fences else ""
    files = landlock or ("a tree of files of its own" if _unseen(found, "read_file") else "")
    files = files or "file permissions"
    calls = seccomp or ("out of sight" if _unseen(found, "signal_host") else "the kernel's checks")
    network = seccomp or "a network of its own"
    host = ("read_host_arguments", "read_host_environment", "open_host_memory", "limits_of_host")
    parent = () if found.one_shot else ("open_parent_memory", "limits_of_parent")
    signals = ("signal_host", *(() if found.one_shot else ("signal_parent", "signal_all")))
    if found.own_processes:
        calls += " and process ids of its own"
    return (
        Property("time", "enforced", "wall clock by the host, processor time by the kernel")
        if found.said("processor_limit") == "limited"
        else Property("time", "partial", "wall clock by the host only"),
        Property("output", "enforced", "counted by the host while it drains the pipes"),
        _looked_at(found, "memory", ("too_much_memory",), "limit on address space or memory"),
        _memory_total(found),
        _disk(found),
        _looked_at(found, "files_read", ("read_file", "read_the_users", "list_folder"), files),
        _looked_at(found, "files_write", ("append_to_file", "create_file"), files),
        _looked_at(found, "metadata", ("change_mode", "touch", "set_attribute"), seccomp or files),
        _looked_at(found, "names", ("see_name",), "a tree of files of its own"),
        _looked_at(found, "network", ("connect", "send_datagram", "find_a_route"), network),
        _looked_at(found, "other_processes", (*host, *parent), calls),
        _looked_at(found, "signals", signals, calls),
        _teardown(found),
        _same_uid(found),
    )


def judge_level(
    found: Findings, properties: tuple[Property, ...], claim: Level | None = None
) -> Level:
    """The strongest level whose every property, and every one below it, was seen to hold."""
    if found.said("scratch_works") != "worked" and "no_writing" not in found.fences:
        return Level.NONE  # nothing works in there, so that it refuses things proves nothing
    state = {p.name: p.state for p in properties}
    if found.other_kernel:
        # What it may start there is not started here.
        state["teardown"] = "enforced"
    level = Level.NONE
    for candidate, names in sorted(NEEDED.items()):
        if not all(state[name] == "enforced" for name in names):
            return level
        if candidate is Level.NAMESPACED and not (found.own_processes or found.other_kernel):
            return level
        level = candidate
    if found.other_kernel:
        return Level.SEPARATE_KERNEL
    return Level.CONTAINER if claim is not None and claim >= Level.CONTAINER else level


def _looked_at(found: Findings, name: str, attempts: tuple[str, ...], by: str) -> Property:
    """`enforced` only if each attempt was made and each of them was refused."""
    outcomes = [
        _outcome(found, attempt, said) for attempt in attempts for said in found.came_of[attempt]
    ]
    worked = [a for a in attempts if "worked" in [_outcome(found, a, s) for s in found.came_of[a]]]
    strange = {str(o) for o in outcomes if o != "worked" and o not in REFUSALS | UNSEEN}
    if not worked and strange:
        return Property(name, "partial", f"could not be tried: {', '.join(sorted(strange))}")
    if not worked:
        return Property(name, "enforced", by)
    state = "absent" if len(worked) == len(attempts) else "partial"
    return Property(name, state, f"this works: {', '.join(w.replace('_', ' ') for w in worked)}")


def _outcome(found: Findings, attempt: str, said: str | None) -> str | None:
    if (
        attempt in ("connect", "send_datagram")
        and said == "worked"
        and attempt not in found.reached
    ):
        return "somebody else's"  # a loopback of its own: nothing came here
    return said


def _unseen(found: Findings, attempt: str) -> bool:
    return found.said(attempt) in UNSEEN


def _memory_total(found: Findings) -> Property:
    """All memory of a job together, also what belongs to no process of it."""
    if found.said("start_process") == "worked":
        return Property("memory_total", "partial", "limits hold for each process by itself")
    if found.said("memory_in_files") == "worked":
        return Property(
            "memory_total",
            "partial",
            "one process only, but files in memory are limited one by one, not together",
        )
    return _looked_at(
        found, "memory_total", ("memory_in_files",), "one process, and no files in memory beside it"
    )


def _disk(found: Findings) -> Property:
    limited = _looked_at(found, "disk", ("too_large_file",), "limit on the size of a file")
    if limited.state != "enforced":
        return limited
    if found.said("room_of_the_scratch") == "limited":
        return Property("disk", "enforced", "a file system of limited size, and limits on files")
    return Property(
        "disk",
        "partial",
        "files are limited one by one; all together are counted while the job runs, so they may "
        "exceed the limit for a moment",
    )


def _teardown(found: Findings) -> Property:
    from rlkit.sandbox.probe import FAMILY_ENDED

    over = found.family in ("ended", "not seen any more")
    bare = not found.fences  # a service that was asked what it does without fences of ours
    if found.said("start_process") == "worked" and bare and found.own_processes and over:
        return Property("teardown", "enforced", f"process ids of its own; {FAMILY_ENDED}")
    if found.said("start_process") not in REFUSALS:
        searched = "tagged processes are searched and killed" if "tag" in found.fences else ""
        searched = searched or "what it leaves is not known"
        return Property("teardown", "partial", f"a job can start processes; {searched}")
    by = "seccomp filter" if "seccomp" in found.fences else "process limit"
    mechanism = f"no job can start a process ({by}); group killed"
    if found.family == "ended" or (found.family == "not seen any more" and found.own_processes):
        mechanism += f"; {FAMILY_ENDED}"
    elif found.family:
        mechanism += f"; of a job that may start processes, what it leaves: {found.family}"
    return Property("teardown", "enforced", mechanism)


def _same_uid(found: Findings) -> Property:
    if found.other_kernel:
        return Property("same_uid", "enforced", "another kernel has users of its own")
    user = str(found.said("who_am_i")).split(" ")[0]
    if user.isdigit() and int(user) not in (found.host_user, 0):
        return Property("same_uid", "enforced", f"jobs run as user id {user}, not as yours")
    return Property("same_uid", "absent", "jobs run as the user who runs this process")
