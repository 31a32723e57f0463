"""`rlkit sandbox`: run, cache, and what it says to a person and to a program."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rlkit.commands.sandbox import app
from rlkit.errors import UserError
from rlkit.sandbox import Limits, languages
from rlkit.sandbox.job_file import language_of, limits_of, mode_of, read_tests, spec_of


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sq.py").write_text("def sq(x):\n    return x * x if x != 3 else 7\n")
    (tmp_path / "good.json").write_text('[{"args": [2], "expected": 4}]')
    (tmp_path / "both.json").write_text(
        '[{"args": [2], "expected": 4}, {"name": "odd", "args": [3], "expected": 9}]'
    )
    (tmp_path / "twice.sh").write_text('read n; echo $((n * 2)); echo "$@" >&2\n')
    return tmp_path


def run(*words: str, **options):
    return CliRunner().invoke(app, list(words), **options)


def test_tests_from_a_file_decide_and_so_does_the_exit_code(folder):
    good = run("run", "sq.py", "--entry", "sq", "--tests", "good.json")
    assert good.exit_code == 0, good.output
    assert "PASS: 1 of 1 tests passed" in good.stderr
    bad = run("run", "sq.py", "--entry", "sq", "--tests", "both.json")
    assert bad.exit_code == 1
    assert "FAIL: 1 of 2 tests passed; sq(3) returned 7, expected 9" in bad.stderr


def test_json_says_all_of_it_and_nothing_else(folder):
    found = json.loads(
        run("run", "sq.py", "--entry", "sq", "--tests", "both.json", "--json").stdout
    )
    assert (found["status"], found["reward"], found["passed"]) == ("FAIL", 0.5, 1)
    assert [t["status"] for t in found["tests"]] == ["PASS", "FAIL"]
    assert found["tests"][1]["name"] == "odd"
    assert found["isolation"]["level"] in ("CONFINED", "NAMESPACED")
    assert found["summary"].startswith("1 of 2")
    assert found["queue_s"] >= 0


@pytest.mark.skipif(
    not hasattr(languages.detect("bash"), "version"), reason="bash is not on this machine"
)
def test_a_program_that_nobody_judges_just_ran(folder):
    ran = run("run", "twice.sh", "--stdin", "21\n", "--arg", "a", "--arg", "b c")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout == "42\n"
    assert "a b c" in ran.stderr
    assert "RAN (exit code 0" in ran.stderr
    facts = json.loads(run("run", "twice.sh", "--stdin", "21\n", "--json").stdout)
    assert (facts["status"], facts["reward"]) == ("RAN", None)  # nobody said what is right
    right = run("run", "twice.sh", "--stdin", "4\n", "--expect", "8")
    wrong = run("run", "twice.sh", "--stdin", "4\n", "--expect", "9", "--json")
    assert (right.exit_code, wrong.exit_code) == (0, 1)
    assert json.loads(wrong.stdout)["status"] == "FAIL"


def test_a_program_from_standard_input_and_input_from_a_file(folder):
    (folder / "in.txt").write_bytes(b"5\n")
    ran = run("run", "-", "--lang", "py", "--stdin-file", "in.txt", input="print(int(input()) + 1)")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout == "6\n"


def test_what_a_program_prints_cannot_move_the_cursor(folder):
    (folder / "rude.py").write_text("print('\\x1b[2J\\x07<b>ok</b>')\n")
    ran = run("run", "rude.py")
    assert ran.stdout == "\\x1b[2J\\x07<b>ok</b>\n"


def test_a_limit_that_was_typed_holds(folder):
    (folder / "slow.py").write_text("while True: pass\n")
    slow = run("run", "slow.py", "--wall", "0.3", "--json")
    assert slow.exit_code == 1
    assert json.loads(slow.stdout)["status"] == "TIMEOUT"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nope.py"], "cannot be read"),
        (["run", "sq.txt"], "give --lang"),
        (["run", "sq.py", "--lang", "klingon"], "language 'klingon'"),
        (["run", "sq.py", "--tests", "nope.json"], "cannot be read"),
        (["run", "sq.py", "--tests", "good.json", "--stdin", "1"], "stands in the file"),
        (["run", "sq.py", "--tests", "good.json"], "entry"),
        (["run", "sq.py", "--stdin", "1", "--stdin-file", "f"], "not both"),
        (["run", "sq.py", "--backend", "magic"], "backend 'magic'"),
        (["run", "sq.py", "--wall", "-1"], "wall_s=-1"),
        (["run", "latin.py"], "not UTF-8"),
    ],
)
def test_a_mistake_is_one_sentence(folder, words, says):
    (folder / "latin.py").write_bytes(b"# \xe9\n")
    result = run(*words)
    assert isinstance(result.exception, UserError), result.output
    assert says in str(result.exception)


def test_the_cache_is_used_when_asked_counted_and_cleared(folder):
    words = ("run", "sq.py", "--entry", "sq", "--tests", "good.json", "--json")
    assert json.loads(run("cache", "stats", "--json").stdout)["entries"] == 0
    assert "nothing is kept" in run("cache", "stats").stdout
    assert not (folder / "home").exists()  # asking makes no file
    run(*words)
    assert not (folder / "home" / "sandbox" / "results.sqlite3").exists()
    first, second = (json.loads(run(*words, "--cache").stdout) for _ in range(2))
    assert (first["cached"], second["cached"] or second["flaky"] is False) == (False, True)
    assert json.loads(run("cache", "stats", "--json").stdout)["entries"] == 1
    assert "1 results" in run("cache", "stats").stdout
    assert "1 results removed" in run("cache", "clear").stdout
    assert json.loads(run("cache", "clear", "--json").stdout)["removed"] == 0


def test_doctor_says_the_level(folder):
    found = json.loads(run("doctor", "--json").stdout)
    assert "NAMESPACED" in json.dumps(found) or "CONFINED" in json.dumps(found)


def test_check_attacks_it_and_says_what_held(folder):
    done = run("check", "--corpus", "hostile", "--only", "infinite loop", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [case["ok"] for case in found["cases"]] == [True]
    assert not found["left_behind"]


# -- files of tests --------------------------------------------------------------------------


def test_a_file_of_tests_may_hold_a_whole_job(tmp_path):
    (tmp_path / "t.json").write_text(
        json.dumps(
            {
                "tests": [{"stdin": "1", "expected": "2", "checker": "tokens", "argv": ["-v"]}],
                "limits": {"wall_s": 1.5},
                "stop_on_first": True,
            }
        )
    )
    found = read_tests(tmp_path / "t.json")
    assert (found["mode"], found["limits"], found["stop_on_first"]) == (
        "io",
        Limits(wall_s=1.5),
        True,
    )
    (test,) = found["tests"]
    assert (test.stdin, test.checker, test.argv, test.name) == ("1", "tokens", ("-v",), "test 1")


def test_json_has_no_tuples_so_they_stand_for_lists():
    assert spec_of({"args": [1], "expected": [1, 2]}).tuples_as_lists
    assert not spec_of({"args": [1], "expected": [1, 2], "tuples_as_lists": False}).tuples_as_lists


def test_the_mode_follows_from_the_tests():
    assert mode_of([spec_of({"code": "assert f(1)"})]) == "proxy"
    assert mode_of([spec_of({"argv": ["a"], "expected": "x"})]) == "io"
    assert mode_of([spec_of({"args": [1], "expected": 2})]) == "func"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read"),
        ("3", 'an object with "tests"'),
        ('{"entry": "f"}', 'an object with "tests"'),
        ('[{"arg": [1]}]', "test 1 has no field arg; it has args"),
        ("[4]", "test 1 must be an object"),
        ('{"tests": [], "colour": 1}', "has no field colour"),
        ('{"tests": [], "limits": {"speed": 1}}', "limits has no field speed"),
        ('{"tests": [], "limits": 3}', "limits must be an object"),
        ('[{"checker": 3}]', "checker of test 1"),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path, text, says):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(UserError, match="(?s)" + says.replace("(", r"\(")):
        read_tests(tmp_path / "t.json")


def test_a_language_is_told_by_its_ending():
    assert language_of("a.CPP") == "cpp"
    assert language_of("a.py", "c++") == "c++"
    assert limits_of({"memory_mb": 100}).memory_mb == 100
