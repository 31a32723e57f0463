"""The doctor's page and the badge: true, complete, and harmless in a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import IsolationReport, Level, Property, badge
from rlkit.sandbox.badges import Badge
from rlkit.sandbox.doctor import OPEN, Examination, doctor_command, examine, remedies
from rlkit.sandbox.findings import NAMES


def report(level: Level = Level.CONFINED, **states: str) -> IsolationReport:
    properties = tuple(
        Property(name, states.get(name, "enforced"), f"by the {name} test") for name in NAMES
    )
    return IsolationReport(level, "as a test says", properties)


def test_every_property_has_a_sentence_for_when_it_does_not_hold():
    assert set(OPEN) == set(NAMES)


def test_what_is_open_is_said_and_what_holds_is_not():
    found = Examination("local", report(network="absent", disk="partial"))
    said = "\n".join(found.not_stopped)
    assert OPEN["network"] in said
    assert f"{OPEN['disk']} (only partly held back: by the disk test)" in said
    assert OPEN["files_read"] not in said
    assert "A bug in the kernel" in said
    elsewhere = Examination("fusion", report(Level.SEPARATE_KERNEL))
    assert "A bug in the kernel" not in "\n".join(elsewhere.not_stopped)


def test_nobody_calls_it_secure():
    """It contains accidents and reward hacking; a stronger word would be a lie."""
    page = str(examine(with_languages=False)).lower()
    assert "secure" not in page
    assert "not a" in page or "run only programs" in page


def test_the_page_of_this_machine():
    found = examine()
    page = str(found)
    for one in found.report.properties:
        assert one.name in page
    assert "Not stopped here:" in page
    assert "Languages:" in page and "Python" in page
    facts = found.to_json()
    assert json.loads(json.dumps(facts)) == facts
    assert set(facts["properties"]) == set(NAMES)


def test_the_command(capsys):
    code = doctor_command(as_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert code == (0 if Level[facts["level"]] >= Level.CONFINED else 1)
    assert facts["weakened"] == ""
    assert doctor_command(level="landlock+seccomp+userns") == 1
    assert "Weakened on purpose" in capsys.readouterr().out
    with pytest.raises(UserError, match="unknown"):
        doctor_command(level="weak")


def test_remedies_name_what_is_missing():
    weak = remedies(report(Level.LIMITS, files_read="absent", network="absent"))
    assert any("Landlock" in one for one in weak) or any("Linux" in one for one in weak)
    assert remedies(report(), weakened=True) == [
        "start it without what hides parts of the kernel on purpose"
    ]
    assert remedies(report(Level.CONTAINER)) == []


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_badge_is_escaped_closed_and_says_the_level_in_words():
    evil = IsolationReport(
        Level.LIMITS,
        "<script>alert(1)</script>",
        (Property("network", "absent", "<img src=x onerror=alert(1)>"),),
    )
    html = Badge(evil, "<b>local</b>")._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    assert not {"script", "img", "b"} & tags.seen
    assert "&lt;script&gt;" in html and "LIMITS" in html and "level 1 of 5" in html


def test_the_badge_without_a_front_end_is_one_line(sandbox):
    shown = badge(sandbox)
    assert repr(shown) == str(shown)
    assert "\n" not in str(shown)
    assert sandbox.report().level.name in str(shown)
