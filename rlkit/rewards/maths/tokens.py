"""Tokens: a cleaned answer as a flat list of numbers, names and signs.

The reader behind this looks at brackets and separators, the expression parser at
operators; both work on this list. A token remembers whether a space stood before
it (`1 1/2` is not `11/2`) and whether it stood in `\\text{...}` (a word there is a
word, never a product of letters).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

#: Longest answer that is looked at, in characters; a longer one may only be digits.
MAX_CHARS = 2_000
MAX_TOKENS = 1_500
MAX_DIGITS = 10_000


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = words_of(
    "sin cos tan sec csc cot arcsin arccos arctan arccot asin acos atan sinh cosh tanh "
    "log ln lg exp sqrt cbrt abs floor ceil"
)
GREEK = words_of(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon "
    "Phi Psi Omega ell hbar"
)
_RELATIONS = {
    "le": "<=",
    "leq": "<=",
    "leqslant": "<=",
    "ge": ">=",
    "geq": ">=",
    "geqslant": ">=",
    "lt": "<",
    "gt": ">",
    "ne": "!=",
    "neq": "!=",
    "approx": "~",
    "simeq": "~",
    "equiv": "==",
    "in": "in",
}
_OPERATORS = {
    "times": "*",
    "cdot": "*",
    "ast": "*",
    "div": "/",
    "pm": "pm",
    "mp": "mp",
    "cup": "cup",
    "cap": "cap",
    "setminus": "setminus",
    "backslash": "setminus",
    "colon": ":",
    "lvert": "|",
    "rvert": "|",
    "vert": "|",
    "mid": "|",
    "langle": "<(",
    "rangle": ")>",
    "lbrace": "\\{",
    "rbrace": "\\}",
    "lbrack": "[",
    "rbrack": "]",
    "lfloor": "lfloor",
    "rfloor": "rfloor",
    "lceil": "lceil",
    "rceil": "rceil",
    "ldots": "...",
    "dots": "...",
    "cdots": "...",
    "dotsc": "...",
}
_TEXT = words_of("text mbox textbf textit textrm textsf textnormal texttt mathrm rm hbox")
_FONT = words_of(
    "mathbf mathit boldsymbol mathsf bm mathnormal mathcal mathfrak vec hat bar operatorname "
    "emph underline bf it boxed fbox"
)
#: LaTeX of the higher kind, for which math-verify is asked.
_HIGHER = words_of(
    "int iint oint sum prod lim partial nabla max min gcd det det Re Im arg cases "
    "limsup liminf sup inf lcm iiint"
)
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?|\.(\d+)")
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d{1,9})(?![\w.])")
_LETTERS = re.compile(r"[A-Za-z]+")
_BEGIN = re.compile(r"\\begin\{([a-zA-Z]*\*?)\}")


#: Commands that may stand in LaTeX of the higher kind beside those of the tables above.
_PLAIN = words_of(
    "to rightarrow mapsto begin end frac dfrac tfrac sqrt binom infty pi quad qquad text left "
    "right mathbb emptyset circ overline angle prime mod pmod d forall exists iff implies"
)


def all_known(text: str) -> bool:
    """Whether every command of a text is one that LaTeX for answers has.

    >>> all_known(r"\\int_0^1 x"), all_known(r"\\int \\foo")
    (True, False)
    """
    known = _PLAIN | FUNCTIONS | GREEK | _HIGHER | _TEXT | _FONT | set(_RELATIONS) | set(_OPERATORS)
    return all(name in known for name in re.findall(r"\\([A-Za-z]+)", text))


class Malformed(ValueError):
    """The text is no answer in any notation known here; the message says what is odd."""


class Unsupported(Malformed):
    """Sound LaTeX beyond this parser: an integral, a sum, a limit."""


@dataclass(frozen=True)
class Token:
    """One piece of an answer.

    Attributes:
        kind: `num`, `sym` (one letter or a Greek name), `word`, `fn`, `const`, `cmd`, `op`,
            `rel`, `sep`, `matrix`.
        value: a name or sign; for `num` the pair (Fraction, digits after the point or `None`);
            for `matrix` the cells' texts by row.
        space: a space stood before it.
        text: it stood in `\\text{...}`.
    """

    kind: str
    value: Any
    space: bool = False
    text: bool = False


def integer(digits: str) -> int:
    """The integer these digits write, past the limit that Python puts on `int(text)`."""
    if len(digits) > MAX_DIGITS:
        raise Malformed(f"a number of {len(digits)} digits")
    value = 0
    for start in range(0, len(digits), 4000):
        chunk = digits[start : start + 4000]
        value = value * 10 ** len(chunk) + int(chunk)
    return value


def closing_brace(text: str, opening: int) -> int | None:
    """Where the brace that opens at `opening` closes, or `None`. `\\{` does not count.

    >>> closing_brace("{a{b}}c", 0), closing_brace("{a", 0)
    (5, None)
    """
    depth, i = 0, opening
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return None


def tokenise(text: str, in_text: bool = False, depth: int = 0) -> list[Token]:
    """The tokens of a cleaned text.

    Raises:
        Unsupported: LaTeX that this parser does not know.
        Malformed: braces that do not balance, too long, or a sign that is none.
    """
    if depth > 12:
        raise Malformed("nested too deeply")
    tokens: list[Token] = []
    i, space = 0, False

    def add(kind: str, value: Any) -> None:
        tokens.append(Token(kind, value, space, in_text))

    while i < len(text):
        char = text[i]
        if char.isspace():
            i, space = i + 1, True
            continue
        if len(tokens) > MAX_TOKENS:
            raise Malformed("too long for an answer")
        if (found := _NUMBER.match(text, i)) is not None:
            number, i = _number(text, found)
            tokens += [replace(t, space=space and n == 0, text=in_text)
                       for n, t in enumerate(number)]  # fmt: skip
        elif char == "\\":
            i = _command(text, i, space, in_text, depth, tokens)
        elif (letters := _LETTERS.match(text, i)) is not None:
            i = letters.end()
            add(*_name(letters.group(), in_text))
        elif text.startswith(("<=", ">=", "!=", "=="), i):
            add("rel", text[i : i + 2] if text[i : i + 2] != "==" else "=")
            i += 2
        elif text.startswith("**", i):
            add("op", "^")
            i += 2
        elif text.startswith("...", i):
            add("op", "...")
            i += 3
        elif char in "<>=":
            add("rel", char)
            i += 1
        elif char in ",;":
            add("sep", char)
            i += 1
        elif char in "+-*/^_()[]{}|!:%$€£¥&'":
            add("op", char)
            i += 1
        elif char == "." and in_text:
            i += 1  # sq. in.
        else:
            raise Malformed(f"the sign {char!r}")
        space = False
    return tokens


def _number(text: str, found: re.Match[str]) -> tuple[list[Token], int]:
    """One number; a repeating decimal and a power of ten behind it belong to it."""
    whole, decimals, bare = found.groups()
    decimals = decimals if bare is None else bare
    end = found.end()
    digits = (whole or "") + (decimals or "")
    places = None if decimals is None else len(decimals)
    value = Fraction(integer(digits), 10 ** (places or 0))
    repeated = re.match(r"\\(?:overline|bar|dot)\{?(\d+)\}?", text[end:]) if (
        places is not None or text.startswith(".", end)) else None  # fmt: skip
    if text.startswith(".", end) and places is None:
        repeated = re.match(r"\.\\(?:overline|bar|dot)\{?(\d+)\}?", text[end:])
    if repeated is not None:
        block = repeated.group(1)
        value += Fraction(integer(block), (10 ** len(block) - 1) * 10 ** (places or 0))
        return [Token("num", (value, None))], end + repeated.end()
    dots = re.match(r"\s*(?:\\l?dots[a-z]?(?![A-Za-z])|\.\.\.)", text[end:])
    if dots is not None and decimals is not None and len(decimals) >= 2:
        # 0.333... repeats its last digit; anything else with dots is an ordinary decimal.
        end += dots.end()
        last = decimals[-1]
        if decimals.endswith(last * 2) and last != "0":
            value += Fraction(int(last), 9 * 10**places)
            return [Token("num", (value, None))], end
    tokens = [Token("num", (value, places))]
    if (power := _SCIENTIFIC.match(text, end)) is not None:
        exponent = int(power.group(1))
        if abs(exponent) <= 400:
            scaled = value * Fraction(10) ** exponent
            tokens = [Token("num", (scaled, None if places is None else places - exponent))]
        else:  # left as a power, for the evaluation's own guard
            tokens += [Token("op", "*"), Token("num", (Fraction(10), None)), Token("op", "^")]
            tokens += [Token("op", "-")] if exponent < 0 else []
            tokens += [Token("num", (Fraction(abs(exponent)), None))]
        end = power.end()
    return tokens, end


def _name(letters: str, in_text: bool) -> tuple[str, str]:
    lower = letters.lower()
    if lower in ("and", "or"):
        return "sep", lower
    if lower in FUNCTIONS and (not in_text or lower != "sec"):
        return "fn", lower
    if lower in ("inf", "infty", "infinity", "oo"):
        return "const", "inf"
    if lower == "pi":
        return "const", "pi"
    if lower in GREEK and not in_text:
        return "sym", lower if letters.islower() else letters
    if len(letters) == 1:
        if letters in "ei":
            return "const", letters
        return "sym", letters
    return "word", letters


def _command(text: str, i: int, space: bool, in_text: bool, depth: int, tokens: list[Token]) -> int:
    """Adds what the command at `i` stands for; returns where the text goes on."""

    def add(kind: str, value: Any) -> None:
        tokens.append(Token(kind, value, space, in_text))

    letters = _LETTERS.match(text, i + 1)
    if letters is None:
        sign = text[i + 1 : i + 2]
        if sign in ("{", "}"):
            add("op", "\\" + sign)
        elif sign in ("%", "$", "&"):
            add("op", sign)
        elif sign == "|":
            add("op", "|")
        else:
            raise Malformed(f"the sign \\{sign}")
        return i + 2
    name, end = letters.group(), letters.end()
    if name in _TEXT or name in _FONT:
        while end < len(text) and text[end].isspace():
            end += 1
        if not text.startswith("{", end):
            return end  # {\rm cm}
        close = closing_brace(text, end)
        if close is None:
            raise Malformed("a brace that does not close")
        inside = tokenise(text[end + 1 : close], in_text or name in _TEXT, depth + 1)
        for n, token in enumerate(inside):
            tokens.append(replace(token, space=token.space or (n == 0)))
        return close + 1
    if name == "begin":
        return _environment(text, i, space, tokens)
    if name in ("frac", "dfrac", "tfrac", "cfrac", "sfrac", "nicefrac"):
        add("cmd", "frac")
    elif name in ("binom", "dbinom", "tbinom"):
        add("cmd", "binom")
    elif name in _RELATIONS:
        add("rel", _RELATIONS[name])
    elif name in _OPERATORS:
        add("op", _OPERATORS[name])
    elif name in FUNCTIONS:
        add("fn", name)
    elif name == "infty":
        add("const", "inf")
    elif name == "pi":
        add("const", "pi")
    elif name in ("circ", "degree"):
        add("op", "circ")
    elif name in ("emptyset", "varnothing"):
        add("op", "empty")
    elif name in ("pmod", "bmod", "mod", "mathbb", "overline", "angle", "triangle", "prime"):
        add("cmd", name)
    elif name in GREEK:
        add("sym", name)
    elif name in ("land", "wedge"):
        add("sep", "and")
    elif name in ("lor", "vee"):
        add("sep", "or")
    elif name in ("euro", "pounds", "yen"):
        add("op", {"euro": "€", "pounds": "£", "yen": "¥"}[name])
    elif name in _HIGHER:
        raise Unsupported(f"\\{name}")
    else:
        raise Malformed(f"the command \\{name}")
    return end


def _environment(text: str, i: int, space: bool, tokens: list[Token]) -> int:
    begin = _BEGIN.match(text, i)
    if begin is None:
        raise Malformed("\\begin without a name")
    name = begin.group(1)
    end_mark = f"\\end{{{name}}}"
    close = text.find(end_mark, begin.end())
    if close < 0 or "\\begin" in text[begin.end() : close]:
        raise Malformed(f"\\begin{{{name}}} that does not end")
    if name.rstrip("*") not in ("pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "array"):
        raise Unsupported(f"\\begin{{{name}}}")
    body = text[begin.end() : close]
    if name == "array":
        body = re.sub(r"^\s*\{[lcr|\s]*\}", "", body)
    body = re.sub(r"\\hline", "", body).strip()
    rows = [r for r in re.split(r"\\\\(?:\[[^\]]*\])?|\\cr(?![a-z])", body) if r.strip()]
    tokens.append(Token("matrix", tuple(tuple(row.split("&")) for row in rows), space))
    return close + len(end_mark)
