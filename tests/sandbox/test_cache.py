"""The cache of results: what is kept, for how long, and what happens to a damaged file."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, Limits, Sandbox, Status, TestResult, TestSpec, Verdict
from rlkit.sandbox.cache import ResultCache, cache_file
from rlkit.sandbox.kept import LASTING, copy_of, lasting, pack, unpack
from rlkit.sandbox.toolchain import harness_version, toolchain
from rlkit.sandbox.verdict import CompileReport


def verdict(status: Status = Status.PASS, text: str = "", **fields) -> Verdict:
    reward = 1.0 if status is Status.PASS else 0.0
    results = (TestResult("t", status, 0.25, got_repr=text),)
    return Verdict(status, results, int(reward), 1, reward, **fields)


def key(n: int) -> bytes:
    return n.to_bytes(32, "big")


@pytest.fixture
def cache(tmp_path):
    with_file = ResultCache(tmp_path / "c.sqlite3")
    yield with_file
    with_file.close()


def add(n: int, **options) -> Job:
    test = TestSpec("t", args=(1,), expected=n + 1)
    return Job(source=f"def f(x): return x + {n}", entry="f", tests=[test], **options)


def test_it_lies_where_rlkit_keeps_its_things(monkeypatch, tmp_path):
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "home"))
    assert cache_file() == tmp_path / "home" / "sandbox" / "results.sqlite3"
    ResultCache().close()
    assert cache_file().is_file()
    assert os.stat(cache_file().parent).st_mode & 0o077 == 0


def test_a_verdict_comes_back_as_it_was(cache):
    kept = verdict(
        Status.FAIL,
        "Ü\x00\ud800<b>",
        stdout="out",
        stderr="err",
        truncated=True,
        exit_code=3,
        cpu_s=0.1,
        wall_s=0.2,
        peak_rss_mb=9.5,
        trust="weak",
        message="m",
        suspicion=("ends the process",),
        compile=CompileReport(Status.PASS, "gcc 12", 0.5, stderr="warning"),
        stopped_by="seccomp",
        orphans_killed=2,
    )
    cache.put(key(1), kept)
    cache.close()
    known = ResultCache(cache.path).get([key(1), key(2)])
    assert list(known) == [key(1)]
    assert known[key(1)].verdict == kept
    copied = copy_of(known[key(1)].verdict, request_id="r")
    assert (copied.cached, copied.request_id, copied.compile.cached) == (True, "r", True)
    assert replace(copied, cached=False, request_id="", compile=kept.compile) == kept


def test_what_belongs_to_one_run_is_not_kept():
    of_a_run = verdict(queue_s=1.0, request_id="r", cached=True, flaky=True)
    assert unpack(pack(of_a_run)) == verdict()


@given(st.text(), st.sampled_from(sorted(Status)), st.floats(allow_nan=False))
def test_packing_loses_nothing(text, status, seconds):
    kept = verdict(status, text, stdout=text, wall_s=seconds)
    assert unpack(pack(kept)) == kept


@pytest.mark.parametrize("status", list(Status))
def test_only_what_must_come_again_lasts(status):
    steady = {"PASS", "FAIL", "COMPILE_ERROR", "RUNTIME_ERROR", "BAD_VALUE"}
    assert (status in LASTING) == (status.value in steady)
    assert lasting(verdict(status)) == (status.value in steady)
    # One test that ran into a limit spoils the job, whatever the job itself is called.
    mixed = replace(verdict(Status.FAIL), tests=(TestResult("t", status),))
    assert lasting(mixed) == (status.value in steady)
    stops = status.value in steady or status is Status.NO_RESULT
    assert lasting(mixed, may_stop=True) == stops


def test_counts_are_of_all_processes(cache):
    cache.put(key(1), verdict())
    cache.get([key(1), key(1), key(2)])
    assert (cache.hits, cache.misses, len(cache)) == (2, 1, 1)
    cache.close()
    again = ResultCache(cache.path)
    again.get([key(1)])
    found = again.stats()
    assert (found["hits"], found["misses"], found["entries"]) == (3, 1, 1)
    # 112 bytes of a row, and its text.
    assert found["mb"] == round((112 + len(pack(verdict()))) / 1e6, 3)
    again.clear()
    assert (len(again), again.stats()["hits"], again.stats()["mb"]) == (0, 0, 0.0)


def test_what_was_not_asked_for_the_longest_goes_first(tmp_path):
    big = verdict(stdout="x" * 10_000)
    size = len(pack(big)) + 112
    cache = ResultCache(tmp_path / "c.sqlite3", max_mb=10.5 * size / 1e6)
    for n in range(10):
        cache.put(key(n), big)
    assert len(cache) == 10
    cache.get([key(0)])  # just asked for: 1 is now the oldest
    cache.put(key(10), big)
    # 11 do not fit into 10.5; a tenth of the room is freed, so 9.45 are kept: 9.
    known = set(cache.get([key(n) for n in range(11)]))
    assert known == {key(n) for n in (0, 3, 4, 5, 6, 7, 8, 9, 10)}
    assert cache.stats()["evicted"] == 2
    assert cache.stats()["mb"] <= cache.max_mb
    cache.put(key(99), verdict(stdout="x" * 200_000))  # larger than all the room
    assert key(99) not in cache.get([key(99)])
    assert len(cache) == 9


def test_an_entry_that_is_written_twice_counts_once(cache):
    for _ in range(3):
        cache.put(key(1), verdict())
    assert cache.stats()["mb"] == round((112 + len(pack(verdict()))) / 1e6, 3)


def test_flakiness_once_seen_is_never_forgotten(cache):
    cache.put(key(1), verdict(), flaky="f(): test 't' ended in PASS, then in FAIL")
    cache.put(key(1), verdict(Status.FAIL))
    known = cache.get([key(1)])[key(1)]
    assert known.verdict.status is Status.FAIL
    assert known.flaky.startswith("f(): test 't'")
    assert cache.stats()["flaky"] == [known.flaky]


@pytest.mark.parametrize("damage", ["no database", "torn", "pages"])
def test_a_damaged_file_is_moved_aside_with_a_sentence(tmp_path, damage):
    path = tmp_path / "c.sqlite3"
    cache = ResultCache(path)
    for n in range(300):
        cache.put(key(n), verdict(stdout="x" * 500))
    cache.close()
    data = path.read_bytes()
    if damage == "no database":
        path.write_bytes(b"this is no database" * 1000)
    elif damage == "torn":
        path.write_bytes(data[: len(data) // 2 + 100])
    else:
        path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cache = ResultCache(path)
        cache.get([key(n) for n in range(300)])
        cache.put(key(1), verdict())
        assert cache.get([key(1)])[key(1)].verdict == verdict()
    told = [str(w.message) for w in seen if "moved to" in str(w.message)]
    assert len(told) == 1
    assert "programs run again" in told[0]
    aside = [p for p in tmp_path.iterdir() if ".damaged-" in p.name]
    assert aside
    cache.close()


def test_half_an_entry_is_no_result(cache):
    cache.put(key(1), verdict())
    cache._connection.execute("UPDATE results SET value = substr(value, 1, 40)")
    assert cache.get([key(1)]) == {}
    assert len(cache) == 0


def test_another_database_is_never_touched(tmp_path):
    path = tmp_path / "mine.sqlite3"
    with sqlite3.connect(path) as mine:
        mine.execute("CREATE TABLE precious (x)")
    mine.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match="no cache of the sandbox"):
        ResultCache(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["mine.sqlite3"]


def test_a_file_of_another_version_is_moved_aside(tmp_path):
    cache = ResultCache(tmp_path / "c.sqlite3")
    cache.put(key(1), verdict())
    cache._connection.execute("PRAGMA user_version = 999")
    cache.close()
    with pytest.warns(RuntimeWarning, match="another version"):
        again = ResultCache(cache.path)
    assert len(again) == 0


def test_a_disk_that_refuses_costs_only_speed(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path / "c.sqlite3")
    cache._connection.execute("PRAGMA max_page_count = 10")  # a disk that is soon full
    with pytest.warns(RuntimeWarning, match=r"could not be written .*full"):
        for n in range(40):
            cache.put(key(n), verdict(stdout="x" * 4000))
    assert cache.faults >= 1
    assert len(cache) < 40
    assert cache.get([key(0)])[key(0)].verdict.stdout == "x" * 4000


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="RLKIT_HOME"):
        ResultCache(tmp_path / "file" / "c.sqlite3")


@pytest.mark.parametrize("size", [0, -1, True, "many"])
def test_a_size_that_is_none(size):
    with pytest.raises(UserError, match="max_mb"):
        ResultCache(":memory:", max_mb=size)


def test_a_pickled_copy_opens_the_same_file(cache):
    cache.put(key(1), verdict())
    again = pickle.loads(pickle.dumps(cache))
    assert key(1) in again.get([key(1)])
    assert again.hits == 1


def test_threads_share_it(cache):
    wrong = []

    def work(start: int) -> None:
        for n in range(start, start + 60):
            cache.put(key(n), verdict(stdout=str(n)))
            for m in range(start, n + 1, 7):
                if cache.get([key(m)])[key(m)].verdict.stdout != str(m):
                    wrong.append(m)

    threads = [threading.Thread(target=work, args=(k * 60,)) for k in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (len(cache), cache.faults) == (300, 0)


def test_processes_share_it(tmp_path):
    path = tmp_path / "c.sqlite3"
    code = f"""
