"""Every lesson is clean, readable and equal to its source; lesson 00 runs and teaches.

`executed` runs lesson 00 from top to bottom, in the fast length, in a kernel of its own.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LESSON_00 = ROOT / "notebooks" / "00_start_here.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"
#: Runs in the lesson's own kernel, after its last cell.
SCRAP = """
import json
print(json.dumps({
    "before": before.pass_at_1,
    "after": after.pass_at_1,
    "held_out": after.by_domain["pyfunc"].problems,
    "steps": [row["step"] for row in panel.rows],
    "pass_rates": [row["pass_rate"] for row in panel.rows],
    "quantized": policy.precision.weights,
}))
"""


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def lines(notebook, cell_type: str):
    """(cell number, line) of every line of the cells of this type."""
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == cell_type:
            for line in cell.source.splitlines():
                yield number, line


def headings(notebook) -> list[tuple[int, int, str]]:
    """(cell number, level, text) of every heading outside of code blocks."""
    found, fenced = [], False
    for number, line in lines(notebook, "markdown"):
        fenced ^= line.startswith("```")
        match = None if fenced else re.match(r"(#+) (.+)", line)
        if match:
            found.append((number, len(match[1]), match[2]))
    return found


every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_lessons():
    assert LESSON_00 in NOTEBOOKS


# -- how a lesson looks ------------------------------------------------------------------


@every_notebook
def test_a_lesson_is_valid_small_and_without_outputs(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size <= 200_000
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)


@every_notebook
def test_a_lesson_says_the_same_as_its_source(path):
    source = ROOT / "notebooks" / "src" / f"{path.stem}.py"
    text = jupytext.writes(read(path), fmt="py:percent")
    # The header differs by design: the notebook's also names the version of its format.
    assert text.split("# ---\n", 2)[2] == source.read_text(encoding="utf-8").split("# ---\n", 2)[2]


@every_notebook
def test_cells_are_short_and_lines_are_narrow(path):
    notebook = read(path)
    assert len(notebook.cells) <= 45
    for number, cell in enumerate(notebook.cells, start=1):
        assert len(cell.source.splitlines()) <= 25, f"cell {number}"
    assert [(n, line) for n, line in lines(notebook, "code") if len(line) > 76] == []
    assert [(n, line) for n, line in lines(notebook, "markdown") if len(line) > 100] == []


@every_notebook
def test_headings_are_in_order(path):
    found = headings(read(path))
    levels = [level for _, level, _ in found]
    assert found[0][:2] == (1, 1)  # the first heading of the first cell is the title
    assert levels.count(1) == 1
    for before, after in itertools.pairwise(levels):
        assert after <= before + 1, f"a level is left out: {found}"


@every_notebook
def test_nothing_points_to_one_machine_or_nowhere(path):
    text = "\n".join(cell.source for cell in read(path).cells)
    assert not re.search(r"(?<![\w.:/])/(home|root|work|tmp|Users|content)\b", text)
    assert not re.search(r"<img(?![^>]*\balt=\"[^\"]+\")", text)
    assert "![](" not in text
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith(("https://", "#")):
            assert (path.parent / target).exists(), f"dead link {target}"


@every_notebook
def test_code_cells_parse_and_the_first_one_installs_and_calls_the_doctor(path):
    code = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    for source in code:
        ast.parse(source)
    assert 'find_spec("rlkit") is None' in code[0]
    assert "rlkit.doctor()" in code[0]
    assert not any("pip" in source for source in code[1:])


# -- lesson 00, run -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Lesson 00 with its outputs, and a scrap cell with the numbers behind them."""
    notebook = read(LESSON_00)
    notebook.cells.append(nbformat.v4.new_code_cell(SCRAP))
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("RLKIT_MODE", "fast")
        settings.setenv("RLKIT_HEADLESS", "1")
        nbclient.NotebookClient(
            notebook,
            timeout=300,
            resources={"metadata": {"path": str(tmp_path_factory.mktemp("lesson"))}},
        ).execute()
    return notebook


def outputs(notebook):
    """Every output of the lesson's own cells: (number of the cell, output)."""
    for number, cell in enumerate(notebook.cells[:-1], start=1):
        for output in cell.get("outputs", ()):
            yield number, output


def printed(notebook) -> str:
    return "".join(o.text for _, o in outputs(notebook) if o.output_type == "stream")


