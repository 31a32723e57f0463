"""A learner's desk: a shelf with one small book, and a progress file of its own."""

from __future__ import annotations

import html.parser
import json
import runpy
from pathlib import Path

import pytest

from rlkit import lessons

PRACTICE = Path(__file__).with_name("practice.py")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """The folder of the progress file; nothing ever touches the real one."""
    book = runpy.run_path(str(PRACTICE))["BOOK"]
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / f"{book['lesson']}.json").write_text(json.dumps(book), encoding="utf-8")
    monkeypatch.setenv("RLKIT_BOOKS", str(shelf))
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    monkeypatch.delenv("RLKIT_MODE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def lesson(desk):
    return lessons.open("97_practice")


@pytest.fixture
def front_end(monkeypatch):
    """As in a notebook: widgets are built."""
    monkeypatch.setenv("RLKIT_HEADLESS", "0")


class Outline(html.parser.HTMLParser):
    """Collects the tags, the attributes and the text of some HTML, and checks its nesting."""

    VOID = ("br", "img", "input", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def outline():
    return Outline
