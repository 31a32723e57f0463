"""What the cells that check an exercise say about an answer, in words for a learner.

`close`, `equal`, `shape`, `holds` and `raises` either return quietly or raise `Broken`,
whose message says what was there, what was expected, and by how much they differ. They
take anything: None, NaN, text where a number belongs, or the wrong shape each give a
sentence of their own.

Left out on purpose: which property was looked at, on which input, and the author's hint;
`examine` adds those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rlkit.sandbox.codec import CodecError, encode
from rlkit.sandbox.compare import same, short_repr

#: Distance within which numbers are close: absolute below 1, relative above.
TOLERANCE = 1e-6


class Broken(AssertionError):
    """Something an answer should be does not hold; the message says it in words."""


class LearnerError(Exception):
    """A call of the learner's function gave no value; the message says why in words.

    Attributes:
        kind: name of the exception, or of what stopped it, such as `TIMEOUT`.
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def close(
    actual: Any, expected: Any, tolerance: float = TOLERANCE, what: str = "the result"
) -> None:
    """Demands numbers close to the expected ones, and says by how much they are off.

    Args:
        actual: a number, or a (nested) list, array or tensor of numbers.
        expected: the same, of the right shape.
        tolerance: largest allowed distance; relative where the expected number is above 1.
        what: how the message calls `actual`.

    Raises:
        Broken: None, NaN, another type or shape, or too far away.

    >>> close([1.0, 2.0], [1.0, 2.0])
    >>> close([1.0, 2.5], [1.0, 2.0], what="the advantages")
    Traceback (most recent call last):
      ...
    rlkit.lessons.expect.Broken: the advantages are off by 0.5 at position 1: 2.5, expected 2
    """
    _given(actual, what)
    if _is_array(expected) or _is_array(actual):
        _same_shape(actual, expected, what)
    differences: list[_Difference] = []
    count = _compare(_plain(actual), _plain(expected), tolerance, what, (), differences)
    if not differences:
        return
    worst = max(differences, key=lambda d: d.distance)
    got, wanted = _two_numbers(worst.actual, worst.expected)
    if not worst.path:
        raise Broken(f"{what} is {got}, expected {wanted}: off by {say(worst.distance)}")
    others = "" if len(differences) == 1 else f"; {len(differences)} of {count} values differ"
    most = "" if len(differences) == 1 else "up to "
    raise Broken(
        f"{_are(what)} off by {most}{say(worst.distance)} at {_place(worst.path)}: {got}, "
        f"expected {wanted}{others}"
    )


def equal(actual: Any, expected: Any, what: str = "the result") -> None:
    """Demands the very same value, of the same type, and says where they part.

    Raises:
        Broken: another value, or another type (1 is not True, a tuple is no list).

    >>> equal("cab", "car")
    Traceback (most recent call last):
      ...
    rlkit.lessons.expect.Broken: the result is 'cab', expected 'car': they part at character 2
    """
    if expected is not None:
        _given(actual, what)
    if _is_array(expected) or _is_array(actual):
        close(actual, expected, 0.0, what)
        return
    if _equal(actual, expected):
        return
    got, wanted = short_text(actual), short_text(expected)
    if type(actual) is not type(expected):
        raise Broken(f"{what} is {kind_of(actual)}, {got}; expected {kind_of(expected)}, {wanted}")
    raise Broken(f"{what} is {got}, expected {wanted}{_where_they_part(actual, expected)}")


def shape(actual: Any, expected: Sequence[int | None], what: str = "the result") -> None:
    """Demands a shape: of a tensor, an array, or of nested lists.

    Args:
        actual: anything with a shape or a length.
        expected: the length along each axis; None takes any.

    Raises:
        Broken: another shape, or none at all.

    >>> shape([[1, 2, 3]], (1, None))
    >>> shape([1, 2, 3], (2,), what="the mask")
    Traceback (most recent call last):
      ...
    rlkit.lessons.expect.Broken: the mask has 3 values, expected 2
    """
    _given(actual, what)
    found = shape_of(actual)
    wanted = tuple(expected)
    if found is None:
        raise Broken(f"{what} is {kind_of(actual)}, expected the shape {_say_shape(wanted)}")
    fits = len(found) == len(wanted) and all(
        w is None or f == w for f, w in zip(found, wanted, strict=True)
    )
    if fits:
        return
    if len(found) == len(wanted) == 1 and not _is_array(actual):
        raise Broken(f"{what} has {_count(found[0])}, expected {wanted[0]}")
    raise Broken(f"{what} has the shape {_say_shape(found)}, expected {_say_shape(wanted)}")


