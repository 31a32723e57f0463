"""One small file: safe for two processes, for a broken file, and for a folder without a pen."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rlkit import lessons
from rlkit.errors import UserError
from rlkit.lessons.store import Store, empty, of_lesson

WRITER = """
import sys
from rlkit.lessons.store import Store, of_lesson
def add(data):
    saved = of_lesson(data, "x")["exercises"].setdefault("one", {})
    saved["attempts"] = saved.get("attempts", 0) + 1
store = Store()
for _ in range(int(sys.argv[1])):
    store.update(add)
assert store.note is None, store.note
"""

pytestmark = pytest.mark.usefixtures("desk")


def attempts(data) -> int:
    return of_lesson(data, "x")["exercises"]["one"]["attempts"]


def add(data):
    saved = of_lesson(data, "x")["exercises"].setdefault("one", {})
    saved["attempts"] = saved.get("attempts", 0) + 1


def test_two_kernels_lose_nothing(desk):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, "40"]) for _ in range(2)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert attempts(Store().read()) == 80
    assert sorted(p.name for p in desk.iterdir()) == ["progress.json", "progress.lock"]


def test_progress_is_small_and_plain(desk):
    store = Store()
    store.update(add)
    data = json.loads((desk / "progress.json").read_text())
    assert data["version"] == 1
    assert data["lessons"]["x"]["exercises"] == {"one": {"attempts": 1}}
    assert store.note is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"version": 1, "less', "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[]", "it has no version"),
        (b'{"version": 1}', "it has no lessons"),
        (b'{"version": 1, "lessons": {"x": 3}}', "a lesson in it is not a table"),
        (b'{"version": 1, "lessons": {"x": {"quizzes": []}}}', "the quizzes of a lesson"),
        (
            b'{"version": 1, "lessons": {"x": {"exercises": {"one": {"attempts": "many"}}}}}',
            "attempts of exercises in it is not what it should be",
        ),
    ],
)
def test_a_broken_file_is_kept_and_told_and_progress_begins_anew(desk, content, reason):
    desk.mkdir()
    (desk / "progress.json").write_bytes(content)
    store = Store()
    assert store.read() == empty()
    assert reason in store.note
    store.update(add)
    assert reason in store.note
    assert "it is kept as progress.json.broken-1, and progress begins anew" in store.note
    assert (desk / "progress.json.broken-1").read_bytes() == content
    assert attempts(Store().read()) == 1
    store.update(add)
    assert store.note is None
    (desk / "progress.json").write_bytes(content)
    Store().update(add)
    assert (desk / "progress.json.broken-2").read_bytes() == content


def test_a_file_of_a_newer_rlkit_is_left_alone(desk):
    desk.mkdir()
    text = json.dumps({"version": 2, "lessons": {}})
    (desk / "progress.json").write_text(text)
    store = Store()
    data = store.update(add)
    assert attempts(data) == 1
    assert "written by a newer rlkit (version 2); update rlkit" in store.note
    assert (desk / "progress.json").read_text() == text
    # it lasts as long as the kernel, and is said once
    assert attempts(store.update(add)) == 2
    assert store.note is None
    assert attempts(store.read()) == 2


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "file" / "home"))
    store = Store()
    assert attempts(store.update(add)) == 1
    assert "progress cannot be saved in" in store.note
    assert "set RLKIT_HOME to another folder" in store.note
    assert attempts(store.update(add)) == 2


def test_trouble_is_told_with_the_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "file" / "home"))
    lesson = lessons.open("97_practice")
    assert "Note: progress cannot be saved" in capsys.readouterr().out
    assert lesson.check("half", 0.5).right
    assert lesson.strip().done == 1


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("RLKIT_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    if os.name == "posix":
        assert Store().path == tmp_path / ".rlkit" / "progress.json"


def test_progress_over_all_lessons(lesson):
    lesson.check("half", 0.25)
    shown = str(lessons.progress())
    assert "97_practice (Practice): 0 of 2 done" in shown
    assert "  ✗ One half: not yet, 1 try" in shown
    assert "  ○ The share of right answers: open" in shown
    html = lessons.progress()._repr_mimebundle_()["text/html"]
    assert '<th scope="row"' in html
    assert "<caption>Your progress</caption>" in html


def test_progress_without_any_is_no_error(desk):
    assert "97_practice (Practice): 0 of 2 done" in str(lessons.progress())
    assert not desk.exists()  # looking writes nothing


def test_export(lesson, tmp_path, desk):
    lesson.check("half", 0.5)
    written = lessons.export_progress(tmp_path / "mine.json")
    assert json.loads(written.read_text()) == lessons.progress().to_dict()
    assert lessons.export_progress(tmp_path).name == "progress.json"
    with pytest.raises(UserError, match="is the progress file itself"):
        lessons.export_progress(desk)
    with pytest.raises(UserError, match=r"cannot be written to .*choose another path"):
        lessons.export_progress(tmp_path / "nowhere" / "mine.json")


def test_reset_keeps_the_old_file(lesson, desk):
    lesson.check("half", 0.5)
    with pytest.raises(UserError, match="there is no progress in lesson 'y'; begun are: 97_prac"):
        lessons.reset_progress("y")
    said = lessons.reset_progress("97_practice")
    assert said.startswith("Progress in lesson 97_practice begins anew. What was there is kept in")
    assert lessons.progress().to_dict() == empty()
    kept = json.loads((desk / "progress-before-reset.json").read_text())
    assert kept["lessons"]["97_practice"]["exercises"]["half"]["right"] is True
    lesson.check("half", 0.5)
    assert lessons.reset_progress().startswith("Progress in all lessons begins anew.")
    assert lessons.progress().to_dict() == empty()
    assert lesson.strip().done == 0
