"""Language math: is one expression the same as another? Decided by sympy, in a child.

An expression is read by `ast` through a list of what may occur in it and built by hand;
nothing is evaluated as Python, and sympy's own readers, which are, are not used. Length, nesting,
digits and exponents are bounded before sympy sees anything; what still takes too long is
killed with the process.

Two expressions are equal when their difference is zero by rewriting, or when both agree to 25
digits at random points, real ones and then complex ones. `a = b` is an equation, equal to
another if their differences are the same up to a constant factor. Tuples, lists and sets
are compared by their members.

Written as: `2x + 1`, `x^2`, `sqrt(2)/2`, `|x|` is not read, `3!` is `factorial(3)`, `pi`, `e`,
`i` (or `I`), `oo`. Left out: LaTeX, units, inequalities, matrices.
"""

from __future__ import annotations

import ast
import random
import re
import time

MAX_CHARS = 1000
MAX_NODES = 400
MAX_DEPTH = 40
MAX_DIGITS = 300
MAX_EXPONENT = 2000
MAX_FACTORIAL = 500

#: Functions by the names that people write, and sympy's for them.
FUNCTIONS = {
    **{
        name: name
        for name in (
            *("sqrt", "cbrt", "exp", "log", "sin", "cos", "tan", "cot", "sec", "csc"),
            *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("floor", "factorial", "binomial", "gamma", "sign", "gcd", "lcm"),
        )
    },
    **{"ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "ceil": "ceiling"},
    **{"abs": "Abs", "min": "Min", "max": "Max", "comb": "binomial", "ceiling": "ceiling"},
    **{"Abs": "Abs", "Min": "Min", "Max": "Max", "re": "re", "im": "im", "conjugate": "conjugate"},
}
CONSTANTS = {"pi": "pi", "e": "E", "E": "E", "i": "I", "I": "I", "oo": "oo", "inf": "oo"}
CONSTANTS |= {"π": "pi", "∞": "oo", "infinity": "oo"}

_PIECES = re.compile(r"\s*(?:(\d+\.\d*|\.\d+|\d+)|([^\W\d]\w*)|(\*\*|[-+*/^(),{}\[\]=]))")
_DIGITS = 25
_POINTS = 6


class Unreadable(ValueError):
    """The text is no expression of the kind that is read here."""


class Undecided(Exception):
    """Neither equal nor different could be shown."""


def main(request: dict, send) -> None:
    """Compare one text with several.

    Args:
        request: `source`, `expected` (a text for each test) and `seed`.
        send: tells the host, for each test, `("passed", index, seconds)` or
            `("failed", index, status, message, got, seconds)`.
    """
    try:
        got = read(request["source"])
    except Unreadable as error:
        send("broken", "COMPILE_ERROR", f"not an expression: {error}")
        send("done")
        return
    shown = str(request["source"])[:120]
    for index, text in enumerate(request["expected"]):
        started = time.perf_counter()
        status, message = "FAIL", f"{shown} is not {text[:120]}"
        try:
            if same(got, read(text), random.Random(request["seed"] + index)):
                send("passed", index, time.perf_counter() - started)
                continue
        except Unreadable as error:
            status, message = "BAD_VALUE", f"the expected {text[:80]!r} is not read: {error}"
        except Undecided as error:
            status, message = "NO_RESULT", str(error)
        except MemoryError:
            status, message = "MEMORY_LIMIT", "the comparison took too much memory"
        except Exception as error:  # a fault of sympy's on this pair, whatever its class
            status, message = "NO_RESULT", f"cannot be compared: {type(error).__name__}"
        send("failed", index, status, message, shown, time.perf_counter() - started)
    send("done")


def read(text: str):
    """A tree for a text: a sympy expression, or ("=", a, b), or ("tuple" | "set" | "list", ...).

    Raises:
        Unreadable: it is something else, or too large.
    """
    if len(text) > MAX_CHARS:
        raise Unreadable(f"longer than {MAX_CHARS} characters")
    sides = _python(text).split("=")
    if len(sides) > 2:
        raise Unreadable("more than one =")
    trees = []
    for side in sides:
        try:
            tree = ast.parse(side.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise Unreadable("it does not parse") from None
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise Unreadable("too many parts")
        trees.append(_build(tree, 0))
    return trees[0] if len(trees) == 1 else ("=", *trees)


def _python(text: str) -> str:
    """The text with `^` as `**` and the multiplication signs that people leave out.

    >>> _python("2x^2(x+1) = sin(x) pi")
    '2 * x ** 2 * ( x + 1 ) = sin ( x ) * pi'
    """
    out: list[str] = []
    at, closed, function, last = 0, False, False, ""
    text = text.strip().rstrip(".")
    while at < len(text):
        found = _PIECES.match(text, at)
        if found is None:
            raise Unreadable(f"{text[at : at + 1]!r} is not read")
        at = found.end()
        number, name, sign = found.groups()
        piece = number or name or sign
        if number and len(number) > MAX_DIGITS:
            raise Unreadable("a number of too many digits")
        opens = piece in ("(", "{", "[")
        if opens and last and not function and (len(last) > 1 or last in "fgh"):
            raise Unreadable(f"{last} is no function that is known here")
        if closed and (number or name or (opens and not function)):
            out.append("*")
        out.append("**" if piece == "^" else piece)
        closed = bool(number or name) or piece in (")", "}", "]")
        function, last = name in FUNCTIONS, name or ""
    return " ".join(out)


def _build(node: ast.AST, depth: int):
    if depth > MAX_DEPTH:
        raise Unreadable("nested too deep")
    import sympy

    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        # The text of a decimal says it exactly; a float would not.
        return sympy.Rational(ast.unparse(node)) if node.value == node.value else sympy.nan
    if isinstance(node, ast.Name):
        if node.id in CONSTANTS:
            return getattr(sympy, CONSTANTS[node.id])
        if node.id in FUNCTIONS:
            raise Unreadable(f"{node.id} without an argument")
        return sympy.Symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _number(_build(node.operand, depth + 1))
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = (_number(_build(part, depth + 1)) for part in (node.left, node.right))
        return _binary(node.op, left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, [_number(_build(arg, depth + 1)) for arg in node.args])
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
        return (kind, *[_build(part, depth + 1) for part in node.elts])
    raise Unreadable(f"{type(node).__name__} is not read")


def _number(value):
    if isinstance(value, tuple):
        raise Unreadable("a list of values where one value is due")
    return value


def _binary(operator: ast.operator, left, right):
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Div):
        return left / right
    if not isinstance(operator, ast.Pow):
        raise Unreadable(f"{type(operator).__name__} is not read")
    if left.is_number and right.is_number:
        size = abs(complex(right.evalf(5))) if right.is_finite else 0
        digits = len(str(left)) if left.is_Rational else 5
        if size * digits > MAX_EXPONENT:
            raise Unreadable("an exponent that is too large")
    elif right.is_number and right.is_finite and abs(complex(right.evalf(5))) > 100:
        raise Unreadable("an exponent that is too large")
    return left**right


def _call(name: str, args: list):
    import sympy

    if name not in FUNCTIONS:
        raise Unreadable(f"{name} is no function that is known here")
    if name in ("factorial", "gamma", "binomial", "comb", "exp", "sinh", "cosh"):
        for arg in args:
            if arg.is_number and arg.is_finite and abs(complex(arg.evalf(5))) > MAX_FACTORIAL:
                raise Unreadable(f"{name} of a number that is too large")
    try:
        if name == "log" and len(args) == 2:
            return sympy.log(*args)
        return getattr(sympy, FUNCTIONS[name])(*args)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{name}: {error}") from None


def same(one, two, chance: random.Random) -> bool:
    """Are these two trees the same?

    Raises:
        Undecided: neither was found.
    """
    if isinstance(one, tuple) or isinstance(two, tuple):
        if not (isinstance(one, tuple) and isinstance(two, tuple)) or one[0] != two[0]:
            return False
        if one[0] == "=":
            return _same_equation(one, two, chance)
        if len(one) != len(two):
            return False
        if one[0] == "set":
            return _same_set(list(one[1:]), list(two[1:]), chance)
        return all(same(a, b, chance) for a, b in zip(one[1:], two[1:]))  # noqa: B905
    if one == two:
        return True
    if one.free_symbols != two.free_symbols and not (one - two).free_symbols:
        return bool((one - two).is_zero)
    difference = one - two
    if difference.is_Rational:  # exact, however small: 1/3 + 10^-40 is not 1/3
        return bool(difference == 0)
    agreed = _agree(one, two, chance)
    if agreed is False:
        return False
    for rewrite in ("expand", "together", "simplify"):
        if getattr(difference, rewrite)() == 0:
            return True
    if agreed is None:
        raise Undecided("the two could not be shown to be equal, nor to differ")
    return True


def _same_equation(one: tuple, two: tuple, chance: random.Random) -> bool:
    import sympy

    left, right = one[1] - one[2], two[1] - two[2]
    if right == 0 or left == 0:
        return left == right
    ratio = sympy.simplify(left / right)
    return bool(ratio.is_number and ratio.is_finite and ratio != 0)


def _same_set(one: list, two: list, chance: random.Random) -> bool:
    for member in one:
        for place, other in enumerate(two):
            if same(member, other, chance):
                del two[place]
                break
        else:
            return False
    return not two


def _agree(one, two, chance: random.Random) -> bool | None:
    """At random points: do both have the same values? None where too few points have any."""
    import sympy

    symbols = sorted(one.free_symbols | two.free_symbols, key=str)
    seen = 0
    for turn in range(4 * _POINTS if symbols else 1):
        scale = (3, 1, 20)[turn % 3]
        point = {
            # Real points first: |x| and x differ only there. Rationals, for exact input.
            symbol: sympy.Rational(chance.randint(-(10**6), 10**6), 10**6) * scale
            + (sympy.I * chance.randint(1, 9) / 7 if turn >= 3 * _POINTS else 0)
            for symbol in symbols
        }
        try:
            values = [part.subs(point).evalf(_DIGITS) for part in (one, two)]
        except (ArithmeticError, ValueError, TypeError):
            continue
        if not all(value.is_number and value.is_finite for value in values):
            if symbols or values[0] == values[1]:
                continue
            return False
        size = max(abs(values[0]), abs(values[1]))
        near = sympy.Rational(1, 10 ** (_DIGITS - 8))
        # Zero is computed as something very small; so small a number is not written down.
        if size > near**4 and abs(values[0] - values[1]) > near * size:
            return False
        seen += 1
        if seen >= _POINTS:
            break
    return True if seen >= (_POINTS if symbols else 1) else None
