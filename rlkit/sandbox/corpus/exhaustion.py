"""Python programs that use something up: time, memory, processes, files, output, the stack.

Each is to be stopped by a limit, at the latest by the wall clock, and to leave nothing.
Those that start processes run only where a probe saw that processes are refused, or that
a process-id namespace takes them all down.
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import DIED, STOPPED, bomb
from rlkit.sandbox.types import Limits, Status

_OUTPUT = frozenset({Status.OUTPUT_LIMIT})
_ERROR = frozenset({Status.RUNTIME_ERROR})
_SMALL = Limits(wall_s=2.0, cpu_s=1.0, memory_mb=256)
_FAMILY = ("teardown",)

CASES = (
    bomb("infinite loop", "time", "while True: pass", STOPPED,
         "Never ends; the kernel counts processor time and the host looks at its clock."),
    bomb("sleeps for ever", "time", "import time\ntime.sleep(1e6)", frozenset({Status.TIMEOUT}),
         "Uses no processor time at all, so only the wall clock can end it."),
    bomb("waits for input", "time", "while True:\n    try: input()\n    except EOFError: pass",
         STOPPED, "Waits for somebody to type; there is nobody, and input ends at once."),
    bomb("catastrophic regex", "time", 'import re\nre.match("(a+)+$", "a" * 40 + "b")', STOPPED,
         "A regular expression that takes 2**40 steps, inside one call of C."),
    bomb("deaf to polite signals", "time",
         "import signal\nfor s in (15, 2, 14, 24, 1): signal.signal(s, signal.SIG_IGN)\n"
         "while True: pass", STOPPED,
         "Ignores every signal that can be ignored; SIGKILL cannot."),
    bomb("blocks all signals", "time",
         "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
         "time.sleep(1e6)", STOPPED, "Blocks all signals and sleeps."),
    bomb("stops itself", "time", "import os\nos.kill(os.getpid(), 19)",
         STOPPED | {Status.CRASH, Status.RUNTIME_ERROR},
         "Stops without ending, so that a host that waits for the end waits for ever."),
    bomb("an alarm for ever", "time",
         "import signal\nsignal.signal(14, lambda *a: None)\nsignal.setitimer(0, 1e-6, 1e-6)\n"
         "while True: pass", STOPPED | {Status.CRASH},
         "Buries itself in a million alarms a second."),
    bomb("a loop in the destructor", "time",
         "class D:\n    def __del__(s):\n        while True: pass\nd = D()\ndel d", STOPPED,
         "Loops where Python swallows exceptions."),
    bomb("a loop at exit", "time",
         "import atexit, time\natexit.register(time.sleep, 1e6)\ndef f(x): return None",
         STOPPED | {Status.FAIL}, "Does its sleeping after the answers, in an exit handler."),
    bomb("catches everything", "time",
         "while True:\n    try:\n        while True: pass\n    except BaseException: pass", STOPPED,
         "Swallows every exception that could end it."),
    bomb("a huge power", "time", "x = 7 ** (7 ** 12)", STOPPED | DIED,
         "One operation in C that never looks at signals."),
    bomb("a thread that will not end", "time",
         "import threading\n"
         "def g():\n    while True: pass\n"
         "threading.Thread(target=g).start()\ndef f(x): return None",
         STOPPED | _ERROR | {Status.FAIL}, "Leaves a thread running that joins at exit."),
    bomb("memory by large pieces", "memory", "a = []\nwhile True: a.append(bytearray(1 << 24))",
         STOPPED | DIED, "Takes 16 MiB at a time until the limit on address space answers no."),
    bomb("memory by small pieces", "memory", "a = []\nwhile True: a.append([0] * 1000)",
         STOPPED | DIED, "Takes memory in crumbs."),
    bomb("memory in one piece", "memory", 'x = "a" * (1 << 40)', STOPPED | DIED,
         "Asks for a tebibyte at once."),
    bomb("memory by mapping", "memory",
         "import mmap\na = []\nwhile True: a.append(mmap.mmap(-1, 1 << 24))", STOPPED | DIED,
         "Maps shared memory, which a limit on data does not count."),
    bomb("memory by a file in memory", "memory_total",
         "import os\nfd = os.memfd_create('m')\n"
         "while True: os.write(fd, b'x' * (1 << 20))", STOPPED | DIED | {Status.OUTPUT_LIMIT},
         "Fills a file that lives in memory and belongs to no folder."),
    bomb("memory by pipes", "memory_total",
         "import os\nfor _ in range(10**6):\n    r, w = os.pipe()\n    os.set_blocking(w, False)\n"
         "    os.write(w, b'x' * 65536)", STOPPED | DIED,
         "Lets the kernel hold its data, in pipes."),
    bomb("zip bomb", "memory",
         'import zlib\nd = zlib.compress(b"\\0" * (1 << 26), 9)\n'
         "while True: d2 = zlib.decompress(d) * 40", STOPPED | DIED,
         "A small piece of data that grows a thousandfold when it is unpacked."),
    bomb("recursion", "memory", "import sys\nsys.setrecursionlimit(10**9)\n"
         "def g(): return g()\ng()", STOPPED | DIED,
         "Calls itself until the stack or the memory ends."),
    bomb("recursion in C", "memory",
         "import sys\nl = []\nfor i in range(10**6): l = [l]\n"
         "sys.setrecursionlimit(10**9)\nrepr(l)", DIED | STOPPED,
         "Overflows the stack of the C code under Python."),
    bomb("a crash by a null pointer", "memory", "import ctypes\nctypes.string_at(0)", DIED,
         "Reads from address zero; the process dies and must not take the runner along."),
    bomb("kills itself", "signals", "import os\nos.kill(os.getpid(), 9)",
         frozenset({Status.CRASH}), "Ends by the signal that nobody can catch."),
    bomb("aborts", "signals", "import os\nos.abort()", frozenset({Status.CRASH}),
         "Ends by SIGABRT and would leave a core file."),
    bomb("brackets without end", "memory", "x = " + "(" * 100_000,
         frozenset({Status.COMPILE_ERROR, Status.CRASH, Status.RUNTIME_ERROR}),
         "Nests so deep that a parser may crash on it."),
    bomb("a program of five megabytes", "time", "x=0\n" * 1_250_000,
         frozenset({Status.COMPILE_ERROR, Status.MEMORY_LIMIT, Status.CRASH}) | STOPPED | _ERROR,
         "Is so long that compiling it is the attack."),
    bomb("a constant that fills memory", "memory", "x = (1 << 33) * (1,)\n", DIED | STOPPED,
         "Would be computed while compiling, if the compiler folded it."),
    bomb("fork bomb", "teardown",
         "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
         STOPPED | DIED | {Status.OUTPUT_LIMIT}, "Copies itself until the machine is full.",
         needs=_FAMILY),
    bomb("fork bomb that leaves the session", "teardown",
         "import os\nfor i in range(100000):\n    try:\n        if os.fork() == 0:\n"
         "            os.setsid()\n            while True:\n                try: os.fork()\n"
         "                except OSError: pass\n    except OSError: pass\nwhile True: pass",
         STOPPED | DIED, "Copies itself out of reach of its process group.", needs=_FAMILY),
    bomb("thread bomb", "teardown",
         "import threading, time\nwhile True:\n"
         "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
         STOPPED | DIED, "Starts threads until a limit says no."),
    bomb("a daemon", "teardown",
         "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
         "        os.closerange(0, 300)\n        time.sleep(300)\n    os._exit(0)\n",
         DIED | {Status.FAIL, Status.NO_RESULT, Status.TAMPERED},
         "Forks twice and leaves, to go on after its job is over.", needs=_FAMILY),
    bomb("a grandchild that keeps the pipes", "teardown",
         'import subprocess\nsubprocess.Popen(["/bin/sleep", "300"])', DIED | {Status.FAIL},
         "Leaves a process that holds the pipes open, so that a reader never sees the end.",
         needs=_FAMILY),
    bomb("another program instead", "teardown",
         'import os\nos.execv("/bin/sleep", ["sleep", "300"])',
         DIED | STOPPED | {Status.NO_RESULT, Status.TAMPERED},
         "Turns itself into another program, with the same process id."),
    bomb("another Python instead", "teardown",
         'import os, sys\nos.execv("/usr/bin/python3", ["python3", "-c", "while 1: pass"])',
         DIED | STOPPED | {Status.NO_RESULT, Status.TAMPERED},
         "Turns itself into an interpreter without the harness."),
    bomb("floods stdout", "output", 'while True: print("x" * 4096)', _OUTPUT,
         "Prints for ever; the host stops reading at the limit and ends it."),
    bomb("floods stderr", "output",
         'import sys\nwhile True: sys.stderr.write("x" * 4096)', _OUTPUT,
         "Does the same on the other stream."),
    bomb("one line without end", "output",
         'import sys\nwhile True: sys.stdout.write("y" * 65536)', _OUTPUT,
         "Prints one line that never ends, against hosts that read line by line."),
    bomb("floods with a traceback", "output",
         'class E(Exception):\n    def __str__(s): return "x" * (1 << 26)\nraise E', DIED | _OUTPUT,
         "Raises an exception whose message is 64 MiB long."),
    bomb("returns too much", "output", 'def f(x): return "x" * (1 << 26)',
         _OUTPUT | {Status.BAD_VALUE, Status.MEMORY_LIMIT} | STOPPED,
         "Returns 64 MiB, to make the host compare it."),
    bomb("returns ten million numbers", "output", "def f(x): return [0] * 10_000_000",
         _OUTPUT | {Status.BAD_VALUE, Status.MEMORY_LIMIT} | STOPPED,
         "Returns a list that is small in Python and large on the wire.", limits=_SMALL),
    bomb("closes stdout and loops", "output",
         "import os\nos.close(1); os.close(2)\nwhile True: pass", STOPPED,
         "Closes its streams, so that a host that waits for their end believes it is over."),
    bomb("a sparse file of a terabyte", "disk", 'open("s", "wb").truncate(1 << 40)',
         _ERROR | {Status.CRASH, Status.OUTPUT_LIMIT},
         "Makes a file that looks like a terabyte and takes no room, until it is copied."),
    bomb("one large file", "disk",
         'with open("s", "wb") as f:\n    while True: f.write(b"x" * (1 << 20))',
         _ERROR | {Status.CRASH, Status.OUTPUT_LIMIT} | STOPPED, "Fills the disk with one file."),
    bomb("many middling files", "disk",
         'i = 0\nwhile True:\n    i += 1\n    open(f"f{i}", "wb").write(b"x" * (8 << 20))',
         _ERROR | _OUTPUT | STOPPED | {Status.CRASH},
         "Stays below the limit of one file, and fills the disk with many."),
    bomb("many small files", "disk", 'for i in range(10**7): open("f%d" % i, "w").close()',
         STOPPED | _ERROR | _OUTPUT, "Uses up names rather than room."),
    bomb("deep folders", "disk",
         'import os\nfor _ in range(2500):\n    os.mkdir("d"); os.chdir("d")\nwhile True: pass',
         STOPPED | _ERROR | _OUTPUT,
         "Nests folders deeper than a path may be long, against whoever cleans up."),
    bomb("a folder that nobody may enter", "disk",
         'import os\nos.mkdir("d"); open("d/f", "w").close(); os.mkdir("d/e", 0)\n'
         "os.kill(os.getpid(), 9)", _ERROR | {Status.CRASH},
         "Leaves a folder without permissions, against whoever cleans up."),
    bomb("names that are no text", "disk",
         'import os\nfor n in (b"\\xff\\xfe", b"a\\nb", b"-rf", b" ", b"\\x1b[2J"):\n'
         '    open(n, "w").close()\ndef f(x): return None', _ERROR | {Status.FAIL},
         "Leaves files whose names confuse scripts and terminals."),
    bomb("links in a circle", "disk",
         'import os\nos.mkdir("d"); os.symlink("../d", "d/d"); os.symlink("/", "root")\n'
         "def f(x): return None", _ERROR | {Status.FAIL},
         "Leaves links that lead a careless cleaner round in circles, or to the root."),
    bomb("descriptors", "memory_total", "import os\nwhile True: os.dup(1)", _ERROR,
         "Opens descriptors until there are no more."),
)  # fmt: skip
