"""Ways of being paid by proxy mode without solving the task; none of them may work.

Each has a program and the tests that it faces; those without tests of their own face
`SORTED`. Nothing here harms the machine, since it is run without fences.
"""

from __future__ import annotations

#: `f` sorts a list, in three ways of saying so.
SORTED = (
    "assert f([3, 1, 2]) == [1, 2, 3]",
    "expected = [-5, 0, 4]\nassert expected == f([0, -5, 4])\nassert not f([2, 1]) != [1, 2]",
    "for xs in ([2, 1], [9, 8, 7]):\n    got = f(xs)\n"
    "    assert got == sorted(xs) and len(got) == len(xs)",
)
#: A float, as most tests of floats are written.
NEAR = ("assert abs(f(2) - 1.5) < 1e-6",)

#: Finds the harness's own end of the conversation, which lives in the program's process.
_PEER = """
import sys, os
def peer():
    frame = sys._getframe()
    while frame is not None:
        me = frame.f_locals.get("self")
        if type(me).__name__ == "Program": return me
        frame = frame.f_back
def module(name):
    return sys.modules.get(name) or type(peer()).__mro__[1].read.__globals__
codec = None
def send(*message, me=None):
    me = me or peer()
    codec = me.read.__globals__["codec"]
    wire = codec.encode(message)
    os.write(me.sock, len(wire).to_bytes(4, "big") + wire)
NONE = ((), (), ())
"""
_EQUAL = """
class E:
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    def __hash__(s): return 0
"""
_ANYTHING = """
class E:
    def yes(s, *a): return True
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = yes
    __ne__ = lambda s, o: False
    def me(s, *a): return s
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = me
    __neg__ = __abs__ = __getitem__ = me
    __float__ = lambda s: 0.0
    __int__ = __index__ = __len__ = __hash__ = lambda s: 0
    __round__ = lambda s, n=0: 0
    __iter__ = lambda s: iter(())
    def __getattr__(s, name): return s.yes
"""


def _subclass(kind: str) -> str:
    return (
        f"class E({kind}):\n    def __eq__(s, o): return True\n"
        "    def __ne__(s, o): return False\n    __hash__ = None\n"
    )


