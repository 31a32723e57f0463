"""What an honest test may do in proxy mode: a program, and tests that it passes."""

from __future__ import annotations

_POINT = """
class Point:
    made = 0
    def __init__(self, x, y=0):
        self.x, self.y = x, y
        Point.made += 1
    def __eq__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return (self.x, self.y) == (other.x, other.y)
    def __hash__(self):
        return hash((self.x, self.y))
    def __lt__(self, other): return (self.x, self.y) < (other.x, other.y)
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def __mul__(self, k): return Point(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __matmul__(self, other): return self.x * other.x + self.y * other.y
    def __neg__(self): return Point(-self.x, -self.y)
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    def __iadd__(self, other):
        self.x += other.x
        return self
    def __bool__(self): return bool(self.x or self.y)
    def __repr__(self): return f"Point({self.x}, {self.y})"
    def __format__(self, how): return f"{self.x:{how}}"
    def __call__(self, dx): return self.x + dx
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __int__(self): return int(self.x)
    @property
    def sum(self): return self.x + self.y
    @classmethod
    def zero(cls): return cls(0, 0)
    @staticmethod
    def twice(x): return 2 * x
def origin(): return Point(0, 0)
def longest(points): return max(points, key=abs)
"""
_TREE = """
class Node:
    def __init__(self, val, next=None): self.val, self.next = val, next
def build(xs):
    head = None
    for x in reversed(xs): head = Node(x, head)
    return head
def reverse(head):
    back = None
    while head: head.next, back, head = back, head, head.next
    return back
"""
_BAG = """
class Bag:
    def __init__(self, items=()): self.items = list(items)
    def __contains__(self, x): return x in self.items
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __setitem__(self, i, x): self.items[i] = x
    def __getitem__(self, i): return self.items[i]
    def __delitem__(self, i): del self.items[i]
    def push(self, x):
        self.items.append(x)
        return self
    def pop(self):
        if not self.items: raise IndexError("pop from an empty bag")
        return self.items.pop()
"""
_ERRORS = """
class BankError(Exception): pass
class Poor(BankError, ValueError):
    def __init__(self, have, want):
        super().__init__(f"have {have}, want {want}")
        self.have, self.want = have, want
def pay(have, want):
    if want < 0: raise ValueError("negative amount")
    if want > have: raise Poor(have, want)
    return have - want
def key(d, k): return d[k]
def chained():
    try: 1 / 0
    except ZeroDivisionError as error: raise RuntimeError("outer") from error
def leave(): raise SystemExit(3)
"""

