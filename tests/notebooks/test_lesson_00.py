"""What only lesson 00 promises: it trains for real, and it shows what it says it shows."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from rlkit.lessons.building.build import Shelf, student
from rlkit.lessons.building.execute import text_of

NAME = "00_start_here"
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cells(solved):
    return solved(NAME).execution.notebook["cells"]


@pytest.fixture(scope="module")
def said(cells) -> str:
    """All that the lesson printed or showed as text, without the numbers of the last cell."""
    return "\n".join(text_of(cell) for cell in cells[:-1])


def test_it_trains_for_real_and_the_policy_gets_better(cells, said):
    numbers = json.loads(text_of(cells[-1]))
    assert numbers["quantized"] == "nf4"
    assert numbers["steps"] == list(range(1, 21))
    assert numbers["held_out"] == 100
    assert all(0 <= rate <= 1 for rate in numbers["pass_rates"])
    # 20 updates raise it by about 0.3. A rise of 0.1 is one that no unlucky draw undoes.
    assert numbers["after"] > numbers["before"] + 0.1
    assert f"before: pyfunc: pass@1 {numbers['before']:.3f}" in said
    assert f"it is {numbers['after']:.2g}"[:9] in said


def test_it_says_which_length_it_is_and_what_the_base_was_taught(said):
    assert "This is the fast length, because RLKIT_MODE is fast" in said
    assert "fast length: 20 updates" in said
    taught = re.findall(r"(\w+) +([\d,]+) right and +([\d,]+) wrong answers were taught", said)
    assert {name for name, _, _ in taught} == {"arith", "sort", "countdown", "pyfunc"}
    assert all(int(n.replace(",", "")) > 1000 for _, *counts in taught for n in counts)


def test_it_shows_a_failing_test_of_the_sandbox(said):
    assert re.search(r"test \d: FAIL +\w+\(.*\) returned .*, expected ", said)


def test_it_shows_what_it_asked_for(said):
    # A group of one is refused by the loop.
    assert "ClosedLoop says: group_size=1 with a group baseline" in said
    # The wrong sign: the second pair of numbers, and better answers get less likely.
    better = re.findall(r"better than their group: ([+-][\d.]+) nats", said)
    worse = re.findall(r"worse than their group:  ([+-][\d.]+) nats", said)
    assert float(better[0]) > float(worse[0])
    assert float(better[1]) < 0 < float(worse[1])
    # By hand: with the format at 0.9 the four earn 1, 0.1, 0.9 and 0. Their mean is 0.5,
    # their deviation sqrt((0.25 + 0.16 + 0.16 + 0.25) / 3) = 0.5228, so C gets 0.4 / 0.5228.
    assert "format 0.9: {'A': '+0.96', 'B': '-0.76', 'C': '+0.76', 'D': '-0.96'}" in said
    # The failure card: a group of wrong answers, and nothing learned from it.
    assert "rewards:    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]" in said
    assert "advantages: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]" in said
    assert "All eight wrong" in said


def test_it_has_three_predictions_a_quiz_of_four_and_a_strip(cells, said):
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert code.count("lesson.predict(") == 3
    assert code.count(".reveal(") == 3
    assert code.count("Question(") == 4
    assert said.count("No guess was written down") == 3


def test_every_widget_has_a_text_and_a_page_form(cells):
    shown = {}
    for cell in cells[:-1]:
        name = "".join(cell["source"]).splitlines()[-1]
        if cell["cell_type"] == "code" and re.fullmatch(r"panel|guess(_\w+)?", name):
            (shown[name],) = [set(o["data"]) for o in cell["outputs"] if "data" in o]
    assert set(shown) == {"panel", "guess", "guess_sign", "guess_tidy"}
    assert all(kinds == {"text/plain", "text/html"} for kinds in shown.values())


# -- what is shown and not run ----------------------------------------------------------------


@pytest.mark.timeout(600)
def test_the_code_for_trl_runs_as_it_is_shown(untrained, sandbox, tmp_path, monkeypatch):
    import rlkit

    monkeypatch.chdir(tmp_path)
    written = json.loads(student(Shelf(ROOT), NAME))["cells"]
    (text,) = ["".join(c["source"]) for c in written if "GRPOTrainer(" in "".join(c["source"])]
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
