"""Inproc mode: tests beside the program; what it catches, and that it calls itself weak."""

from __future__ import annotations

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, Status, TestSpec
from rlkit.sandbox.modes.inproc import count_functions, prepare


def job_of(source: str, *codes: str, **settings) -> Job:
    tests = [TestSpec(f"test {place}", code=code) for place, code in enumerate(codes)]
    return Job(source=source, tests=tests, mode="inproc", **settings)


CLOCK = """
import time, random
def greet():
    print("hello")
    return time.strftime("%H")
def roll(): return random.randint(1, 6)
class Base:
    def area(self): return 0
    def twice(self): return 2 * self.area()
def read(path):
    with open(path) as file: return file.read()
"""

HONEST = {
    "assertions": "assert roll() in range(1, 7)\nassert Base().twice() == 0",
    "monkeypatch": (
        "def test_it(monkeypatch):\n    import solution\n"
        "    monkeypatch.setattr(solution.random, 'randint', lambda a, b: 4)\n"
        "    assert roll() == 4"
    ),
    "monkeypatch by name": (
        "def test_it(monkeypatch):\n    import solution\n"
        "    monkeypatch.setattr('solution.roll', lambda: 9)\n    assert solution.roll() == 9"
    ),
    "mock": (
        "from unittest.mock import patch\nimport solution\n"
        "with patch('solution.time.strftime', return_value='12'):\n"
        "    assert greet() == '12'"
    ),
    "what is printed": (
        "def test_it(capsys):\n    greet()\n    assert capsys.readouterr().out == 'hello\\n'"
    ),
    "a file": (
        "def test_it(tmp_path):\n    place = tmp_path / 'a.txt'\n    place.write_text('x')\n"
        "    assert read(place) == 'x'"
    ),
    "a class of its own": (
        "class Mine(Base):\n    def area(self): return 3\nassert Mine().twice() == 6"
    ),
    "unittest": (
        "import unittest\nclass Tests(unittest.TestCase):\n"
        "    def setUp(self): self.base = Base()\n"
        "    def test_a(self): self.assertEqual(self.base.area(), 0)\n"
        "    def test_b(self): self.assertRaises(FileNotFoundError, read, 'nowhere')"
    ),
    "a test class": (
        "class TestAll:\n    def setup_method(self): self.n = 1\n"
        "    def test_a(self): assert self.n == 1\n    def test_b(self): assert roll() > 0"
    ),
    "pytest": (
        "import pytest\n@pytest.mark.parametrize('a', [1, 2])\ndef test_it(a):\n"
        "    assert a in (1, 2)\n"
        "    with pytest.raises(OSError):\n        read('nowhere')"
    ),
    "redirected output": (
        "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n"
        "    greet()\n"
        "assert out.getvalue() == 'hello\\n'"
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes(sandbox, name: str) -> None:
    verdict = sandbox.run(job_of(CLOCK, HONEST[name]))
    assert verdict.status is Status.PASS, (verdict.summary, verdict.stderr)
    assert verdict.trust == "weak"


@pytest.mark.parametrize("name", [name for name in HONEST if name != "assertions"])
def test_another_program_fails(sandbox, name: str) -> None:
    source = (
        "import time, random\ndef greet(): return 0\ndef roll(): return 0\nread = roll\n"
        "class Base: pass"
    )
    verdict = sandbox.run(job_of(source, HONEST[name]))
    passes = {"monkeypatch by name"}  # it asks for nothing that this program lacks
    assert (verdict.reward == 1.0) is (name in passes)


CHEATS = {
    "exit 0 while loading": ("import os\nos._exit(0)", "NO_RESULT"),
    "exit 0 in the function": ("import os\ndef f(x): os._exit(0)", "NO_RESULT"),
    "leaves": ("def f(x): raise SystemExit(0)", "RUNTIME_ERROR"),
    "leaves while loading": ("raise SystemExit(0)", "RUNTIME_ERROR"),
    "exit in a thread": (
        "import threading, os, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.02), os._exit(0))).start()\n"
        "def f(x): time.sleep(0.2)",
        "NO_RESULT",
    ),
    "exit code 1 after the test": (
        "import os, sys\nclass S:\n    def flush(s): os._exit(1)\n    def write(s, t): pass\n"
        "def f(x):\n    sys.stdout = S()\n    return 2",
        "NO_RESULT",
    ),
    "replaces abs": (
        "import builtins\nbuiltins.abs = lambda x: 0\ndef f(x): return 9",
        "TAMPERED",
    ),
    "replaces AssertionError": (
        "import builtins\nclass E(BaseException): pass\nbuiltins.AssertionError = E\n"
        "def f(x): return 9",
        "TAMPERED FAIL RUNTIME_ERROR",
    ),
    "replaces json.dumps": ("import json\njson.dumps = print\ndef f(x): return 2", "TAMPERED"),
    "replaces os.write": ("import os\nos.write = print\ndef f(x): return 2", "TAMPERED"),
    "replaces a builtin when called": (
        "def f(x):\n    import builtins\n    builtins.abs = lambda x: 0\n    return 9",
        "TAMPERED",
    ),
    "traces": ("import sys\nsys.settrace(lambda *a: None)\ndef f(x): return 2", "TAMPERED"),
    "writes to every descriptor": (
        "import os\ndef f(x):\n    for fd in range(3, 64):\n"
        "        try: os.write(fd, b'\\0\\0\\0\\4i1;N')\n"
        "        except OSError: pass\n    return 2",
        "TAMPERED NO_RESULT",
    ),
    "says what the verifier would say": (
        "import os\nfor fd in (3, 4):\n    try: os.write(fd, b'\\nt3:s6:passedi0;f0x0p+0;\\n')\n"
        "    except OSError: pass\n"
        "os._exit(0)",
        "NO_RESULT TAMPERED",
    ),
    "closes every descriptor": ("import os\nos.closerange(0, 64)\ndef f(x): return 2", "NO_RESULT"),
    "never ends": ("def f(x):\n    while True: pass", "TIMEOUT CPU_LIMIT"),
    "is no program": ("def f(x) return 2", "COMPILE_ERROR"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_simple_cheat_is_not_paid(check, name: str) -> None:
    source, statuses = CHEATS[name]
    limits = Limits(wall_s=1.5, cpu_s=1.0, memory_mb=256)
    verdict = check(job_of(source, "assert abs(f(1) - 2) < 1e-9 and f(1) == 2", limits=limits))
    assert str(verdict.status) in statuses.split(), verdict.summary
    assert verdict.reward == 0.0
    assert verdict.trust == "weak"


def test_an_object_that_equals_everything_is_paid_which_is_why_it_is_weak(sandbox) -> None:
    source = "class E:\n    def __eq__(s, o): return True\ndef f(x): return E()"
    verdict = sandbox.run(job_of(source, "assert f(1) == 2"))
    assert (verdict.reward, verdict.trust) == (1.0, "weak")


def test_the_tests_are_counted(sandbox) -> None:
    code = "def test_a(): assert f(1) == 1\ndef test_b(): assert f(2) == 2"
    assert sandbox.run(job_of("def f(x): return x", code)).reward == 1.0
    # It takes a test's name away while the first one runs.
    thief = (
        "import sys\ndef f(x):\n    space = sys._getframe(1).f_globals\n"
        "    space['test_b'] = None\n    return 1"
    )
    assert sandbox.run(job_of(thief, code)).reward == 0.0


def test_each_test_has_a_process_unless_names_are_shared(sandbox) -> None:
    source = "n = 0\ndef f():\n    global n\n    n += 1\n    return n"
    codes = ("assert f() == 1", "assert f() == 1", "assert f() == 2")
    passed = {
        share: [
            t.status is Status.PASS for t in sandbox.run(job_of(source, *codes, share=share)).tests
        ]
        for share in ("process", "names")
    }
    assert passed == {"process": [True, True, False], "names": [True, False, False]}


def test_one_that_does_not_load_is_not_run_for_every_test(sandbox) -> None:
    verdict = sandbox.run(job_of("1 / 0", *["assert f(1) == 2"] * 3))
    assert [t.status for t in verdict.tests] == [
        *(Status.RUNTIME_ERROR, Status.NO_RESULT, Status.NO_RESULT)
    ]
    assert verdict.total == 3


def test_functions_are_counted_by_the_text() -> None:
    assert count_functions("def test_a(): ...\ndef helper(): ...\nassert f()") == 1
    assert (
        count_functions(
            "class T(unittest.TestCase):\n    def test_a(self): ...\n    def b(self): ..."
        )
        == 1
    )
    assert count_functions("class Tool:\n    def test_a(self): ...") == 0
    with pytest.raises(UserError, match="asserts nothing"):
        prepare(job_of("", "f(1)"), Limits())
