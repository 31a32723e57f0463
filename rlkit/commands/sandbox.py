"""`rlkit sandbox`: run a program in the sandbox, look after its cache, see what it holds back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rlkit.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Run programs that nobody trusts, contained.")
cache_app = typer.Typer(no_args_is_help=True, help="What is known of programs that ran before.")
app.add_typer(cache_app, name="cache")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        help="local, bwrap, docker, kubernetes, fusion:URL, piston:URL, or the URL of a server.",
    ),
]

_LEVELS = "full, or weaker on purpose: a comma list such as userns,landlock:1,seccomp."


@app.callback()
def sandbox() -> None:
    """Run programs that nobody trusts, contained."""


@app.command()
def run(
    file: Annotated[str, typer.Argument(help="The program; - reads it from standard input.")],
    lang: Annotated[
        str | None, typer.Option("--lang", help="Its language.", show_default="by its ending")
    ] = None,
    stdin: Annotated[str | None, typer.Option(help="Text that the program reads.")] = None,
    stdin_file: Annotated[Path | None, typer.Option(help="The same, from a file.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option(help="Argument of the program; may be repeated.")
    ] = None,
    expect: Annotated[str | None, typer.Option(help="What it must print.")] = None,
    tests: Annotated[
        Path | None, typer.Option(help="A JSON file of tests: args and expected, or stdin, …")
    ] = None,
    entry: Annotated[str, typer.Option(help="The function that tests call.")] = "",
    mode: Annotated[
        str | None, typer.Option(help="io, func, proxy or inproc.", show_default="by the tests")
    ] = None,
    wall: Annotated[float | None, typer.Option(help="Seconds by the clock.")] = None,
    cpu: Annotated[float | None, typer.Option(help="Seconds of processor time.")] = None,
    memory: Annotated[int | None, typer.Option(help="Mebibytes.")] = None,
    backend: BackendName = "local",
    cache: Annotated[bool, typer.Option("--cache", help="Use results of earlier runs.")] = False,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Run it even where it cannot be kept apart.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Runs one program; exit code 0 when it passes (or just ran), 1 when it does not."""
    from rlkit.sandbox import Job, Sandbox, TestSpec
    from rlkit.sandbox.job_file import language_of, read_tests, verdict_json

    language = language_of(file, lang)
    given: dict[str, Any] = {"args": tuple(arg or ())}
    judged = tests is not None or expect is not None
    if tests is not None:
        if stdin is not None or stdin_file is not None or expect is not None:
            raise UserError("with --tests, what goes in and what must come out stands in the file")
        given.update(read_tests(tests))
        if entry:
            given["entry"] = entry
        if mode:
            given["mode"] = mode
    else:
        checks = {"expected": expect} if judged else {"checker": _anything}
        test = TestSpec("run", stdin=_input(stdin, stdin_file), **checks)
        given.update(mode="io", tests=[test])
    limits = _limits(given.pop("limits", None), language, wall, cpu, memory)
    job = Job(**{"language": language, "source": _source(file), "limits": limits, **given})
    with Sandbox(workers=1, backend=backend, cache=cache or None, allow_unsafe=allow_unsafe) as box:
        verdict = box.run(job)
    status = verdict.status.value if judged or verdict.reward != 1.0 else "RAN"
    if as_json:
        facts = {**verdict_json(verdict), "status": status}
        if not judged:
            facts["reward"] = None  # nobody said what would be right
        print(json.dumps(facts))
    else:
        _show(verdict, status)
    if status not in ("PASS", "RAN"):
        raise typer.Exit(1)


@app.command()
def doctor(
    backend: BackendName = "local",
    level: Annotated[str, typer.Option(help=_LEVELS)] = "full",
    as_json: Json = False,
) -> None:
    """What keeps a program apart from this machine, as seen by probes run inside the sandbox."""
    from rlkit.sandbox.doctor import doctor_command

    _end(doctor_command(backend, level, as_json))


