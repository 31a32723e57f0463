"""Shaping: rewards for how an answer is written, not for whether it is right.

All of them are marked as shaping, so that `Score.unshaped` leaves them out. Each comes
as a pure function of numbers or words, and as a reward around it.

* soft overlong: DAPO (Yu et al., 2503.14476), equation 13
* repetition and the cosine of the length: Yeo et al., 2502.03373
* language consistency: the share of words in the target language, after DeepSeek-R1
  (2501.12948, section 2.3.2), measured here by script

Left out: telling languages of one script apart, which needs a model.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.algebra import Composed
from rlkit.rewards.reward import Reward
from rlkit.rewards.score import Score

#: What a length can be counted in. Tokens need the column `completion_ids`.
UNITS = ("tokens", "words", "characters")


def lengths_of(completions: Sequence[str], unit: str, completion_ids: Any) -> list[int]:
    """The length of each completion in tokens, words or characters."""
    if unit == "tokens":
        return [len(ids) for ids in completion_ids]
    return [len(text.split()) if unit == "words" else len(text) for text in completions]


def _unit(unit: str) -> str:
    if unit not in UNITS:
        raise UserError(f"a length is counted in {', '.join(UNITS)}, not in {unit!r}")
    return unit


def _columns(unit: str) -> tuple[str, ...]:
    return ("completion_ids",) if unit == "tokens" else ()


# -- soft overlong -------------------------------------------------------------------------


def soft_overlong(length: float, max_length: float, cache: float) -> float:
    """DAPO's penalty for nearly too long: 0, then falling over the last `cache`, then -1.

    With L the length, M `max_length` and C `cache`: 0 for L <= M - C;
    ((M - C) - L) / C for M - C < L <= M; -1 beyond (2503.14476, equation 13).

    >>> [soft_overlong(n, 100, 20) for n in (80, 90, 100, 500)]
    [0.0, -0.5, -1.0, -1.0]
    """
    start = max_length - cache
    if length <= start:
        return 0.0
    return -1.0 if length > max_length else (start - length) / cache


class SoftOverlong(Reward):
    """A penalty from 0 to -1 for completions that come near the length limit.

    Args:
        max_length: the limit, in `unit`.
        cache: how long before the limit the penalty starts.
        unit: `tokens` (column `completion_ids`), `words` or `characters`.
        name: its name among the parts.
    """

    def __init__(
        self, max_length: int, cache: int, unit: str = "tokens", name: str = "soft_overlong"
    ) -> None:
        if not 0 <= cache <= max_length or max_length <= 0:
            raise UserError(
                f"the penalty starts within the limit: 0 <= cache <= max_length, "
                f"not cache={cache}, max_length={max_length}"
            )
        self.max_length, self.cache, self.unit = max_length, cache, _unit(unit)
        super().__init__(self._run, name, _columns(unit), bounds=(-1.0, 0.0), shaping=True)

    def _run(
        self, *, completions: Sequence[str], completion_ids: Any = None, **_: Any
    ) -> list[Score]:
        rows = []
        for length in lengths_of(completions, self.unit, completion_ids):
            value = soft_overlong(length, self.max_length, self.cache)
            status = "OK" if value == 0.0 else "LONG"
            reason = f"{length} {self.unit} of at most {self.max_length}"
            rows.append(Score(value, status, reason=reason))
        return rows


# -- repetition ----------------------------------------------------------------------------

# A word, or one sign of a script that writes no spaces between words.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; each Chinese or Japanese sign is one.

    >>> words_of("No, no! 再见")
    ['no', 'no', '再', '见']
    """
    return _WORD.findall(text.lower())


def repetition(words: Sequence[str], n: int) -> float:
    """The share of n-grams that are repeats: 1 - distinct / all; 0 for a shorter text.

    >>> repetition("a b a b a b".split(), 2)  # 5 bigrams, ab and ba distinct: 1 - 2/5
    0.6
    """
    grams = len(words) - n + 1
    if grams <= 0:
        return 0.0
    return 1.0 - len({tuple(words[i : i + n]) for i in range(grams)}) / grams


class RepetitionPenalty(Reward):
    """A penalty from 0 to `-max_penalty` for n-grams that come again (2502.03373).

    Args:
        n: words in an n-gram.
        max_penalty: penalty where everything is repeated.
        name: its name among the parts.
    """

    def __init__(self, n: int = 3, max_penalty: float = 1.0, name: str = "repetition") -> None:
        if n < 1 or not 0 < max_penalty < math.inf:
            raise UserError(
                f"n is at least 1 and max_penalty above 0, not n={n}, max_penalty={max_penalty}"
            )
        self.n, self.max_penalty = int(n), float(max_penalty)
        bounds = (-self.max_penalty, 0.0)
        super().__init__(self._run, name, bounds=bounds, shaping=True)

    def _run(self, *, completions: Sequence[str], **_: Any) -> list[Score]:
        rows = []
        for text in completions:
            share = repetition(words_of(text), self.n)
            reason = f"{share:.0%} of its {self.n}-grams are repeats"
            value = -self.max_penalty * share if share else 0.0
            rows.append(Score(value, "OK" if not share else "REPEATS", reason=reason))
        return rows


# -- cosine of the length ------------------------------------------------------------------


