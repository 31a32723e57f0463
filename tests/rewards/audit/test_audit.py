"""audit: rewards of one's own, each with one fault, and what cannot be tried."""

from __future__ import annotations

import itertools

import pytest

import rlkit
from rlkit.errors import UserError
from rlkit.rewards import Reward, exact_answer, format_reward, tests_pass
from rlkit.rewards.audit import AuditProblem, audit, subject_for
from rlkit.rewards.shaping import LanguageConsistency, RepetitionPenalty, SoftOverlong

PROBLEM = AuditProblem(
    {"answer": "54"},
    honest={"plain": "<answer>54</answer>", "with a blank": "<answer> 54 </answer>"},
    wrong={"one less": "<answer>53</answer>", "nothing": ""},
    answer="54",
    wrong_answers=("53", "58"),
    ladder=("", "<answer>53</answer>", "<answer>54</answer>"),
    same=(("<answer>54</answer>", "<answer>54</answer>\n"),),
    mutants={"sign": "<answer>-54</answer>"},
)


def strict(completions, answer):
    return [float(t == f"<answer>{a}</answer>") for t, a in zip(completions, answer, strict=True)]


def by_position(completions, answer):
    return [
        float(t.strip() == f"<answer>{a}</answer>") + 0.01 * i
        for i, (t, a) in enumerate(zip(completions, answer, strict=True))
    ]


def upside_down(completions, answer):
    return [
        0.0 if str(a) in t else float(bool(t)) for t, a in zip(completions, answer, strict=True)
    ]


class Forgetful(Reward):
    """Pays a right answer every second time."""

    def __init__(self):
        super().__init__(self._run, "forgetful", columns=("answer",))
        self.calls = 0

    def _run(self, *, completions, answer, **_):
        self.calls += 1
        return [
            float(f">{a}<" in t and self.calls % 2 == 0)
            for t, a in zip(completions, answer, strict=True)
        ]


def test_a_top_level_name():
    assert rlkit.audit is audit


def test_honest_answers_that_lose_their_reward_are_named():
    card = audit(Reward(strict), problems=[PROBLEM])
    section = card.section("honest answers")
    assert section.passed is False
    assert section.finding == "refuses 1 of 2 honest answers (with a blank)"
    assert card.section("invariance").passed is False
    # recall: 1 of 2 right ones is paid; precision: nothing wrong is paid.
    assert card.section("precision and recall").figures["recall"] == 0.5
    assert card.section("precision and recall").figures["precision"] == 1.0
    assert "refuses 1 of 2 honest answers" in card.verdict


def test_a_reward_that_depends_on_the_order_of_rows():
    card = audit(Reward(by_position), problems=[PROBLEM])
    assert card.section("invariance").passed is False
    assert "another order" in card.section("invariance").examples[-1]["what"]


def test_a_reward_that_is_not_repeatable():
    card = audit(Forgetful(), problems=[PROBLEM])
    assert not card.passed
    assert card.section("determinism").passed is False or card.section("invariance").passed is False


def test_a_reward_that_is_upside_down():
    card = audit(Reward(upside_down), problems=[PROBLEM])
    assert card.section("right and wrong").passed is False
    assert "does not tell right from wrong on 1 of 1 problems" in card.verdict
    assert card.section("honest answers").passed is None


def test_the_answer_is_passed_under_the_name_that_the_reward_uses():
    def by_truth(completions, ground_truth):
        return [
            float(t.split() == ["####", a]) for t, a in zip(completions, ground_truth, strict=True)
        ]

    card = audit(Reward(by_truth))
    assert card.passed, card.verdict
    # It was found out that this reward reads "#### 54" and not a tag.
    paid = [a for a in card.attacks if a.name == "superset_list"]
    assert paid[0].completion.startswith("#### ")


def test_a_sum_is_tried_as_what_its_part_judges():
    card = audit(0.8 * exact_answer + 0.2 * format_reward)
    assert card.judges == "the answer, word by word"
    assert card.section("attacks").figures["tried"] > 50


