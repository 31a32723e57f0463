"""expert_reward and its file, and people's scores as labels of an audit."""

from __future__ import annotations

import json
import pickle
import threading

import pytest

from rlkit.errors import UserError
from rlkit.rewards import ExpertScores, Label, exact_answer, expert_reward, reward
from rlkit.rewards.audit import audit, subjects
from rlkit.rewards.expert import completion_key

CHAT = [{"role": "user", "content": "2 + 2?"}]


@pytest.fixture
def scores(tmp_path):
    return ExpertScores(tmp_path / "scores.jsonl")


def test_mean_disagreement_and_nobody(scores):
    scores.give("2 + 2?", "4", 1.0, rater="ann")
    scores.give("2 + 2?", "4", 0.2, rater="bo")
    scores.give("2 + 2?", "5", 3, rater="ann", scale=(1, 5))
    got = expert_reward(scores).score(prompts=["2 + 2?"] * 3, completions=["4", "5", "6"])
    # (1.0 + 0.2) / 2 = 0.6, and they are 0.8 apart; (3 - 1) / (5 - 1) = 0.5
    assert [s.value for s in got] == [pytest.approx(0.6), 0.5, None]
    assert got[0].parts["disagreement"] == pytest.approx(0.8)
    assert "ann 1, bo 0.2 (they differ by 0.8)" in got[0].reason
    assert got[1].parts["disagreement"] is None
    assert got[2].status == "NOT_SCORED"


def test_a_chat_and_its_text_are_the_same_and_a_system_turn_is_not(scores):
    scores.give(CHAT, [{"role": "assistant", "content": "4"}], 1.0)
    system = [{"role": "system", "content": "Be brief."}, *CHAT]
    got = expert_reward(scores)(prompts=["2 + 2?", CHAT, system], completions=["4"] * 3)
    assert got == [1.0, 1.0, None]
    # The parts of a key are kept apart: text that moves from one to the other is another.
    assert completion_key("ab", "c") != completion_key("a", "bc")


def test_the_last_word_of_a_rater_counts_and_a_skip_takes_it_back(scores):
    for said, expected in ((1.0, 1.0), (0.0, 0.0), (None, None), (0.5, 0.5)):
        scores.give("q", "a", said, rater="ann")
        assert expert_reward(scores)(prompts=["q"], completions=["a"]) == [expected]
    assert len(scores.path.read_text().splitlines()) == 4  # only ever appended to


def test_a_reward_sees_what_is_appended_later_by_another_process(scores):
    judged = expert_reward(scores)
    assert judged(prompts=["q"], completions=["a"]) == [None]
    ExpertScores(scores.path).give("q", "a", 1.0)
    assert judged(prompts=["q"], completions=["a"]) == [1.0]
    copied = pickle.loads(pickle.dumps(judged))
    assert copied(prompts=["q"], completions=["a"]) == [1.0]


def test_two_raters_at_once_lose_nothing(scores):
    def rate(who):
        mine = ExpertScores(scores.path)
        for n in range(30):
            mine.give("q", f"answer {n}", 1.0, rater=who)

    threads = [threading.Thread(target=rate, args=(who,)) for who in ("ann", "bo", "cy")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scores.refresh()
    # A reader may see half of a line that is being written; what it adds then is a blank line.
    assert len([line for line in scores.path.read_text().splitlines() if line]) == 90
    assert {len(scores.of(completion_key("q", f"answer {n}"))) for n in range(30)} == {3}


def test_a_line_that_was_cut_off_costs_itself_and_is_said(scores):
    scores.give("q", "a", 1.0)
    with scores.path.open("a") as file:
        file.write('{"key": "abc", "sco')
    again = ExpertScores(scores.path)
    assert len(again) == 1
    with pytest.warns(RuntimeWarning, match="cut off"):
        again.give("q", "b", 0.0)
    with pytest.warns(RuntimeWarning, match="cut off"):
        fresh = ExpertScores(scores.path)
    assert [(label.completion, label.value) for label in fresh.labels()] == [("a", 1.0), ("b", 0.0)]


def test_a_last_line_without_its_end_counts(scores):
    scores.give("q", "a", 1.0)
    scores.path.write_text(scores.path.read_text().rstrip("\n"))
    again = ExpertScores(scores.path)
    assert len(again) == 1
    again.give("q", "b", 0.0)
    assert len(ExpertScores(scores.path)) == 2


@pytest.mark.parametrize(
    "change",
    [{"key": "0" * 32}, {"score": 7}, {"scale": [1, 1]}, {"scale": "x"}, {"score": "1"}],
)
def test_a_line_that_is_no_judgement_is_an_error(scores, change):
    scores.give("q", "a", 1.0)
    row = {**json.loads(scores.path.read_text()), **change}
    scores.path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match="a line that is no judgement"):
        ExpertScores(scores.path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"score": 1.5}, "from 0 to 1"),
        ({"score": float("nan")}, "from 0 to 1"),
        ({"score": True}, "from 0 to 1"),
        ({"score": 1, "scale": (2, 1)}, "a scale is"),
        ({"score": 1, "rater": " "}, "a rater has a name"),
        ({"score": 1, "columns": {"f": object()}}, "plain data"),
        ({"score": 1, "columns": {"f": float("inf")}}, "plain data"),
        ({"prompt": 7, "score": 1}, "a prompt is"),
    ],
)
def test_scores_that_cannot_be(scores, given, says):
    with pytest.raises(UserError, match=says):
        scores.give(**{"prompt": "q", "completion": "a", **given})
    assert not scores.path.exists()


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be"):
        ExpertScores(tmp_path / "file" / "scores.jsonl").give("q", "a", 1.0)


