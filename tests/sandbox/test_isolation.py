"""What enters a job and what does not, and whether the report tells the truth."""

from __future__ import annotations

import marshal
import os
import secrets
import subprocess
import sys

import pytest

from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.backends import link
from rlkit.sandbox.findings import NAMES

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

#: All that a job's environment may hold.
ALLOWED = {
    *("PATH", "HOME", "TMPDIR", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONHASHSEED"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LD_LIBRARY_PATH", "__CF_USER_TEXT_ENCODING"),
}


def test_environment_variables_do_not_reach_the_job(check, monkeypatch):
    secret = secrets.token_hex(16)
    monkeypatch.setenv("HF_TOKEN", secret)
    monkeypatch.setenv("PYTHONPATH", secret)
    monkeypatch.setenv("PYTHONSTARTUP", secret)
    source = """
import os
def f(allowed, secret):
    texts = [*os.environ, *os.environ.values()]
    return sorted(set(os.environ) - allowed), [t for t in texts if secret in t]
"""
    test = TestSpec("t", args=(ALLOWED, secret), expected=([], []))
    verdict = check(Job(source=source, entry="f", tests=[test]))
    assert verdict.status is Status.PASS, verdict.summary


#: Looks for a text of this form wherever a program can look, and returns all it finds.
SEARCH = r"""
import gc, os, re, sys
FORM = re.compile(rb"rlkit-secret-" + rb"[0-9a-f]{32}")

def look(found, where, data):
    if type(data) is str: data = data.encode("utf-8", "surrogatepass")
    for hit in FORM.findall(data): found.add((where, hit.decode()))

def read(path):
    try: fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for ever
    except OSError: return b""
    try: return os.read(fd, 1 << 24)
    except OSError: return b""
    finally: os.close(fd)

def heap(found):
    seen, todo = set(), gc.get_objects()
    for frame in sys._current_frames().values():
        while frame:
            todo += [frame.f_locals, frame.f_globals, frame.f_code.co_consts]
            frame = frame.f_back
    while todo:
        thing = todo.pop()
        if id(thing) in seen: continue
        seen.add(id(thing))
        if type(thing) in (str, bytes): look(found, "heap", thing)
        elif thing is not found and thing is not todo and thing is not seen:
            todo += gc.get_referents(thing)

def memory(found, process):
    # Two mappings may hold the two halves of nothing; each is searched by itself.
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as mem:
            for line in maps:
                span, rights = line.split()[:2]
                start, end = (int(x, 16) for x in span.split("-"))
                if "r" not in rights or end - start > 1 << 28: continue
                try:
                    mem.seek(start)
                    look(found, f"memory of {process}", mem.read(end - start))
                except (OSError, ValueError, OverflowError): continue
    except OSError: pass

def f(where, *inputs):
    found = set()
    if "heap" in where: heap(found)
    if "own memory" in where: memory(found, "self")
    if "parent memory" in where: memory(found, os.getppid())
    if "files" in where:
        look(found, "arguments", repr(sys.argv) + repr(sys.orig_argv))
        look(found, "command line", read("/proc/self/cmdline") + read("/proc/self/environ"))
        for fd in range(0, 256):
            look(found, "descriptor", read(f"/proc/self/fd/{fd}"))
            try: look(found, "descriptor", os.pread(fd, 1 << 20, 0))
            except OSError: pass
        for top in (".", "..", "/tmp"):
            for folder, _, names in os.walk(top):
                for name in names:
                    look(found, "files", read(os.path.join(folder, name)))
    return sorted({hit for _, hit in found})
"""


def search(run, where, expected, *inputs):
    test = TestSpec("t", args=(where, *inputs), expected=expected)
    limits = Limits(wall_s=60.0, cpu_s=30.0, memory_mb=1024)
    return run(Job(source=SEARCH, entry="f", tests=[test], limits=limits))


EVERYWHERE = ["heap", "own memory", "parent memory", "files"]


@pytest.mark.usefixtures("confined")
def test_what_is_expected_is_nowhere_to_be_found(check):
    secret = f"rlkit-secret-{secrets.token_hex(16)}"
    verdict = search(check, EVERYWHERE, [secret])
    assert verdict.status is Status.FAIL
    assert verdict.tests[0].got_repr == "[]"


def test_what_is_given_is_found_by_the_same_search(check):
    secret = f"rlkit-secret-{secrets.token_hex(16)}"
    assert search(check, ["heap"], [secret], secret).status is Status.PASS


@LINUX
def test_not_one_byte_of_it_is_in_the_memory_of_the_job():
    """Without fences a job can read all of its own memory; what is expected is not in it."""
    secret, given = (f"rlkit-secret-{secrets.token_hex(16)}" for _ in range(2))
    with Sandbox(workers=1, layers=(), allow_unsafe=True) as open_sandbox:
        nothing = search(open_sandbox.run, ["own memory"], [secret])
        control = search(open_sandbox.run, ["own memory"], [given], given)
    assert nothing.tests[0].got_repr == "[]", nothing.summary
    assert control.status is Status.PASS, control.summary


def test_the_report_names_every_property_once(sandbox):
    report = sandbox.report()
    names = [p.name for p in report.properties]
    assert names == list(NAMES)
    assert {p.state for p in report.properties} <= {"enforced", "partial", "absent"}
    assert all(p.mechanism for p in report.properties)
    assert Level.LIMITS <= report.level <= Level.NAMESPACED
    assert sandbox.report() is report
    assert sandbox.run(Job(source="", entry="f", tests=[TestSpec("t")])).isolation is report


