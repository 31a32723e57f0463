"""expert_panel: give answers a score by hand, one after the other.

Each score goes to a file at once (`rlkit.rewards.expert`), from which it is a reward and
labels for an audit. The panel shows question and answer and nothing that could sway the
judgement: no reward, no truth, no other rater.

The widgets are in `expert_controls.py`; everything they do can be done without them, with
`give`, `skip` and `go`.

Left out on purpose: comparing two answers, and free comments.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.lab.frontend import headless
from rlkit.lab.group_view import _cut
from rlkit.lab.theme import escape, visible
from rlkit.rewards.completions import completion_text
from rlkit.rewards.expert import (
    ExpertReward,
    ExpertScores,
    Judgement,
    Label,
    completion_key,
    expert_reward,
)

#: What the buttons give, from worst to best, as shares of the scale.
CHOICES = {"wrong": 0.0, "partly right": 0.5, "right": 1.0}


@dataclass(frozen=True)
class Item:
    """One answer to be scored.

    Attributes:
        prompt: text or chat messages.
        completion: the answer's text.
        columns: what a reward would need to judge it; goes to the file, is not shown.
    """

    prompt: Any
    completion: str
    columns: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return completion_key(self.prompt, self.completion)

    @property
    def question(self) -> str:
        """What was asked: the text, or the turns of a chat."""
        if isinstance(self.prompt, str):
            return self.prompt
        said = [(m.get("role", "user"), _said(m)) for m in self.prompt or ()]
        return said[0][1] if len(said) == 1 else "\n".join(f"{who}: {text}" for who, text in said)


class ExpertPanel:
    """The panel. Make it the last line of a cell to see it. Made by `expert_panel`.

    Attributes:
        items: the answers, each once.
        scores: the file.
        at: number of the item that is shown, from 0.
        merged: answers that were left out because they are the same as another.
    """

    def __init__(
        self,
        items: Sequence[Item],
        scores: ExpertScores,
        rater: str,
        scale: tuple[float, float],
    ) -> None:
        unique: dict[str, Item] = {}
        for item in items:
            unique.setdefault(item.key, item)
        self.items = tuple(unique.values())
        self.merged = len(items) - len(self.items)
        self.scores = scores
        self.rater = rater
        self.scale = scale
        self.at = 0
        self._controls: Any = None
        self._to_next_open(0)
        if not headless():
            from rlkit.lab.expert_controls import Controls

            self._controls = Controls(self)

    def __len__(self) -> int:
        return len(self.items)

    # -- what may be asked of it ---------------------------------------------------------------

    def give(self, number: int, score: float) -> None:
        """Scores the item of this number, from 0.

        Raises:
            UserError: no such item, a score off the scale, or a file that cannot be written.
        """
        self._say(number, score)

    def skip(self, number: int) -> None:
        """Passes the item over; a score that you gave it before is taken back."""
        self._say(number, None)

    def go(self, number: int) -> None:
        """Shows the item of this number, from 0.

        Raises:
            UserError: no such item.
        """
        self.at = self._checked(number)
        self._changed()

    def answer(self, score: float | None) -> None:
        """Scores the item that is shown (`None` skips it), and shows the next open one."""
        self._say(self.at, score, draw=False)
        self._to_next_open(self.at + 1)
        self._changed()

    def said(self, number: int) -> Judgement | None:
        """What you said of an item last; `None` when nothing yet."""
        return self.scores.judged_by(self.rater, self.items[self._checked(number)].key)

    @property
    def counts(self) -> dict[str, int]:
        """How many items you scored, skipped, and have open."""
        said = [self.said(n) for n in range(len(self))]
        scored = sum(s is not None and s.score is not None for s in said)
        skipped = sum(s is not None and s.score is None for s in said)
        return {"scored": scored, "skipped": skipped, "open": len(said) - scored - skipped}

    @property
    def labels(self) -> list[Label]:
        """What all raters said so far: labels for `rlkit.audit(reward, labels=…)`."""
        return self.scores.labels()

    def reward(self) -> ExpertReward:
        """The scores as a reward."""
        return expert_reward(self.scores)

    @property
    def progress(self) -> str:
        """Where you are, in a sentence."""
        counts = self.counts
        told = f"{counts['scored']} of {len(self)} scored"
        told += f", {counts['skipped']} skipped" if counts["skipped"] else ""
        told += ": nothing is open any more" if not counts["open"] else ""
        if self.merged:
            told += f" ({self.merged} that are the same as others are shown once)"
        return told

    # -- inside ---------------------------------------------------------------

    def _say(self, number: int, score: float | None, draw: bool = True) -> None:
        item = self.items[self._checked(number)]
        self.scores.give(
            item.prompt,
            item.completion,
            score,
            rater=self.rater,
            scale=self.scale,
            columns=item.columns,
        )
        if draw:
            self._changed()

    def _checked(self, number: int) -> int:
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not 0 <= number < len(self):
            raise UserError(f"there is no item {number!r}; there are items 0 to {len(self) - 1}")
        return number

    def _to_next_open(self, start: int) -> None:
        """Shows the next item nobody of your name has spoken about; the same if there is none."""
        order = [*range(start, len(self)), *range(min(start, len(self)))]
        self.at = next((n for n in order if self.said(n) is None), self.at)

    def _changed(self) -> None:
        if self._controls is not None:
            self._controls.draw()

    # -- shown ---------------------------------------------------------------

    def item_html(self) -> str:
        """The item that is shown, as HTML; the model's text is escaped."""
        item = self.items[self.at]
        pre = (
            "white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;padding:6px 8px;"
            "border-left:3px solid rgba(128,128,128,.5);background:none"
        )
        answer = escape(_cut(item.completion)) or "<i>(empty)</i>"
        return (
            f'<section aria-label="Answer {self.at + 1} of {len(self)}">'
            f"<b>Question</b><pre style='{pre}'>{escape(_cut(item.question))}</pre>"
            f"<b>Answer {self.at + 1} of {len(self)}</b><pre style='{pre}'>{answer}</pre>"
            f"</section>"
        )

    def said_text(self) -> str:
        """What you said of the item that is shown."""
        said = self.said(self.at)
        if said is None:
            return "You have not scored it."
        if said.score is None:
            return "You skipped it."
        return f"You gave it {said.score:g} of {said.high:g}."

    def __repr__(self) -> str:
        item = self.items[self.at]
        low, high = self.scale
        return (
            f"Expert panel, {self.progress}\n"
            f"Question: {visible(item.question)}\n"
            f"Answer {self.at}: {visible(_cut(item.completion)) or '(empty)'}\n"
            f"{self.said_text()} Write panel.give({self.at}, score) with a score from {low:g} to "
            f"{high:g}, or panel.skip({self.at}); panel.go(n) shows another."
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        static = {
            "text/plain": repr(self),
            "text/html": f"{self.item_html()}<p>{escape(self.progress)}</p>",
        }
        if self._controls is None:
            return static
        return {**self._controls.box._repr_mimebundle_(), **static}


def expert_panel(
    rollouts: Any,
    file: str | Path | ExpertScores,
    *,
    rater: str = "expert",
    scale: tuple[float, float] = (0.0, 1.0),
    limit: int | None = None,
    shuffle: int | None = None,
) -> ExpertPanel:
    """Opens a panel in which a person scores answers.

    Args:
        rollouts: what `stored_rollouts(...)` gives, a `Run` or its directory, rollouts or
            groups of a policy, a batch of a loop, pairs of prompt and completion, or
            mappings with `prompt` and `completion` (further entries are columns).
        file: where the scores go, JSONL; it is added to. Go on with the same file later.
        rater: your name; several people may use one file.
        scale: lowest and highest score.
        limit: show so many at most.
        shuffle: seed of a random order; `None` keeps theirs.

    Raises:
        UserError: nothing to score, something that is no rollout, or a file that cannot be
            read.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "scores.jsonl"
    >>> panel = expert_panel([("2 + 2?", "4"), ("2 + 2?", "5")], file)
    >>> panel.give(0, 1.0); panel.skip(1)
    >>> panel.progress
    '1 of 2 scored, 1 skipped: nothing is open any more'
    >>> panel.reward()(prompts=["2 + 2?"] * 2, completions=["4", "5"])
    [1.0, None]
    """
    items = list(_items(rollouts))
    if not items:
        raise UserError("there is nothing to score; give at least one rollout")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise UserError(f"limit is a whole number from 1 up, not {limit!r}")
    if shuffle is not None:
        random.Random(f"expert/{shuffle}").shuffle(items)
    scores = file if isinstance(file, ExpertScores) else ExpertScores(file)
    return ExpertPanel(items[:limit], scores, rater, scale)


def _items(rollouts: Any) -> Iterable[Item]:
    from rlkit.lab.stored import stored_rollouts

    if isinstance(rollouts, (str, Path)) or hasattr(rollouts, "metrics"):
        rollouts = stored_rollouts(rollouts)
    groups = getattr(rollouts, "groups", None)
    if groups is None:
        groups = [rollouts] if hasattr(rollouts, "rollouts") else None
    if groups is not None:
        for group in groups:
            home = getattr(group, "problem", group)  # a policy's group has its problem
            for rollout in group.rollouts:
                yield Item(_chat(home.prompt), rollout.text, dict(home.columns))
        return
    if isinstance(rollouts, (bytes, Mapping)) or not isinstance(rollouts, Iterable):
        raise UserError(f"rollouts are a list, a run or a batch, not {type(rollouts).__name__}")
    for n, one in enumerate(rollouts):
        if hasattr(one, "rollouts"):
            yield from _items(one)
        elif hasattr(one, "problem"):
            yield Item(_chat(one.problem.prompt), one.text, dict(one.problem.columns))
        elif isinstance(one, Mapping) and {"prompt", "completion"} <= one.keys():
            rest = {k: v for k, v in one.items() if k not in ("prompt", "completion")}
            yield Item(one["prompt"], completion_text(one["completion"]), rest)
        elif isinstance(one, (tuple, list)) and len(one) == 2:
            yield Item(one[0], completion_text(one[1]))
        else:
            raise UserError(
                f"rollout {n} is {type(one).__name__}; give rollouts, (prompt, completion), or "
                "mappings with prompt and completion"
            )


def _chat(prompt: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [dict(message) for message in prompt]


def _said(message: Mapping[str, Any]) -> str:
    return completion_text({**message, "role": "assistant"})
