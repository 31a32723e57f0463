"""io mode on the real thing: programs run in the sandbox, output compared on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import IsolationReport, Job, Level, Limits, Status, TestSpec, Verdict, languages
from rlkit.sandbox.artefacts import Artefacts
from rlkit.sandbox.backends.base import Backend, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.local import LocalBackend
from rlkit.sandbox.io_mode import run

LIMITS = Limits(wall_s=5.0, cpu_s=2.0, memory_mb=256)
REPORT = IsolationReport(Level.NAMESPACED, "as seen")
ADD = "a, b = map(int, input().split())\nprint(a + b)\n"
SUMS = [
    TestSpec("small", stdin="3 4\n", expected="7\n"),
    TestSpec("negative", stdin=b"-3 2", expected="-1"),
]


class Counted:
    """The real backend, and what was asked of it."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.commands: list[Command] = []
        self.fails = False

    def execute(self, command: Command, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        self.commands.append(command)
        if self.fails:
            raise InfrastructureFault("the zygote died")
        return self.backend.execute(command, limits, cancelled)


@pytest.fixture(scope="module")
def local() -> Iterator[Backend]:
    backend = LocalBackend(workers=1)
    yield backend
    backend.close()


@pytest.fixture
def counted(local) -> Counted:
    return Counted(local)


@pytest.fixture
def judged(counted, tmp_path) -> Callable[..., Verdict]:
    """Runs an io job; Python, the two sums, and the limits above unless it says otherwise."""
    store = Artefacts(tmp_path / "artefacts")

    def run_it(source: str = ADD, tests=SUMS, language: str = "python", **more) -> Verdict:
        job = Job(language, source, tests, mode="io", **more)
        return run(job, LIMITS, counted, store, lambda: False, REPORT)

    return run_it


def test_a_program_that_adds(judged, counted):
    verdict = judged()
    assert (verdict.status, verdict.reward, verdict.message) == (Status.PASS, 1.0, "")
    assert [t.name for t in verdict.tests] == ["small", "negative"]
    assert verdict.tests[0].seconds > 0
    assert verdict.stdout == "-1\n"
    assert verdict.compile is None and verdict.isolation is REPORT
    assert len(counted.commands) == 2  # a process for each test


def test_what_is_expected_never_goes_in(judged, counted):
    judged(tests=[TestSpec("t", stdin="1 2", expected="SECRET", expected_files={"f": "SECRET"})])
    assert b"SECRET" not in repr(counted.commands[0]).encode()


@pytest.mark.parametrize(
    ("source", "status", "says"),
    [
        ("print(8)", Status.FAIL, "line 1 is '8', expected '7'"),
        ("import os\nos._exit(0)", Status.FAIL, "ends after 0 lines"),
        (ADD + "raise SystemExit(3)", Status.RUNTIME_ERROR, "exit code 3"),
        (ADD + "import os\nos.abort()", Status.CRASH, "SIGABRT"),
        ("print(1/0)", Status.RUNTIME_ERROR, "exit code 1: ZeroDivisionError: division by zero"),
        ("print(7", Status.COMPILE_ERROR, "is not a Python program: SyntaxError"),
        ("print('\ud800')", Status.COMPILE_ERROR, "holds half a character at character 7"),
        ("raise SyntaxError('no')", Status.RUNTIME_ERROR, "SyntaxError: no"),
        ("b = []\nwhile 1: b.append(bytearray(1 << 22))", Status.MEMORY_LIMIT, "256 MiB"),
        ("while 1: print('x' * 9999)", Status.OUTPUT_LIMIT, "more than 64 KiB"),
        ("import sys\nsys.stdout.buffer.write(b'\\xff7')", Status.FAIL, "'\ufffd7'"),
    ],
)
def test_what_is_no_pass(judged, source, status, says):
    verdict = judged(source, tests=SUMS[:1])
    assert verdict.status is status, verdict.summary
    assert says in verdict.summary
    assert verdict.reward == 0.0


def test_a_program_with_a_nul_in_it_is_no_way_to_pass(judged):
    verdict = judged("x = 1\0" + ADD)
    assert verdict.passed == 0  # Python refuses it from 3.11.4 on, and stopped reading before


def test_a_byte_order_mark_is_taken_off(judged):
    assert judged("\ufeff" + ADD).status is Status.PASS


def test_half_a_character_can_be_printed(judged):
    tests = [TestSpec("t", expected="\\ud800 ok")]
    assert judged("print('\\ud800 ok')", tests=tests).status is Status.PASS


def test_arguments_files_and_what_it_writes(judged):
    source = """
import sys, helper, os
os.makedirs("out", exist_ok=True)
with open("data/in.txt") as file, open("out/res.txt", "w") as out:
    out.write(helper.twice(file.read().strip()) + " " + " ".join(sys.argv[1:]))
"""
    verdict = judged(
        source,
        tests=[TestSpec("t", argv=("-n", "a b"), expected_files={"out/res.txt": "xx all -n a b"})],
        files={"data/in.txt": "x\n", "helper.py": "def twice(t): return t + t\n"},
        args=("all",),
    )
    assert verdict.status is Status.PASS, verdict.summary


def test_a_file_that_is_a_link_is_not_read(judged):
    source = "import os\nos.symlink('/etc/hostname', 'res.txt')\nos.mkdir('dir')"
    tests = [TestSpec("t", expected_files={"res.txt": "x", "dir": "y"})]
    verdict = judged(source, tests=tests)
    assert verdict.tests[0].message == "the file res.txt was not written"


def test_no_test_sees_what_another_left(judged):
    source = """
import os
print(sorted(os.listdir(".")))
open("left", "w").write("x")
"""
    tests = [TestSpec("t", expected="['main.py']"), TestSpec("u", expected="['main.py']")]
    assert judged(source, tests=tests).status is Status.PASS


def test_a_file_may_not_replace_the_program(judged, counted):
    verdict = judged(files={"main.py": "print(7)"})
    assert verdict.status is Status.REJECTED and verdict.reward == 0.0
    assert "main.py would replace the program itself" in verdict.message
    assert counted.commands == []


def test_stop_on_first(judged, counted):
    tests = [SUMS[0], TestSpec("wrong", stdin="1 1", expected="3"), SUMS[1], SUMS[0]]
    verdict = judged(tests=tests, stop_on_first=True)
    assert [t.status for t in verdict.tests] == [Status.PASS, Status.FAIL] + [Status.NO_RESULT] * 2
    assert verdict.tests[2].message == "not reached: an earlier test did not pass"
    assert (verdict.passed, verdict.total, verdict.reward) == (1, 4, 0.25)
    assert len(counted.commands) == 2
    assert judged(tests=tests).passed == 3  # without it all are tried


def test_three_timeouts_in_a_row_are_enough(judged, counted):
    source = "import sys, time\ntime.sleep(60 if input() == 'wait' else 0)\nprint(7)"
    wait, go = TestSpec("w", stdin="wait", expected="7"), TestSpec("g", stdin="go", expected="7")
    limits = Limits(wall_s=0.3)
    verdict = judged(source, tests=[wait, go, wait, wait, wait, go, go], limits=limits)
    assert [str(t.status) for t in verdict.tests] == [
        *("TIMEOUT", "PASS", "TIMEOUT", "TIMEOUT", "TIMEOUT", "NO_RESULT", "NO_RESULT"),
    ]
    assert verdict.tests[-1].message == "not reached: 3 tests in a row ran into the wall clock"
    assert len(counted.commands) == 5


def test_hidden_tests_are_drawn_and_give_nothing_away(judged, counted):
    tests = [SUMS[0]] + [
        TestSpec(f"h{i}", stdin=f"{i} 1000", expected=f"{i + 1000}", hidden=True) for i in range(20)
    ]
    verdict = judged("print(7)", tests=tests, draw=4, seed=5)
    assert (verdict.passed, verdict.total) == (1, 5)
    assert len(counted.commands) == 5
    hidden = [t for t in verdict.tests if t.hidden]
    assert {t.message for t in hidden} == {"a hidden test ended in FAIL"}
    assert all(t.expected_repr is None and t.got_repr is None for t in hidden)
    assert "100" not in verdict.summary + verdict.stdout + repr(verdict.tests)
    again = judged("print(7)", tests=tests, draw=4, seed=5)
    assert [t.name for t in again.tests] == [t.name for t in verdict.tests]
    other = judged("print(7)", tests=tests, draw=4, seed=6)
    assert [t.name for t in other.tests] != [t.name for t in verdict.tests]


def sorted_pair(expected: object, got: str) -> bool | str:
    words = got.split()
    return True if words == sorted(words) else f"{words} is not in order"


def broken(expected: object, got: str) -> bool:
    raise ZeroDivisionError


def test_a_checker_of_the_host(judged):
    tests = [TestSpec("t", checker=sorted_pair)]
    assert judged("print('a b')", tests=tests).status is Status.PASS
    assert "is not in order" in judged("print('b a')", tests=tests).summary
    verdict = judged("print('b a')", tests=[TestSpec("t", checker=broken)])
    assert verdict.status is Status.SANDBOX_ERROR and verdict.reward is None
    assert "the checker broken raised ZeroDivisionError" in verdict.message


def test_cancelling_is_no_verdict(local, counted, tmp_path):
    job = Job("python", "while 1: pass", SUMS, mode="io")
    verdict = run(job, LIMITS, counted, None, lambda: bool(counted.commands), REPORT)
    assert verdict.status is Status.SANDBOX_ERROR and verdict.reward is None
    assert len(counted.commands) == 1


def test_a_fault_of_the_sandbox_goes_on_to_the_front(judged, counted):
    counted.fails = True
    with pytest.raises(InfrastructureFault):
        judged()


@pytest.mark.parametrize("preload", ["numpy", "sympy"])
def test_libraries_only_where_asked_for(judged, preload):
    if sys.prefix.startswith(("/tmp/", "/dev/shm/")):
        pytest.skip("this Python's libraries lie in /tmp, and a job has a /tmp of its own")
    pytest.importorskip(preload)
    source, tests = f"import {preload}\nprint(7)", [TestSpec("t", expected="7")]
    assert judged(source, tests=tests).status is Status.RUNTIME_ERROR
    limits = Limits(wall_s=20.0, cpu_s=10.0, memory_mb=1024)
    verdict = judged(source, tests=tests, preload=preload, limits=limits)
    assert verdict.status is Status.PASS, verdict.summary


def need(name: str) -> None:
    found = languages.detect(name)
    if isinstance(found, languages.row.LanguageMissing):
        pytest.skip(found.sentence)


C_ADD = '#include <stdio.h>\nint main(){long a,b;scanf("%ld %ld",&a,&b);printf("%ld",a+b);}\n'


def test_a_program_is_compiled_once(judged, counted):
    need("c")
    verdict = judged(C_ADD, language="c")
    assert verdict.status is Status.PASS, verdict.summary
    assert verdict.compile.status is Status.PASS and not verdict.compile.cached
    assert verdict.compile.compiler.startswith(("gcc", "clang"))
    assert len(counted.commands) == 3  # the compiler, and two tests
    again = judged(C_ADD, language="c")
    assert again.status is Status.PASS and again.compile.cached
    assert len(counted.commands) == 5  # two tests more, and no compiler


def test_what_does_not_compile(judged, counted):
    need("c")
    source = "int main() { return x; }"
    verdict = judged(source, language="c")
    assert verdict.status is Status.COMPILE_ERROR and verdict.reward == 0.0
    assert "does not compile" in verdict.message and "‘x’ undeclared" in verdict.message
    assert "main.c:1:" in verdict.compile.stderr
    # Nothing has run here yet, so an honest program was compiled and run twice before the
    # refusal was believed: 1 + 1 + 2
    assert len(counted.commands) == 4
    assert judged(source, language="c").compile.cached
    assert judged(source + "y", language="c").status is Status.COMPILE_ERROR
    assert len(counted.commands) == 5


def test_a_toolchain_that_does_not_work_inside_is_not_the_programs_fault(
    judged, counted, monkeypatch
):
    need("c")
    found = languages.require("c")
    lame = replace(found, tools={"compiler": "/bin/false"}, identity="lame")
    monkeypatch.setattr(languages, "require", lambda name: lame)
    for _ in range(2):
        with pytest.raises(UserError, match=r"C does not work inside this sandbox; .*adds two"):
            judged(C_ADD, language="c")
    assert len(counted.commands) == 4  # and no refusal was kept
    monkeypatch.setattr(languages, "require", lambda name: found)
    assert judged(C_ADD, language="c").status is Status.PASS


def test_a_program_that_fails_first_is_only_believed_where_its_language_works(judged, counted):
    assert judged("1/0", tests=SUMS[:1]).status is Status.RUNTIME_ERROR
    assert len(counted.commands) == 3  # its own test, and two of the honest program
    assert judged("1/0", tests=SUMS[:1]).status is Status.RUNTIME_ERROR
    assert len(counted.commands) == 4


def test_a_compiler_that_is_stopped_says_so_and_is_asked_again(judged, counted):
    need("c")
    source = C_ADD + "char filler[1 << 23] = {1};\n"  # 8 MiB in the program, and 2 allowed
    limits = Limits(10.0, 8.0, 1024, processes=8, files_mb=2)
    for _ in range(2):
        verdict = judged(source, language="c", compile_limits=limits)
        assert verdict.status in (Status.OUTPUT_LIMIT, Status.MEMORY_LIMIT, Status.CPU_LIMIT)
        assert verdict.message.startswith("while it was compiled")
    assert len(counted.commands) == 2


def test_files_of_the_job_are_there_for_the_compiler(judged):
    need("c")
    source = '#include <stdio.h>\n#include "seven.h"\nint main(){printf("%d", SEVEN);}\n'
    tests = [TestSpec("t", expected="7")]
    assert judged(source, tests, "c").status is Status.COMPILE_ERROR
    verdict = judged(source, tests, "c", files={"seven.h": "#define SEVEN 7\n"})
    assert verdict.status is Status.PASS, verdict.summary
    other = judged(source, tests, "c", files={"seven.h": "#define SEVEN 8\n"})
    assert other.status is Status.FAIL  # the header is part of the key


def test_limits_that_nobody_chose_are_raised_to_what_the_language_needs():
    javascript, bash = languages.get("javascript"), languages.get("bash")
    assert javascript.fit(Limits(memory_mb=256), chosen=False).memory_mb == 512
    assert javascript.fit(Limits(memory_mb=256), chosen=True).memory_mb == 256
    assert bash.fit(Limits(), chosen=True).processes == 16
    assert bash.fit(Limits(processes=40), chosen=True).processes == 40


def test_libraries_below_tmp_are_refused_in_words_and_no_program_is_blamed(judged, monkeypatch):
    from rlkit.sandbox.languages import scripted

    monkeypatch.setattr(scripted, "_library_folders", lambda: ("/tmp/env/site-packages",))
    with pytest.raises(UserError, match="preload='numpy' needs the libraries in '/tmp/env"):
        judged("import numpy\nprint(7)", tests=[TestSpec("t", expected="7")], preload="numpy")
