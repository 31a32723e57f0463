"""Docker and Kubernetes, through stand-ins for their clients: what is asked for, what is left.

The stand-ins are as strict about command lines as the real programs, and run what they are given
on this machine. No engine and no cluster is needed; where a real engine is, one job runs in it
by `RLKIT_REAL_DOCKER=1`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time

import pytest
import yaml

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.backends import link
from rlkit.sandbox.backends.docker import DockerBackend
from rlkit.sandbox.backends.kubernetes import TEMPLATES, KubernetesBackend
from rlkit.sandbox.backends.local import Kind

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the stand-ins run things on this machine"
)


def job(source: str = "def f(x): return x * x", **more) -> Job:
    tests = [TestSpec("t", args=(3,), expected=9)]
    return Job(source=source, entry="f", tests=tests, cache="off", **more)


HARDENED = (
    ("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"),
    ("--user", "65534:65534"), ("--pids-limit", "256"), ("--memory", "2048m"),
    ("--memory-swap", "2048m"), ("--workdir", "/tmp"), ("--log-driver", "none"),
)  # fmt: skip


def test_containers_are_hardened(shims):
    backend = DockerBackend()
    words = backend.flags("name", Kind())
    for flag, value in HARDENED:
        assert words[words.index(flag) + 1] == value, flag
    assert {"--read-only", "--rm", "--init", "--interactive"} <= set(words)
    mounted = words[words.index("--tmpfs") + 1]
    assert mounted.startswith("/tmp:") and "nosuid" in mounted and "size=" in mounted
    # nothing of this machine goes in: no mounts, no ports, no variables of ours
    assert not {"-v", "--volume", "--mount", "-p", "--publish", "--privileged"} & set(words)
    assert not any("HOME" in word or "TOKEN" in word for word in words)
    backend.close()


def test_a_network_and_gvisor_are_there_when_asked_for(shims):
    backend = DockerBackend(runtime="runsc")
    words = backend.flags("name", Kind(network=True))
    assert words[words.index("--network") + 1] == "bridge"
    assert words[words.index("--runtime") + 1] == "runsc"
    backend.close()


def test_one_warm_container_serves_many_jobs_and_is_removed(make_shims):
    shims = make_shims()
    with Sandbox(Limits(wall_s=5.0), workers=1, backend="docker") as box:
        verdicts = [box.run(job()) for _ in range(20)]
        assert {v.status for v in verdicts} == {Status.PASS}
        assert verdicts[0].isolation.level is Level.CONTAINER
        started = len(shims.asked("run"))
        assert len(shims.left()) == len(box.zygotes())
    # one for jobs of one process, one for the probe's that may start others
    assert started <= 2
    assert shims.left() == []
    assert len(shims.asked("rm", "--force")) >= started


def test_a_timeout_ends_what_runs_inside_and_the_container_lives_on(make_shims):
    shims = make_shims()
    with Sandbox(Limits(wall_s=0.5), workers=1, backend="docker") as box:
        box.report()
        before = len(shims.asked("run"))
        mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
        source = f"import time\ndef f(x):\n    {mark!r}\n    time.sleep(60)"
        verdict = box.run(job(source))
        assert verdict.status is Status.TIMEOUT
        assert box.run(job()).status is Status.PASS
        assert len(shims.asked("run")) - before <= 1  # no container was lost


def test_a_zygote_that_hangs_is_ended_with_its_container(make_shims, monkeypatch):
    shims = make_shims()
    monkeypatch.setattr(link, "START_S", 0.5)
    monkeypatch.setenv("SHIM_HANG", "1")
    backend = DockerBackend()
    with pytest.raises(Exception, match=r"did not answer in time|timed out"):
        backend.report()
    assert shims.left() == []
    assert shims.asked("rm", "--force")
    backend.close()


def test_what_is_missing_is_said(shims, monkeypatch):
    with pytest.raises(UserError, match="docker pull absent:1"):
        DockerBackend(image="absent:1")
    with pytest.raises(UserError, match="no name of an image"):
        DockerBackend(image="--privileged")
    broken = DockerBackend(image="broken:1")
    with pytest.raises(Exception, match="executable file not found"):
        broken.report()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="'docker', which is not installed"):
        DockerBackend()


def test_languages_are_those_of_the_image(make_shims):
    make_shims()
    backend = DockerBackend()
    python = backend.toolchain("python")
    assert python.tools["python"] == os.path.realpath(sys.executable)
    assert backend.toolchain("bash").version.startswith("GNU bash")
    with pytest.raises(UserError, match="Go cannot be run"):
        backend.toolchain("go")
    if shutil.which("gcc"):
        program = '#include <stdio.h>\nint main() { int a; scanf("%d", &a); printf("%d", 2 * a); }'
        test = TestSpec("t", stdin="21", expected="42")
        with Sandbox(workers=1, backend=backend) as box:
            verdict = box.run(Job("c", program, [test], mode="io", cache="off"))
        assert verdict.status is Status.PASS, verdict.summary
    backend.close()


def test_a_real_engine_or_why_there_is_none():
    if not os.environ.get("RLKIT_REAL_DOCKER"):
        pytest.skip("no container engine is tried; set RLKIT_REAL_DOCKER=1 where one runs")
    with Sandbox(workers=1, backend="docker") as box:
        assert box.run(job()).status is Status.PASS


def test_pods_are_hardened(shims):
    backend = KubernetesBackend(namespace="class", image="our/image:1")
    pod = backend.manifest("pod-1")
    spec, worker = pod["spec"], pod["spec"]["containers"][0]
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("pod-1", "class")
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    assert not (spec["hostNetwork"] or spec["hostPID"] or spec["hostIPC"])
    assert spec["securityContext"]["runAsNonRoot"] and spec["activeDeadlineSeconds"] > 0
    assert worker["image"] == "our/image:1"
    assert worker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(worker["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert all("hostPath" not in volume for volume in spec["volumes"])
    assert "runtimeClassName" not in KubernetesBackend(runtime_class=None).manifest("x")["spec"]
    backend.close()


def test_the_network_policy_closes_the_pods_of_the_template():
    policy = yaml.safe_load((TEMPLATES / "network_policy.yaml").read_text())
    pod = yaml.safe_load((TEMPLATES / "pod.yaml").read_text())
    wanted = policy["spec"]["podSelector"]["matchLabels"]
    assert wanted.items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == policy["spec"]["egress"] == []


def test_pods_are_warm_ahead_of_need_and_deleted(make_shims):
    shims = make_shims()
    backend = KubernetesBackend(workers=2, spare=1)
    with Sandbox(Limits(wall_s=5.0), workers=2, backend=backend) as box:
        verdicts = box.run_many([job(f"def f(x): return x * x  # {n}") for n in range(8)])
        assert {v.status for v in verdicts} == {Status.PASS}
        # those that work, and at least the one that stands ready
        assert len(shims.left()) > len(box.zygotes())
        assert len(shims.asked("create")) >= 1
        assert len(shims.asked("exec", "-i")) == len(box.zygotes())
    backend.close()
    assert shims.left() == []


def test_a_namespace_goes_into_every_command(make_shims):
    shims = make_shims()
    with Sandbox(workers=1, backend="kubernetes:class") as box:
        assert box.run(job()).status is Status.PASS
    assert all(line[:2] == ["--namespace", "class"] for line in shims.asked())


def test_a_template_of_ones_own_must_be_a_pod(shims, tmp_path):
    path = tmp_path / "pod.yaml"
    for text in ("kind: Service", "kind: Pod\nspec: {containers: [{name: other}]}", "[", ""):
        path.write_text(text)
        with pytest.raises(UserError, match="is no pod"):
            KubernetesBackend(template=path)
    with pytest.raises(UserError, match="is no pod"):
        KubernetesBackend(template=tmp_path / "missing.yaml")
