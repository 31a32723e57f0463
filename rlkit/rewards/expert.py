"""expert_reward: what people said an answer is worth, read from a file of their scores.

`ExpertScores` is that file: JSONL, only ever appended to, one line a judgement, with the
prompt, the completion and their columns, so that it is also a set of labelled answers for
an audit (`rlkit.audit(reward, labels=file)`). `rlkit.lab.expert_panel` fills it.

A completion is found by the hash of its prompt and its text, letter by letter. Of what one
rater said about it, the last counts, and a skip takes an earlier score back. Where nobody
scored, there is no verdict.

Left out on purpose: weighing raters by how well they agree with others, and guessing the
score of a completion that is nearly the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import completion_text
from rlkit.rewards.reward import Reward, Score

#: Raters further apart than this, as a share of the scale, disagree.
DISAGREE = 0.5


@dataclass(frozen=True)
class Judgement:
    """What one rater said about one completion.

    Attributes:
        score: on the scale from `low` to `high`; `None` for a skip.
        rater: who.
        time: when, ISO 8601 in UTC.
    """

    key: str
    score: float | None
    low: float
    high: float
    rater: str
    time: str

    @property
    def share(self) -> float | None:
        """The score as a share of its scale, from 0 to 1."""
        return None if self.score is None else (self.score - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Label:
    """A completion with what people said of it; what an audit takes as `labels`.

    Attributes:
        prompt: text or chat messages.
        completion: its text.
        value: mean over the raters, from 0 (worthless) to 1.
        columns: what a reward needs to judge it, by column name.
        spread: largest difference between two raters; 0 for one rater.
        raters: how many there were.

    >>> Label("2 + 2?", "4", 1.0, {"answer": "4"}).disputed
    False
    """

    prompt: Any
    completion: str
    value: float
    columns: Mapping[str, Any] = field(default_factory=dict)
    spread: float = 0.0
    raters: int = 1

    @property
    def disputed(self) -> bool:
        """Whether raters are further apart than half of the scale."""
        return self.spread > DISAGREE


def completion_key(prompt: Any, completion: Any) -> str:
    """Id of a completion of a prompt; a lone user message is the same as its text.

    >>> chat = [{"role": "user", "content": "2 + 2?"}]
    >>> completion_key(chat, "4") == completion_key("2 + 2?", [{"role": "assistant",
    ...                                                         "content": "4"}])
    True
    """
    content = json.dumps([_plain(prompt), completion_text(completion)])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class ExpertScores:
    """A file of people's scores.

    Args:
        path: the file; it need not be there yet.

    Raises:
        UserError: it cannot be read, or a line in it is no judgement.

    >>> import tempfile
    >>> scores = ExpertScores(Path(tempfile.mkdtemp()) / "scores.jsonl")
    >>> scores.give("2 + 2?", "4", 1, rater="ann"); scores.give("2 + 2?", "4", 0.5, rater="bo")
    >>> scores.labels()[0].value, scores.labels()[0].spread, scores.raters
    (0.75, 0.5, ('ann', 'bo'))
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._forget()
        self.refresh()

    def _forget(self) -> None:
        self._read_to = 0
        self._torn = False
        self._latest: dict[str, dict[str, Judgement]] = {}
        self._answers: dict[str, tuple[Any, str, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"ExpertScores({str(self.path)!r}, {len(self)} completions scored)"

    def __len__(self) -> int:
        return sum(1 for key in self._latest if self.of(key))

    @property
    def raters(self) -> tuple[str, ...]:
        """Who said anything, in the order of their first judgement."""
        return tuple(dict.fromkeys(rater for by in self._latest.values() for rater in by))

    def give(
        self,
        prompt: Any,
        completion: Any,
        score: float | None,
        *,
        rater: str = "expert",
        scale: tuple[float, float] = (0.0, 1.0),
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Appends one judgement.

        Args:
            prompt, completion: what is judged; text or chat messages.
            score: on the scale; `None` skips, and takes an earlier score back.
            rater: who judges.
            scale: lowest and highest score.
            columns: what a reward would need to judge it; for audits.

        Raises:
            UserError: a score off the scale, no rater, columns that are no plain data, or a
                file that cannot be written.
        """
        low, high = _checked_scale(scale)
        if score is not None:
            score = _checked_score(score, low, high)
        if not isinstance(rater, str) or not rater.strip():
            raise UserError(f"a rater has a name, not {rater!r}")
        line = {
            "key": completion_key(prompt, completion),
            "score": score,
            "scale": [low, high],
            "rater": rater,
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "prompt": _plain(prompt),
            "completion": completion_text(completion),
            "columns": dict(columns or {}),
        }
        try:
            text = json.dumps(line, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"columns must hold plain data: {error}") from None
        self.refresh()  # tells whether the last line was cut off
        self._append(text)
        self.refresh()

    def refresh(self) -> None:
        """Reads what was appended since, by whomever."""
        with self._lock:
            try:
                size = self.path.stat().st_size if self.path.exists() else 0
                if size < self._read_to:
                    self._forget()  # another file lies there now
                if size == self._read_to:
                    return
                with self.path.open("rb") as file:
                    file.seek(self._read_to)
                    data = file.read()
            except OSError as error:
                raise UserError(f"the scores in {str(self.path)!r} cannot be read: {error}") from (
                    error
                )
            whole, _, rest = data.rpartition(b"\n")
            for line in whole.split(b"\n") if whole else []:
                self._take(line)
            # A last line without its end: written by hand, or cut off by a kill.
            self._torn = bool(rest)
            if rest and _is_json(rest):
                self._take(rest)
                rest = b""
            self._read_to += len(data) - len(rest)

    def of(self, key: str) -> list[Judgement]:
        """The scores of a completion, one of each rater who gave any."""
        return [j for j in self._latest.get(key, {}).values() if j.score is not None]

    def judged_by(self, rater: str, key: str) -> Judgement | None:
        """What this rater said last about it; `None` when nothing was said."""
        return self._latest.get(key, {}).get(rater)

    def labels(self) -> list[Label]:
        """Every completion that somebody scored, in the order of the file."""
        return list(self._labels())

    def _labels(self) -> Iterator[Label]:
        for key, (prompt, completion, columns) in self._answers.items():
            shares = [judgement.share for judgement in self.of(key)]
            if shares:
                yield Label(
                    prompt,
                    completion,
                    math.fsum(shares) / len(shares),
                    columns,
                    max(shares) - min(shares),
                    len(shares),
                )

    # -- the file ---------------------------------------------------------------------------

    def _append(self, text: str) -> None:
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
                descriptor = os.open(self.path, flags, 0o666)
                try:
                    # In one write, so that lines of two raters never mix. After a line that
                    # was cut off, a fresh one is begun.
                    data = (b"\n" if self._torn else b"") + f"{text}\n".encode()
                    if os.write(descriptor, data) != len(data):
                        raise OSError("the disk took only a part of it")
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                raise UserError(
                    f"the score cannot be written to {str(self.path)!r}: {error}"
                ) from error

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if not _is_json(line):
            return self._damaged(line)
        row = json.loads(line)
        try:
            low, high = _checked_scale(row["scale"])
            score = None if row["score"] is None else _checked_score(row["score"], low, high)
            prompt, completion = row["prompt"], row["completion"]
            key = completion_key(prompt, completion)
            if key != row["key"]:
                raise UserError("its key is not that of its prompt and completion")
            said = Judgement(key, score, low, high, str(row["rater"]), str(row["time"]))
        except (KeyError, TypeError, UserError) as error:
            raise UserError(
                f"{str(self.path)!r} holds a line that is no judgement ({error}): "
                f"{line[:80].decode('utf-8', 'replace')}…"
            ) from None
        by = self._latest.setdefault(key, {})
        by.pop(said.rater, None)
        by[said.rater] = said
        self._answers[key] = (prompt, completion, dict(row.get("columns") or {}))

    def _damaged(self, line: bytes) -> None:
        """A line that was cut off by a kill, with the next begun behind it: lost, and said."""
        import warnings

        warnings.warn(
            f"a line of {str(self.path)!r} was cut off and is left out: "
            f"{line[:60].decode('utf-8', 'replace')}…",
            RuntimeWarning,
            stacklevel=3,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])

    def __deepcopy__(self, memo: dict[int, Any]) -> ExpertScores:
        return self


class ExpertReward(Reward):
    """The mean of what people said, from 0 to 1. Made by `expert_reward`.

    The file is read again whenever it has grown. Parts: `disagreement`, the largest
    difference between two raters; `None` for a single one.
    """

    def __init__(self, scores: ExpertScores, name: str = "expert_reward") -> None:
        super().__init__(self._run, name, columns=("prompts",), bounds=(0.0, 1.0))
        self.scores = scores

    def _run(self, *, completions: Sequence[str], prompts: Sequence[Any], **_: Any) -> list[Score]:
        self.scores.refresh()
        return [self._score(p, c) for p, c in zip(prompts, completions, strict=True)]

    def _score(self, prompt: Any, completion: str) -> Score:
        found = self.scores.of(completion_key(prompt, completion))
        shares = [judgement.share for judgement in found]
        spread = max(shares) - min(shares) if len(shares) > 1 else None
        parts = {"disagreement": spread}
        if not shares:
            return Score(None, "NOT_SCORED", parts, "nobody has scored this completion")
        told = ", ".join(f"{j.rater} {j.share:g}" for j in found)
        if spread is not None and spread > DISAGREE:
            told += f" (they differ by {spread:g})"
        return Score(math.fsum(shares) / len(shares), "OK", parts, told)


def expert_reward(file: str | Path | ExpertScores, name: str = "expert_reward") -> ExpertReward:
    """People's scores as a reward.

    Args:
        file: a file that `rlkit.lab.expert_panel` or `ExpertScores` wrote.
        name: name of the part.

    Raises:
        UserError: no such file, or a line in it that is no judgement.

    >>> expert_reward("no/such/file.jsonl")
    Traceback (most recent call last):
    ...
    rlkit.errors.UserError: there is no file 'no/such/file.jsonl' with people's scores; ...
    """
    if not isinstance(file, ExpertScores):
        if not Path(file).is_file():
            raise UserError(
                f"there is no file {str(file)!r} with people's scores; score some completions "
                "with rlkit.lab.expert_panel(rollouts, file)"
            )
        file = ExpertScores(file)
    return ExpertReward(file, name)


def _plain(prompt: Any) -> Any:
    """A prompt as it is stored: text, or `[role, text]` of each message."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    if isinstance(prompt, Sequence) and prompt and all(isinstance(m, Mapping) for m in prompt):
        turns = [
            {
                "role": str(m.get("role", "user")),
                "content": completion_text({**m, "role": "assistant"}),
            }
            for m in prompt
        ]
        return turns[0]["content"] if [t["role"] for t in turns] == ["user"] else turns
    raise UserError(f"a prompt is a text or a list of chat messages, not {type(prompt).__name__}")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _checked_scale(scale: Any) -> tuple[float, float]:
    sound = isinstance(scale, (list, tuple)) and len(scale) == 2
    numbers = sound and all(
        isinstance(n, (int, float)) and not isinstance(n, bool) and math.isfinite(n) for n in scale
    )
    if not numbers or scale[0] >= scale[1]:
        raise UserError(f"a scale is (lowest, highest), two numbers, not {scale!r}")
    return float(scale[0]), float(scale[1])


def _checked_score(score: Any, low: float, high: float) -> float:
    number = isinstance(score, (int, float)) and not isinstance(score, bool)
    if not number or not low <= score <= high:
        raise UserError(f"a score is a number from {low:g} to {high:g}, or None, not {score!r}")
    return float(score)
