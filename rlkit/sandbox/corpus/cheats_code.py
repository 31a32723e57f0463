"""Cheats against tests that are code: proxy mode, and inproc mode as far as it claims anything.

In proxy mode the test runs in a second process that never loads the program, so what can
be attacked is what crosses between the two. In inproc mode test and program share an
interpreter; it is labelled weak, and only what it promises to notice is tried here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlkit.sandbox.corpus.case import BRIEF, NOT_PAID, Case, cheat
from rlkit.sandbox.types import Status

_TESTS: tuple[Mapping[str, Any], ...] = (
    {"name": "three", "code": "assert f([3, 1, 2]) == [1, 2, 3]"},
    {"name": "below zero", "code": "assert f([0, -5, 4]) == [-5, 0, 4]"},
)
_CLASS: tuple[Mapping[str, Any], ...] = (
    {"name": "count", "code": "c = Counter()\nc.add(2)\nc.add(3)\nassert c.total() == 5"},
)
_RAISES: tuple[Mapping[str, Any], ...] = (
    {"name": "raises", "code": "try:\n    f(-1)\nexcept ValueError:\n    pass\n"
                               "else:\n    raise AssertionError('no error')\nassert f(4) == 2"},
)  # fmt: skip
_MEMBER: tuple[Mapping[str, Any], ...] = (
    {"name": "member", "code": "r = f(3)\nassert 7 in r\nassert len(r) == 3\nassert r[0] == 7"},
)


def _proxy(name: str, source: str, lesson: str, tests: tuple[Mapping[str, Any], ...] = _TESTS,
           expected: frozenset[Status] = NOT_PAID, entry: str = "f", **more: Any,
           ) -> Case:  # fmt: skip
    return cheat(f"{name} (proxy)", "second process", source, lesson, expected, mode="proxy",
                 tests=tests, entry=entry, **more)  # fmt: skip


def _inproc(name: str, source: str, lesson: str, tests: tuple[Mapping[str, Any], ...] = _TESTS,
            expected: frozenset[Status] = NOT_PAID) -> Case:  # fmt: skip
    return cheat(f"{name} (inproc)", "same process", source, lesson, expected, mode="inproc",
                 tests=tests)  # fmt: skip


_EQUAL = ("class E(list):\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
          "    def __bool__(s): return True\n    __hash__ = None\n")  # fmt: skip
_FORGE = r"""
import os, socket, sys
def forge(*texts):
    for fd in range(3, 128):
        for text in texts:
            for data in (text, len(text).to_bytes(4, "big") + text,
                         len(text).to_bytes(4, "little") + text, b"\n" + text + b"\n",
                         len(text).to_bytes(8, "big") + text):
                try: os.write(fd, data)
                except OSError: pass
