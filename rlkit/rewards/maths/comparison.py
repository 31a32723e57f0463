"""Comparison: does what was answered agree with what was wanted.

`agree(given, wanted)` is True, False, or `None` when this module cannot tell and
math-verify may be asked. It is not symmetric: a number answers `35 cm`, and
`x = 5` is answered by 5, but `2x = 10` does not answer `x = 5`, because it has not
been solved. An answer with more in it than was wanted is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rlkit.rewards.maths.answers import (
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
from rlkit.rewards.maths.evaluation import same_value
from rlkit.rewards.maths.expression import Node, num
from rlkit.rewards.maths.regions import as_region, canonical
from rlkit.rewards.maths.relations import asserted, assigned, difference, named_apart
from rlkit.rewards.maths.trees import expand_signs, has, same_constant_name, symbols, times
from rlkit.rewards.maths.values import TooLarge, Undefined, value_of

_PI = ("const", "pi")


class Comparison:
    """Compares answers with one tolerance.

    Args:
        tolerance: largest relative difference of a decimal from what it rounds.
    """

    def __init__(self, tolerance: float = 1e-6) -> None:
        self.tolerance = tolerance

    def agree(self, given: Answer, wanted: Answer) -> bool | None:
        """Whether the given answer is the wanted one; `None` when that cannot be told here.

        Raises:
            TooLarge: a value is too large to be computed, and the two are not written alike.
        """
        if isinstance(given, Nonsense) or isinstance(wanted, Nonsense):
            return False
        if isinstance(given, Beyond) or isinstance(wanted, Beyond):
            return None
        if isinstance(given, Option) or isinstance(wanted, Option):
            return self._options(given, wanted)
        if isinstance(given, Words) or isinstance(wanted, Words):
            return self._words(given, wanted)
        given, wanted = _plain(given), _plain(wanted)
        if isinstance(given, Relation) or isinstance(wanted, Relation):
            return self._relations(given, wanted)
        given, wanted = _expanded(given), _expanded(wanted)
        if isinstance(given, Ratio) or isinstance(wanted, Ratio):
            return self._ratios(given, wanted)
        if isinstance(given, Matrix) or isinstance(wanted, Matrix):
            return self._matrices(given, wanted)
        region = self._regions(given, wanted)
        if region is not None:
            return region
        if isinstance(given, Items) or isinstance(wanted, Items):
            return self._items(given, wanted)
        if isinstance(given, Scalar) and isinstance(wanted, Scalar):
            return self.scalars(given, wanted)
        return False

    # -- words and choices ------------------------------------------------------------

    def _options(self, given: Answer, wanted: Answer) -> bool | None:
        if isinstance(wanted, Option):
            if isinstance(given, Option):
                if given.letter != wanted.letter:
                    return False
                if given.content is None or wanted.content is None:
                    return True
                return self.agree(given.content, wanted.content)
            if _letter(given) is not None:
                return _letter(given) == wanted.letter
            return wanted.content is not None and self.agree(given, wanted.content)
        if _letter(wanted) is not None:
            return given.letter == _letter(wanted)
        return given.content is not None and self.agree(given.content, wanted)

    def _words(self, given: Answer, wanted: Answer) -> bool:
        if isinstance(given, Words) and isinstance(wanted, Words):
            return given.text == wanted.text
        if isinstance(given, Relation) and isinstance(wanted, Words):
            # "Colour = red": the name of the quantity before the word.
            return (
                len(given.parts) == 2
                and given.operators == ("=",)
                and isinstance(given.parts[1], Words)
                and given.parts[1].text == wanted.text
            )
        return False

    # -- single values --------------------------------------------------------------

    def scalars(self, given: Scalar, wanted: Scalar) -> bool | None:
        """Numbers with their marks: 28 % is 28 or 0.28, a right angle is 90 or pi/2."""
        if given.modulus is not None or wanted.modulus is not None:
            return self._residues(given, wanted)
        mine, theirs = given.unit, wanted.unit
        if mine and theirs and mine.dimensions and theirs.dimensions:
            if mine.dimensions != theirs.dimensions:
                return False
            a, b = times(given.node, mine.factor), times(wanted.node, theirs.factor)
            return self._value(a, b)
        if given.mark == wanted.mark:
            return self._value(given.node, wanted.node)
        if given.mark and wanted.mark:
            return False
        if (mine or theirs) and "%" in (given.mark, wanted.mark):
            return False
        if wanted.mark == "%":
            return self._any(
                (given.node, wanted.node), (given.node, times(wanted.node, Fraction(1, 100)))
            )
        if given.mark == "%":
            pairs = [(times(given.node, Fraction(1, 100)), wanted.node)]
            # A number up to one is a share, and 0.5 % is not a half of everything.
            if not _at_most_one(wanted.node):
                pairs.append((given.node, wanted.node))
            return self._any(*pairs)
        marked, bare = (given, wanted) if given.mark else (wanted, given)
        pairs = [(marked.node, bare.node)]
        if marked.mark == "°" and has(bare.node, "pi"):
            pairs.append((("*", times(marked.node, Fraction(1, 180)), _PI), bare.node))
        return self._any(*pairs)

    def _residues(self, given: Scalar, wanted: Scalar) -> bool | None:
        if wanted.modulus is None:
            return False
        if given.modulus is None:
            return self._value(given.node, wanted.node)
        if not same_value(given.modulus, wanted.modulus):
            return False
        numbers = [value_of(n) for n in (given.node, wanted.node, wanted.modulus)]
        if not all(isinstance(n, Fraction) for n in numbers) or numbers[2] == 0:
            return self._value(given.node, wanted.node)
        return ((numbers[0] - numbers[1]) / numbers[2]).denominator == 1

    def _value(self, a: Node, b: Node) -> bool | None:
        if b[0] == "base" and a[0] == "num":
            return num(int(b[1])) == a if len(b[1]) < 4000 else False
        verdict = same_value(a, b, self.tolerance)
        if verdict is False and (renamed := same_constant_name(a, b)) is not None:
            return same_value(renamed, b, self.tolerance)
        return verdict

    def _any(self, *pairs: tuple[Node, Node]) -> bool | None:
        answers = [self._value(a, b) for a, b in pairs]
        return True if True in answers else None if None in answers else False

    def _ratios(self, given: Answer, wanted: Answer) -> bool | None:
        if isinstance(given, Ratio) and isinstance(wanted, Ratio):
            if given.text == wanted.text:
                return True
            # 3:30 is a time as much as a ratio: minutes are not cancelled.
            if len(given.parts) != len(wanted.parts) or _clock(given) or _clock(wanted):
                return False
            first, *rest = zip(given.parts, wanted.parts, strict=True)
            answers = [
                same_value(("*", a, first[1]), ("*", b, first[0]), self.tolerance) for a, b in rest
            ]
            return all(answers) if None not in answers else None
        ratio, other = (given, wanted) if isinstance(given, Ratio) else (wanted, given)
        if len(ratio.parts) != 2 or not isinstance(other, Scalar) or _clock(ratio):
            return False
        if other.unit is not None or other.mark:
            return False
        return self._value(("/", *ratio.parts), other.node)

    # -- several values -------------------------------------------------------------

    def _items(self, given: Answer, wanted: Answer) -> bool | None:
        a, b = _as_items(given), _as_items(wanted)
        if a.kind != b.kind and {a.kind, b.kind} != {"list", "set"}:
            if {a.kind, b.kind} == {"tuple", "list"}:
                # A bare list for a point: the order must be the point's.
                return self._in_order(a.items, b.items)
            if {a.kind, b.kind} == {"bracket", "list"} and len(b.items) > 2:
                return self._in_order(a.items, b.items)  # a list as a program prints it
            return False
        if a.kind in ("tuple", "bracket"):
            return self._in_order(a.items, b.items)
        if named_apart(a.items) != named_apart(b.items):
            if "set" in (a.kind, b.kind):
                return False
            return self._in_order(a.items, b.items)  # x = 1, y = 2 is not answered by 2, 1
        if len(a.items) > 4 * len(b.items) + 4:
            return False  # a shotgun, and slow to compare
        return self._matched(self._distinct(a.items), self._distinct(b.items))

    def _in_order(self, a: Sequence[Answer], b: Sequence[Answer]) -> bool | None:
        if len(a) != len(b):
            return False
        answers = [self.agree(x, y) for x, y in zip(a, b, strict=True)]
        return False if False in answers else None if None in answers else True

    def _distinct(self, items: Sequence[Answer]) -> list[Answer]:
        kept: list[Answer] = []
        for item in items:
            if not any(item == k or self._surely(item, k) for k in kept):
                kept.append(item)
        return kept

    def _surely(self, a: Answer, b: Answer) -> bool:
        try:
            return self.agree(a, b) is True and self.agree(b, a) is True
        except (TooLarge, Undefined, ZeroDivisionError):
            return False

    def _matched(self, a: list[Answer], b: list[Answer]) -> bool | None:
        """Whether the items of both pair off, one to one."""
        if len(a) != len(b):
            return False
        left, unknown = list(b), False
        for item in a:
            for place, other in enumerate(left):
                verdict = self.agree(item, other)
                if verdict:
                    del left[place]
                    break
                unknown |= verdict is None
            else:
                return None if unknown else False
        return True

    def _matrices(self, given: Answer, wanted: Answer) -> bool | None:
        if isinstance(given, Matrix) and isinstance(wanted, Matrix):
            if [len(r) for r in given.rows] != [len(r) for r in wanted.rows]:
                return False
            cells = [
                self._value(a, b)
                for row, other in zip(given.rows, wanted.rows, strict=True)
                for a, b in zip(row, other, strict=True)
            ]
            return False if False in cells else None if None in cells else True
        matrix, other = (given, wanted) if isinstance(given, Matrix) else (wanted, given)
        vector = _vector(matrix)
        if vector is None or not isinstance(other, Items) or other.kind != "tuple":
            return False
        pair = (vector, other.items) if matrix is given else (other.items, vector)
        return self._in_order(*pair)

    # -- sets of reals ----------------------------------------------------------------

    def _regions(self, given: Answer, wanted: Answer) -> bool | None:
        """Compared as sets when one side can only be a set; `None` when neither is."""
        if not any(isinstance(x, (Region, Interval)) for x in (given, wanted)):
            return None
        a, b = (as_region(x, pairs=True) for x in (given, wanted))
        if a is None or b is None:
            if isinstance(wanted, Region) and len(wanted.points) == 1 and not wanted.intervals:
                return self.agree(given, Scalar(wanted.points[0]))
            return False
        if a.variable and b.variable and a.variable != b.variable:
            return False
        return self._same_sets(a, b)

    def _same_sets(self, a: Region, b: Region) -> bool | None:
        try:
            first, second = canonical(a), canonical(b)
        except Undefined:  # ends with letters: compared as they are written
            first, second = a, b
        if len(first.intervals) != len(second.intervals):
            return False
        if len(first.points) != len(second.points):
            return False
        for x, y in zip(first.intervals, second.intervals, strict=True):
            if (x.low_closed, x.high_closed) != (y.low_closed, y.high_closed):
                return False
            for end, other in ((x.low, y.low), (x.high, y.high)):
                if not self._value(end, other):
                    return False
        return self._matched([Scalar(p) for p in first.points], [Scalar(p) for p in second.points])

    # -- equations and inequalities -----------------------------------------------------

    def _relations(self, given: Answer, wanted: Answer) -> bool | None:
        if isinstance(given, Relation) and isinstance(wanted, Relation):
            one, other = as_region(given), as_region(wanted)
            if other is not None:
                if one is not None:
                    if one.variable != other.variable:
                        return False
                    return self._same_sets(one, other)
                name, value = assigned(given)
                # x = 5 is answered by x = 10/2; an equation that must be solved is no answer.
                if value is not None and name == assigned(wanted)[0]:
                    return self.agree(value, assigned(wanted)[1])
                return False
            (name, value), (wanted_name, wanted_value) = assigned(given), assigned(wanted)
            if value is not None and wanted_value is not None and name == wanted_name:
                return self.agree(value, wanted_value)
            return self._same_relation(given, wanted)
        relation, other = (given, wanted) if isinstance(given, Relation) else (wanted, given)
        region = as_region(relation)
        if region is not None and (region.intervals or isinstance(other, (Region, Interval))):
            bare = Region(region.intervals, region.points)
            return bool(self._regions(*((bare, other) if relation is given else (other, bare))))
        values = asserted(relation, self.scalars)
        if values is None:
            return False
        for value in values:
            pair = (value, other) if relation is given else (other, value)
            verdict = self.agree(*pair)
            if verdict is not False:
                return verdict
        return False

    def _same_relation(self, given: Relation, wanted: Relation) -> bool | None:
        """The same equation up to a factor; the same inequality up to a positive one."""
        if len(given.operators) != 1 or len(wanted.operators) != 1:
            return self._in_order(given.parts, wanted.parts) and (
                given.operators == wanted.operators
            )
        f, g = difference(given), difference(wanted)
        if f is None or g is None:
            return given.operators == wanted.operators and self._in_order(given.parts, wanted.parts)
        (f, op), (g, wanted_op) = f, g
        names = symbols(f) | symbols(g)
        if not names or has(f, "i") or has(g, "i"):
            return False
        # f/g is a constant exactly when f(x) g(p) = f(p) g(x) for all x and one fixed p.
        point = {n: Fraction(3001 + 2 * k, 1999 + 6 * k) for k, n in enumerate(sorted(names))}
        try:
            f_p, g_p = value_of(f, point), value_of(g, point)
        except (Undefined, ZeroDivisionError):
            return None
        if f_p == 0 or g_p == 0:
            return False
        if not isinstance(f_p, Fraction) or not isinstance(g_p, Fraction):
            return same_value(f, g, self.tolerance) if op == wanted_op else False
        same = same_value(("*", f, num(g_p)), ("*", g, num(f_p)), self.tolerance)
        if not same:
            return same
        if op in ("=", "!="):
            return op == wanted_op
        flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[op]
        return wanted_op == (op if f_p / g_p > 0 else flipped)


def _letter(answer: Answer) -> str | None:
    """The capital that an answer consists of, as an option of a multiple choice."""
    if isinstance(answer, Scalar) and answer.node[0] == "sym" and not answer.mark:
        name = answer.node[1]
        return name if len(name) == 1 and "A" <= name <= "J" else None
    return None


def _plain(answer: Answer) -> Answer:
    """A tuple or set of one, and a labelled value, as that value."""
    if isinstance(answer, Items) and answer.kind == "set" and len(answer.items) == 1:
        return answer.items[0]
    return answer


def _expanded(answer: Answer) -> Answer:
    """A scalar with plus-minus as the list of its two values."""
    if isinstance(answer, Scalar):
        nodes = expand_signs(answer.node)
        if len(nodes) == 2:
            return Items("list", tuple(Scalar(n, answer.unit, answer.mark) for n in nodes))
    if isinstance(answer, Items) and answer.kind in ("list", "set"):
        flat: list[Answer] = []
        for item in answer.items:
            value = item
            if isinstance(item, Relation) and assigned(item)[1] is not None:
                value = assigned(item)[1]
            wide = _expanded(value) if value is not None else item
            two = isinstance(value, Scalar) and isinstance(wide, Items)
            flat += wide.items if two else [item]
        return Items(answer.kind, tuple(flat))
    return answer


def _as_items(answer: Answer) -> Items:
    return answer if isinstance(answer, Items) else Items("list", (answer,))


def _vector(matrix: Matrix) -> tuple[Answer, ...] | None:
    if len(matrix.rows) == 1:
        return tuple(Scalar(c) for c in matrix.rows[0])
    if all(len(r) == 1 for r in matrix.rows):
        return tuple(Scalar(r[0]) for r in matrix.rows)
    return None


def _at_most_one(node: Node) -> bool:
    try:
        value = value_of(node)
        return isinstance(value, Fraction) and abs(value) <= 1
    except (TooLarge, Undefined, ArithmeticError, KeyError):
        return False


def _clock(ratio: Ratio) -> bool:
    """Whether a ratio may be a time of day: 3:30, 12:05."""
    last = ratio.text.split(":")[-1]
    return len(ratio.parts) <= 3 and len(last) == 2 and last.isdigit() and int(last) < 60


def is_too_large(answer: Answer) -> bool:
    """Whether a value of this answer is beyond what is computed."""
    if isinstance(answer, Items):
        return any(is_too_large(i) for i in answer.items)
    if isinstance(answer, Relation):
        return any(is_too_large(p) for p in answer.parts)
    if not isinstance(answer, Scalar):
        return False
    try:
        value_of(answer.node, dict.fromkeys(symbols(answer.node), Fraction(1361, 997)))
    except TooLarge:
        return True
    except (Undefined, ArithmeticError):
        return False
    return False
