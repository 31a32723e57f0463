"""The example in CONTRIBUTING.md is a lesson: it is read and built as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from rlkit.lessons.building.build import Shelf, book, student

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_builds(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    part = text[text.index("### How to write a lesson") : text.index("## Versions")]
    header, cells = re.findall(r"```\n(# .*?)```", part, re.DOTALL)
    folder = tmp_path / "notebooks" / "src"
    folder.mkdir(parents=True)
    (folder / "02_rewards.py").write_text(f"{header}\n{cells}", encoding="utf-8")
    shelf = Shelf(tmp_path)
    assert shelf.lessons["02_rewards"].problems == []
    assert [e.name for e in shelf.lessons["02_rewards"].exercises] == ["double"]
    assert 'lesson.check(\\"double\\", double)' in student(shelf, "02_rewards")
    assert "Twice a number" in book(shelf, "02_rewards")
