"""Expressions: from tokens to a tree, by a small parser of our own.

A tree is nested tuples, the head first:

    ("num", Fraction, places)   places: digits after the point, None for an exact number
    ("sym", name)  ("const", "pi" | "e" | "i" | "inf")
    ("+", a, b)  ("*", a, b)  ("/", a, b)  ("^", a, b)  ("neg", a)
    ("pm", a, b)  ("mp", a, b)  ("!", a)  ("fn", name, argument, ...)
    ("base", digits, base)  ("call", name, argument, ...)

What the notation leaves open is settled here: a whole number before a proper
fraction is a mixed number (`2\\frac12` is 2.5), before an improper one it is
nothing; two numbers side by side are nothing; `-2^2` is -4; `1/2x` is x/2.
The text is never evaluated as Python.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rlkit.rewards.maths.tokens import Malformed, Token, Unsupported, words_of

Node = tuple[Any, ...]
MAX_DEPTH = 40
_SHORT_WORDS = words_of("no is if to do on of at by us me an as be he it my so up we am go")

_BASES = {
    **{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8"},
    **{"nine": "9", "ten": "10", "twelve": "12", "sixteen": "16"},
}


def parse_expression(tokens: list[Token]) -> Node:
    """The tree of a whole token list.

    Raises:
        Malformed: the tokens are no expression, or nested too deeply.
        Unsupported: sound notation beyond this parser.
    """
    parser = _Parser(tokens)
    tree = parser.sum()
    if not parser.at_end():
        raise Malformed(f"{parser.peek().value!r} where nothing was expected")
    return tree


def spelled_out(value: int) -> str:
    """The digits of an integer, past the limit that Python puts on `str(value)`."""
    if value < 10**4000:
        return str(value)
    upper, lower = divmod(value, 10**4000)
    return spelled_out(upper) + str(lower).zfill(4000)


def num(value: int | Fraction, places: int | None = None) -> Node:
    return ("num", Fraction(value), places)


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.i, self.depth, self.bars, self.angles = tokens, 0, 0, 0, 0

    def at_end(self) -> bool:
        return self.i >= len(self.tokens)

    def peek(self, ahead: int = 0) -> Token:
        place = self.i + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("end", None)

    def is_op(self, *signs: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind == "op" and token.value in signs

    def take(self) -> Token:
        token = self.peek()
        if token.kind == "end":
            raise Malformed("it breaks off")
        self.i += 1
        return token

    def expect(self, sign: str) -> None:
        if not self.is_op(sign):
            raise Malformed(f"{sign!r} is missing")
        self.i += 1

    # -- levels, loosest first -----------------------------------------------------

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Malformed("nested too deeply")
        if self.is_op("pm", "mp"):
            sign = self.take().value
            tree: Node = (sign, num(0), self.product())
        else:
            tree = self.product()
        while self.is_op("+", "-", "pm", "mp"):
            sign = self.take().value
            right = self.product()
            tree = ("+", tree, ("neg", right)) if sign == "-" else (sign, tree, right)
        self.depth -= 1
        return tree

    def product(self) -> Node:
        tree = self.signed()
        while True:
            if self.is_op("*"):
                self.take()
                tree = ("*", tree, self.signed())
            elif self.is_op("/"):
                self.take()
                tree = ("/", tree, self.signed())
            elif self.starts_factor():
                tree = ("*", tree, self.juxtaposed(tree))
            else:
                return tree

    def signed(self) -> Node:
        negative = False
        count = 0
        while self.is_op("+", "-"):
            negative ^= self.take().value == "-"
            count += 1
            if count > 3:
                raise Malformed("a row of signs")
        mixed = self.mixed_number()
        tree = mixed if mixed is not None else self.power()
        return ("neg", tree) if negative else tree

    def juxtaposed(self, left: Node) -> Node:
        """A factor without a sign before it. Two numbers side by side are no product."""
        if self.peek().kind == "num":
            raise Malformed("two numbers side by side")
        return self.power()

    def starts_factor(self) -> bool:
        token = self.peek()
        if token.kind in ("num", "sym", "const", "fn", "word"):
            return True
        if token.kind == "cmd":
            return token.value in ("frac", "binom", "overline")
        if token.kind == "op":
            if token.value == "|":
                return self.bars == 0
            return token.value in ("(", "[", "{", "lfloor", "lceil")
        return False

    # -- numbers --------------------------------------------------------------------

    def mixed_number(self) -> Node | None:
        """`2 1/2` or `2\\frac{1}{2}`, when that is what stands here."""
        whole = self.peek()
        if whole.kind != "num" or not _is_integer(whole):
            return None
        upper = lower = None
        if self.peek(1).kind == "num" and self.peek(1).space:
            if self.is_op("/", ahead=2) and self.peek(3).kind == "num":
                upper, lower, length = self.peek(1), self.peek(3), 4
            else:
                raise Malformed("two numbers side by side")
        elif self.peek(1).kind == "cmd" and self.peek(1).value == "frac":
            found = self._plain_fraction(self.i + 1)
            if found is None:
                return None
            upper, lower, length = found
        if upper is None or lower is None:
            return None
        if not (_is_integer(upper) and _is_integer(lower)):
            raise Malformed("a whole number before a fraction of decimals")
        a, b, c = (t.value[0] for t in (whole, upper, lower))
        if not 0 < b < c:
            raise Malformed("a whole number before an improper fraction")
        self.i += length
        if self.is_op("^", "!"):
            raise Malformed("a power of a mixed number without brackets")
        return num(a + b / c)

    def _plain_fraction(self, start: int) -> tuple[Token, Token, int] | None:
        """Numerator and denominator of a \\frac of two bare numbers, and the tokens used."""
        i, parts = start + 1, []
        for _ in range(2):
            tokens = self.tokens[i : i + 3]
            if len(tokens) == 3 and tokens[0].value == "{" and tokens[2].value == "}":
                inner, step = tokens[1], 3
            elif tokens and tokens[0].kind == "num" and _is_integer(tokens[0]):
                digits = spelled_out(tokens[0].value[0].numerator)
                if len(digits) == 2 and not parts:  # \frac34
                    one, other = (Token("num", (Fraction(int(d)), None)) for d in digits)
                    return one, other, 3
                if len(digits) != 1:
                    return None
                inner, step = tokens[0], 1
            else:
                return None
            if inner.kind != "num":
                return None
            parts.append(inner)
            i += step
        return parts[0], parts[1], i - start + 1

    # -- powers and what binds tighter ----------------------------------------------

    def power(self) -> Node:
        base = self.postfix(self.atom())
        if base[0] == "num" and self.is_op("_") and base[2] is None and base[1].denominator == 1:
            return self.number(Token("num", (base[1], None)))  # (101)_2
        if self.is_op("^") and not self.is_circle(1):
            self.take()
            exponent = self.script()
            return self.postfix(("^", base, exponent))
        return base

    def is_circle(self, ahead: int) -> bool:
        return self.is_op("circ", ahead=ahead) or (
            self.is_op("{", ahead=ahead) and self.is_op("circ", ahead=ahead + 1)
        )

    def script(self) -> Node:
        """What stands after ^: a group, a sign and a factor, or one factor."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Malformed("nested too deeply")
        if self.is_op("{"):
            tree = self.group("{", "}")
        elif self.is_op("-", "+"):
            sign = self.take().value
            tree = self.script()
            tree = ("neg", tree) if sign == "-" else tree
            self.depth -= 1
            return tree
        else:
            tree = self.atom()
        if self.is_op("^") and not self.is_circle(1):
            self.take()
            tree = ("^", tree, self.script())
        self.depth -= 1
        return tree

    def postfix(self, tree: Node) -> Node:
        while self.is_op("!"):
            self.take()
            if self.is_op("!"):
                raise Unsupported("a double factorial")
            tree = ("!", tree)
        if self.angles and self.is_op("^") and self.is_circle(1):  # sin 30 degrees
            self.i += 2 if self.is_op("circ", ahead=1) else 4
            tree = ("*", tree, ("/", ("const", "pi"), num(180)))
        if self.is_op("'") or (self.peek().kind == "cmd" and self.peek().value == "prime"):
            raise Unsupported("a derivative")
        return tree

    def group(self, opening: str, closing: str) -> Node:
        self.expect(opening)
        bars, self.bars = self.bars, 0
        tree = self.sum()
        self.bars = bars
        self.expect(closing)
        return tree

    def atom(self) -> Node:
        token = self.take()
        if token.kind == "num":
            return self.number(token)
        if token.kind == "const":
            return ("const", token.value)
        if token.kind == "sym":
            return self.symbol(token.value)
        if token.kind == "word":
            return self.letters(token)
        if token.kind == "fn":
            return self.function(token.value)
        if token.kind == "cmd":
            return self.command(token.value)
        if token.kind == "op":
            self.i -= 1
            if token.value in ("(", "[", "{"):
                return self.group(token.value, {"(": ")", "[": "]", "{": "}"}[token.value])
            if token.value == "|":
                self.take()
                self.bars += 1
                inner = self.sum()
                self.bars -= 1
                self.expect("|")
                return ("fn", "abs", inner)
            if token.value in ("lfloor", "lceil"):
                name = {"lfloor": "floor", "lceil": "ceil"}[token.value]
                return ("fn", name, self.group(token.value, "r" + token.value[1:]))
        raise Malformed(f"{token.value!r} where a value was expected")

    def number(self, token: Token) -> Node:
        value, places = token.value
        if self.is_op("_"):
            digits = value
            if places is not None or not _is_integer(token):
                raise Malformed("a base below a number with a point")
            base = self.subscript().lower()
            if base == "10":
                return num(digits)
            return ("base", spelled_out(digits.numerator), _BASES.get(base, base))
        return ("num", value, places)

    def subscript(self) -> str:
        self.expect("_")
        if self.is_op("{"):
            self.take()
            parts = []
            while not self.is_op("}"):
                token = self.take()
                if token.kind not in ("num", "sym", "word", "const") and token.value not in "+-,":
                    raise Malformed("a subscript that is no name")
                parts.append(_spelled(token))
            self.take()
            return "".join(parts)
        token = self.take()
        if token.kind not in ("num", "sym", "word", "const"):
            raise Malformed("a subscript that is no name")
        return _spelled(token)

    def symbol(self, name: str) -> Node:
        if self.is_op("_"):
            name = f"{name}_{self.subscript()}"
        if self.is_op("'"):
            raise Unsupported("a derivative")
        if name in ("f", "g", "h", "P", "F", "G") and self.is_op("(") and not self.peek().space:
            return ("call", name, self.group("(", ")"))
        return ("sym", name)

    def letters(self, token: Token) -> Node:
        """A few letters without space between them are a product, unless they are a word."""
        word = token.value
        if token.text or len(word) > 4 or word.lower() in _SHORT_WORDS:
            raise Malformed(f"the word {word!r}")
        parts: list[Node] = [("const", c) if c in "ei" else ("sym", c) for c in word]
        if self.is_op("_"):
            parts[-1] = ("sym", f"{word[-1]}_{self.subscript()}")
        if self.is_op("^") and not self.is_circle(1):  # ab^2 is a times b squared
            self.take()
            parts[-1] = ("^", parts[-1], self.script())
        tree = parts[0]
        for part in parts[1:]:
            tree = ("*", tree, part)
        return tree

    def function(self, name: str) -> Node:
        if name == "sqrt":
            return self.root()
        if name == "cbrt":
            return ("fn", "root", num(3), self.argument())
        base = exponent = None
        for _ in range(2):
            if self.is_op("_") and name == "log" and base is None:
                self.take()
                base = self.script()
            elif self.is_op("^") and exponent is None:
                self.take()
                exponent = self.script()
        self.angles += 1
        argument = self.argument()
        self.angles -= 1
        if exponent == ("neg", num(1)) and name in ("sin", "cos", "tan"):
            return ("fn", "arc" + name, argument)
        tree: Node = ("fn", name, argument) if base is None else ("fn", "logb", base, argument)
        return tree if exponent is None else ("^", tree, exponent)

    def argument(self) -> Node:
        """In brackets, or the factors up to the next sign or function: sin 2x."""
        for opening, closing in (("(", ")"), ("{", "}"), ("[", "]")):
            if self.is_op(opening):
                return self.group(opening, closing)
        if self.is_op("-"):
            self.take()
            return ("neg", self.argument())
        if self.peek().kind == "fn":
            return self.power()
        tree = self.power()
        while self.starts_factor() and self.peek().kind in ("sym", "const", "cmd", "word"):
            tree = ("*", tree, self.juxtaposed(tree))
        if self.is_op("/") and self.peek(1).kind == "num" and tree[0] in ("const", "num"):
            self.take()  # sin pi/6 in plain text
            tree = ("/", tree, self.power())
        return tree

    def root(self) -> Node:
        degree: Node = num(2)
        if self.is_op("["):
            degree = self.group("[", "]")
        if self.is_op("{"):
            return ("fn", "root", degree, self.group("{", "}"))
        if self.is_op("("):
            return ("fn", "root", degree, self.group("(", ")"))
        return ("fn", "root", degree, self.atom())

    def command(self, name: str) -> Node:
        if name in ("frac", "binom"):
            upper = self.fraction_part()
            lower = self.fraction_part()
            return ("/", upper, lower) if name == "frac" else ("fn", "binom", upper, lower)
        if name == "overline" or name == "mathbb":
            raise Malformed(f"\\{name} in an expression")
        raise Malformed(f"\\{name}")

    def fraction_part(self) -> Node:
        if self.is_op("{"):
            return self.group("{", "}")
        token = self.peek()
        if token.kind == "num" and token.value[1] is None and _is_integer(token):
            # \frac12: each part is one digit; \frac1{23} and \frac{1}23 too.
            digits = str(token.value[0].numerator)
            if len(digits) == 1:
                self.i += 1
                return num(int(digits))
            if len(digits) > 20:
                raise Malformed("a fraction without braces")
            rest = digits[1:]
            self.tokens = [
                *self.tokens[: self.i],
                Token("num", (Fraction(int(rest)), None)),
                *self.tokens[self.i + 1 :],
            ]
            return num(int(digits[0]))
        if token.kind in ("sym", "const"):
            self.i += 1
            return (token.kind, token.value)
        if token.kind == "fn" and token.value == "sqrt":
            self.i += 1
            return self.root()
        raise Malformed("a fraction without its parts")


def _is_integer(token: Token) -> bool:
    return token.value[1] is None and token.value[0].denominator == 1


def _spelled(token: Token) -> str:
    if token.kind == "num":
        return str(token.value[0].numerator) if _is_integer(token) else str(token.value[0])
    return str(token.value)
