"""What the sandbox really keeps out: a program that tries, run inside it.

Nothing here is believed because it was configured. A probe job attempts each
thing once (read a file outside, connect, signal the parent, start a process, ...)
and tells what worked; the report is made of that. Every attempt is harmless where
it succeeds.

Left out on purpose: attacks on the kernel itself. A level says what accidents and
reward hacking run into, not that nobody could ever get out.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from rlkit.sandbox.codec import CodecError, decode
from rlkit.sandbox.supervise import InfrastructureFault, Outcome
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Property, TestSpec

SENTENCES = {
    Level.NONE: "nothing is held back; run only programs that you wrote yourself",
    Level.LIMITS: "limits on time, memory, output and files; not a security boundary",
    Level.CONFINED: (
        "confined to its own folder, without network or other processes, with limits on time, "
        "memory and output; stops accidents and reward hacking, not a determined attacker"
    ),
}

#: What must hold for a level; what is not listed may be partial or absent.
NEEDED = {
    Level.LIMITS: ("time", "output"),
    Level.CONFINED: (
        *("time", "output", "memory", "files_read", "files_write", "metadata", "network"),
        *("other_processes", "signals", "teardown"),
    ),
}

#: How an attempt ends when something holds it back. Any other exception means that it could
#: not even be made here, and proves nothing.
REFUSALS = frozenset({"PermissionError", "BlockingIOError", "MemoryError", "OSError"})

PROBES = r'''
import os

def attempt(what, *arguments):
    """What came of it: "worked", or the name of the exception."""
    try:
        answer = globals()[what](*arguments)
    except BaseException as error:
        return type(error).__name__
    return "worked" if answer is None else answer

def read_file(path):
    open(path, "rb").read(1)

def see_name(path):
    os.stat(path)

def list_folder(path):
    os.listdir(path)

def append_to_file(path):
    open(path, "ab").close()

def create_file(path):
    open(path, "xb").close()

def change_mode(path):
    os.chmod(path, 0o600)

def read_parent_environment():
    open("/proc/%d/environ" % os.getppid(), "rb").read(1)

def open_parent_memory():
    open("/proc/%d/mem" % os.getppid(), "rb").close()

def signal_parent():
    os.kill(os.getppid(), 0)

def signal_group_of_all():
    os.kill(-1, 0)

def limits_of_parent():
    import resource
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)

def start_process():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def connect(port):
    import socket
    socket.create_connection(("127.0.0.1", port), 1).close()

def send_datagram(port):
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", port))

def too_much_memory(megabytes):
    bytearray(megabytes << 20)

def too_large_file(megabytes):
    with open("large", "wb") as file:
        file.truncate(megabytes << 20)
        file.seek(megabytes << 20)
        file.write(b"x")

def processor_limit():
    import resource
    return "limited" if resource.getrlimit(resource.RLIMIT_CPU)[1] > 0 else None

def scratch_works():
    with open("note", "w") as file:
        file.write("x")
    os.remove("note")
'''


def probe(
    run: Callable[[Job, Limits], Outcome],
) -> tuple[IsolationReport, frozenset[str]]:
    """Run the probes; returns what holds, and the names of the fences that stood.

    Args:
        run: runs a job under limits, and reports the facts.
    """
    limits = Limits(wall_s=20.0)
    with tempfile.TemporaryDirectory(prefix="rlkit-probe-") as outside:
        bait = os.path.join(outside, "bait")
        with open(bait, "wb") as file:
            file.write(b"bait")
        os.chmod(bait, 0o644)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)
            port = listener.getsockname()[1]
            attempts = [
                ("read_file", bait),
                ("read_file", "/etc/passwd"),
                ("list_folder", outside),
                ("see_name", bait),
                ("append_to_file", bait),
                ("create_file", os.path.join(outside, "new")),
                ("change_mode", bait),
                ("read_parent_environment",),
                ("open_parent_memory",),
                ("limits_of_parent",),
                ("signal_parent",),
                ("signal_group_of_all",),
                ("start_process",),
                ("connect", port),
                ("send_datagram", port),
                ("too_large_file", limits.files_mb + 1),
                ("processor_limit",),
                ("scratch_works",),
                ("too_much_memory", limits.memory_mb + 64),
            ]
            tests = [TestSpec(str(n), args=attempt) for n, attempt in enumerate(attempts)]
            outcome = run(Job(source=PROBES, entry="attempt", tests=tests), limits)
    answers = _answers(outcome)
    came_of: dict[str, list[str | None]] = {}
    for number, attempt in enumerate(attempts):
        came_of.setdefault(attempt[0], []).append(answers.get(number))
    return _report(came_of, outcome.fences), outcome.fences


def relaxed(report: IsolationReport, limits: Limits) -> IsolationReport:
    """The report for a job whose limits allow what is forbidden by default."""
    allowed = {"network"} if limits.network else set()
    if limits.processes:
        allowed |= {"memory", "teardown"}  # limits are per process, and one may get away
    if not allowed:
        return report
    level = min(report.level, Level.LIMITS)
    properties = tuple(
        replace(p, state="partial", mechanism=f"the job's limits allow more; {p.mechanism}")
        if p.name in allowed and p.state == "enforced"
        else p
        for p in report.properties
    )
    return IsolationReport(level, SENTENCES[level], properties)


def _answers(outcome: Outcome) -> dict[int, str]:
    """By number of the test, what the probe program returned."""
    answers = {}
    for message in outcome.messages:
        if message[0] == "value":
            try:
                answers[message[1]] = str(decode(message[2]))
            except CodecError as error:
                raise InfrastructureFault(f"a probe answered nonsense: {error}") from error
    return answers


def _report(came_of: Mapping[str, list[str | None]], fences: Collection[str]) -> IsolationReport:
    landlock = next((f.replace(":", " version ") for f in fences if f.startswith("landlock")), "")
    seccomp = "seccomp filter" if "seccomp" in fences else ""

    def looked_at(name: str, attempts: tuple[str, ...], by: str, weakness: str = "") -> Property:
        """`enforced` only if each attempt was made and each of them was refused."""
        outcomes = [outcome for attempt in attempts for outcome in came_of[attempt]]
        worked = [a for a in attempts if "worked" in came_of[a]]
        strange = {str(o) for o in outcomes if o != "worked" and o not in REFUSALS}
        if not worked and strange:
            return Property(name, "partial", f"could not be tried: {', '.join(sorted(strange))}")
        if not worked:
            state = "partial" if weakness else "enforced"
            return Property(name, state, f"{by}; {weakness}" if weakness else by)
        state = "absent" if len(worked) == len(attempts) else "partial"
        return Property(
            name, state, f"this works: {', '.join(w.replace('_', ' ') for w in worked)}"
        )

    limited = came_of["processor_limit"] == ["limited"]
    works = came_of["scratch_works"] == ["worked"]
    properties = [
        Property("time", "enforced", "wall clock by the host, processor time by the kernel")
        if limited
        else Property("time", "partial", "wall clock by the host only"),
        Property("output", "enforced", "counted by the host while it drains the pipes"),
        looked_at("memory", ("too_much_memory",), "address space limit (RLIMIT_AS)"),
        looked_at(
            "disk",
            ("too_large_file",),
            "file size limit (RLIMIT_FSIZE), folder size checked while the job runs",
            "no quota, so it may be exceeded for a moment",
        ),
        looked_at("files_read", ("read_file", "list_folder"), landlock or "file permissions"),
        looked_at("files_write", ("append_to_file", "create_file"), landlock or "file permissions"),
        looked_at("metadata", ("change_mode",), seccomp or "file permissions"),
        looked_at("names", ("see_name",), "file permissions"),
        looked_at("network", ("connect", "send_datagram"), seccomp or "no route"),
        looked_at(
            "other_processes",
            ("read_parent_environment", "open_parent_memory", "limits_of_parent"),
            " and ".join(filter(None, (landlock, seccomp))) or "the kernel's own checks",
        ),
        looked_at("signals", ("signal_parent", "signal_group_of_all"), seccomp or landlock),
        _teardown(came_of["start_process"], fences),
        Property("same_uid", "absent", "jobs run as the user who runs this process"),
    ]
    level = Level.NONE
    by_name = {p.name: p.state for p in properties}
    for candidate, names in sorted(NEEDED.items()):
        if works and all(by_name[name] == "enforced" for name in names):
            level = candidate
        else:
            break
    return IsolationReport(level, SENTENCES[level], tuple(properties))


def _teardown(start_process: list[str | None], fences: Collection[str]) -> Property:
    if not REFUSALS.issuperset(start_process):
        searched = "tagged processes are searched and killed" if "tag" in fences else "no search"
        return Property("teardown", "partial", f"the process group is killed; {searched}")
    by = "seccomp filter" if "seccomp" in fences else "process limit"
    return Property("teardown", "enforced", f"no job can start a process ({by}); group killed")
