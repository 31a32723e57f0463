"""What enters a job and what does not, and whether the report tells the truth."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec

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
    with Sandbox(workers=1, layers=()) as open_sandbox:
        nothing = search(open_sandbox.run, ["own memory"], [secret])
        control = search(open_sandbox.run, ["own memory"], [given], given)
    assert nothing.tests[0].got_repr == "[]", nothing.summary
    assert control.status is Status.PASS, control.summary


def test_the_report_names_every_property_once(sandbox):
    report = sandbox.report()
    names = [p.name for p in report.properties]
    assert names == [
        *("time", "output", "memory", "disk", "files_read", "files_write", "metadata", "names"),
        *("network", "other_processes", "signals", "teardown", "same_uid"),
    ]
    assert {p.state for p in report.properties} <= {"enforced", "partial", "absent"}
    assert all(p.mechanism for p in report.properties)
    assert report.level in (Level.LIMITS, Level.CONFINED)
    assert sandbox.report() is report
    assert sandbox.run(Job(source="", entry="f", tests=[TestSpec("t")])).isolation is report


@LINUX
@pytest.mark.parametrize("layers", [(), ("landlock",), ("seccomp",)])
def test_the_report_claims_no_more_than_what_holds(honest, nothing_left, layers):
    with Sandbox(workers=1, layers=layers) as weak:
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
        assert state["metadata"] == "absent"
        assert state["network"] != "enforced"


@LINUX
def test_a_daemon_is_hunted_down_where_nothing_forbids_it(honest, nothing_left):
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
    with Sandbox(workers=1, layers=()) as sandbox:
        verdict = sandbox.run(Job(source=source, entry="f", tests=[test]))
        nothing_left(sandbox)
        teardown = sandbox.report()["teardown"]
    if os.geteuid() == 0:
        assert verdict.status is Status.PASS, verdict.summary
        assert teardown.state == "partial"
    else:  # the process limit holds for everybody but root
        assert verdict.status is Status.FAIL
        assert teardown.state == "enforced"


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
    for name in ("network", "teardown", "memory"):
        assert verdict.isolation[name].state != "enforced"
    assert check(Job(source=source, entry="f", tests=[test])).status is Status.RUNTIME_ERROR


@LINUX
def test_a_job_dies_with_the_process_that_started_it(tmp_path):
    code = f"""
import os, threading, time
from rlkit.sandbox import *
def run():
    source = "open('pid', 'w').write(str(__import__('os').getpid())); import time; time.sleep(300)"
    Sandbox(Limits(wall_s=300.0), workers=1).run(
        Job(source=source, entry="f", tests=[TestSpec("t")]))
threading.Thread(target=run, daemon=True).start()
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    for folder, _, names in os.walk({str(tmp_path)!r}):
        if "pid" in names:
            text = open(os.path.join(folder, "pid")).read()
            if text:
                print(text, flush=True)
                os.kill(os.getpid(), 9)
    time.sleep(0.01)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    host = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert host.returncode == -9, host.stderr
    assert not is_running(int(host.stdout))


def is_running(pid: int) -> bool:
    import time

    for _ in range(200):  # the kernel delivers the signal a moment later
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return False
        except FileNotFoundError:
            return False
        time.sleep(0.01)
    return True


def test_a_fence_that_fell_since_the_probes_gives_no_verdict(honest, monkeypatch):
    """A verdict never claims an isolation that its own job did not have."""
    with Sandbox(workers=1) as sandbox:
        assert sandbox.run(honest).status is Status.PASS
        if not sandbox._isolation(sandbox._open())[1] & {"seccomp"}:
            pytest.skip("this machine has no seccomp")
        monkeypatch.setattr("rlkit.sandbox.launch.seccomp.program", lambda *a, **k: None)
        verdict = sandbox.run(honest)
    assert verdict.status is Status.SANDBOX_ERROR
    assert verdict.reward is None
    assert "seccomp" in verdict.message