def holds(condition: Any, sentence: str) -> None:
    """Demands that something is true; the sentence is what the learner reads when it is not.

    Args:
        condition: a truth value; of an array or tensor, all of it.
        sentence: what is wrong, with the numbers in it.

    Raises:
        Broken: it is not true, None, or NaN.

    >>> holds(2 > 1, "two is more than one")
    """
    truth = condition
    if hasattr(condition, "all") and shape_of(condition) not in (None, ()):
        truth = condition.all()
    if truth is None or (isinstance(truth, float) and math.isnan(truth)) or not truth:
        raise Broken(sentence)


def raises(action: Callable[[], Any], *names: str | type, what: str = "this call") -> None:
    """Demands that a call of the learner's function raises, for example on impossible input.

    Args:
        action: makes the call, for example `lambda: answer([])`.
        names: the exceptions that are right, as classes or names; any when none is given.
        what: how the message calls it.

    Raises:
        Broken: it returned a value, or raised something else.

    >>> def call_of_a_learner():
    ...     raise LearnerError("ValueError", "f([]) raised ValueError: nothing to average")
    >>> raises(call_of_a_learner, ValueError)
    """
    wanted = [name if isinstance(name, str) else name.__name__ for name in names]
    listed = " or ".join(wanted) or "an error"
    try:
        value = action()
    except LearnerError as error:
        if error.kind in ("TIMEOUT", "NOT_REACHED") or (wanted and error.kind not in wanted):
            raise Broken(f"{what} should raise {listed}; {error}") from None
        return
    raise Broken(f"{what} should raise {listed}, and returned {short_text(value)}")


# -- words ---------------------------------------------------------------------------------

_WORDS = {
    type(None): "None",
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes",
    list: "a list",
    tuple: "a tuple",
    dict: "a dict",
    set: "a set",
}


def kind_of(value: Any) -> str:
    """The type of a value, as one says it.

    >>> kind_of("a"), kind_of([1]), kind_of(len)
    ('text', 'a list', 'a function')
    """
    if _is_array(value):
        return f"{_a(type(value).__name__)} of shape {_say_shape(shape_of(value))}"
    if type(value) in _WORDS:
        return _WORDS[type(value)]
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "a function" if callable(value) else _a(type(value).__name__)


def short_text(value: Any, width: int = 80) -> str:
    """A value in about `width` characters; never raises.

    >>> short_text([1, 2.5])
    '[1, 2.5]'
    """
    try:
        encode(value)
    except CodecError:
        try:
            text = " ".join(repr(value).split())
        except Exception as error:  # a learner's own __repr__ may do anything
            return f"{_a(type(value).__name__)} that cannot be shown ({type(error).__name__})"
        return text if len(text) <= width else text[: width - 3] + "..."
    return short_repr(value, width)


