"""A lesson counts, remembers, looks answers up, and says which length runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rlkit.lessons
from rlkit import lessons
from rlkit.errors import UserError

BINDER = ("BINDER_SERVICE_HOST", "BINDER_REPO_URL")

pytestmark = pytest.mark.usefixtures("desk")


def half_of(x):
    return x / 2


def share(answers, right):
    return sum(a == right for a in answers) / len(answers)


def saved(exercise):
    return lessons.progress().to_dict()["lessons"]["97_practice"]["exercises"][exercise]


def test_attempts_and_states_are_counted(lesson):
    assert lesson.check("half", ...).attempts == 0  # nothing was tried
    assert lesson.check("half", 0.3).attempts == 1
    assert lesson.check("half", 0.4).attempts == 2
    assert lesson.check("half", 0.5).attempts == 3
    assert saved("half") == {"state": "RIGHT", "right": True, "attempts": 3}
    # what was right once stays done, whatever is tried afterwards
    assert lesson.check("half", 0.6).state == "WRONG"
    assert saved("half") == {"state": "WRONG", "right": True, "attempts": 4}
    assert lesson.strip().done == 1


def test_the_answer_is_looked_up_by_its_name(lesson):
    assert lesson.check("share").right
    assert lesson.check("half").message == (
        "TODO: nothing has this name yet. Write your answer and run this again."
    )


def test_a_check_shows_itself_as_html_and_text(lesson, outline):
    bundle = lesson.check("half", 0.25)._repr_mimebundle_()
    assert bundle["text/plain"].startswith("✗ Not yet: One half\n")
    page = outline(bundle["text/html"])
    assert "off by 0.25" in page.text
    assert ("role", "status") in page.attributes
    assert ("aria-live", "polite") in page.attributes


def test_a_check_of_a_function_takes_less_than_a_second_of_processor_time(lesson):
    import resource
    import time

    lesson.check("share", share)  # the sandbox looks at this machine once
    before = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    lesson.check("share", share)
    after = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    assert after - before < 1.0


def test_opening_says_the_length_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setenv("RLKIT_MODE", "fast")
    lessons.open("97_practice")
    assert capsys.readouterr().out == (
        "This is the fast length, because RLKIT_MODE is fast. For the full length set "
        "RLKIT_MODE=full before the kernel starts.\n"
    )


def test_the_lesson_shows_title_length_and_strip(lesson):
    shown = lesson._repr_mimebundle_()
    assert shown["text/plain"].startswith("Practice\nThis is the fast length")
    assert "Practice: 0 of 2 done" in shown["text/plain"]
    assert "RLKIT_MODE=full" in shown["text/html"]


@pytest.mark.parametrize(
    ("environment", "name", "reason"),
    [
        ({"RLKIT_HEADLESS": "0"}, "full", "the usual one on a machine of one's own"),
        ({"RLKIT_HEADLESS": "1"}, "fast", "because no notebook front end is watching"),
        (
            {"RLKIT_HEADLESS": "0", "BINDER_SERVICE_HOST": "x"},
            "fast",
            "because Binder's sessions are short",
        ),
        (
            {"RLKIT_HEADLESS": "1", "RLKIT_MODE": "full"},
            "full",
            "because RLKIT_MODE is full",
        ),
    ],
)
def test_the_length_and_why(monkeypatch, environment, name, reason):
    for variable in BINDER:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    mode = lessons.mode()
    assert mode == name
    assert f"{mode}" == name
    assert reason in mode.sentence
    assert repr(mode) == mode.sentence
    assert lessons.pick(fast=1, full=2) == (1 if name == "fast" else 2)


def test_a_length_that_is_none(monkeypatch):
    monkeypatch.setenv("RLKIT_MODE", "slow")
    with pytest.raises(UserError, match="RLKIT_MODE must be 'fast' or 'full'"):
        lessons.mode()


def test_names_for_the_progress_file(lesson):
    with pytest.raises(UserError, match="needs a name"):
        lesson.predict("", "?")
    with pytest.raises(UserError, match="needs a name"):
        lesson.quiz(3, [])


def test_every_public_name_is_there_and_none_is_hidden_by_a_module():
    modules = {path.stem for path in Path(rlkit.lessons.__file__).parent.glob("*.py")}
    assert not modules & set(lessons.__all__)
    for name in lessons.__all__:
        assert getattr(lessons, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        lessons.nothing  # noqa: B018


def test_opening_and_checking_import_nothing_heavy():
    """No torch, no widgets, no plotly until something is shown in a front end."""
    code = (
        "import json, sys\n"
        "from rlkit import lessons\n"
        "light = len(sys.modules)\n"
        "lesson = lessons.open('97_practice')\n"
        "print(str(lesson.check('half', 0.5)), str(lesson.strip()))\n"
        "print(json.dumps([light, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light, modules = json.loads(done.stdout.splitlines()[-1])
    assert light < 100  # a bare interpreter has about 40, and an editable install adds some
    assert "✓ Right: One half" in done.stdout
    heavy = {"torch", "transformers", "ipywidgets", "plotly", "numpy", "IPython"}
    assert not heavy & set(modules)
