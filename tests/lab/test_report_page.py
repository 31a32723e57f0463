"""The page of reports: which runs it finds, what it shows, and what it keeps out."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.lab.report_page import ReportPage, find_runs
from rlkit.loop.run import Run


def make_run(folder: Path, name: str, changed: float) -> Path:
    run = folder / name
    Run.create(run, {"policy": {"name": "tiny"}, "domains": [name]})
    for file in run.iterdir():
        if file.is_file():
            os.utime(file, (changed, changed))
    return run


def test_the_newest_run_comes_first(tmp_path):
    old, new = make_run(tmp_path, "b_old", 1000), make_run(tmp_path, "a_new", 2000)
    (tmp_path / "not_a_run").mkdir()
    assert find_runs(tmp_path) == [new, old]
    page = ReportPage(tmp_path)
    assert page.run == new
    assert "a_new" in str(page) and "2 runs" in str(page)


def test_runs_are_found_above_this_folder_or_by_name(tmp_path, monkeypatch):
    run = make_run(tmp_path / "runs", "only", 1000)
    (tmp_path / "notebooks" / "pages").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks" / "pages")
    monkeypatch.delenv("RLKIT_RUNS", raising=False)
    assert find_runs() == [run.resolve()]
    other = make_run(tmp_path / "elsewhere", "other", 1000)
    monkeypatch.setenv("RLKIT_RUNS", str(tmp_path / "elsewhere"))
    assert find_runs() == [other]


def test_without_runs_it_says_how_to_make_one(tmp_path):
    with pytest.raises(UserError, match="rlkit demo"):
        find_runs(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        find_runs(tmp_path / "nowhere")


def test_the_frame_holds_the_whole_page_and_reaches_nothing(tmp_path):
    make_run(tmp_path, "one", 1000)
    frame = ReportPage(tmp_path).html()
    assert re.search(r'sandbox="([^"]*)"', frame)[1] == "allow-scripts"  # not allow-same-origin
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "default-src 'none'" in page


def test_another_run_is_chosen_by_its_widget(tmp_path, monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    old, new = make_run(tmp_path, "old", 1000), make_run(tmp_path, "new", 2000)
    page = ReportPage(tmp_path)
    assert "application/vnd.jupyter.widget-view+json" in page._repr_mimebundle_()
    choice, again, said = page._box.children[0].children
    assert "Report of the run new" in page._frame.value
    choice.value = old
    assert page.run == old
    assert "Report of the run old" in page._frame.value
    # A run that has gone is told about, and what was shown stays.
    (new / "config.json").unlink()
    choice.value = new
    assert 'role="alert"' in said.value
    assert page.run == old
    make_run_again = {"policy": {"name": "tiny"}, "domains": ["new"]}
    (new / "config.json").write_text(json.dumps(make_run_again))
    again.click()
    assert said.value == "" and page.run == new


def test_headless_it_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    make_run(tmp_path, "one", 1000)
    assert list(ReportPage(tmp_path)._repr_mimebundle_()) == ["text/plain"]


def test_the_page_for_voila_is_a_clean_notebook_of_one_cell():
    root = Path(__file__).resolve().parents[2]
    notebook = json.loads((root / "notebooks" / "pages" / "report.ipynb").read_text())
    (cell,) = notebook["cells"]
    assert cell["outputs"] == [] and cell["execution_count"] is None
    assert "".join(cell["source"]).splitlines()[-1] == "ReportPage()"
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
