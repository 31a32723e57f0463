"""Answer books are found, read, and refused with a sentence."""

from __future__ import annotations

import json

import pytest

from rlkit import lessons
from rlkit.errors import UserError
from rlkit.lessons.book import FOLDER, AnswerBook

pytestmark = pytest.mark.usefixtures("desk")


def shelf(monkeypatch, tmp_path, **books):
    folder = tmp_path / "books"
    folder.mkdir()
    for name, content in books.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    monkeypatch.setenv("RLKIT_BOOKS", str(folder))


def book(**exercise):
    given = {"title": "T", "hints": ["a", "b", "c"], "solution": "x = 1", "checks": "EXERCISE = 1"}
    return {"lesson": "x", "title": "X", "exercises": {"one": {**given, **exercise}}}


def test_the_practice_book_lies_on_the_shelf_beside_the_packages_own():
    assert "97_practice" in lessons.known()
    assert {path.stem for path in FOLDER.glob("*.json")} <= set(lessons.known())


def test_an_unknown_lesson_is_told_with_the_nearest_and_all_names():
    with pytest.raises(UserError) as caught:
        lessons.open("97_practise")
    assert str(caught.value).startswith(
        "there is no lesson '97_practise'; did you mean '97_practice'? There are "
    )
    with pytest.raises(UserError, match=r"there is no lesson 'zzz'; there are .*97_practice"):
        lessons.open("zzz")
    with pytest.raises(UserError, match=r"there is no lesson '\.\./shelf/97_practice'"):
        lessons.open("../shelf/97_practice")


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        [],
        {"title": "X"},
        book(hints=["a"]),
        book(hints=["a", "b", ""]),
        book(solution=None),
        {"title": "X", "exercises": {"one": "text"}},
    ],
)
def test_a_broken_book_is_told(monkeypatch, tmp_path, content):
    shelf(monkeypatch, tmp_path, x=content)
    with pytest.raises(UserError, match=r"the answer book x\.json cannot be read"):
        AnswerBook.load("x")


def test_checks_that_define_no_exercise(monkeypatch, tmp_path):
    shelf(monkeypatch, tmp_path, x=book())
    with pytest.raises(UserError, match="the checks of exercise 'one' in lesson x must define"):
        AnswerBook.load("x").exercise("one")


def test_an_unknown_exercise_is_told(lesson):
    for method in (lesson.check, lesson.hint, lesson.solution):
        with pytest.raises(UserError, match="has no exercise 'shares'; did you mean 'share'"):
            method("shares")


def test_the_checks_are_run_once():
    opened = AnswerBook.load("97_practice")
    assert opened.exercise("share") is opened.exercise("share")


def test_the_checks_in_every_shipped_book_define_their_exercise():
    for path in FOLDER.glob("*.json"):
        opened = AnswerBook.load(path.stem)
        for name in opened.exercises:
            assert opened.exercise(name).id == name
