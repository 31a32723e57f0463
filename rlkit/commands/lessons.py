"""`rlkit lessons`: build, check, list, run and badge the lessons of a clone of the repository."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rlkit.errors import UserError

app = typer.Typer(
    no_args_is_help=True,
    help="Build, check, list and run the lessons of a clone of the repository.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Names = Annotated[
    list[str] | None, typer.Argument(help="Lessons, by name or number; without: all of them.")
]
Root = Annotated[Path | None, typer.Option(help="The clone; without: this folder or one above it.")]


@app.command()
def build(
    names: Names = None,
    solved: Annotated[
        Path | None, typer.Option(help="Also write the solved notebooks into this folder.")
    ] = None,
    force: Annotated[
        bool, typer.Option(help="Overwrite notebooks that somebody has worked in.")
    ] = False,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Writes each lesson's notebook and answer book from its source."""
    from rlkit.lessons.building.build import Shelf, write
    from rlkit.lessons.building.source import choose, find_root

    shelf = Shelf(find_root(root))
    built = write(shelf, choose(shelf.root, names), solved, force=force)
    found = {
        "built": [{"lesson": b.name, "file": str(b.path), "changed": b.changed} for b in built]
    }

    def show() -> None:
        for one in built:
            print(f"{'written  ' if one.changed else 'unchanged'}  {_near(one.path, shelf.root)}")

    _show(found, as_json, show)


@app.command()
def check(
    names: Names = None,
    run: Annotated[
        bool, typer.Option("--run", help="Also try every solution and every wrong answer.")
    ] = False,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """The lint of lessons; one sentence for each thing that is wrong, and exit code 1."""
    from rlkit.lessons.building.answers import try_answers
    from rlkit.lessons.building.build import Shelf
    from rlkit.lessons.building.check import check as examine
    from rlkit.lessons.building.check import check_folder
    from rlkit.lessons.building.source import choose, find_root

    shelf = Shelf(find_root(root))
    chosen = choose(shelf.root, names)
    findings = [] if names else check_folder(shelf)
    for name in chosen:
        findings += examine(shelf, name)
        if run and not shelf.lessons[name].problems:
            findings += try_answers(shelf, name)[1]
    rows = [_row(shelf, name) for name in chosen]
    found = {
        "ok": not findings,
        "findings": [{"file": f.file, "place": f.place, "text": f.text} for f in findings],
        "lessons": rows,
    }

    def show() -> None:
        _table(rows)
        for finding in findings:
            print(finding, file=sys.stderr)
        tried = "" if not run else ", every answer tried"
        things = f"{len(findings)} thing{'' if len(findings) == 1 else 's'} to repair"
        count = f"{len(chosen)} lesson{'' if len(chosen) == 1 else 's'} checked{tried}"
        print(f"{count}: {things if findings else 'all is well'}")

    _show(found, as_json, show)
    if findings:
        raise typer.Exit(1)


@app.command("list")
def list_lessons(root: Root = None, as_json: Json = False) -> None:
    """Every lesson: minutes, memory, exercises, and how easily its prose reads."""
    from rlkit.lessons.building.build import Shelf
    from rlkit.lessons.building.source import find_root, lesson_names

    shelf = Shelf(find_root(root))
    rows = [_row(shelf, name) for name in lesson_names(shelf.root)]
    _show({"lessons": rows}, as_json, lambda: _table(rows))


@app.command()
def run(
    names: Names = None,
    version: Annotated[str, typer.Option(help="solved or student.")] = "solved",
    mode: Annotated[str, typer.Option(help="fast or full.")] = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Keep the executed notebooks in this folder.")
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Runs lessons with the network cut off, and says how many seconds each took."""
    if version not in ("solved", "student"):
        raise UserError(f"--version must be solved or student, not {version!r}")
    if mode not in ("fast", "full"):
        raise UserError(f"--mode must be fast or full, not {mode!r}")
    from rlkit.lessons.building.build import Shelf
    from rlkit.lessons.building.lanes import run_lesson
    from rlkit.lessons.building.network import SENTENCES
    from rlkit.lessons.building.source import choose, find_root

    shelf = Shelf(find_root(root))
    ran = []
    for name in choose(shelf.root, names):
        if not as_json:
            print(f"{name} ({version}, {mode}) ...", end=" ", flush=True)
        ran.append(one := run_lesson(shelf, name, version=version, mode=mode, out=out))
        if not as_json:
            print(one.sentence())
    if not as_json and ran:
        print(SENTENCES[ran[0].network])
    _show(
        {"ok": all(r.ok for r in ran), "lessons": [r.to_dict() for r in ran]}, as_json, lambda: None
    )
    if not all(r.ok for r in ran):
        raise typer.Exit(1)


@app.command()
def badges(
    repo: Annotated[str | None, typer.Option(help="OWNER/NAME on GitHub.")] = None,
    ref: Annotated[str | None, typer.Option(help="The tag that is linked and installed.")] = None,
    clear: Annotated[bool, typer.Option(help="Take the badges away again.")] = False,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Stamps Colab and Binder badges, and the install cell, with where they are published."""
    from rlkit.lessons.building.build import Shelf, write
    from rlkit.lessons.building.published import Published, write_published
    from rlkit.lessons.building.source import find_root, lesson_names

    if clear == (repo is not None or ref is not None) or (repo is None) != (ref is None):
        raise UserError("give --repo OWNER/NAME and --ref TAG, or --clear alone")
    folder = find_root(root)
    published = None if repo is None or ref is None else Published(repo, ref)
    shelf = Shelf(folder)
    shelf.published = published
    write(shelf, lesson_names(folder))  # first, because it may refuse
    write_published(folder, published)
    found = {"repo": repo, "ref": ref, "lessons": lesson_names(folder)}
    sentence = "badges taken away" if published is None else f"badges lead to {repo} at {ref}"
    _show(found, as_json, lambda: print(sentence))


def _row(shelf: Any, name: str) -> dict[str, Any]:
    from rlkit.lessons.building.check import ease

    lesson = shelf.lessons[name]
    score = ease(shelf, name)
    return {
        "lesson": name,
        "title": lesson.card.title,
        "minutes_fast": lesson.card.minutes_fast,
        "minutes_full": lesson.card.minutes_full,
        "memory_mb": lesson.card.memory_mb,
        "exercises": len(lesson.exercises),
        "wrong_answers": sum(len(e.wrongs) for e in lesson.exercises),
        "reading_ease": None if score is None else round(score, 1),
    }


def _table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(caption="reading ease: Flesch, 60 to 70 is plain English, higher is easier")
    table.add_column("lesson", no_wrap=True)
    for heading in ("minutes fast / full", "memory", "exercises", "reading ease"):
        table.add_column(heading)
    for row in rows:
        fast, full, memory, score = (
            "?" if row[key] is None else f"{row[key]:g}"
            for key in ("minutes_fast", "minutes_full", "memory_mb", "reading_ease")
        )
        table.add_row(
            row["lesson"], f"{fast} / {full}", f"{memory} MB", str(row["exercises"]), score
        )
    Console().print(table)


def _near(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _show(found: dict[str, Any], as_json: bool, show: Any) -> None:
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        show()
