"""Checks that every notebook is clean and says the same as its source; `--write` makes it so.

A lesson is two files: `notebooks/NN_title.ipynb`, which people open, and its source
`notebooks/src/NN_title.py` (jupytext's percent format), which people review. This script
compares them cell by cell and looks for what a commit must not carry: outputs, execution
counts, widget state, a missing kernel name (JupyterLab then opens with a blocking dialog),
a file of more than 200 KB.

Left out: running the notebooks, which the tests do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parent.parent
LARGEST_BYTES = 200_000
# What JupyterLab and Colab leave in a notebook's metadata when a widget was on the screen.
UNWANTED_METADATA = ("widgets", "colab")


def pairs(root: Path) -> list[tuple[Path, Path]]:
    """The (notebook, source) path of every lesson; either of the two may be missing."""
    folder = root / "notebooks"
    names = {path.stem for path in folder.glob("*.ipynb")}
    names |= {path.stem for path in (folder / "src").glob("*.py")}
    return [(folder / f"{name}.ipynb", folder / "src" / f"{name}.py") for name in sorted(names)]


def cleanliness_problems(notebook_path: Path) -> list[str]:
    """What one notebook file carries that a commit must not, as sentences."""
    name = notebook_path.name
    notebook = nbformat.read(notebook_path, as_version=4)
    nbformat.validate(notebook)
    problems = []
    size = notebook_path.stat().st_size
    if size > LARGEST_BYTES:
        problems.append(f"{name} has {size:,} bytes, more than {LARGEST_BYTES:,}")
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append(f"{name} does not name the kernel python3 in its metadata")
    for key in UNWANTED_METADATA:
        if key in notebook.metadata:
            problems.append(f"{name} has metadata.{key}")
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type != "code" or "keep_output" in cell.metadata.get("tags", []):
            continue
        if cell.outputs or cell.execution_count is not None:
            problems.append(f"{name}, cell {number}, has outputs or an execution count")
    return problems


def difference(notebook_path: Path, source_path: Path) -> str | None:
    """The first place where a notebook and its source differ, as a sentence, or None."""
    name = notebook_path.name
    cells = nbformat.read(notebook_path, as_version=4).cells
    source_cells = jupytext.read(source_path).cells
    for number, (cell, source_cell) in enumerate(zip(cells, source_cells, strict=False), start=1):
        if cell.cell_type != source_cell.cell_type:
            return f"{name}, cell {number}, is {cell.cell_type}, its source {source_cell.cell_type}"
        if cell.source.rstrip() != source_cell.source.rstrip():
            return f"{name}, cell {number}, differs from {source_path.name}"
        if cell.metadata.get("tags", []) != source_cell.metadata.get("tags", []):
            return f"{name}, cell {number}, has other tags than {source_path.name}"
    if len(cells) != len(source_cells):
        return f"{name} has {len(cells)} cells, {source_path.name} has {len(source_cells)}"
    return None


def problems(root: Path) -> list[str]:
    """Everything that is wrong with the notebooks under `root`, as sentences."""
    found = []
    for notebook_path, source_path in pairs(root):
        if notebook_path.exists():
            found += cleanliness_problems(notebook_path)
        missing = [path for path in (notebook_path, source_path) if not path.exists()]
        if missing:
            found.append(f"{missing[0].relative_to(root)} is missing beside its twin")
            continue
        different = difference(notebook_path, source_path)
        if different is not None:
            found.append(different)
    return found


def write(root: Path) -> None:
    """Brings each pair together, the newer file of the two winning, and strips the notebooks."""
    for notebook_path, source_path in pairs(root):
        newest = max(
            (path for path in (notebook_path, source_path) if path.exists()),
            key=lambda path: path.stat().st_mtime_ns,
        )
        subprocess.run([sys.executable, "-m", "jupytext", "--sync", newest], check=True, cwd=root)
        keys = " ".join(f"metadata.{key}" for key in UNWANTED_METADATA)
        subprocess.run(
            [sys.executable, "-m", "nbstripout", "--extra-keys", keys, notebook_path],
            check=True,
            cwd=root,
        )


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--write"]):
        print("usage: check_notebooks.py [--write]", file=sys.stderr)
        return 2
    if arguments:
        write(ROOT)
    found = problems(ROOT)
    for sentence in found:
        print(f"notebooks: {sentence}", file=sys.stderr)
    if found:
        print("notebooks: `make format` brings both files of a pair together.", file=sys.stderr)
        return 1
    print(f"notebooks: {len(pairs(ROOT))} clean, each equal to its source")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
