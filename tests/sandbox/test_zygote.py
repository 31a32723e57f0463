"""Zygotes: commands and calls, what they carry, what happens when one dies."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, TestSpec
from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault
from rlkit.sandbox.backends.local import Kind, LocalBackend
from rlkit.sandbox.codec import decode
from rlkit.sandbox.judge import prepare

LIMITS = Limits(wall_s=10.0)
FREE = Limits(wall_s=10.0, processes=16)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def backend():
    made = LocalBackend(workers=2)
    yield made
    made.close()


def shell(backend, script: str, limits: Limits = FREE, **options):
    return backend.execute(Command(("/bin/sh", "-c", script), **options), limits, never)


def values(backend, source: str, *args, limits: Limits = LIMITS, flavour: str = "base") -> list:
    """What `f` of a program returned for each test, or the message about it."""
    tests = [TestSpec(str(n), args=a) for n, a in enumerate(args or ((),))]
    job = Job(source=source, entry="f", tests=tests, preload=flavour)
    outcome = backend.call(prepare(job, limits), limits, never)
    assert outcome.messages, outcome
    return [decode(m[2]) if m[0] == "value" else m for m in outcome.messages[:-1]]


# ---------------------------------------------------------------- commands


def test_a_command_has_its_own_folder_and_environment(backend):
    outcome = shell(backend, "pwd; ls -A; env | sort; ulimit -c", environment={"GREETING": "hi"})
    folder, *lines = outcome.stdout.decode().splitlines()
    assert lines == [
        "GREETING=hi", f"HOME={folder}", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin",
        f"PWD={folder}", f"TMPDIR={folder}", "0",
    ]  # fmt: skip
    assert (outcome.ended, outcome.exit_code, outcome.signal) == ("exit", 0, None)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 5_000_000])
def test_stdin_of_any_length_arrives_whole(backend, size):
    data = os.urandom(size)
    outcome = backend.execute(Command(("/usr/bin/sha256sum",), stdin=data), LIMITS, never)
    assert outcome.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_files_go_in_and_come_back(backend):
    files = {
        "in/data": b"\0\xff" * 1000,
        "run.sh": b"#!/bin/sh\nrev < in/text > out; cp out in/o2\n",
    }
    files["in/text"] = b"abc\n"
    keep = ("out", "in/o2", "in/data", "missing", "in")
    command = Command(("./run.sh",), files=files, keep=keep)
    outcome = backend.execute(command, FREE, never)
    assert outcome.exit_code == 0, outcome
    assert outcome.files == {"out": b"cba\n", "in/o2": b"cba\n", "in/data": b"\0\xff" * 1000}


def test_a_file_of_several_megabytes_comes_back(backend):
    script = "head -c 6000000 /dev/zero | tr '\\0' x > big"
    outcome = shell(backend, script, keep=("big",))
    assert outcome.files["big"] == b"x" * 6_000_000


def test_a_link_is_not_followed_when_a_file_is_read_back(backend):
    script = "ln -s /etc/hostname a; mkdir d; ln -s d e; echo x > d/f; ln -s /usr/lib b; mkfifo c"
    keep = ("a", "e/f", "b/os-release", "c", "d/f")
    assert shell(backend, script, keep=keep).files == {"d/f": b"x\n"}


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a\0b", "./x"])
def test_a_name_that_leads_elsewhere_is_refused(backend, name):
    with pytest.raises(ValueError, match="scratch folder"):
        backend.execute(Command(("/bin/true",), files={name: b""}), LIMITS, never)
    with pytest.raises(ValueError, match="scratch folder"):
        backend.execute(Command(("/bin/true",), keep=(name,)), LIMITS, never)


def test_a_program_that_is_not_there_is_a_fault_of_ours(backend):
    with pytest.raises(InfrastructureFault, match="No such file"):
        backend.execute(Command(("/nowhere/program",)), LIMITS, never)
    assert shell(backend, "echo on").stdout == b"on\n"


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 7", 7, None), ("kill -11 $$", None, 11)]
)
def test_how_a_command_ended(backend, script, code, number):
    outcome = shell(backend, script)
    assert (outcome.exit_code, outcome.signal) == (code, number)


def test_signals_that_python_ignores_are_not_ignored_by_programs(backend):
    assert shell(backend, "kill -13 $$; echo alive").signal == 13


def test_one_program_may_run_without_any_right_to_start_more(backend):
    assert shell(backend, "echo one", LIMITS).stdout == b"one\n"
    assert b"one" not in shell(backend, "/bin/echo one; true", LIMITS).stdout
    assert shell(backend, "/bin/echo one; true", FREE).stdout == b"one\n"


def test_what_a_command_leaves_running_is_counted_and_gone(backend, tagged):
    outcome = shell(backend, "sleep 300 & (setsid sleep 300 &) ; echo started")
    assert outcome.stdout == b"started\n"
    assert outcome.orphans == 2
    assert tagged(os.getpid()) == []


def test_the_wall_clock_stops_a_command(backend):
    started = time.monotonic()
    outcome = shell(backend, "echo before; sleep 60", Limits(wall_s=0.3, processes=4))
    assert (outcome.ended, outcome.stopped_by) == ("wall", "wall clock")
    assert outcome.stdout == b"before\n"
    assert 0.3 <= outcome.wall_s < 5.0
    assert time.monotonic() - started < 10.0


def test_the_output_limit_stops_a_command(backend):
    outcome = shell(backend, "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaa; done", LIMITS)
    assert (outcome.ended, outcome.truncated) == ("output", True)
    assert len(outcome.stdout) == 64 * 1024


def test_memory_that_is_only_reserved_does_not_count_where_data_counts(backend):
    limits = Limits(memory_mb=128, wall_s=20.0, cpu_s=10.0)
    reserve = "import mmap; m = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)"
    argv = (sys.executable, "-I", "-S", "-c", f"{reserve}; print('reserved')")
    python = os.path.realpath(sys.executable)
    outcome = backend.execute(Command((python, *argv[1:]), memory="data"), limits, never)
    if outcome.exit_code == 0:
        assert outcome.stdout == b"reserved\n"
    outcome = backend.execute(Command((python, *argv[1:]), memory="address"), limits, never)
    assert outcome.exit_code != 0


def test_resident_memory_is_watched_where_the_kernel_does_not_count_it(backend):
    """Shared anonymous memory is in no limit of the kernel but in the address space."""
    source = (
        "import mmap, time\n"
        "m = mmap.mmap(-1, 600 << 20)\n"
        "for at in range(0, 600 << 20, 4096): m[at] = 1\n"
        "time.sleep(20)\n"
    )
    python = os.path.realpath(sys.executable)
    command = Command((python, "-I", "-S", "-c", source), memory="data")
    outcome = backend.execute(command, Limits(memory_mb=200, wall_s=15.0, cpu_s=10.0), never)
    assert (outcome.ended, outcome.stopped_by) == ("memory", "memory poll")
    assert outcome.peak_rss_mb > 200.0


# ---------------------------------------------------------------- calls


def test_a_thousand_jobs_in_one_zygote_do_not_see_each_other(backend):
    source = "import os, sys\ndef f():\n    seen = getattr(sys, 'mark', None), os.listdir('.')\n"
    source += "    sys.mark = 1; open('mark', 'w').close()\n    return seen"
    for _ in range(20):
        assert values(backend, source) == [(None, [])]


def test_nothing_of_an_earlier_job_is_in_the_memory_of_a_later_one():
    """Requests and answers go through the zygote, but never into memory that is inherited."""
    secret = "rlkit-secret-" + os.urandom(12).hex()
    twin = secret.replace("secret", "answer")
    give = f"SECRET = {secret!r}\ndef f(x):\n    print(SECRET)\n"
    give += "    return SECRET.replace('secret', 'answer')"
    look = """
