"""Proxy mode: what tests may do with a program in another process, and how none is fooled.

Most of it also between two plain subprocesses (`proxy_pair.py`), without fences: the protocol
by itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox.backends.base import Outcome
from rlkit.sandbox.modes.proxy import cannot_carry, judge, prepare
from rlkit.sandbox.modes.test_text import read_test
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Status, TestSpec
from rlkit.sandbox.zygote.proxy import joined


def neighbour(name: str):
    """A file beside this one; test files are not a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_proxy = neighbour("proxy_pair").run_proxy
FEATURES = neighbour("proxy_features").FEATURES
CHEATS, SORTED = neighbour("proxy_cheats").CHEATS, neighbour("proxy_cheats").SORTED


def job_of(source: str, *codes: str, **settings) -> Job:
    tests = [TestSpec(f"test {place}", code=code) for place, code in enumerate(codes)]
    return Job(source=source, tests=tests, mode="proxy", **settings)


@pytest.mark.parametrize("name", list(FEATURES)[::5])
def test_the_protocol_by_itself_carries_an_honest_program(name: str) -> None:
    source, *codes = FEATURES[name]
    verdict = run_proxy(job_of(source, *codes))
    assert verdict.status is Status.PASS, (verdict.summary, verdict.stderr)
    assert verdict.trust == "strong"


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_not_paid(sandbox, name: str) -> None:
    source, *codes = CHEATS[name]
    job = job_of(source, *(codes or SORTED), limits=Limits(wall_s=1.0, memory_mb=256))
    verdict = sandbox.run(job)
    assert verdict.passed == 0, verdict
    assert verdict.reward == 0.0
    assert verdict.status not in (Status.PASS, Status.SANDBOX_ERROR)


@pytest.mark.parametrize("name", [n for n in CHEATS if "callback" in n or "answer" in n])
def test_the_protocol_by_itself_pays_no_cheat(name: str) -> None:
    source, *codes = CHEATS[name]
    verdict = run_proxy(job_of(source, *(codes or SORTED)), Limits(wall_s=2.0))
    assert verdict.passed == 0, verdict


def test_an_honest_program_passes(sandbox) -> None:
    jobs = [job_of(source, *codes) for source, *codes in FEATURES.values()]
    for name, verdict in zip(FEATURES, sandbox.run_many(jobs), strict=True):
        assert verdict.status is Status.PASS, (name, verdict.summary, verdict.stderr)
        assert verdict.trust == "strong"


