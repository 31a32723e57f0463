"""Hints, solutions, predictions, quizzes and cards: with a front end, and as plain text."""

from __future__ import annotations

import re

import ipywidgets as w
import plotly.graph_objects as go
import pytest

from rlkit import lessons
from rlkit.errors import UserError
from rlkit.lessons.cards import EDGES, Block, Card, failure_card
from rlkit.lessons.prediction import Prediction, distance_score
from rlkit.lessons.quiz import Question, Quiz
from rlkit.lessons.store import of_lesson
from rlkit.lessons.strip import Strip, parts_of

WIDGET = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"

pytestmark = pytest.mark.usefixtures("desk")


def widgets(box, kind):
    """All widgets of a kind below a box, in order."""
    found = [box] if isinstance(box, kind) else []
    for child in getattr(box, "children", ()):
        found += widgets(child, kind)
    return found


def text_of(box) -> str:
    return re.sub(r"<[^>]+>", "", " ".join(part.value for part in widgets(box, w.HTML)))


def save(lesson):
    return of_lesson(lessons.progress().to_dict(), lesson.name)


# -- cards ---------------------------------------------------------------------------------


def test_a_card_escapes_everything_and_says_in_words_what_its_colour_says(outline):
    bad = "<script>alert(1)</script> & \x1b[31m"
    card = Card("wrong", "✗", bad, (Block(bad, bad), Block(items=[bad]), Block(bad, code=True)))
    page = outline(card.html())
    assert "script" not in page.tags
    assert page.text.count("alert(1)") == 5
    assert ("role", "note") in page.attributes
    assert any(name == "aria-label" and "alert" in value for name, value in page.attributes)
    assert "\x1b" not in card.html()
    assert set(EDGES) == {"right", "wrong", "todo", "note"}
    # no fixed text colour: the page's own is readable in light and dark
    assert "color:inherit" in card.html()
    assert not re.search(r"[;\"]color:#", card.html())


def test_a_card_as_plain_text_is_narrow():
    card = failure_card("Long", see="word " * 60, cause="a `b` c", do="nothing")
    assert max(map(len, str(card).splitlines())) <= 76
    assert "Cause: a `b` c" in str(card)
    assert "<code>b</code>" in card.html()


# -- hints and solutions -------------------------------------------------------------------


def test_three_hints_and_then_no_more(lesson):
    said = [str(lesson.hint("half")) for _ in range(4)]
    assert said[0] == "→ Hint 1 of 3: One half\n  1. It is below 1."
    assert "2. It is 1 divided by 2." in said[1]
    assert "0.5" not in said[1]
    assert "3. 0.5" in said[2]
    assert '`lesson.solution("half")`' in said[2]
    assert said[3] == said[2]
    assert save(lesson)["exercises"]["half"] == {"hints": 3}


def test_hints_go_on_in_the_next_session(lesson):
    lesson.hint("half")
    again = lessons.open("97_practice")
    assert str(again.hint("half")).startswith("→ Hint 2 of 3")


def test_a_solution_asks_first_without_a_front_end(lesson):
    first = str(lesson.solution("share"))
    assert "?" in first
    assert "def share" not in first
    assert "share" not in save(lesson)["exercises"]
    assert "    return sum(a == right for a in answers) / len(answers)" in str(
        lesson.solution("share")
    )
    assert save(lesson)["exercises"]["share"] == {"solution_seen": True}
    assert "def share" in str(lessons.open("97_practice").solution("share", confirm=True))


def test_a_solution_has_a_button_in_a_front_end(lesson, front_end):
    solution = lesson.solution("share")
    bundle = solution._repr_mimebundle_()
    assert WIDGET in bundle
    assert "def share" not in str(bundle)
    (button,) = widgets(solution._box, w.Button)
    assert (button.description, bool(button.tooltip)) == ("Show the solution", True)
    button.click()
    assert "def share(answers, right):" in text_of(solution._box)
    assert save(lesson)["exercises"]["share"] == {"solution_seen": True}
    assert WIDGET not in solution._repr_mimebundle_()


