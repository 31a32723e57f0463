"""retention_reward: what of a long context is really used.

Facts that were hidden in the context (needles) are asked back. Paid is the fact, not its
wording; a fact given for the wrong question, a denied one, and one that drowns in other
candidates are not. Where the context numbers its passages `[1]`, `[2]`, ..., a fact must
cite passages that contain it.

Left out on purpose: any judgement by a model of what is "the same" beyond the letters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.extraction import MAX_SOURCE_CHARS, without_thoughts, written_backwards
from rlkit.rewards.reward import Reward, Score

#: Facts count for themselves; citations, where they are asked for, half as much.
WEIGHTS = {"needles": 1.0, "citations": 0.5}
#: Who repeats so long a piece of the context word by word has looked nothing up, in words.
MAX_ECHO = 60

_CITED = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\s*\]")
_PASSAGE = re.compile(r"(?m)^\s*\[(\d{1,4})\][ \t]*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_DENIED = re.compile(
    r"\b(?:not|never|neither|nor|isn't|wasn't|aren't|instead of|rather than|no longer|unlike)\b"
    r"(?:\W+\w+){0,3}\W*$"
)


class RetentionReward(Reward):
    """How many of the hidden facts come back, with the right citations and no wrong ones.

    Columns, one entry for each completion:

    * `needles`: `{question: value}`, or a list of values, or one value;
    * `distractors` (may be missing): values that are near but wrong; one that is given as an
      answer, not denied, makes the row worth 0;
    * `context` (may be missing): when it has passages `[n]`, each fact must cite some, and
      only such as contain it.

    Parts: `needles` (share of facts given), `distractors` (1 when none was taken, else 0),
    `citations` (share of the facts given that cite rightly). A row without needles is `None`.

    Args:
        weights: of `needles` and `citations`.

    Raises:
        UserError: a weight of something else, or no number.

    >>> retention_reward(completions=["The access code mentioned earlier is 4711."],
    ...                  needles=[{"access code": "4711"}])
    [1.0]
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        super().__init__(self._run, "retention_reward", columns=("needles",), bounds=(0.0, 1.0))
        self.weights = dict(WEIGHTS if weights is None else weights)
        for name, weight in self.weights.items():
            if name not in WEIGHTS or not isinstance(weight, (int, float)) or weight < 0:
                raise UserError(f"weights are numbers for {', '.join(WEIGHTS)}, not {weights!r}")
        if not self.weights.get("needles"):
            raise UserError("the needles themselves need a weight above 0")

    def _run(
        self,
        *,
        completions: Sequence[str],
        needles: Sequence[Any],
        distractors: Sequence[Any] | None = None,
        context: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[Score]:
        nothing = [None] * len(completions)
        rows = zip(completions, needles, distractors or nothing, context or nothing, strict=True)
        return [self._score(*row) for row in rows]

    def _score(self, text: str, needles: Any, distractors: Any, context: str | None) -> Score:
        wanted = _pairs(needles)
        if not wanted:
            return Score(None, "NO_GOLD", reason="the problem has no needles to ask back")
        answer = without_thoughts(text[:MAX_SOURCE_CHARS])
        parts: dict[str, float | None] = {"needles": 0.0}
        if answer is None or not answer.strip() or written_backwards(answer):
            return Score(0.0, "NO_ANSWER", parts, "there is no answer")
        passages = _passages(context or "")
        found = _given(answer, wanted)
        parts["needles"] = sum(found) / len(found)
        told = f"{sum(found)} of {len(found)} facts given"
        values = {_folded(value) for _, value in wanted}
        wrong = [v for _, v in _pairs(distractors) if _folded(v) not in values]
        taken = next((v for v in wrong if _asserted(_folded(answer), _folded(v))), None)
        if wrong:
            parts["distractors"] = float(taken is None)
        if passages:
            parts["citations"] = _citations(answer, wanted, found, passages)
        if taken is not None:
            return Score(0.0, "DISTRACTED", parts, f"{told}, but also the wrong {taken!r}")
        if context and _echoes(answer, context):
            return Score(0.0, "ECHO", parts, "it repeats the context instead of answering")
        paid = {name: w for name, w in self.weights.items() if w and parts.get(name) is not None}
        total = sum(paid.values())
        added = {name: parts[name] * weight / total for name, weight in paid.items()}
        value = min(1.0, math.fsum(added.values()))
        status = "OK" if value == 1.0 else "WRONG"
        if passages and parts["citations"] is not None:
            told += f", {parts['citations']:.0%} of them cited rightly"
        return Score(value, status, parts, told, contributions=added)


@dataclass(frozen=True)
class _Mention:
    """Where a question is named in a text, and the text around it up to its neighbours."""

    before: str
    after: str


def _given(answer: str, wanted: Sequence[tuple[str, str]]) -> list[bool]:
    """For each fact: is it given, and for its own question where questions are named?"""
    text = _folded(answer)
    present = [_asserted(text, _folded(value)) for _, value in wanted]
    keys = [_folded(key) for key, _ in wanted]
    places = sorted(
        (at.start(), at.end(), i)
        for i, key in enumerate(keys)
        if key
        for at in re.finditer(rf"(?<!\w){re.escape(key)}(?!\w)", text)
    )
    if len({i for _, _, i in places}) < 2:
        return present  # with a single question there is nothing to mix up
    mentions: dict[int, list[_Mention]] = {}
    for n, (start, end, i) in enumerate(places):
        left = places[n - 1][1] if n else 0
        right = places[n + 1][0] if n + 1 < len(places) else len(text)
        mentions.setdefault(i, []).append(_Mention(text[left:start], text[end:right]))
    # "the code is 4711" and "4711 is the code" are both fine, but an answer keeps to one.
    readings = [
        [
            here
            and (
                i not in mentions
                or any(_asserted(getattr(m, side), _folded(wanted[i][1])) for m in mentions[i])
            )
            for i, here in enumerate(present)
        ]
        for side in ("after", "before")
    ]
    if readings[1] == present:
        return present
    values = [text.find(_folded(value)) for _, value in wanted]
    value_first = min((v for v in values if v >= 0), default=len(text)) < places[0][0]
    return readings[1] if value_first and readings[0] != present else readings[0]


def _asserted(text: str, value: str) -> bool:
    """Does the text hold the value as a whole word, at least once without denying it?"""
    if not value:
        return False
    for found in re.finditer(rf"(?<![\w]){re.escape(value)}(?!\w|[.,]\d)", text):
        before = text[max(0, found.start() - 60) : found.start()]
        if value[0].isdigit() and re.search(r"\d[.,]$|(?<!\w)[-\u2212+]$", before):
            continue  # the tail of a longer number, or a negative one
        if not _DENIED.search(_SENTENCE.split(before)[-1]):
            return True
    return False


def _citations(
    answer: str,
    wanted: Sequence[tuple[str, str]],
    found: Sequence[bool],
    passages: Mapping[int, str],
) -> float | None:
    """Share of the facts given whose sentence cites passages that hold its facts, and no others."""
    sentences = [s for s in _SENTENCE.split(_joined(answer)) if s.strip()]
    right = given = 0
    for (_, value), here in zip(wanted, found, strict=True):
        if not here:
            continue
        given += 1
        value = _folded(value)
        for sentence in sentences:
            folded = _folded(_CITED.sub(" ", sentence))
            if not _asserted(folded, value):
                continue
            held = [v for _, v in wanted if _asserted(folded, _folded(v))]
            cited = _numbers(sentence)
            sound = all(
                any(_asserted(passages.get(n, ""), _folded(v)) for v in held) for n in cited
            )
            if cited and sound and any(_asserted(passages.get(n, ""), value) for n in cited):
                right += 1
                break
    return right / given if given else None


def _joined(text: str) -> str:
    """A citation behind the full stop belongs to the sentence before it."""
    return re.sub(r"([.!?;])(\s*(?:\[[\d\s,;–-]+\]\s*)+)", r"\2\1 ", text)


def _numbers(sentence: str) -> set[int]:
    cited: set[int] = set()
    for found in _CITED.finditer(sentence):
        for part in re.split(r"[,;]", found.group(1)):
            ends = [int(n) for n in re.split(r"[–-]", part)]
            cited |= set(range(ends[0], min(ends[-1], ends[0] + 50) + 1))
    return cited


def _passages(context: str) -> dict[int, str]:
    """Folded text of each passage by its number; the whole up to the next number is its text."""
    marks = list(_PASSAGE.finditer(context))
    ends = [mark.start() for mark in marks[1:]] + [len(context)]
    return {
        int(mark.group(1)): _folded(context[mark.end() : end])
        for mark, end in zip(marks, ends, strict=False)  # without a mark there is one end too many
    }


def _echoes(answer: str, context: str) -> bool:
    """Does the answer hold a long piece of the context, word by word?"""
    words = _folded(answer).split()
    if len(words) < MAX_ECHO:
        return False
    source = " ".join(_folded(context).split())
    return any(
        " ".join(words[i : i + MAX_ECHO]) in source for i in range(len(words) - MAX_ECHO + 1)
    )


def _pairs(needles: Any) -> list[tuple[str, str]]:
    """Question and value of each needle; the question is empty where there is none."""
    if needles is None or (isinstance(needles, float) and math.isnan(needles)):
        return []
    if isinstance(needles, Mapping):
        # A column that went through Arrow holds None for the questions of other rows.
        return [(str(k), str(v)) for k, v in needles.items() if v is not None and str(v).strip()]
    if isinstance(needles, (str, int, float)):
        needles = [needles]
    if not isinstance(needles, Sequence):
        raise UserError(
            f"needles are {{question: value}} or a list of values, not {type(needles).__name__}"
        )
    return [("", str(value)) for value in needles if value is not None and str(value).strip()]


def _folded(text: str) -> str:
    # Raised digits stay what they are: 47¹¹ is not 4711.
    plain = "".join(
        c if unicodedata.category(c) == "No" else unicodedata.normalize("NFKC", c) for c in text
    )
    return " ".join(plain.casefold().replace("’", "'").split())


retention_reward = RetentionReward()
