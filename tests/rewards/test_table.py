"""table_reward: one right answer in many ways of writing, and several candidates refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards import table_reward
from rlkit.rewards.table import final_answer, read_quantity

TABLE = """city,people,country
Berlin,3645000,Germany
Paris,2161000,France
Rome,2873000,Italy
New York,8000000,USA
York,200000,UK
"""


def score(text, answer, **row):
    columns = {name: [value] for name, value in {"csv": TABLE, **row}.items()}
    (result,) = table_reward.score(completions=[text], answer=[answer], **columns)
    return result


RIGHT = [
    (3645000, "The answer is 3,645,000."),
    (3645000, "<answer>3645000 people</answer>"),
    (3645000, "<answer>3.645 million</answer>"),
    (1234567, "1 234 567"),
    (1000, "1k"),
    (0.45, "45%"),
    (45, "45 %"),
    ("45%", "0.45"),
    ("45%", "45"),
    (0.5, "50 percent"),
    (0.5, "1/2"),
    (1 / 3, "0.33"),  # rounded to two decimals
    (1 / 3, "33.3%"),
    (100 / 3, "33.3"),
    (7, "7.0"),
    (12, "$12"),
    ("12 km", "12 kilometres"),
    ("12 km", "12"),
    (12, "12 km²"),
    (-5, "\\boxed{-5}"),
    (-5, "The answer is \u22125"),
    (-5, "The answer is: -5"),
    (-5, "**Answer:** -5"),
    (-1234, "(1,234)"),
    (3, "<think>it is 4</think>3"),
    (1e20, "1e20"),
    ("Berlin", "berlin."),
    ("Berlin", "<answer>**Berlin**</answer>"),
    ("Berlin", "The largest city there is Berlin"),
    ("York", "york"),
    (True, "true"),
    ("Route 66", "route 66"),
    (["Berlin", "Rome"], "Rome, Berlin"),
    (["Berlin", "Rome"], "Rome and Berlin"),
    (["Berlin", "Rome"], "<answer>\n- Berlin\n- Rome\n</answer>"),
    (["Berlin", "Rome"], '["Rome", "Berlin"]'),
    ([1234, 5], "<answer>1,234, 5</answer>"),
    ([1, 2], "1,2"),
]
WRONG = [
    (3645000, "3645001", "WRONG"),
    (3645000, "3645000 or 2161000", "SHOTGUN"),
    (2020, "In 2020 it was 2020", "SHOTGUN"),
    (5, "not 5", "WRONG"),
    (5, "-5", "WRONG"),
    (5, "The answer is -5", "WRONG"),
    (10**12, str(10**12 + 1), "WRONG"),
    (5, "5.4", "WRONG"),
    (12, "12/5", "WRONG"),
    (1 / 3, "0.3", "WRONG"),
    (100 / 3, "33", "WRONG"),
    (0.004, "0.00", "WRONG"),
    (0, "none", "WRONG"),
    ("45%", "4.5", "WRONG"),
    ("12 km", "12 miles", "WRONG"),
    (3, "<think>3</think>", "NO_ANSWER"),
    (3, "<answer>3</answer><answer>4</answer>", "NO_ANSWER"),
    (3, "\\boxed{3", "NO_ANSWER"),
    (26, "<answer>2⁶</answer>", "WRONG"),
    (26, "<answer>\u202e26\u202c</answer>", "NO_ANSWER"),
    ("Berlin", "Berlin, Paris, Rome", "SHOTGUN"),
    ("Berlin", "<answer>Berlin or Paris</answer>", "SHOTGUN"),
    ("Berlin", "It is not Berlin", "WRONG"),
    ("York", "New York", "SHOTGUN"),
    ("New York", "York", "WRONG"),
    (["Berlin", "Rome"], "Berlin", "WRONG"),
    (["Berlin", "Rome"], "Berlin, Rome, Paris", "SHOTGUN"),
    (["Berlin", "Berlin"], "Berlin, Rome", "WRONG"),
]


@pytest.mark.parametrize("answer, text", RIGHT)
def test_right_however_it_is_written(answer, text) -> None:
    result = score(text, answer)
    assert (result.value, result.status) == (1.0, "OK"), result.reason


@pytest.mark.parametrize("answer, text, status", WRONG)
def test_wrong_or_not_one_answer(answer, text, status) -> None:
    result = score(text, answer)
    assert (result.value, result.status) == (0.0, status), result.reason


@pytest.mark.parametrize("answer", [None, "", [], float("nan")])
def test_no_gold_no_verdict(answer) -> None:
    assert (score("1", answer).value, score("1", answer).status) == (None, "NO_GOLD")


def test_the_order_of_a_list_counts_where_it_is_said() -> None:
    assert score("Rome, Berlin", ["Berlin", "Rome"], ordered=True).value == 0.0
    assert score("Berlin, Rome", ["Berlin", "Rome"], ordered=True).value == 1.0


def test_a_table_must_be_text() -> None:
    with pytest.raises(UserError):
        score("The city is Berlin", "Berlin", csv=[["city"], ["Berlin"]])


@pytest.mark.parametrize(
    "text", ["[" * 9000, "[" * 90_000, "1," * 50_000, "1e999999999", "<answer>" * 12_000]
)
@pytest.mark.parametrize("answer", [3, "x", ["x", "y"]])
def test_a_hostile_answer_is_worth_nothing_and_spares_its_neighbours(text, answer) -> None:
    (worth, fine) = table_reward.score(
        completions=[text, "3"], answer=[answer, 3], csv=[TABLE, TABLE]
    )
    assert (worth.value, fine.value) == (0.0, 1.0)


def test_the_last_statement_of_an_answer_counts() -> None:
    assert final_answer("The answer is 3. No, wait.\nThe answer is 4.") == "4"
    assert final_answer("Adding up gives\n12 km") == "12 km"
    assert final_answer("") is None


@given(st.integers(-(10**12), 10**12))
def test_thousands_separators_change_nothing(number) -> None:
    assert read_quantity(f"{number:,}").value == number
    assert score(f"The answer is {number:,}.", number).value == 1.0
    assert score(f"The answer is {number + 1:,}.", number).value == 0.0
