"""Programs that attack the machine: each is stopped, and the machine is as before.

They are run only where the kernel confines them, so a test run does no harm where
it does not. `{OUTSIDE}` is a folder outside the sandbox, `{PORT}` a listening
socket, `{VICTIM}` a process of ours that must survive unchanged.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys

import pytest

from rlkit.sandbox import Job, Limits, Status, TestSpec

pytestmark = [
    pytest.mark.usefixtures("confined"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attacks on Linux"),
]

BRIEF = Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256)
STOPPED = {Status.CPU_LIMIT, Status.TIMEOUT}
DIED = {Status.CRASH, Status.MEMORY_LIMIT, Status.RUNTIME_ERROR}

EXHAUSTION = {
    "infinite loop": ("while True: pass", STOPPED),
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        STOPPED,
    ),
    "fork bomb that leaves the session": (
        """
import os
for i in range(100000):
    try:
        if os.fork() == 0:
            os.setsid()
            while True:
                try: os.fork()
                except OSError: pass
    except OSError: pass
while True: pass
""",
        STOPPED,
    ),
    "thread bomb": (
        """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
""",
        STOPPED | DIED,
    ),
    "memory by small pieces": ("a = []\nwhile True: a.append([0] * 1000)", STOPPED | DIED),
    "memory by mapping": (
        "import mmap\na = []\nwhile True: a.append(mmap.mmap(-1, 1 << 24))",
        STOPPED | DIED,
    ),
    "zip bomb": (
        'import zlib\nd = zlib.compress(b"\\0" * (1 << 26), 9)\n'
        "while True: d2 = zlib.decompress(d) * 40",
        STOPPED | DIED,
    ),
    "recursion in C": (
        "import sys\nl = []\nfor i in range(10**6): l = [l]\nsys.setrecursionlimit(10**9)\nrepr(l)",
        DIED,
    ),
    "catastrophic regex": ('import re\nre.match("(a+)+$", "a" * 40 + "b")', STOPPED),
    "deaf to polite signals": (
        "import signal\nfor s in (15, 2, 14, 24, 1): signal.signal(s, signal.SIG_IGN)\n"
        "while True: pass",
        STOPPED,
    ),
    "blocks all signals": (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
        "time.sleep(1e6)",
        STOPPED,
    ),
    "stops itself": ("import os\nos.kill(os.getpid(), 19)", STOPPED),
    "many small files": (
        'for i in range(10**7): open("f%d" % i, "w").close()',
        STOPPED | {Status.RUNTIME_ERROR},
    ),
    "deep folders": (
        'import os\nfor _ in range(2500):\n    os.mkdir("d"); os.chdir("d")\nwhile True: pass',
        STOPPED | {Status.RUNTIME_ERROR},
    ),
    "a folder that nobody may enter": (
        'import os\nos.mkdir("d"); open("d/f", "w").close(); os.mkdir("d/e", 0)\n'
        "os.kill(os.getpid(), 9)",
        {Status.CRASH},
    ),
    "descriptors": ("import os\nwhile True: os.dup(1)", {Status.RUNTIME_ERROR}),
    "a sparse file of a terabyte": (
        'open("s", "wb").truncate(1 << 40)',
        {Status.RUNTIME_ERROR},
    ),
    "closes stdout and loops": ("import os\nos.close(1); os.close(2)\nwhile True: pass", STOPPED),
    "another program instead": (
        'import os, sys\nos.execv("/bin/sleep", ["sleep", "300"])',
        {Status.RUNTIME_ERROR},
    ),
    "a program of five megabytes": (
        "x=0\n" * 1_250_000,
        {Status.COMPILE_ERROR, Status.RUNTIME_ERROR} | STOPPED,
    ),
    "brackets without end": ("x = " + "(" * 100_000, {Status.COMPILE_ERROR, Status.CRASH}),
    "a daemon": (
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 300)
        time.sleep(300)
    os._exit(0)
""",
        {Status.RUNTIME_ERROR},
    ),
    "a grandchild that keeps the pipes": (
        'import subprocess\nsubprocess.Popen(["/bin/sleep", "300"])',
        {Status.RUNTIME_ERROR},
    ),
}


@pytest.mark.parametrize("name", EXHAUSTION)
def test_exhaustion_is_stopped(check, job_of, name):
    source, acceptable = EXHAUSTION[name]
    verdict = check(job_of(source, limits=BRIEF))
    assert verdict.status in acceptable, verdict.summary
    assert verdict.reward == 0.0


