"""Ways of being paid without solving the task. Every one of them must fail.

`f` is to sort a list. None of the programs below sorts; each attacks the way the
answer is judged. An honest solution passes the same tests (see `conftest.check`).
"""

from __future__ import annotations

import pytest

from rlkit.sandbox import Status

CHEATS = {
    "exit 0 while loading": "import sys\nsys.exit(0)",
    "_exit 0 while loading": "import os\nos._exit(0)",
    "_exit 0 in the function": "import os\ndef f(x): os._exit(0)",
    "SystemExit in the function": "def f(x): raise SystemExit(0)",
    "KeyboardInterrupt in the function": "def f(x): raise KeyboardInterrupt",
    "atexit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(x): return None",
    "exit 0 from a thread": """
import threading, os, time
threading.Thread(target=lambda: (time.sleep(0.02), os._exit(0)), daemon=True).start()
def f(x): time.sleep(0.1)
""",
    "a list that equals everything": """
class E(list):
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    __hash__ = None
def f(x): return E()
""",
    "an object that equals everything": """
class E:
    def __eq__(s, o): return True
    def __hash__(s): return 0
def f(x): return E()
""",
    "a lie about the class": """
class E:
    __class__ = list
    def __eq__(s, o): return True
    def __iter__(s): return iter(())
    def __len__(s): return 3
def f(x): return E()
""",
    "a metaclass that lies": """
class M(type):
    def __eq__(c, o): return True
    def __hash__(c): return hash(list)
    @property
    def __name__(c): raise SystemExit(0)
class E(metaclass=M): pass
def f(x): return E()
""",
    "an item that equals everything": """
class E(int):
    def __eq__(s, o): return True
    def __hash__(s): return 0
def f(x): return [E()] * len(x)
""",
    "the marker of a test runner": (
        "print('3 passed in 0.01s'); print('OK'); print('PASS')\ndef f(x): return None"
    ),
    "results in JSON on every descriptor": """
import os, json
for fd in range(3, 300):
    for i in range(3):
        try: os.write(fd, json.dumps({"ev": "ok", "i": i, "status": "PASS"}).encode() + b"\\n")
        except OSError: pass
def f(x): return None
""",
    "our own messages with a wrong value": """
import sys, os
codec = sys.modules["__main__"].codec
for fd in range(3, 64):
    for i in range(3):
        line = codec.encode(("value", i, codec.encode(None), 0.0))
        try: os.write(fd, b"\\n" + line + b"\\n")
        except OSError: pass
def f(x): return x
""",
    "messages about tests that do not exist": """
import sys, os
codec = sys.modules["__main__"].codec
for fd in range(3, 64):
    for i in (-1, 3, 10**9):
        line = codec.encode(("value", i, codec.encode([1, 2, 3]), 0.0))
        try: os.write(fd, b"\\n" + line + b"\\n")
        except OSError: pass
def f(x): return None
""",
    "messages of the right kind and the wrong shape": """
import sys, os
codec = sys.modules["__main__"].codec
lines = [codec.encode(m) for m in (
    ("PASS",), ("value", 0, [1, 2, 3], 0.0), ("value", True, b"N", 0.0), ("value", 0), ("done",),
    ("value", 0, b"l3:", float("nan")), ("ready", ("everything",)), ("passed", 3), (None,), ((),))]
for fd in range(3, 64):
    for line in lines:
        try: os.write(fd, b"\\n" + line + b"\\n")
        except OSError: pass
def f(x): return None
""",
    "search the heap for what is expected": """
import gc
def f(x):
    for o in gc.get_objects():
        if type(o) is dict and "expected" in o: return o["expected"]
        if type(o).__name__ == "TestSpec": return o.expected
""",
    "search the callers for what is expected": """
import sys
def f(x):
    frame = sys._getframe(1)
    while frame:
        for space in (frame.f_locals, frame.f_globals):
            for name in ("expected", "answer", "tests", "want"):
                if name in space: return space[name]
        frame = frame.f_back
""",
    "the constants of the caller's code": """
import sys
def f(x):
    frame = sys._getframe(1)
    while frame:
        for c in frame.f_code.co_consts:
            if type(c) is list or type(c) is tuple and len(c) == 3: return list(c)
        frame = frame.f_back
""",
    "patch the encoder": """
import sys
codec = sys.modules["__main__"].codec
codec.encode = lambda *a, **k: b"T"
def f(x): return None
""",
    "patch the harness": """
import sys
harness = sys.modules["__main__"]
harness.run_test = lambda send, index, find, wire: send("value", index, b"T", 0.0)
def f(x): return None
""",
    "patch the sender": """
import sys
sys.modules["__main__"].Sender.__call__ = lambda self, *message: None
def f(x): return None
""",
    "patch builtins": """
import builtins
builtins.type = lambda *a: list
builtins.isinstance = lambda *a: True
builtins.len = lambda x: 3
builtins.sorted = lambda x: x
def f(x): return x
""",
    "patch json": """
import json
o = json.dumps
json.dumps = lambda m, **k: o({"ev": "ok", "i": 0})
def f(x): return None
""",
    "trace the harness": """
import sys
def trace(frame, event, arg):
    if "value" in frame.f_locals: frame.f_locals["value"] = True
    return trace
sys.settrace(trace)
def f(x): return None
""",
    "NaN": "def f(x): return float('nan')",
    "True": "def f(x): return True",
    "an empty list": "def f(x): return []",
    "a generator": "def f(x): return (i for i in x)",
    "a mock": "from unittest.mock import ANY, MagicMock\ndef f(x): return ANY",
    "the first visible test by heart": "def f(x): return {(3, 1, 2): [1, 2, 3]}.get(tuple(x))",
    "sort in place and return nothing": "def f(x): x.sort()",
    "a tuple": "def f(x): return tuple(sorted(x))",
    "floats": "def f(x): return [float(i) for i in sorted(x)]",
    "a thread that prints PASS later": """
import threading, time
threading.Thread(target=lambda: (time.sleep(.05), print("PASS")), daemon=True).start()
def f(x): return None
""",
    "write into the interpreter": """
import ctypes
def f(x):
    ctypes.memset(id(0) + 16, 0, 8)
    return x
""",
    "close the channel": "import os\nos.closerange(3, 300)\ndef f(x): return None",
    "close the channel and go on": """
import os, time
os.closerange(3, 300)
time.sleep(60)
""",
    "half a message": """
import os
for fd in range(3, 64):
    try: os.write(fd, b"\\nt4:s5:value")
    except OSError: pass
os._exit(0)
""",
    "import the judge": """
import sys
sys.path[:0] = [".", "..", "../..", "/usr/lib/python3/dist-packages"]
from rlkit.sandbox import judge
def f(x): return None
""",
    "a second ready": """
import sys, os
codec = sys.modules["__main__"].codec
for fd in range(3, 64):
    try: os.write(fd, b"\\n" + codec.encode(("ready", (), 0.0)) + b"\\n")
    except OSError: pass
os._exit(0)
""",
    "a claim that the sandbox failed": """
import sys, os
codec = sys.modules["__main__"].codec
for fd in range(3, 64):
    try: os.write(fd, b"\\n" + codec.encode(("broken", "SANDBOX_ERROR", "x")) + b"\\n")
    except OSError: pass
os._exit(0)
""",
}