@app.command()
def check(
    backend: BackendName = "local",
    level: Annotated[str, typer.Option(help=_LEVELS)] = "full",
    only: Annotated[list[str] | None, typer.Option(help="Name of a case; may be repeated.")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="hostile or cheat.", show_default="both")
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="May be repeated.", show_default="all")
    ] = None,
    peers: Annotated[
        bool, typer.Option(help="Also run the cheats against what others judge programs with.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Attacks the sandbox with every hostile program and every cheat that ships with it."""
    from rlkit.sandbox.corpus.command import check_command

    chosen = corpus or ["hostile", "cheat"]
    _end(check_command(backend, level, only or [], chosen, language or [], peers, as_json))


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(envvar="RLKIT_SANDBOX_TOKEN", help="What every request must carry."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Jobs at a time.", show_default="all processors")
    ] = None,
    queue: Annotated[int, typer.Option(help="Requests that may wait.")] = 64,
    grace: Annotated[
        float, typer.Option(help="Seconds that running jobs are given at the end.")
    ] = 10.0,
    allow_unsafe: Annotated[
        bool, typer.Option(help="Serve even where programs cannot be kept apart.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Runs programs for others, in this machine's sandbox; Ctrl-C ends it in good order."""
    from rlkit.sandbox.serve.command import serve_command

    serve_command(
        *(host, port, token, workers, queue, grace, allow_unsafe, as_json),
    )


@cache_app.command()
def stats(
    path: Annotated[
        Path | None, typer.Option(help="The cache's file.", show_default="this user's")
    ] = None,
    as_json: Json = False,
) -> None:
    """How much is known, how often it was of use, and which tests were seen to be flaky."""
    with _opened(path) as cache:
        found = {"path": str(path or _default()), "entries": 0} if cache is None else cache.stats()
    if as_json:
        print(json.dumps(found))
        return
    if not found["entries"]:
        print(f"{found['path']}: nothing is kept there")
        return
    print(
        f"{found['path']}: {found['entries']:,} results, {found['mb']:g} of {found['max_mb']:g} MB"
    )
    print(f"found {found['hits']:,} times, not found {found['misses']:,} times")
    for line in found["flaky"]:
        print(f"flaky: {_plain(line)}")


@cache_app.command()
def clear(
    path: Annotated[
        Path | None, typer.Option(help="The cache's file.", show_default="this user's")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forgets every result; programs run again."""
    with _opened(path) as cache:
        gone = 0 if cache is None else len(cache)
        if cache is not None:
            cache.clear()
    if as_json:
        print(json.dumps({"path": str(path or _default()), "removed": gone}))
    else:
        print(f"{path or _default()}: {gone:,} results removed")


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)


def _anything(expected: object, got: object) -> bool:
    """The checker of a run that nobody judges."""
    return True


def _opened(path: Path | None) -> Any:
    """The cache, open for a `with`; None when there is no file, and none is made."""
    from contextlib import closing, nullcontext

    from rlkit.sandbox import ResultCache

    file = path or _default()
    return closing(ResultCache(file)) if file.exists() else nullcontext()


def _default() -> Path:
    from rlkit.sandbox.cache import cache_file

    return cache_file()


def _source(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"the program cannot be read: {error}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"the program {file!r} is not UTF-8 text: {error}") from None


def _input(text: str | None, file: Path | None) -> str | bytes:
    if text is not None and file is not None:
        raise UserError("give --stdin or --stdin-file, not both")
    if file is None:
        return text or ""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"the input cannot be read: {error}") from None


def _limits(
    given: Any, language: str, wall: float | None, cpu: float | None, memory: int | None
) -> Any:
    """Limits of the file, changed by what was typed; None leaves them to the language."""
    from dataclasses import replace

    from rlkit.sandbox import Limits

    typed = {"wall_s": wall, "cpu_s": cpu, "memory_mb": memory}
    typed = {name: value for name, value in typed.items() if value is not None}
    if not typed:
        return given
    return replace(given or Limits(), **typed)


def _show(verdict: Any, status: str) -> None:
    if verdict.compile is not None and verdict.compile.stderr:
        print(_plain(verdict.compile.stderr).rstrip(), file=sys.stderr)
    if verdict.stdout:
        print(_plain(verdict.stdout).rstrip("\n"))
    if verdict.stderr:
        print(_plain(verdict.stderr).rstrip("\n"), file=sys.stderr)
    facts = [] if verdict.exit_code is None else [f"exit code {verdict.exit_code}"]
    facts += [] if verdict.signal is None else [f"signal {verdict.signal}"]
    facts += [] if verdict.wall_s is None else [f"{verdict.wall_s:.3f} s"]
    facts += [] if verdict.peak_rss_mb is None else [f"{verdict.peak_rss_mb:.0f} MiB"]
    facts += ["from the cache"] if verdict.cached else []
    said = verdict.message if status == "RAN" else verdict.summary
    line = f"{status}{': ' if said else ''}{_plain(said)} ({', '.join(facts)})"
    print(line, file=sys.stderr)
    if verdict.isolation is not None:
        print(f"{verdict.isolation.level.name}: {verdict.isolation.sentence}", file=sys.stderr)


def _plain(text: str) -> str:
    """What a program wrote, without what a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
