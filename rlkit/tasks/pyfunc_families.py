"""The families of small functions that pyfunc asks for, level by level.

`sentence` completes "a function f(x) that returns ...". Braces are filled
with the argument's name (`x`, or `a` and `b`), constants (`k`, `m`, `k1` is
k + 1, `k0` is k - 1) and letters (`c`, `d`). `right` and `wrong` are bodies;
a body of one line gets its `return` later. `reference` is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """One kind of function: what is asked, a right body, plausible wrong ones."""

    kind: str
    sentence: str
    right: str
    wrong: tuple[str, ...]
    reference: Callable[..., Any]


def _families(kind: str, *rows: tuple[str, str, tuple[str, ...], Callable]) -> list[Family]:
    return [Family(kind, *row) for row in rows]


# fmt: off
_LEVEL_1 = [
    *_families(
        "int",
        ("{x} plus {k}", "{x} + {k}", ("{x} - {k}", "{x} + {k1}", "{x} * {k}"),
         lambda x, k, **_: x + k),
        ("{x} minus {k}", "{x} - {k}", ("{x} + {k}", "{k} - {x}", "{x} - {k1}"),
         lambda x, k, **_: x - k),
        ("{k} minus {x}", "{k} - {x}", ("{x} - {k}", "{k} + {x}"),
         lambda x, k, **_: k - x),
        ("{x} times {k}", "{x} * {k}", ("{x} + {k}", "{x} ** {k}", "{x} * {k1}"),
         lambda x, k, **_: x * k),
        ("the square of {x} plus {k}", "{x} ** 2 + {k}", ("{x} * 2 + {k}", "{x} ** 2 - {k}"),
         lambda x, k, **_: x**2 + k),
        ("double {x} plus {k}", "{x} * 2 + {k}", ("{x} + 2 + {k}", "({x} + {k}) * 2"),
         lambda x, k, **_: 2 * x + k),
        ("{k} times {x} plus {m}", "{k} * {x} + {m}", ("{m} * {x} + {k}", "{k} * ({x} + {m})"),
         lambda x, k, m, **_: k * x + m),
        ("{x} modulo {k}", "{x} % {k}", ("{x} // {k}", "{k} % {x}", "{x} % {k1}"),
         lambda x, k, **_: x % k),
        ("{x} divided by {k} rounded down", "{x} // {k}", ("{x} / {k}", "{x} % {k}"),
         lambda x, k, **_: x // k),
        ("True if {x} is divisible by {k}", "{x} % {k} == 0", ("{x} % {k} == 1", "{x} // {k} == 0"),
         lambda x, k, **_: x % k == 0),
        ("True if {x} is greater than {k}", "{x} > {k}", ("{x} < {k}", "{x} >= {k}"),
         lambda x, k, **_: x > k),
        ("True if {x} is less than {k}", "{x} < {k}", ("{x} > {k}", "{x} <= {k}"),
         lambda x, k, **_: x < k),
        ("True if {x} is at least {k}", "{x} >= {k}", ("{x} > {k}", "{x} <= {k}"),
         lambda x, k, **_: x >= k),
        ("True if {x} equals {k}", "{x} == {k}", ("{x} != {k}", "{x} == {k1}"),
         lambda x, k, **_: x == k),
        ("the larger of {x} and {k}", "max({x}, {k})", ("min({x}, {k})", "max({x}, {k1})"),
         lambda x, k, **_: max(x, k)),
        ("the smaller of {x} and {k}", "min({x}, {k})", ("max({x}, {k})", "min({x}, {k1})"),
         lambda x, k, **_: min(x, k)),
        ("the distance of {x} from {k}", "abs({x} - {k})", ("{x} - {k}", "abs({x} + {k})"),
         lambda x, k, **_: abs(x - k)),
    ),
    *_families(
        "pair",
        ("the sum of {a} and {b} plus {k}", "{a} + {b} + {k}",
         ("{a} + {b} - {k}", "{a} * {b} + {k}", "{a} + {b}"),
         lambda a, b, k, **_: a + b + k),
        ("the product of {a} and {b} minus {k}", "{a} * {b} - {k}",
         ("{a} * {b} + {k}", "{a} + {b} - {k}"),
         lambda a, b, k, **_: a * b - k),
        ("{a} times {k} minus {b}", "{a} * {k} - {b}", ("{b} * {k} - {a}", "{a} * {k} + {b}"),
         lambda a, b, k, **_: a * k - b),
        ("the larger of {a} and {b} plus {k}", "max({a}, {b}) + {k}",
         ("min({a}, {b}) + {k}", "max({a}, {b}) - {k}"),
         lambda a, b, k, **_: max(a, b) + k),
        ("the difference of {a} and {b} times {k}", "({a} - {b}) * {k}",
         ("{a} - {b} * {k}", "({a} + {b}) * {k}"),
         lambda a, b, k, **_: (a - b) * k),
    ),
    *_families(
        "text",
        ("the length of {x} plus {k}", "len({x}) + {k}", ("len({x}) - {k}", "len({x}) * {k}"),
         lambda x, k, **_: len(x) + k),
        ("{x} repeated {m} times", "{x} * {m}", ("{x} + {m}", "{x} * {k}"),
         lambda x, m, **_: x * m),
        ("{x} with {c} at the end", "{x} + '{c}'", ("'{c}' + {x}", "{x} + {c}"),
         lambda x, c, **_: x + c),
        ("{x} with {c} at the start", "'{c}' + {x}", ("{x} + '{c}'", "{c} + {x}"),
         lambda x, c, **_: c + x),
        ("how often {c} is in {x}", "{x}.count('{c}')", ("'{c}' in {x}", "len({x})"),
         lambda x, c, **_: x.count(c)),
        ("True if {c} is in {x}", "'{c}' in {x}", ("'{c}' not in {x}", "{x} in '{c}'"),
         lambda x, c, **_: c in x),
        ("{x} with {c} replaced by {d}", "{x}.replace('{c}', '{d}')",
         ("{x}.replace('{d}', '{c}')", "{x}.replace('{c}', '')"),
         lambda x, c, d, **_: x.replace(c, d)),
        ("the first {m} letters of {x}", "{x}[:{m}]", ("{x}[{m}:]", "{x}[-{m}:]"),
         lambda x, m, **_: x[:m]),
    ),
    *_families(
        "list",
        ("the sum of {x} plus {k}", "sum({x}) + {k}", ("len({x}) + {k}", "sum({x}) - {k}"),
         lambda x, k, **_: sum(x) + k),
        ("the largest of {x} minus {k}", "max({x}) - {k}", ("min({x}) - {k}", "max({x}) + {k}"),
         lambda x, k, **_: max(x) - k),
        ("how often {k} is in {x}", "{x}.count({k})", ("{k} in {x}", "{x}.count({k1})"),
         lambda x, k, **_: x.count(k)),
        ("True if {k} is in {x}", "{k} in {x}", ("{k} not in {x}", "{k1} in {x}"),
         lambda x, k, **_: k in x),
        ("{x} with {k} at the end", "{x} + [{k}]", ("[{k}] + {x}", "{x} + {k}"),
         lambda x, k, **_: [*x, k]),
        ("{x} with {k} added to each", "[v + {k} for v in {x}]",
         ("[v - {k} for v in {x}]", "[v * {k} for v in {x}]", "{x} + [{k}]"),
         lambda x, k, **_: [v + k for v in x]),
        ("{x} with each times {k}", "[v * {k} for v in {x}]",
         ("[v + {k} for v in {x}]", "{x} * {k}"),
         lambda x, k, **_: [v * k for v in x]),
        ("the numbers of {x} above {k}", "[v for v in {x} if v > {k}]",
         ("[v for v in {x} if v < {k}]", "[v for v in {x} if v >= {k}]", "{x} > {k}"),
         lambda x, k, **_: [v for v in x if v > k]),
        ("the numbers of {x} below {k}", "[v for v in {x} if v < {k}]",
         ("[v for v in {x} if v > {k}]", "[v for v in {x} if v <= {k}]"),
         lambda x, k, **_: [v for v in x if v < k]),
    ),
]

_LEVEL_2 = [
    *_families(
        "int",
        ("{k} if {x} is above {m}, else {x}", "if {x} > {m}:\n    return {k}\nreturn {x}",
         ("if {x} < {m}:\n    return {k}\nreturn {x}", "if {x} > {k}:\n    return {m}\nreturn {x}"),
         lambda x, k, m, **_: k if x > m else x),
        ("the sum of 1 to {k} plus {x}",
         "total = {x}\nfor i in range(1, {k1}):\n    total += i\nreturn total",
         ("total = {x}\nfor i in range(1, {k}):\n    total += i\nreturn total",
          "total = 1\nfor i in range(1, {k1}):\n    total += i\nreturn total"),
         lambda x, k, **_: x + k * (k + 1) // 2),
        ("{x} kept between {m} and {m} plus {k}", "max({m}, min({x}, {m} + {k}))",
         ("min({m}, max({x}, {m} + {k}))", "max({m}, {x})"),
         lambda x, k, m, **_: max(m, min(x, m + k))),
    ),
    *_families(
        "list",
        ("the sum of the numbers of {x} above {k}", "sum(v for v in {x} if v > {k})",
         ("sum(v for v in {x} if v < {k})", "sum({x}) > {k}"),
         lambda x, k, **_: sum(v for v in x if v > k)),
        ("how many numbers of {x} are below {k}", "len([v for v in {x} if v < {k}])",
         ("len([v for v in {x} if v > {k}])", "sum(v for v in {x} if v < {k})"),
         lambda x, k, **_: len([v for v in x if v < k])),
        ("{x} sorted, with {k} at the end", "sorted({x}) + [{k}]",
         ("sorted({x} + [{k}])", "{x} + [{k}]"),
         lambda x, k, **_: [*sorted(x), k]),
    ),
    *_families(
        "text",
        ("{x} reversed, with {c} at the end", "{x}[::-1] + '{c}'",
         ("({x} + '{c}')[::-1]", "{x} + '{c}'"),
         lambda x, c, **_: x[::-1] + c),
        ("{x} in upper case without its first {m} letters", "{x}[{m}:].upper()",
         ("{x}[:{m}].upper()", "{x}[{m}:].lower()"),
         lambda x, m, **_: x[m:].upper()),
    ),
]

_LEVEL_3 = [
    *_families(
        "int",
        ("the product of 1 to {m} minus {x}",
         "total = 1\nfor i in range(1, {m} + 1):\n    total *= i\nreturn total - {x}",
         ("total = 0\nfor i in range(1, {m} + 1):\n    total *= i\nreturn total - {x}",
          "total = 1\nfor i in range(1, {m}):\n    total *= i\nreturn total - {x}"),
         lambda x, m, **_: _factorial(m) - x),
        ("how many numbers from 1 to {k} divide {x}",
         "return len([i for i in range(1, {k1}) if {x} % i == 0])",
         ("return len([i for i in range(1, {k}) if {x} % i == 0])",
          "return len([i for i in range(1, {k1}) if i % {x} == 0])"),
         lambda x, k, **_: len([i for i in range(1, k + 1) if x % i == 0])),
    ),
    *_families(
        "list",
        ("the largest of {x} after each times {m}, plus {k}", "max([v * {m} for v in {x}]) + {k}",
         ("max([v + {m} for v in {x}]) + {k}", "min([v * {m} for v in {x}]) + {k}"),
         lambda x, k, m, **_: max(v * m for v in x) + k),
        ("the running total of {x} from {k}",
         "out = []\ntotal = {k}\nfor v in {x}:\n    total += v\n    out.append(total)\nreturn out",
         ("out = []\ntotal = 0\nfor v in {x}:\n    total += v\n    out.append(total)\nreturn out",
          "out = []\ntotal = {k}\nfor v in {x}:\n    out.append(total)\n    total += v\n"
          "return out"),
         lambda x, k, **_: [k + sum(x[: i + 1]) for i in range(len(x))]),
    ),
]
# fmt: on

FAMILIES: dict[int, list[Family]] = {1: _LEVEL_1, 2: _LEVEL_2, 3: _LEVEL_3}


def _factorial(n: int) -> int:
    product = 1
    for i in range(2, n + 1):
        product *= i
    return product
