"""Extraction: the stretch of a completion that is its answer.

What is thought is not answered: reasoning tags go first, and a completion that
never leaves its reasoning has no answer. Then, in this order:

1. the last `\\boxed{...}`, with boxes before it joined when nothing but separators
   stands between; a last box that never closes is a wrong answer, not a reason to
   pay an earlier one;
2. an `<answer>` block, when there is exactly one;
3. what follows the last "#### ", "Final answer:", "The answer is";
4. the whole text, when it is one short line and nothing else;
5. in flexible mode alone: the last mathematics or number of the last line that has one.

Left out: choosing among candidates by the gold answer. One stretch is taken, and
it is right or wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rlkit.rewards.maths.answers import Nonsense, Words
from rlkit.rewards.maths.cleaning import plain_signs, strip_wrappers
from rlkit.rewards.maths.reading import read
from rlkit.rewards.maths.tokens import closing_brace

Mode = Literal["strict", "flexible"]
MODES = ("strict", "flexible")
#: Longest completion that is searched, in characters; of a longer one the end is.
MAX_COMPLETION = 200_000
MAX_ANSWER_LINE = 400
MAX_MARKERS = 50
MAX_BOXES_INSIDE = 10
MAX_STRETCH = 30_000
#: Of a line, the end that is searched for a last formula, in characters.
MAX_LINE = 2_000

_THOUGHT = re.compile(r"<(/?)(think|thinking|thought|reasoning)>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BARE_BOX = re.compile(r"(-?\d[\d.,/]*)(?=\s*(?:\$|\\\)|[.\s]*(?:\n|$)))")
_BETWEEN = re.compile(
    r"(?:[\s,;&$]|\\[,;:! ]|\\quad|\\qquad|\\\\|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b)*"
)
# Every repetition is bounded: white space without end must not cost time without end.
_MARKER = re.compile(
    r"####"
    r"|\bfinal\s{1,3}answer\b\s{0,3}(?:\*\*|__)?\s{0,3}(?:is|:|=|-)?"
    r"|\banswers?\b(?:\s{1,3}(?:to|for)\s[^.\n:=]{1,60}?)?\s{0,3}(?:\*\*|__)?\s{0,3}"
    r"(?:is|are|would\s{1,3}be|should\s{1,3}be|must\s{1,3}be|will\s{1,3}be|:|=)"
    r"|(?:^|\n)[^\w\n]{0,8}answer[^\w\n]{0,8}(?=\n)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|never|cannot|can't|don't|doesn't|didn't|isn't|wasn't|n't|no|if|suppose|assume|"
    r"unless|whether|wrong|false|incorrect|unlikely|doubt)\b",
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"\s{0,3}[,;(]?\s{0,3}\b(?:because|since|which|so|as|but|where|when|therefore|thus|hence|for|not|"
    r"given|if|after|assuming)\b",
    re.IGNORECASE,
)
_FLEXIBLE_NUMBER = re.compile(
    r"(?<![\w.])(?<![\d)\]}]\s)(?:(?<![\d)\w])-)?\s?[$€£]?"
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))"
    r"(?:e[+-]?\d+(?!\w)|\^\{?-?\d+\}?|:\d+(?:\.\d+)?)?"
    r"(?:\s+\d+/\d+|/\d+)?(?:\s?\\?%)?"
)
# What stands before a number that is denied, bounded, or one of several.
_OPEN_NUMBER = re.compile(
    r"(?:\b(?:not|never|cannot|n't|isn't|wasn't|aren't|than|at\s+least|at\s+most|except|over|under|"
    r"above|below|plus|times|\d\s+or|between\s+\S+\s+and)(?:\s+\w+)?|[<>=!]=|[<>]|"
    r"\\(?:le|ge|ne|lt|gt|pm|leq|geq|neq)\s?)\s*$",
    re.IGNORECASE,
)
_MINUS = re.compile(r"\b(?:minus|negative)\s*$", re.IGNORECASE)
_ADVERBS = re.compile(
    r"(?:(?:approximately|about|roughly|exactly|precisely|definitely|simply|just|therefore|thus|"
    r"indeed|clearly|then|actually|equal\s+to|given\s+by)\s+)+",
    re.IGNORECASE,
)
_MATHS = re.compile(
    r"\$\$(.+?)\$\$|(?<!\\)\$([^$\n]+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL
)


@dataclass(frozen=True)
class Extracted:
    """The answer's text, or `None` with the reason; `how` names the rule that found it."""

    text: str | None
    how: str