def test_subjects_are_found_by_name_part_and_columns():
    assert subject_for(tests_pass).name == "code"
    assert subject_for(0.5 * tests_pass).name == "code"
    assert subject_for(Reward(lambda completions, numbers, target: [])).name == "countdown"
    assert subject_for(Reward(lambda completions, gold: [])).name == "answer"
    assert subject_for(Reward(lambda completions, weather: [])) is None
    assert subject_for(exact_answer, "format").judges == "form"


def test_a_form_is_never_blamed_for_a_wrong_answer():
    card = audit(format_reward)
    assert "does not judge the answer" in card.judges
    assert card.section("precision and recall").passed is None
    assert card.section("mutation score").passed is None
    assert not any(a.suite == "answer" for a in card.attacks)
    assert any("suites answer" in name for name in card.not_tried)


@pytest.mark.parametrize(
    "reward, options, words",
    [
        ("nonsense", {}, "unknown reward 'nonsense'"),
        (exact_answer, {"subject": "poetry"}, "unknown subject 'poetry'; known subjects: "),
        (exact_answer, {"problems": []}, "at least one AuditProblem"),
        (exact_answer, {"limit_s": 0}, "limit_s=0 is not a time"),
        (Reward(lambda completions, weather: []), {}, "needs the columns weather"),
        (Reward(lambda completions: [0.5] * len(completions)), {}, "say it with subject="),
    ],
)
def test_what_cannot_be_tried_is_one_sentence(reward, options, words):
    with pytest.raises(UserError, match=words):
        audit(reward, **options)


def test_a_column_that_no_problem_has_is_named():
    reward = Reward(lambda completions, weather: [0.0] * len(completions))
    with pytest.raises(UserError, match="needs the column 'weather'; the audit's problems have"):
        audit(reward, problems=[PROBLEM])


def test_an_exception_on_an_attack_is_a_hole():
    def fragile(completions, answer):
        return [
            float(int(t[8:-9]) == int(a)) if t.startswith("<answer>") else 0.0
            for t, a in zip(completions, answer, strict=True)
        ]

    card = audit(Reward(fragile))
    raised = {hole.name for hole in card.holes if hole.outcome == "raised"}
    assert {"superset_list", "empty_answer", "many_digits"} <= raised


def no_twin_words(completions):
    """Minus the share of words that stand right after themselves: blind to longer repetition."""
    rows = []
    for text in completions:
        words = text.split()
        twins = sum(a == b for a, b in itertools.pairwise(words))
        rows.append(-twins / max(1, len(words)))
    return rows


def distinct_words(completions):
    """The share of different words, less 1: a penalty, whose best value is zero."""
    rows = []
    for text in completions:
        words = text.lower().split()
        rows.append(len(set(words)) / len(words) - 1.0 if words else 0.0)
    return rows


def test_a_penalty_is_tried_like_any_other_reward():
    good = audit(Reward(distinct_words), subject="repetition")
    assert good.section("right and wrong").passed
    assert good.section("attacks").passed
    assert good.section("monotonicity").passed
    blind = audit(Reward(no_twin_words), subject="repetition")
    # It sees "again again", and no sentence that comes back.
    assert {hole.name for hole in blind.holes} == {"repetition_respaced", "repetition_recased"}
    assert blind.section("monotonicity").passed is False


@pytest.mark.parametrize(
    "reward",
    [
        SoftOverlong(120, 40),
        SoftOverlong(120, 40, unit="characters"),
        RepetitionPenalty(),
        LanguageConsistency("en"),
        LanguageConsistency(),
    ],
    ids=["tokens", "characters", "repetition", "english", "column"],
)
def test_shaping_rewards_pass_a_card_of_their_own(reward):
    card = audit(reward)
    assert card.passed, str(card)
    assert "does not judge the answer" in card.judges
