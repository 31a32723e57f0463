"""DockerBackend: zygotes in warm containers of Docker, or of Podman, which has the same commands.

Each zygote is the main process of a container that is made for it, without network, capabilities,
new privileges or a file system to write to, under limits on memory and processes, as a user that
owns nothing. Jobs are forks of the zygote, so a job costs what it costs at home; a container is
made once for very many.

The container lives as long as the stream to it: when this process ends, however it ends, the
client closes the stream, the zygote ends, and the engine removes the container.

Left out on purpose: pulling images, which can take minutes. Docker-in-Docker, and mounts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.backends.contained import CLIENT_S, LOOK_AROUND, ContainedBackend
from rlkit.sandbox.backends.flavours import environment
from rlkit.sandbox.backends.local import Kind

#: Has `python3` and nothing else that matters; numpy and sympy need an image of one's own.
IMAGE = "python:3.12-slim"

#: Nobody's user and group.
USER = "65534:65534"


class DockerBackend(ContainedBackend):
    """Runs jobs in containers.

    Args:
        workers: jobs at a time, each in a container of its own.
        image: with `python3`, 3.10 or later; it must be on this machine already.
        client: `docker`, or `podman`.
        runtime: of the engine, for example `runsc` for gVisor; None takes its own.
        memory_mb: of each container, all that a job holds together.
        python: the interpreter's name inside.

    Raises:
        UserError: no client, no engine that it can reach, or no such image.
    """

    name = "docker"

    def __init__(
        self,
        workers: int = 1,
        *,
        image: str = IMAGE,
        client: str = "docker",
        runtime: str | None = None,
        memory_mb: int = 2048,
        python: str = "python3",
    ) -> None:
        super().__init__(client, workers, python)
        if image.startswith("-") or not image:
            raise UserError(f"image {image!r} is no name of an image")
        self.image = image
        self.runtime = runtime
        self.memory_mb = memory_mb
        try:
            self._run_client("version")
        except InfrastructureFault as fault:
            raise UserError(
                f"no container engine can be reached: {fault}; start it, or use backend='local'"
            ) from None
        try:
            self._id = self._run_client("image", "inspect", "--format", "{{.Id}}", image).strip()
        except InfrastructureFault:
            raise UserError(
                f"the image {image} is not on this machine; get it with `{client} pull {image}`"
            ) from None

    @property
    def identity(self) -> str:
        """Digest of the image."""
        return self._id

    def flags(self, name: str, kind: Kind) -> list[str]:
        """What a container is started with."""
        flags = ["--interactive", "--rm", "--init", "--name", name, "--label", "rlkit=sandbox"]
        flags += ["--network", "bridge" if kind.network else "none", "--hostname", "sandbox"]
        flags += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        flags += ["--user", USER, "--workdir", "/tmp", "--log-driver", "none"]
        memory = f"{self.memory_mb}m"
        flags += ["--memory", memory, "--memory-swap", memory, "--pids-limit", "256"]
        room = f"rw,nosuid,nodev,exec,mode=1777,size={2 * kind.box_mb + 16}m"
        flags += ["--tmpfs", f"/tmp:{room}", "--shm-size", "16m", "--ulimit", "core=0"]
        for key, value in environment().items():
            if key not in ("LD_LIBRARY_PATH", "PATH"):
                flags += ["--env", f"{key}={value}"]
        flags += ["--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        if self.runtime:
            flags += ["--runtime", self.runtime]
        return [*flags, "--entrypoint", self.python]

    def _open(self, kind: Kind, name: str) -> Sequence[str]:
        return [self.client, "run", *self.flags(name, kind), self.image]

    def _remove(self, name: str) -> None:
        # It is gone already when its zygote ended, and then the engine has no such container.
        with contextlib.suppress(InfrastructureFault):
            self._run_client("rm", "--force", "--volumes", name)

    def _look_around(self) -> str:
        flags = self.flags(f"rlkit-look-{id(self):x}", Kind())
        return self._run_client("run", *flags, self.image, "-c", LOOK_AROUND, wait_s=4 * CLIENT_S)
