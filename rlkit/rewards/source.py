"""SourceReward: a reward from the text of a program, run in a process that can be killed.

It is for text that a person edits while everything else keeps running. Nothing of it is
run in this process: a mistake in it, an endless loop, or a call of `exit()` is a
sentence with a line number, and nothing changes here.

This is no sandbox. The program may read files and use the network as its author may;
what a model wrote goes to `rlkit.sandbox`. A program that keeps state between calls
loses it when its process is restarted.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards import source_process
from rlkit.rewards.reward import ERROR, TRAINER_ARGUMENTS, Reward
from rlkit.rewards.score import Score
from rlkit.rewards.source_process import ChildProcess, warm_up
from rlkit.rewards.source_text import RewardSourceError, outline

__all__ = ["TIMEOUT", "RewardSourceError", "SourceReward", "warm_up"]

#: Status of rows whose reward program ran out of time.
TIMEOUT = "REWARD_TIMEOUT"
# Programs that are loaded, the one used last at the end.
_loaded: OrderedDict[int, weakref.ref[SourceReward]] = OrderedDict()
_loaded_lock = threading.Lock()


class SourceReward(Reward):
    """A reward from the text of a program.

    The text binds `reward` to a function or to a reward; or else the reward made last
    in it counts, or the last function whose name does not begin with an underscore. A
    function takes `completions` and columns like any reward's; if its first argument is
    `completion`, `text` or `response`, it is called once for each completion.

    Args:
        text: the program.
        name: the reward's name; by default what it is called in the text.
        timeout_s: seconds of wall clock for one call; then the process is killed.
        memory_mb: memory for the program, where the system can limit it.
        strict: raise every fault as `RewardSourceError`. Otherwise a fault leaves rows
            without a verdict, as with any reward, and a run goes on.

    Raises:
        RewardSourceError: the text does not parse, or defines no reward.

    >>> mine = SourceReward("def brief(completion):\\n    return float(len(completion) < 9)")
    >>> mine(completions=["short", "rather long"])
    [1.0, 0.0]
    >>> mine.close()
    """

    def __init__(
        self,
        text: str,
        name: str | None = None,
        *,
        timeout_s: float = 5.0,
        memory_mb: int = 2048,
        strict: bool = False,
    ) -> None:
        found = outline(text)
        if not timeout_s > 0:
            raise UserError(f"timeout_s must be above 0, not {timeout_s}")
        self.text = text
        self.timeout_s = float(timeout_s)
        self.memory_mb = memory_mb
        self.strict = strict
        #: Head of what the program printed in the last call.
        self.printed = ""
        self._progress: tuple[int, int | None] | None = None
        self._reset_process()
        super().__init__(self._never_called, name or found.name)

    def check(self) -> SourceReward:
        """Runs the text once, without any rows; gives the reward back.

        Raises:
            RewardSourceError: running it failed, took too long, or gave no reward.
        """
        with self._lock:
            self._load(again=True)
        return self

    def close(self) -> None:
        """Ends its process; the next call starts one again."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.kill()
        with _loaded_lock:
            _loaded.pop(id(self), None)

    def set_progress(self, step: int, total: int | None = None) -> None:
        known = self._progress[1] if self._progress else None
        self._progress = (int(step), known if total is None else int(total))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "progress": self._progress}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if state.get("progress") is not None:
            self.set_progress(*state["progress"])

    def named(self, name: str) -> Reward:
        options = {"timeout_s": self.timeout_s, "memory_mb": self.memory_mb, "strict": self.strict}
        copied = SourceReward(self.text, name, **options)
        copied._progress = self._progress
        return copied

    def _never_called(self, **_: Any) -> list[Score]:
        raise AssertionError("a source reward is scored in its own process")

    def _reset_process(self) -> None:
        self._child: ChildProcess | None = None
        self._lock = threading.RLock()

    # -- calls -------------------------------------------------------------------------

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        sent = _to_send({"completions": texts, "prompts": prompts, **columns})
        try:
            with self._lock:
                self._load()
                reply = self._ask({"op": "score", "columns": sent, "progress": self._progress})
        except RewardSourceError as error:
            if self.strict or error.kind not in ("exception", "timeout", "crash"):
                raise
            self._note(len(texts), str(error), error.trace)
            status = TIMEOUT if error.kind == "timeout" else ERROR
            return [Score(None, status, {self.name: None}, str(error)) for _ in texts]
        if reply["fault"] is not None:
            if self.strict:
                line = reply["line"]
                where = f"line {line}: " if line else ""
                raise RewardSourceError(where + reply["fault"], "exception", line, reply["trace"])
            self._note(reply["rows"], reply["fault"], reply["trace"])
        return [Score(*row) for row in zip(*reply["scores"].values(), strict=True)]

    def _load(self, again: bool = False) -> None:
        """Makes sure that a process has the program."""
        if self._child is not None and self._child.usable and not again:
            self._use()
            return
        if self._child is not None and self._child.usable:
            self._child.kill()
        self._child = source_process.take()
        self._use()
        self._ask({"op": "load", "text": self.text, "name": self.name, "memory_mb": self.memory_mb})
        source_process.warm_up()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._child is not None
        try:
            reply = self._child.ask(request, self.timeout_s)
        except BaseException:
            self._child = None  # it was killed
            source_process.warm_up()
            raise
        self.printed = reply.get("printed", "")
        if reply["ok"]:
            return reply
        if request["op"] == "load":
            self.close()
        line = reply["line"]
        where = f"line {line}: " if line else ""
        raise RewardSourceError(where + reply["message"], reply["kind"], line, reply["trace"])

    def _use(self) -> None:
        """Notes that it is in use; the one not used for longest makes room."""
        with _loaded_lock:
            _loaded[id(self)] = weakref.ref(self)
            _loaded.move_to_end(id(self))
            too_many = [
                _loaded.popitem(last=False)[1]
                for _ in range(len(_loaded) - source_process.MAX_PROCESSES)
            ]
        for old in too_many:
            reward = old()
            # One that is scoring in another thread keeps its process.
            if reward is not None and reward._lock.acquire(blocking=False):
                try:
                    reward.close()
                finally:
                    reward._lock.release()

    def __del__(self) -> None:
        child = getattr(self, "_child", None)
        if child is not None:
            child.kill()
            _loaded.pop(id(self), None)

    # -- copies and pickles start a process of their own -------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        for handle in ("_child", "_lock"):
            state.pop(handle, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._reset_process()

    def __copy__(self) -> Reward:
        copied = self._copied(dict(self.__dict__))
        copied._reset_process()
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Reward:
        return self.__copy__()


def _to_send(columns: dict[str, Any]) -> bytes:
    """The columns as the child reads them; what belongs to the trainer stays here."""
    sent = {n: v for n, v in columns.items() if n not in TRAINER_ARGUMENTS}
    trainer = columns.get("trainer_state")
    if trainer is not None:
        known = {n: getattr(trainer, n, None) for n in ("global_step", "max_steps", "epoch")}
        sent["trainer_state"] = SimpleNamespace(**known)
    try:
        return pickle.dumps(sent, protocol=5)
    except Exception:
        for name, values in sent.items():
            try:
                pickle.dumps(values)
            except Exception as error:
                raise UserError(
                    f"the column {name!r} cannot be sent to the reward's process ({error}); "
                    "leave it out or make it of plain lists, texts and numbers"
                ) from None
        raise
