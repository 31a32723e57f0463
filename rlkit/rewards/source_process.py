"""A warm process for reward programs, seen from the parent: started early, killed on time-out.

One spare process stands ready, with `rlkit.rewards` imported, so that a new program
does not wait for an interpreter. At most `MAX_PROCESSES` programs stay loaded; the one
not used for longest gives way and is loaded again when it is asked for.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rlkit.rewards.source_text import FILENAME, RewardSourceError

#: Programs that stay loaded at once, each in a process of some 30 MB.
MAX_PROCESSES = 4
#: Seconds that a process may take to start and import; far more than it needs.
START_S = 60.0
_HEADER = struct.Struct("<Q")
_STACK = re.compile(rf'File "{re.escape(FILENAME)}", line (\d+)')
_lock = threading.Lock()
_spare: ChildProcess | None = None


class ChildProcess:
    """One process of `rlkit.rewards.source_child`."""

    def __init__(self) -> None:
        paths = [str(Path(__file__).resolve().parents[2]), *(p or os.getcwd() for p in sys.path)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlkit.rewards.source_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        self.owner = os.getpid()
        self.ready = False
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)

    @property
    def usable(self) -> bool:
        """Whether it runs and belongs to this process, not to one that this was forked from."""
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            RewardSourceError: it took too long, or the process ended; it is gone then.
        """
        try:
            if not self.ready:
                self._receive(time.monotonic() + START_S)
                self.ready = True
            deadline = time.monotonic() + timeout_s
            data = pickle.dumps({**request, "timeout_s": timeout_s}, protocol=5)
            self._send(_HEADER.pack(len(data)) + data, deadline)
            reply = self._receive(deadline)
            self._stack()  # that of a slow call must not be taken for that of a later one
            return reply
        except TimeoutError:
            line = self._line()
            where = f" in line {line}" if line else ""
            doing = "was still starting" if not self.ready else "was still running"
            raise RewardSourceError(
                f"the reward program {doing}{where} after {timeout_s:g} s and was stopped; "
                "look for a loop that does not end, or allow it more with timeout_s",
                "timeout",
                line,
            ) from None
        except (EOFError, BrokenPipeError, ConnectionError):
            raise RewardSourceError(
                f"the reward program ended its process{self._ending()}", "crash", self._line()
            ) from None
        except BaseException:  # Ctrl-C, or an answer that is not one: the pipe is out of step
            self.kill()
            raise

    def kill(self) -> None:
        """Ends the process, and what it started, at once."""
        if self.owner == os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _send(self, data: bytes, deadline: float) -> None:
        out = self.process.stdin.fileno()
        view = memoryview(data)
        while view:
            _wait(deadline, writing=out)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(out, view) :]

    def _receive(self, deadline: float) -> dict[str, Any]:
        size = _HEADER.unpack(self._read(_HEADER.size, deadline))[0]
        return json.loads(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        source = self.process.stdout.fileno()
        pieces: list[bytes] = []
        while size:
            _wait(deadline, reading=source)
            try:
                piece = os.read(source, min(size, 1 << 20))
            except BlockingIOError:
                continue
            if not piece:
                raise EOFError
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _stack(self) -> str:
        """What the process has said about where it is; nothing is left in the pipe."""
        with contextlib.suppress(OSError, ValueError):
            return (os.read(self.process.stderr.fileno(), 1 << 16) or b"").decode(errors="replace")
        return ""

    def _line(self) -> int | None:
        """The line the program was in when half of its time was up; ends the process."""
        found = _STACK.search(self._stack())
        self.kill()
        return int(found.group(1)) if found else None

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(timeout=2.0)
            if code < 0:
                name = signal.Signals(-code).name
                return f" by signal {name}; it may have used too much memory or time"
            return f" with exit code {code}"
        return ""


def _wait(deadline: float, reading: int | None = None, writing: int | None = None) -> None:
    """Until the pipe is ready; polling takes any number of open files, unlike `select`."""
    left = deadline - time.monotonic()
    poll = select.poll()
    if reading is not None:
        poll.register(reading, select.POLLIN)
    if writing is not None:
        poll.register(writing, select.POLLOUT)
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError


def take() -> ChildProcess:
    """A process to load a program into: the spare one, or a new one."""
    global _spare
    with _lock:
        child, _spare = _spare, None
    if child is not None and child.usable:
        return child
    return ChildProcess()


def warm_up() -> None:
    """Starts the spare process if there is none; it comes up while other things are done."""
    global _spare
    with _lock:
        if _spare is None or not _spare.usable:
            _spare = ChildProcess()


def _end_spare() -> None:
    global _spare
    with _lock:
        child, _spare = _spare, None
    if child is not None:
        child.kill()


atexit.register(_end_spare)
