"""Cleaning: one spelling for what people and models write in many.

Unicode signs become LaTeX or ASCII, thousands separators go, a decimal comma in
braces becomes a point, and LaTeX that only moves ink (`\\left`, `\\,`,
`\\displaystyle`) is taken out. Nothing is calculated and no meaning is changed:
`1,2` keeps its comma, because a thousands separator needs three digits after it.

Left out: commas as decimal points without braces (`3,14` is a list of two).
"""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SIGNS = {
    "−": "-",
    "–": "-",
    "—": "-",
    "‐": "-",
    "‑": "-",
    "×": r"\times ",
    "·": r"\cdot ",
    "⋅": r"\cdot ",
    "∙": r"\cdot ",
    "÷": "/",
    "∕": "/",
    "⁄": "/",
    "≤": r"\le ",
    "⩽": r"\le ",
    "≥": r"\ge ",
    "⩾": r"\ge ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "≡": r"\equiv ",
    "∞": r"\infty ",
    "√": r"\sqrt ",
    "∛": r"\sqrt[3] ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}",
    "±": r"\pm ",
    "∓": r"\mp ",
    "°": r"^\circ ",
    "º": r"^\circ ",
    "∠": r"\angle ",
    "′": "'",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "…": r"\ldots ",
    "\u2061": "",
    "\u200b": "",
    "\u2062": "",
    "\ufeff": "",
}
_VULGAR = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅖": "2/5",
    "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6",
    "⅚": "5/6",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
}
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_GREEK = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", _GREEK_NAMES.split(), strict=True))
_INK = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|"
    r"mathopen|mathclose|mathstrut|strut|hfill|allowbreak|noindent|phantom\{\})(?![A-Za-z])"
)
# A thin space between operator and operand, or any other space of LaTeX.
_SPACES = re.compile(
    r"(?<!\\)\\(?:[,;:!>\s]|quad(?![a-zA-Z])|qquad(?![a-zA-Z])|thinspace(?![a-zA-Z]))|~"
)
_SEPARATORS = (
    r"\{,\}",
    r",\\!",
    r"\\!,",
    r"\\[,;:!]",
    r"\\ ",
    r"~",
    r"[\u00a0\u2009\u202f ]",
    r",",
)
_FIRST = r"(?<![\d.,^_{])(?<!\{,\})([1-9]\d{0,2})"
_THOUSANDS = [
    re.compile(_FIRST + rf"((?:(?:{sep})\d{{3}})+)(?![\d/]|\s*/|(?:,|\{{,\}})\d)")
    for sep in _SEPARATORS
]
_IN_BRACES = re.compile(
    r"(?<=\{)([1-9]\d{0,2})((?:(?:\{,\}|,\\!|,)\d{3})+)(?=\})"
)  # \frac{1,000}{3}


def clean(text: str) -> str:
    """The text with one spelling for each sign, separator and space.

    >>> clean("10{,}000"), clean("1,234,567"), clean("1,2")
    ('10000', '1234567', '1,2')
    >>> clean("−½"), clean("x²≤3")
    ('- 1/2', 'x^{2}\\\\le 3')
    """
    text = without_dollars(plain_signs(text))
    if "\\begin" not in text:
        text = re.sub(r"\\\\(?=[A-Za-z{])", r"\\", text)  # escaped twice
    text = re.sub(r"\bUSD?\s*\\?\$", r"\\$", text)
    text = _join_thousands(text)
    text = re.sub(r"(?<=\d)\{,\}(?=\d)", ".", text)  # a decimal comma
    text = _INK.sub("", text)
    text = _SPACES.sub(" ", text)
    text = text.replace("{}", " ")
    return re.sub(r"\s+", " ", text).strip()


def plain_signs(text: str) -> str:
    """The text with Unicode's mathematical signs as LaTeX or ASCII.

    >>> plain_signs("−12"), plain_signs("2 ≤ x")
    ('-12', '2 \\\\le  x')
    """
    if text.isascii():
        return text
    text = re.sub(
        "[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: "^{" + m.group().translate(_SUPERSCRIPTS) + "}", text
    )
    text = re.sub("[₀₁₂₃₄₅₆₇₈₉]+", lambda m: "_{" + m.group().translate(_SUBSCRIPTS) + "}", text)
    out = []
    for char in text:
        if char in _SIGNS:
            out.append(_SIGNS[char])
        elif char in _VULGAR:
            out.append(f" {_VULGAR[char]}")
        elif char in _GREEK:
            out.append(f"\\{_GREEK[char]} ")
        elif char in "\u00a0\u2009\u202f\u2002\u2003\u3000":
            out.append(char)
        else:
            # Full-width digits and letters; anything else that would change is left alone.
            folded = unicodedata.normalize("NFKC", char)
            out.append(folded if len(folded) == 1 and folded.isascii() else char)
    return "".join(out)


def _join_thousands(text: str) -> str:
    for pattern in _THOUSANDS:
        plain_comma = pattern is _THOUSANDS[-1]
        pieces, last = [], 0
        for match in pattern.finditer(text):
            # Inside brackets a comma separates coordinates: (1,234) is a point.
            if plain_comma and _bracket_depth(text, match.start()) > 0:
                continue
            pieces += [text[last : match.start()], _digits(match)]
            last = match.end()
        text = "".join([*pieces, text[last:]])
    if not text.lstrip().startswith("{"):  # {1,234} alone is a set of two
        whole = text
        text = _IN_BRACES.sub(
            lambda m: m.group() if whole.endswith("\\{", 0, m.start()) else _digits(m), text
        )
    return text


def _digits(match: re.Match[str]) -> str:
    return match.group(1) + re.sub(r"\D", "", match.group(2))


def _bracket_depth(text: str, end: int) -> int:
    depth = 0
    for char in text[:end].replace("\\{", "(").replace("\\}", ")"):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
    return depth + (text.lstrip()[:1] == "{")


def without_dollars(text: str) -> str:
    """Without the dollar signs that pair up around mathematics; a price keeps its own.

    >>> without_dollars("$5$ and $6$"), without_dollars("$5 and $6")
    ('5 and 6', '$5 and $6')
    """
    return re.sub(r"(?<!\\)\$(?!\s)([^$]+?)(?<![\s\\])\$", r" \1 ", text).strip()


def strip_wrappers(text: str) -> str:
    """The text without what only marks it as mathematics or as bold, and without a full stop.

    >>> strip_wrappers("**$5$**."), strip_wrappers("$29.00."), strip_wrappers(r"\\(x\\)")
    ('5', '$29.00', 'x')
    """
    before = None
    while before != text:
        before = text
        text = text.strip()
        text = re.sub(r"(?<![.,;:\\])[.,;:]$", "", text).rstrip()  # "0.333..." keeps its dots
        for opening, closing in (
            ("$$", "$$"),
            ("$", "$"),
            (r"\(", r"\)"),
            (r"\[", r"\]"),
            ("**", "**"),
            ("__", "__"),
            ("`", "`"),
            ('"', '"'),
            ("'", "'"),
        ):
            inner = text[len(opening) : len(text) - len(closing)]
            if (
                len(text) >= len(opening) + len(closing)
                and text.startswith(opening)
                and text.endswith(closing)
                and opening not in inner
                and not text.endswith("\\" + closing)
            ):
                text = inner
                break
    return text
