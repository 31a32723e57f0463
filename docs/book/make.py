"""Builds the site of `make book`: lessons with their outputs, documentation, and the code's API.

The repository's own Markdown pages and the executed lessons are copied into one folder, laid out
as in the repository, so that a link that works there works here; Sphinx makes the pages from it
and stops at every link that leads nowhere. Nothing is fetched, and the pages need no network.

    .venv/bin/python docs/book/make.py                    # into site/
    .venv/bin/python docs/book/make.py --executed FOLDER  # with lessons that `rlkit lessons run
                                                          # --out FOLDER` has executed
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "docs" / "book"
STAGE = ROOT / "build" / "book"
PLOTLY = "application/vnd.plotly.v1+json"
#: Modules whose public names have a page, in the order of the loop; some have just one.
PACKAGES = (
    "rlkit.tasks",
    "rlkit.policy",
    "rlkit.sandbox",
    "rlkit.rewards",
    "rlkit.rewards.audit",
    "rlkit.objectives",
    "rlkit.curriculum",
    "rlkit.monitor",
    "rlkit.loop",
    "rlkit.lab",
    "rlkit.lessons",
    "rlkit.doctor",
    "rlkit.errors",
)
ONLY = {"rlkit.doctor": ["doctor"], "rlkit.errors": ["UserError"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="where the site goes")
    parser.add_argument("--executed", type=Path, help="a folder with lessons that were executed")
    options = parser.parse_args()
    if sys.version_info < (3, 11):
        print("rlkit: the book needs Python 3.11 or newer; make setup PYTHON=... chooses it.")
        return 2

    shutil.rmtree(STAGE, ignore_errors=True)
    (STAGE / "notebooks").mkdir(parents=True)
    copy_pages()
    for notebook in executed_lessons(options.executed):
        prepare_lesson(notebook)
    write_api()
    shutil.copy(BOOK / "conf.py", STAGE)
    static = STAGE / "_static"
    static.mkdir()
    for name in ("book.css", "figures.js"):
        shutil.copy(BOOK / name, static)
    shutil.copy(str(resources.files("plotly") / "package_data" / "plotly.min.js"), static)

    made = STAGE / "_site"
    builder = ["-m", "sphinx", "-b", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run([sys.executable, *builder, str(STAGE), str(made)])
    if done.returncode == 0:
        shutil.rmtree(made / ".doctrees")
        shutil.rmtree(options.out, ignore_errors=True)
        shutil.move(made, options.out)
        print(f"rlkit: the book is in {options.out}; open {options.out / 'index.html'}")
    return done.returncode


def copy_pages() -> None:
    """The Markdown pages, and every file of the repository that one of them links to."""
    shutil.copy(BOOK / "index.md", STAGE / "index.md")
    waiting = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    seen = set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        copy = STAGE / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        if file.suffix == ".md":
            waiting += linked_files(file)


def linked_files(page: Path) -> Iterator[Path]:
    """The files that a page links to, notebooks aside; Sphinx tells of those that are not there."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve()
        if ":" not in target and file.is_file() and file.suffix != ".ipynb":
            yield file


def executed_lessons(folder: Path | None) -> list[Path]:
    """The solved lessons with their outputs; run now, in their fast length, unless given."""
    if folder is None:
        folder = ROOT / "build" / "lessons"
        shutil.rmtree(folder, ignore_errors=True)
        command = ["-m", "rlkit.cli", "lessons", "run", "--out", str(folder), "--root", str(ROOT)]
        subprocess.run([sys.executable, *command], check=True)
    return sorted(folder.glob("*.ipynb"))


def prepare_lesson(file: Path) -> None:
    """Folds solutions away, and lets the page draw the figures from their data."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        tags = cell["metadata"].setdefault("tags", [])
        if "exercise" in tags:
            tags.append("hide-input")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if PLOTLY in data:
                output["data"] = {"text/html": figure_html(data[PLOTLY])}
    (STAGE / "notebooks" / file.name).write_text(json.dumps(notebook), encoding="utf-8")


def figure_html(figure: dict[str, Any]) -> str:
    """A figure as an element that figures.js draws; caption and data follow it in the lesson."""
    from rlkit.lab.theme import embed, escape

    alt = (figure["layout"].get("meta") or {}).get("alt", "A figure, described below it.")
    return (
        f'<div class="rlkit-drawn" role="img" aria-label="{escape(alt)}">'
        f'<script type="application/json">{embed(figure)}</script></div>'
    )


def write_api() -> None:
    """A page for each package: its docstring, and what it exports."""
    folder = STAGE / "docs" / "api"
    folder.mkdir(parents=True)
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = ONLY.get(package) or [name for name in module.__all__ if name[0] != "_"]
        blocks = [f"# `{package}`", f"```{{eval-rst}}\n.. automodule:: {package}\n```"]
        for name in sorted(names, key=str.lower):
            blocks.append(f"## `{name}`\n\n```{{eval-rst}}\n{directive(module, name)}\n```")
        (folder / f"{package}.md").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def directive(module: Any, name: str) -> str:
    """Which of autodoc's directives tells of an object."""
    found = getattr(module, name)
    place = f"{module.__name__}.{name}"
    if inspect.isclass(found):
        return f".. autoclass:: {place}\n   :members:"
    if inspect.isroutine(found):
        return f".. autofunction:: {place}"
    if inspect.ismodule(found):
        return f".. automodule:: {found.__name__}"
    # A value, such as a ready-made reward: its own docstring, where it has one.
    told = inspect.getdoc(found) if getattr(found, "__doc__", None) else ""
    own = told if told and told != inspect.getdoc(type(found)) else ""
    body = "".join(f"   {line}\n" for line in own.splitlines())
    return f".. py:data:: {place}\n   :no-index:\n\n{body}"


if __name__ == "__main__":
    sys.exit(main())