@LINUX
@pytest.mark.parametrize("layers", [(), ("landlock",), ("seccomp",)])
def test_the_report_claims_no_more_than_what_holds(honest, nothing_left, layers):
    with Sandbox(workers=1, layers=layers, allow_unsafe=True) as weak:
        report = weak.report()
        verdict = weak.run(honest)
        nothing_left(weak)
    assert verdict.status is Status.PASS
    assert report.level is Level.LIMITS
    assert "not a security boundary" in report.sentence
    state = {p.name: p.state for p in report.properties}
    assert state["time"] == state["output"] == state["memory"] == "enforced"
    if "landlock" not in layers:
        assert state["files_read"] != "enforced"
        assert state["files_write"] != "enforced"
    if "seccomp" not in layers:
        # The bait may be written by everybody: its mode is its owner's, its times are not.
        assert state["metadata"] == ("partial" if os.geteuid() == 0 else "absent")
        assert state["network"] != "enforced"


@LINUX
def test_a_daemon_is_hunted_down_where_nothing_forbids_it(honest, nothing_left, monkeypatch):
    """As root without seccomp, or with processes allowed, a job can leave its process group."""
    source = """
import os, time
def f():
    started = 0
    for _ in range(5):
        try: child = os.fork()
        except OSError: break
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 300)
                os.chdir("/")
                os.execve("/bin/sleep", ["sleep", "300"], {})
            os._exit(0)
        os.waitpid(child, 0)
        started += 1
    time.sleep(0.2)
    return started
"""
    free = Limits(processes=20, wall_s=20.0)
    test = TestSpec("t", expected=5)
    with Sandbox(workers=1) as sandbox:
        verdict = sandbox.run(Job(source=source, entry="f", tests=[test], limits=free))
        nothing_left(sandbox)
        assert sandbox.run(honest).status is Status.PASS
    assert verdict.status is Status.PASS, verdict.summary
    # Root's own jobs are held back by nothing but the hunt.
    monkeypatch.setenv("RLKIT_SANDBOX_HIDE", "uid")
    with Sandbox(workers=1, layers=(), allow_unsafe=True) as sandbox:
        verdict = sandbox.run(Job(source=source, entry="f", tests=[test]))
        nothing_left(sandbox)
        if os.geteuid() == 0:
            assert verdict.status is Status.PASS, verdict.summary
            assert verdict.orphans_killed == 5
        else:  # the process limit holds for everybody but root
            assert verdict.status is Status.FAIL


@LINUX
def test_processes_and_sockets_are_there_when_the_limits_allow_them(check):
    source = """
import socket, subprocess
def f():
    said = subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True).stdout
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return said, s.getsockname()[0]
"""
    test = TestSpec("t", expected=("hello\n", "127.0.0.1"))
    limits = Limits(processes=8, network=True, wall_s=20.0)
    verdict = check(Job(source=source, entry="f", tests=[test], limits=limits))
    assert verdict.reward == 1.0, verdict.summary
    # What the limits allow is not claimed to be kept out.
    assert verdict.isolation.level is Level.LIMITS
    for name in ("network", "memory_total"):
        assert verdict.isolation[name].state != "enforced"
    assert check(Job(source=source, entry="f", tests=[test])).status is Status.RUNTIME_ERROR


@LINUX
@pytest.mark.parametrize("hidden", ["", "userns"])
def test_a_job_dies_with_the_process_that_started_it(tmp_path, tagged, assert_soon, hidden):
    code = """
from rlkit.sandbox import *
sandbox = Sandbox(Limits(wall_s=300.0), workers=1)
sandbox.report()
print("probed", flush=True)
sandbox.run(Job(source="import time; time.sleep(300)", entry="f", tests=[TestSpec("t")]))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "RLKIT_SANDBOX_HIDE": hidden}
    before = scratch_folders()
    host = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert host.stdout.readline() == "probed\n"
        assert_soon(lambda: tagged(host.pid) != [], seconds=60)
    finally:
        host.kill()
        host.communicate()
    assert_soon(lambda: tagged(host.pid, zygotes=True) == [], seconds=20)
    assert os.listdir(tmp_path) == []
    assert scratch_folders() <= before


def scratch_folders() -> set[str]:
    return {name for name in os.listdir("/tmp") if name.startswith("rlkit-zygote-")}


#: What is wrong with the filter of a zygote that starts later, and who notices.
SABOTAGE = {
    "there is none any more": ("seccomp", "program", "lambda *a, **k: None"),
    "it is not put on": ("fences", "Filter.install", "lambda self, pid: False"),
}


@LINUX
@pytest.mark.parametrize("how", SABOTAGE)
def test_a_fence_that_fell_since_the_probes_gives_no_verdict(honest, monkeypatch, how):
    """A verdict never claims an isolation that its own job did not have."""
    module, name, instead = SABOTAGE[how]
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run(honest).status is Status.PASS
        backend = sandbox._state.backend
        if not backend.isolation["seccomp"]:
            pytest.skip("this machine has no seccomp")
        whole = link.child_code(compiled=False)
        code = marshal.loads(whole[4:])
        origin, package, text = code[f"rlkit.sandbox.zygote.{module}"]
        code[f"rlkit.sandbox.zygote.{module}"] = (origin, package, f"{text}\n{name} = {instead}\n")
        weaker = marshal.dumps(code, 2)
        weaker = len(weaker).to_bytes(4, "little") + weaker
        monkeypatch.setattr(link, "child_code", lambda compiled: weaker)
        for zygote in backend.pids():
            os.kill(zygote, 9)
        verdict = sandbox.run(honest)
    assert verdict.status is Status.SANDBOX_ERROR
    assert verdict.reward is None
    assert "seccomp" in verdict.message
