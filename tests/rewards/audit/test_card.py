"""ReportCard: the same finding as text, as HTML and as data."""

from __future__ import annotations

import json

import pytest

from rlkit.rewards.audit import AttackResult, ReportCard, Section
from rlkit.rewards.audit.card import shorten


def attack(name: str, suite: str = "answer", outcome: str = "paid") -> AttackResult:
    value = 1.0 if outcome == "paid" else None
    return AttackResult(name, suite, f"what {name} does", outcome, value, 1.0, 0.01, 2, "<b>1</b>")


def card(*sections: Section, attacks: tuple[AttackResult, ...] = ()) -> ReportCard:
    return ReportCard("mine", "answers", sections, attacks, {"suites sql": "no SQL"}, "here", 0.5)


def test_it_passes_when_nothing_failed_and_something_was_tried():
    good, bad = Section("a", True, "fine"), Section("b", False, "broken")
    untried = Section("c", None, "nothing to try")
    assert card(good, untried).passed
    assert not card(good, bad).passed
    assert not card(untried).passed


def test_the_verdict_names_one_hole_of_each_suite_first():
    holes = (*(attack(f"a{i}") for i in range(7)), attack("only", "countdown"))
    verdict = card(Section("attacks", False, "8 went through"), attacks=holes).verdict
    # Six are named: the first of both suites, then the next ones; two are left.
    assert "pays what a0 does ('a0', 1 of 1); pays what only does ('only', 1 of 1)" in verdict
    assert "and 2 more attacks went through" in verdict


@pytest.mark.parametrize(
    "outcome, words",
    [
        ("hung", "hangs on what x does ('x')"),
        ("raised", "raises an exception on what x does ('x')"),
        ("crashed", "lets its process be ended by what x does ('x')"),
        ("forged", "lets its result be forged by what x does ('x')"),
    ],
)
def test_faults_are_said_in_words(outcome, words):
    assert attack("x", outcome=outcome).sentence() == words
    assert not attack("x", outcome=outcome).held


def test_the_page_escapes_what_a_completion_says():
    example = {"what": "<i>", "completion": "<script>alert(1)</script>", "value": None}
    page = card(Section("attacks", False, "one", examples=[example]), attacks=(attack("x"),))
    shown = page._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<b>1</b>" not in shown
    assert "✗ failed" in shown  # a sign and a word, never colour alone
    assert "no verdict" in shown


def test_text_and_data():
    page = card(Section("attacks", False, "one", {"tried": 3}), attacks=(attack("x"),))
    assert "✗ failed     attacks: one" in str(page)
    assert "suites sql: no SQL" in str(page)
    data = json.loads(json.dumps(page.to_dict()))
    assert data["passed"] is False
    assert data["sections"][0]["figures"] == {"tried": 3}
    assert data["attacks"][0]["outcome"] == "paid"


def test_an_unknown_section_is_named():
    with pytest.raises(KeyError, match="no section 'b'; there are a"):
        card(Section("a", True, "fine")).section("b")


def test_a_long_completion_is_cut_in_the_middle_and_stays_on_one_line():
    shown = shorten("a" * 500 + "\n" + "b" * 500)
    assert len(shown) <= 120
    assert shown.startswith("aaa") and shown.endswith("bbb") and "…" in shown
    assert shorten("a\nb\u202e") == "a\\nb\\u202e"
