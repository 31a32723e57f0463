"""What a sandbox is surrounded with while the corpora run, and how it is looked after.

A folder that everybody may read and write, two sockets that listen in it, a port, and a
process that must survive unchanged: all planted by us, so that what keeps a program away
from them is the sandbox alone, and so that nothing of the user's is ever at stake. After
each case the state of all of it is compared with what it was.

Processes are found by a mark that no program here takes off: a limit on real-time computing
time that means nothing to ordinary programs, is inherited by everything this process ever
starts, and cannot be raised again.

Left out on purpose: Windows. On macOS the mark and `/proc` are missing, and only the folder
and the victim are looked after.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: An interpreter's worth of microseconds that no real-time program ever uses: 36 years.
_MARK = 1 << 50
_LONG_AGO = 1_000_000_000

#: Processes that a job started are given so many seconds to be gone after its verdict.
PATIENCE_S = 1.0

#: After so long without a change, nothing is on its way any more.
QUIET_S = 0.25


class Surroundings:
    """The planted folder, port and victim, and the state that they must keep.

    Use as a context manager.

    Attributes:
        folder: the planted folder.
        secret: a text that is nowhere but in a planted file; no verdict may hold it.
        places: what each marker in a program stands for.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Surroundings:
        self.mark = mark_this_process()
        self.secret = f"rlkit-planted-{secrets.token_hex(12)}"
        self.shared = f"rlkit-check-{secrets.token_hex(6)}"
        in_environment = f"rlkit-token-{secrets.token_hex(12)}"
        self.folder = Path(tempfile.mkdtemp(prefix="rlkit-outside-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._plant()
        self._listeners = {
            "tcp": self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        }
        if sys.platform.startswith("linux"):  # nobody else has names without a folder
            self._listeners["abstract"] = self._listen(
                socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.shared}"
            )
        port = self._listeners["tcp"].getsockname()[1]
        self._listeners["udp"] = self._listen(
            socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)
        )
        port6 = port
        with contextlib.suppress(OSError):  # a machine without the newer protocol
            six = self._listen(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
            self._listeners["tcp6"], port6 = six, six.getsockname()[1]
        self._victims: set[int] = set()
        self._new_victim()
        self._stack.callback(self._end_victim)
        os.environ["RLKIT_CHECK_TOKEN"] = in_environment
        self._stack.callback(os.environ.pop, "RLKIT_CHECK_TOKEN", None)
        self.places: Mapping[str, str] = {
            "@OUTSIDE@": str(self.folder),
            "@VICTIM@": str(self.victim),
            "@HOST@": str(os.getpid()),
            "@PORT@": str(port),
            "@PORT6@": str(port6),
            "@ABSTRACT@": self.shared,
            "@MARK@": self.shared,
            "@SECRET@": in_environment,
        }
        self._others = self.processes()
        self._before = self.state()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _plant(self) -> None:
        self.folder.mkdir(exist_ok=True)  # at a weak level a program may have removed it
        for name in os.listdir(self.folder):
            place = self.folder / name
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
        os.chmod(self.folder, 0o777)
        contents = {"secret": self.secret, "file": "unchanged", "module.py": "VALUE = 1\n"}
        for name, text in contents.items():
            place = self.folder / name
            place.write_text(text)
            os.chmod(place, 0o666)
            os.utime(place, (_LONG_AGO, _LONG_AGO))
        self._sockets = [
            self._bind(name, kind)
            for name, kind in (("socket", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM))
        ]

    def _bind(self, name: str, kind: int) -> socket.socket:
        bound = self._listen(socket.AF_UNIX, kind, str(self.folder / name))
        os.chmod(self.folder / name, 0o777)
        return bound

    def _listen(self, family: int, kind: int, address: Any) -> socket.socket:
        listener = self._stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen(64)
        listener.setblocking(False)
        return listener

    def _new_victim(self) -> None:
        self.victim = _start_victim()
        self._victims.add(self.victim)  # also when it is dead, and waits to be reaped

    def _end_victim(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.victim, signal.SIGKILL)

    def state(self) -> dict[str, Any]:
        """Everything that the attacks could change, by what it is."""
        found: dict[str, Any] = {}
        there = self.folder.is_dir()
        for name in sorted(os.listdir(self.folder)) if there else ():
            place = self.folder / name
            facts = os.lstat(place)
            found[f"file {name}"] = (
                stat.filemode(facts.st_mode),
                facts.st_mtime,
                (facts.st_uid, facts.st_gid, facts.st_nlink),
                hashlib.sha256(place.read_bytes()).hexdigest() if place.is_file() else "",
                tuple(os.listxattr(place)) if hasattr(os, "listxattr") else (),
            )
        found["the folder"] = stat.filemode(os.stat(self.folder).st_mode) if there else "gone"
        found["the victim"] = self._victim_state()
        found["this process"] = os.getpriority(os.PRIO_PROCESS, 0)
        found["the name of the machine"] = os.uname().nodename
        found["shared memory"] = os.path.exists(f"/dev/shm/{self.shared}")
        found["the program for crashes"] = _text("/proc/sys/kernel/core_pattern")
        found["system-wide queues"] = (_keys("/proc/sysvipc/shm"), _keys("/proc/sysvipc/msg"))
        return found

    def _victim_state(self) -> Any:
        try:
            os.kill(self.victim, 0)
            if not hasattr(os, "sched_getaffinity"):
                return "alive"
            state = _text(f"/proc/{self.victim}/stat").rpartition(")")[2].split()[:1]
            return (
                "alive" if state not in (["Z"], ["X"], ["T"], ["t"]) else state,
                _text(f"/proc/{self.victim}/limits"),
                os.getpriority(os.PRIO_PROCESS, self.victim),
                tuple(sorted(os.sched_getaffinity(self.victim))),
                os.sched_getscheduler(self.victim),
            )
        except ProcessLookupError:
            return "dead"

    def changes(self) -> list[str]:
        """What is not as it was, in words; puts it back, so that the next case starts afresh."""
        found = [f"connected to: {name}" for name in self._connections()]
        now = self.state()
        for what in sorted({*now, *self._before}):
            if now.get(what) != self._before.get(what):
                found.append(f"changed: {what}")
        if found:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/{self.shared}")
            self._plant()
            if now["the victim"] != self._before["the victim"]:
                self._end_victim()
                self._new_victim()
                self.places = {**self.places, "@VICTIM@": str(self.victim)}
            self._before = self.state()
        return found

    def _connections(self) -> list[str]:
        """Listeners that somebody reached since the last look."""
        reached = []
        listeners = {**self._listeners}
        listeners.update(zip(("socket", "datagram"), self._sockets, strict=True))
        for name, listener in listeners.items():
            with contextlib.suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    listener.recv(1)
                reached.append(name)
        return reached

    # -- processes ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Take the processes that run now as the sandbox's own: its warm workers.

        A worker may be getting ready for its next job just now, so this waits until nothing
        has changed for a while.
        """
        quiet_since, self._steady = time.monotonic(), self.processes()
        deadline = quiet_since + 5 * PATIENCE_S
        while time.monotonic() < min(quiet_since + QUIET_S, deadline):
            time.sleep(0.02)
            now = self.processes()
            if now.keys() != self._steady.keys():
                quiet_since, self._steady = time.monotonic(), now

    def settle_at_nothing(self) -> None:
        """The sandbox is closed: only what was here before it may be here still."""
        self._steady = self._others

    def processes(self) -> dict[int, str]:
        """Every process that this one ever started and that still runs, by its command line."""
        return {
            pid: command
            for pid, command in marked_processes(self.mark).items()
            if pid != os.getpid() and pid not in self._victims
        }

    def left_behind(self) -> list[str]:
        """Processes that are neither workers nor the replacements of workers."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self._left()
            if not found or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return found

    def _left(self) -> list[str]:
        now = self.processes()
        gone = Counter(c for pid, c in self._steady.items() if pid not in now)
        left = []
        for pid, command in now.items():
            if pid in self._steady:
                continue
            if gone[command]:
                gone[command] -= 1  # a worker that was replaced by a new one
            else:
                left.append(f"{pid} {command}")
        return left


def mark_this_process() -> int | None:
    """Give this process, and all that it starts from now on, a number that cannot be removed.

    Returns:
        the number; None where the system has no such limit.
    """
    if not sys.platform.startswith("linux"):
        return None
    number = getattr(resource, "RLIMIT_RTTIME", 15)
    soft, hard = resource.getrlimit(number)
    wanted = _MARK + os.getpid()
    if hard == wanted:
        return wanted
    if hard != resource.RLIM_INFINITY and hard <= wanted:
        wanted = hard - 1 - os.getpid()  # we are a child of a process that is marked already
        if wanted <= 0:
            return None
    soft = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
    resource.setrlimit(number, (soft, wanted))
    return wanted


def marked_processes(mark: int | None) -> dict[int, str]:
    """Processes that carry the number, by process id; their command lines."""
    if mark is None:
        return {}
    wanted = str(mark).encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            limits = Path(f"/proc/{name}/limits").read_bytes()
            line = next(x for x in limits.splitlines() if x.startswith(b"Max realtime timeout"))
            if line.split()[4] != wanted:
                continue
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except (OSError, StopIteration, IndexError):
            continue  # it ended meanwhile
        text = " ".join(command.replace(b"\0", b" ").decode("utf-8", "replace").split())[:100]
        found[int(name)] = text if state not in (b"Z", b"X") else f"dead and not reaped {text}"
    return found


@contextlib.contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Plant everything, and take it away again."""
    with Surroundings() as planted:
        yield planted


def _start_victim() -> int:
    # Not a child of this process, so that it is never mistaken for one of the sandbox's.
    command = ["/bin/sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!"]
    starter = subprocess.run(
        command, capture_output=True, check=True, user=_victim_user(), start_new_session=True
    )
    return int(starter.stdout)


def _victim_user() -> int | None:
    """Jobs of root run as another user; only a process of that user is theirs to attack."""
    return 65534 if os.geteuid() == 0 and sys.platform.startswith("linux") else None


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _keys(path: str) -> bool:
    """Whether the key that the corpus uses is taken in a table of the kernel."""
    return any(line.split()[:1] == ["77"] for line in _text(path).splitlines())
