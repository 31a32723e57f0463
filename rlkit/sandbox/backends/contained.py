"""A pool of zygotes, each warm in a container of its own: what Docker and Kubernetes share.

The pool is the local backend's. Only where a zygote comes to life is another place: the engine's
client is started here, connects its standard input and output to an interpreter inside, and the
zygote's code goes in over the stream, so that an image needs nothing but `python3`. The zygote
supervises its jobs as it does at home, and puts on the same fences as far as the container lets
it; the container comes on top.

A zygote that does not answer is ended with its container, by the engine, so that nothing goes on
running inside; ending the client alone would leave it there.

Programs in other languages need their toolchains in the image. They are looked for inside, once.

Left out on purpose: building images.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import languages
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.backends.link import Link, Refused
from rlkit.sandbox.backends.local import Kind, LocalBackend
from rlkit.sandbox.languages.row import Toolchain
from rlkit.sandbox.types import IsolationReport, Level

#: The engine's client has so many seconds for anything but starting.
CLIENT_S = 60.0

#: What may be read of an image: programs and libraries, and not what says who lives there.
READABLE = (
    *("/bin", "/lib", "/lib64", "/opt", "/sbin", "/usr", "/nix/store", "/etc/alternatives"),
    *("/etc/ld.so.cache", "/etc/localtime", *(f"/etc/java-{n}-openjdk" for n in range(8, 27))),
)

#: Runs inside, before any job: where interpreters and compilers are, and their versions.
LOOK_AROUND = r"""
import json, os, shutil, subprocess, sys
def version(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    return text.split("\n")[0][:80] if done.returncode == 0 else None
found = {}
for name, flags in {"node": ("--version",), "gcc": ("--version",), "g++": ("--version",),
                    "javac": ("-version",), "java": ("-version",), "rustc": ("--version",),
                    "bash": ("--version",), "sqlite3": ("-version",)}.items():
    path = shutil.which(name)
    said = path and version(path, *flags)
    if said:
        # A proxy such as rustup's goes by the name it was called with.
        real = os.path.realpath(path)
        found[name] = [path if os.path.basename(real) == "rustup" else real, said]
found["python3"] = [os.path.realpath(sys.executable), sys.version.split()[0]]
site = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
print(json.dumps({"tools": found, "site": site, "machine": os.uname().machine}))
"""

#: Which programs of an image make up a language's toolchain, by the names its row uses.
_TOOLS = {
    "python": {"python": "python3"},
    "javascript": {"node": "node"},
    "typescript": {"node": "node"},
    "c": {"compiler": "gcc"},
    "cpp": {"compiler": "g++"},
    "java": {"javac": "javac", "java": "java", "python": "python3"},
    "rust": {"rustc": "rustc"},
    "bash": {"bash": "bash"},
    "sql": {"sqlite3": "sqlite3"},
}


class ContainedBackend(LocalBackend):
    """What the two engines have in common; see the module.

    Args:
        client: the engine's command line program.
        workers: jobs at a time, each in a container of its own.
        python: the interpreter's name inside.

    Raises:
        UserError: the client is not installed.
    """

    #: Given only if the probes bear it out.
    claim = Level.CONTAINER

    def __init__(self, client: str, workers: int, python: str) -> None:
        super().__init__(workers, python)
        path = shutil.which(client)
        if path is None:
            raise UserError(
                f"backend {self.name!r} needs the program {client!r}, which is not installed here; "
                "use backend='local', or install it"
            )
        self.client = path
        self._report: IsolationReport | None = None
        self._about: dict[str, Any] | None = None
        self._looking = threading.Lock()

    # -- to be given by each engine ------------------------------------------------------------

    def _open(self, kind: Kind, name: str) -> Sequence[str]:
        """Make a container; returns the command that connects to an interpreter inside."""
        raise NotImplementedError

    def _remove(self, name: str) -> None:
        """End a container and everything in it; it may be gone already."""
        raise NotImplementedError

    def _look_around(self) -> str:
        """What `LOOK_AROUND` prints inside."""
        raise NotImplementedError

    # -- what the pool and the front ask for ---------------------------------------------------

    def report(self) -> IsolationReport:
        """What keeps a job apart from this machine, as seen by probes run inside.

        Raises:
            InfrastructureFault: no container can be started.
        """
        from rlkit.sandbox.probe import probe_backend

        with self._looking:
            if self._report is None:
                self._report = probe_backend(self)
            return self._report

    def toolchain(self, language: str) -> Toolchain:
        """The toolchain of a language in the image.

        Raises:
            UserError: the image has none.
        """
        row, tools = languages.get(language), self._inside()["tools"]
        wanted = _TOOLS.get(row.name)
        missing = [name for name in (wanted or {}).values() if name not in tools]
        if wanted is None or missing:
            lacks = f"the image has no {' and no '.join(missing)}" if missing else "left out"
            raise UserError(
                f"{row.title} cannot be run by backend {self.name!r}: {lacks}; use another image"
            )
        chosen = {short: tools[name][0] for short, name in wanted.items()}
        said = tools[next(iter(wanted.values()))][1]
        version = said if said[0].isalpha() else f"{next(iter(wanted.values()))} {said}"
        known = json.dumps([self.identity, sorted(tools.items())])
        return Toolchain(
            row.name, version, chosen, READABLE, hashlib.sha256(known.encode()).hexdigest()
        )

    @property
    def identity(self) -> str:
        """What decides which toolchains there are: the image."""
        raise NotImplementedError

    def _inside(self) -> dict[str, Any]:
        with self._looking:
            if self._about is None:
                text = self._look_around()
                try:
                    self._about = json.loads(text)
                except ValueError:
                    raise InfrastructureFault(
                        f"{self.name}: {self.python} does not run inside: {text[-200:]!r}"
                    ) from None
            return self._about

    def _start_one(self, kind: Kind, namespaces: bool) -> Link:
        plan = self._plan(kind, namespaces)
        if plan["site"]:
            plan["site"] = tuple(self._inside()["site"])
        plan.update(parent=0, readable=READABLE, tmp=("/tmp", "/dev/shm"))
        name = f"rlkit-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            command = self._open(kind, name)
            return _Contained(self, name, plan, command)
        except BaseException:
            self._remove(name)
            raise

    def _run_client(self, *words: str, given: str = "", wait_s: float = CLIENT_S) -> str:
        """What the client prints.

        Raises:
            InfrastructureFault: it failed, or took too long.
        """
        try:
            done = subprocess.run(
                [self.client, *words],
                input=given.encode(),
                capture_output=True,
                timeout=wait_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InfrastructureFault(f"{self.name}: {words[0]} failed: {error}") from None
        if done.returncode != 0:
            text = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise InfrastructureFault(f"{self.name}: {words[0]} failed: {text}")
        return done.stdout.decode("utf-8", "replace")


class _Contained(Link):
    """A zygote in a container, which ends with it."""

    def __init__(
        self, backend: ContainedBackend, name: str, plan: dict[str, Any], command: Sequence[str]
    ) -> None:
        self.backend = backend
        self.name = name
        self._gone = False
        super().__init__(backend.python, plan, dict(os.environ), command)
        self.folder = ""  # it lies inside, and goes with the container

    def kill(self, patience_s: float = 0.0) -> None:
        super().kill(patience_s)
        if not self._gone:
            self._gone = True
            self.backend._remove(self.name)


__all__ = ["CLIENT_S", "LOOK_AROUND", "ContainedBackend", "Refused"]
