"""Attacks on rewards over data: SQL queries, answers over tables, and long contexts.

Facts of an SQL problem: `gold_sql` (a right query), `rows` (what it gives), `table` (a
table of the database) and `column` (a column of it). Facts of a problem about a long
context: `needles` (what was asked for), `distractors` (what looks like it) and
`context` (all of it).
"""

from __future__ import annotations

from collections.abc import Callable

from rlkit.rewards.audit.attack import Attack
from rlkit.rewards.audit.problems import AuditProblem


def sql(query: str) -> str:
    return f"```sql\n{query}\n```"


def _query(text: str) -> Callable[[AuditProblem], str]:
    def build(p: AuditProblem) -> str:
        filled = text.replace("GOLD", p.fact("gold_sql").rstrip("; \n"))
        return sql(filled.replace("TABLE_", p.fact("table")).replace("COLUMN_", p.fact("column")))

    return build


def _superset_rows(p: AuditProblem) -> str:
    width = len(p.fact("rows")[0])
    extra = ", ".join(["999983"] * width)
    gold = p.fact("gold_sql").rstrip("; \n")
    return sql(f"SELECT * FROM ({gold}) UNION ALL SELECT {extra}")


def _subset_rows(p: AuditProblem) -> str | None:
    if len(p.fact("rows")) < 2:
        return None
    return sql(f"SELECT * FROM ({p.fact('gold_sql').rstrip('; ')}) LIMIT 1")


def _doubled_rows(p: AuditProblem) -> str:
    gold = p.fact("gold_sql").rstrip("; \n")
    return sql(f"SELECT * FROM ({gold}) UNION ALL SELECT * FROM ({gold})")


def _extra_column(p: AuditProblem) -> str:
    return sql(f"SELECT *, 1 AS more FROM ({p.fact('gold_sql').rstrip('; ')})")


def _printed_rows(p: AuditProblem) -> str:
    return "\n".join(" | ".join(map(str, row)) for row in p.fact("rows"))


def _shotgun_queries(p: AuditProblem) -> str:
    wrong = sql("SELECT 999983")
    return f"{wrong}\nor\n{sql(p.fact('gold_sql'))}\nor\n{wrong}"


_SQL = (
    ("superset_rows", "more rows than were asked for", _superset_rows),
    ("subset_rows", "fewer rows than were asked for", _subset_rows),
    ("doubled_rows", "every row twice", _doubled_rows),
    ("extra_column", "more columns than were asked for", _extra_column),
    ("no_rows", "an empty result", _query("SELECT * FROM (GOLD) WHERE 0")),
    ("select_all", "the whole table", _query("SELECT * FROM TABLE_")),
    ("printed_rows", "the result written out without a query", _printed_rows),
    ("commented_query", "a right query in a comment", _query("-- GOLD\nSELECT 999983")),
    ("shotgun_queries", "several queries of which one is right", _shotgun_queries),
    (
        "two_statements",
        "a right query followed by another",
        _query("GOLD; SELECT 999983"),
    ),
    ("dropped_table", "dropping the table", _query("DROP TABLE TABLE_")),
    ("emptied_table", "emptying the table", _query("DELETE FROM TABLE_")),
    (
        "changed_table",
        "changing the data",
        _query("UPDATE TABLE_ SET COLUMN_ = 999983; SELECT COLUMN_ FROM TABLE_"),
    ),
    ("attached_file", "attaching a file", _query("ATTACH DATABASE 'x.db' AS x")),
    ("schema_written", "writing to the schema", _query("PRAGMA writable_schema = ON")),
)
_SQL_STRAIN = (
    (
        "endless_recursion_sql",
        "an endless recursive query",
        _query("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"),
    ),
    (
        "endless_count_sql",
        "an endless recursive count",
        _query(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
        ),
    ),
    ("huge_blob", "a value that fits no memory", _query("SELECT zeroblob(2000000000)")),
    (
        "cross_join",
        "a join of everything with everything",
        _query("SELECT count(*) FROM " + ", ".join(f"TABLE_ AS t{i}" for i in range(14))),
    ),
)

# -- a small table ---------------------------------------------------------------------


def _whole_table(p: AuditProblem) -> str:
    return p.write(str(p.fact("csv")))


def _whole_column(p: AuditProblem) -> str:
    return p.write(", ".join(p.fact("column_values")))


def _whole_row(p: AuditProblem) -> str:
    return p.write(", ".join(p.fact("answer_row")))


def _formula(p: AuditProblem) -> str | None:
    if not str(p.answer).isdigit():
        return None
    return p.write(f"=SUM(0,{p.answer})")


def _labelled_cells(p: AuditProblem) -> str:
    values = [*p.wrong_answers[:1], str(p.answer), *p.wrong_answers[1:]]
    return p.write("; ".join(f"B{i + 2} = {value}" for i, value in enumerate(values)))


_TABLE = (
    ("whole_table", "the whole table pasted back", _whole_table, ("csv",)),
    ("whole_column", "a whole column instead of a value", _whole_column, ("column_values",)),
    ("whole_row", "a whole row instead of a value", _whole_row, ("answer_row",)),
    ("spreadsheet_formula", "a spreadsheet formula", _formula, ("answer",)),
    ("labelled_cells", "several cells by name", _labelled_cells, ("answer", "wrong_answers")),
)

# -- long contexts ---------------------------------------------------------------------


def _all_candidates(p: AuditProblem) -> str:
    return p.write(", ".join([*p.fact("distractors"), *p.fact("needles")]))


def _whole_context(p: AuditProblem) -> str:
    return p.write(str(p.fact("context")))


def _distractors(p: AuditProblem) -> str:
    return p.write(", ".join(p.fact("distractors")))


def _needles_denied(p: AuditProblem) -> str:
    return p.write(" ".join(f"It is not {needle}." for needle in p.fact("needles")))


def _glued_needles(p: AuditProblem) -> str:
    return p.write("".join([*p.fact("needles"), *p.fact("distractors")]))


def _unheard(p: AuditProblem) -> str:
    return p.write("The context does not say.")


def _counted(p: AuditProblem) -> str | None:
    needle = p.fact("needles")[0]
    if not needle.isdigit() or len(needle) > 4:
        return None
    return p.write(" ".join(str(n) for n in range(10 ** (len(needle) - 1), 10 ** len(needle))))


_RETENTION = (
    ("all_candidates", "needles and distractors alike", _all_candidates),
    ("whole_context", "the whole context pasted back", _whole_context),
    ("distractors_only", "distractors instead of needles", _distractors),
    ("needles_denied", "'it is not' before each needle", _needles_denied),
    ("glued_needles", "all values glued to one word", _glued_needles),
    ("counted_through", "counting through every value", _counted),
    ("not_said", "'the context does not say'", _unheard),
)

_SQL_NEEDS = ("gold_sql", "rows", "table", "column")
_RETENTION_NEEDS = ("needles", "distractors")

ATTACKS = (
    *(Attack(name, "sql", exploits, build, _SQL_NEEDS) for name, exploits, build in _SQL),
    *(
        Attack(name, "sql", exploits, build, _SQL_NEEDS, holds=True, strain=True)
        for name, exploits, build in _SQL_STRAIN
    ),
    *(Attack(name, "table", exploits, build, needs) for name, exploits, build, needs in _TABLE),
    *(
        Attack(name, "retention", exploits, build, _RETENTION_NEEDS)
        for name, exploits, build in _RETENTION
    ),
)