HOSTILE = {
    "a flood of output": ("def f(x):\n    while True: print('x' * 1000)", "OUTPUT_LIMIT"),
    "a list without an end": ("def f(x): return [0] * 10**10", "MEMORY_LIMIT RUNTIME_ERROR"),
    "memory by and by": (
        "def f(x):\n    a = []\n    while True: a.append(bytearray(1 << 20))",
        "MEMORY_LIMIT RUNTIME_ERROR",
    ),
    "all the time there is": ("def f(x):\n    while True: pass", "TIMEOUT CPU_LIMIT"),
    "kills all it can": (
        "import os, signal\ndef f(x):\n    for pid in (os.getppid(), 0, -1, 1):\n"
        "        try: os.kill(pid, signal.SIGKILL)\n        except OSError: pass",
        "CRASH FAIL NO_RESULT",
    ),
    "kills the verifier": (
        "import os, signal\ndef f(x):\n    for pid in range(1, 64):\n"
        "        if pid != os.getpid():\n"
        "            try: os.kill(pid, signal.SIGKILL)\n            except OSError: pass",
        "FAIL NO_RESULT CRASH",
    ),
    "reads the verifier's memory": (
        "import os\ndef f(x):\n    for pid in os.listdir('/proc'):\n"
        "        try:\n"
        "            if b'assert' in open(f'/proc/{pid}/mem', 'rb').read(1): return [1]\n"
        "        except OSError: pass",
        "FAIL RUNTIME_ERROR",
    ),
    "leaves a file for the verifier": (
        "import os\nfor place in ('.', '/tmp', os.environ.get('HOME', '.')):\n"
        "    for name in ('solution.py', 'math.py', 'sitecustomize.py', 'pytest.py'):\n"
        "        try: open(os.path.join(place, name), 'w').write('isclose = lambda *a: True')\n"
        "        except OSError: pass\ndef f(x): return 0.0",
        "FAIL",
    ),
    "a value of many levels": (
        "def f(x):\n    for _ in range(10**5): x = (x,)\n    return x",
        "BAD_VALUE RUNTIME_ERROR CRASH NO_RESULT",
    ),
    "an iterator without an end": (
        "import itertools\ndef f(x): return itertools.count()",
        "FAIL TIMEOUT CPU_LIMIT MEMORY_LIMIT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_ends_as_a_named_status(check, name: str) -> None:
    source, statuses = HOSTILE[name]
    code = "import math\nr = f([1])\nassert math.isclose(next(iter(r)) if r else 0.0, 1.5)"
    verdict = check(job_of(source, code, limits=Limits(wall_s=1.5, cpu_s=1.0, memory_mb=256)))
    assert str(verdict.status) in statuses.split(), verdict.summary
    assert verdict.reward == 0.0


def test_a_test_that_never_ends_ends(check) -> None:
    source = "import itertools\ndef f(x): return itertools.count()"
    job = job_of(source, "assert list(f(1)) == [0]", limits=Limits(wall_s=1.0, memory_mb=128))
    assert str(check(job).status) in ("TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "CRASH")


def test_there_are_enough_of_both() -> None:
    assert len(FEATURES) >= 40
    assert len(CHEATS) >= 45


def test_the_tests_that_the_cheats_face_are_fair() -> None:
    assert run_proxy(job_of("def f(x):\n    return sorted(x)", *SORTED)).passed == len(SORTED)


def test_statuses_have_names() -> None:
    def ended(source: str, *codes: str, seconds: float = 3.0) -> Status:
        return run_proxy(job_of(source, *codes), Limits(wall_s=seconds)).status

    holds = "assert f(2) == 4"
    assert ended("def f(x): return x + 2", holds) is Status.PASS
    assert ended("def f(x): return x + 3", holds) is Status.FAIL
    assert ended("def f(x): return 1 / 0", holds) is Status.RUNTIME_ERROR
    assert ended("def f(x) return 1", holds) is Status.COMPILE_ERROR
    assert ended("1 / 0", holds) is Status.RUNTIME_ERROR
    assert ended("import os\ndef f(x): os._exit(0)", holds) is Status.NO_RESULT
    assert ended("import os\nos._exit(0)", holds) is Status.NO_RESULT
    assert ended("import os\ndef f(x): os.abort()", holds) is Status.CRASH
    assert ended("def f(x):\n    while True: pass", holds, seconds=1.0) is Status.TIMEOUT
    assert ended("def f(x): return object()", holds) is Status.FAIL
    assert ended("def f(x): return object()", "assert f(2) + 1 == 3") is Status.FAIL
    assert ended("def g(x): return 1", holds) is Status.FAIL
    big = "def f(x): return 'x' * (1 << 22)"
    assert ended(big, holds) is Status.BAD_VALUE


def test_every_test_is_told_apart() -> None:
    verdict = run_proxy(
        job_of(
            "import os\ndef f(x):\n    if x == 3: os._exit(0)\n    return x",
            *(f"assert f({n}) == {n}" for n in (1, 2, 3, 4)),
        )
    )
    assert [t.status for t in verdict.tests] == [
        *(Status.PASS, Status.PASS, Status.NO_RESULT, Status.NO_RESULT)
    ]
    assert verdict.reward == 0.5
    assert "ended before it answered" in verdict.summary


def test_a_value_that_is_too_large_spoils_only_its_test() -> None:
    source = "def f(x): return 'x' * (1 << 22) if x else []"
    verdict = run_proxy(job_of(source, "assert f(1)", "assert f(0) == []"))
    assert [t.status for t in verdict.tests] == [Status.BAD_VALUE, Status.PASS]


def test_messages_are_for_a_learner() -> None:
    verdict = run_proxy(job_of("def f(x):\n    return x + 1", "n = 2\nassert f(n) == 4, 'even'"))
    assert verdict.tests[0].message == (
        "the test does not hold (line 2 of the test): even; f() returned 3"
    )
    assert verdict.tests[0].got_repr == "3"
    verdict = run_proxy(job_of("def f(x):\n    return x / 0", "assert f(2) == 4"))
    assert verdict.tests[0].message == (
        "the program raised ZeroDivisionError: division by zero (line 2) (line 1 of the test)"
    )


def test_what_tests_share() -> None:
    source = "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)"
    codes = ("a = f(1)\nassert a == 1", "assert f(2) == 2", "assert a == 1 and f(3) == 3")
    passed = {
        share: run_proxy(job_of(source, *codes, share=share)).passed
        for share in ("process", "names", "nothing")
    }
    # A name space for each test: the third does not know `a`. Loaded anew: only the first
    # test is the first to call f.
    assert passed == {"process": 2, "names": 3, "nothing": 1}


def test_what_one_test_failed_to_bind_is_not_the_program_s_in_the_next(sandbox) -> None:
    source = "s = 5\ndef f(x): raise ValueError"
    codes = ("s = f(1)\nassert s == 5", "assert s == 5")
    assert sandbox.run(job_of(source, *codes, share="names")).passed == 0
    # Alone, it is a test of the program's `s`.
    assert sandbox.run(job_of(source, codes[1])).passed == 1


def test_the_rest_is_left_out_after_the_first_failure() -> None:
    job = job_of("def f(x): return 1", *["assert f(0) == 0"] * 3, stop_on_first=True)
    statuses = [t.status for t in run_proxy(job).tests]
    assert statuses == [Status.FAIL, Status.NO_RESULT, Status.NO_RESULT]


def test_what_stays_in_the_processes() -> None:
    job = job_of("SECRET = 1", "assert f(2) == 12345", entry="f")
    request = prepare(job, Limits()).request
    assert request.keys() == {"candidate", "verifier"}
    assert "12345" not in repr(request["candidate"])
    assert "SECRET" not in repr(request["verifier"])


@pytest.mark.parametrize("code", ["f(1)", "assert True", "assert 'f'", "x = f(2) == 3"])
def test_a_test_that_cannot_fail_is_refused(code: str) -> None:
    with pytest.raises(UserError, match="asserts nothing"):
        prepare(job_of("def f(x): ...", code), Limits())


@pytest.mark.parametrize(
    "code, why",
    [
        ("class Mine(Base):\n    pass\nassert f(Mine)", "derives a class from Base"),
        ("def test_x(capsys):\n    f()\n    assert capsys.readouterr().out == 'a'", "prints"),
        ("def test_x(monkeypatch):\n    assert f()", "replaces parts"),
        ("from unittest.mock import patch\nassert f()", "replaces parts|TestCase"),
        ("import random\nrandom.seed(0)\nassert f() == 3", "seeds"),
        ("assert open('x').read() == f()", "shares files"),
        ("import sys\nsys.stdin = 1\nassert f()", "belongs to the program"),
    ],
)
def test_what_cannot_be_carried_is_said_by_the_text_alone(code: str, why: str) -> None:
    assert any(part in cannot_carry(code) for part in why.split("|"))
    with pytest.raises(UserError, match="inproc"):
        prepare(job_of("", code), Limits())


@pytest.fixture(scope="module")
def echo():
    """`echo(x)` of a program that gives back what it gets; both ends in this process."""
    kept = sys.modules.get("solution")
    strict = joined("def echo(x): return x\ndef grow(x):\n    x.append(x)\n    return [x, [x]]")
    strict.load()
    yield {name: found for name, _, found in strict.ask("names", "", ("echo", "grow"))}
    sys.modules.pop("solution")
    if kept is not None:
        sys.modules["solution"] = kept


_SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.binary()),
    *(st.text(), st.complex_numbers(allow_nan=False), st.fractions(), st.dates()),
    st.decimals(allow_nan=False),
)
_KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.booleans()))


