"""Subjects of rewards over data: SQL queries on a small database built for the problem.

The right rows are worked out here by SQLite from a gold query of ours. Every problem has
two databases, so that a query that says the number itself is right on one of them only.
"""

from __future__ import annotations

import random
import sqlite3

from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject
from rlkit.rewards.audit.subjects_code import short_limits
from rlkit.rewards.audit.suite_data import sql

_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")
_CITIES = ("Bern", "Lyon", "Turin")
_MAKE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, city TEXT, age INTEGER);"


def _script(rng: random.Random) -> str:
    """A table of eight people; every city has at least two of them."""
    rows = [
        f"INSERT INTO people VALUES ({i + 1}, '{name}', '{_CITIES[i % 3]}', {rng.randint(20, 70)});"
        for i, name in enumerate(_NAMES)
    ]
    return "\n".join([_MAKE, *rows])


def rows_of(script: str, query: str) -> list[tuple]:
    """What a query of ours gives on a database of ours."""
    base = sqlite3.connect(":memory:")
    try:
        base.executescript(script)
        return base.execute(query).fetchall()
    finally:
        base.close()


def _sql_problem(
    scripts: list[str], question: str, gold: str, right: dict[str, str], wrong: dict[str, str]
) -> AuditProblem:
    return AuditProblem(
        columns={"schema": scripts, "gold": gold},
        honest={
            "sql fence": sql(gold),
            "semicolon": sql(f"{gold};"),
            "lower case": sql(gold.lower().replace("'bern'", "'Bern'")),
            "thought first": f"<think>One table is enough.</think>\n{sql(gold)}",
            "chat around": f"This query does it:\n\n{sql(gold)}\n\nIt reads one table.",
            "over lines": sql(gold.replace(" FROM", "\nFROM").replace(" WHERE", "\nWHERE")),
            "comment first": sql(f"-- as asked\n{gold}"),
            **{name: sql(query) for name, query in right.items()},
        },
        wrong={
            **{name: sql(query) for name, query in wrong.items()},
            "does not parse": sql(gold.replace("SELECT", "SELEC")),
            "no such column": sql("SELECT height FROM people"),
            "no query": "The table holds what you look for.",
            "empty completion": "",
        },
        question=question,
        ladder=("", sql("SELECT 999983"), sql(gold)),
        same=((sql(gold), f"\n{sql(gold)}\n\n", sql(f"\n  {gold.replace(' ', '  ')} \n")),),
        template=sql("ANSWER"),
        mutants={name: sql(query) for name, query in _mutants(scripts, gold).items()},
        facts={
            "gold_sql": gold,
            "rows": rows_of(scripts[0], gold),
            "table": "people",
            "column": "age",
            "worthless": sql("SELECT 999983"),
        },
    )


def _mutants(scripts: list[str], gold: str) -> dict[str, str]:
    """The gold query changed in one place, where that changes the rows of some database."""
    changes = {">": "<", ">=": ">", "<": ">", "avg": "max", "count": "sum", "'Bern'": "'Lyon'"}
    changes |= {"name": "city", " 40": " 41", "AVG": "MAX", "COUNT(*)": "SUM(age)", "age": "id"}
    found = {}
    for old, new in changes.items():
        changed = gold.replace(old, new, 1)
        if changed == gold:
            continue
        if any(sorted(rows_of(s, changed)) != sorted(rows_of(s, gold)) for s in scripts):
            found[f"{old.strip()} for {new.strip()}"] = changed
    return found


def _sql(seed: int) -> list[AuditProblem]:
    rng = random.Random(f"audit/sql/{seed}")
    scripts = [_script(rng), _script(rng)]
    first = rows_of(scripts[0], "SELECT COUNT(*) FROM people WHERE age > 40")[0][0]
    while rows_of(scripts[1], "SELECT COUNT(*) FROM people WHERE age > 40")[0][0] == first:
        scripts[1] = _script(rng)
    return [
        _sql_problem(
            scripts,
            "How many people are older than 40?",
            "SELECT COUNT(*) FROM people WHERE age > 40",
            {
                "another way": "SELECT SUM(age > 40) FROM people",
                "with a name": "SELECT COUNT(id) AS n FROM people AS p WHERE p.age > 40",
            },
            {
                "all of them": "SELECT COUNT(*) FROM people",
                "the number itself": f"SELECT {first}",
                "the other side": "SELECT COUNT(*) FROM people WHERE age <= 40 OR age > 400",
            },
        ),
        _sql_problem(
            scripts,
            "What are the names of the people in Bern?",
            "SELECT name FROM people WHERE city = 'Bern'",
            {
                "another order": "SELECT name FROM people WHERE city = 'Bern' ORDER BY name DESC",
                "a subquery": "SELECT name FROM (SELECT * FROM people) WHERE city IN ('Bern')",
            },
            {
                "another city": "SELECT name FROM people WHERE city = 'Lyon'",
                "everybody": "SELECT name FROM people",
                "the city instead": "SELECT city FROM people WHERE city = 'Bern'",
            },
        ),
    ]


register_subject(
    "sql_reward",
    Subject(
        "sql",
        "answer",
        "the rows that a query gives",
        ("sql", "length", "strain"),
        _sql,
        ("schema", "gold"),
        prepare=short_limits,
    ),
    by_columns=True,
)