def extract_maths(text: str, mode: Mode = "strict", opened: bool = False) -> Extracted:
    """The answer that a completion gives.

    Args:
        text: the completion.
        mode: `strict` wants a box, an answer block or an announced answer; `flexible`
            also takes the last number or formula.
        opened: the prompt already opened the reasoning.

    >>> extract_maths(r"It is \\boxed{\\frac{1}{2}}.").text
    '\\\\frac{1}{2}'
    >>> extract_maths(r"\\boxed{4}, or rather \\boxed{5").text is None
    True
    >>> extract_maths("That makes 72 clips.").text is None
    True
    >>> extract_maths("That makes 72 clips.", mode="flexible").text
    '72'
    """
    text = text[-MAX_COMPLETION:].replace("\r\n", "\n").replace("：", ":")
    outside = without_reasoning(text, opened)
    if outside is None:
        return Extracted(None, "the reasoning never ends")
    block, unclosed = _answer_block(outside)
    if block is not None:
        outside = block
    box = _boxed(outside)
    if box is not None:
        return box
    if unclosed:
        return Extracted(None, unclosed)
    if block is not None:
        announced = _announced(block)
        return announced or Extracted(block.strip() or None, "answer block")
    announced = _announced(outside)
    if announced is not None:
        return announced
    alone = strip_wrappers(outside)
    if alone and "\n" not in alone and len(alone) <= MAX_ANSWER_LINE and not _is_prose(alone):
        answer = read(alone)
        sentence = isinstance(answer, Words) and any(c.isdigit() for c in alone)
        if not sentence and not isinstance(answer, Nonsense):
            return Extracted(alone, "nothing else")
    if mode == "flexible":
        return _flexible(outside)
    return Extracted(None, "no box, answer block or announced answer")


def without_reasoning(text: str, opened: bool = False) -> str | None:
    """The text outside reasoning tags, or `None` when the reasoning is never closed.

    >>> without_reasoning("<think>4?</think>5"), without_reasoning("so 4</think>5")
    ('5', '5')
    >>> without_reasoning("5 <think>or 6") is None
    True
    """
    depth, kept, last = int(opened), [], 0
    for tag in _THOUGHT.finditer(text):
        if not tag.group(1):
            if depth == 0:
                kept.append(text[last : tag.start()])
            depth += 1
        elif depth == 0:
            kept = []  # its opening tag stood in the prompt: all before it was thought
        else:
            depth -= 1
        last = tag.end()
    if depth > 0:
        return None
    return "".join([*kept, text[last:]])


def _answer_block(text: str) -> tuple[str | None, str]:
    """What the only answer block holds, and why there is none if one was begun."""
    opening, closing = text.count("<answer>"), text.count("</answer>")
    if opening == closing == 1 and text.index("<answer>") < text.index("</answer>"):
        return text.split("<answer>")[1].split("</answer>")[0], ""
    if opening > 1 or closing > 1:
        return None, "more than one answer block"
    if opening == 1:
        # A stop string may have taken the closing tag; a box inside still counts.
        return text.split("<answer>")[1] if "\\boxed" in text else None, "an unclosed answer block"
    return None, ""


def _boxed(text: str) -> Extracted | None:
    boxes: list[tuple[int, int, str]] = []
    end = 0
    for found in _BOX.finditer(text):
        if found.start() < end:
            continue  # a box inside a box
        if text.startswith("{", found.end()):
            close = closing_brace(text, found.end())
            if close is None:
                return Extracted(None, "the last box never closes")
            boxes.append((found.start(), close + 1, text[found.end() + 1 : close].strip()))
            end = close + 1
        elif (bare := _BARE_BOX.match(text, found.end())) is not None:
            boxes.append((found.start(), bare.end(), bare.group(1)))
            end = bare.end()
    if not boxes or not any(content for _, _, content in boxes):
        return None
    if not boxes[-1][2]:
        return Extracted(None, "the last box is empty")
    first = len(boxes) - 1
    while first > 0 and _BETWEEN.fullmatch(text, boxes[first - 1][1], boxes[first][0]):
        first -= 1
    contents = [content for _, _, content in boxes[first:] if content]
    contents = list(dict.fromkeys(contents))
    inner = contents[0] if len(contents) == 1 else ", ".join(contents)
    return Extracted(_unboxed(inner), "box")


