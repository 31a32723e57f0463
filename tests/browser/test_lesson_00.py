"""Lesson 00 in JupyterLab, as a learner has it: Run All, press buttons, read the panel."""

from __future__ import annotations

import re
import time

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

LESSON = "00_start_here.ipynb"
CODE_CELLS = "[...document.querySelectorAll('.jp-Notebook .jp-CodeCell')]"
PROMPTS = f"{CODE_CELLS}.map(c => c.querySelector('.jp-InputPrompt').textContent)"
ALL_RUN = f"{PROMPTS}.every(p => /\\[\\d+\\]/.test(p))"
FAILED = (
    "[...document.querySelectorAll('.jp-RenderedText[data-mime-type=\"application/"
    'vnd.jupyter.error"], .jp-OutputArea-output[data-mime-type*="error"]\')]'
    ".map(e => e.textContent.slice(0, 800))"
)
SHEET = "[...window.jupyterapp.shell.widgets('main')][0]"
KERNEL = f"{SHEET}?.sessionContext?.session?.kernel"
COUNTER = "document.querySelector('.jp-Notebook [role=status]')"


def button(text: str) -> str:
    """JavaScript that finds the panel's button with this text."""
    return (
        "[...document.querySelectorAll('.jp-Notebook button.widget-button')]"
        f".find(b => b.textContent.trim() === '{text}')"
    )


def step_shown(page) -> int:
    found = re.search(r"Step (\d+)", page.evaluate(f"{COUNTER}.textContent"))
    assert found is not None
    return int(found[1])


@pytest.fixture
def lesson(browser, jupyterlab):
    """The lesson opened in JupyterLab, all of its cells run."""
    address, token = jupyterlab
    page = browser()
    page.open(f"{address}/lab/tree/{LESSON}?token={token}")
    page.wait_for("!!document.querySelector('.jp-Notebook .jp-CodeCell')", 120)
    page.wait_for("!!window.jupyterapp && window.jupyterapp.restored.then(() => true)", 60)
    page.wait_for(f"{KERNEL}?.status === 'idle'", 120, "the kernel")
    page.wait_for("!document.querySelector('.jp-Spinner')", 60)
    page.evaluate("void window.jupyterapp.commands.execute('application:toggle-left-area')")
    page.evaluate(f"void window.jupyterapp.shell.activateById({SHEET}.id)")
    assert page.evaluate("document.querySelectorAll('.jp-Dialog').length") == 0
    page.screenshot("1-opened")
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for(f"!!{COUNTER} || {FAILED}.length > 0", 240, "the panel")
    page.screenshot("2-panel-at-first", button("Run one step"))
    while not page.evaluate(ALL_RUN):
        failed = page.evaluate(FAILED)
        assert failed == []
        time.sleep(1)
    return page


def test_lesson_00_runs_and_its_panel_works(lesson):
    page = lesson
    assert page.evaluate(FAILED) == []
    trained = step_shown(page)
    assert trained > 0
    page.screenshot("3-panel-after-training", button("Run one step"))

    # A click with the mouse is one step, and only one.
    page.click(button("Run one step"))
    page.wait_for(f"{COUNTER}.textContent.includes('Step {trained + 1}')", 120)
    page.wait_for(f"!{button('Run one step')}.disabled", 60)
    time.sleep(1)
    assert step_shown(page) == trained + 1
    page.screenshot("4-one-step", button("Run one step"))

    # The learning rate moves with the arrow keys.
    page.evaluate("document.querySelector('.jp-Notebook .noUi-handle').focus()")
    page.press("ArrowLeft", 37)
    page.wait_for("document.querySelector('.jp-Notebook').textContent.includes('÷2 gives')", 20)

    # Ten steps are stopped before they are done; the buttons say what may be pressed.
    page.click(button("Run 10 steps"))
    page.wait_for(f"{button('Run one step')}.disabled && !{button('Stop')}.disabled", 60)
    page.wait_for(f"!{COUNTER}.textContent.includes('Step {trained + 1} ')", 120)
    page.screenshot("5-training", button("Run one step"))
    page.click(button("Stop"))
    page.wait_for(f"!{button('Run one step')}.disabled", 120)
    assert trained + 1 < step_shown(page) < trained + 11

    # The figure is drawn, with its words and its data beside it.
    assert page.evaluate("!!document.querySelector('.jp-Notebook .js-plotly-plot .scatter')")
    assert page.evaluate("[...document.querySelectorAll('.jp-Notebook details table')].length > 0")
    page.screenshot("6-stopped", button("Run one step"))
    assert page.evaluate("document.querySelectorAll('.jp-Notebook h1').length") == 1
    cells = page.evaluate(f"{CODE_CELLS}.length")
    for number in range(cells):
        page.screenshot(f"7-cell-{number:02}", f"{CODE_CELLS}[{number}]")
    assert page.errors == []
