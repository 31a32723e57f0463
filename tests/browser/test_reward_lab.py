"""The Reward Lab in JupyterLab: edit, apply, look, break it, loop for ever, recover, train.

What is done stands in `LabPage`; how a browser is driven stands in the fixtures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

CELL = """\
from rlkit.lab import reward_lab

lab = reward_lab(time_limit_s=3)
lab"""
SHORT = "def reward(completions):\n    return [float(len(text) < 20) for text in completions]\n"
BROKEN = "def reward(completions:\n    return"
LOOP = "def reward(completions):\n    while True:\n        pass\n"

ROOT = ".jp-Notebook .rlkit-lab"
PLOT = f"document.querySelector('{ROOT} .js-plotly-plot')"


def notebook(cell: str) -> str:
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "id": "lab",
                    "metadata": {},
                    "outputs": [],
                    "source": cell,
                }
            ],
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
            },
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


class LabPage:
    """The lab as a person has it: a box, buttons, a figure, a list."""

    def __init__(self, sheet) -> None:
        self.sheet, self.page = sheet, sheet.page
        self.root = self.page.locator(ROOT).first
        self.area = self.root.locator("textarea").first
        self.listed = self.root.locator(".widget-select select")
        self.message = self.root.locator("[role=alert], [role=status]").first

    def button(self, text: str):
        exactly = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.root.locator("button", has_text=exactly).first

    def press(self, text: str) -> None:
        self.button(text).click()

    def write(self, source: str) -> None:
        """Puts source into the box, as typing does."""
        self.area.fill(source)

    def bars(self) -> list[list[float]]:
        return self.page.evaluate(f"{PLOT}.data.map(trace => [...trace.y])")

    def says(self, text: str, seconds: float = 60) -> str:
        self.message.filter(has_text=text).wait_for(timeout=1000 * seconds)
        return self.message.text_content()

    def shows(self, text: str | re.Pattern[str], seconds: float = 60) -> None:
        self.root.filter(has_text=text).wait_for(timeout=1000 * seconds)

    def picture(self, name: str, element=None) -> None:
        self.sheet.screenshot(name, element or self.root)


@pytest.fixture
def opened(open_notebook, notebooks: Path) -> LabPage:
    """A notebook of one cell that opens the lab, run in JupyterLab."""
    (notebooks / "lab.ipynb").write_text(notebook(CELL))
    sheet = open_notebook("lab.ipynb")
    sheet.hide_files()
    sheet.run_all()
    sheet.wait_for(f"!!{PLOT}?.data", 180, "the lab and its figure")
    sheet.wait_for(f"{PLOT}.getBoundingClientRect().height > 300", 30, "a figure that is seen")
    return LabPage(sheet)


def test_the_lab_is_edited_broken_and_recovers(opened):
    lab, page, sheet = opened, opened.page, opened.sheet
    first = lab.bars()
    assert sum(first[1]) == 2000
    lab.picture("lab-1-opened")

    # Edit and apply: the histogram changes, and keeps the old one beside it.
    lab.write(SHORT)
    lab.press("Apply")
    lab.says("2,000 completions scored")
    sheet.wait_for(
        f"JSON.stringify({PLOT}.data.map(trace => [...trace.y])) !== "
        f"{json.dumps(json.dumps(first, separators=(',', ':')))}",
        30,
        "other bars",
    )
    changed = lab.bars()
    assert changed != first and sum(changed[0]) == sum(changed[1]) == 2000
    lab.picture("lab-2-applied")

    # An example is chosen with the keyboard, and shown with its group.
    lab.listed.focus()
    page.keyboard.press("ArrowDown")
    lab.root.locator(".widget-html caption b").first.wait_for()
    assert lab.listed.evaluate("list => [list === document.activeElement, list.selectedIndex]") == [
        True, 0,
    ]  # fmt: skip
    page.keyboard.press("ArrowDown")
    sheet.wait_for(
        f"document.querySelector('{ROOT} .widget-select select').selectedIndex === 1", 30
    )
    lab.picture("lab-3-example", lab.listed)
    # And with the mouse.
    before = lab.root.text_content()
    lab.listed.select_option(index=5)
    sheet.wait_for(
        f"document.querySelector('{ROOT}').textContent !== {json.dumps(before)}",
        30,
        "another example",
    )

    # The other views.
    for number, view in enumerate(("Parts", "Contrast", "Truth", "Advantages")):
        lab.press(view)
        sheet.wait_for(f"{PLOT}?.layout?.title?.text?.length > 0", 30, view)
        page.wait_for_timeout(500)
        lab.picture(f"lab-4-{number}-{view.lower()}")
    lab.press("Rewards")
    sheet.wait_for(f"{PLOT}?.layout?.title?.text === 'Rewards'", 30, "Rewards")

    # What does not parse changes nothing and says why.
    lab.write(BROKEN)
    lab.press("Apply")
    assert "line 1" in lab.says("Nothing has changed")
    assert lab.bars() == changed
    lab.picture("lab-5-broken")

    # An endless loop ends, changes nothing, and the lab goes on.
    lab.write(LOOP)
    lab.press("Apply")
    lab.says("3 s", 60)
    assert "Nothing has changed" in lab.message.text_content()
    assert lab.bars() == changed
    lab.picture("lab-6-endless")
    lab.press("Undo")
    lab.says("Back to the version before")
    sheet.wait_for(
        f"document.querySelector('{ROOT} textarea').value.includes('looks_like_code')", 30
    )
    sheet.wait_for(f"{PLOT}.data[1].y.length === {len(first[1])}", 30, "the first bars")
    assert lab.bars()[1] == first[1]
    lab.press("Redo")
    sheet.wait_for(
        f"document.querySelector('{ROOT} textarea').value.includes('len(text) < 20')", 30
    )
    assert sheet.errors == []


def test_it_attacks_and_trains_beside_in_the_light_and_in_the_dark(opened):
    lab, page, sheet = opened, opened.page, opened.sheet
    lab.press("Attack it")
    lab.shows("attacks went through", 180)
    lab.picture("lab-7-attacks", lab.button("Attack it"))
    lab.press("Train 20 steps with this")
    # Not every step is drawn: several may pass between two looks.
    lab.shows(re.compile(r"Training: running, step ([3-9]|1\d)"), 180)
    # The lab stays usable while it trains.
    lab.write(SHORT)
    lab.press("Apply")
    lab.says("2,000 completions scored")
    lab.picture("lab-8-training", lab.button("Attack it"))
    lab.press("Stop")
    lab.button("Stop").and_(page.locator(":disabled")).wait_for(timeout=120_000)
    assert "Training: stopped" in lab.root.text_content()
    sheet.wear("Dark")
    sheet.wait_for(f"{PLOT}.getBoundingClientRect().height > 300", 30, "a figure that is seen")
    lab.picture("lab-9-dark")
    lab.picture("lab-9-dark-example", lab.listed)
    lab.picture("lab-9-dark-training", lab.button("Attack it"))
    assert sheet.errors == []
