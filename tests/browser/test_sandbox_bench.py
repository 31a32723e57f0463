"""The sandbox bench and its lesson in JupyterLab: pick, run, look, find what is flaky."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

CELL = """\
from rlkit import lab

bench = lab.sandbox_bench()
bench"""
LESSON = "07_the_sandbox.ipynb"
PHONE = {"width": 390, "height": 844}
ROOT = ".jp-Notebook .rlkit-panel"
PLOT = f"document.querySelector('{ROOT} .js-plotly-plot')"


def notebook(cell: str) -> str:
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "id": "bench",
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


class BenchPage:
    """The bench as a person has it: lists to choose from, boxes, sliders, buttons, figures."""

    def __init__(self, sheet) -> None:
        self.sheet, self.page = sheet, sheet.page
        self.root = self.page.locator(ROOT).first
        self.program = self.root.locator("select").first
        self.source, self.tests = (self.root.locator("textarea").nth(n) for n in (0, 1))

    def button(self, text: str):
        exactly = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.root.locator("button", has_text=exactly).first

    def press(self, text: str) -> None:
        """Presses a button, and waits until it may be pressed again."""
        self.button(text).click()
        self.button(text).and_(self.page.locator(":enabled")).wait_for()

    def shows(self, text: str | re.Pattern[str], seconds: float = 60) -> None:
        self.root.filter(has_text=text).wait_for(timeout=1000 * seconds)

    def picture(self, name: str, element=None) -> None:
        self.sheet.screenshot(name, element or self.root)

    def bars(self) -> list[float]:
        """How long the phases of the timeline take, in milliseconds."""
        return self.page.evaluate(f"{PLOT}.data.map(trace => trace.x[0])")


def overflowing(sheet) -> list[str]:
    """What reaches out of the bench to the right and is not in a place that scrolls."""
    return sheet.page.evaluate(
        f"""[...document.querySelectorAll('{ROOT}')].flatMap(root =>
        [...root.querySelectorAll('*')].filter(e => !e.closest('.rlkit-scroll')
            && (e.tagName === 'text' || !e.closest('svg'))
            && e.getBoundingClientRect().width > 0
            && e.getBoundingClientRect().right > root.getBoundingClientRect().right + 2)
        .map(e => `${{e.tagName}} ${{e.className.baseVal ?? e.className}} `
            + (e.textContent ?? '').slice(0, 40)))"""
    )


@pytest.fixture
def opened(open_notebook, notebooks: Path) -> BenchPage:
    (notebooks / "bench.ipynb").write_text(notebook(CELL))
    sheet = open_notebook("bench.ipynb")
    sheet.hide_files()
    sheet.run_all()
    sheet.wait_for(f"!!document.querySelector('{ROOT} textarea')", 60, "the bench")
    return BenchPage(sheet)


def test_the_bench_runs_a_program_and_shows_verdict_and_timeline(opened):
    bench, page, sheet = opened, opened.page, opened.sheet
    bench.picture("bench-1-opened")
    bench.press("Run")
    bench.shows("3 of 3 tests passed")
    sheet.wait_for(f"{PLOT}?.getBoundingClientRect().height > 150", 30, "a figure that is seen")
    first = bench.bars()
    # waiting, starting, loading, three tests
    assert len(first) == 6 and all(length >= 0 for length in first) and sum(first) > 0
    bench.picture("bench-2-passed")

    # Another program by its name; what it prints is text on the page, and nothing more.
    bench.program.select_option("hostile: prints HTML and terminal codes")
    bench.press("Run")
    bench.shows("⟨ESC⟩[31mred")
    assert bench.root.locator("img[src='x'], script").count() == 0
    assert "<img src=x onerror=alert(1)>" in bench.root.text_content()
    bench.picture("bench-3-escaped")

    # One that a limit has to stop, and which layer did.
    bench.program.select_option("hostile: sleeps for ever")
    bench.press("Run")
    bench.shows("The supervisor ended it: wall clock")
    bench.picture("bench-4-stopped")

    # Typed by hand, with the tests; a test that is none is told.
    bench.source.fill("import random\n\ndef f(x):\n    return random.choice([x, sorted(x)])\n")
    bench.tests.fill("assert f([2, 1]) == [1, 2]\nassert f([1]) == [1]")
    bench.press("Run ten times")
    bench.shows("Flaky: 10 runs")
    page.wait_for_timeout(1000)
    bench.picture("bench-5-flaky", bench.root.locator("[role=status]", has_text="Flaky"))
    bench.tests.fill("f(1)")
    bench.button("Run").click()
    bench.root.locator("[role=alert]").wait_for()
    bench.picture("bench-6-alert")

    # Another language, by the keyboard.
    languages = bench.root.locator("select").nth(1)
    languages.focus()
    languages.select_option("Bash")
    bench.press("Run")
    bench.shows("2 of 2 tests passed")
    bench.press("Run")
    bench.program.select_option("honest: wrong for equal numbers")
    bench.press("Try all programs")
    bench.shows("cheat: a list that equals everything")
    page.wait_for_timeout(1000)
    bench.picture("bench-7-map", bench.root.locator(".js-plotly-plot").nth(1))

    sheet.wear("Dark")
    bench.picture("bench-8-dark")
    bench.picture("bench-8-dark-map", bench.root.locator(".js-plotly-plot").nth(1))
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(2000)
    bench.picture("bench-9-phone")
    bench.picture("bench-9-phone-run", bench.button("Run"))
    bench.picture("bench-9-phone-verdict", bench.root.locator("[role=status]", has_text="tests"))
    bench.picture("bench-9-phone-timeline", bench.root.locator(".js-plotly-plot").first)
    bench.picture("bench-9-phone-map", bench.root.locator(".js-plotly-plot").nth(1))
    assert overflowing(sheet) == []
    assert sheet.failures() == []
    assert sheet.errors == []


def test_lesson_07_in_the_light_in_the_dark_and_on_a_phone(open_notebook):
    sheet = open_notebook(LESSON)
    page = sheet.page
    sheet.hide_files()
    sheet.run_all()
    page.wait_for_timeout(2000)
    for number in range(sheet.cells.count()):
        sheet.screenshot(f"lesson-07-{number:02}", sheet.cells.nth(number))

    # A guess is written down, and then the table of who pays is shown.
    waiting = sheet.cell("guess.reveal")
    waiting.get_by_role("textbox").last.fill("3")
    waiting.get_by_role("textbox").last.press("Tab")
    waiting.get_by_role("button", name="Show the result").click()
    waiting.locator(".rlkit-card", has_text="You said 3 programs; it is 4").wait_for()
    sheet.screenshot("lesson-07-revealed", waiting)

    # An exercise is solved: the right answer replaces the scaffold.
    cell = sheet.cell("hidden_tests = [")
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("hidden_tests = [[3, 2, 1], [10, 9, 8, 7], [-5, 0, 4, -1], ")
    page.keyboard.type("[2, 2, 2, 1], [500, 7]]\nlesson.check('hidden_tests', hidden_tests)")
    page.keyboard.press("Shift+Enter")
    sheet.sheet.get_by_text("Right: Hidden tests").first.wait_for()
    sheet.screenshot("lesson-07-solved", sheet.cell("hidden_tests = ["))

    bench = BenchPage(sheet)
    bench.press("Run")
    bench.shows("⟨ESC⟩[31mred")
    wanted = (
        ("badge", "badge(sandbox)"),
        ("timeline", "lab.verdict_timeline"),
        ("flaky", "FLAKY ="),
        ("map", "lab.verdict_map(answers"),
        ("bench", "lab.sandbox_bench("),
        ("cards", "exit_card = "),
    )
    sheet.wear("Dark")
    for name, text in wanted:
        sheet.screenshot(f"lesson-07-dark-{name}", sheet.cell(text))
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(2000)
    sheet.wear("Light")
    for name, text in wanted:
        sheet.screenshot(f"lesson-07-phone-{name}", sheet.cell(text))
    assert overflowing(sheet) == []
    assert sheet.failures() == []
    assert sheet.errors == []
