"""What the sandbox really keeps out: a program that tries, run inside it.

Nothing here is believed because it was configured. A probe job attempts each thing once
(read a file outside, connect, signal the host, start a process, ...) and tells what worked;
the report is made of that, and of what this process saw from outside. It works for every
backend, and what a remote one shows is what it gets.

Left out on purpose: attacks on the kernel itself. A level says what accidents and reward
hacking run into, not that nobody could ever get out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlkit.sandbox import levels
from rlkit.sandbox.codec import CodecError, decode
from rlkit.sandbox.findings import Findings, judge_level, properties_of
from rlkit.sandbox.probe_program import FAMILY_PROGRAM, PROGRAM
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, TestSpec

if TYPE_CHECKING:
    from rlkit.sandbox.backends.base import Backend, Outcome

SENTENCES = {
    Level.NONE: "nothing is held back; run only programs that you wrote yourself",
    Level.LIMITS: "limits on time, memory, output and files; not a security boundary",
    Level.CONFINED: (
        "confined to its own folder, without network or other processes, with limits on time, "
        "memory and output; contains accidents and reward hacking, not a determined attacker"
    ),
    Level.NAMESPACED: (
        "in a world of its own (files, processes, network), with limits on time, memory and "
        "output; contains accidents and reward hacking, not a determined attacker"
    ),
    Level.CONTAINER: (
        "in a container, in a world of its own; contains accidents and reward hacking, not a "
        "determined attacker, who shares the kernel with you"
    ),
    Level.SEPARATE_KERNEL: (
        "on a kernel or a machine of its own; what it can reach there is said below"
    ),
}

#: What the probe may use: little, so that trying the limits costs little.
_LIMITS = Limits(wall_s=20.0, memory_mb=128, files_mb=4, scratch_mb=64)
_FAMILY = replace(_LIMITS, processes=4)

#: How long a process that was left behind is looked for.
_SEARCH_S = 0.2

#: Said of the teardown where a job that started processes was seen to leave none.
FAMILY_ENDED = "what a job leaves when it may start processes was seen to be ended too"


def probe(
    run: Callable[[Job, Limits], Outcome],
    *,
    one_shot: bool = False,
    claim: Level | None = None,
) -> tuple[IsolationReport, frozenset[str]]:
    """Run the probes; returns what holds, and the names of the fences that stood.

    Args:
        run: runs a job under limits, and reports the facts.
        one_shot: whether each job has a first process of its own, which dies with it, so
            that reaching it harms nobody.
        claim: a level that the backend says it is built for, above NAMESPACED; it is given
            only if the probes bear it out.
    """
    with _bait() as bait:
        tests = [TestSpec(str(n), args=attempt) for n, attempt in enumerate(bait.attempts)]
        outcome = run(Job(source=PROGRAM, entry="attempt", tests=tests), _LIMITS)
        reached = bait.reached()
        came_of: dict[str, list[str | None]] = {}
        answers = _answers(outcome)
        for number, attempt in enumerate(bait.attempts):
            came_of.setdefault(attempt[0], []).append(answers.get(number))
        found = Findings(
            came_of=came_of,
            fences=frozenset(outcome.fences),
            reached=reached,
            one_shot=one_shot,
            host_user=os.geteuid() if hasattr(os, "geteuid") else -1,
            own_processes=_own_processes(came_of["who_am_i"][0]),
            other_kernel=_other_kernel(came_of["which_kernel"][0]),
        )
    bare = found.own_processes and not found.fences
    if "worked" not in came_of["start_process"] or bare:
        found.family = _family(run)
    properties = properties_of(found)
    level = judge_level(found, properties, claim)
    return IsolationReport(level, _sentence(level), properties), frozenset(outcome.fences)


def probe_backend(backend: Backend) -> IsolationReport:
    """The report on any backend, from probes that it runs like any other job.

    A backend may have the attributes `one_shot` and `claim`, see `probe`.

    Raises:
        InfrastructureFault: the backend could not run the probes.
    """
    from rlkit.sandbox.judge import prepare

    def run(job: Job, limits: Limits) -> Outcome:
        return backend.call(prepare(job, limits), limits, lambda: False)

    return probe(
        run,
        one_shot=getattr(backend, "one_shot", False),
        claim=getattr(backend, "claim", None),
    )[0]


def relaxed(report: IsolationReport, limits: Limits) -> IsolationReport:
    """The report for a job whose limits allow what is forbidden by default."""
    allowed = {"network"} if limits.network else set()
    if limits.processes:
        allowed.add("memory_total")  # limits are per process
        ended = any(FAMILY_ENDED in p.mechanism for p in report.properties)
        allowed |= set() if ended else {"teardown", "memory"}  # one may get away
    weaker = {p.name for p in report.properties if p.name in allowed and p.state == "enforced"}
    if not weaker:
        return report
    properties = tuple(
        replace(p, state="partial", mechanism=f"the job's limits allow more; {p.mechanism}")
        if p.name in weaker
        else p
        for p in report.properties
    )
    level = report.level
    if weaker - {"memory_total"}:
        level = min(level, Level.LIMITS)
    return IsolationReport(level, _sentence(level), properties)


def _sentence(level: Level) -> str:
    weakened = levels.hidden().says
    return f"{SENTENCES[level]} ({weakened})" if weakened else SENTENCES[level]


# -- the bait ----------------------------------------------------------------------------------


@dataclass
class _Bait:
    """What is planted for the probe, and what was seen of it from outside."""

    attempts: list[tuple[Any, ...]] = field(default_factory=list)
    listeners: dict[str, socket.socket] = field(default_factory=dict)

    def reached(self) -> frozenset[str]:
        """Which of our sockets somebody came to."""
        came = set()
        for name, listener in self.listeners.items():
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(1)
                came.add(name)
        return frozenset(came)


@contextlib.contextmanager
def _bait() -> Iterator[_Bait]:
    """Files that everybody may read and write, and sockets that listen."""
    with (
        tempfile.TemporaryDirectory(prefix="rlkit-probe-") as outside,
        socket.socket() as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        os.chmod(outside, 0o777)
        bait = Path(outside, "bait")
        bait.write_bytes(b"bait")
        bait.chmod(0o666)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(8)
        port = tcp.getsockname()[1]
        with contextlib.suppress(OSError):  # somebody else has that number: no datagrams then
            udp.bind(("127.0.0.1", port))
        for listener in (tcp, udp):
            listener.setblocking(False)
        path, host = str(bait), os.getpid()
        command = _bytes_of(f"/proc/{host}/cmdline")[:200]
        yield _Bait(
            [
                ("read_file", path),
                ("read_the_users", _bytes_of("/etc/passwd")[:64]),
                ("list_folder", outside),
                ("see_name", path),
                ("append_to_file", path),
                ("create_file", os.path.join(outside, "new")),
                ("change_mode", path),
                ("touch", path),
                ("set_attribute", path),
                ("read_host_arguments", host, command),
                ("read_host_environment", host, command),
                ("open_host_memory", host, command),
                ("limits_of_host", host),
                ("open_parent_memory",),
                ("limits_of_parent",),
                ("signal_host", host),
                ("signal_parent",),
                ("signal_all",),
                ("start_process",),
                ("connect", port),
                ("send_datagram", port),
                ("find_a_route",),
                ("too_large_file", _LIMITS.files_mb + 1),
                ("room_of_the_scratch", 4 * _LIMITS.scratch_mb),
                ("processor_limit",),
                ("scratch_works",),
                ("who_am_i",),
                ("which_kernel",),
                ("memory_in_files", _LIMITS.memory_mb + 8, _LIMITS.files_mb),
                ("too_much_memory", _LIMITS.memory_mb + 64),
            ],
            {"connect": tcp, "send_datagram": udp},
        )


def _answers(outcome: Outcome) -> dict[int, str]:
    """By number of the test, what the probe program returned."""
    from rlkit.sandbox.backends.base import InfrastructureFault

    answers = {}
    for message in outcome.messages:
        if message[0] == "value":
            try:
                answers[message[1]] = str(decode(message[2]))
            except CodecError as error:
                raise InfrastructureFault(f"a probe answered nonsense: {error}") from error
    return answers


def _family(run: Callable[[Job, Limits], Outcome]) -> str:
    """What became of a process that a job left behind: `ended`, `left`, or why it is unknown."""
    name = f"rlkit{secrets.token_hex(5)}"
    test = TestSpec("family", args=(name, 5.0))
    outcome = run(Job(source=FAMILY_PROGRAM, entry="attempt", tests=[test]), _FAMILY)
    said = _answers(outcome).get(0)
    if said != "started":
        return f"could not be tried: {said}"
    deadline = time.monotonic() + _SEARCH_S
    while _named(name):
        if time.monotonic() > deadline:
            return "left"
        time.sleep(0.01)
    return "ended" if outcome.orphans else "not seen any more"


def _named(name: str) -> bool:
    """Whether a process of this name runs, here or in a namespace below."""
    with contextlib.suppress(OSError):
        for pid in os.listdir("/proc"):
            if pid.isdigit() and _bytes_of(f"/proc/{pid}/comm").strip() == name.encode():
                state = _bytes_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1]
                if state not in ([b"Z"], [b"X"]):
                    return True
    return False


def _own_processes(answer: str | None) -> bool:
    """Whether process ids mean something else inside: its parent's id is no child of ours."""
    try:
        parent = int(str(answer).split()[1])
    except (IndexError, ValueError):
        return False
    for _ in range(8):
        if parent == os.getpid():
            return False
        fields = _bytes_of(f"/proc/{parent}/stat").rpartition(b")")[2].split()
        if len(fields) < 2:
            break
        parent = int(fields[1])
    return Path("/proc/self").exists()


def _other_kernel(answer: str | None) -> bool:
    """Whether it ran on another kernel than ours, by what it says of itself."""
    parts = str(answer).split("|")
    if len(parts) != 3:
        return False
    ours = platform.uname()
    booted = _bytes_of("/proc/sys/kernel/random/boot_id").decode().strip()
    if parts[2] and booted and parts[2] != booted:
        return True
    return (parts[0], parts[1]) != (ours.release, ours.version)


def _bytes_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
