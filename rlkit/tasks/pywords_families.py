"""The families of small functions that pywords asks for, level by level.

A family is one idea ("a number plus a constant") with its names, its wordings, a right
body and plausible wrong ones. Braces are filled with the argument (`x`, or `a` and `b`)
and with constants: `k` a number, `m` a small one, `c` and `d` letters; see `FOLLOWS`.
`reference` is the truth; it is called with the arguments and the constants it names.

Families marked `new` belong to the held-out split as a whole: no problem of theirs is
ever trained on. The other families share their problems between both splits.

Left out on purpose: functions that need a loop of several lines, imports, or arguments
of two kinds; a small chat model hardly ever gets them, so that nothing could be learnt.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Fields that are drawn for a problem.
CONSTANTS = ("k", "m", "c", "d")
#: Fields that follow from another one: k1 is k + 1, k2 is k + 8.
FOLLOWS = {"k1": "k", "k2": "k"}


@dataclass(frozen=True)
class Family:
    """One idea for a function.

    Attributes:
        title: what the family is called in records; part of a problem's key.
        kind: what the function takes: int, pair, divide, text, words or list.
        entry: the function's name, may hold constants.
        wordings: ways to say what it returns.
        right: a body that solves it; `return` is put before it.
        wrong: bodies that do not.
        reference: what it returns, in our own Python.
        new: held out as a whole.
    """

    title: str
    kind: str
    entry: str
    wordings: tuple[str, ...]
    right: str
    wrong: tuple[str, ...]
    reference: Callable[..., Any]
    new: bool = False

    @property
    def constants(self) -> tuple[str, ...]:
        """The constants that this family's problems differ in.

        >>> FAMILIES[1][0].title, FAMILIES[1][0].constants
        ('plus', ('k',))
        """
        texts = (self.right, *self.wordings)
        fields = {name for text in texts for _, name, _, _ in string.Formatter().parse(text)}
        used = {FOLLOWS.get(name, name) for name in fields}
        return tuple(name for name in CONSTANTS if name in used)


def _of(kind: str, *rows: tuple, new: bool = False) -> list[Family]:
    return [
        Family(title, kind, entry, tuple(said.split(" | ")), right, wrong, reference, new)
        for title, entry, said, right, wrong, reference in rows
    ]


# fmt: off
_LEVEL_1 = [
    *_of(
        "int",
        ("plus", "add_{k}", "{x} plus {k} | the sum of {x} and {k}",
         "{x} + {k}", ("{x} - {k}", "{x} + {k1}"), lambda x, k: x + k),
        ("minus", "subtract_{k}", "{x} minus {k}",
         "{x} - {k}", ("{k} - {x}", "{x} + {k}"), lambda x, k: x - k),
        ("from", "subtract_from_{k}", "{k} minus {x}",
         "{k} - {x}", ("{x} - {k}", "{k} + {x}"), lambda x, k: k - x),
        ("times", "multiply_by_{k}", "{x} times {k} | {x} multiplied by {k}",
         "{x} * {k}", ("{x} + {k}", "{x} ** {k}"), lambda x, k: x * k),
        ("remainder", "remainder_of_{k}", "the remainder of {x} divided by {k} | {x} modulo {k}",
         "{x} % {k}", ("{x} // {k}", "{k} % {x}"), lambda x, k: x % k),
        ("divisible", "is_divisible_by_{k}", "True if {x} is divisible by {k}, otherwise False",
         "{x} % {k} == 0", ("{x} % {k}", "{x} / {k} == 0"), lambda x, k: x % k == 0),
        ("greater", "is_above_{k}", "True if {x} is greater than {k}, otherwise False",
         "{x} > {k}", ("{x} < {k}", "{x} >= {k}"), lambda x, k: x > k),
        ("less", "is_below_{k}", "True if {x} is less than {k}, otherwise False",
         "{x} < {k}", ("{x} > {k}", "{x} <= {k}"), lambda x, k: x < k),
        ("at_least", "is_at_least_{k}", "True if {x} is {k} or more, otherwise False",
         "{x} >= {k}", ("{x} > {k}", "{x} <= {k}"), lambda x, k: x >= k),
        ("equals", "is_{k}", "True if {x} is equal to {k}, otherwise False",
         "{x} == {k}", ("{x} != {k}", "{x} >= {k}"), lambda x, k: x == k),
        ("differs", "is_not_{k}", "True if {x} is not equal to {k}, otherwise False",
         "{x} != {k}", ("{x} == {k}", "{x} > {k}"), lambda x, k: x != k),
        ("larger_of", "at_least_{k}", "the larger of {x} and {k}",
         "max({x}, {k})", ("min({x}, {k})", "{x} > {k}"), lambda x, k: max(x, k)),
        ("distance", "distance_from_{k}", "the absolute difference of {x} and {k}",
         "abs({x} - {k})", ("{x} - {k}", "abs({x}) - {k}"), lambda x, k: abs(x - k)),
        ("times_plus", "scale_and_add", "{x} times {m} plus {k}",
         "{x} * {m} + {k}", ("{x} * {k} + {m}", "{x} * ({m} + {k})"),
         lambda x, k, m: x * m + k),
        ("square_plus", "square_plus_{k}", "the square of {x} plus {k}",
         "{x} ** 2 + {k}", ("{x} * 2 + {k}", "({x} + {k}) ** 2"), lambda x, k: x**2 + k),
        ("square", "square", "the square of {x}",
         "{x} ** 2", ("{x} * 2", "{x} ** 0.5"), lambda x: x**2),
        ("double", "double", "{x} times 2 | two times {x}",
         "{x} * 2", ("{x} + 2", "{x} ** 2"), lambda x: x * 2),
        ("even", "is_even", "True if {x} is even, otherwise False",
         "{x} % 2 == 0", ("{x} % 2 == 1", "{x} % 2"), lambda x: x % 2 == 0),
        ("negative", "is_negative", "True if {x} is negative, otherwise False",
         "{x} < 0", ("{x} > 0", "{x} <= 0"), lambda x: x < 0),
    ),
    *_of(
        "int",
        ("at_most", "is_at_most_{k}", "True if {x} is {k} or less, otherwise False",
         "{x} <= {k}", ("{x} < {k}", "{x} >= {k}"), lambda x, k: x <= k),
        ("smaller_of", "at_most_{k}", "the smaller of {x} and {k}",
         "min({x}, {k})", ("max({x}, {k})", "{x} < {k}"), lambda x, k: min(x, k)),
        ("cube", "cube", "the cube of {x}",
         "{x} ** 3", ("{x} * 3", "{x} ** 2"), lambda x: x**3),
        ("odd", "is_odd", "True if {x} is odd, otherwise False",
         "{x} % 2 == 1", ("{x} % 2 == 0", "{x} / 2 == 1"), lambda x: x % 2 == 1),
        new=True,
    ),
    *_of(
        "pair",
        ("sum_plus", "add_both", "{a} plus {b} plus {k}",
         "{a} + {b} + {k}", ("{a} + {b}", "{a} * {b} + {k}"), lambda a, b, k: a + b + k),
        ("difference_plus", "subtract_and_add", "{a} minus {b} plus {k}",
         "{a} - {b} + {k}", ("{b} - {a} + {k}", "{a} - {b} - {k}"), lambda a, b, k: a - b + k),
        ("product_minus", "multiply_and_subtract", "{a} times {b} minus {k}",
         "{a} * {b} - {k}", ("{a} * {b} + {k}", "{a} + {b} - {k}"), lambda a, b, k: a * b - k),
        ("product", "multiply", "the product of {a} and {b}",
         "{a} * {b}", ("{a} + {b}", "{a} ** {b}"), lambda a, b: a * b),
        ("larger", "larger", "the larger of {a} and {b}",
         "max({a}, {b})", ("min({a}, {b})", "{a} > {b}"), lambda a, b: max(a, b)),
        ("same", "are_equal", "True if {a} and {b} are equal, otherwise False",
         "{a} == {b}", ("{a} != {b}", "{a} >= {b}"), lambda a, b: a == b),
    ),
    *_of(
        "pair",
        ("smaller", "smaller", "the smaller of {a} and {b}",
         "min({a}, {b})", ("max({a}, {b})", "{a} < {b}"), lambda a, b: min(a, b)),
        new=True,
    ),
    *_of(
        "text",
        ("length", "text_length", "the number of characters in {x}",
         "len({x})", ("len({x}) - 1", "{x}.count({x})"), lambda x: len(x)),
        ("upper", "to_upper", "{x} in upper case",
         "{x}.upper()", ("{x}.lower()", "{x}.title()"), lambda x: x.upper()),
        ("lower", "to_lower", "{x} in lower case",
         "{x}.lower()", ("{x}.upper()", "{x}.title()"), lambda x: x.lower()),
        ("reversed", "reverse_text", "{x} reversed | the string {x} backwards",
         "{x}[::-1]", ("reversed({x})", "{x}"), lambda x: x[::-1]),
        ("first", "first_character", "the first character of {x}",
         "{x}[0]", ("{x}[-1]", "{x}[1]"), lambda x: x[0]),
        ("first_m", "first_{m}", "the first {m} characters of {x}",
         "{x}[:{m}]", ("{x}[{m}:]", "{x}[{m}]"), lambda x, m: x[:m]),
        ("repeat", "repeat_{m}_times", "the string {x} repeated {m} times",
         "{x} * {m}", ("{x} + str({m})", "{x} * {k}"), lambda x, m: x * m),
        ("add_letter", "add_{c}", "the string {x} with the letter '{c}' added at the end",
         "{x} + '{c}'", ("'{c}' + {x}", "{x}.append('{c}')"), lambda x, c: x + c),
        ("count_letter", "count_{c}", "how many times the letter '{c}' occurs in {x}",
         "{x}.count('{c}')", ("'{c}' in {x}", "len({x})"), lambda x, c: x.count(c)),
        ("has_letter", "contains_{c}", "True if the letter '{c}' is in {x}, otherwise False",
         "'{c}' in {x}", ("{x} in '{c}'", "'{c}' not in {x}"), lambda x, c: c in x),
        ("starts", "starts_with_{c}", "True if {x} starts with the letter '{c}', otherwise False",
         "{x}.startswith('{c}')", ("{x}.endswith('{c}')", "'{c}' in {x}"),
         lambda x, c: x.startswith(c)),
        ("replace", "replace_{c}", "the string {x} with every '{c}' replaced by '{d}'",
         "{x}.replace('{c}', '{d}')", ("{x}.replace('{d}', '{c}')", "{x}.replace('{c}', '')"),
         lambda x, c, d: x.replace(c, d)),
    ),
    *_of(
        "text",
        ("last", "last_character", "the last character of {x}",
         "{x}[-1]", ("{x}[0]", "{x}[-2:]"), lambda x: x[-1]),
        ("ends", "ends_with_{c}", "True if {x} ends with the letter '{c}', otherwise False",
         "{x}.endswith('{c}')", ("{x}.startswith('{c}')", "'{c}' in {x}"),
         lambda x, c: x.endswith(c)),
        ("remove_letter", "remove_{c}", "the string {x} without the letter '{c}'",
         "{x}.replace('{c}', '')", ("{x}.strip('{c}')", "{x}.count('{c}')"),
         lambda x, c: x.replace(c, "")),
        new=True,
    ),
    *_of(
        "words",
        ("word_count", "count_words", "the number of words in {x}",
         "len({x}.split())", ("len({x})", "{x}.split()"), lambda x: len(x.split())),
        ("word_list", "split_words", "the list of words in {x}",
         "{x}.split()", ("list({x})", "len({x}.split())"), lambda x: x.split()),
    ),
    *_of(
        "list",
        ("size", "count_items", "the number of items in the list {x}",
         "len({x})", ("sum({x})", "len({x}) - 1"), lambda x: len(x)),
        ("sum", "total", "the sum of the numbers in the list {x}",
         "sum({x})", ("len({x})", "max({x})"), lambda x: sum(x)),
        ("largest", "largest", "the largest number in the list {x}",
         "max({x})", ("min({x})", "{x}[-1]"), lambda x: max(x)),
        ("first_item", "first_item", "the first item of the list {x}",
         "{x}[0]", ("{x}[-1]", "{x}[1:]"), lambda x: x[0]),
        ("sorted", "sort_numbers", "the list {x} sorted from smallest to largest",
         "sorted({x})", ("{x}.sort()", "{x}[::-1]"), lambda x: sorted(x)),
        ("has_number", "contains_{k}", "True if {k} is in the list {x}, otherwise False",
         "{k} in {x}", ("{k} not in {x}", "{x} == {k}"), lambda x, k: k in x),
        ("count_number", "count_{k}", "how many times {k} occurs in the list {x}",
         "{x}.count({k})", ("{k} in {x}", "len({x})"), lambda x, k: x.count(k)),
        ("add_each", "add_{k}_to_each", "a list with {k} added to each number in the list {x}",
         "[v + {k} for v in {x}]", ("{x} + [{k}]", "[v * {k} for v in {x}]"),
         lambda x, k: [v + k for v in x]),
        ("above", "numbers_above_{k}",
         "a list of the numbers in the list {x} that are greater than {k}",
         "[v for v in {x} if v > {k}]", ("[v for v in {x} if v < {k}]", "{x} > {k}"),
         lambda x, k: [v for v in x if v > k]),
        ("below", "numbers_below_{k}",
         "a list of the numbers in the list {x} that are less than {k}",
         "[v for v in {x} if v < {k}]", ("[v for v in {x} if v > {k}]", "{x} < {k}"),
         lambda x, k: [v for v in x if v < k]),
        ("sum_plus_k", "total_plus_{k}", "the sum of the numbers in the list {x} plus {k}",
         "sum({x}) + {k}", ("len({x}) + {k}", "sum({x})"), lambda x, k: sum(x) + k),
    ),
    *_of(
        "list",
        ("smallest", "smallest", "the smallest number in the list {x}",
         "min({x})", ("max({x})", "{x}[0]"), lambda x: min(x)),
        ("last_item", "last_item", "the last item of the list {x}",
         "{x}[-1]", ("{x}[0]", "{x}[len({x})]"), lambda x: x[-1]),
        ("times_each", "multiply_each_by_{k}",
         "a list with each number in the list {x} multiplied by {k}",
         "[v * {k} for v in {x}]", ("{x} * {k}", "[v + {k} for v in {x}]"),
         lambda x, k: [v * k for v in x]),
        new=True,
    ),
]

_LEVEL_2 = [
    *_of(
        "int",
        ("between", "is_between", "True if {x} is greater than {m} and less than {k2}, "
         "otherwise False",
         "{m} < {x} < {k2}", ("{m} <= {x} <= {k2}", "{x} > {m} or {x} < {k2}"),
         lambda x, k, m: m < x < k + 8),
        ("last_digit_plus", "last_digit_plus_{k}", "the last digit of abs({x}) plus {k}",
         "abs({x}) % 10 + {k}", ("abs({x}) // 10 + {k}", "{x}[-1] + {k}"),
         lambda x, k: abs(x) % 10 + k),
        ("capped_sum", "add_and_cap", "{x} plus {m}, but at most {k2}",
         "min({x} + {m}, {k2})", ("max({x} + {m}, {k2})", "{x} + {m}"),
         lambda x, k, m: min(x + m, k + 8)),
    ),
    *_of(
        "divide",
        ("quotient_plus", "divide_and_add", "{a} divided by {b}, rounded down, plus {k}",
         "{a} // {b} + {k}", ("{a} / {b} + {k}", "{a} % {b} + {k}"), lambda a, b, k: a // b + k),
        ("remainder_plus", "remainder_plus_{k}", "the remainder of {a} divided by {b}, plus {k}",
         "{a} % {b} + {k}", ("{a} // {b} + {k}", "{b} % {a} + {k}"), lambda a, b, k: a % b + k),
    ),
    *_of(
        "text",
        ("reversed_upper", "shout_backwards", "{x} reversed and in upper case",
         "{x}[::-1].upper()", ("{x}.upper()", "{x}[::-1]"), lambda x: x[::-1].upper()),
        ("palindrome", "is_palindrome", "True if {x} reads the same backwards, otherwise False",
         "{x} == {x}[::-1]", ("{x} != {x}[::-1]", "{x}[0] == {x}[-1]"), lambda x: x == x[::-1]),
        ("without_first_m", "drop_first_{m}", "{x} without its first {m} characters",
         "{x}[{m}:]", ("{x}[:{m}]", "{x}[{m}]"), lambda x, m: x[m:]),
        ("last_m", "last_{m}", "the last {m} characters of {x}",
         "{x}[-{m}:]", ("{x}[:{m}]", "{x}[-{m}]"), lambda x, m: x[-m:]),
        ("longer", "is_longer_than_{m}",
         "True if {x} has more than {m} characters, otherwise False",
         "len({x}) > {m}", ("len({x}) < {m}", "len({x}) >= {m}"), lambda x, m: len(x) > m),
    ),
    *_of(
        "list",
        ("even_items", "even_numbers", "a list of the even numbers in the list {x}",
         "[v for v in {x} if v % 2 == 0]", ("[v for v in {x} if v % 2]", "{x}[::2]"),
         lambda x: [v for v in x if v % 2 == 0]),
        ("count_above", "count_above_{k}",
         "how many numbers in the list {x} are greater than {k}",
         "len([v for v in {x} if v > {k}])", ("[v for v in {x} if v > {k}]", "{x}.count({k})"),
         lambda x, k: len([v for v in x if v > k])),
        ("append", "append_{k}", "the list {x} with {k} added at the end",
         "{x} + [{k}]", ("{x}.append({k})", "[{k}] + {x}"), lambda x, k: [*x, k]),
        ("spread", "spread", "the largest number minus the smallest number in the list {x}",
         "max({x}) - min({x})", ("min({x}) - max({x})", "len({x})"), lambda x: max(x) - min(x)),
        ("first_m_items", "first_{m}_items", "the first {m} items of the list {x}",
         "{x}[:{m}]", ("{x}[{m}:]", "{x}[{m}]"), lambda x, m: x[:m]),
    ),
]

_LEVEL_3 = [
    *_of(
        "text",
        ("vowels", "count_vowels", "the number of lower case vowels in {x}",
         "sum(v in 'aeiou' for v in {x})", ("len({x})", "{x}.count('aeiou')"),
         lambda x: sum(v in "aeiou" for v in x)),
        ("every_m", "every_{m}", "every {m}th character of {x}, starting with the first",
         "{x}[::{m}]", ("{x}[:{m}]", "{x}[{m}::{m}]"), lambda x, m: x[::m]),
    ),
    *_of(
        "words",
        ("longest", "longest_word", "the length of the longest word in {x}",
         "max(len(v) for v in {x}.split())", ("max({x}.split())", "len({x})"),
         lambda x: max(len(v) for v in x.split())),
        ("reverse_words", "reverse_words", "{x} with its words in reverse order",
         "' '.join({x}.split()[::-1])", ("{x}[::-1]", "{x}.split()[::-1]"),
         lambda x: " ".join(x.split()[::-1])),
    ),
    *_of(
        "list",
        ("sum_above", "sum_above_{k}",
         "the sum of the numbers in the list {x} that are greater than {k}",
         "sum(v for v in {x} if v > {k})", ("sum({x})", "[v for v in {x} if v > {k}]"),
         lambda x, k: sum(v for v in x if v > k)),
        ("times_and_add_each", "scale_each",
         "a list with each number in the list {x} multiplied by {m} and then increased by {k}",
         "[v * {m} + {k} for v in {x}]", ("[v * {k} + {m} for v in {x}]", "{x} * {m}"),
         lambda x, k, m: [v * m + k for v in x]),
        ("all_above", "all_above_{k}",
         "True if all numbers in the list {x} are greater than {k}, otherwise False",
         "all(v > {k} for v in {x})", ("any(v > {k} for v in {x})", "sum({x}) > {k}"),
         lambda x, k: all(v > k for v in x)),
        ("replace_small", "raise_to_{k}",
         "a list in which each number of the list {x} below {k} is replaced by {k}",
         "[max(v, {k}) for v in {x}]", ("[min(v, {k}) for v in {x}]", "max({x}, {k})"),
         lambda x, k: [max(v, k) for v in x]),
    ),
]
# fmt: on

FAMILIES: dict[int, list[Family]] = {1: _LEVEL_1, 2: _LEVEL_2, 3: _LEVEL_3}
