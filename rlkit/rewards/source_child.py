"""The process that runs a reward program: `python -m rlkit.rewards.source_child`.

It is started ahead of need, imports `rlkit.rewards` once, and then answers one request
after another: run this text, score these rows. A request is a pickle from the parent;
an answer is JSON, so that nothing the program does can reach into the parent.

What the program prints is kept (its head) and sent along. The process ends with its
parent: on end of input, by a watch over the parent's id, and by a limit on processor
time that holds in C code too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import linecache
import os
import pickle
import re
import signal
import struct
import sys
import threading
import time
import traceback
from types import ModuleType
from typing import Any, BinaryIO

from rlkit.rewards.source_text import FILENAME, outline

#: Characters of output that are kept of one request.
PRINTED_CHARS = 4000
HEADER = struct.Struct("<Q")
#: Names of the first argument for which a function is called once for each completion.
SINGLE = ("completion", "text", "response")
_LINE = re.compile(rf'File "{re.escape(FILENAME)}", line (\d+)')


class Head(io.TextIOBase):
    """Keeps the beginning of what is printed."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.left = PRINTED_CHARS

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.left > 0:
            self.kept.append(text[: self.left])
            self.left -= len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.kept) + ("…" if self.left < 0 else "")


class Program:
    """One reward program in this process."""

    def __init__(self, text: str, name: str | None) -> None:
        from rlkit.rewards.reward import Reward

        shape = outline(text)
        module = ModuleType("reward_source")
        sys.modules[module.__name__] = module
        linecache.cache[FILENAME] = (len(text), None, text.splitlines(keepends=True), FILENAME)
        exec(compile(text, FILENAME, "exec"), module.__dict__)
        bound = vars(module)
        names = shape.names
        if "reward" in names:
            chosen: Any = bound["reward"]
        else:
            rewards = [n for n in names if isinstance(bound.get(n), Reward)]
            functions = [n for n in shape.functions if callable(bound.get(n))]
            chosen = bound.get([*names, *functions, *rewards][-1])
        self.reward = self._as_reward(chosen).named(name or shape.name)

    @staticmethod
    def _as_reward(chosen: Any) -> Any:
        from rlkit.errors import UserError
        from rlkit.rewards.reward import Reward, reward

        if isinstance(chosen, Reward):
            return chosen
        if not callable(chosen):
            raise UserError(
                f"the reward of the text is {type(chosen).__name__}; it must be a function of "
                "completions, or a reward such as 0.8 * exact_answer + 0.2 * format_reward"
            )
        code = getattr(chosen, "__code__", None)
        first = code.co_varnames[: code.co_argcount][:1] if code is not None else ()
        return reward(chosen, each=bool(first) and first[0] in SINGLE)

    def score(self, columns: dict[str, Any], progress: tuple | None) -> dict[str, Any]:
        """The scores as columns, and what went wrong on the way."""
        if progress is not None:
            self.reward.set_progress(*progress)
        before = self.reward.errors
        for part in [self.reward, *self.reward.leaves()]:
            part.forget_faults()
        scores = self.reward.score(**columns)
        fields = ("value", "status", "parts", "reason", "contributions", "unshaped", "truth")
        trace = self.reward.first_traceback
        return {
            "scores": {field: [getattr(s, field) for s in scores] for field in fields},
            "rows": self.reward.errors - before,
            "fault": self.reward.first_fault,
            "trace": trace,
            "line": line_of(trace),
        }


def line_of(trace: str | None) -> int | None:
    """The innermost line of the program in a traceback."""
    found = _LINE.findall(trace or "")
    return int(found[-1]) if found else None


def answer(request: dict[str, Any], programs: dict[str, Program]) -> dict[str, Any]:
    """Does one request; every exception becomes an answer."""
    from rlkit.errors import UserError
    from rlkit.rewards.source_text import RewardSourceError

    loading = request["op"] == "load"
    try:
        if loading:
            programs["now"] = Program(request["text"], request["name"])
            return {"ok": True}
        columns = pickle.loads(request["columns"])
        return {"ok": True, **programs["now"].score(columns, request["progress"])}
    except RewardSourceError as error:
        return _failed(error.kind, str(error), error.line, error.trace)
    except UserError as error:
        trace = traceback.format_exc()
        return _failed("import" if loading else "result", str(error), line_of(trace), trace)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        trace = traceback.format_exc()
        line = error.lineno if isinstance(error, SyntaxError) else line_of(trace)
        message = f"{type(error).__name__}: {error}"
        return _failed("import" if loading else "exception", message, line, trace)


def _failed(kind: str, message: str, line: int | None, trace: str | None) -> dict[str, Any]:
    return {"ok": False, "kind": kind, "message": message, "line": line, "trace": trace}


def limit(memory_mb: int | None, seconds: float) -> None:
    """Holds this process to some memory and processor time, where the system can."""
    if hasattr(signal, "setitimer"):
        # Its default action ends the process, whatever it is doing.
        signal.setitimer(signal.ITIMER_PROF, seconds + 10.0)
    if memory_mb is not None and sys.platform == "linux":
        import resource

        most = memory_mb * 2**20
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def end_with_parent(parent: int) -> None:
    """Ends this process soon after its parent has gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def read_exactly(stream: BinaryIO, size: int) -> bytes | None:
    """So many bytes, or `None` when the parent has gone."""
    data = stream.read(size)
    return data if len(data) == size else None


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    stacks = os.fdopen(os.dup(2), "wb")  # where a program that hangs shows where it is
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    end_with_parent(os.getppid())
    import rlkit.rewards  # noqa: F401  the program will want it; now is the time

    def send(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        answers.write(HEADER.pack(len(data)) + data)
        answers.flush()

    send({"ok": True})
    programs: dict[str, Program] = {}
    while (header := read_exactly(requests, HEADER.size)) is not None:
        data = read_exactly(requests, HEADER.unpack(header)[0])
        if data is None:
            return
        request = pickle.loads(data)
        seconds = request["timeout_s"]
        limit(request.get("memory_mb"), seconds)
        head = Head()
        # Half-way, so that it is there when time is up, however busy the machine is.
        faulthandler.dump_traceback_later(0.5 * seconds, file=stacks.fileno())
        try:
            with contextlib.redirect_stdout(head), contextlib.redirect_stderr(head):
                reply = answer(request, programs)
        finally:
            faulthandler.cancel_dump_traceback_later()
        send({**reply, "printed": head.text()})


if __name__ == "__main__":
    main()
