"""Lesson 00 in JupyterLab, as a learner has it: by mouse, by keyboard, in the dark, on a phone."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

LESSON = "00_start_here.ipynb"
PHONE = {"width": 390, "height": 844}


class Lesson:
    """The lesson as a person has it: cells, cards, a panel."""

    def __init__(self, notebook) -> None:
        self.notebook, self.page = notebook, notebook.page
        self.counter = notebook.sheet.locator("[role=status]", has_text=re.compile(r"^\s*Step \d"))
        self.plot = notebook.sheet.locator(".js-plotly-plot").first

    def button(self, text: str):
        # Not by its role's name: the icon before the text belongs to that, too.
        exactly = re.compile(rf"^\s*{re.escape(text)}\s*$")
        return self.notebook.sheet.locator("button", has_text=exactly).first

    def step(self) -> int:
        return int(re.search(r"Step (\d+)", self.counter.first.text_content())[1])

    def drawn(self) -> str:
        """The numbers that the panel's figure shows."""
        return json.dumps(
            self.plot.evaluate("p => p.data.map(t => [[...t.x], [...t.y]])"), default=str
        )

    def figure_is_seen(self) -> bool:
        """Whether the panel's figure has a place of its size, with the drawing within."""
        place, drawing = self.plot.bounding_box(), self.plot.locator("svg").first.bounding_box()
        return place["height"] > 300 and drawing["width"] <= place["width"] + 1

    def idle(self, seconds: float = 120) -> None:
        """Waits until the panel takes the next order."""
        self.button("Run one step").and_(self.page.locator(":enabled")).wait_for(
            timeout=1000 * seconds
        )

    def write(self, cell, answer: str) -> None:
        """Takes the cell's text away, writes another, and runs it."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(answer)
        self.page.keyboard.press("Shift+Enter")

    def says(self, text: str, seconds: float = 60) -> None:
        card = self.notebook.sheet.locator(".rlkit-card", has_text=text).first
        card.wait_for(timeout=1000 * seconds)


def overflowing(notebook) -> list[str]:
    """What is cut off at the right edge of a cell and cannot be scrolled to."""
    return notebook.page.evaluate(
        """() => [...document.querySelectorAll('.jp-Notebook .jp-OutputArea-output *')]
        .filter(e => e.getClientRects().length && !e.closest('svg, .js-plotly-plot'))
        .filter(e => {
            const right = e.getBoundingClientRect().right;
            for (let p = e; p && !p.classList.contains('jp-Notebook'); p = p.parentElement) {
                if (['auto', 'scroll'].includes(getComputedStyle(p).overflowX)) return false;
            }
            return right > document.documentElement.clientWidth + 1;
        })
        .map(e => e.outerHTML.slice(0, 160))"""
    )


def test_lesson_00_by_mouse(open_notebook):
    notebook = open_notebook(LESSON)
    notebook.hide_files()
    lesson, page = Lesson(notebook), notebook.page
    notebook.screenshot("1-opened")
    notebook.run_all()
    assert notebook.sheet.locator("h1").count() == 1
    assert lesson.step() > 0
    notebook.screenshot("2-panel-after-training", lesson.button("Run one step"))

    # An exercise: to do, then wrong, then a hint, then right.
    exercise = notebook.cell('lesson.check("group_of_one"')
    lesson.says("TODO: A group of one")
    check = '\nlesson.check("group_of_one", advantage_of_one)'
    lesson.write(exercise, f"advantage_of_one = 1.0{check}")
    lesson.says("Not yet: A group of one")
    assert "1 is its reward" in exercise.locator(".rlkit-card").text_content()
    notebook.screenshot("3-wrong", exercise)
    page.keyboard.press("Escape")
    page.keyboard.press("a")  # a cell above the one that is selected now
    page.keyboard.press("Enter")
    page.keyboard.insert_text('lesson.hint("group_of_one")')
    page.keyboard.press("Shift+Enter")
    lesson.says("Hint 1 of 3: A group of one")
    lesson.write(exercise, f"advantage_of_one = 0.0{check}")
    lesson.says("Right: A group of one")
    notebook.screenshot("4-right", exercise)

    # A function of the learner's own is called in the sandbox.
    exercise = notebook.cell('lesson.check("advantages"')
    lesson.write(
        exercise,
        "def advantages_of(rewards):\n"
        "    if len(set(rewards)) < 2:\n"
        "        return [0.0] * len(rewards)\n"
        "    mean = statistics.fmean(rewards)\n"
        "    return [(r - mean) / statistics.stdev(rewards) for r in rewards]\n\n\n"
        'lesson.check("advantages", advantages_of)',
    )
    lesson.says("Right: The advantages of any group")
    notebook.screenshot("5-function", exercise)

    # A result waits for a prediction.
    waiting = notebook.cell("guess_sign.reveal")
    waiting.get_by_role("button", name="Show the result").click()
    waiting.get_by_role("alert").wait_for()
    assert "Write a number first" in waiting.get_by_role("alert").text_content()
    notebook.screenshot("6-predict-first", waiting)
    waiting.get_by_role("textbox").last.fill("-0.5")
    waiting.get_by_role("textbox").last.press("Tab")
    waiting.get_by_role("button", name="Show the result").click()
    waiting.locator(".rlkit-card", has_text="You said -0.5").wait_for()
    notebook.screenshot("7-revealed", waiting)

    # A click is one step, and only one; the figure follows.
    before, drawn = lesson.step(), lesson.drawn()
    lesson.button("Run one step").click()
    lesson.counter.filter(has_text=f"Step {before + 1}").first.wait_for()
    lesson.idle()
    page.wait_for_timeout(1000)
    assert lesson.step() == before + 1
    assert lesson.drawn() != drawn
    notebook.screenshot("8-one-step", lesson.button("Run one step"))

    # The slider is dragged to the left.
    handle = notebook.sheet.locator(".noUi-handle").first
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 35, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    notebook.sheet.get_by_text(re.compile("÷[248] gives")).first.wait_for()

    # Ten steps are stopped before they are done.
    before = lesson.step()
    lesson.button("Run 10 steps").click()
    lesson.button("Stop").and_(page.locator(":enabled")).wait_for()
    lesson.button("Stop").click()
    lesson.idle()
    assert before < lesson.step() < before + 10

    # The figure is drawn, with its words and its data beside it.
    assert lesson.plot.locator(".scatter").count() > 0
    assert notebook.sheet.locator("details table").count() > 0
    for number in range(notebook.cells.count()):
        notebook.screenshot(f"9-cell-{number:02}", notebook.cells.nth(number))

    assert lesson.figure_is_seen()
    notebook.wear("Dark")
    assert lesson.figure_is_seen()
    for name, element in (
        ("panel", lesson.button("Run one step")),
        ("exercise", exercise),
        ("prediction", waiting),
        ("quiz", notebook.cell("lesson.quiz")),
    ):
        notebook.screenshot(f"dark-{name}", element)

    page.set_viewport_size(PHONE)
    page.wait_for_timeout(2000)
    assert lesson.figure_is_seen()
    for name, element in (
        ("panel", lesson.button("Run one step")),
        ("exercise", exercise),
        ("prediction", waiting),
        ("quiz", notebook.cell("lesson.quiz")),
    ):
        notebook.screenshot(f"phone-dark-{name}", element)
    notebook.wear("Light")
    notebook.screenshot("phone-panel", lesson.button("Run one step"))
    notebook.screenshot("phone-figure", lesson.plot)
    notebook.screenshot("phone-top", notebook.sheet.locator("h1"))
    assert lesson.figure_is_seen()
    assert overflowing(notebook) == []
    assert notebook.failures() == []
    assert notebook.errors == []


def test_lesson_00_by_keyboard_alone(open_notebook):
    """From the command palette to a step of training without the mouse."""
    notebook = open_notebook(LESSON)
    lesson, page = Lesson(notebook), notebook.page
    keys = page.keyboard
    active = page.locator(".jp-Notebook .jp-Cell.jp-mod-active")

    keys.press("Control+Shift+c")
    keys.type("Run All Cells", delay=20)
    page.locator(".lm-CommandPalette-item.lm-mod-active", has_text="Run All Cells").wait_for()
    keys.press("Enter")
    notebook.wait_until_all_ran()

    # Arrows lead to the exercise; Enter opens it.
    for _ in range(80):
        if 'lesson.check("group_of_one"' in active.locator(".cm-content").text_content():
            break
        keys.press("ArrowUp")
    else:
        pytest.fail("the arrow keys did not lead to the exercise")
    keys.press("Enter")
    keys.press("Control+a")
    keys.type("advantage_of_one = 0\n")
    keys.type('lesson.check("group_of_one", advantage_of_one)')
    keys.press("Shift+Enter")
    lesson.says("Right: A group of one")

    # And on to the panel, and with the tabulator into it.
    for _ in range(80):
        if "lab.Dashboard(loop)" in active.locator(".cm-content").text_content():
            break
        keys.press("ArrowDown")
    else:
        pytest.fail("the arrow keys did not lead to the panel")
    focused = "document.activeElement?.textContent?.trim()"
    seen = []
    for _ in range(40):
        keys.press("Tab")
        seen.append(page.evaluate(focused))
        if seen[-1] == "Run one step":
            break
    else:
        pytest.fail(f"the tabulator did not lead to the button: {seen}")
    notebook.screenshot("keyboard-1-button")
    before, drawn = lesson.step(), lesson.drawn()
    keys.press("Enter")
    lesson.counter.filter(has_text=f"Step {before + 1}").first.wait_for()
    lesson.idle()
    page.wait_for_timeout(1000)
    assert lesson.drawn() != drawn

    # Further on in the panel stands the slider, which the arrows move.
    for _ in range(10):
        keys.press("Tab")
        if page.evaluate("document.activeElement?.classList.contains('noUi-handle')"):
            break
    else:
        pytest.fail("the tabulator did not lead to the slider")
    keys.press("ArrowLeft")
    notebook.sheet.get_by_text("÷2 gives").first.wait_for()
    notebook.screenshot("keyboard-2-slider")
    assert notebook.failures() == []
    assert notebook.errors == []