import sys
from rlkit.sandbox import ResultCache, Status, TestResult, Verdict
start = int(sys.argv[1])
cache = ResultCache({str(path)!r}, max_mb=0.2)
for n in range(start, start + 150):
    cache.put(n.to_bytes(32, "big"),
              Verdict(Status.PASS, (TestResult("t", Status.PASS),), 1, 1, 1.0, stdout="x" * 900))
    cache.get([m.to_bytes(32, "big") for m in range(max(0, n - 3), n + 3)])
cache.close()
print(cache.faults)
"""
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(k * 100)], stdout=subprocess.PIPE)
        for k in range(3)
    ]
    assert [p.communicate(timeout=120)[0].strip() for p in running] == [b"0"] * 3
    cache = ResultCache(path)
    found = cache.stats()
    assert 0 < found["mb"] <= 0.2
    sizes = cache._connection.execute("SELECT SUM(size), COUNT(*) FROM results").fetchone()
    assert (round(sizes[0] / 1e6, 3), sizes[1]) == (found["mb"], found["entries"])
    assert cache._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


# -- with the sandbox ------------------------------------------------------------------------


def test_a_sandbox_finds_what_an_earlier_one_learned(tmp_path, sandbox):
    path = tmp_path / "c.sqlite3"
    with Sandbox(sandbox.limits, workers=1, cache=path) as first:
        fresh = first.run(add(1))
        wrong = first.run(replace(add(1), tests=[TestSpec("t", args=(1,), expected=7)]))
        assert first.stats()["ran"] == 2
    with Sandbox(sandbox.limits, workers=1, cache=path, recheck=0.0) as second:
        again = second.run_many([add(1), add(1), add(2)])
        also_wrong = second.run(replace(add(1), tests=[TestSpec("t", args=(1,), expected=7)]))
        assert second.stats()["ran"] == 1
        assert second.stats()["hits"] == 2
    assert (fresh.cached, [v.cached for v in again]) == (False, [True, True, False])
    assert (again[0].status, again[0].cpu_s) == (fresh.status, fresh.cpu_s)
    assert again[0].isolation.level == fresh.isolation.level
    assert len({v.request_id for v in (fresh, *again)}) == 4
    assert also_wrong.cached
    assert also_wrong.summary == wrong.summary


def test_without_being_asked_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path))
    for cache in (None, False):
        with Sandbox(workers=1, cache=cache) as sandbox:
            sandbox.run(add(1))
            assert not sandbox.run(add(1)).cached
    assert list(tmp_path.iterdir()) == []
    with Sandbox(workers=1, cache=True, recheck=0.0) as sandbox:
        assert [sandbox.run(add(1)).cached for _ in range(2)] == [False, True]
        assert sandbox.stats()["cache"] == str(cache_file())


@pytest.mark.parametrize(
    "change",
    [
        {"source": "def f(x): return x + 1 "},
        {"tests": [TestSpec("t", args=(1,), expected=2, tolerance=0.1)]},
        {"limits": Limits(memory_mb=200)},
        {"seed": 1},
        {"stop_on_first": True},
    ],
)
def test_another_content_is_another_key(tmp_path, change):
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as sandbox:
        sandbox.run(add(1))
        assert not sandbox.run(replace(add(1), **change)).cached
        assert sandbox.run(add(1)).cached


def test_other_settings_are_another_key(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path / "c")

    def known(**settings) -> bool:
        with Sandbox(workers=1, cache=cache, recheck=0.0, **settings) as sandbox:
            return sandbox.run(add(1)).cached

    assert [known(), known()] == [False, True]
    assert not known(layers=("seccomp",), allow_unsafe=True)
    assert not known(limits=Limits(wall_s=3.0))
    monkeypatch.setattr("rlkit.sandbox.toolchain._harness", "another version of our code")
    assert [known(), known()] == [False, True]
    monkeypatch.setattr("rlkit.sandbox.toolchain._interpreter", lambda python: "python 9")
    assert not known()


def test_the_hash_of_our_code_moves_with_the_code(monkeypatch, tmp_path):
    monkeypatch.setattr("rlkit.sandbox.toolchain._harness", None)
    found = harness_version()
    assert len(found) == 16
    assert found == harness_version()
    copied = tmp_path / "sandbox"
    (copied / "zygote").mkdir(parents=True)
    (copied / "zygote" / "harness.py").write_text("a = 1")
    monkeypatch.setattr("rlkit.sandbox.toolchain.__file__", str(copied / "toolchain.py"))
    seen = set()
    for text in ("a = 1", "a = 2"):
        (copied / "zygote" / "harness.py").write_text(text)
        monkeypatch.setattr("rlkit.sandbox.toolchain._harness", None)
        seen.add(harness_version())
    assert len(seen) == 2


def test_use_refresh_and_off(tmp_path):
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as sandbox:
        assert not sandbox.run(add(1, cache="off")).cached
        assert not sandbox.run(add(1)).cached  # "off" left nothing
        assert sandbox.run(add(1)).cached
        assert not sandbox.run(add(1, cache="refresh")).cached
        assert sandbox.run(add(1)).cached
        # "off" also means that each one runs, equal or not.
        assert [v.cached for v in sandbox.run_many([add(1, cache="off")] * 3)] == [False] * 3


def test_what_a_limit_ended_is_run_again(tmp_path):
    slow = Job(
        source="def f():\n    while True: pass",
        entry="f",
        tests=[TestSpec("t")],
        limits=Limits(wall_s=0.2),
    )
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as sandbox:
        verdicts = [sandbox.run(slow) for _ in range(2)]
        assert sandbox.cache.stats()["entries"] == 0
    assert [(v.status, v.cached) for v in verdicts] == [(Status.TIMEOUT, False)] * 2


def test_a_users_own_checker_is_never_trusted_to_stay_the_same(tmp_path):
    job = Job(
        source="def f(): return 3",
        entry="f",
        tests=[TestSpec("t", expected=3, checker=_equal)],
    )
    with Sandbox(workers=1, cache=tmp_path / "c", recheck=0.0) as sandbox:
        for _ in range(2):
            assert not sandbox.run(job).cached


def _equal(expected: object, got: object) -> bool:
    return expected == got


@pytest.mark.parametrize("cache", [3, object()])
def test_a_cache_that_is_none(cache):
    with pytest.raises(UserError, match="cache="):
        Sandbox(cache=cache)


def test_a_toolchain_has_a_version():
    assert sys.version in toolchain("python")
    assert "no numpy" in toolchain("python", "numpy") or "numpy " in toolchain("python", "numpy")
    assert toolchain("python", python="/bin/sh") != toolchain("python")
    assert "sympy" in toolchain("math")
    assert toolchain("bash", mode="io") != toolchain("python", mode="io")
