"""ResultCache: what came of a job before, by content, in one SQLite file.

The key of a result holds everything that leads to it: program, tests, limits, the version
of the language's tools, the version of our own code that runs and judges (a hash of those
files), the backend and how strongly it isolates. A change in any of them is another key.

Kept are results that another run must end in as well, see `kept.py`.

Several processes and threads may share the file (WAL). It keeps to a size; what was not
asked for the longest goes first. A damaged file is moved aside, never misread, and a disk
that refuses costs nothing but speed: it is said once, and counted.

Left out on purpose: what keeps a job apart from the machine is not stored. Equal keys mean
equal isolation, so the report of the sandbox that asks is the right one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.home import home
from rlkit.sandbox.kept import pack, unpack
from rlkit.sandbox.verdict import Verdict

#: Format of the file; one of an older rlkit is moved aside.
FORMAT = 1

#: Marks the file as ours, so that nobody's own database is ever touched.
_APPLICATION = 0x726C6B63

#: Bytes that a row takes beside its value: key, numbers, page overhead.
_ROW_BYTES = 112

#: So many uses are noted in memory before they are written down.
_TOUCHED = 256

_MEMORY = ":memory:"
_SCHEMA = """
CREATE TABLE results (
    key BLOB PRIMARY KEY, value TEXT NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL,
    flaky TEXT
) WITHOUT ROWID;
CREATE INDEX by_use ON results (used);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('bytes', 0), ('hits', 0), ('misses', 0), ('evicted', 0);
CREATE TRIGGER grown AFTER INSERT ON results BEGIN
    UPDATE counters SET value = value + NEW.size WHERE name = 'bytes'; END;
CREATE TRIGGER shrunk AFTER DELETE ON results BEGIN
    UPDATE counters SET value = value - OLD.size WHERE name = 'bytes'; END;
