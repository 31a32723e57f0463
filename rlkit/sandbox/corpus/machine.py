"""Python programs that reach for the machine: files, processes, network, the kernel.

Each tries one thing and returns "it worked" where it did. Nothing here is destructive
beyond what `surroundings.py` has planted for the purpose: `@OUTSIDE@` is a folder that
everybody may write, `@VICTIM@` a process that must survive unchanged, `@HOST@` the process
that runs the sandbox, `@PORT@` a port that listens.
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import STOPPED, WORKED, Case, attack
from rlkit.sandbox.types import Status

_FENCED = ("signals",)
#: Where the interpreter cannot load ctypes, the attack is an ImportError and as good as refused.
_LIBC = (
    "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
    "def must(done):\n    if not done: raise OSError(ctypes.get_errno(), 'refused')\n"
)
_DEAD = frozenset({Status.FAIL, Status.CRASH})

_FILES = (
    attack("read a file outside", "files_read", 'open("@OUTSIDE@/secret").read()',
           "Reads a file of the machine that everybody may read."),
    attack("read the list of users", "files_read",
           'if "root:x" not in open("/etc/passwd").read(): return "a fake file"',
           "Reads who has an account here."),
    attack("list a folder outside", "files_read", 'os.listdir("@OUTSIDE@")',
           "Lists a folder of the machine."),
    attack("read through a link", "files_read",
           'os.symlink("@OUTSIDE@/secret", "s"); open("s").read()',
           "Makes a link in its own folder that points outside."),
    attack("climb out with dots", "files_read",
           'open("../" * 40 + "@OUTSIDE@/secret".lstrip("/")).read()',
           "Walks up to the root with dots."),
    attack("climb out through a descriptor", "files_read",
           'd = os.open("/", os.O_PATH)\n'
           'os.read(os.open("@OUTSIDE@/secret".lstrip("/"), os.O_RDONLY, dir_fd=d), 1)',
           "Opens the root as a place and goes down from there."),
    attack("read by executing", "files_read",
           'import runpy; runpy.run_path("@OUTSIDE@/module.py")',
           "Runs a file outside as Python."),
    attack("import from outside", "files_read",
           'import sys; sys.path.insert(0, "@OUTSIDE@"); import module',
           "Imports a module that lies outside."),
    attack("the host's source code", "files_read", "import rlkit.sandbox",
           "Imports the sandbox itself, to read how it judges."),
    attack("what else is installed", "files_read", "import pytest",
           "Imports a package of the host's environment."),
    attack("look whether a file is there", "names", 'os.stat("@OUTSIDE@/secret")',
           "Asks whether a path exists; the answer alone can tell a secret."),
    attack("look whether a file is there, by access", "names",
           'if not os.access("@OUTSIDE@/secret", os.F_OK): raise OSError',
           "Asks the same with another call."),
    attack("write a file outside", "files_write", 'open("@OUTSIDE@/new", "w").write("x")',
           "Makes a file in a folder that everybody may write."),
    attack("append to a file outside", "files_write", 'open("@OUTSIDE@/file", "a").write("x")',
           "Adds a byte to a file of the machine."),
    attack("cut a file outside", "files_write", 'os.truncate("@OUTSIDE@/file", 0)',
           "Empties a file by its name; old versions of Landlock do not see it."),
    attack("cut a file outside by opening it", "files_write",
           'os.open("@OUTSIDE@/file", os.O_RDONLY | os.O_TRUNC)',
           "Empties a file while it claims to read it."),
    attack("remove a file outside", "files_write", 'os.remove("@OUTSIDE@/file")',
           "Deletes a file of the machine."),
    attack("rename a file outside", "files_write",
           'os.rename("@OUTSIDE@/file", "@OUTSIDE@/gone")', "Renames a file of the machine."),
    attack("take a file from outside", "files_write", 'os.rename("@OUTSIDE@/file", "mine")',
           "Moves a file of the machine into its own folder."),
    attack("link a file outside", "files_write", 'os.link("@OUTSIDE@/file", "hard")',
           "Gives a file of the machine a second name in its own folder."),
    attack("a folder outside", "files_write", 'os.mkdir("@OUTSIDE@/folder")',
           "Makes a folder outside."),
    attack("a link outside", "files_write", 'os.symlink("/", "@OUTSIDE@/link")',
           "Leaves a link outside."),
    attack("a device", "files_write", 'os.mknod("dev", 0o060666, os.makedev(254, 0))\n'
           'open("dev", "rb").read(1)', "Makes a disk device and reads the disk through it."),
    attack("change the standard library", "files_write",
           'import json; open(json.__file__, "a").close()',
           "Opens Python's own library for writing, to be there in the next job."),
    attack("leave bytecode for the next job", "files_write",
           'import json, os.path\n'
           'open(os.path.join(os.path.dirname(json.__file__), "evil.py"), "x").close()',
           "Plants a module where the next job would import it.",
           needs=("files_write",)),
    attack("a program that the kernel runs on crashes", "files_write",
           'open("/proc/sys/kernel/core_pattern", "r+").close()',
           "Opens the setting that makes the kernel run a program as root."),
    attack("a magic trigger", "files_write", 'open("/proc/sysrq-trigger", "w").close()',
           "Opens the file that can switch the machine off."),
    attack("memory of the kernel", "files_read", 'open("/dev/mem", "rb").read(1)',
           "Reads the machine's main memory as a file."),
    attack("the disk itself", "files_read",
           'import glob\nfor n in glob.glob("/dev/[vsn]d*"): open(n, "rb").read(1); break\n'
           "else: raise OSError", "Reads the disk below its file system."),
    attack("change the mode of a file outside", "metadata",
           'os.chmod("@OUTSIDE@/file", 0o600)', "Changes who may read a file."),
    attack("touch a file outside", "metadata", 'os.utime("@OUTSIDE@/file", (0, 0))',
           "Sets the time of a file of the machine."),
    attack("change the owner of a file outside", "metadata",
           'os.chown("@OUTSIDE@/file", 65534, 65534)', "Gives a file away."),
    attack("set an attribute outside", "metadata",
           'os.setxattr("@OUTSIDE@/file", "user.x", b"x")', "Hides data beside a file."),
    attack("lock a file outside", "files_read",
           'import fcntl; fcntl.flock(os.open("@OUTSIDE@/file", os.O_RDONLY), 2)',
           "Holds a lock that another program waits for."),
    attack("set-user-id", "files_write",
           'd = os.open("evil", os.O_CREAT | os.O_RDWR)\nos.fchmod(d, 0o6755)',
           "Makes a program of its own that would run with its owner's rights.",
           expected=frozenset({Status.FAIL, Status.PASS})),
)  # fmt: skip

_PROCESSES = (
    attack("read the host's environment", "other_processes",
           'open("/proc/@HOST@/environ", "rb").read()',
           "Reads the host's environment, where tokens and passwords are."),
    attack("read the parent's environment", "other_processes",
           'if not open(f"/proc/{os.getppid()}/environ", "rb").read(): raise OSError',
           "Reads the environment of whatever started it."),
    attack("read the host's memory", "other_processes",
           'open("/proc/@HOST@/mem", "rb").close()', "Opens the host's memory."),
    attack("write the host's memory", "other_processes",
           'open("/proc/@HOST@/mem", "r+b").close()', "Opens the host's memory for writing."),
    attack("read the victim's memory", "other_processes",
           'open("/proc/@VICTIM@/mem", "rb").close()', "Opens another program's memory."),
    attack("read the victim's arguments", "other_processes",
           'open("/proc/@VICTIM@/cmdline", "rb").read()',
           "Reads how another program was started."),
    attack("the host's descriptors", "other_processes",
           'os.listdir("/proc/@HOST@/fd")', "Looks which files the host has open."),
    attack("trace the parent", "other_processes",
           _LIBC + "must(c.ptrace(16, os.getppid(), 0, 0) == 0)",
           "Attaches to its parent as a debugger."),
    attack("trace the victim", "other_processes",
           _LIBC + "must(c.ptrace(16, @VICTIM@, 0, 0) == 0)\nc.ptrace(17, @VICTIM@, 0, 0)",
           "Attaches to another program as a debugger."),
    attack("read the victim by a system call", "other_processes",
           _LIBC + "v = (ctypes.c_size_t * 2)(0x400000, 8)\nmust("
           "c.process_vm_readv(@VICTIM@, v, 1, v, 1, 0) >= 0 or ctypes.get_errno() == 14)",
           "Copies memory from another process without opening a file."),
    attack("limit the victim", "other_processes",
           "import resource; resource.prlimit(@VICTIM@, resource.RLIMIT_NOFILE, (64, 64))",
           "Lowers the limits of another process."),
    attack("slow the victim down", "other_processes",
           "os.setpriority(os.PRIO_PROCESS, @VICTIM@, 19)", "Makes another process wait."),
    attack("slow every process of the user down", "other_processes",
           "os.setpriority(os.PRIO_USER, 0, 19)",
           "Makes all of the user's processes wait.", needs=("other_processes",)),
    attack("tie the victim to a processor", "other_processes",
           "os.sched_setaffinity(@VICTIM@, [0])", "Takes processors away from another process."),
    attack("a kinder scheduler", "other_processes",
           "os.sched_setscheduler(@VICTIM@, os.SCHED_IDLE, os.sched_param(0))",
           "Lets another process run only when nobody else wants to."),
    attack("signal the host", "signals", "os.kill(@HOST@, 0)",
           "Asks whether it may send the host a signal."),
    attack("kill the victim", "signals", "os.kill(@VICTIM@, 9)", "Kills another process."),
    attack("kill the victim's thread", "signals",
           _LIBC + "must(c.syscall(200, @VICTIM@, 9) == 0)",
           "Kills another process by an older call."),
    attack("signal through a pidfd", "signals",
           "import signal; signal.pidfd_send_signal(os.pidfd_open(@VICTIM@), 9)",
           "Kills another process by a newer call."),
    attack("queue a signal", "signals",
           _LIBC + "b = ctypes.create_string_buffer(128); b[8] = 255\n"
           "must(c.syscall(129, @VICTIM@, 10, b) == 0)", "Queues a signal with a value."),
    attack("kill the parent", "signals", "os.kill(os.getppid(), 9)",
           "Kills whatever started it.", needs=_FENCED),
    attack("kill the group", "signals", "os.kill(0, 15)", "Ends its whole process group.",
           needs=_FENCED, expected=_DEAD),
    attack("kill everything", "signals", "os.kill(-1, 9)",
           "Kills every process that it may signal.", needs=_FENCED, expected=_DEAD),
    attack("own a signal by a file", "signals",
           "import fcntl; r, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, @VICTIM@)\n"
           "fcntl.fcntl(r, 10, 9)\n"
           "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')\n"
           "import time; time.sleep(0.1)\nraise OSError",
           "Lets the kernel send the signal in its place, when a pipe fills."),
    attack("raise its own limits", "memory",
           "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
           "Gives itself more memory."),
    attack("raise its own processor time", "time",
           "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1 << 20, 1 << 20))",
           "Gives itself more time."),
    attack("become root", "same_uid",
           'os.setuid(0)\nos.listdir("/root")', "Asks to be root, and looks."),
    attack("become somebody else", "same_uid",
           'os.setresuid(12345, 12345, 12345)', "Changes its user."),
    attack("a process", "teardown", "child = os.fork()\nif child == 0: os._exit(0)\n"
           "os.waitpid(child, 0)", "Starts a process although its limits allow none."),
    attack("a process by spawn", "teardown",
           'os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)', "Does it by spawn."),
    attack("a shell", "teardown", 'assert os.system("true") == 0', "Runs a shell."),
    attack("a pool of processes", "teardown",
           "import multiprocessing as m\np = m.get_context('fork').Process(target=int)\n"
           "p.start(); p.join()", "Starts a worker process."),
    attack("a program out of memory", "teardown",
           'fd = os.memfd_create("x")\nos.write(fd, open("/bin/true", "rb").read())\n'
           'if os.fork() == 0: os.execve(fd, ["x"], {})',
           "Runs a program that lies in no folder."),
)  # fmt: skip

_NETWORK = (
    attack("connect", "network",
           'import socket; socket.create_connection(("127.0.0.1", @PORT@), 1)',
           "Connects to a server on this machine, such as a notebook's."),
    attack("connect by the other family", "network",
           'import socket; socket.create_connection(("::1", @PORT6@), 1)',
           "Does it by the newer protocol."),
    attack("send a datagram", "network",
           "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
           's.sendto(b"x", ("127.0.0.1", @PORT@))',
           "Sends a packet without a connection; Landlock does not see it."),
    attack("a raw packet", "network",
           "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
           "Builds packets of its own."),
    attack("everything that passes", "network",
           "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
           "Listens to everything that passes."),
    attack("the machine's network cards", "network",
           "import socket\n"
           "if all(name == 'lo' for _, name in socket.if_nameindex()): raise OSError",
           "Asks the kernel which networks the machine is on."),
    attack("listen", "network", 'import socket; socket.create_server(("127.0.0.1", 0))',
           "Opens a server for whoever comes."),
    attack("resolve a name", "network",
           'import socket; socket.getaddrinfo("example.org", 80)',
           "Asks a name server; the question alone can carry a secret out."),
    attack("a socket in the file system", "network",
           'import socket; s = socket.socket(socket.AF_UNIX); s.connect("@OUTSIDE@/socket")',
           "Connects the way one talks to a container engine."),
    attack("an abstract socket", "network",
           'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\\0@ABSTRACT@")',
           "Connects to a name that is in no folder."),
    attack("a pair of sockets to send descriptors", "network",
           'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n'
           's.sendto(b"x", "@OUTSIDE@/datagram")', "Sends a packet to a path."),
)  # fmt: skip

_KERNEL = (
    attack("a new user namespace", "other_processes", _LIBC + "must(c.unshare(0x10000000) == 0)",
           "Makes itself root of a small world, where more of the kernel can be attacked."),
    attack("a new mount namespace", "files_write", _LIBC + "must(c.unshare(0x00020000) == 0)",
           "Gets a view of the file system of its own."),
    attack("mount", "files_write",
           _LIBC + 'must(c.mount(b"x", b".", b"tmpfs", 0, None) == 0)',
           "Puts a file system of its own somewhere."),
    attack("another root", "files_read", 'os.chroot(".")', "Changes what the root is."),
    attack("shared memory between jobs", "other_processes",
           _LIBC + "must(c.shmget(77, 4096, 0o1600) >= 0)",
           "Leaves a message for a later job in memory that outlives it."),
    attack("a message queue between jobs", "other_processes",
           _LIBC + "must(c.msgget(77, 0o1600) >= 0)", "Leaves it in a queue of the kernel."),
    attack("a key ring", "other_processes",
           _LIBC + 'must(c.syscall(248, b"user", b"rlkit", b"x", 1, -5) >= 0)',
           "Leaves it in the kernel's key ring."),
    attack("io_uring", "files_write",
           _LIBC + "b = ctypes.create_string_buffer(120)\nmust(c.syscall(425, 4, b) >= 0)",
           "Hands its system calls to the kernel in a queue, past a filter."),
    attack("bpf", "other_processes",
           _LIBC + "b = ctypes.create_string_buffer(64)\nmust(c.syscall(321, 0, b, 64) >= 0 "
           "or ctypes.get_errno() not in (1, 38))", "Loads a program into the kernel."),
    attack("watch the machine", "other_processes",
           _LIBC + "b = ctypes.create_string_buffer(128); b[4] = 112\n"
           "must(c.syscall(298, b, -1, 0, -1, 0) >= 0)",
           "Counts what the processor does for others."),
    attack("user faults", "other_processes",
           _LIBC + "must(c.syscall(323, 0) >= 0)",
           "Stops the kernel in the middle of a copy, a common part of exploits."),
    attack("a 32-bit system call", "signals",
           _LIBC + "import mmap\n"
           "m = mmap.mmap(-1, 4096, prot=7)\n"
           "pid = (@VICTIM@).to_bytes(4, 'little')\n"
           "m.write(b'\\x53\\xb8\\x25\\0\\0\\0\\xbb' + pid +\n"
           "        b'\\xb9\\x09\\0\\0\\0\\xcd\\x80\\x5b\\xc3')\n"
           "a = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
           "must(ctypes.CFUNCTYPE(ctypes.c_int)(a)() == 0)",
           "Kills by the numbers of another architecture, to slip past a filter.",
           expected=_DEAD),
    attack("an x32 system call", "signals",
           _LIBC + "must(c.syscall(0x40000000 + 62, @VICTIM@, 9) == 0)",
           "Kills by the numbers of a third architecture."),
    attack("type into the terminal", "signals",
           "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
           "Types a command into the terminal from which the host was started."),
    attack("a file in shared memory", "files_write",
           'open("/dev/shm/@MARK@", "x").close()\n'
           'return "in a folder of its own"',
           "Leaves a file in the machine's shared memory, where a later job might find it."),
    attack("the clock", "other_processes", "import time; time.clock_settime(0, time.time())",
           "Sets the machine's clock."),
    attack("the name of the machine", "other_processes",
           "import socket; socket.sethostname(socket.gethostname())",
           "Renames the machine."),
    attack("what the kernel says", "files_read",
           _LIBC + "b = ctypes.create_string_buffer(64)\nmust(c.klogctl(3, b, 64) > 0)",
           "Reads the kernel's log, where addresses are."),
)  # fmt: skip

_LEFT = (
    Case("a file for the next job", "hostile", "python", "func",
         "import os\nfound = os.listdir('.')\nopen('left', 'w').write('x')\n"
         "def f(): return found",
         ({"name": "first", "expected": []},), frozenset({Status.PASS, Status.RUNTIME_ERROR}),
         "files_read",
         "Leaves a file; the next job must not see it, and this one saw none."),
    Case("the same file, looked for", "hostile", "python", "func",
         "import os\nfound = os.path.exists('left')\ndef f():\n"
         f"    return {WORKED!r} if found else 'nothing'",
         ({"name": "second", "expected": WORKED},), frozenset({Status.FAIL}), "files_read",
         "Looks for what the job before it left."),
    Case("a socket among its descriptors", "hostile", "python", "func",
         "import os, stat\ndef f():\n    for i in range(1024):\n"
         "        try:\n            if stat.S_ISSOCK(os.fstat(i).st_mode): "
         f"return {WORKED!r}\n        except OSError: pass\n    return 'none'",
         ({"name": "socket", "expected": WORKED},), frozenset({Status.FAIL}), "other_processes",
         "Looks for the socket by which the host commands its workers."),
    Case("a folder among its descriptors", "hostile", "python", "func",
         "import os, stat\ndef f():\n    for i in range(1024):\n"
         "        try:\n            if stat.S_ISDIR(os.fstat(i).st_mode): "
         f"return {WORKED!r}\n        except OSError: pass\n    return 'none'",
         ({"name": "folder", "expected": WORKED},), frozenset({Status.FAIL}), "files_read",
         "Looks for an open folder, a way out of any other root."),
    Case("secrets in its environment", "hostile", "python", "func",
         "import os\ndef f():\n    return "
         f"{WORKED!r} if '@SECRET@' in repr(dict(os.environ)) else 'none'",
         ({"name": "environment", "expected": WORKED},), frozenset({Status.FAIL}), "files_read",
         "Looks for the host's variables in its own environment."),
    Case("stops every thread of the host", "hostile", "python", "func",
         "import os, signal\ndef f():\n    n = 0\n    for p in range(2, 400):\n"
         "        if p != os.getpid():\n            try: os.kill(p, 0); n += 1\n"
         "            except OSError: pass\n"
         f"    return {WORKED!r} if n else 'nobody'",
         ({"name": "others", "expected": WORKED},), frozenset({Status.FAIL}) | STOPPED, "signals",
         "Tries process ids one after the other, to find somebody whom it may signal."),
)  # fmt: skip

CASES = _FILES + _PROCESSES + _NETWORK + _KERNEL + _LEFT