# -- predictions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "truth", "low", "high", "score"),
    [
        (0.5, 0.5, 0, 1, 1.0),
        (0.25, 0.5, 0, 1, 0.5),  # a quarter of the range away: 1 - 2 * 0.25
        (0.0, 0.5, 0, 1, 0.0),  # half of the range away
        (0.0, 1.0, 0, 1, 0.0),  # and never below 0
        (-1.0, 1.0, -4, 4, 0.5),  # 1 - 2 * 2 / 8
        (5.0, 10.0, None, None, 0.5),  # 1 - 5 / 10
        (20.0, 10.0, None, None, 0.5),  # 1 - 10 / 20
        (-1.0, 1.0, None, None, 0.0),
        (0.0, 0.0, None, None, 1.0),
        (None, 0.5, 0, 1, None),
        (0.5, None, 0, 1, None),
        (0.5, float("nan"), 0, 1, None),
    ],
)
def test_a_guess_is_scored_by_its_distance(guess, truth, low, high, score):
    assert distance_score(guess, truth, low, high) == score


def test_a_prediction_without_a_front_end_tells_at_once(lesson):
    guess = lesson.predict("slope", "How steep?", low=0, high=2)
    assert "Predict: How steep?" in str(guess)
    reveal = guess.reveal("the slopes\n1 2 3", 1.0)
    assert reveal.opened
    assert reveal.score is None
    assert str(reveal) == "→ How steep?\n  No guess was written down; it is 1.\nthe slopes\n1 2 3"
    assert save(lesson)["predictions"] == {}
    guess.answer = 0.5
    assert guess.reveal("", 1.0).score == 0.5  # 1 - 2 * 0.5 / 2
    assert save(lesson)["predictions"] == {"slope": {"guess": 0.5, "truth": 1.0, "score": 0.5}}
    # no later run without a guess takes that away
    lesson.predict("other", "?").reveal("", 1.0)
    assert "slope" in save(lesson)["predictions"]


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("0.5", 0.5, ""),
        ("0,5", 0.5, ""),
        ("50%", 0.5, ""),
        ("", None, "Write a number first"),
        ("half", None, "'half' is not a number."),
        ("nan", None, "'nan' is not a number."),
        ("7", None, "7 is not between 0 and 1."),
    ],
)
def test_what_counts_as_a_number(text, value, problem):
    guess = Prediction("p", "?", low=0, high=1)
    guess.answer = text
    assert guess.value == value
    assert guess.problem.startswith(problem)
    assert bool(guess.problem) == bool(problem)


def test_the_sentence_has_guess_truth_distance_and_score():
    guess = Prediction("p", "?", low=0, high=1, unit="of all")
    guess.answer = 0.25
    assert guess.compare(0.5) == (
        "You said 0.25 of all; it is 0.5 of all. You are off by 0.25: score 0.50 of 1."
    )
    assert guess.compare(0.25).endswith("That is it exactly: score 1 of 1.")
    guess.answer = "7"
    assert guess.compare(0.5) == "7 is not between 0 and 1. So there is no guess; it is 0.5 of all."
    assert guess.compare(None) == "There is no number to compare with this time."


def test_a_range_that_is_none():
    for low, high in ((0, None), (1, 1), (2, 1)):
        with pytest.raises(UserError, match="give low and high with low < high"):
            Prediction("p", "?", low=low, high=high)


def shown(monkeypatch, thing) -> list:
    """What `thing` displays."""
    import IPython.display

    displayed = []
    monkeypatch.setattr(IPython.display, "display", lambda x, raw=False: displayed.append(x))
    thing._ipython_display_()
    return displayed