ATTACKS = {
    "read a file outside": 'open("{OUTSIDE}/secret").read()',
    "read the list of users": 'open("/etc/passwd").read()',
    "list a folder outside": 'os.listdir("{OUTSIDE}")',
    "write a file outside": 'open("{OUTSIDE}/new", "w").write("x")',
    "append to a file outside": 'open("{OUTSIDE}/file", "a").write("x")',
    "cut a file outside": 'os.truncate("{OUTSIDE}/file", 0)',
    "cut a file outside by opening it": 'os.open("{OUTSIDE}/file", os.O_RDONLY | os.O_TRUNC)',
    "remove a file outside": 'os.remove("{OUTSIDE}/file")',
    "rename a file outside": 'os.rename("{OUTSIDE}/file", "{OUTSIDE}/gone")',
    "take a file from outside": 'os.rename("{OUTSIDE}/file", "mine")',
    "link a file outside": 'os.link("{OUTSIDE}/file", "hard")',
    "follow a link outside": 'os.symlink("{OUTSIDE}/secret", "s"); open("s").read()',
    "open the mode of a file outside": 'os.chmod("{OUTSIDE}/file", 0o777)',
    "touch a file outside": 'os.utime("{OUTSIDE}/file", (0, 0))',
    "change the owner of a file outside": 'os.chown("{OUTSIDE}/file", 65534, 65534)',
    "set an attribute outside": 'os.setxattr("{OUTSIDE}/file", "user.x", b"x")',
    "change the standard library": 'import json; open(json.__file__, "a").close()',
    "write into /proc/sys": 'open("/proc/sys/kernel/core_pattern", "r+").close()',
    "write into /dev/shm": 'open("/dev/shm/rlkit-attack", "w").close()',
    "read the parent's environment": 'open(f"/proc/{{os.getppid()}}/environ", "rb").read()',
    "read the parent's memory": 'open(f"/proc/{{os.getppid()}}/mem", "rb").close()',
    "write the parent's memory": 'open(f"/proc/{{os.getppid()}}/mem", "r+b").close()',
    "read the parent's arguments": 'open(f"/proc/{{os.getppid()}}/cmdline", "rb").read()',
    "trace the parent": (
        "import ctypes; assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0"
    ),
    "kill the parent": "os.kill(os.getppid(), 9)",
    "kill the victim": "os.kill({VICTIM}, 9)",
    "kill everything": "os.kill(-1, 9)",
    "kill the group": "os.kill(0, 15)",
    "signal through a pidfd": (
        "import signal; signal.pidfd_send_signal(os.pidfd_open({VICTIM}), 9)"
    ),
    "limit the victim": (
        "import resource; resource.prlimit({VICTIM}, resource.RLIMIT_NOFILE, (64, 64))"
    ),
    "slow the victim down": "os.setpriority(os.PRIO_PROCESS, {VICTIM}, 19)",
    "slow every process of the user down": "os.setpriority(os.PRIO_USER, 0, 19)",
    "tie the victim to a processor": "os.sched_setaffinity({VICTIM}, [0])",
    "raise its own limits": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))"
    ),
    "connect": 'import socket; socket.create_connection(("127.0.0.1", {PORT}), 1)',
    "send a datagram": (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        's.sendto(b"x", ("127.0.0.1", {PORT}))'
    ),
    "listen": 'import socket; socket.create_server(("127.0.0.1", 0))',
    "a socket in the file system": (
        'import socket; s = socket.socket(socket.AF_UNIX); s.connect("{OUTSIDE}/socket")'
    ),
    "an abstract socket": (
        'import socket; s = socket.socket(socket.AF_UNIX); s.bind("\\0rlkit-attack")'
    ),
    "resolve a name": 'import socket; socket.getaddrinfo("example.org", 80)',
    "a new user namespace": (
        "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0"
    ),
    "shared memory between jobs": (
        "import ctypes; assert ctypes.CDLL(None).shmget(77, 4096, 0o1600) >= 0"
    ),
    "io_uring": (
        "import ctypes; b = ctypes.create_string_buffer(120); "
        "assert ctypes.CDLL(None).syscall(425, 4, b) >= 0"
    ),
    "mount": (
        'import ctypes; assert ctypes.CDLL(None).mount(b"x", b".", b"tmpfs", 0, None) == 0'
    ),
    "a process": "os.fork() or os._exit(0)",
    "a process by spawn": 'os.posix_spawn("/bin/true", ["true"], {{}})',
    "a shell": 'assert os.system("true") == 0',
    "a pool of processes": (
        "import multiprocessing; multiprocessing.get_context('fork').Process(target=int).start()"
    ),
    "type into the terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "import rlkit": "import rlkit.sandbox",
    "import what is installed": "import pytest",
}  # fmt: skip


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text("the secret")
    (folder / "file").write_text("unchanged")
    (folder / "file").chmod(0o644)
    os.utime(folder / "file", (1_000_000_000, 1_000_000_000))
    return folder