@pytest.mark.timeout(900)
def test_lesson_00_trains_for_real_and_the_policy_gets_better(executed):
    numbers = json.loads(executed.cells[-1].outputs[0].text)
    assert numbers["quantized"] == "nf4"
    assert numbers["steps"] == list(range(1, 21))
    assert numbers["held_out"] == 100
    assert all(0 <= rate <= 1 for rate in numbers["pass_rates"])
    # 20 updates raise it by about 0.3. A rise of 0.1 is one that no unlucky draw undoes.
    assert numbers["after"] > numbers["before"] + 0.1
    assert f"after:  pyfunc: pass@1 {numbers['after']:.3f}" in printed(executed)


def test_lesson_00_shows_no_warning_and_no_progress_of_libraries(executed):
    noise = [(n, o.text) for n, o in outputs(executed) if o.get("name") == "stderr"]
    assert noise == []
    widgets = [n for n, o in outputs(executed) if "widget-view" in str(list(o.get("data", {})))]
    assert widgets == []


def test_lesson_00_says_which_length_it_is_and_what_the_base_was_taught(executed):
    text = printed(executed)
    assert "This is the fast length: 20 updates" in text
    taught = re.findall(r"(\w+) +([\d,]+) right and +([\d,]+) wrong answers were taught", text)
    assert {name for name, _, _ in taught} == {"arith", "sort", "countdown", "pyfunc"}
    assert all(int(n.replace(",", "")) > 1000 for _, *counts in taught for n in counts)


def test_lesson_00_shows_a_failing_test_of_the_sandbox(executed):
    assert re.search(r"test \d: FAIL +\w+\(.*\) returned .*, expected ", printed(executed))


def test_lesson_00_answers_its_exercises(executed):
    text = printed(executed)
    assert "length of the gradient: 0.0 - No guess was written down; it is 0." in text  # a
    assert "ClosedLoop says: group_size=1 with a group baseline" in text
    better, worse = re.findall(r"than their group: +([+-][\d.]+)\n", text)[-2:]  # b
    assert float(better) < 0 < float(worse)
    # c, by hand: with the format at 0.9 the four earn 1, 0.1, 0.9 and 0. Their mean is 0.5,
    # their deviation sqrt((0.25 + 0.16 + 0.16 + 0.25) / 3) = 0.5228, so C gets 0.4 / 0.5228.
    assert "format 0.9: {'A': '+0.96', 'B': '-0.76', 'C': '+0.76', 'D': '-0.96'}" in text
    assert "rewards:    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]" in text  # the failure card
    assert "advantages: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]" in text


def test_every_figure_has_a_caption_a_description_and_its_data(executed):
    shown = list(outputs(executed))
    figures = [i for i, (_, output) in enumerate(shown) if PLOTLY in output.get("data", {})]
    assert len(figures) == 2
    for i in figures:
        notes = "".join(shown[i + 1][1]["data"]["text/html"])
        caption, description = re.findall(r"<p>([^<]+)</p>", notes)[:2]
        assert len(caption) > 40
        assert re.search(r"over steps \d+ to \d+", description)
        assert notes.count("<tr>") > 10


def test_every_widget_has_a_text_and_a_page_form(executed):
    shown = {}
    for cell in executed.cells[:-1]:
        name = cell.source.splitlines()[-1]
        if cell.cell_type == "code" and re.fullmatch(r"panel|guess(_[abc])?", name):
            (shown[name],) = [set(o.data) for o in cell.outputs if "data" in o]
    assert set(shown) == {"panel", "guess", "guess_a", "guess_b", "guess_c"}
    assert all(kinds == {"text/plain", "text/html"} for kinds in shown.values())


# -- what is shown and not run ----------------------------------------------------------------


@pytest.mark.timeout(600)
def test_the_code_for_trl_runs_as_it_is_shown(untrained, sandbox, tmp_path, monkeypatch):
    import rlkit

    monkeypatch.chdir(tmp_path)
    text = next(c.source for c in read(LESSON_00).cells if "GRPOTrainer(" in c.source)
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    # Smaller, and one step; everything else as the lesson has it.
    assert "1000)" in code
    assert "GRPOConfig(num_generations=8," in code
    code = code.replace("1000)", "8)").replace(
        "GRPOConfig(",
        "GRPOConfig(max_steps=1, per_device_train_batch_size=8, report_to=[], use_cpu=True, ",
    )
    known = {
        "rlkit": rlkit,
        "itertools": itertools,
        "domain": rlkit.get_domain("pyfunc"),
        "policy": rlkit.Policy.load(untrained, quantize=None, lora=rlkit.LoraSpec(rank=4)),
    }
    exec(compile(code, "the lesson's code for TRL", "exec"), known)
    logged = known["trainer"].state.log_history[0]
    assert "rewards/tests_pass/mean" in logged
