"""KubernetesBackend: zygotes in pods, by `kubectl`, with a few pods warm ahead of need.

A pod is made from `templates/pod.yaml`: gVisor's runtime class, no service account, nothing to
write to but memory, no capabilities, limits on all of it, and an end of its own should its host
forget it. `kubectl exec -i` starts a zygote inside; jobs are forks of it. A zygote that is given
up takes its pod along.

Pods take seconds to come up, so as many as there are workers are asked for at once, and one that
is taken is replaced in the background.

The network is closed by a policy of the cluster (`templates/network_policy.yaml`, to be applied
once by its owner) and, whatever the cluster does, by the fences of the zygote where its kernel
has them. What holds is probed.

Left out on purpose: clients beside kubectl, and controllers of warm pools that a cluster may have.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.backends.contained import CLIENT_S, LOOK_AROUND, ContainedBackend
from rlkit.sandbox.backends.docker import IMAGE
from rlkit.sandbox.backends.flavours import environment
from rlkit.sandbox.backends.local import Kind

TEMPLATES = Path(__file__).parent / "templates"

#: A pod has so many seconds to come up, an image to be pulled included.
READY_S = 180


class KubernetesBackend(ContainedBackend):
    """Runs jobs in pods of a cluster that kubectl can reach.

    Args:
        workers: jobs at a time, each in a pod of its own.
        namespace: of the pods; "" takes kubectl's own.
        image: with `python3`, 3.10 or later.
        runtime_class: `gvisor`, another that the cluster has, or None for its own.
        spare: pods that stand ready beside those that work.
        template: another template than ours, a file.
        client: `kubectl`, or a program with the same commands.
        python: the interpreter's name inside.

    Raises:
        UserError: no client, no cluster, or a template that makes no sense.
    """

    name = "kubernetes"

    def __init__(
        self,
        workers: int = 1,
        *,
        namespace: str = "",
        image: str = IMAGE,
        runtime_class: str | None = "gvisor",
        spare: int = 1,
        template: str | Path | None = None,
        client: str = "kubectl",
        python: str = "python3",
    ) -> None:
        super().__init__(client, workers, python)
        self.namespace = namespace
        self.image = image
        self.runtime_class = runtime_class
        self.spare = spare
        self._template = _read(Path(template) if template else TEMPLATES / "pod.yaml")
        self._pods = threading.Lock()
        self._warm: deque[str] = deque()
        self._made: set[str] = set()
        self._pod_of: dict[str, str] = {}
        try:
            self._kubectl("version", "--request-timeout=10s")
        except InfrastructureFault as fault:
            raise UserError(
                f"no cluster can be reached: {fault}; check kubectl's context, or use "
                "backend='local'"
            ) from None

    @property
    def identity(self) -> str:
        """The image, by the name that the template or the caller gave it."""
        return f"{self.image} {self.runtime_class}"

    def manifest(self, name: str) -> dict[str, Any]:
        """The pod that is created under a name."""
        pod = copy.deepcopy(self._template)
        pod["metadata"]["name"] = name
        if self.namespace:
            pod["metadata"]["namespace"] = self.namespace
        spec = pod["spec"]
        if self.runtime_class:
            spec["runtimeClassName"] = self.runtime_class
        else:
            spec.pop("runtimeClassName", None)
        spec["containers"][0]["image"] = self.image
        return pod

    def close(self) -> None:
        """End every zygote and every pod; may be called twice."""
        super().close()
        with self._pods:
            left, self._made = self._made, set()
            self._warm.clear()
        for pod in left:
            self._delete(pod)

    def _open(self, kind: Kind, name: str) -> Sequence[str]:
        if kind.network:
            raise UserError("jobs with a network are not run in pods; leave Limits.network False")
        pod = self._ready_pod()
        self._pod_of[name] = pod
        return [*self._prefix(), "exec", "-i", pod, "-c", "worker", "--", *self._interpreter()]

    def _remove(self, name: str) -> None:
        pod = self._pod_of.pop(name, None)
        if pod is not None:
            with self._pods:
                self._made.discard(pod)
            self._delete(pod)

    def _look_around(self) -> str:
        pod = self._ready_pod()
        try:
            return self._kubectl(
                *("exec", "-i", pod, "-c", "worker", "--", self.python, "-c", LOOK_AROUND),
                wait_s=4 * CLIENT_S,
            )
        finally:
            with self._pods:
                self._warm.append(pod)

    def _ready_pod(self) -> str:
        """A pod that is ready; asks for others to take its place."""
        with self._pods:
            pod = self._warm.popleft() if self._warm else None
            ahead = self.spare if self._made else max(self.spare, self.workers - 1)
            names = [self._new_name() for _ in range(max(0, ahead - len(self._warm)) + (not pod))]
            self._made.update(names)
        if names:
            # All are asked for at once; only the one that is needed now is waited for.
            many = {"apiVersion": "v1", "kind": "List", "items": [self.manifest(n) for n in names]}
            self._kubectl("create", "-f", "-", given=json.dumps(many))
            pod = pod or names.pop()
            with self._pods:
                self._warm.extend(names)
        self._kubectl(
            *("wait", "--for=condition=Ready", f"pod/{pod}", f"--timeout={READY_S}s"),
            wait_s=READY_S + CLIENT_S,
        )
        return pod

    def _new_name(self) -> str:
        return f"rlkit-sandbox-{os.getpid()}-{secrets.token_hex(4)}"

    def _interpreter(self) -> list[str]:
        """kubectl hands no variables on, so `env` does."""
        given = {k: v for k, v in environment().items() if k not in ("LD_LIBRARY_PATH", "PATH")}
        return ["env", *(f"{key}={value}" for key, value in given.items()), self.python]

    def _delete(self, pod: str) -> None:
        # It may have ended by itself; what is left of it the cluster collects.
        with contextlib.suppress(InfrastructureFault):
            self._kubectl(
                *("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false"),
                "--ignore-not-found",
            )

    def _prefix(self) -> list[str]:
        return [self.client, *(("--namespace", self.namespace) if self.namespace else ())]

    def _kubectl(self, *words: str, given: str = "", wait_s: float = CLIENT_S) -> str:
        return self._run_client(*self._prefix()[1:], *words, given=given, wait_s=wait_s)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        pod = yaml.safe_load(path.read_text(encoding="utf-8"))
        container = pod["spec"]["containers"][0]
        right = pod["kind"] == "Pod" and container["name"] == "worker" and "metadata" in pod
    except (OSError, yaml.YAMLError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"the template {str(path)!r} is no pod: {error!r:.200}") from None
    if not right:
        raise UserError(f"the template {str(path)!r} is no pod whose first container is 'worker'")
    return pod
