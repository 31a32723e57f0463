"""What a lesson's Markdown holds for a reader: headings, links, images, symbols, reading ease.

Reading ease is Flesch's (R. Flesch, *A new readability yardstick*, 1948), computed here:

    206.835 - 1.015 * words / sentences - 84.6 * syllables / words

About 60 to 70 is plain English, below 30 is an academic paper. A word's syllables are its groups
of vowels, without a silent `e` or `ed` at the end; that is off by one for some words, which the
mean over a lesson hides. Counted are paragraphs and list items; code, formulas, tables and
headings are not.

Left out on purpose: a full Markdown parser. Lessons use the part of it that these rules know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: LaTeX that arranges or joins, and so names nothing that a glossary could explain.
_LAYOUT = frozenset(
    re.findall(
        r"\w+",
        """
    frac dfrac tfrac sqrt sum prod int left right big Big bigl bigr dots cdots ldots cdot times
    div pm le leq ge geq ne neq approx equiv sim propto in notin to mapsto gets infty mid vert
    Vert quad qquad begin end cases aligned lvert rvert lVert rVert underbrace overbrace text
    operatorname mathrm mathbf mathbb mathcal hat bar tilde
    """,
    )
)
#: Commands whose argument is a name of its own, as in `\text{loss}`.
_NAMING = ("text", "operatorname", "mathrm")
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]|[_^{}]|\S")


@dataclass(frozen=True)
class Heading:
    cell: int
    level: int
    text: str


@dataclass(frozen=True)
class Symbol:
    """A name in a formula with its subscripts: `A_i` is base `A` with the subscript `i`."""

    base: str
    subscripts: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.subscripts:
            return self.base
        inner = ",".join(self.subscripts)
        return f"{self.base}_{inner}" if len(inner) == 1 else f"{self.base}_{{{inner}}}"


def outside_code(text: str) -> Iterator[str]:
    """The lines of a Markdown text that are not in a fenced block."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def headings(cells: Iterable[tuple[int, str]]) -> list[Heading]:
    """The headings of (number, Markdown text) cells, in order."""
    return [
        Heading(number, len(match[1]), match[2].strip())
        for number, text in cells
        for line in outside_code(text)
        if (match := re.match(r"(#{1,6}) +(.+)", line))
    ]


def links(text: str) -> list[str]:
    """Targets of the Markdown links and images of a text, and of `href` and `src`.

    >>> links("[a](b.md#c) and ![d](e.png)")
    ['b.md#c', 'e.png']
    """
    prose = _without_inline_code("\n".join(outside_code(text)))
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", prose)
    return found + re.findall(r"\b(?:href|src)=[\"']([^\"']+)[\"']", prose)


def images_without_words(text: str) -> list[str]:
    """The images of a text that say nothing to somebody who cannot see them.

    >>> images_without_words("![](a.png) ![a curve](b.png)")
    ['![](a.png)']
    """
    prose = "\n".join(outside_code(text))
    silent = re.findall(r"!\[\s*\]\([^)]*\)", prose)
    for tag in re.findall(r"<img\b[^>]*>", text):
        if not re.search(r"\balt=([\"'])\s*\S.*?\1", tag):
            silent.append(tag)
    return silent


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a Markdown text have, GitHub's and JupyterLab's.

    >>> sorted(anchors("## 2. The idea"))
    ['2-the-idea', '2.-The-idea']
    """
    found: set[str] = set()
    for heading in headings([(1, text)]):
        plain = re.sub(r"[*`]|\]\([^)]*\)|\[", "", heading.text)
        found.add(plain.replace(" ", "-"))
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    found.update(re.findall(r"<a (?:id|name)=[\"']([^\"']+)", text))
    return found


# -- symbols -------------------------------------------------------------------------------


def formulas(text: str) -> list[str]:
    """The inside of every `$...$` and `$$...$$` of a Markdown text."""
    prose = _without_inline_code("\n".join(outside_code(text)))
    pattern = r"(?<!\\)\$\$(.+?)(?<!\\)\$\$|(?<!\\)\$(?=\S)(.+?)(?<=\S)(?<!\\)\$(?!\d)"
    return [a or b for a, b in re.findall(pattern, prose, flags=re.DOTALL)]


def symbols(formula: str) -> list[Symbol]:
    r"""The names in a formula, each with its subscripts; numbers and layout are none.

    >>> [str(s) for s in symbols(r"A_i = \frac{r_i}{\operatorname{std}(r)}")]
    ['A_i', 'r_i', 'std', 'r']
    """
    tokens = _tokens(formula)
    found, position = [], 0
    while position < len(tokens):
        base = _name(tokens[position])
        position += 1
        if base is None:
            continue
        inner: list[str] = []
        if position + 1 < len(tokens) and tokens[position] == "_":
            group, position = _group(tokens, position + 1)
            inner = [name for token in group if (name := _name(token)) is not None]
        found.append(Symbol(base, tuple(inner)))
    return found


def unexplained(formula: str, glossary: Iterable[Symbol]) -> list[Symbol]:
    """The symbols of a formula that the glossary has neither whole nor in parts.

    `A_i` is explained by an entry `A_i`, or by the two entries `A` and `i`.
    """
    known = set(glossary)
    missing = []
    for symbol in symbols(formula):
        parts = [Symbol(symbol.base), *(Symbol(name) for name in symbol.subscripts)]
        if symbol not in known and not all(part in known for part in parts):
            missing.append(symbol)
    return missing


def glossary_symbols(text: str) -> set[Symbol]:
    """The symbols in the first column of a glossary's table."""
    found: set[Symbol] = set()
    for line in text.splitlines():
        if line.startswith("|"):
            first = re.split(r"(?<!\\)\|", line)[1]
            for formula in formulas(first):
                entry = symbols(formula)
                # An entry such as `p(x)` explains p; `A_i` explains itself.
                found.update(entry[:1])
    return found


