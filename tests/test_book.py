"""What `make book` does before Sphinx: pages with all they link to, lessons, pages of the API.

The site itself is built by `make book`, which ends at the first link that leads nowhere.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def make(tmp_path, monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_book", ROOT / "docs" / "book" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STAGE", tmp_path / "stage")
    (tmp_path / "stage" / "notebooks").mkdir(parents=True)
    return module


def test_pages_are_laid_out_as_in_the_repository(make):
    make.copy_pages()
    for name in ("index.md", "README.md", "CONTRIBUTING.md", "docs/glossary.md", "LICENSE"):
        assert (make.STAGE / name).is_file(), name
    # A page that another one links to comes along, with what it links to itself.
    assert (make.STAGE / "rlkit" / "policy" / "tiny" / "CARD.md").is_file()
    assert not list(make.STAGE.rglob("*.safetensors"))


def test_links_are_followed_within_the_repository_only(make, tmp_path):
    (tmp_path / "there.png").write_bytes(b"")
    (tmp_path / "lesson.ipynb").write_text("{}")
    page = tmp_path / "page.md"
    page.write_text(
        "![a](there.png) [b](https://example.org/x) [c](#below) [d](lesson.ipynb) "
        "[e](there.png#part) [f](missing.md)"
    )
    assert list(make.linked_files(page)) == [tmp_path / "there.png"] * 2


def test_a_lesson_folds_solutions_away_and_keeps_its_figures(make, tmp_path):
    figure = {"data": [{"y": [1, 2]}], "layout": {"meta": {"alt": 'It rises </script> & "so"'}}}
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {make.PLOTLY: figure}}]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# One"},
        {"cell_type": "code", "metadata": {"tags": ["exercise"]}, "source": "1", "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": "2", "outputs": outputs},
    ]
    (tmp_path / "00_one.ipynb").write_text(json.dumps({"cells": cells}))
    make.prepare_lesson(tmp_path / "00_one.ipynb")
    staged = json.loads((make.STAGE / "notebooks" / "00_one.ipynb").read_text())["cells"]
    assert staged[1]["metadata"]["tags"] == ["exercise", "hide-input"]
    assert staged[2]["metadata"]["tags"] == []
    drawn = staged[2]["outputs"][0]["data"]["text/html"]
    assert drawn.count("</script>") == 1  # that of the data; the text ends nothing
    assert json.loads(re.search(r"json\">(.*)</script>", drawn)[1]) == figure
    assert 'aria-label="It rises &lt;/script&gt; &amp; &quot;so&quot;"' in drawn


def test_every_public_name_has_its_place_in_the_api(make):
    make.write_api()
    pages = {page.stem: page.read_text() for page in (make.STAGE / "docs" / "api").iterdir()}
    assert set(pages) == set(make.PACKAGES)
    assert ".. autofunction:: rlkit.doctor.doctor" in pages["rlkit.doctor"]
    assert "rlkit.objectives.GRPO\n" in pages["rlkit.objectives"]
    index = (ROOT / "docs" / "book" / "index.md").read_text()
    listed = re.findall(r"^docs/api/(\S+)$", index, re.MULTILINE)
    assert listed == list(make.PACKAGES)
    # Whatever `import rlkit` offers is told of on one of the pages.
    import rlkit

    for name in rlkit.__all__:
        if not name.startswith("__"):
            assert any(f"## `{name}`" in page for page in pages.values()), name