@pytest.fixture(scope="module")
def victim():
    # Not a child of this process, so that the check for unreaped children stays simple.
    starter = subprocess.run(
        ["/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"], capture_output=True, check=True
    )
    pid = int(starter.stdout)
    yield pid
    os.kill(pid, 9)


@pytest.fixture(scope="module")
def listener(outside):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(64)
        tcp.setblocking(False)
        local.bind(str(outside / "socket"))
        local.listen(64)
        local.setblocking(False)
        yield tcp, local


def state_of(victim, outside):
    """All that the attacks below could change."""
    names = sorted(os.listdir(outside))
    file = os.stat(outside / "file")
    return (
        names,
        (outside / "file").read_text(),
        (stat.S_IMODE(file.st_mode), file.st_mtime, file.st_uid, file.st_nlink),
        os.listxattr(outside / "file"),
        resource.prlimit(victim, resource.RLIMIT_NOFILE),
        os.getpriority(os.PRIO_PROCESS, victim),
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getaffinity(victim),
        os.path.exists("/dev/shm/rlkit-attack"),
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_machine_fails(check, outside, victim, listener, name):
    attack = ATTACKS[name].format(
        OUTSIDE=outside, VICTIM=victim, PORT=listener[0].getsockname()[1]
    )  # fmt: skip
    source = f"""
import os
def f():
    try:
        {attack}
    except BaseException as error:
        return type(error).__name__
    return "it worked"
"""
    before = state_of(victim, outside)
    test = TestSpec("attack", expected="it worked")
    verdict = check(Job(source=source, entry="f", tests=[test], limits=BRIEF))
    assert verdict.status is Status.FAIL, verdict.summary  # it came back, and with a refusal
    assert state_of(victim, outside) == before
    for server in listener:
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    "name",
    [
        *("read a file outside", "read the list of users", "list a folder outside"),
        *("read the parent's environment", "listen", "a process", "a shell", "connect"),
        *("a new user namespace", "import what is installed"),
    ],
)
def test_the_attacks_are_attacks(outside, listener, name):
    """The same lines work outside the sandbox, so that their failure inside means something."""
    line = ATTACKS[name].format(OUTSIDE=outside, VICTIM=0, PORT=listener[0].getsockname()[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import os\n{line}"], capture_output=True, text=True
    )
    if name == "connect":
        listener[0].accept()[0].close()
    if name == "a new user namespace" and done.returncode:
        pytest.skip("this machine refuses it to everybody")
    assert done.returncode == 0, done.stderr


def test_a_file_left_behind_is_not_there_for_the_next_job(check):
    source = """
import os
def f():
    found = os.listdir(".")
    open("left", "w").write("x")
    return found
"""
    job = Job(source=source, entry="f", tests=[TestSpec("first", expected=[])])
    again = Job(source=source + "\n", entry="f", tests=[TestSpec("second", expected=[])])
    assert check(job).reward == 1.0
    assert check(again).reward == 1.0


def test_no_descriptor_but_the_channel_is_open(check):
    source = """
import os, stat
def f():
    kinds = []
    for fd in range(3, 1000):
        try: mode = os.fstat(fd).st_mode
        except OSError: continue
        kinds.append("pipe" if stat.S_ISFIFO(mode) else "file" if stat.S_ISREG(mode) else "other")
    return sorted(kinds)
"""
    # One pipe for the answers, and the process's own status file in /proc.
    test = TestSpec("t", expected=["file", "pipe"])
    verdict = check(Job(source=source, entry="f", tests=[test]))
    assert verdict.status is Status.PASS, verdict.summary