def test_no_prompts_is_an_error(scores):
    with pytest.raises(UserError, match="'prompts'"):
        expert_reward(scores)(completions=["a"])


# -- labels of an audit --------------------------------------------------------------------


def labelled(scores):
    """Ten answers in tags with what a person thinks; the person is wrong about one."""
    for n in range(5):
        columns = {"answer": str(n)}
        right, wrong = f"<answer>{n}</answer>", f"<answer>{n + 1}</answer>"
        scores.give(f"{n} + 0?", right, 1.0, columns=columns)
        scores.give(f"{n} + 0?", wrong, 1.0 if n == 4 else 0.0, columns=columns)
    return scores


def test_precision_and_recall_by_hand(scores):
    card = audit(exact_answer, labels=labelled(scores).path)
    section = card.section("labels of people")
    # Paid are the 5 right ones; people call 6 right. Precision 5/5, recall 5/6 = 0.833.
    assert section.figures["precision"] == 1.0
    assert section.figures["recall"] == pytest.approx(5 / 6)
    assert section.passed is False and not card.passed
    assert "recall 0.833 on 10 labelled" in section.finding
    assert section.examples[0]["completion"] == "<answer>5</answer>"
    # Pairs that people tell apart: 6 right times 4 wrong = 24. The 5 that are paid win all
    # 4 of theirs, the other ties with all 4: (5 * 4 + 4 * 0.5) / 24 = 22/24.
    assert section.figures["ranked_rightly"] == pytest.approx(22 / 24)


def test_a_reward_that_agrees_with_people_passes(scores):
    labelled(scores).give("4 + 0?", "<answer>5</answer>", 0.0, columns={"answer": "4"})
    card = audit(exact_answer, labels=scores)
    assert card.section("labels of people").passed and card.passed
    assert card.to_dict()["sections"][-1]["name"] == "labels of people"
    with pytest.raises(KeyError):
        audit(exact_answer).section("labels of people")


def test_where_people_are_apart_nobody_is_right(scores):
    labelled(scores).give("4 + 0?", "<answer>5</answer>", 0.0, rater="bo", columns={"answer": "4"})
    section = audit(exact_answer, labels=scores).section("labels of people")
    assert section.figures["disputed"] == 1 and section.figures["recall"] == 1.0
    assert "people are apart on 1 more" in section.finding


def test_labels_alone_are_enough_for_a_reward_nobody_knows(scores):
    for n in range(3):
        scores.give(f"Greet {n}", f"Good morning, {n}", 1.0, columns={"who": str(n)})
        scores.give(f"Greet {n}", "Go away", 0.0, columns={"who": str(n)})

    @reward
    def polite(completions, who):
        return [float(t.startswith("Good morning")) for t in completions]

    with pytest.raises(UserError, match="no problems are known"):
        audit(polite)
    card = audit(polite, labels=scores)
    assert card.section("labels of people").passed
    assert card.section("right and wrong").passed
    assert card.section("attacks").figures["tried"] >= 20


def test_labels_without_contrast_say_so(scores):
    scores.give("q", "<answer>1</answer>", 1.0, columns={"answer": "1"})
    section = audit(exact_answer, labels=scores).section("labels of people")
    assert section.passed is None and "all right" in section.finding


def test_labels_that_cannot_be(scores, tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        audit(exact_answer, labels=tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="at least one Label"):
        audit(exact_answer, labels=scores)
    with pytest.raises(UserError, match="labels are a file"):
        audit(exact_answer, labels=7)
    with pytest.raises(UserError, match="needs the column 'answer'"):
        audit(exact_answer, labels=[Label("q", "a", 1.0)])


def test_the_command_takes_labels(scores):
    from typer.testing import CliRunner

    from rlkit.cli import app

    scores.give("q", "<answer>1</answer>", 1.0, columns={"answer": "1"})
    scores.give("q", "<answer>2</answer>", 0.0, columns={"answer": "1"})
    result = CliRunner().invoke(app, ["audit", "exact_answer", "--labels", str(scores.path)])
    assert result.exit_code == 0, result.output
    assert "labels of people: precision 1.000, recall 1.000 on 2" in result.output


def test_peoples_scores_pass_their_own_card(scores):
    """It pays what people scored and says nothing on anything else, attacks included."""
    problems = subjects()["judge_reward"].make(0)
    for problem in problems:
        for text in problem.honest.values():
            scores.give(problem.question, text, 1.0, columns=problem.columns)
        for text in (*problem.wrong.values(), problem.facts["worthless"]):
            scores.give(problem.question, text, 0.0, columns=problem.columns)
    judged = expert_reward(scores)
    plain = [type(p)(**{**vars(p), "same": ()}) for p in problems]  # it knows letters, not sense
    card = audit(judged, subject="judge_reward", problems=plain)
    assert card.passed, str(card)
    # A second opinion on other wording is nobody's: no attack is paid.
    assert {a.outcome for a in card.attacks} == {"abstained"}
    assert audit(judged, labels=scores).section("labels of people").passed
