from __future__ import annotations

import os
import threading
import time

import pytest

from rlkit.errors import UserError
from rlkit.sandbox.artefacts import Artefact, Artefacts, key_of
from rlkit.sandbox.verdict import CompileReport, Status


def made(data: bytes = b"program", status: Status = Status.PASS) -> Artefact:
    files = {"main": data} if status is Status.PASS else {}
    return Artefact(files, CompileReport(status, "cc 1", 0.5, False, "out", "err", "said"))


def never() -> Artefact:
    raise AssertionError("compiled again")


def test_what_was_compiled_once_is_found_by_the_next_process(tmp_path):
    first = Artefacts(tmp_path / "deep" / "store")
    assert first.get_or_make("a", made) == made()
    # a second object has nothing in memory, as another process would
    second = Artefacts(tmp_path / "deep" / "store")
    found = second.get_or_make("a", never)
    assert found.files == {"main": b"program"}
    assert found.report == CompileReport(Status.PASS, "cc 1", 0.5, True, "out", "err", "said")
    assert (second.hits, second.misses) == (1, 0)
    assert os.stat(tmp_path / "deep" / "store").st_mode & 0o77 == 0  # nobody else's


def test_a_refusal_is_kept_and_a_limit_is_not(tmp_path):
    refused = made(status=Status.COMPILE_ERROR)
    Artefacts(tmp_path).get_or_make("a", lambda: refused)
    assert Artefacts(tmp_path).get_or_make("a", never).report.status is Status.COMPILE_ERROR
    for status in (Status.TIMEOUT, Status.CPU_LIMIT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT):
        store = Artefacts(tmp_path)
        store.get_or_make(str(status), lambda status=status: made(status=status))
        again = store.get_or_make(str(status), made)
        assert again.report.status is Status.PASS and not again.report.cached


def test_a_fault_is_not_kept(tmp_path):
    store = Artefacts(tmp_path)

    def fails() -> Artefact:
        raise OSError("the sandbox failed")

    with pytest.raises(OSError, match="the sandbox failed"):
        store.get_or_make("a", fails)
    assert store.get_or_make("a", made).files == {"main": b"program"}


@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: b"", lambda d: d[:-1] + b"?"])
def test_a_spoilt_file_is_compiled_again(tmp_path, spoil):
    Artefacts(tmp_path).get_or_make("a", made)
    path = tmp_path / "a"
    path.write_bytes(spoil(path.read_bytes()))
    again = Artefacts(tmp_path).get_or_make("a", lambda: made(b"new"))
    assert again.files == {"main": b"new"}
    assert Artefacts(tmp_path).get_or_make("a", never).files == {"main": b"new"}


def test_the_least_recently_used_go_when_the_folder_is_full(tmp_path):
    store = Artefacts(tmp_path, max_mb=0.1)  # 100,000 bytes: nine programs of about 10,000
    for number in range(9):
        store.get_or_make(str(number), lambda: made(bytes(10_000)))
        os.utime(tmp_path / str(number), (1000 + number, 1000 + number))
    assert store.stats()["programs"] == 9
    fresh = Artefacts(tmp_path, max_mb=0.1)
    fresh.get_or_make("0", never)  # the oldest, used again
    fresh.get_or_make("9", lambda: made(bytes(10_000)))
    # 10 of them take a little more than 100,000; 80,000 are kept: 7 programs
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"0", "9", "4", "5", "6", "7", "8"}
    assert fresh.stats()["bytes"] <= 80_000


def test_too_large_a_program_runs_but_is_not_kept(tmp_path):
    store = Artefacts(tmp_path, max_mb=0.01)
    large = made(bytes(20_000))
    assert store.get_or_make("a", lambda: large) is large
    assert list(tmp_path.iterdir()) == []


def test_many_threads_compile_once(tmp_path):
    store, times = Artefacts(tmp_path), []

    def slow() -> Artefact:
        times.append(1)
        time.sleep(0.05)
        return made()

    threads = [threading.Thread(target=store.get_or_make, args=("a", slow)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == 1
    assert (store.hits, store.misses) == (7, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # and nothing half written


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Artefacts(tmp_path / "file" / "store")
    with pytest.warns(UserWarning, match="cannot be kept"):
        store.get_or_make("a", made)
    assert store.get_or_make("a", never).report.cached  # in memory it is
    assert store.get_or_make("b", made).files  # and no second warning


def test_clear_and_stats(tmp_path):
    store = Artefacts(tmp_path)
    for name in "abc":
        store.get_or_make(name, made)
    assert store.stats()["programs"] == 3 and store.stats()["misses"] == 3
    assert store.clear() == 3
    assert store.stats()["bytes"] == 0
    assert not store.get_or_make("a", made).report.cached
    with pytest.raises(UserError, match="a size in megabytes"):
        Artefacts(tmp_path, max_mb=0)


def test_every_part_of_a_compilation_is_in_its_key():
    parts = {
        "toolchain": "cc 1",
        "argv": ("cc", "-O2", "a.c"),
        "environment": {"A": "1"},
        "files": {"a.c": b"int x;"},
    }
    keys = {key_of(**parts)}
    for change in (
        {"toolchain": "cc 2"},
        {"argv": ("cc", "-O3", "a.c")},
        {"environment": {"A": "2"}},
        {"files": {"a.c": b"int y;"}},
        {"files": {"a.c": b"int x;", "a.h": b""}},
    ):
        keys.add(key_of(**{**parts, **change}))
    assert len(keys) == 6
    assert key_of(**parts) in keys
