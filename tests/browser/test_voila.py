"""The report of the newest run as a page of Voila's, and as the file that `rlkit report` writes."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

PAGE = Path(__file__).resolve().parents[2] / "notebooks" / "pages" / "report.ipynb"


@pytest.fixture(scope="module")
def runs(browser, tmp_path_factory) -> Path:
    """A folder with a small run: two real steps of training."""
    from rlkit.loop.config import LoopConfig
    from rlkit.loop.demo import run_demo

    folder = tmp_path_factory.mktemp("work") / "runs"
    run_demo(
        policy="tiny",
        domains=["pyfunc"],
        steps=2,
        run=folder / "two-steps",
        config=LoopConfig(group_size=4, problems_per_step=4, seed=0),
        problems=8,
        say=lambda _: None,
        progress=False,
    )
    return folder


def test_voila_shows_the_report_of_the_newest_run(runs, serve, window):
    if find_spec("voila") is None:
        pytest.skip("voila is not installed; make browser installs it")
    # As in the Makefile: jupytext's extension is one for JupyterLab.
    deny = "--VoilaConfiguration.extension_denylist=['jupyterlab-jupytext']"
    address = serve("voila", str(PAGE), deny, ready="/api/kernels", RLKIT_RUNS=str(runs))
    seen = window()
    page = seen.page
    page.goto(address, timeout=120_000)
    frame = page.frame_locator("iframe[title='Report of the run two-steps']")
    frame.get_by_role("heading", level=1).wait_for(timeout=120_000)
    frame.locator(".js-plotly-plot .scatter").first.wait_for()
    assert "pyfunc" in frame.locator("body").text_content()
    seen.screenshot("voila")
    # The notebook's code is not shown, and its widgets work.
    assert page.locator(".jp-CodeMirrorEditor:visible, .cm-editor:visible").count() == 0
    page.get_by_role("button", name="Read again").click()
    page.wait_for_timeout(1000)
    frame.get_by_role("heading", level=1).wait_for()
    assert page.get_by_role("alert").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(1000)
    seen.screenshot("voila-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # Voila's own template asks a CDN for its icons; this page has none and does without.
    mine = [e for e in seen.errors if not re.search(r"favicon|cdn\.jsdelivr\.net", e)]
    assert mine == [], "\n".join(mine)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_without_a_server(runs, window, scheme):
    from rlkit.lab.report import write_report

    seen = window(color_scheme=scheme)
    seen.page.goto(write_report(runs / "two-steps").as_uri())
    seen.page.locator(".js-plotly-plot .scatter").first.wait_for()
    seen.screenshot(f"report-{scheme}")
    assert seen.errors == []