def test_nothing_is_revealed_before_a_number_is_written(lesson, front_end, monkeypatch):
    guess = lesson.predict("slope", "How steep?", low=0, high=2)
    assert WIDGET in guess._repr_mimebundle_()
    reveal = guess.reveal("SECRET 1.0", 1.0)
    (bundle,) = shown(monkeypatch, reveal)
    assert WIDGET in bundle
    assert "SECRET" not in str(bundle) + text_of(reveal._box) + str(reveal)
    (button,) = widgets(reveal._box, w.Button)
    (box,) = widgets(reveal._box, w.Text)
    assert box.description == "My guess:"
    button.click()
    assert "Write a number first" in text_of(reveal._box)
    box.value = "much"
    button.click()
    assert "is not a number" in text_of(reveal._box)
    assert not reveal.opened
    assert 'role="alert"' in widgets(reveal._box, w.HTML)[-1].value
    box.value = "0.5"
    assert guess._box.value == "0.5"  # both boxes show the same
    button.click()
    assert reveal.score == 0.5
    assert "You said 0.5; it is 1." in text_of(reveal._box)
    (out,) = widgets(reveal._box, w.Output)
    assert out.outputs[0]["data"]["text/plain"] == "SECRET 1.0"
    assert save(lesson)["predictions"]["slope"]["score"] == 0.5


def test_a_number_written_before_is_enough(lesson, front_end, monkeypatch, capsys):
    guess = lesson.predict("slope", "How steep?")
    guess._box.value = "1.5"
    reveal = guess.reveal("three lines", 1.0)
    card, *_ = shown(monkeypatch, reveal)
    assert "You said 1.5; it is 1." in str(card)
    assert capsys.readouterr().out == "three lines\n"


def test_a_figure_is_revealed_with_its_notes(lesson, front_end, monkeypatch):
    from rlkit.lab.theme import describe

    figure = describe(go.Figure(go.Scatter(x=[1, 2], y=[3, 4])), "A caption.", "A line upwards.")
    guess = lesson.predict("line", "Up?", low=0, high=1)
    reveal = guess.reveal(figure, 1.0)
    shown(monkeypatch, reveal)
    guess.answer = 1
    reveal.open()
    (out,) = widgets(reveal._box, w.Output)
    assert PLOTLY in out.outputs[0]["data"]
    assert out.outputs[0]["data"]["text/plain"] == "A line upwards."
    assert "A caption." in text_of(reveal._box)
    assert str(reveal).endswith("A line upwards.")


def test_a_guess_is_remembered(lesson, front_end):
    guess = lesson.predict("slope", "How steep?", low=0, high=2)
    guess.answer = "1.5"
    guess.reveal("", 1.0)
    again = lessons.open("97_practice").predict("slope", "How steep?", low=0, high=2)
    assert again.value == 1.5
    assert "Last time you said 1.5." in " ".join(str(again).split())
    assert again.reveal("", 1.0).opened


def test_a_truth_may_be_a_tensor():
    import numpy as np

    guess = Prediction("p", "?")
    guess.answer = 2
    assert guess.reveal("", np.float32(2.0)).score == 1.0


# -- quizzes -------------------------------------------------------------------------------

QUESTIONS = [
    Question("2 + 2?", [("3", "One too few."), ("4", "Two and two.")], right="b"),
    Question("Is `0.1 + 0.2` 0.3?", [("yes", "Print it."), ("no", "Binary <b>.")], right="b"),
]


def test_a_quiz_as_text(lesson):
    quiz = lesson.quiz("sums", QUESTIONS)
    assert str(quiz).splitlines() == [
        "? Quiz: 2 questions",
        "  1. 2 + 2?",
        "  a) 3",
        "  b) 4",
        "  2. Is `0.1 + 0.2` 0.3?",
        "  a) yes",
        "  b) no",
        '  Answer with letters, in order: `quiz.answer("b", "a")`.',
    ]
    assert str(quiz.answer("a", "B")).splitlines() == [
        "→ Quiz: 1 of 2 right",
        "  1. 2 + 2?",
        "  Your answer: 3",
        "  a) ✗ Not quite: One too few.",
        "  2. Is `0.1 + 0.2` 0.3?",
        "  Your answer: no",
        "  b) ✓ Right: Binary <b>.",
    ]
    saved = save(lesson)["quizzes"]["sums"]
    assert saved == {"answers": {"1": "a", "2": "b"}, "right": 1, "of": 2}
    quiz.answer("b", question=1)
    assert quiz.right == 2
    assert lessons.open("97_practice").quiz("sums", QUESTIONS).right == 2