"""


def cache_file() -> Path:
    """The file that `Sandbox(cache=True)` uses.

    >>> cache_file().name
    'results.sqlite3'
    """
    return home() / "sandbox" / "results.sqlite3"


@dataclass(frozen=True)
class Known:
    """What the cache holds about a job: its verdict, and how two runs of it differed if they did.

    Attributes:
        verdict: of the first run.
        flaky: what differed, for a person; empty when nothing ever did.
    """

    verdict: Verdict
    flaky: str = ""


class ResultCache:
    """A bounded, persistent mapping from the content of a job to its verdict.

    May be shared by threads and processes. A pickled copy opens the same file.

    Args:
        path: the file, made when it is not there; `cache_file()` when None; `":memory:"` for
            none, which is forgotten with this object.
        max_mb: size that the results may take, in megabytes.

    Attributes:
        hits, misses: what this object found, and what it did not.
        faults: reads and writes that failed; the first is shown as a warning.

    Raises:
        UserError: a size that is none, a folder that cannot be made, or somebody else's file.

    >>> cache = ResultCache(":memory:")
    >>> from rlkit.sandbox.verdict import Status, TestResult
    >>> cache.put(b"key", Verdict(Status.PASS, (TestResult("t", Status.PASS),), 1, 1, 1.0))
    >>> cache.get([b"key", b"other"])[b"key"].verdict.summary
    '1 of 1 tests passed'
    >>> cache.hits, cache.misses, len(cache)
    (1, 1, 1)
    """

    def __init__(self, path: str | Path | None = None, max_mb: float = 256.0) -> None:
        if not isinstance(max_mb, (int, float)) or isinstance(max_mb, bool) or not max_mb > 0:
            raise UserError(f"max_mb is a size in megabytes above 0, not {max_mb!r}")
        self.path = str(cache_file() if path is None else path)
        self.max_mb = max_mb
        self.hits = self.misses = self.faults = 0
        self._lock = threading.RLock()
        self._touched: dict[bytes, int] = {}
        self._counted = (0, 0)
        self._connection: Any = None
        self._process = 0
        self._inode = 0
        if self.in_file:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise UserError(
                    f"the sandbox's cache cannot lie at {self.path!r} ({error}); name another "
                    "file, or set RLKIT_HOME to a folder that can be written"
                ) from None
        with self._guarded("opened"), self._lock:
            self._open()  # whose file it is, is said now and not in the middle of a run

    @property
    def in_file(self) -> bool:
        """Whether results outlive this object."""
        return self.path != _MEMORY

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Known]:
        """What is known of these keys."""
        found: dict[bytes, Known] = {}
        broken: list[bytes] = []
        with self._guarded("read"), self._lock:
            db = self._open()
            for key in dict.fromkeys(keys):
                row = db.execute("SELECT value, flaky FROM results WHERE key = ?", (key,))
                row = row.fetchone()
                if row is None:
                    continue
                try:
                    found[key] = Known(unpack(row[0]), row[1] or "")
                except (ValueError, TypeError, KeyError, IndexError):
                    broken.append(key)  # half a line is no result
            now = _now()
            self._touched.update(dict.fromkeys(found, now))
            if broken:
                db.executemany("DELETE FROM results WHERE key = ?", [(key,) for key in broken])
            if len(self._touched) >= _TOUCHED:
                self._note_uses(db)
        hits = sum(key in found for key in keys)
        with self._lock:
            self.hits += hits
            self.misses += len(keys) - hits
        return found

    def put(self, key: bytes, verdict: Verdict, flaky: str = "") -> None:
        """Keep a result; the oldest ones go when there is no room.

        Args:
            key: of the job.
            verdict: how it ended; `lasting` says whether to keep it at all.
            flaky: how it differed from another run, for a person; empty when it did not.
        """
        text = pack(verdict)
        size = len(text) + _ROW_BYTES
        if size > self.max_mb * 1e6:
            return
        with self._guarded("written"), self._lock:
            db = self._open()
            with _transaction(db):
                row = db.execute("SELECT flaky FROM results WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    flaky = flaky or row[0] or ""  # once seen, always known
                    db.execute("DELETE FROM results WHERE key = ?", (key,))
                db.execute(
                    "INSERT INTO results VALUES (?, ?, ?, ?, ?)",
                    (key, text, size, _now(), flaky or None),
                )
                self._make_room(db)

    def clear(self) -> None:
        """Forget every result, and the counts."""
        with self._guarded("cleared"), self._lock:
            db = self._open()
            with _transaction(db):
                db.execute("DELETE FROM results")
                db.execute("UPDATE counters SET value = 0")
            db.execute("VACUUM")
        self.hits = self.misses = 0
        self._touched.clear()
        self._counted = (0, 0)

    def stats(self) -> dict[str, Any]:
        """Numbers about the file, of all processes that ever used it, as plain data."""
        with self._lock:
            db = self._open()
            self._note_uses(db)
            numbers = dict(db.execute("SELECT name, value FROM counters").fetchall())
            rows = "SELECT flaky FROM results WHERE flaky IS NOT NULL ORDER BY used DESC"
            flaky = [row[0] for row in db.execute(rows).fetchall()]
            entries = db.execute("SELECT COUNT(*) FROM results").fetchone()[0]
        return {
            "path": self.path,
            "entries": entries,
            "mb": round(numbers["bytes"] / 1e6, 3),
            "max_mb": self.max_mb,
            "hits": numbers["hits"],
            "misses": numbers["misses"],
            "evicted": numbers["evicted"],
            "faults": self.faults,
            "flaky": flaky,
        }

    def __len__(self) -> int:
        with self._lock:
            return self._open().execute("SELECT COUNT(*) FROM results").fetchone()[0]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is None or self._process != os.getpid():
                return
            if self.in_file:
                with self._guarded("written"):
                    self._note_uses(self._connection)
                self._connection.close()
                self._connection = None

    # -- the file ---------------------------------------------------------------------------

    def _open(self) -> Any:
        """The connection of this process, with the lock held."""
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        if self._connection is not None:
            # After a fork: neither used nor closed, for it is the parent's.
            _of_parents.append(self._connection)
            self._lock = threading.RLock()
            self._touched = {}
        import sqlite3

        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._move_aside(str(error))
            self._connection = self._connect()
        self._process = os.getpid()
        self._inode = os.stat(self.path).st_ino if self.in_file else 0
        return self._connection

    def _connect(self) -> Any:
        import sqlite3

        db = sqlite3.connect(self.path, timeout=10.0, isolation_level=None, check_same_thread=False)
        try:
            with _transaction(db):  # two processes may find an empty place at once
                mark = db.execute("PRAGMA application_id").fetchone()[0]
                version = db.execute("PRAGMA user_version").fetchone()[0]
                tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
                if mark != _APPLICATION and tables:
                    raise UserError(
                        f"{self.path!r} is a database, but no cache of the sandbox; name "
                        "another file"
                    )
                if mark == _APPLICATION and version != FORMAT:
                    raise sqlite3.DatabaseError("it was written by another version of rlkit")
                if not tables:
                    for statement in _statements(_SCHEMA):
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {FORMAT}")
                    db.execute(f"PRAGMA application_id = {_APPLICATION}")
            # A power cut may cost the last results; it does not damage the file.
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            db.close()
            raise
        return db

    def _move_aside(self, why: str) -> None:
        if not self.in_file:
            return
        aside = f"{self.path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        for end in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path + end, aside + end)
        warnings.warn(
            f"the sandbox's cache {self.path!r} could not be used ({why}); it was moved to "
            f"{aside!r} and a new one was begun, so programs run again",
            RuntimeWarning,
            stacklevel=3,
        )

    @contextlib.contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """A fault of the disk is counted and shown once; no verdict is lost by it."""
        import sqlite3

        try:
            yield
        except (sqlite3.Error, OSError) as error:
            with self._lock:
                self.faults += 1
                self._touched.clear()
                if _is_damage(error):
                    self._begin_anew(str(error))
                    return
            if self.faults == 1:
                warnings.warn(
                    f"the sandbox's cache {self.path!r} could not be {what} ({error}); programs "
                    "run without it, and such faults are counted in .faults",
                    RuntimeWarning,
                    stacklevel=4,
                )

    def _begin_anew(self, why: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # a damaged file may refuse even that
                connection.close()
        with contextlib.suppress(FileNotFoundError):
            # Another process may have moved it already; its new file is not ours to move.
            if self._inode in (0, os.stat(self.path).st_ino):
                self._move_aside(why)

    def _note_uses(self, db: Any) -> None:
        """Write down what was used since the last time, in one go."""
        counted = (self.hits, self.misses)
        more = [n - o for n, o in zip(counted, self._counted, strict=True)]
        if not self._touched and not any(more):
            return
        rows = [(used, key) for key, used in self._touched.items()]
        with _transaction(db):
            db.executemany("UPDATE results SET used = ? WHERE key = ?", rows)
            for name, number in zip(("hits", "misses"), more, strict=True):
                db.execute("UPDATE counters SET value = value + ? WHERE name = ?", (number, name))
        self._touched.clear()
        self._counted = counted

    def _make_room(self, db: Any) -> None:
        """Forget the longest unused until a tenth of the room is free again."""
        room = int(self.max_mb * 1_000_000)
        total = _bytes(db)
        if total <= room:
            return
        for key, used in self._touched.items():
            db.execute("UPDATE results SET used = ? WHERE key = ?", (used, key))
        self._touched.clear()
        gone = []
        for key, size in db.execute("SELECT key, size FROM results ORDER BY used"):
            if total <= 0.9 * room:
                break
            gone.append((key,))
            total -= size
        db.executemany("DELETE FROM results WHERE key = ?", gone)
        db.execute("UPDATE counters SET value = value + ? WHERE name = 'evicted'", (len(gone),))

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_mb": self.max_mb}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["max_mb"])

    def __repr__(self) -> str:
        return f"ResultCache({self.path!r}, max_mb={self.max_mb:g})"


#: Connections of a parent process; dropping the last name of one would close it.
_of_parents: list[Any] = []


def _is_damage(error: Exception) -> bool:
    """Whether the file itself is wrong; one that is locked, full or read-only is whole."""
    import sqlite3

    passing = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.IntegrityError)
    return isinstance(error, sqlite3.DatabaseError) and (
        not isinstance(error, passing) or "malformed" in str(error)
    )


@contextlib.contextmanager
def _transaction(db: Any) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    import sqlite3

    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _bytes(db: Any) -> int:
    return db.execute("SELECT value FROM counters WHERE name = 'bytes'").fetchone()[0]


def _now() -> int:
    return time.time_ns() // 1000