def _tokens(formula: str) -> list[str]:
    # `\text{loss}` becomes one token, its words kept together.
    naming = "|".join(_NAMING)
    formula = re.sub(
        rf"\\(?:{naming})\{{([^{{}}]*)\}}", lambda m: f" \x00{m[1].strip()}\x01 ", formula
    )
    return re.findall(r"\x00[^\x01]*\x01|" + _TOKEN.pattern, formula)


def _name(token: str) -> str | None:
    if token.startswith("\x00"):
        return token[1:-1] or None
    if token.startswith("\\"):
        return None if token[1:] in _LAYOUT or not token[1:].isalpha() else token
    return token if token.isalpha() else None


def _group(tokens: list[str], position: int) -> tuple[list[str], int]:
    if tokens[position] != "{":
        return [tokens[position]], position + 1
    depth, start = 0, position
    while position < len(tokens):
        depth += {"{": 1, "}": -1}.get(tokens[position], 0)
        position += 1
        if depth == 0:
            break
    return tokens[start + 1 : position - 1], position


# -- reading ease --------------------------------------------------------------------------


def prose(text: str) -> list[str]:
    """The paragraphs and list items of a Markdown text, as plain words.

    >>> prose("# Title\\n\\nRead **this** `code`.\\n\\n* One.\\n* Two.")
    ['Read this code.', 'One.', 'Two.']
    """
    text = re.sub(r"\$\$.+?\$\$|(?<!\\)\$[^$\n]+\$", " ", "\n".join(outside_code(text)), flags=re.S)
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or re.match(r"#|\||>|-{3,}$", stripped):
            blocks.append([])
            continue
        if item := re.match(r"(?:[*+-]|\d+\.) +(.*)", stripped):
            blocks.append([])
            stripped = item[1]
        blocks[-1].append(stripped)
    plain = (_plain(" ".join(block)) for block in blocks)
    return [block for block in plain if re.search(r"[A-Za-z]{2}", block)]


def reading_ease(texts: Iterable[str]) -> float | None:
    """Flesch's reading ease of Markdown texts; `None` where there is no prose.

    >>> round(reading_ease(["The cat sat on the mat."]), 3)  # 6 words, 6 syllables, 1 sentence
    116.145
    """
    sentences = words = counted = 0
    for text in texts:
        for block in prose(text):
            for sentence in re.split(r"[.!?]+(?=\s|$)", block):
                found = re.findall(r"[A-Za-z]+(?:['’][a-z]+)?", sentence)
                if found:
                    sentences += 1
                    words += len(found)
                    counted += sum(syllables(word) for word in found)
    if words == 0:
        return None
    return 206.835 - 1.015 * words / sentences - 84.6 * counted / words


def syllables(word: str) -> int:
    """Syllables of an English word, by its groups of vowels.

    >>> [syllables(w) for w in ("the", "reward", "scored", "policy", "table")]
    [1, 2, 1, 3, 2]
    """
    word = re.sub(r"[^a-z]", "", word.lower())
    if re.search(r"[^aeiouytd]ed$", word) or (
        word.endswith("e") and not re.search(r"[^aeiouy]le$", word)
    ):
        word = word[:-2] if word.endswith("ed") else word[:-1]
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def _plain(text: str) -> str:
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*`]|(?<!\w)_|_(?!\w)", "", text).strip()


def _without_inline_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", text)