@pytest.mark.parametrize(
    ("letters", "question", "says"),
    [
        (("c",), None, "question 1 has the answers a, b, not 'c'"),
        (("ab",), None, "not 'ab'"),
        (("a", "a", "a"), None, "there are 2 questions, and no 3"),
        (("a",), 0, "and no 0"),
        (("a", "b"), 1, "give one letter with question="),
        ((1,), None, "not 1"),
    ],
)
def test_letters_that_are_none(letters, question, says):
    with pytest.raises(UserError, match=re.escape(says)):
        Quiz("sums", QUESTIONS).answer(*letters, question=question)


def test_a_quiz_in_a_front_end(lesson, front_end):
    quiz = lesson.quiz("sums", QUESTIONS)
    assert WIDGET in quiz._repr_mimebundle_()
    radios, buttons = widgets(quiz._box, w.RadioButtons), widgets(quiz._box, w.Button)
    assert [radio.value for radio in radios] == [None, None]  # nothing is chosen for anybody
    buttons[0].click()
    assert "Choose an answer first" in text_of(quiz._box)
    radios[0].value = "a"
    buttons[0].click()
    assert "Not quite: One too few." in text_of(quiz._box)
    radios[0].value = "b"
    buttons[0].click()
    radios[1].value = "b"
    buttons[1].click()
    assert "2 of 2 answered, 2 right" in text_of(quiz._box)
    assert "&lt;b&gt;" in " ".join(part.value for part in widgets(quiz._box, w.HTML))
    assert save(lesson)["quizzes"]["sums"]["right"] == 2


def test_answers_of_another_version_of_a_quiz_are_left_out():
    quiz = Quiz("sums", QUESTIONS, answers={"1": "b", "2": "h", "9": "a", "x": "a"})
    assert quiz._given == {"1": "b"}


def test_mistakes_in_a_question():
    for options, right in (
        ([("a", "b")], "a"),
        ([("a", "b"), ("c", " ")], "a"),
        ([("a", "b"), ("c", "d")], "c"),
        ([("a", "b"), ("c", "d")], ""),
    ):
        with pytest.raises(UserError, match="question '\\?'"):
            Question("?", options, right=right)
    with pytest.raises(UserError, match="needs a list of Question"):
        Quiz("empty", [])


# -- the strip -----------------------------------------------------------------------------


def test_the_strip_has_a_sign_and_words_for_every_part(outline):
    saved = {
        "exercises": {
            "a": {"right": True, "state": "WRONG", "attempts": 3, "hints": 1},
            "b": {"state": "WRONG", "attempts": 1, "solution_seen": True},
            "c": {"state": "TODO"},
        },
        "predictions": {"slope": {"guess": 1, "truth": 1, "score": 1.0}},
        "quizzes": {"sums": {"answers": {"1": "a"}, "right": 1, "of": 2}},
    }
    titles = {"a": "First", "b": "Second", "c": "Third"}
    strip = Strip("Lesson", parts_of(titles, saved, {"later": "prediction"}))
    assert str(strip).splitlines() == [
        "Lesson: 2 of 6 done",
        "  ✓ First: right after 3 tries, 1 hint",
        "  ✗ Second: not yet, 1 try, the solution seen",
        "  ○ Third: open",
        "  ○ Prediction later: open",
        "  ✓ Prediction slope: made, score 1.00 of 1",
        "  ✗ Quiz sums: 1 of 2 right",
    ]
    page = outline(strip.html())
    assert page.tags.count("li") == 6
    for word in ("right after", "not yet", "open"):
        assert word in page.text
    assert "background" not in strip.html()  # borders differ in kind, and no colour speaks
    assert {"solid", "dashed", "dotted"} <= set(re.findall(r"1px (\w+)", strip.html()))


def test_the_strip_follows_along_in_a_front_end(lesson, front_end):
    strip = lesson.strip()
    assert WIDGET in strip._repr_mimebundle_()
    lesson.check("half", 0.25)
    assert "not yet, 1 try" in strip._widget.value
    lesson.check("half", 0.5)
    assert "right after 2 tries" in strip._widget.value
    assert strip.done == 1
