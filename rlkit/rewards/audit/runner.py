"""Runner: calls a reward so that a hang, an exit or an exception is a finding, not the end.

A reward that can be pickled is called in a child process, which is killed when the wall
clock runs out. One that cannot is called in a watched thread: a thread cannot be
killed, so what hangs there is left behind, and attacks that would hold the interpreter
are not tried. Which of the two it was stands on the card.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlkit.rewards.audit import worker
from rlkit.rewards.reward import Reward, Score
from rlkit.sandbox.zygote.wipe import remove_folder

#: Seconds that the child may take to start and to import what the reward needs.
START_S = 60.0
#: Seconds that the child may take to end by itself.
GRACE_S = 2.0
#: Statuses of a score that a completion must not be able to bring about.
FAULTS = ("REWARD_ERROR", "BAD_VALUE")
#: Statuses of a reward that has a clock of its own.
LATE = ("REWARD_TIMEOUT", "TIMEOUT")


@dataclass(frozen=True)
class Reply:
    """What came of one call.

    Attributes:
        scores: one for each completion; empty when there was a fault.
        seconds: wall-clock seconds of the call itself, without the way there and back.
        fault: `""`, `"hung"`, `"crashed"`, `"raised"` or `"forged"`.
        detail: the fault in words.
    """

    scores: tuple[Score, ...] = ()
    seconds: float = 0.0
    fault: str = ""
    detail: str = ""
    traceback: str = field(default="", repr=False)


class Runner:
    """Calls a reward with a hard wall clock. Use it as a context manager.

    Attributes:
        how: `"a child process"` or `"a watched thread"`.
        why: why it is a thread; empty for a child process.
        killable: whether a call that hangs can be ended.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = reward
        self._child: _Child | None = None
        self.why = ""
        try:
            self._pickle: bytes | None = pickle.dumps(reward)
            self._child = _Child(self._pickle)
        except _NoChild as error:
            self._pickle, self.why = None, f"a new process cannot load the reward ({error})"
        except Exception as error:  # pickle raises whatever an object's own methods raise
            self._pickle = None
            self.why = f"the reward cannot be pickled ({type(error).__name__}: {error})"[:300]
        self.killable = self._pickle is not None
        self.how = "a child process" if self.killable else "a watched thread"
        self.left_behind = 0

    def call(
        self,
        columns: Mapping[str, Any],
        completions: Sequence[str],
        limit_s: float,
        prompt: Any = "",
    ) -> Reply:
        """Scores completions that share their columns, within `limit_s` seconds."""
        request = {"columns": dict(columns), "completions": list(completions), "prompt": prompt}
        if self._pickle is None:
            reply = self._in_thread(request, limit_s)
        else:
            if self._child is None:
                self._child = _Child(self._pickle)
            reply = self._child.ask(request, limit_s)
            if reply is None or "fault" in reply:
                self._child.kill()
                self._child = None
        return _reply(reply or {"fault": "hung"}, limit_s)

    def _in_thread(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = []
        thread = threading.Thread(
            target=lambda: found.append(worker.call(self.reward, request)), daemon=True
        )
        thread.start()
        thread.join(limit_s)
        if not found:
            self.left_behind += 1
            return None
        return found[0]

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _NoChild(Exception):
    """The child process could not be started or could not load the reward."""


class _Child:
    def __init__(self, reward: bytes) -> None:
        self.word = secrets.token_hex(16)
        # What the reward leaves behind when it is killed lies here, and goes with it.
        self.folder = Path(tempfile.mkdtemp(prefix="rlkit-audit-"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rlkit.rewards.audit.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                "TMPDIR": str(self.folder),
            },
            start_new_session=os.name == "posix",
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.forged = 0
        threading.Thread(target=self._read, daemon=True).start()
        path = [entry or os.getcwd() for entry in sys.path]
        ready = self.ask({"word": self.word, "path": path, "reward": reward}, START_S)
        if ready is None or not ready.get("ready"):
            self.kill()
            problem = (
                "it did not start in time" if ready is None else ready.get("raised", "it ended")
            )
            raise _NoChild(problem)

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The child's reply; `None` when the time ran out."""
        forged_before = self.forged
        try:
            self.process.stdin.write(worker.frame(request))
            self.process.stdin.flush()
        except OSError:
            return {"fault": "crashed"}
        deadline = time.monotonic() + limit_s
        while True:
            try:
                line = self.lines.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                return None
            if line is None:
                return {"fault": "crashed"}
            if line.startswith(self.word):
                reply = _sound(line[len(self.word) :])
                forged = reply is None or self.forged > forged_before
                return {"fault": "forged"} if forged else reply
            if line.strip():
                self.forged += 1

    def close(self) -> None:
        """Lets the child end by itself, and kills it when it does not."""
        try:
            self.process.stdin.close()
            self.process.wait(GRACE_S)
        except (OSError, subprocess.TimeoutExpired):
            self.kill()
        else:
            remove_folder(str(self.folder))

    def kill(self) -> None:
        if self.process.poll() is None:
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        remove_folder(str(self.folder))
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            return  # it was dead before it had read all of a request

    def _read(self) -> None:
        with self.process.stdout as stream:
            for line in stream:
                self.lines.put(line.decode("ascii", "replace").rstrip("\n"))
        self.lines.put(None)


def _sound(line: str) -> dict[str, Any] | None:
    """The reply in a line; `None` when it is none, because an attack changed what writes it."""
    try:
        reply = json.loads(line)
    except ValueError:
        return None
    expected = isinstance(reply, dict) and {"ready", "raised", "scores"} & reply.keys()
    return reply if expected else None


def _reply(reply: dict[str, Any], limit_s: float) -> Reply:
    fault = reply.get("fault", "")
    if fault == "hung":
        return Reply(seconds=limit_s, fault=fault, detail=f"no answer within {limit_s:g} s")
    if fault == "crashed":
        return Reply(fault=fault, detail="the process that ran the reward ended")
    if fault == "forged":
        return Reply(fault=fault, detail="the completion wrote into the channel of the answers")
    if "raised" in reply:
        return Reply(
            seconds=reply["seconds"],
            fault="raised",
            detail=reply["raised"],
            traceback=reply["traceback"],
        )
    scores = tuple(Score(value, status, {}, reason) for value, status, reason in reply["scores"])
    late = next((s for s in scores if s.value is None and s.status in LATE), None)
    if late is not None:  # the reward has a clock of its own
        return Reply(scores, reply["seconds"], "hung", late.reason)
    broken = next((s for s in scores if s.value is None and s.status in FAULTS), None)
    if broken is not None:
        return Reply(scores, reply["seconds"], "raised", broken.reason)
    return Reply(scores, reply["seconds"])