"""

CASES = (
    _proxy("an object that equals everything",
           "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
           "    __hash__ = None\ndef f(x): return E()",
           "Sends an object whose comparison says yes."),
    _proxy("a list that equals everything", _EQUAL + "def f(x): return E()",
           "Sends a list whose comparison says yes."),
    _proxy("a container that holds everything",
           "class C:\n    def __contains__(s, o): return True\n    def __len__(s): return 3\n"
           "    def __getitem__(s, i): return E()\nclass E:\n"
           "    def __eq__(s, o): return True\ndef f(x): return C()",
           "Says yes to every question that the test asks it.", _MEMBER),
    _proxy("a number that equals everything",
           "class E(int):\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
           "    __hash__ = int.__hash__\n"
           "class Counter:\n    def add(s, n): pass\n    def total(s): return E()",
           "Hides the liar behind a method.", _CLASS, entry="Counter"),
    _proxy("a truth of its own",
           "class T:\n    def __eq__(s, o): return s\n    def __bool__(s): return True\n"
           "class Counter:\n    def add(s, n): return s\n    def total(s): return T()",
           "Returns itself from the comparison, and is true.", _CLASS, entry="Counter"),
    _proxy("exit 0 while loading", "import sys\nsys.exit(0)", "Leaves before the test begins."),
    _proxy("_exit 0 in the function", "import os\ndef f(x): os._exit(0)",
           "Leaves the test alone with its question."),
    _proxy("an exception that ends the test", "def f(x): raise SystemExit(0)",
           "Hopes that the test process ends with code 0 on its behalf."),
    _proxy("an exception of another name",
           "class SystemExit(Exception): code = 0\ndef f(x): raise SystemExit(0)",
           "Sends an exception that is called like the one that ends programs."),
    _proxy("StopIteration", "def f(x): raise StopIteration([1, 2, 3])",
           "Sends the exception that ends loops without a word."),
    _proxy("every exception at once",
           "class E(ValueError, KeyError, TypeError): pass\ndef f(x): raise E()",
           "Is the right error wherever one is expected, and never an answer.", _RAISES),
    _proxy("always the expected error", "def f(x): raise ValueError",
           "Raises what the test waits for, and nothing else.", _RAISES),
    _proxy("changes the expected value",
           "import sys\ndef f(x):\n    x.clear(); x.append(float('nan'))\n    return x",
           "Changes its argument, in case the test compares with it."),
    _proxy("forged answers", _FORGE
           + "forge(b'PASS', b'passed', b'l3:i1;i2;i3;', b't2:s4:pass;i0;')\n"
           "def f(x): return None", "Writes answers into the line between the two processes."),
    _proxy("a forged end", _FORGE + "forge(b't1:s4:done', b't2:s6:passed;i0;', b't1:s4:PASS')\n"
           "import os\ndef f(x): os._exit(0)", "Says that the test is over."),
    _proxy("answers before the question",
           _FORGE + "forge(*[b't2:s5:valuel3:i1;i2;i3;'] * 20)\ndef f(x): return 0",
           "Fills the line with answers, for the questions to come."),
    _proxy("a huge announcement",
           "import os\nfor fd in range(3, 128):\n    try: os.write(fd, b'\\xff' * 16)\n"
           "    except OSError: pass\ndef f(x): return None",
           "Announces a message of more bytes than there is memory."),
    _proxy("kills the test's process",
           "import os\nfor p in range(2, 200):\n    if p != os.getpid():\n"
           "        try: os.kill(p, 9)\n        except OSError: pass\n"
           "try: os.kill(os.getppid(), 9)\nexcept OSError: pass\ndef f(x): return None",
           "Ends whoever would complain.", needs=("signals",)),
    _proxy("reads the test's memory",
           "import os\ndef f(x):\n    for p in os.listdir('/proc'):\n"
           "        try: data = open(f'/proc/{p}/mem', 'rb').read(1)\n"
           "        except OSError: continue\n    return None",
           "Looks for the expected value in the other process."),
    _proxy("reads the test's text",
           "import os\ndef f(x):\n    for top in ('.', '..', '/tmp'):\n"
           "        for folder, _, names in os.walk(top):\n            for n in names:\n"
           "                try: t = open(os.path.join(folder, n)).read()\n"
           "                except (OSError, UnicodeError): continue\n"
           "                if 'assert' in t and 'f([3, 1, 2])' in t: return [1, 2, 3]\n",
           "Looks for the test in a file."),
    _proxy("looks for the test in memory",
           "import gc, sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
           "        for v in list(frame.f_locals.values()) + list(frame.f_globals.values()):\n"
           "            if type(v) is str and 'f([3, 1, 2])' in v: return [1, 2, 3]\n"
           "        frame = frame.f_back\n    for o in gc.get_objects():\n"
           "        if type(o) is dict:\n            for v in list(o.values()):\n"
           "                if type(v) is str and 'assert f([3' in v: return [1, 2, 3]\n",
           "Looks for the test in its own process, where it must not be."),
    _proxy("an attribute that runs the test's code",
           "class E:\n    def __getattr__(s, n): return 'import os; os._exit(0)'\n"
           "    def __reduce__(s): return (eval, (\"__import__('os')._exit(0)\",))\n"
           "def f(x): return E()", "Sends an object that would run code where it is unpacked."),
    _proxy("a name that is a path",
           "class E: pass\nE.__name__ = E.__qualname__ = '__builtins__'\nE.__module__ = 'os'\n"
           "def f(x): return E()", "Sends a class that is called like part of the other side."),
    _proxy("never answers", "import time\ndef f(x): time.sleep(1e6)",
           "Lets the test wait, until a clock that both share ends it.",
           expected=frozenset({Status.TIMEOUT, Status.CPU_LIMIT}), limits=BRIEF),
    _inproc("exit 0 while loading", "import sys\nsys.exit(0)", "Leaves with exit code 0."),
    _inproc("_exit 0 while loading", "import os\nos._exit(0)", "Leaves without a word."),
    _inproc("_exit 0 in the function", "import os\ndef f(x): os._exit(0)",
            "Leaves in the middle of a test."),
    _inproc("SystemExit in the function", "def f(x): raise SystemExit(0)",
            "Raises what ends a program well."),
    _inproc("an exit handler",
            "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): return None",
            "Turns failure into success at the end."),
    _inproc("prints what a runner prints",
            "print('2 passed'); print('OK'); print('PASS')\ndef f(x): return None",
            "Prints the marker."),
    _inproc("patches builtins",
            "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})\n"
            "builtins.len = lambda x: 3\nbuiltins.isinstance = lambda *a: True\n"
            "def f(x): return None", "Changes the words of the language."),
    _inproc("patches os",
            "import os\nos._exit = lambda *a: None\nos.write = lambda *a: 0\n"
            "def f(x): return None", "Changes how processes end."),
    _inproc("writes on every descriptor",
            _FORGE + "forge(b'PASS', b't2:s6:passed;i0;', b't1:s4:done')\ndef f(x): return None",
            "Forges results without knowing the nonce."),
    _inproc("the parent leaves",
            "import os\nif os.fork(): os._exit(0)\ndef f(x): return None",
            "Lets a copy go on while the original ends well."),
)  # fmt: skip