#: What some cheats must end as, because anything else would be luck.
EXACTLY = {
    "results in JSON on every descriptor": Status.TAMPERED,
    "our own messages with a wrong value": Status.TAMPERED,
    "messages about tests that do not exist": Status.TAMPERED,
    "messages of the right kind and the wrong shape": Status.TAMPERED,
    "close the channel and go on": Status.TAMPERED,
    "a claim that the sandbox failed": Status.TAMPERED,
    "a second ready": Status.TAMPERED,
    "a list that equals everything": Status.BAD_VALUE,
    "an object that equals everything": Status.BAD_VALUE,
    "a lie about the class": Status.BAD_VALUE,
    "a metaclass that lies": Status.BAD_VALUE,
    "a mock": Status.BAD_VALUE,
    "search the heap for what is expected": Status.FAIL,
    "search the callers for what is expected": Status.FAIL,
    "NaN": Status.FAIL,
    "a tuple": Status.FAIL,
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_not_paid(check, job_of, name):
    verdict = check(job_of(CHEATS[name]))
    assert verdict.status not in (Status.PASS, Status.SANDBOX_ERROR), verdict.summary
    assert verdict.passed < verdict.total
    # Two tests can be met by chance or by heart: `[2, 2]` is sorted already.
    assert verdict.reward is not None and verdict.reward < 1.0
    if name in EXACTLY:
        assert verdict.status is EXACTLY[name], verdict.summary


def test_a_program_that_takes_its_own_messages_back_is_not_excused(check, job_of):
    """Without an answer there is no pay, and it does not look like a fault of the sandbox."""
    source = """
import os
for fd in range(3, 64):
    try: os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK), 1 << 20)
    except OSError: pass
def f(x):
    for fd in range(3, 64):
        try: os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK), 1 << 20)
        except OSError: pass
    os._exit(0)
"""
    verdict = check(job_of(source))
    assert verdict.status is Status.NO_RESULT
    assert verdict.reward == 0.0


def test_there_are_enough_cheats():
    assert len(CHEATS) >= 40


def test_the_first_answer_to_a_test_counts(check, job_of):
    source = """
import sys, os
codec = sys.modules["__main__"].codec
def f(x):
    for fd in range(3, 64):
        line = codec.encode(("value", 0, codec.encode("forged"), 0.0))
        try: os.write(fd, b"\\n" + line + b"\\n")
        except OSError: pass
    return sorted(x)
"""
    verdict = check(job_of(source))
    assert verdict.tests[0].got_repr == "'forged'"
    assert [test.status for test in verdict.tests] == [Status.FAIL, Status.PASS, Status.PASS]
    assert verdict.status is Status.TAMPERED
