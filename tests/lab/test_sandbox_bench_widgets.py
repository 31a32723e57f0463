"""The sandbox bench's widgets, driven through their own messages, without a browser."""

from __future__ import annotations

import pytest

pytest.importorskip("ipywidgets")

from rlkit import lab
from rlkit.sandbox import Limits, Sandbox, languages

pytestmark = pytest.mark.timeout(120)

SORTS = "def f(x):\n    return sorted(x)\n"
TESTS = "assert f([3, 1, 2]) == [1, 2, 3]\nassert f([2, 2]) == [2, 2]"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    limits = Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256)
    with Sandbox(limits, workers=2, allow_unsafe=True) as sandbox:
        yield lab.sandbox_bench(SORTS, tests=TESTS, limits=limits, sandbox=sandbox)


def press(bench, button):
    assert not button.disabled
    button.click()
    bench.wait()


def test_run_shows_the_verdict_and_its_timeline(bench):
    c = bench._controls
    assert c.timeline.box.layout.display == "none"
    c.source.value = "def f(x):\n    return x\n"
    press(bench, c.run)
    assert "FAIL" in c.verdict.value and "1 of 2 tests passed" in c.verdict.value
    assert c.timeline.box.layout.display is None
    assert "Timeline over" in c.timeline.shown[0]["data"]["text/plain"]
    assert bench.settings.source.startswith("def f(x):\n    return x")
    assert not c.run.disabled and "Running" not in c.state.value


def test_the_sliders_are_limits(bench):
    c = bench._controls
    c.sliders["wall_s"].value = 0.5
    c.source.value = "import time\ndef f(x):\n    time.sleep(9)\n"
    press(bench, c.run)
    assert "stopped after 0.5 s" in c.verdict.value
    assert "The supervisor ended it: wall clock" in c.verdict.value


def test_a_program_is_picked_with_its_tests_and_limits(bench):
    c = bench._controls
    c.program.value = "hostile: floods stdout"
    assert "while True" in c.source.value and "print" in c.source.value
    assert "Prints for ever" in c.says.value
    assert c.sliders["memory_mb"].value == 256
    press(bench, c.run)
    assert "OUTPUT_LIMIT" in c.verdict.value


def test_a_language_brings_a_program_of_its_own_and_its_only_mode(bench):
    c = bench._controls
    c.language.value = "bash"
    assert bench.settings.language == "bash" and "stdout" in c.tests.value
    assert [mode for _, mode in c.mode.options] == ["io"]
    assert c.sliders["processes"].value == languages.get("bash").processes
    press(bench, c.run)
    assert "2 of 2 tests passed" in c.verdict.value
    c.language.value = "python"
    assert [mode for _, mode in c.mode.options] == ["func", "io", "proxy", "inproc"]


def test_another_mode_keeps_what_was_typed_if_its_tests_fit(bench):
    c = bench._controls
    c.source.value = "def f(x):\n    return sorted(set(x))\n"
    c.mode.value = "proxy"
    assert "set(x)" in c.source.value and "assert" in c.tests.value
    press(bench, c.run)
    assert "1 of 2 tests passed" in c.verdict.value
    c.mode.value = "io"
    assert "stdout" in c.tests.value


def test_a_test_that_cannot_be_read_is_an_alert_and_nothing_runs(bench):
    c = bench._controls
    c.tests.value = "assert f(1) > 2"
    c.run.click()
    assert 'role="alert"' in c.alert.box.value and "proxy" in c.alert.box.value
    assert bench.verdict is None and not c.run.disabled


def test_what_goes_wrong_in_the_background_is_shown(bench):
    c = bench._controls
    bench.sandbox.close()
    press(bench, c.run)
    assert 'role="alert"' in c.alert.box.value and "closed" in c.alert.box.value
    assert not c.run.disabled


def test_ten_runs_are_mapped_and_flaky_ones_named(bench):
    c = bench._controls
    c.source.value = "import random\ndef f(x):\n    return x if random.random() < .5 else sorted(x)"
    press(bench, c.ten)
    assert "Flaky: 10 runs (another seed each time)" in c.map_says.value
    assert "10 runs" in c.map.shown[0]["data"]["text/plain"]
    c.same_seed.value = True
    press(bench, c.ten)
    assert "All 10 runs ended alike (the same seed)" in c.map_says.value


def test_all_programs_are_tried_on_the_tests(bench):
    c = bench._controls
    c.sliders["wall_s"].value = 0.25
    press(bench, c.all)
    assert "honest: sorts a list" in str(bench.tried)
    assert c.map.box.layout.display is None
    press(bench, c.ten)  # the newest map is the one that is shown
    assert "10 runs" in c.map.shown[0]["data"]["text/plain"]


def test_what_it_shows_where_no_widgets_are(bench):
    bundle = bench._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "your front end shows no widgets" in bundle["text/html"]
    assert "Nothing was run yet" in bundle["text/plain"]