@given(
    st.recursive(
        _SCALARS,
        lambda inner: st.one_of(
            st.lists(inner),
            st.tuples(inner, inner),
            st.dictionaries(_KEYS, inner),
            st.sets(_KEYS),
            st.frozensets(_KEYS),
            st.builds(Counter, st.text()),
            st.builds(deque, st.lists(inner)),
        ),
        max_leaves=12,
    )
)
def test_plain_values_come_back_as_they_went(echo, value) -> None:
    back = echo["echo"](value)
    assert back == value and type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, (set, frozenset, dict))


@given(st.lists(st.integers(), max_size=5))
def test_one_list_stays_one_list(echo, values: list) -> None:
    mine = list(values)
    back = echo["grow"](mine)
    assert mine[:-1] == values
    assert mine[-1] is mine and back[0] is mine and back[1][0] is mine


def test_names_and_classes_of_a_test() -> None:
    text = read_test(
        "try:\n    m.go(Shape(1))\nexcept odd as e:\n    assert isinstance(e, low) and len(e.x)"
    )
    assert text.names == ("Shape", "low", "m", "odd")
    assert text.bound == {"e"}
    assert text.classes == ("Shape", "low", "odd")
    with pytest.raises(UserError, match="not Python"):
        read_test("assert (")


@pytest.mark.parametrize(
    "code, names",
    [
        ("f = memo(f)\nassert f(1) == 1", "f memo"),
        ("x = f(1)\nassert x == 1", "f"),
        ("try:\n    x = f(1)\nexcept E as e:\n    y = e\nassert x == y", "E f"),
        ("n += 1\nassert n == 2", "n"),
        ("for i in items:\n    assert g(i)\nassert [j for j in items if h(j)] == [i]", "g h items"),
        ("with lock as l:\n    assert l.ok", "lock"),
        ("def g(a):\n    return f(a) + b\nassert g(1) == 2", "b f"),
        ("def f(a):\n    return a\nassert f(1) == 1", ""),
        ("@wrap\ndef f(a):\n    return a\nassert f(1) == 1", "wrap"),
        ("import math as m\nfrom solution import go\nassert m.pi < go()", ""),
        ("def t():\n    global ok\n    ok = f(1)\nt()\nassert ok", "f"),
        ("assert sorted(map(lambda q: q + k, [1])) == [len('a')]", "k"),
        ("class T(Base):\n    def go(self):\n        return self.x + y\nassert T().go()", "Base y"),
    ],
)
def test_names_that_are_the_program_s(code: str, names: str) -> None:
    assert read_test(code).names == tuple(names.split())


def test_a_flood_is_a_flood_also_when_the_verifier_lived_to_tell() -> None:
    said = "the program ended before it answered"
    messages = [("failed", 0, "NO_RESULT", said, None, 0.003), ("done",)]
    outcome = Outcome(ended="output", messages=messages, candidate_signal=9)
    job, limits = job_of("def f(x): ...", "assert f(1) == 1"), Limits()
    verdict = judge(job, limits, outcome, IsolationReport(Level.NAMESPACED, "as seen"))
    assert verdict.status is Status.OUTPUT_LIMIT and verdict.reward == 0.0
    assert verdict.message == "printed more than 64 KiB"
