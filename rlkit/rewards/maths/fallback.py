"""Fallback: math-verify, asked late, in a process that can be killed.

What our own reader and comparison cannot settle (an integral for a gold answer, a
maximum, a case distinction) goes to a child process that is started once and kept
warm. A wall clock stands over each question; when it runs out the child is killed,
the answer is "no verdict", and a new child starts in the background. No signals are
used here, so any thread may ask.

Before anything is asked a guard looks at the text: short, known signs only, no
towers of powers, no factorials, no words.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds for one question, and for a child to start.
ANSWER_SECONDS = 0.8
START_SECONDS = 30.0
MAX_ASKED = 400
MAX_REPLIES = 4096
#: Deepest nesting of brackets that is asked about: its grammar takes exponential time in it.
MAX_DEPTH = 6

_COMMANDS = (
    "frac dfrac tfrac sqrt sin cos tan sec csc cot arcsin arccos arctan sinh cosh tanh log ln exp "
    "pi infty cdot times le leq ge geq ne neq lt gt pm mp int iint sum prod lim to rightarrow "
    "partial max min gcd lcm det begin end cases pmatrix bmatrix matrix text left right cup cap "
    "setminus in mathbb emptyset circ alpha beta gamma delta epsilon theta lambda mu nu xi rho "
    "sigma tau phi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega binom quad prime "
    "mid lvert rvert vert lfloor rfloor lceil rceil ldots dots limits mathrm operatorname "
    "overline d or and if for otherwise"
)
_KNOWN = frozenset(_COMMANDS.split())
_SIGNS = re.compile(r"[A-Za-z0-9\\{}()\[\]^_+\-*/=<>,.;:|& ']*")
_TOWER = re.compile(r"\^\s*\{[^{}]*[\^!]|\^\s*[^{\s]\s*\^|\^\s*\{[^{}]*\{")
_BIG_POWER = re.compile(r"\^\s*\{?\s*-?\s*(\d{3,})")


@dataclass(frozen=True)
class Reply:
    """`agrees` is `None` without a verdict; `status` says why: TIMEOUT, UNREADABLE, ..."""

    agrees: bool | None
    status: str


def refusal(text: str) -> str | None:
    """Why a text is not handed to math-verify, or `None` when it may be.

    >>> refusal(r"\\int_0^1 x\\,dx"), refusal("9^{9^9}")
    (None, 'a tower of powers')
    """
    if len(text) > MAX_ASKED:
        return "too long"
    text = re.sub(r"\\[,;:! ]", " ", text)
    if not _SIGNS.fullmatch(text) or "__" in text:
        return "signs that no formula has"
    if _TOWER.search(text) or "**" in text:
        return "a tower of powers"
    if "!" in text or _BIG_POWER.search(text) or re.search(r"\d{31}", text):
        return "numbers that are too large"
    if "binom" in text and re.search(r"\d{4}|\^", text):
        return "numbers that are too large"
    if _depth(text) > MAX_DEPTH:
        return "nested too deeply"
    for name in re.findall(r"(?<![A-Za-z])[A-Za-z]{3,}", text):
        if name not in _KNOWN:
            return f"the word {name!r}"
    return None


def _depth(text: str) -> int:
    """How deep the brackets of all kinds are nested."""
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest


class Fallback:
    """A warm child process that answers whether two LaTeX answers agree.

    Args:
        seconds: wall clock for one question.
    """

    def __init__(self, seconds: float = ANSWER_SECONDS) -> None:
        self.seconds = seconds
        self.timeouts = 0
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._ready = False
        self._buffer = b""
        self._said = False
        self._replies: dict[tuple[str, str], Reply] = {}

    def available(self) -> bool:
        """Whether math-verify is installed; says so once when it is not."""
        if importlib.util.find_spec("math_verify") is not None:
            return True
        if not self._said:
            self._said = True
            warnings.warn(
                "math-verify is not installed: answers that only it can compare get no verdict "
                "(pip install math-verify)",
                stacklevel=3,
            )
        return False

    def warm_up(self) -> None:
        """Starts the child in the background, if it does not run yet."""
        if self._lock.acquire(blocking=False):
            try:
                if self.available():
                    self._start()
            finally:
                self._lock.release()

    def ask(self, gold: str, given: str) -> Reply:
        """Whether the given answer agrees with the gold one, by math-verify."""
        for text in (gold, given):
            if (reason := refusal(text)) is not None:
                return Reply(None, f"GUARDED: {reason}")
        with self._lock:
            if not self.available():
                return Reply(None, "NO_FALLBACK")
            known = self._replies.get((gold, given))
            if known is not None:
                return known  # a question that took too long once is not asked again
            for _ in range(2):  # a child that an outsider ended is replaced once
                self._start()
                if not self._ready and not self._wait_until_ready():
                    return Reply(None, "CHILD_FAILED")
                try:
                    reply = self._asked(gold, given)
                except OSError:
                    self.close()
                    continue
                if len(self._replies) >= MAX_REPLIES:
                    self._replies.clear()
                self._replies[gold, given] = reply
                return reply
            return Reply(None, "CHILD_FAILED")

    def close(self) -> None:
        """Ends the child."""
        with self._lock:
            process, self._process = self._process, None
            self._ready, self._buffer = False, b""
            if process is None or self._pid != os.getpid():
                return
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _start(self) -> None:
        if self._pid != os.getpid():
            self._process = None  # after a fork the child belongs to the parent
        if self._process is not None and self._process.poll() is None:
            return
        self._ready, self._buffer, self._pid = False, b"", os.getpid()
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rlkit.rewards.maths.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def _wait_until_ready(self) -> bool:
        line = self._line(time.monotonic() + START_SECONDS)
        self._ready = line is not None and "ready" in line
        if not self._ready:
            self.close()
        return self._ready

    def _asked(self, gold: str, given: str) -> Reply:
        process = self._process
        assert process is not None and process.stdin is not None
        process.stdin.write(json.dumps({"gold": gold, "given": given}).encode() + b"\n")
        process.stdin.flush()
        reply = self._line(time.monotonic() + self.seconds)
        if reply is None:
            self.timeouts += 1
            self.close()
            self._start()  # warm again for the next question
            return Reply(None, "TIMEOUT")
        agrees = reply.get("agrees")
        return Reply(agrees, "OK" if agrees is not None else "UNREADABLE")

    def _line(self, deadline: float) -> dict[str, Any] | None:
        """The next line that the child writes, or `None` when it comes too late.

        Raises:
            OSError: the child is gone.
        """
        process = self._process
        assert process is not None and process.stdout is not None
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return None
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                if not self._ready:
                    return None
                raise BrokenPipeError("the child of math-verify ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


#: The one child of this process; every reward shares it.
shared = Fallback()
atexit.register(shared.close)