def cosine_length(length: float, max_length: float, at_zero: float, at_max: float) -> float:
    """From `at_zero` to `at_max` along half a cosine; the length is clamped to the limit.

    With t the length held within [0, T] and T the limit:
    at_max + (at_zero - at_max) (1 + cos(pi t / T)) / 2 (2502.03373, section 4.2). Without
    the clamp the cosine would turn and pay for going far beyond the limit.

    >>> [cosine_length(n, 100, 1.0, 0.5) for n in (0, 50, 100, 200)]
    [1.0, 0.75, 0.5, 0.5]
    """
    t = min(max(length, 0.0), max_length)
    return at_max + 0.5 * (at_zero - at_max) * (1.0 + math.cos(math.pi * t / max_length))


class CosineLength(Composed):
    """Scales a reward by the length: right and short pays most, wrong and short least.

    Args:
        base: says what is right: its value at or above `right_from`.
        max_length: the limit, in `unit`.
        right: values of a right answer at length 0 and at the limit.
        wrong: the same for a wrong one; it rises, so that thinking longer is worth trying.
        beyond: value of anything longer than the limit; `None` for that at the limit.
        unit: `tokens` (column `completion_ids`), `words` or `characters`.
        right_from: smallest value of `base` that counts as right.
        name: its name among the parts.
    """

    def __init__(
        self,
        base: Reward,
        max_length: int,
        right: tuple[float, float] = (1.0, 0.5),
        wrong: tuple[float, float] = (-1.0, -0.5),
        beyond: float | None = None,
        unit: str = "tokens",
        right_from: float = 1.0,
        name: str | None = None,
    ) -> None:
        if not isinstance(base, Reward):
            raise UserError(f"the length scales a reward, not {type(base).__name__}")
        if max_length <= 0:
            raise UserError(f"max_length must be above 0, not {max_length}")
        self.max_length, self.unit, self.right_from = max_length, _unit(unit), right_from
        self.right, self.wrong, self.beyond = right, wrong, beyond
        super().__init__(name or f"{base.name}.cosine_length", [base], _columns(unit))

    def _evaluate(self, texts: list[str], prompts: Any, columns: dict[str, Any]) -> list[Score]:
        (scores,) = self._scores(texts, prompts, columns)
        lengths = lengths_of(texts, self.unit, columns.get("completion_ids"))
        return [self._scaled(s, n) for s, n in zip(scores, lengths, strict=True)]

    def _scaled(self, score: Score, length: int) -> Score:
        if score.value is None:
            return score
        ends = self.right if score.value >= self.right_from else self.wrong
        value = cosine_length(length, self.max_length, *ends)
        if self.beyond is not None and length > self.max_length:
            value = self.beyond
        # The length changes what the base is worth; what it judged stays the unshaped score.
        shares = {**score.contributions, "length": value - sum(score.contributions.values())}
        reason = f"{score.reason}; {length} {self.unit}".removeprefix("; ")
        return Score(value, score.status, score.parts, reason, shares, score.unshaped, score.truth)


# -- language ------------------------------------------------------------------------------

#: Scripts by language; any other name is taken as a script itself.
SCRIPTS = {
    **dict.fromkeys(("en", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "vi"), ("LATIN",)),
    **dict.fromkeys(("ru", "uk", "bg", "sr"), ("CYRILLIC",)),
    "zh": ("CJK",),
    "ja": ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "ko": ("HANGUL",),
    "ar": ("ARABIC",),
    "fa": ("ARABIC",),
    "he": ("HEBREW",),
    "el": ("GREEK",),
    "hi": ("DEVANAGARI",),
    "th": ("THAI",),
}
_NOT_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|</?\w+>", re.DOTALL)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").removeprefix("FULLWIDTH ").split()[0]


def scripts_of(language: str) -> tuple[str, ...]:
    """The scripts of a language code, or of a script's own name.

    >>> scripts_of("ru"), scripts_of("Thai")
    (('CYRILLIC',), ('THAI',))
    """
    code = str(language).strip()
    known = SCRIPTS.get(code.lower().replace("_", "-").split("-")[0])
    if known is None and code.upper() in {s for scripts in SCRIPTS.values() for s in scripts}:
        known = (code.upper(),)
    if known is None:
        raise UserError(f"the script of {language!r} is not known; known are {', '.join(SCRIPTS)}")
    return known


def script_share(text: str, language: str) -> float | None:
    """The share of a text's letters that belong to the script of a language.

    Code, formulas and tags are left out, for they are the same everywhere; `None` when
    no letter is left.

    >>> script_share("Hello мир", "en")  # 5 of 8 letters
    0.625
    >>> script_share("42", "en") is None
    True
    """
    wanted = scripts_of(language)
    counts = Counter(c for c in _NOT_PROSE.sub(" ", text) if c.isalpha())
    total = sum(counts.values())
    if not total:
        return None
    return sum(n for letter, n in counts.items() if _script(letter) in wanted) / total


class LanguageConsistency(Reward):
    """The share of letters in the script of the wanted language, from 0 to 1.

    Args:
        language: a code such as `en` or `zh`; `None` reads it from the column `language`.
        name: its name among the parts.
    """

    def __init__(self, language: str | None = None, name: str = "language") -> None:
        if language is not None:
            scripts_of(language)
        self.language = language
        columns = () if language is not None else ("language",)
        super().__init__(self._run, name, columns, bounds=(0.0, 1.0), shaping=True)

    def _run(self, *, completions: Sequence[str], language: Any = None, **_: Any) -> list[Score]:
        wanted = [self.language] * len(completions) if self.language else language
        rows = []
        for text, code in zip(completions, wanted, strict=True):
            share = None if code is None else script_share(text, code)
            if share is None:
                rows.append(
                    Score(None, "NO_VERDICT", reason="no letters, or no language asked for")
                )
            else:
                rows.append(Score(share, "OK", reason=f"{share:.0%} of its letters are {code}"))
        return rows