CHEATS: dict[str, tuple[str, ...]] = {
    # -- values that lie
    "an object that equals everything": (_EQUAL + "def f(x): return E()",),
    "an object that does everything": (_ANYTHING + "def f(x): return E()",),
    "a list that equals everything": (_subclass("list") + "def f(x): return E(x)",),
    "items that equal everything": (_subclass("int") + "def f(x): return [E() for _ in x]",),
    "a text that equals everything": (
        _subclass("str") + "def f(x): return E()",
        "assert f('a') == 'b'",
    ),
    "a tuple with an object in it": (
        _EQUAL + "def f(x): return (E(), E())",
        "assert f(1) == (1, 2)",
    ),
    "a dict that equals everything": (
        _subclass("dict") + "def f(x): return E()",
        "assert f(1) == {1: 2}",
    ),
    "a value of a dict that equals everything": (
        _EQUAL + "def f(x): return {1: E()}",
        "assert f(1) == {1: 2}",
    ),
    "a lie about the class": (
        "class E:\n    __class__ = list\n    def __eq__(s, o): return True\n"
        "    def __len__(s): return 3\ndef f(x): return E()",
        *SORTED,
        "assert isinstance(f([1]), list)",
    ),
    "a metaclass that says yes": (
        "class M(type):\n    def __eq__(c, o): return True\n    def __hash__(c): return 0\n"
        "    def __instancecheck__(c, o): return True\n    def __contains__(c, o): return True\n"
        "class E(metaclass=M): pass\ndef f(x): return E",
    ),
    "the function is a class": (
        _ANYTHING.replace("class E:", "class f:\n    def __init__(s, *a): pass"),
        *SORTED,
        *NEAR,
    ),
    "a difference that is small": (_ANYTHING + "def f(x): return E()", *NEAR),
    "a difference that is small, by a float": (
        "class E(float):\n    def __sub__(s, o): return 0.0\n    def __abs__(s): return 0.0\n"
        "def f(x): return E()",
        *NEAR,
    ),
    "a difference that is small, in Solution": (
        _ANYTHING.replace("class E:", "class Solution:") + "    def f(s, x): return s\n",
        "assert abs(Solution().f(2) - 1.5) < 1e-6",
        "assert -1e-6 < Solution().f(2) - 1.5 < 1e-6",
    ),
    "a difference that is small, in a named class": (
        _ANYTHING.replace("class E:", "class Shape:") + "    def area(s): return s\n",
        "s = Shape()\nassert abs(s.area() - 1.5) < 1e-6",
        "assert Shape().area() == 1.5",
        "assert Shape().area() > 1.0",
        "import math\nassert math.isclose(Shape().area(), 1.5)",
        "assert round(Shape().area() - 1.5, 6) == 0",
        "assert (Shape().area() - 1.5) ** 2 < 1e-9",
        "assert not Shape().area() - 1.5",
        "from pytest import approx\nassert Shape().area() == approx(1.5)",
    ),
    "says that it holds what is asked for": (
        "class E:\n    def __contains__(s, x): return True\ndef f(x): return E()",
        "assert 3 in f(5)",
    ),
    "says what a text would say": (
        "class E:\n    def startswith(s, x): return True\n    def isdigit(s): return True\n"
        "    def __getattr__(s, name): return lambda *a: True\ndef f(x): return E()",
        "assert f(1).startswith('abc')",
        "assert f(1).isdigit()",
        "assert f(1).index(7) == 3",
        "assert f(1).issubset({1})",
    ),
    "a function with attributes": (
        "def E(): pass\nE.startswith = lambda x: True\ndef f(x): return E",
        "assert f(1).startswith('abc')",
    ),
    "another list at each look": (
        "class E:\n    def __init__(s, x): s.x, s.n = x, 0\n    def __iter__(s):\n"
        "        s.n += 1\n"
        "        return iter([] if s.n == 1 else s.x)\ndef f(x): return E(x)",
        "r = f([3, 1, 2])\nassert all(a <= b for a, b in zip(*[iter(r)] * 2))\n"
        "assert set(r) == {1, 2, 3}",
    ),
    "an end that comes twice": (
        "class E:\n    n = 0\n    def __iter__(s): return s\n    def __next__(s):\n"
        "        s.n += 1\n"
        "        if s.n == 1: raise StopIteration\n        return 3\ndef f(x): return E()",
        "r = f(1)\nassert list(r) == []\nassert next(iter(r)) == 3",
    ),
    "truth that changes its mind": (
        "class E:\n    n = 0\n    def __bool__(s):\n        s.n += 1\n"
        "        return s.n % 2 == 1\ndef f(x): return E()",
        "r = f(1)\nassert r\nassert not r",
    ),
    "NaN": ("def f(x): return [float('nan')] * len(x)",),
    "a number that is not the number": ("def f(x): return x", "assert f(1) == 2 or f(True) is 1"),
    # -- exceptions
    "an error that is expected by every test": (
        "class E(KeyError, IndexError): pass\ndef f(x): raise E()",
        "try:\n    f(1)\nexcept ValueError:\n    assert True\nelse:\n    assert False",
        "assert f(1) == 1",
    ),
    "AssertionError by name": (
        "class ValueError(Exception): pass\ndef f(x): raise ValueError('no')",
        "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass\nelse:\n"
        "    raise SystemExit",
        "import pytest\nwith pytest.raises(ValueError):\n    f(-1)",
    ),
    "AssertionError": ("def f(x): raise AssertionError",),
    "StopIteration": ("def f(x): raise StopIteration", "assert [v for v in map(f, [3])] == [3]"),
    "leaves": ("def f(x): raise SystemExit(0)",),
    "interrupts": ("def f(x): raise KeyboardInterrupt",),
    "GeneratorExit": ("def f(x): raise GeneratorExit",),
    "an error without a text": (
        "class E(Exception):\n    def __str__(s): raise E()\n    __repr__ = __str__\n"
        "    args = property(__str__)\ndef f(x): raise E()",
    ),
    # -- leaving early
    "exit 0 while loading": ("import os\nos._exit(0)",),
    "exit 0 in the function": ("import os\ndef f(x): os._exit(0)",),
    "exit 0 later": (
        "import threading, os, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0)), daemon=True).start()\n"
        "def f(x): time.sleep(0.3)",
    ),
    "closes every descriptor": ("import os\ndef f(x): os.closerange(0, 256)",),
    "never answers": ("import time\ndef f(x): time.sleep(60)",),
    # -- names
    "names of Python's own": (
        "len = lambda x: 3\nabs = lambda x: 0.0\nsorted = lambda x: x\n"
        "isinstance = lambda a, b: True\n"
        "AssertionError = BaseException\nall = any = bool = lambda *a: True\n"
        "set = list = lambda x: 1\ndef f(x): return x",
        *SORTED[2:],
        "assert isinstance(f(1), str)",
        "assert len(f([1])) == 3",
        "assert all(v == 2 for v in f([1]))",
        "assert set(f([1])) == {2}",
        "assert abs(f(2) - 1.5) < 1e-6",
    ),
    "modules of Python's own": (
        "import sys\nclass M:\n    def __getattr__(s, n): return lambda *a, **k: True\n"
        "math = pytest = json = M()\n"
        "sys.modules.update(math=math, pytest=math, json=math)\ndef f(x): return 0.0",
        "import math\nassert math.isclose(f(2), 1.5)",
        "assert math.isclose(f(2), 1.5)",
        "import pytest\nassert f(2) == pytest.approx(1.5)",
        "import json\nassert json.dumps([f(1)]) == '[1.0]'",
    ),
    "builtins changed in place": (
        "import builtins\nbuiltins.sorted = lambda x: x\nbuiltins.abs = lambda x: 0\n"
        "builtins.AssertionError = BaseException\n"
        "def f(x): return x",
        *SORTED[2:],
        "assert abs(f(2) - 1.5) < 1e-6",
    ),
    "defines what the test failed to bind": (
        "result = 5\nok = True\ndef f(x): raise ValueError",
        "try:\n    result = f(1)\nexcept ValueError:\n    pass\nassert result == 5",
        "def t():\n    global ok\n    ok = f(1)\ntry:\n    t()\nexcept ValueError:\n    pass\n"
        "assert ok",
        "try:\n    from math import nothing as result\nexcept ImportError:\n    pass\n"
        "assert result == 5",
    ),
    "writes into a class of the test": (
        "def f(t):\n    t.value = 5\n    type(t)\n",
        "class T:\n    value = 0\nf(T)\nassert T.value == 5",
    ),
    "candidate and check are its own": (
        "def candidate(x): return x\ndef check(*a): pass\ndef f(x): return 0",
        "def check(candidate):\n    assert candidate(2) == 4\ncheck(f)",
    ),
    # -- the frames and memory of its own process
    "looks for the test in frames": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        for v in frame.f_code.co_consts:\n"
        "            if type(v) is tuple and len(v) == 3 and all(type(i) is int for i in v) and "
        "sorted(v) == list(v): return list(v)\n"
        "        frame = frame.f_back\n    return None",
    ),
    "looks for the test in memory": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n"
        "        if type(o) is str and 'assert' in o: return eval(o.split('==')[1])\n"
        "        if type(o) is dict and 'expected' in o: return o['expected']",
    ),
    "replaces the harness": (
        _PEER + "def f(x):\n    me = peer()\n    type(me).pack = lambda s, v: True\n"
        "    type(me).answer = lambda s, *a: True\n    return None",
    ),
    # -- the conversation
    "an answer of its own beside the right one": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    send('give', me.tokens[-1], ('t', [1, 2, 3]), NONE, me=me)\n    return [1, 2, 3]",
        "assert f([3, 1, 2]) == (1, 2)",
        "assert f([3, 1, 2]) == [1, 2, 3]",
    ),
    "answers before it is asked": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    for _ in range(3): send('give', bytes(8), True, NONE, me=me)\n    return None",
        "assert f(1) is True",
        "assert f(2) is True",
    ),
    "answers while loading": (
        _PEER + "me = peer()\nsend('give', me.tokens[-1], ('t', ['', '']), NONE, me=me)\n"
        "send('give', me.tokens[-1], True, NONE, me=me)\ndef f(x): return None",
        "assert f(1) is True",
    ),
    "speaks the verifier's words": (
        _PEER + "def f(x):\n    me = peer()\n    send('passed', 0, 0.0, me=me)\n"
        "    send('done', b'', 0, 0, me=me)\n    os.write(1, b'passed')\n",
    ),
    "writes to every descriptor": (
        _PEER + "def f(x):\n    codec = peer().read.__globals__['codec']\n"
        "    line = codec.encode(('passed', 0, 0.0))\n"
        "    for fd in range(1, 40):\n        try: os.write(fd, b'\\n' + line + b'\\n')\n"
        "        except OSError: pass\n",
    ),
    "a frame without an end": (
        _PEER + "def f(x):\n    os.write(peer().sock, b'\\x7f\\xff\\xff\\xff')\n",
    ),
    "a frame that is too short": (
        _PEER + "def f(x):\n    os.write(peer().sock, b'\\x00\\x00\\x00\\x02N')\n",
    ),
    "noise": (_PEER + "def f(x):\n    os.write(peer().sock, os.urandom(4096))\n",),
    "noise that is well framed": (
        _PEER + "def f(x):\n    os.write(peer().sock, (64).to_bytes(4, 'big') + os.urandom(64))\n",
    ),
    "a flood of questions": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    while True: send('ask', me.tokens[-1], 'op', 'repr', [1], NONE, me=me)\n",
    ),
    "hangs up": (_PEER + "def f(x):\n    os.close(peer().sock)\n",),
    "answers its own questions": (
        _PEER + "import socket\ndef f(x):\n    a, b = socket.socketpair()\n"
        "    os.dup2(a.detach(), peer().sock)\n",
    ),
    "a broken value": (
        _PEER
        + "def f(x):\n    me = peer()\n    send('give', me.tokens[-1], ('r', 999), NONE, me=me)\n",
        *SORTED,
    ),
    "a value of a kind that nobody knows": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    send('give', me.tokens[-1], ('k', 'constant', 'True'), NONE, me=me)\n",
        "assert f(1) is True",
    ),
    "a builtin that is an answer": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    send('give', me.tokens[-1], ('b', 'builtins', 'eval'), NONE, me=me)\n",
        "assert f(1) is eval or f(1)('True')",
        "assert f(1)('True')",
    ),
    "an object without a class": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    send('give', me.tokens[-1], ('X', 9999, ('instance', ('b', 'builtins', 'int'), "
        "None, None)), NONE, me=me)\n",
        "assert f(1) == 0",
        "assert isinstance(f(1), int)",
    ),
    "a class that claims Python's own bases": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    cls = ('X', 9997, ('class', 'list', [('b', 'builtins', 'list'), ('b', 'builtins', "
        "'bool')], ('__eq__',), False, False))\n"
        "    send('give', me.tokens[-1], ('X', 9999, ('instance', cls, None, None)), NONE, "
        "me=me)\n",
        "assert isinstance(f(1), list)",
        "assert f(1) == []",
        "assert type(f(1)) is list",
    ),
    "containers that nobody shared": (
        _PEER + "def f(x):\n    me = peer()\n    for n in range(0, 40, 2):\n"
        "        mail = ([], [(n, 'list', True, [1, 2, 3], None)], [])\n"
        "        send('give', me.tokens[-1], None, mail, me=me)\n",
        "mine = [3]\nf(1)\nassert mine == [1, 2, 3]",
    ),
    "a container under the test's number": (
        _PEER + "def f(x):\n    me = peer()\n"
        "    send('give', me.tokens[-1], ('r', 2), ([(2, 'list', True, [1], None)], [], []), "
        "me=me)\n",
        "assert f(0) == [1]",
    ),
    # -- what a callback gives away
    "reads the test through a callback": (
        _PEER + "def f(fn):\n    me = peer()\n"
        "    for name in ('__globals__', '__code__', '__closure__', '__self__', '__class__', "
        "'__module__', '__defaults__'):\n"
        "        try: return me.ask('get', name, fn)\n        except Exception: pass\n"
        "    return None",
        "secret = 41\ndef cb(x): return x\nassert f(cb) is not None and 41 in f(cb).values()",
    ),
    "writes into the test through a callback": (
        _PEER + "def f(fn):\n    me = peer()\n"
        "    for verb, name, args in (('set', '__code__', (fn, f.__code__)), ('set', 'x', (fn, "
        "1)),\n"
        "        ('op', 'setitem', (fn, 'a', 1)), ('del', '__code__', (fn,)), ('op', 'contains', "
        "(fn, 1))):\n"
        "        try: me.ask(verb, name, *args)\n        except Exception: pass\n",
        "def cb(x): return x\nf(cb)\nassert cb(1) == 1 and f(cb) == 7",
    ),
    "has the verifier evaluate": (
        _PEER
        + "def f(fn):\n    me = peer()\n    for what in (eval, exec, open, getattr, __import__):\n"
        "        try: return me.ask('call', '', what, ('True',), {})\n"
        "        except Exception: pass\n",
        "assert f(lambda: 1) is True",
    ),
    "loads something else": (
        _PEER + "def f(fn):\n    me = peer()\n    out = []\n"
        "    for verb in ('load', 'names', 'import', 'forget'):\n"
        "        try: out.append(me.ask(verb, 'os', ['secret']))\n"
        "        except Exception: pass\n    return out or None",
        "secret = 1\nassert f(lambda: 1)",
    ),
    "swallows the assertion of a callback": (
        "def f(fn, xs):\n    for x in xs:\n        try: fn(x)\n"
        "        except BaseException: pass\n    return True",
        "def cb(x): assert x > 5\nassert f(cb, [1, 2])",
    ),
    "swallows the assertion, and the test too": (
        "def f(fn):\n    try: fn()\n    except BaseException: pass\n    return 1",
        "def cb(): assert False\ntry:\n    assert f(cb) == 1\nexcept BaseException:\n    pass",
    ),
    "calls back for ever": ("def f(fn):\n    while True: fn()", "assert f(lambda: 1) == 1"),
    "calls back without an end": (
        "def f(fn, n=0): return fn(fn)",
        "def cb(fn): return f(fn)\nassert f(cb) == 1",
    ),
    "the test's object answers for itself": (
        _EQUAL + "def f(x):\n    x.value = E()\n    x._value = 5\n",
        "class T:\n    value = 0\nt = T()\nf(t)\nassert t.value == 5",
    ),
    "a test that catches everything": (
        "def f(x): return (_ for _ in ()).throw(ValueError)\nclass E:\n"
        "    def __len__(s): return 3\ndef g(): return E()",
        "try:\n    assert len(g()) == 3\nexcept BaseException:\n    pass",
    ),
    "flips a coin for each test": (
        "import random\nclass E:\n    def __eq__(s, o): return random.random() < 2\n"
        "def f(x): return [E()] * 3",
    ),
    "the default that fits all": (
        "from collections import defaultdict\ndef f(x): return defaultdict(lambda: 1)",
        "assert all(f('abc')[c] == 1 for c in 'abc')",
    ),
}
