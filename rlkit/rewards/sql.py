"""sql_reward: does a query give the right rows, from a database built for the problem?

The database lives in memory for one query, in the sandbox: the query is the model's text.
It may read and nothing else (`inside/query.py`), in bounded steps, rows and time. What is
expected never enters that process; the host compares the rows (`result_sets.py`).

One database proves little: a query that says `SELECT 3` is right wherever the answer is 3.
Give several schemas with the same tables and other rows, and a gold query, and a query must
be right on each (after Zhong, Yu and Klein 2020, distilled test suites).

Left out on purpose: writing statements, other dialects than SQLite's.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.extraction import (
    MAX_SOURCE_CHARS,
    answer_blocks,
    fenced_blocks,
    without_thoughts,
)
from rlkit.rewards.in_sandbox import InSandbox
from rlkit.rewards.inside import query as engine
from rlkit.rewards.inside import source_of
from rlkit.rewards.result_sets import TOLERANCE, same_rows, same_with_ties
from rlkit.rewards.reward import Score
from rlkit.rewards.verdict_cache import UNSTABLE, VerdictCache, content_key
from rlkit.sandbox import Job, Sandbox, Status, TestSpec, Verdict

#: A query may give so many rows, and run so many thousand instructions of the engine.
MAX_ROWS, MAX_STEPS = 5_000, 20_000

_SQL_TAGS = ("sql", "sqlite", "sqlite3", "postgresql", "mysql", "")
_STARTS = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:select|with|values)\b", re.I | re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")


class SqlReward(InSandbox):
    """1 when the query's rows are right, else 0; `None` without a gold answer or a verdict.

    Columns, one entry for each completion:

    * `schema`: an SQL script that makes and fills the tables, or a list of such scripts;
      or `tables`: `{name: [row as {column: value}, ...]}`;
    * `gold`: a query that is right, or `answer`: the right rows (with one `schema` only);
    * `ordered` (may be missing): whether the order of rows counts. Otherwise it counts when
      the gold query ends in an ORDER BY; rows that tie there may come in any order.

    Parts: `query` (there is one), `runs` (it may be run and ends), `rows` (the share of
    databases on which its rows are right; all must be).

    Args:
        sandbox: where queries run; one with default limits, started when it is needed.
        tolerance: for floats, relative or absolute.
        cache: of what queries gave, by content. One of its own when not given.
    """

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        tolerance: float = TOLERANCE,
        cache: VerdictCache | None = None,
    ) -> None:
        super().__init__(self._run, "sql_reward", bounds=(0.0, 1.0))
        self.tolerance = tolerance
        self.cache = VerdictCache() if cache is None else cache
        self._sandbox = sandbox

    def _run(self, *, completions: Sequence[str], **columns: Any) -> list[Score]:
        names = ("schema", "tables", "gold", "answer", "ordered")
        given = {name: columns[name] for name in names if columns.get(name) is not None}
        for name, rows in given.items():
            if isinstance(rows, str) or len(rows) != len(completions):
                raise UserError(f"column {name!r} must be a list, one entry for each completion")
        problems = [
            _problem(**{name: rows[i] for name, rows in given.items()})
            for i in range(len(completions))
        ]
        queries = [extract_query(text) for text in completions]
        outcomes = self._outcomes(
            [
                (script, query)
                for problem, query in zip(problems, queries, strict=True)
                if query is not None and problem.golds
                for script in problem.scripts
            ]
        )
        return [
            self._score(problem, query, outcomes)
            for problem, query in zip(problems, queries, strict=True)
        ]

    def _outcomes(self, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict]:
        """What each query gave on each database, by the pair; run once, together."""
        keys = {pair: content_key(self.sandbox, *pair) for pair in asked}
        found = {pair: self.cache.get(key) for pair, key in keys.items()}
        new = [pair for pair, known in found.items() if known is None]
        verdicts = self.sandbox.run_many([self._job(*pair) for pair in new]) if new else []
        for pair, verdict in zip(new, verdicts, strict=True):
            found[pair] = _told(verdict)
            if verdict.status.name not in UNSTABLE:
                self.cache.put(keys[pair], found[pair])
        return found

    def _job(self, script: str, query: str) -> Job:
        limits = self.sandbox.limits
        return Job(
            source=f"{source_of('query')}\nbuild({script!r})\n",
            entry="answer",
            tests=[TestSpec("query", args=(query, MAX_ROWS, MAX_STEPS), expected=True)],
            limits=replace(limits, output_kb=max(limits.output_kb, 1024)),
        )

    def _score(self, problem: _Problem, query: str | None, outcomes: Mapping) -> Score:
        if not problem.golds:
            return Score(None, "NO_GOLD", reason=problem.reason)
        if query is None:
            parts = {"query": 0.0, "runs": 0.0, "rows": 0.0}
            return Score(0.0, "NO_ANSWER", parts, "there is not one query to run")
        right, status, reason = 0, "OK", "the rows are right"
        ran = True
        for script, gold in zip(problem.scripts, problem.golds, strict=True):
            outcome = outcomes[script, query]
            if outcome.get("status") == "SANDBOX_ERROR":
                parts = {"query": 1.0, "runs": None, "rows": None}
                return Score(None, "SANDBOX_ERROR", parts, outcome["reason"])
            if "status" in outcome:
                ran, status, reason = False, outcome["status"], outcome["reason"]
            elif gold.agrees(outcome, self.tolerance):
                right += 1
            else:
                status, reason = "WRONG", gold.difference(outcome)
        share = right / len(problem.scripts)
        parts = {"query": 1.0, "runs": float(ran), "rows": share}
        return Score(float(right == len(problem.scripts)), status, parts, reason)


def extract_query(text: str) -> str | None:
    """The one query of a completion, or `None`.

    The last block that begins like a question (SELECT, WITH, VALUES), else an answer
    block, else the whole text.

    >>> extract_query("So:\\n```sql\\nSELECT name FROM people;\\n```")
    'SELECT name FROM people;'
    """
    answer = without_thoughts(text[:MAX_SOURCE_CHARS].replace("\r\n", "\n"))
    if answer is None:
        return None
    blocks = [block.text for block in fenced_blocks(answer) if block.tag in _SQL_TAGS]
    if not blocks:
        blocks = answer_blocks(answer)
        # Two answers are no answer; a guess in each would be paid for the better one.
        if len(blocks) > 1:
            return None
    candidates = [b for b in blocks or [answer] if b.strip()]
    asking = [b for b in candidates if _STARTS.match(b)]
    if not asking:  # what only writes is handed on from its block, to be refused by name
        asking = candidates if blocks else []
    return asking[-1].strip() if asking else None


@dataclass(frozen=True)
class _Gold:
    """The right rows; when their order counts, also with ties broken both ways."""

    width: int | None
    rows: list
    ties: tuple[list, list] | None = None

    def agrees(self, outcome: Mapping[str, Any], tolerance: float) -> bool:
        got = outcome["rows"]
        if self.width is not None and outcome["width"] != self.width:
            return False
        if self.ties is None:
            return same_rows(self.rows, got, tolerance=tolerance)
        return same_with_ties(self.rows, *self.ties, got, tolerance)

    def difference(self, outcome: Mapping[str, Any]) -> str:
        rows, wanted = len(outcome["rows"]), len(self.rows)
        if self.width is not None and outcome["width"] != self.width:
            return f"it gives {outcome['width']} columns, {self.width} are right"
        if rows != wanted:
            return f"it gives {rows} rows, {wanted} are right"
        if self.ties is not None and same_rows(self.rows, outcome["rows"]):
            return "the rows are right, but in another order"
        return "it gives other rows"


@dataclass(frozen=True)
class _Problem:
    scripts: tuple[str, ...]
    golds: tuple[_Gold, ...]
    reason: str = ""


def _problem(
    schema: Any = None,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    gold: str | None = None,
    answer: Any = None,
    ordered: bool | None = None,
) -> _Problem:
    if (schema is None) == (tables is None):
        raise UserError("sql_reward needs a column schema (an SQL script) or tables, not both")
    if tables is not None:
        schema = _script_of(tables)
    scripts = (schema,) if isinstance(schema, str) else tuple(schema)
    if gold is None and answer is None:
        return _Problem(scripts, (), "the problem has neither a gold query nor an answer")
    if gold is None:
        if len(scripts) > 1:
            raise UserError("an answer is that of one database; give a gold query for several")
        rows = [list(row) if isinstance(row, (list, tuple)) else [row] for row in _listed(answer)]
        width = len(rows[0]) if rows else None
        return _Problem(scripts, (_Gold(width, rows, (rows, rows) if ordered else None),))
    counts = _ends_in_order(gold) if ordered is None else bool(ordered)
    try:
        return _Problem(scripts, tuple(_gold_rows(script, gold, counts) for script in scripts))
    except (sqlite3.Error, engine.Refused, engine.TooMuch) as error:
        return _Problem(scripts, (), f"the gold query or the schema does not run: {error}")


@lru_cache(maxsize=4096)
def _gold_rows(script: str, gold: str, ordered: bool) -> _Gold:
    """The gold query's rows. It is the problem's own text, held to the same rules."""
    width, rows = _ask(script, gold)
    if not ordered:
        return _Gold(width, rows)
    try:
        ties = tuple(_ask(script, _tied(gold, width, way))[1] for way in ("ASC", "DESC"))
    except (sqlite3.Error, engine.Refused):  # an order that cannot be added to: taken as it is
        ties = (rows, rows)
    return _Gold(width, rows, ties)


def _ask(script: str, query: str) -> tuple[int, list]:
    base = engine.connect(script)
    try:
        width, rows = engine.run_query(base, query, MAX_ROWS, MAX_STEPS)
    finally:
        base.close()
    # Through JSON, as the candidate's rows come.
    return width, json.loads(json.dumps(rows, default=_blob))


def _told(verdict: Verdict) -> dict[str, Any]:
    """What the child printed about a query, or why it printed nothing."""
    if verdict.status is Status.SANDBOX_ERROR:
        return {"status": "SANDBOX_ERROR", "reason": verdict.summary}
    if verdict.status is not Status.PASS:
        return {"status": verdict.status.name, "reason": verdict.summary}
    return json.loads(verdict.stdout)


def _script_of(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """An SQL script for tables that are given as rows; values must be plain."""
    lines = []
    for table, rows in tables.items():
        if not rows:
            raise UserError(f"the table {table!r} has no rows; use a schema to make an empty one")
        columns = list(rows[0])
        for name in (table, *columns):
            if not _NAME.fullmatch(str(name)):
                raise UserError(f"{name!r} is not a name for a table or a column")
        head = ", ".join(f'"{column}"' for column in columns)
        lines.append(f'CREATE TABLE "{table}" ({head});')
        for row in rows:
            if list(row) != columns:
                raise UserError(f"the rows of table {table!r} have different columns")
            values = ", ".join(_literal(value) for value in row.values())
            lines.append(f'INSERT INTO "{table}" VALUES ({values});')
    return "\n".join(lines)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise UserError(f"a value of a table must be text, a number or None, not {value!r}")


def _outermost(query: str) -> str:
    """The query with strings, comments and brackets blanked out, every place kept."""
    hidden = r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|;\s*\Z"
    bare = re.sub(hidden, lambda m: " " * len(m.group()), query, flags=re.DOTALL)
    while (inner := re.sub(r"\([^()]*\)", lambda m: " " * len(m.group()), bare)) != bare:
        bare = inner
    return bare


def _ends_in_order(query: str) -> bool:
    """Does the outermost statement end in an ORDER BY?"""
    return re.search(r"\border\s+by\b", _outermost(query), re.IGNORECASE) is not None


def _tied(query: str, width: int, way: str) -> str:
    """The query with all its columns added to its order, upwards or downwards."""
    bare = _outermost(query).rstrip()
    limit = re.search(r"\blimit\b", bare, re.IGNORECASE)
    place = limit.start() if limit else len(bare)
    more = "".join(f", {column} {way}" for column in range(1, width + 1))
    return f"{query[:place]}{more} {query[place : len(bare)]}"


def _listed(answer: Any) -> list:
    return list(answer) if isinstance(answer, (list, tuple)) else [answer]


def _blob(value: bytes) -> dict[str, str]:
    return {"blob": value.hex()}


sql_reward = SqlReward()