def f(forms):
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in rights or end - start > 1 << 28: continue
            try:
                mem.seek(start)
                data = mem.read(end - start)
            except (OSError, ValueError, OverflowError): continue
            for form in forms:
                if bytes(form[::-1], "ascii") in data: found.add(form)
    return sorted(found)
"""
    wide = Limits(wall_s=30.0, cpu_s=20.0, memory_mb=1024)
    # Without fences, so that a job can look everywhere; in one zygote.
    backend = LocalBackend(workers=1, layers=())
    try:
        for _ in range(5):
            values(backend, give, (secret,), limits=wide)
        # Written backwards, so that the search does not find what it searches for.
        assert values(backend, look, ([secret[::-1], twin[::-1]],), limits=wide) == [[]]
        mine = "rlkit-mine-" + os.urandom(12).hex()
        keep = look.replace("found = set()", f"found = set(); mine = {mine!r} + ''")
        assert values(backend, keep, ([mine[::-1]],), limits=wide) == [[mine[::-1]]]
    finally:
        backend.close()


def test_a_thousand_tests_in_one_job(backend):
    answers = values(backend, "def f(n): return n * n", *((n,) for n in range(1000)))
    assert answers == [n * n for n in range(1000)]


def test_deep_recursion_is_an_exception_and_no_crash(backend):
    endless = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n=0): return f(n + 1)"
    (message,) = values(backend, endless)
    assert message[0] == "error" and "RecursionError" in message[3]
    deep = "import sys\nsys.setrecursionlimit(10**6)\n"
    deep += "def f(n): return 0 if n == 0 else 1 + f(n - 1)"
    assert values(backend, deep, (10_000,)) == [10_000]


def test_random_numbers_follow_the_seed_and_nothing_else(backend):
    source = "import random\ndef f(): return random.random(), list({'a', 'b', 'c', 'd'})"
    job = Job(source=source, entry="f", tests=[TestSpec("t")], seed=5)
    seen = {
        backend.call(prepare(job, LIMITS), LIMITS, never).messages[0][2] for _ in range(6)
    }  # fmt: skip
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("flavour", "source", "expected"),
    [
        ("numpy", "import numpy as np\ndef f(): return (np.arange(4) ** 2).tolist()", [0, 1, 4, 9]),
        ("numpy", "from numpy.polynomial import Chebyshev as C\ndef f(): return C([1, 2]).degree()",
         1),
        ("sympy", "import sympy\ndef f(): return str(sympy.simplify('sin(x)**2+cos(x)**2'))", "1"),
        ("sympy", "import sympy.tensor.array\ndef f(): return sympy.tensor.array.Array([1]).rank()",
         1),
    ],
)  # fmt: skip
def test_flavours_have_their_library_loaded_and_can_load_the_rest(
    backend, flavour, source, expected
):
    pytest.importorskip(flavour)
    assert values(backend, source, flavour=flavour) == [expected]


def test_a_flavour_shows_its_own_library_only(backend):
    pytest.importorskip("numpy")
    source = "def f(name):\n    try: __import__(name)\n"
    source += "    except ImportError as error: return type(error).__name__"
    names = [("pytest",), ("rlkit",), ("hypothesis",)]
    assert values(backend, source, *names, flavour="numpy") == ["ModuleNotFoundError"] * 3
    with pytest.raises(UserError, match="flavour"):
        backend.call(Call("func", {}, "magic"), LIMITS, never)


# ---------------------------------------------------------------- the pool


def test_a_killed_zygote_takes_its_job_with_it_and_is_replaced():
    backend = LocalBackend(workers=1)
    try:
        assert values(backend, "def f(): return 1") == [1]
        faults = []

        def work() -> None:
            try:
                values(backend, "import time\ntime.sleep(60)\ndef f(): return 1")
            except InfrastructureFault as fault:
                faults.append(str(fault))

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.3)
        (pid,) = backend.pids()
        os.kill(pid, 9)
        thread.join(30)
        assert len(faults) == 1 and "zygote" in faults[0]
        assert values(backend, "def f(): return 2") == [2]
        assert backend.pids() != [pid]
    finally:
        backend.close()


def test_a_zygote_that_died_while_idle_is_replaced_unseen(assert_soon):
    backend = LocalBackend(workers=1)
    try:
        values(backend, "def f(): return 1")
        (link,) = backend._links
        os.kill(link.pid, 9)
        assert_soon(lambda: not link.alive())
        assert values(backend, "def f(): return 2") == [2]
    finally:
        backend.close()


def test_a_cancelled_job_ends_at_once(backend):
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    started = time.monotonic()
    job = Job(source="while True: pass", entry="f", tests=[TestSpec("t")])
    limits = Limits(wall_s=60.0, cpu_s=60.0)
    assert backend.call(prepare(job, limits), limits, cancelled.is_set).ended == "cancelled"
    assert time.monotonic() - started < 20.0


def test_many_threads_share_few_zygotes(backend):
    wrong = []

    def work(number: int) -> None:
        for n in range(10):
            if values(backend, f"def f(): return {number * 100 + n}") != [number * 100 + n]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(backend.pids()) <= 2 + 4 + 1


def test_a_worn_zygote_is_replaced(monkeypatch):
    monkeypatch.setattr("rlkit.sandbox.backends.local.RECYCLE_AFTER", 3)
    backend = LocalBackend(workers=1)
    try:
        seen = set()
        for _ in range(7):
            values(backend, "def f(): return 1")
            seen.update(backend.pids())
        # Three jobs, three jobs, one: when a worn one is asked after its last job it is gone.
        assert len(seen) == 3
    finally:
        backend.close()


def test_after_close_nothing_is_left_and_nothing_runs():
    backend = LocalBackend(workers=2)
    values(backend, "def f(): return 1")
    pids = backend.pids()
    backend.close()
    backend.close()
    assert backend.pids() == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_kinds_tell_zygotes_apart(backend):
    assert backend._kind("base", "", Limits()) == Kind()
    assert backend._kind("base", "", Limits(processes=1)).programs
    assert backend._kind("base", "", Limits(network=True)).network
    # The tmpfs is larger than the limit, so that passing it is seen: 2^7 > 64, 2^4 > 8.
    assert [backend._kind("base", "", Limits(scratch_mb=n)).box_mb for n in (64, 8, 7)] == [
        128,
        16,
        8,
    ]