FEATURES: dict[str, tuple[str, ...]] = {
    "a call and its value": ("def f(x): return sorted(x)", "assert f([3, 1]) == [1, 3]"),
    "several statements": (
        "def f(x, y=1): return x * y",
        "x = 3\nfor i in range(3):\n    assert f(x, y=i) == x * i\nassert f(2) == 2",
    ),
    "floats nearby": (
        "def f(x): return x / 3",
        "assert abs(f(1.0) - 0.3333333) < 1e-6",
        "import math\nassert math.isclose(f(1.0), 1 / 3)",
        "assert math.isclose(f(2.0), 2 / 3)",
        "from pytest import approx\nassert f(1.0) == approx(0.3333333)\n"
        "assert [f(1.0)] == approx([1 / 3])",
    ),
    "every plain type": (
        "def f(x): return x",
        "for x in (None, True, 1, -2.5, 1j, 'é\\n', b'x\\n%', (1, (2,)), frozenset({1}), {1: "
        "[2]}, {3}):\n"
        "    assert f(x) == x and type(f(x)) is type(x)",
        "from decimal import Decimal as D\nfrom fractions import Fraction as F\n"
        "assert f(D('1.10')) == D('1.10') and f(F(1, 3)) == F(1, 3)",
        "assert f(range(3)) == range(3) and list(f(range(2))) == [0, 1] and f(slice(1, 2)) == "
        "slice(1, 2)",
        "import datetime as d\nday = d.date(2024, 2, 29)\nassert f(day) == day\n"
        "assert f(d.timedelta(1, 2)) == d.timedelta(1, 2) and f(d.datetime(2024, 1, 2, 3)).hour "
        "== 3",
    ),
    "collections": (
        "from collections import *\ndef f(x): return Counter(x)\n"
        "def g(): return defaultdict(list, {1: [2]})\n"
        "def h(x):\n    d = deque(x)\n    d.rotate(1)\n    return d\n"
        "def o(): return OrderedDict(b=1, a=2)",
        "assert f('aab') == {'a': 2, 'b': 1} and f('aab').most_common(1) == [('a', 2)]",
        "assert g() == {1: [2]} and g()[9] == []",
        "from collections import deque, OrderedDict\nassert h([1, 2]) == deque([2, 1])\n"
        "assert list(o()) == ['b', 'a']",
        "d = deque([1, 2, 3], maxlen=3)\nassert h(d) == deque([3, 1, 2])\n"
        "from collections import deque",
    )[:4],
    "views and lazy values": (
        "def k(d): return d.keys()\ndef m(x): return map(str, x)\ndef z(a, b): return zip(a, b)",
        "assert k({1: 2}) == {1} and list(m([1, 2])) == ['1', '2'] and dict(z('ab', (1, 2))) == "
        "{'a': 1, 'b': 2}",
    ),
    "named tuples": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2) and f().x == 1 and f()._asdict() == {'x': 1, 'y': 2}",
        "x, y = f()\nassert P(3, y).x == 3",
    ),
    "arguments changed in place": (
        "def f(xs): xs.sort()\ndef g(d, s, b):\n    d['a'].append(1)\n    s.add(2)\n"
        "    b.extend(b'x')",
        "a = [3, 1]\nassert f(a) is None and a == [1, 3]",
        "inner = []\nd, s, b = {'a': inner}, set(), bytearray()\ng(d, s, b)\n"
        "assert inner == [1] and d['a'] is inner and s == {2} and b == b'x'",
    ),
    "an argument left alone": (
        "def f(xs): return sorted(xs)",
        "a = [3, 1]\nb = f(a)\nassert a == [3, 1] and b == [1, 3] and b is not a",
    ),
    "the same list back": (
        "def f(xs):\n    xs.append(1)\n    return xs\ndef g(x): return [x, x]",
        "a = []\nassert f(a) is a and a == [1]",
        "x = [0]\nr = g(x)\nassert r[0] is r[1] is x\nr[0].append(1)\nassert x == [0, 1]",
    ),
    "a list in a circle": (
        "def f(x):\n    x.append(x)\n    return x",
        "a = f([])\nassert a[0] is a and len(a) == 1",
    ),
    "a list kept by the program": (
        "kept = []\ndef put(xs): kept.append(xs)\ndef grow():\n    for xs in kept: xs.append(9)\n"
        "def total(): return sum(map(sum, kept))",
        "a = [1]\nput(a)\ngrow()\nassert a == [1, 9]\na.append(5)\nassert total() == 15",
    ),
    "attributes": (
        _POINT,
        "p = Point(1, y=2)\nassert p.x == 1 and p.sum == 3\np.x = 7\n"
        "assert p.sum == 9 and hasattr(p, 'y')\n"
        "assert not hasattr(p, 'z') and getattr(p, 'z', 5) == 5\ndel p.x\n"
        "assert not hasattr(p, 'x')",
    ),
    "objects equal": (
        _POINT,
        "assert Point(1, 2) == Point(1, 2) and Point(1, 2) != Point(2, 1)\n"
        "assert origin() == Point.zero()",
        "assert [Point(1, 2)] == [Point(1, 2)] and Point(1, 2) in [Point(1, 2)]",
    ),
    "operators": (
        _POINT,
        "assert Point(1, 2) + Point(3, 4) == Point(4, 6) and -Point(1, 1) == Point(-1, -1)",
        "assert Point(1, 2) * 3 == Point(3, 6) == 3 * Point(1, 2)\nassert (Point(1, 2) * 2).x == 2",
        "assert Point(1, 2) @ Point(3, 4) == 11 and abs(Point(3, 4)) == 5.0 and int(Point(7)) == 7",
        "p = q = Point(1, 1)\np += Point(2, 2)\nassert p is q and p.x == 3",
        "assert Point(1, 1) < Point(1, 2) and not Point(2, 1) < Point(1, 2)\n"
        "assert sorted([Point(2), Point(1)])[0] == Point(1) and max(Point(1), Point(3)).x == 3",
        "assert sum([Point(1), Point(2)], Point(0)) == Point(3)",
    ),
    "text of objects": (
        _POINT,
        "assert repr(Point(1)) == 'Point(1, 0)' == str(Point(1)) and f'{Point(1.5):.2f}' == '1.50'",
    ),
    "truth, calls and items of objects": (
        _POINT,
        "assert Point(1) and not Point(0) and Point(1)(5) == 6 and Point(3, 4)[1] == 4 and "
        "Point(3, 4)[-2:] == (3, 4)",
        "x, y = Point(8, 9)\nassert (x, y) == (8, 9)",
    ),
    "objects in sets and as keys": (
        _POINT,
        "assert len({Point(1), Point(1), Point(2)}) == 2 and {Point(1): 'a'}[Point(1)] == 'a'\n"
        "assert hash(Point(1)) == hash(Point(1))",
    ),
    "class methods and attributes": (
        _POINT,
        "before = Point.made\nPoint.zero()\n"
        "assert Point.made == before + 1 and Point.twice(4) == 8",
        "Point.made = 100\nPoint(1)\nassert Point.made == 101 and Point.__name__ == 'Point'",
    ),
    "isinstance": (
        _POINT + "\nclass Point3(Point): pass\n",
        "assert isinstance(Point(1), Point) and type(Point(1)) is Point and not "
        "isinstance(Point(1), (int, list))",
        "assert issubclass(Point3, Point) and isinstance(Point3(1), Point) and not isinstance(3, "
        "Point)\n"
        "assert isinstance(Point(1), object) and type(Point3(1)).__name__ == 'Point3' and "
        "callable(Point)",
    ),
    "objects as arguments": (
        _POINT,
        "a, b = Point(1), Point(5)\nassert longest([a, b]) is b and longest((b, a)) == Point(5)",
    ),
    "a linked list": (
        _TREE,
        "head = reverse(build([1, 2, 3]))\nout = []\nwhile head:\n    out.append(head.val)\n"
        "    head = head.next\n"
        "assert out == [3, 2, 1]",
        "a = Node(1, Node(2))\nassert a.next.val == 2 and a.next.next is None\na.next.val = 7\n"
        "assert reverse(a).val == 7",
        "n = build([5])\nassert n.val == 5 and n.next is None",
    ),
    "containers of the program": (
        _BAG,
        "b = Bag([1, 2])\n"
        "assert 2 in b and 3 not in b and len(b) == 2 and list(b) == [1, 2] and b[0] == 1\n"
        "b[0] = 9\ndel b[1]\nassert sorted(b) == [9] and b.items == [9]",
        "b = Bag().push(1).push(2)\nassert b.pop() == 2 and b.pop() == 1\ntry:\n    b.pop()\n"
        "    assert False\n"
        "except IndexError as e:\n    assert 'empty' in str(e)",
        "b = Bag()\nb.items.append(3)\nassert len(b) == 1\nb.push(4)\nassert b.items == [3, 4]",
    ),
    "exceptions of Python's own": (
        _ERRORS,
        "try:\n    pay(1, -1)\nexcept ValueError as e:\n    assert str(e) == 'negative amount'\n"
        "else:\n    assert False",
        "try:\n    key({}, 'k')\n    assert False, 'no error'\nexcept KeyError as e:\n"
        "    assert e.args == ('k',)",
        "try:\n    chained()\n    assert False\nexcept RuntimeError as e:\n"
        "    assert isinstance(e.__cause__, ZeroDivisionError)",
        "try:\n    leave()\n    assert False\nexcept SystemExit as e:\n    assert e.code == 3",
        "import pytest\nwith pytest.raises(ValueError, match='negative'):\n    pay(1, -1)",
        "import pytest\nwith pytest.raises((KeyError, IndexError)) as info:\n    key([], 0)\n"
        "assert info.type is IndexError",
    ),
    "exceptions of the program's own": (
        _ERRORS,
        "try:\n    pay(1, 5)\nexcept Poor as e:\n"
        "    assert e.want == 5 and str(e) == 'have 1, want 5' and e.args\n"
        "else:\n    assert False",
        "try:\n    pay(1, 5)\n    assert False\nexcept BankError:\n    pass",
        "try:\n    pay(1, 5)\n    assert False\nexcept ValueError as e:\n"
        "    assert type(e) is Poor and isinstance(e, BankError)",
        "import pytest\nwith pytest.raises(Poor) as info:\n    pay(1, 2)\n"
        "assert info.value.have == 1",
        "assert issubclass(Poor, ValueError) and str(Poor(1, 2)) == 'have 1, want 2'",
    ),
    "a raise that is not caught by others": (
        _ERRORS,
        "try:\n    try:\n        pay(1, 5)\n    except KeyError:\n        assert False\n"
        "except Poor:\n    assert True is not pay(5, 1)",
    ),
    "generators": (
        "def f(n):\n    for i in range(n):\n        yield i\ndef echo():\n    x = yield 'first'\n"
        "    yield x",
        "assert list(f(3)) == [0, 1, 2] and sum(f(4)) == 6 and [x for x in f(2)] == [0, 1]",
        "g = f(1)\n"
        "assert iter(g) is g and next(g) == 0 and next(g, 'end') == 'end' and list(g) == []",
        "g = echo()\nassert next(g) == 'first' and g.send(5) == 5\ng.close()",
        "from itertools import islice\nimport itertools\n"
        "assert list(islice(f(10**9), 2)) == [0, 1]",
    ),
    "iterators of the program's own": (
        "class Down:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return self\n"
        "    def __next__(self):\n        if self.n == 0: raise StopIteration\n"
        "        self.n -= 1\n        return self.n\n"
        "def f(n): return Down(n)",
        "assert list(Down(3)) == [2, 1, 0]",
        "d = Down(1)\nassert next(d) == 0\ntry:\n    next(d)\n    assert False\n"
        "except StopIteration:\n    pass",
        "assert list(f(2)) == [1, 0]",
    ),
    "callbacks": (
        "def apply(fn, xs, **kw): return [fn(x, **kw) for x in xs]\n"
        "def twice(fn): return lambda x: fn(fn(x))\n"
        "def call(fn):\n    try: return fn()\n    except ValueError as e: return str(e)",
        "assert apply(lambda x: x * 2, [1, 2]) == [2, 4] and apply(str, [1]) == ['1']\n"
        "assert apply(lambda x, k: x + k, [1], k=3) == [4] and twice(lambda x: x + 1)(1) == 3",
        "seen = []\napply(seen.append, [1, 2])\nassert seen == [1, 2]",
        "def bad(): raise ValueError('mine')\nassert call(bad) == 'mine'",
        "def bad(): raise KeyError(1)\ntry:\n    call(bad)\n    assert False\n"
        "except KeyError as e:\n    assert e.args == (1,)",
        "assert apply(len, ['ab', ()]) == [2, 0] and apply(int, ['3']) == [3]",
    ),
    "decorators": (
        "import functools\ndef memo(fn):\n    cache = {}\n    @functools.wraps(fn)\n"
        "    def inner(*a):\n"
        "        if a not in cache: cache[a] = fn(*a)\n        return cache[a]\n"
        "    inner.cache = cache\n    return inner\n"
        "class Count:\n    def __init__(self, fn): self.fn, self.n = fn, 0\n"
        "    def __call__(self, *a):\n"
        "        self.n += 1\n        return self.fn(*a)\n@functools.lru_cache\n"
        "def g(x): return x + 1",
        "calls = []\n@memo\ndef slow(x):\n    'doc'\n    calls.append(x)\n    return x * x\n"
        "assert slow(3) == slow(3) == 9 and calls == [3] and slow.cache == {(3,): 9} and "
        "slow.__name__ == 'slow' and slow.__doc__ == 'doc'",
        "@memo\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nassert fib(15) == 610",
        "@Count\ndef h(x): return x\nassert h(1) == 1 and h(2) == 2 and h.n == 2",
        "assert g(1) == g(1) == 2 and g.cache_info().hits == 1",
    ),
    "objects of the test's own": (
        "def read(src): return src.read().upper()\ndef total(xs): return sum(x.price for x in xs)\n"
        "def mark(x): x.done = True\ndef biggest(xs): return max(xs)\n"
        "def shout(x): return x.greet('a') + x.name",
        "import io\nassert read(io.StringIO('abc')) == 'ABC'",
        "class Item:\n    def __init__(self, price): self.price = price\n"
        "assert total([Item(1), Item(2)]) == 3",
        "class Task:\n    done = False\nt = Task()\nmark(t)\nassert t.done is True",
        "class W:\n    def __init__(self, n): self.n = n\n"
        "    def __lt__(self, o): return self.n < o.n\n"
        "    def __gt__(self, o): return self.n > o.n\na, b = W(1), W(2)\n"
        "assert biggest([a, b]) is b",
        "class D:\n    name = 'd'\n    def greet(self, x): return x * 2\n"
        "assert shout(D()) == 'aad'",
    ),
    "iterators of the test's own": (
        "def f(xs): return [x + 1 for x in xs]\ndef first(it): return next(it)",
        "assert f(iter([1, 2])) == [2, 3] and f(x for x in (1, 2)) == [2, 3] and f({5: "
        "6}.keys()) == [6]",
        "def gen():\n    yield 7\n    yield 8\ng = gen()\nassert first(g) == 7 and next(g) == 8",
    ),
    "context managers": (
        "import contextlib\nclass Log:\n    def __init__(self): self.seen = []\n"
        "    def __enter__(self):\n"
        "        self.seen.append('in')\n        return self\n"
        "    def __exit__(self, kind, error, trace):\n"
        "        self.seen.append(kind.__name__ if kind else None)\n"
        "        return kind is KeyError\n"
        "@contextlib.contextmanager\ndef tag(out, name):\n    out.append(name)\n    yield name\n"
        "    out.append('/' + name)",
        "with Log() as log:\n    assert log.seen == ['in']\nassert log.seen == ['in', None]",
        "log = Log()\nwith log:\n    raise KeyError(1)\nassert log.seen[-1] == 'KeyError'",
        "log = Log()\ntry:\n    with log:\n        raise ValueError(1)\n    assert False\n"
        "except ValueError:\n    assert log.seen[1] == 'ValueError'",
        "out = []\nwith tag(out, 'p') as t:\n    assert t == 'p' and out == ['p']\n"
        "assert out == ['p', '/p']",
    ),
    "coroutines": (
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1\nclass A:\n"
        "    async def go(self): return 5",
        "import asyncio\nassert asyncio.run(f(1)) == 2\nasync def t():\n"
        "    assert await f(3) == 4\n"
        "    assert await A().go() == 5\n    return await asyncio.gather(f(1), f(2))\n"
        "assert asyncio.run(t()) == [2, 3]",
    ),
    "data classes and enumerations": (
        "import dataclasses, enum\n@dataclasses.dataclass(order=True)\nclass Item:\n"
        "    name: str\n    n: int = 1\n"
        "class Colour(enum.Enum):\n    RED = 1\n    BLUE = 2\ndef pick(n): return Colour(n)",
        "a = Item('x')\n"
        "assert a == Item('x', 1) and a != Item('y') and repr(a) == \"Item(name='x', n=1)\" and "
        "a < Item('y')\n"
        "assert vars(a) == {'name': 'x', 'n': 1}",
        "assert pick(1) is Colour.RED and pick(2) == Colour.BLUE and Colour.RED.value == 1 and "
        "Colour['RED'].name == 'RED'\n"
        "assert [c.value for c in Colour] == [1, 2] and len(Colour) == 2 and isinstance(pick(1), "
        "Colour)\n"
        "assert {Colour.RED: 5}[pick(1)] == 5",
    ),
    "abstract classes": (
        "from abc import ABC, abstractmethod\nclass Shape(ABC):\n    @abstractmethod\n"
        "    def area(self): ...\n"
        "class Square(Shape):\n    def __init__(self, a): self.a = a\n"
        "    def area(self): return self.a ** 2",
        "try:\n    Shape()\n    assert False\nexcept TypeError:\n    pass\n"
        "assert Square(3).area() == 9 and isinstance(Square(1), Shape)",
        "shapes = [Square(1), Square(2)]\nassert sum(s.area() for s in shapes) == 5",
    ),
    "imports of the program": (
        "LIMIT = 3\ndef f(x): return x + LIMIT\nclass Big: pass",
        "from solution import f\nassert f(1) == 4",
        "import solution\n"
        "assert solution.f(1) == 4 and solution.LIMIT == 3 and isinstance(solution.Big(), "
        "solution.Big)",
        "from main import f as g\nassert g(2) == 5",
        "from solution import *\nassert f(0) == LIMIT",
        "import solution as s\ns.LIMIT = 10\nassert s.f(1) == 11",
    ),
    "check and test functions": (
        "def f(x): return x * 2",
        "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
        "check(f)",
        "def test_one():\n    assert f(1) == 2\ndef test_two():\n    assert f(2) == 4",
        "import pytest\n@pytest.mark.parametrize('a, b', [(1, 2), (2, 4)])\ndef test_all(a, b):\n"
        "    assert f(a) == b",
        "class T:\n    def go(self):\n        assert f(3) == 6\nT().go()",
    ),
    "methods of Solution": (
        "class Solution:\n    def twoSum(self, nums, target):\n        return [0, 1]",
        "assert Solution().twoSum([2, 7], 9) == [0, 1]",
        "assert twoSum([2, 7], 9) == [0, 1]",
    ),
    "a name that the test binds anew": (
        "def memo(fn): return lambda x: fn(x)\ndef f(x): return x",
        "f = memo(f)\nassert f(1) == 1",
    ),
    "closures and partials": (
        "import functools\ndef adder(n): return lambda x: x + n\n"
        "def part(): return functools.partial(pow, 2)\n"
        "def counter():\n    n = 0\n    def step():\n        nonlocal n\n        n += 1\n"
        "        return n\n    return step",
        "assert adder(3)(4) == 7 and part()(5) == 32\nc = counter()\n"
        "assert (c(), c(), counter()()) == (1, 2, 1)",
        "assert sorted([3, 1, 2], key=adder(0)) == [1, 2, 3] and list(map(adder(1), [1])) == [2]",
    ),
    "copies": (
        _BAG,
        "import copy\na = Bag([1])\nb, c = copy.copy(a), copy.deepcopy(a)\na.items.append(2)\n"
        "assert b.items == [1, 2] and c.items == [1] and type(c) is Bag",
    ),
    "threads of the test": (
        "class C:\n    n = 0\n    def up(self): self.n += 1",
        "import threading\nc = C()\nts = [threading.Thread(target=c.up) for _ in range(4)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()\nassert c.n == 4",
    ),
    "threads of the program": (
        "from concurrent.futures import ThreadPoolExecutor\ndef pmap(fn, xs):\n"
        "    with ThreadPoolExecutor(2) as pool: return list(pool.map(fn, xs))",
        "assert pmap(lambda x: x * x, range(6)) == [0, 1, 4, 9, 16, 25]",
    ),
    "truth of what is not plain": (
        "import re\ndef f(s): return re.match('a', s)\ndef g(): return object()",
        "assert f('abc') and not f('x') and f('x') is None and f('abc') is not None\n"
        "assert f('abc').group(0) == 'a'",
    ),
    "a name of Python's own as the entry": (
        "def sum(xs): return 42\ndef helper(): return 1",
        "assert helper() == 1 and sum([1]) == 1",  # not the entry: Python's own
    ),
    "nested calls": (
        "def f(n, g): return n if n == 0 else g(n - 1)",
        "def g(n): return 1 + f(n, g)\nassert g(90) == 91",
    ),
    "many values": (
        "def f(xs): return [x + 1 for x in xs]",
        "assert f(list(range(20000))) == list(range(1, 20001))",
        "for i in range(200):\n    assert f([i]) == [i + 1]",
    ),
}
