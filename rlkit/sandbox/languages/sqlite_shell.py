"""A small shell for SQLite, run inside the sandbox where the program `sqlite3` is not there.

It reads statements from stdin, runs them in a database in memory and prints rows as that
program does in list mode: values joined by `|`, NULL as nothing, floats with 15 digits. The
first error ends it. Files, extensions and settings that reach beyond the database are refused
by an authoriser.

This file is run by the child as a program of its own, standard library only.
Left out on purpose: commands that begin with a dot.
"""

from __future__ import annotations

import sqlite3
import sys

#: Settings that change only what this one connection sees.
HARMLESS = frozenset(
    ("foreign_keys", "recursive_triggers", "case_sensitive_like", "table_info", "table_list")
)


def allow(action: int, first: str | None, second: str | None, *rest: str | None) -> int:
    """The authoriser: no other files, no extensions, no far-reaching settings."""
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() not in HARMLESS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def shown(value: object, connection: sqlite3.Connection) -> bytes:
    """One value as the shell prints it."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value.split(b"\0")[0]
    if isinstance(value, float):
        return connection.execute("select printf('%!.15g', ?)", (value,)).fetchone()[0].encode()
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").split(b"\0")[0]
    return str(value).encode()


def main() -> int:
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    connection.set_authorizer(allow)
    rest, line = text, 1
    while rest.strip():
        statement, rest = first_statement(rest)
        blank = statement[: len(statement) - len(statement.lstrip())]
        if not run(connection, statement, line + blank.count("\n")):
            return 1
        line += statement.count("\n")
    sys.stdout.flush()
    return 0


def run(connection: sqlite3.Connection, statement: str, line: int) -> bool:
    """Run one statement and print its rows; False after an error."""
    try:
        for row in connection.execute(statement):
            sys.stdout.buffer.write(b"|".join(shown(v, connection) for v in row) + b"\n")
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        sys.stdout.flush()
        kind = "Parse" if "syntax error" in str(error) else "Runtime"
        print(f"{kind} error near line {line}: {error}", file=sys.stderr)
        return False
    return True


def first_statement(script: str) -> tuple[str, str]:
    """Split off the shortest beginning that is a whole statement."""
    at = script.find(";")
    while at >= 0:
        if sqlite3.complete_statement(script[: at + 1]):
            return script[: at + 1], script[at + 1 :]
        at = script.find(";", at + 1)
    return script, ""


if __name__ == "__main__":
    sys.exit(main())
