"""retention_reward: facts, not wordings; wrong candidates refused; citations checked."""

from __future__ import annotations

import pytest

from rlkit.errors import UserError
from rlkit.rewards import RetentionReward, retention_reward

CONTEXT = "[1] The access code is 4711.\n[2] The colour is teal.\n[3] The old code was 4712.\n"
TWO = {"access code": "4711", "colour": "teal"}


def score(text, needles, reward=retention_reward, **row):
    columns = {name: [value] for name, value in row.items()}
    (result,) = reward.score(completions=[text], needles=[needles], **columns)
    return result


@pytest.mark.parametrize(
    "text, needles, value",
    [
        ("The access code mentioned earlier is 4711.", ["4711"], 1.0),
        ("It's 4711!", {"access code": 4711}, 1.0),
        ("ANN  LEE", ["Ann Lee"], 1.0),
        ("the code: ４７１１", ["4711"], 1.0),
        ("147110", ["4711"], 0.0),
        ("47.11 or so", ["4711"], 0.0),
        ("3.51", ["3.5"], 0.0),
        ("3.5", ["5"], 0.0),
        ("The access code is -4711.", ["4711"], 0.0),
        ("- 4711", ["4711"], 1.0),
        ("code-4711", ["4711"], 1.0),
        ("-4711", ["-4711"], 1.0),
        ("47¹¹", ["4711"], 0.0),
        ("\u202e4711\u202c", ["4711"], 0.0),
        ("The code is not 4711.", ["4711"], 0.0),
        ("", ["4711"], 0.0),
        ("<think>4711</think> I do not know.", ["4711"], 0.0),
        # two facts, of which each must answer its own question
        ("The access code is 4711 and the colour is teal.", TWO, 1.0),
        ("4711 is the access code; teal is the colour.", TWO, 1.0),
        ("4711, teal", TWO, 1.0),
        ("access code: 4711", TWO, 0.5),
        ("The access code is teal and the colour is 4711.", TWO, 0.0),
    ],
)
def test_facts(text, needles, value) -> None:
    result = score(text, needles)
    assert result.value == value, result
    assert result.parts["needles"] == value


def test_distractors_are_refused_and_denied_ones_are_not() -> None:
    wrong = ["4712", "4711"]  # a needle is no distractor, whatever the list says
    both = score("It is 4711 or 4712.", ["4711"], distractors=wrong)
    assert (both.value, both.status, both.parts["distractors"]) == (0.0, "DISTRACTED", 0.0)
    assert both.parts["needles"] == 1.0
    denied = score("It is 4711, not 4712.", ["4711"], distractors=wrong)
    assert (denied.value, denied.parts["distractors"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    "text, cited",
    [
        ("The access code is 4711 [1]. The colour is teal [2].", 1.0),
        ("The access code is 4711. [1] The colour is teal. [2]", 1.0),
        ("Code 4711 and colour teal [1,2].", 1.0),
        ("Code 4711 and colour teal [1-2].", 1.0),
        ("The access code is 4711 [3]. The colour is teal [2].", 0.5),
        ("The access code is 4711 [1][2][3]. The colour is teal [2].", 0.5),
        ("The access code is 4711 [9]. The colour is teal [2].", 0.5),
        ("The access code is 4711. The colour is teal.", 0.0),
    ],
)
def test_citations_must_hold_what_they_are_cited_for(text, cited) -> None:
    result = score(text, TWO, context=CONTEXT)
    assert result.parts["citations"] == cited
    # Facts weigh 1 and citations 0.5: (1 · 1 + 0.5 · cited) / 1.5
    assert result.value == pytest.approx((1 + 0.5 * cited) / 1.5)
    assert sum(result.contributions.values()) == pytest.approx(result.value)


def test_citations_are_not_asked_for_without_numbered_passages() -> None:
    assert "citations" not in score("4711", ["4711"], context="The access code is 4711.").parts
    only = RetentionReward(weights={"needles": 1.0})
    assert score("4711", ["4711"], only, context=CONTEXT).value == 1.0


def test_repeating_the_context_is_no_answer() -> None:
    context = " ".join(f"The value of item {i} is {i * 37}." for i in range(40))
    assert score(context, ["370"], context=context).status == "ECHO"
    assert score("Item 10 has the value 370.", ["370"], context=context).value == 1.0


@pytest.mark.parametrize("needles", [None, [], {}, {"code": None}, "", float("nan")])
def test_nothing_to_ask_no_verdict(needles) -> None:
    assert (score("x", needles).value, score("x", needles).status) == (None, "NO_GOLD")


@pytest.mark.parametrize("weights", [{"style": 1}, {"citations": 1.0}, {"needles": -1}])
def test_weights_that_make_no_sense(weights) -> None:
    with pytest.raises(UserError):
        RetentionReward(weights=weights)
