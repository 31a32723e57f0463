"""Ask a database that exists only in memory one question, and let it do nothing else.

In the sandbox the job's source is this file and a line that calls `build`; the test calls
`answer` with the query and prints the rows as JSON. The host calls `run_query` on a
problem's own gold query. The authorizer lets a statement read and compute, nothing more.
"""

import json
import sqlite3

#: What a statement may do: select, read a column, call a function, recurse.
ALLOWED = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION),
    33,  # SQLITE_RECURSIVE, which the module has no name for
)
#: Functions that reach outside of the database, or are there to fill memory.
REFUSED = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zeroblob")

#: One value may be so long.
MAX_VALUE_BYTES = 10_000_000

HELD = {}


class Refused(Exception):
    """The statement is not a question."""


class TooMuch(Exception):
    """More rows or more work than a question may cost."""


def connect(script):
    """A database in memory made by an SQL script of the problem's own."""
    base = sqlite3.connect(":memory:", isolation_level=None)
    base.executescript(script)
    return base


def build(script):
    HELD["base"] = connect(script)


def run_query(base, query, max_rows, max_steps):
    """Number of columns and rows of one reading statement.

    Args:
        base: the connection; nothing else can be done with it afterwards.
        query: one statement.
        max_rows: more rows than this are refused.
        max_steps: so many thousand instructions of the engine may run.

    Raises:
        Refused: it would do more than read, or is more than one statement.
        TooMuch: more rows or steps.
        sqlite3.Error: it is not SQL, or names what does not exist.
    """
    refused, left = [], [max_steps]

    def allow(action, first, second, *_):
        if action in ALLOWED and str(second).lower() not in REFUSED:
            return sqlite3.SQLITE_OK
        refused.append(action)
        return sqlite3.SQLITE_DENY

    def tick():
        left[0] -= 1
        return left[0] < 0

    if hasattr(base, "setlimit"):  # from Python 3.11 on; else the process's memory is the limit
        base.setlimit(0, MAX_VALUE_BYTES)  # SQLITE_LIMIT_LENGTH
    base.set_progress_handler(tick, 1000)
    base.set_authorizer(allow)
    try:
        cursor = base.execute(query)
        if cursor.description is None:
            raise Refused("the statement gives no rows")
        rows = cursor.fetchmany(max_rows + 1)
    except (sqlite3.ProgrammingError, sqlite3.Warning) as error:
        raise Refused(str(error)) from None
    except sqlite3.Error as error:
        if refused:
            raise Refused("it may read the tables, and nothing else") from None
        if left[0] < 0:
            raise TooMuch("it does not come to an end") from None
        raise error
    if len(rows) > max_rows:
        raise TooMuch(f"it gives more than {max_rows:,} rows")
    return len(cursor.description), [list(row) for row in rows]


def answer(query, max_rows, max_steps):
    """Print the outcome as one line of JSON: the host reads it, and nobody else can write it."""
    try:
        width, rows = run_query(HELD["base"], query, max_rows, max_steps)
        told = {"width": width, "rows": rows}
    except Refused as error:
        told = {"status": "REFUSED", "reason": str(error)}
    except TooMuch as error:
        told = {"status": "TOO_MUCH", "reason": str(error)}
    except (sqlite3.Error, ValueError, OverflowError) as error:
        told = {"status": "SQL_ERROR", "reason": str(error)}
    print(json.dumps(told, default=lambda blob: {"blob": blob.hex()}))
    return True
