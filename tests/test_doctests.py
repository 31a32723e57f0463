"""The examples in the docstrings of rlkit say what happens.

Only modules that carry an example are imported, so a module without one costs nothing.
"""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def modules_with_examples(package: Path) -> list[str]:
    """The dotted names of the modules under `package` with a doctest prompt in a docstring."""
    names = []
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = [ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, DOCUMENTED)]
        if any(">>> " in docstring for docstring in docstrings if docstring):
            parts = path.relative_to(package.parent).with_suffix("").parts
            names.append(".".join(part for part in parts if part != "__init__"))
    return names


@pytest.mark.parametrize("name", modules_with_examples(ROOT / "rlkit"))
def test_examples_in_docstrings(name):
    results = doctest.testmod(
        importlib.import_module(name),
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert results.attempted > 0
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples of {name} failed"


def test_modules_with_examples_are_found(tmp_path):
    package = tmp_path / "shop"
    (package / "till").mkdir(parents=True)
    (package / "__init__.py").write_text('"""A shop.\n\n>>> 1 + 1\n2\n"""\n')
    (package / "till" / "coins.py").write_text('PROMPT = ">>> no docstring"\n')
    (package / "till" / "notes.py").write_text(
        'def f():\n    """A note.\n\n    >>> 2\n    2\n    """\n'
    )
    assert modules_with_examples(package) == ["shop", "shop.till.notes"]
