"""Compiled programs on disk: compile once, run many tests, and many times after that.

A program's key is a digest of its compiler (version, place, size, time), the command line and
environment, its source and its files. A file holds what the compiler made and said, or that it
refused; a time-out, a limit passed or a fault of the sandbox is never kept. Files are written
aside and renamed, carry a digest of their content, and the least recently used go when the
folder grows beyond its size.

Left out on purpose: sharing between users. Whoever can write a compiled program can run code
as whoever runs it, so the folder is its owner's alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlkit.errors import UserError
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.verdict import CompileReport, Status

#: Layout of the files; others are not read.
FORMAT = 1

#: One program may take so much; larger ones run, but are not kept.
MAX_BYTES = 64 << 20

#: So many of the programs last used are also kept in memory, if they take at most so much.
IN_MEMORY = 64
IN_MEMORY_BYTES = 32 << 20

#: Down to this share of its size the folder is emptied, so that it is not done each time.
KEPT_SHARE = 0.8

_DIGEST = 32


@dataclass(frozen=True)
class Artefact:
    """A compiled program, or the compiler's refusal.

    Attributes:
        files: by relative name; empty when it did not compile.
        report: what the compiler said.
    """

    files: Mapping[str, bytes]
    report: CompileReport


class Artefacts:
    """A folder of compiled programs, bounded in size. May be shared by threads and processes.

    Args:
        folder: made when it is not there; `~/.rlkit/sandbox/artefacts` when None, or below
            `RLKIT_HOME`. One that cannot be made costs a warning and nothing else: programs are
            then compiled anew in each process.
        max_mb: size that all of them may take, in megabytes.

    Attributes:
        hits, misses: what was found, and what was not.

    >>> import tempfile
    >>> store = Artefacts(tempfile.mkdtemp())
    >>> made = Artefact({"main": b"..."}, CompileReport(Status.PASS, "cc 1"))
    >>> store.get_or_make("key", lambda: made).report.cached
    False
    >>> store.get_or_make("key", lambda: made).report.cached
    True
    """

    def __init__(self, folder: str | Path | None = None, max_mb: float = 512.0) -> None:
        if not isinstance(max_mb, (int, float)) or isinstance(max_mb, bool) or not max_mb > 0:
            raise UserError(f"max_mb is a size in megabytes above 0, not {max_mb!r}")
        if folder is None:
            from rlkit.home import home

            folder = home() / "sandbox" / "artefacts"
        self.folder = Path(folder)
        self.max_bytes = int(max_mb * 1e6)
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._held: OrderedDict[str, Artefact] = OrderedDict()
        self._held_bytes = 0
        self._written: int | None = None
        self._warned = False

    def get_or_make(self, key: str, make: Callable[[], Artefact]) -> Artefact:
        """The program of this key; made now if it is not known. One thread makes it, others wait.

        Args:
            key: see `key_of`.
            make: compiles; what it raises goes on to the caller, and nothing is kept.
        """
        with self._one_at_a_time(key):
            found = self._find(key)
            if found is not None:
                self.hits += 1
                return found
            self.misses += 1
            made = make()
            if made.report.status in (Status.PASS, Status.COMPILE_ERROR):
                self._keep(key, made)
            return made

    def clear(self) -> int:
        """Remove every program; how many there were."""
        with self._lock:
            self._held.clear()
            self._held_bytes = 0
            self._written = None
            removed = 0
            for path, _, _ in self._entries():
                removed += _removed(path)
            return removed

    def stats(self) -> dict[str, int]:
        """How many programs there are, the bytes they take, and the hits and misses so far."""
        sizes = [size for _, size, _ in self._entries()]
        return {
            "programs": len(sizes),
            "bytes": sum(sizes),
            "max_bytes": self.max_bytes,
            "hits": self.hits,
            "misses": self.misses,
        }

    @contextlib.contextmanager
    def _one_at_a_time(self, key: str) -> Iterator[None]:
        with self._lock:
            turn = self._making.setdefault(key, threading.Lock())
        with turn:
            try:
                yield
            finally:
                with self._lock:
                    self._making.pop(key, None)

    def _find(self, key: str) -> Artefact | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        artefact = _unpacked(data)
        if artefact is None:  # cut short, of an older layout, or changed by somebody
            _removed(path)
            return None
        with contextlib.suppress(OSError):  # removed by another process a moment ago
            os.utime(path)
        self._hold(key, artefact)
        return artefact

    def _keep(self, key: str, made: Artefact) -> None:
        self._hold(key, made)
        data = _packed(made)
        if len(data) > min(MAX_BYTES, self.max_bytes):
            return
        path = self._path(key)
        aside = path.with_name(f".{key}.{os.getpid()}-{threading.get_ident()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside.write_bytes(data)
            os.replace(aside, path)
        except OSError as error:
            _removed(aside)
            self._warn(error)
            return
        self._make_room(len(data))

    def _hold(self, key: str, artefact: Artefact) -> None:
        report = artefact.report
        known = Artefact(artefact.files, _as_cached(report))
        size = _size(known)
        if size > IN_MEMORY_BYTES // 4:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self._held_bytes += size - (0 if old is None else _size(old))
            self._held[key] = known
            while len(self._held) > IN_MEMORY or self._held_bytes > IN_MEMORY_BYTES:
                _, dropped = self._held.popitem(last=False)
                self._held_bytes -= _size(dropped)

    def _make_room(self, added: int) -> None:
        with self._lock:
            if self._written is None:
                self._written = sum(size for _, size, _ in self._entries())
            else:
                self._written += added
            if self._written <= self.max_bytes:
                return
            entries = sorted(self._entries(), key=lambda entry: entry[2])
            total = sum(size for _, size, _ in entries)
            for path, size, _ in entries:
                if total <= self.max_bytes * KEPT_SHARE:
                    break
                _removed(path)
                total -= size
            self._written = total

    def _entries(self) -> list[tuple[Path, int, int]]:
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):  # removed by another process meanwhile
                        facts = entry.stat(follow_symlinks=False)
                        found.append((Path(entry.path), facts.st_size, facts.st_mtime_ns))
        except OSError:
            return []
        return found

    def _path(self, key: str) -> Path:
        return self.folder / key

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        import warnings

        warnings.warn(
            f"compiled programs cannot be kept in {self.folder} ({error}); set RLKIT_HOME to a "
            "folder that can be written",
            stacklevel=4,
        )


def key_of(
    toolchain: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    files: Mapping[str, bytes],
) -> str:
    """Content key of a compilation.

    >>> first = key_of("cc 1", ("cc", "a.c"), {}, {"a.c": b"1"})
    >>> first == key_of("cc 2", ("cc", "a.c"), {}, {"a.c": b"1"}), len(first)
    (False, 64)
    """
    content = (FORMAT, toolchain, tuple(argv), dict(environment), dict(files))
    return hashlib.sha256(encode(content, max_bytes=1 << 30)).hexdigest()


def _packed(artefact: Artefact) -> bytes:
    report = artefact.report
    said = (str(report.status), report.compiler, report.seconds, report.stdout, report.stderr)
    content = (FORMAT, dict(artefact.files), said, report.message)
    body = encode(content, max_bytes=1 << 30)
    return hashlib.sha256(body).digest() + body


def _unpacked(data: bytes) -> Artefact | None:
    digest, body = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        layout, files, said, message = decode(body)
        if layout != FORMAT:
            return None
        status, compiler, seconds, stdout, stderr = said
    except (CodecError, ValueError, TypeError):
        return None
    report = CompileReport(Status(status), compiler, seconds, True, stdout, stderr, message)
    return Artefact(files, report)


def _as_cached(report: CompileReport) -> CompileReport:
    from dataclasses import replace

    return replace(report, cached=True)


def _size(artefact: Artefact) -> int:
    return sum(len(data) for data in artefact.files.values()) + 4096


def _removed(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
