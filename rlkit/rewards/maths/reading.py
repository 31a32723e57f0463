"""Reading: what kind of answer a text is.

A number with its unit, a list, set or tuple, an interval or a union of them, a
matrix, an equation or inequality, an option of a multiple choice, or words. Each
kind is a frozen dataclass of `answers`; `comparison` says when two of them agree.

A bare list (`3, 5` or `3 and 5`) has no order; brackets give one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rlkit.rewards.maths.answers import (
    EMPTY,
    REALS,
    Answer,
    Beyond,
    Interval,
    Items,
    Matrix,
    Nonsense,
    Option,
    Ratio,
    Region,
    Relation,
    Scalar,
    Words,
)
from rlkit.rewards.maths.cleaning import clean, strip_wrappers
from rlkit.rewards.maths.expression import Node, parse_expression
from rlkit.rewards.maths.regions import as_region, intersect, unite, without_points
from rlkit.rewards.maths.scalars import read_scalar, split_modulus
from rlkit.rewards.maths.tokens import MAX_CHARS, Malformed, Token, Unsupported, all_known, tokenise
from rlkit.rewards.maths.wording import (
    PURE_WORDS,
    as_words,
    names_value,
    special_words,
    unwrap_text,
)

MAX_ITEMS = 64


#: Deepest nesting of brackets of all kinds.
MAX_NESTING = 40


_OPTION = re.compile(r"^(?:\(\s*([A-Ja-j])\s*\)|([A-J])\s*[).:]|([A-J])\s*\.)(?:\s+(.*))?$", re.S)


_OPTION_INSIDE = re.compile(r"\(\s*[A-J]\s*\)")


def read(text: str) -> Answer:
    """The answer that a text writes.

    >>> read("3, 5").kind, len(read("3, 5").items)
    ('list', 2)
    >>> read(r"35\\text{ cm}").node
    ('num', Fraction(35, 1), None)
    >>> read(r"\\frac{1}{")
    Nonsense(reason='braces that do not balance')
    """
    return _cached(text) if len(text) <= 500 else _read(text)


def _read(text: str) -> Answer:
    text = strip_wrappers(text)
    if not text:
        return Nonsense("nothing")
    if len(text) > MAX_CHARS and not (text.isascii() and text.isdigit()):
        return Nonsense("too long")
    if not _balanced(text):
        return Nonsense("braces that do not balance")
    cleaned = strip_wrappers(clean(text))
    plain = unwrap_text(cleaned)
    words = special_words(plain)
    if words is not None:
        return words
    plain = re.sub(r"^(?:option|choice) (?=\(?[A-J]\)?$)", "", plain, flags=re.IGNORECASE)
    if re.fullmatch(r"[A-J]", plain) and plain != cleaned:
        return Option(plain)
    if PURE_WORDS.match(plain) and not names_value(plain):
        return as_words(plain, "no words")
    option = _OPTION.match(plain)
    if option is not None:
        return _option(option)
    try:
        tokens = tokenise(cleaned)
        if _deepest(tokens) > MAX_NESTING:
            return Nonsense("nested too deeply")
        return read_tokens(tokens)
    except Unsupported:
        return Beyond(cleaned) if all_known(cleaned) else Nonsense("an unknown command")
    except Malformed as error:
        return as_words(plain, str(error))
    except (RecursionError, ZeroDivisionError):
        return Nonsense("nested too deeply")


_cached = lru_cache(maxsize=8192)(_read)


def _deepest(tokens: list[Token]) -> int:
    depth = deepest = 0
    for token in tokens:
        if token.kind == "op":
            depth += (token.value in _CLOSING) - (token.value in (")", "]", "}", "\\}", ")>"))
            deepest = max(deepest, depth)
    return deepest


def _balanced(text: str) -> bool:
    depth, i = 0, 0
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth < 0:
            return False
        i += 1
    return depth == 0


def _option(found: re.Match[str]) -> Answer:
    letter = next(g for g in found.groups()[:3] if g).upper()
    rest = (found.group(4) or "").strip()
    if not rest:
        return Option(letter)
    if _OPTION_INSIDE.search(rest) or re.search(r"(?:^|\s)[A-J][).:](?=\s)", rest):
        return Nonsense("a list of options")
    return Option(letter, read(rest))


def read_tokens(tokens: list[Token]) -> Answer:
    """The answer of a token list: first separators, then unions, relations, brackets."""
    tokens = _without_lead(tokens)
    if not tokens:
        raise Malformed("nothing")
    parts, separators = split(tokens, lambda t: t.kind == "sep")
    if len(parts) > 1:
        return _several(parts, separators)
    return read_item(tokens)


def split(tokens: list[Token], wanted) -> tuple[list[list[Token]], list[Token]]:
    """The pieces between the separators at the outermost level, and the separators."""
    parts: list[list[Token]] = [[]]
    found, depth = [], 0
    for token in tokens:
        if token.kind == "op":
            if token.value in ("(", "[", "{", "\\{", "<("):
                depth += 1
            elif token.value in (")", "]", "}", "\\}", ")>"):
                depth -= 1
        if depth == 0 and wanted(token):
            found.append(token)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, found


def _without_lead(tokens: list[Token]) -> list[Token]:
    """Without words that only introduce: "either 3 or 5"."""
    while (
        tokens and tokens[0].kind == "word" and str(tokens[0].value).lower() in ("either", "both")
    ):
        tokens = tokens[1:]
    return tokens


def _several(parts: list[list[Token]], separators: list[Token]) -> Answer:
    words = {str(s.value) for s in separators}
    # "3, 5, and 7" has an empty piece between comma and "and".
    filled = [p for p in parts if p]
    if len(filled) + (len(parts) - len(filled)) > MAX_ITEMS:
        raise Malformed("too many items")
    for n, part in enumerate(parts):
        if not part and not (n > 0 and str(separators[n - 1].value) in ",;" and n < len(separators)
                             and separators[n].value in ("and", "or")):  # fmt: skip
            raise Malformed("a separator with nothing beside it")
    items = tuple(read_item(p) for p in filled)
    regions = [as_region(item) for item in items]
    if all(r is not None for r in regions) and any(isinstance(i, Relation) for i in items):
        if "and" in words and "or" not in words:
            met = intersect(regions)
            if met is not None:
                return met
        elif "or" in words and any(r.intervals for r in regions):
            return unite(regions)
    return Items("list", items)


def read_item(tokens: list[Token]) -> Answer:
    """One answer without separators around it."""
    parts, relations = split(tokens, lambda t: t.kind == "rel")
    if relations:
        return _relation(parts, [str(r.value) for r in relations])
    parts, unions = split(tokens, lambda t: t.kind == "op" and t.value == "cup")
    if unions:
        return _union(parts)
    parts, minus = split(tokens, lambda t: t.kind == "op" and t.value == "setminus")
    if minus:
        return _without(parts)
    parts, colons = split(tokens, lambda t: t.kind == "op" and t.value == ":")
    if colons and any(t.text for t in tokens):
        raise Malformed("a word in a ratio")  # 7:30 p.m.
    if colons and len(parts) <= 4:
        spelled = ":".join("".join(str(t.value[0]) if t.kind == "num" else str(t.value) for t in p)
                           for p in parts)  # fmt: skip
        return Ratio(tuple(parse_expression(p) for p in parts), spelled)
    if len(tokens) == 1 and tokens[0].kind == "matrix":
        return Matrix(tuple(tuple(_cell(c) for c in row) for row in tokens[0].value))
    if tokens and tokens[0].kind == "cmd" and tokens[0].value == "mathbb":
        if [str(t.value) for t in tokens] in (["mathbb", "{", "R", "}"], ["mathbb", "R"]):
            return REALS
        raise Malformed("a set of numbers")
    if len(tokens) == 1 and tokens[0].value == "empty":
        return EMPTY
    bracketed = _bracketed(tokens)
    return bracketed if bracketed is not None else read_scalar(tokens)


def _cell(text: str) -> Node:
    answer = read_scalar(tokenise(strip_wrappers(clean(text))))
    if answer.unit is not None or answer.mark:
        raise Malformed("a unit in a matrix")
    return answer.node


_CLOSING = {"(": (")", "]"), "[": ("]", ")"), "\\{": ("\\}",), "{": ("}",), "<(": (")>",)}


def _bracketed(tokens: list[Token]) -> Answer | None:
    """A tuple, set, interval or nested list, when one pair of brackets holds all."""
    if len(tokens) < 2 or tokens[0].kind != "op" or tokens[0].value not in _CLOSING:
        return None
    opening, closing = tokens[0].value, tokens[-1].value
    if tokens[-1].kind != "op" or closing not in _CLOSING[opening] or not _one_pair(tokens):
        return None
    inside = tokens[1:-1]
    parts, separators = split(inside, lambda t: t.kind == "sep")
    if opening in ("\\{", "{"):
        if not inside:
            return EMPTY
        if len(parts) == 1 and (opening == "{" or _has_bar(inside)):
            return _set_builder(inside) if opening == "\\{" else read_item(inside)
        return _items_of("set", parts)
    if len(parts) == 1:
        if opening == "(" and closing == ")" and inside:
            return None if _is_plain_group(inside) else read_item(inside)
        if len(inside) == 1 and inside[0].kind == "matrix":
            return read_item(inside)
        if opening == "[" and closing == "]" and inside:
            return _items_of("bracket", parts)
        return None
    if any(s.value in ("and", "or") for s in separators):
        raise Malformed("a word between coordinates")
    if len(parts) == 2 and opening + closing in ("(]", "[)"):
        return Interval(*_ends(parts), opening == "[", closing == "]")
    if opening + closing in ("(]", "[)"):
        raise Malformed("brackets that do not match")
    kind = "bracket" if opening == "[" else "tuple"
    items = _items_of(kind, parts)
    if kind == "bracket" and all(isinstance(i, Items) and i.kind == "bracket" for i in items.items):
        return _nested_matrix(items)
    return items


def _is_plain_group(inside: list[Token]) -> bool:
    return not any(t.kind == "rel" or t.value in ("cup", "setminus") for t in inside)


def _has_bar(tokens: list[Token]) -> bool:
    return any(t.kind == "op" and t.value in ("|", ":") for t in tokens) and any(
        t.kind == "rel" for t in tokens
    )


def _set_builder(inside: list[Token]) -> Answer:
    """{x : x > 3} is its condition."""
    parts, bars = split(inside, lambda t: t.kind == "op" and t.value in ("|", ":"))
    if len(bars) != 1:
        raise Unsupported("a set by a condition")
    return read_tokens(parts[1])


def _items_of(kind: str, parts: list[list[Token]]) -> Items:
    if len(parts) > MAX_ITEMS:
        raise Malformed("too many items")
    return Items(kind, tuple(read_item(p) for p in parts))


def _nested_matrix(items: Items) -> Answer:
    rows = tuple(
        tuple(i.node for i in row.items if isinstance(i, Scalar))
        for row in items.items
        if isinstance(row, Items)
    )
    return Matrix(rows) if all(len(r) == len(rows[0]) and r for r in rows) else items


def _one_pair(tokens: list[Token]) -> bool:
    """Whether the first bracket is closed by the last token and not before."""
    depth = 0
    for n, token in enumerate(tokens):
        if token.kind != "op":
            continue
        if token.value in _CLOSING:
            depth += 1
        elif token.value in (")", "]", "}", "\\}", ")>"):
            depth -= 1
            if depth == 0:
                return n == len(tokens) - 1
    return False


def _ends(parts: list[list[Token]]) -> tuple[Node, Node]:
    low, high = (parse_expression(p) for p in parts)
    return low, high


def _union(parts: list[list[Token]]) -> Answer:
    regions = [as_region(read_item(p), pairs=True) for p in parts]
    if any(r is None for r in regions):
        raise Malformed("a union of something that is no set")
    return unite(regions)


def _without(parts: list[list[Token]]) -> Answer:
    """All reals without some points."""
    if len(parts) != 2 or read_item(parts[0]) != REALS:
        raise Unsupported("a difference of sets")
    missing = read_item(parts[1])
    if not isinstance(missing, Items) or missing.kind != "set":
        raise Unsupported("a difference of sets")
    return without_points([i.node for i in missing.items if isinstance(i, Scalar)])


def _relation(parts: list[list[Token]], operators: list[str]) -> Answer:
    if len(parts) > 8 or not parts[-1]:
        raise Malformed("a relation with nothing beside it")
    if operators == ["in"]:
        region = as_region(read_item(parts[1]), pairs=True)
        if region is None:
            raise Malformed("membership of something that is no set")
        name = _label(parts[0])
        return Region(region.intervals, region.points, name)
    if "in" in operators:
        raise Malformed("membership in a chain")
    if operators == ["=="]:
        right, modulus = split_modulus(parts[1])
        if modulus is None:
            operators = ["="]
        else:
            return Scalar(parse_expression(right), None, "", modulus)
    if operators[0] in ("=", "~") and not parts[0]:
        parts, operators = parts[1:], operators[1:]  # "= 5"
        if not operators:
            return read_item(parts[0])
    read_parts: list[Answer] = []
    for n, part in enumerate(parts):
        try:
            read_parts.append(read_item(part))
        except Unsupported:
            raise
        except Malformed:
            # The name of a quantity: Area = 5, \angle ABC = 30.
            if n == 0 and operators[0] in ("=", "~") and _is_label(part):
                read_parts.append(Words(_label(part)))
            else:
                raise
    return Relation(tuple(read_parts), tuple(operators))


def _is_label(part: list[Token]) -> bool:
    return 0 < len(part) <= 12 and all(
        t.kind in ("word", "sym", "const", "cmd", "num")
        or str(t.value) in ("(", ")", "|", "_", "{", "}", "'", "*")
        for t in part
    )


def _label(part: list[Token]) -> str:
    return "".join(str(t.value[0]) if t.kind == "num" else str(t.value) for t in part)