def _unboxed(text: str) -> str:
    """A box in a box is what the inner one holds, when it holds all."""
    for _ in range(MAX_BOXES_INSIDE):
        found = _BOX.match(text)
        if found is None or not text.startswith("{", found.end()):
            break
        if closing_brace(text, found.end()) != len(text) - 1:
            break
        text = text[found.end() + 1 : -1].strip()
    return text


def _announced(text: str) -> Extracted | None:
    for marker in reversed(list(_MARKER.finditer(text))[-MAX_MARKERS:]):
        before = re.split(r"[.!?\n]", text[max(0, marker.start() - 300) : marker.start()])[-1]
        if _NEGATED.search(before):
            continue
        stretch = _stretch(text[marker.end() : marker.end() + MAX_STRETCH])
        if stretch is not None:
            return Extracted(stretch, "announced")
    return None


def _stretch(rest: str) -> str | None:
    """The answer at the start of what follows an announcement."""
    rest = re.sub(r"^[\s:=*_]*(?=[*_\s:])", "", rest).lstrip(" \t\n:=*_")
    if not rest:
        return None
    adverbs = _ADVERBS.match(rest)
    if adverbs is not None:
        rest = rest[adverbs.end() :]
    maths = _MATHS.match(rest)
    if maths is not None and not _goes_on(rest[maths.end() :]):
        return strip_wrappers(next(g for g in maths.groups() if g is not None))
    line = rest.split("\n", 1)[0]
    # A display of several lines: \[ ... \] handled above; a matrix may span lines.
    if "\\begin{" in line and "\\end{" not in line and "\\end{" in rest:
        line = re.sub(r"\s*\n\s*", " ", rest[: rest.rindex("\\end{") + 40].split("\n\n")[0])
    line = re.split(r"(?<=[^.\s])\.(?=\s+[A-Z(]|\s*$)|[!?](?=\s|$)(?!\s*[=)\d])", line)[0]
    if "?" in rest[len(line) : len(line) + 1]:
        return None
    cut = _PROSE.search(line)
    if cut is not None and cut.start() > 0:
        line = line[: cut.start()]
    line = line.split("**")[0]
    return strip_wrappers(line) or None


def _goes_on(tail: str) -> bool:
    """Whether the answer goes on behind its first formula: "$3$ and $5$", "$3$ cm"."""
    tail = tail.split("\n", 1)[0]
    return (
        re.match(r"\s*(?:,\s*(?:and\s+|or\s+)?\$|(?:and|or)\b|[A-Za-z/%^]|[-+*=<>])", tail)
        is not None
    )


def _is_prose(line: str) -> bool:
    """Whether a line is a sentence rather than an answer standing alone."""
    words = re.findall(r"(?<![\\A-Za-z{])[A-Za-z]{2,}", line)
    return len(words) > 3 or line.count("=") > 1 or _NEGATED.search(line) is not None


def _flexible(text: str) -> Extracted:
    """The last formula or number of the last line that has one."""
    for whole in reversed(text.strip().split("\n")):
        line = plain_signs(whole[-MAX_LINE:])
        if "__" in line or re.search(r"\w\(['\"]", line):
            return Extracted(None, "a line of code")
        formulas = [m for m in _MATHS.finditer(line) if _is_formula(m)]
        numbers = [m for m in _FLEXIBLE_NUMBER.finditer(line) if re.search(r"\d", m.group())]
        if formulas and (not numbers or formulas[-1].end() >= numbers[-1].end()):
            return Extracted(
                next(g for g in formulas[-1].groups() if g is not None).strip(), "last formula"
            )
        if numbers:
            before = line[: numbers[-1].start()]
            number = numbers[-1].group().strip()
            if _OPEN_NUMBER.search(before):
                return Extracted(None, "the last number is denied, bounded, or one of several")
            if _MINUS.search(before):
                number = f"-{number}"
            return Extracted(number, "last number")
    return Extracted(None, "no number or formula")


def _is_formula(found: re.Match[str]) -> bool:
    """`$29 and $` between two prices is no formula."""
    inner = next(g for g in found.groups() if g is not None)
    return re.search(r"[A-Za-z]{3,} ", re.sub(r"\\[A-Za-z]+", "", inner)) is None
