"""JudgeCache: what a judge said before, by content, in one SQLite file.

A verdict is found again by everything that led to it: rubric, judge, settings, question,
reference and completion. Several processes may share the file (WAL). It keeps to a size:
what was not asked for the longest goes first.

Left out on purpose: verdicts that are none. A time-out or a reply without scores is asked
again next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlkit.errors import UserError

#: Format of the file; another one is refused rather than misread.
FORMAT = 1
#: Bytes that a row takes beside its value: key, number, page overhead.
_ROW_BYTES = 96
_MEMORY = ":memory:"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS verdicts ("
    "key BLOB PRIMARY KEY, value TEXT NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL"
    ") WITHOUT ROWID"
)


def cache_key(*content: Any) -> bytes:
    """Equal for equal content (32 bytes); content is plain data."""
    text = json.dumps([FORMAT, *content], sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


class JudgeCache:
    """A bounded, persistent mapping from content to verdicts.

    May be shared by threads and processes. A pickled copy opens the same file; one in
    memory starts empty.

    Args:
        path: the file, made when it is not there; `":memory:"` for none.
        max_mb: size that the verdicts may take, in megabytes.

    Attributes:
        hits, misses: what was found, and what was not.
        faults: writes and reads that failed; the first is shown as a warning.

    Raises:
        UserError: the file is no such cache or cannot be opened, or a size that is none.

    >>> cache = JudgeCache()
    >>> cache.put({cache_key("q"): {"marks": {"right": 9.0}}})
    >>> cache.get([cache_key("q"), cache_key("other")])[cache_key("q")]
    {'marks': {'right': 9.0}}
    >>> cache.hits, cache.misses, len(cache)
    (1, 1, 1)
    """

    def __init__(self, path: str | Path = _MEMORY, max_mb: float = 64.0) -> None:
        if not isinstance(max_mb, (int, float)) or isinstance(max_mb, bool) or not max_mb > 0:
            raise UserError(f"max_mb is a size in megabytes above 0, not {max_mb!r}")
        self.path = str(path)
        self.max_mb = max_mb
        self.hits = self.misses = self.faults = 0
        self._lock = threading.Lock()
        self._connection: Any = None
        self._process = 0
        with self._open():
            pass  # what is wrong with the file is said now, not in the middle of a run

    @property
    def in_file(self) -> bool:
        """Whether verdicts outlive this process."""
        return self.path != _MEMORY

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Any]:
        """What is known of these keys; a file that cannot be read is a miss, and counted."""
        found: dict[bytes, Any] = {}
        with self._guarded("read"), self._open() as db:
            now = self._next(db)
            for key in dict.fromkeys(keys):
                row = db.execute("SELECT value FROM verdicts WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = json.loads(row[0])
            touched = [(now + n, key) for n, key in enumerate(found)]
            db.executemany("UPDATE verdicts SET used = ? WHERE key = ?", touched)
        hits = sum(key in found for key in keys)
        self.hits += hits
        self.misses += len(keys) - hits
        return found

    def put(self, verdicts: Mapping[bytes, Any]) -> None:
        """Keeps these; a file that cannot be written costs nothing but is counted."""
        if not verdicts:
            return
        with self._guarded("written"), self._open() as db:
            now = self._next(db)
            rows = []
            for n, (key, value) in enumerate(verdicts.items()):
                text = json.dumps(value)
                rows.append((key, text, len(text.encode()) + _ROW_BYTES, now + n))
            db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?)", rows)
            self._shrink(db)

    def __len__(self) -> int:
        with self._open() as db:
            return db.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0]

    def clear(self) -> None:
        """Forgets every verdict."""
        with self._open() as db:
            db.execute("DELETE FROM verdicts")

    def close(self) -> None:
        """Closes the file; the next use opens it again. One in memory is forgotten."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    # -- the file ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        """The connection of this process, inside one transaction."""
        with self._lock:
            if self._connection is None or self._process != os.getpid():
                # A connection must not be used after a fork; the parent closes its own.
                self._connection, self._process = self._connect(), os.getpid()
            db = self._connection
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _connect(self) -> Any:
        import sqlite3

        try:
            db = sqlite3.connect(
                self.path, timeout=10.0, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            known = db.execute("PRAGMA user_version").fetchone()[0]
            tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
            if known not in (0, FORMAT) or (known == 0 and tables):
                db.close()
                raise UserError(
                    f"{self.path!r} is not a cache of this version of rlkit; name another file"
                )
            db.execute(_SCHEMA)
            db.execute("CREATE INDEX IF NOT EXISTS by_use ON verdicts (used)")
            db.execute(f"PRAGMA user_version = {FORMAT}")
        except sqlite3.Error as error:
            raise UserError(
                f"the judge's cache {self.path!r} cannot be opened ({error}); "
                "name another file, or delete this one if it is damaged"
            ) from error
        return db

    @contextlib.contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """A fault of the disk is counted and shown once; the verdicts themselves are not lost."""
        import sqlite3

        try:
            yield
        except (sqlite3.Error, UserError, ValueError) as error:
            self.faults += 1
            if self.faults == 1:
                warnings.warn(
                    f"the judge's cache {self.path!r} could not be {what} ({error}); judging goes "
                    "on without it, and such faults are counted in .faults",
                    RuntimeWarning,
                    stacklevel=4,
                )

    @staticmethod
    def _next(db: Any) -> int:
        return 1 + db.execute("SELECT COALESCE(MAX(used), 0) FROM verdicts").fetchone()[0]

    def _shrink(self, db: Any) -> None:
        """Forgets the longest unused until a tenth of the room is free again."""
        room = int(self.max_mb * 1_000_000)
        total = db.execute("SELECT COALESCE(SUM(size), 0) FROM verdicts").fetchone()[0]
        if total <= room:
            return
        gone = []
        for key, size in db.execute("SELECT key, size FROM verdicts ORDER BY used").fetchall():
            if total <= 0.9 * room:
                break
            gone.append((key,))
            total -= size
        db.executemany("DELETE FROM verdicts WHERE key = ?", gone)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_mb": self.max_mb}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["max_mb"])

    def __deepcopy__(self, memo: dict[int, Any]) -> JudgeCache:
        return self  # copies of a reward may share what is known