def say(number: Any) -> str:
    """A number with six significant digits, as one writes it.

    >>> say(0.5), say(1 / 3), say(3)
    ('0.5', '0.333333', '3')
    """
    if isinstance(number, float) and math.isnan(number):
        return "NaN"
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array or of nested lists of equal lengths; None where there is none."""
    if _is_array(value):
        return tuple(int(length) for length in value.shape)
    if not isinstance(value, (list, tuple)):
        return None
    inner = {shape_of(item) for item in value}
    rest = inner.pop() if len(inner) == 1 else None
    return (len(value), *(rest or ()))


# -- comparing -----------------------------------------------------------------------------


class _Difference:
    def __init__(self, path: tuple, actual: float, expected: float) -> None:
        self.path, self.actual, self.expected = path, actual, expected
        distance = abs(actual - expected)
        self.distance = math.inf if math.isnan(distance) else distance


def _compare(
    actual: Any, expected: Any, tolerance: float, what: str, path: tuple, found: list
) -> int:
    """Collects numbers that are too far away; returns how many were compared."""
    here = f"{what} at {_place(path)}" if path else what
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)):
            raise Broken(
                f"{here} is {kind_of(actual)}, {short_text(actual)}; expected "
                f"{_count(len(expected))}"
            )
        if len(actual) != len(expected):
            raise Broken(f"{here} has {_count(len(actual))}, expected {len(expected)}")
        pairs = enumerate(zip(actual, expected, strict=True))
        return sum(_compare(a, e, tolerance, what, (*path, i), found) for i, (a, e) in pairs)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            shown = sorted(map(str, actual)) if isinstance(actual, dict) else kind_of(actual)
            raise Broken(f"{here} has the keys {shown}, expected {sorted(map(str, expected))}")
        return sum(
            _compare(actual[k], e, tolerance, what, (*path, k), found) for k, e in expected.items()
        )
    if not _is_number(expected):
        equal(actual, expected, here)
        return 1
    if not _is_number(actual):
        hint = ": is a return missing?" if actual is None and not path else ""
        raise Broken(
            f"{here} is {kind_of(actual)}"
            + ("" if actual is None else f", {short_text(actual)}")
            + f"; expected a number, {say(expected)}{hint}"
        )
    if _is_nan(actual) and not _is_nan(expected):
        raise Broken(
            f"{here} is NaN (not a number), expected {say(expected)}; 0/0, inf − inf and the "
            "logarithm of a negative number give NaN"
        )
    if (_is_nan(actual) and _is_nan(expected)) or actual == expected:
        return 1
    # Infinities are close to nothing else; their distance to anything may be NaN.
    odd = _is_nan(expected) or math.isinf(actual) or math.isinf(expected)
    if odd or abs(actual - expected) > tolerance * max(1.0, abs(expected)):
        found.append(_Difference(path, float(actual), float(expected)))
    return 1


def _given(actual: Any, what: str) -> None:
    if actual is None:
        raise Broken(f"{what} is None: is a return missing?")


def _same_shape(actual: Any, expected: Any, what: str) -> None:
    found, wanted = shape_of(actual), shape_of(expected) or ()
    if found is None and _is_number(actual):
        found = ()
    if found is None:
        raise Broken(f"{what} is {kind_of(actual)}, expected the shape {_say_shape(wanted)}")
    if found != wanted:
        raise Broken(f"{what} has the shape {_say_shape(found)}, expected {_say_shape(wanted)}")


def _plain(value: Any) -> Any:
    """Arrays and tensors as nested lists of numbers; anything else as it is."""
    if _is_array(value):
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            if str(value.dtype) == "torch.bfloat16":
                value = value.float()
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _equal(actual: Any, expected: Any) -> bool:
    try:
        encode(expected), encode(actual)
    except CodecError:
        try:
            return bool(type(actual) is type(expected) and actual == expected)
        except Exception as error:
            raise Broken(f"the value cannot be compared: {error}") from None
    return same(expected, actual, 0.0)


def _where_they_part(actual: Any, expected: Any) -> str:
    if not isinstance(actual, (str, list, tuple)):
        return ""
    noun = "character" if isinstance(actual, str) else "position"
    pairs = enumerate(zip(actual, expected, strict=False))
    at = next((i for i, (a, e) in pairs if not _equal(a, e)), min(len(actual), len(expected)))
    if len(actual) != len(expected):
        unit = "character" if noun == "character" else "value"
        plural = "" if len(actual) == 1 else "s"
        return f": {len(actual)} {unit}{plural} where {len(expected)} belong"
    return f": they part at {noun} {at}"


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "tolist") and not isinstance(value, type)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_nan(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _two_numbers(actual: float, expected: float) -> tuple[str, str]:
    """Both as short as possible, and as long as it takes to tell them apart."""
    short = say(actual), say(expected)
    return short if short[0] != short[1] else (repr(actual), repr(expected))


def _place(path: tuple) -> str:
    if len(path) == 1:
        return f"position {path[0]}" if isinstance(path[0], int) else f"{path[0]!r}"
    return "position [" + ", ".join(str(step) for step in path) + "]"


def _say_shape(lengths: Sequence[int | None]) -> str:
    inner = ", ".join("any" if length is None else str(length) for length in lengths)
    return f"({inner},)" if len(lengths) == 1 else f"({inner})"


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"


def _are(what: str) -> str:
    return f"{what} {'are' if what.endswith('s') and not what.endswith('ss') else 'is'}"


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
