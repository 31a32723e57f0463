"""sql_reward: right and wrong rows, order and ties, hostile queries, several databases."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.rewards import SqlReward, sql_reward
from rlkit.rewards.result_sets import same_rows, same_with_ties
from rlkit.rewards.sql import extract_query
from rlkit.sandbox import Sandbox

PEOPLE = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age REAL, city TEXT);
INSERT INTO people VALUES
  (1, 'Ann', 30, 'Rome'), (2, 'Bob', NULL, 'Oslo'), (3, 'Cy', 30, 'Oslo'), (4, 'Di', 41.5, 'Rome');
"""
# The same table with other rows: three people, of whom nobody is in Rome.
OTHERS = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age REAL, city TEXT);
INSERT INTO people VALUES (7, 'Ed', 20, 'Oslo'), (8, 'Flo', 22, 'Oslo'), (9, 'Gus', 25, 'Bern');
"""


@pytest.fixture(scope="module")
def sql(sandbox) -> SqlReward:
    return SqlReward(sandbox)


def score(reward, query, **row):
    row.setdefault("schema", PEOPLE)
    columns = {name: [value] for name, value in row.items()}
    (result,) = reward.score(completions=[f"```sql\n{query}\n```"], **columns)
    return result


@pytest.mark.parametrize(
    "query, gold, right",
    [
        ("SELECT name FROM people WHERE age > 29", "SELECT name FROM people WHERE age >= 30", True),
        ("SELECT name AS who FROM people", "SELECT name FROM people", True),
        ("SELECT name FROM people ORDER BY name DESC", "SELECT name FROM people", True),
        ("SELECT age FROM people", "SELECT age FROM people", True),  # with a NULL
        ("SELECT ifnull(age, 0) FROM people", "SELECT age FROM people", False),
        ("SELECT DISTINCT city FROM people", "SELECT city FROM people", False),
        ("SELECT city FROM people", "SELECT DISTINCT city FROM people", False),
        ("SELECT count(*) FROM people", "SELECT 4.0", True),
        ("SELECT '4'", "SELECT 4", False),
        ("SELECT avg(age) FROM people", "SELECT (30 + 30 + 41.5) / 3", True),
        ("SELECT 33.83", "SELECT avg(age) FROM people", False),
        ("SELECT name, city FROM people", "SELECT name FROM people", False),
        ("SELECT city, name FROM people", "SELECT name, city FROM people", False),
        ("SELECT name FROM people WHERE 0", "SELECT name FROM people WHERE id > 9", True),
        ("SELECT name, id FROM people WHERE 0", "SELECT name FROM people WHERE id > 9", False),
        ("WITH r AS (SELECT * FROM people) SELECT name FROM r", "SELECT name FROM people", True),
        # order counts where the gold query asks for it
        ("SELECT name FROM people ORDER BY id", "SELECT name FROM people ORDER BY id", True),
        ("SELECT name FROM people ORDER BY id DESC", "SELECT name FROM people ORDER BY id", False),
        # Ann and Cy tie at 30: either may come first; Di, 41.5, may not
        ("SELECT name FROM people WHERE age ORDER BY age, name DESC",
         "SELECT name FROM people WHERE age ORDER BY age", True),
        ("SELECT name FROM people WHERE age ORDER BY age DESC",
         "SELECT name FROM people WHERE age ORDER BY age", False),
        ("SELECT name FROM people ORDER BY name", # an order inside of brackets is none
         "SELECT name FROM (SELECT * FROM people ORDER BY age DESC)", True),
    ],
)  # fmt: skip
def test_rows_are_compared(sql, query, gold, right) -> None:
    result = score(sql, query, gold=gold)
    assert result.value == float(right), result.reason
    assert result.parts["runs"] == 1.0
    assert result.status == ("OK" if right else "WRONG")


@pytest.mark.parametrize(
    "query, status",
    [
        ("DROP TABLE people", "REFUSED"),
        ("INSERT INTO people VALUES (9, 'x', 1, 'y')", "REFUSED"),
        ("UPDATE people SET age = 1", "REFUSED"),
        ("ATTACH DATABASE 'x.db' AS x", "REFUSED"),
        ("PRAGMA table_info(people)", "REFUSED"),
        ("VACUUM INTO 'x.db'", "REFUSED"),
        ("SELECT load_extension('x')", "REFUSED"),
        ("CREATE TABLE t AS SELECT 1", "REFUSED"),
        ("SELECT 1; DROP TABLE people", "REFUSED"),
        ("SELECT nope FROM people", "SQL_ERROR"),
        ("SELECT FROM", "SQL_ERROR"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
         "TOO_MUCH"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
         "TOO_MUCH"),
        ("SELECT * FROM people a, people b, people c, people d, people e, people f, people g",
         "TOO_MUCH"),
    ],
)  # fmt: skip
def test_hostile_queries_are_contained_and_paid_nothing(sql, query, status) -> None:
    result = score(sql, query, gold="SELECT name FROM people")
    assert (result.value, result.status) == (0.0, status)
    assert result.parts["runs"] == 0.0
    # The next one finds the table as it was.
    assert score(sql, "SELECT count(*) FROM people", gold="SELECT 4").value == 1.0


def test_a_huge_value_ends_soon(sql) -> None:
    result = score(sql, "SELECT hex(randomblob(900000000))", gold="SELECT 1")
    assert result.value == 0.0
    assert result.status in ("SQL_ERROR", "MEMORY_LIMIT", "TIMEOUT", "CPU_LIMIT")


def test_several_databases_tell_a_constant_from_an_answer(sql) -> None:
    gold = "SELECT count(*) FROM people WHERE city = 'Rome'"
    assert score(sql, "SELECT 2", gold=gold).value == 1.0  # one database is fooled
    both = {"schema": [PEOPLE, OTHERS], "gold": gold}
    fooled = score(sql, "SELECT 2", **both)
    assert (fooled.value, fooled.parts["rows"]) == (0.0, 0.5)
    assert score(sql, "SELECT sum(city = 'Rome') FROM people", **both).value == 1.0


def test_answers_as_rows_and_tables_as_rows(sql) -> None:
    tables = {"t": [{"n": 1, "s": "it's"}, {"n": 2, "s": None}, {"n": 0.5, "s": "x"}]}
    values = sql(
        completions=["SELECT sum(n) FROM t", "SELECT s, n FROM t", "SELECT n FROM t ORDER BY n"],
        tables=[tables] * 3,
        answer=[3.5, [["x", 0.5], ["it's", 1], [None, 2]], [0.5, 1, 2]],
        ordered=[None, None, True],
    )
    assert values == [1.0, 1.0, 1.0]


def test_without_a_gold_answer_there_is_no_verdict(sql) -> None:
    assert score(sql, "SELECT 1").status == "NO_GOLD"
    broken = score(sql, "SELECT 1", gold="SELECT nope")
    assert (broken.value, broken.status) == (None, "NO_GOLD")
    assert "no such column" in broken.reason
    with Sandbox(python="/nonexistent/python", workers=1) as nowhere:
        fault = score(SqlReward(nowhere), "SELECT 1", gold="SELECT 1")
    assert (fault.value, fault.status) == (None, "SANDBOX_ERROR")


def test_a_wrong_problem_is_an_error() -> None:
    for row in ({}, {"schema": [PEOPLE], "tables": [{}]}, {"tables": [{"t": []}], "answer": [1]},
                {"tables": [{"t; --": [{"a": 1}]}], "answer": [1]},
                {"schema": [[PEOPLE, OTHERS]], "answer": [1]}):  # fmt: skip
        with pytest.raises(UserError):
            sql_reward.score(completions=["SELECT 1"], **row)


def test_the_cache_and_pickling(sandbox) -> None:
    reward = SqlReward(sandbox)
    score(reward, "SELECT 4", gold="SELECT count(*) FROM people")
    score(reward, "SELECT 4", gold="SELECT 5")  # the query's rows are known; the gold is not there
    assert (reward.cache.misses, reward.cache.hits) == (1, 1)
    assert isinstance(pickle.loads(pickle.dumps(reward)), SqlReward)


@pytest.mark.parametrize(
    "text, query",
    [
        ("SELECT 1", "SELECT 1"),
        ("So:\n```sql\nSELECT 1;\n```\nThis counts.", "SELECT 1;"),
        ("```\n-- all\nSELECT 1\n```", "-- all\nSELECT 1"),
        ("```sql\nSELECT 1\n```\nBetter:\n```sqlite\nSELECT 2\n```", "SELECT 2"),
        ("```sql\nSELECT 1\n```\nIt prints:\n```\n1 | x\n```", "SELECT 1"),
        ("<think>SELECT 0</think><answer>SELECT 1</answer>", "SELECT 1"),
        ("<answer>SELECT 1</answer><answer>SELECT 2</answer>", None),
        ("<think>SELECT 1", None),
        ("I would count the rows.", None),
        ("```sql\nDROP TABLE t\n```", "DROP TABLE t"),
        ("```python\nSELECT = 1\n```", None),
        ("", None),
    ],
)
def test_the_query_is_found(text, query) -> None:
    assert extract_query(text) == query


values = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, 2.25]), st.sampled_from("ab")
)
rows = st.lists(st.lists(values, min_size=2, max_size=2), max_size=8)


@given(rows, st.randoms(use_true_random=False))
def test_any_order_is_the_same_multiset(table, chance: random.Random) -> None:
    shuffled = [list(row) for row in table]
    chance.shuffle(shuffled)
    assert same_rows(table, shuffled)
    assert same_rows(table, shuffled, ordered=True) == (table == shuffled)
    assert not same_rows(table, [*shuffled, [None, None]])


@given(rows)
def test_one_changed_value_is_seen(table) -> None:
    if table:
        changed = [[*row] for row in table]
        changed[0][0] = "another"
        assert not same_rows(table, changed)
        assert not same_with_ties(table, table, table, changed)


def test_floats_pair_within_the_tolerance() -> None:
    # Sorted by value the partners cross over: 0.3 is 0.1 + 0.2 and the texts decide.
    assert same_rows([[0.3, "b"], [0.1 + 0.2, "a"]], [[0.3, "a"], [0.1 + 0.2, "b"]])
    assert not same_rows([[0.3, "b"], [0.3, "a"]], [[0.3, "a"], [0.3001, "b"]])
    assert same_rows([[10**17]], [[10**17]]) and not same_rows([[10**17]], [[10**17 + 1]])


def test_a_tie_that_a_limit_cuts_through_keeps_the_gold_rows() -> None:
    # LIMIT 2 of a 3, b 2, c 2: b or c is the second row, and the gold query gave b.
    gold, up, down = [["a"], ["b"]], [["a"], ["b"]], [["a"], ["c"]]
    assert same_with_ties(gold, up, down, [["a"], ["b"]])
    assert not same_with_ties(gold, up, down, [["b"], ["a"]])
