"""The few words of pytest that assertions are written with, for tests that import it.

`raises` and `approx` judge with this process's own values only. Left out: fixtures, marks
other than `parametrize`, warnings, and everything else; a test that needs them is not one for
proxy mode.
"""

from __future__ import annotations

import math
import re
import sys


class Raised:
    """What `raises` caught: `value` is the exception."""

    value: BaseException | None = None

    @property
    def type(self):
        return type(self.value)


class raises:
    """A block in which an exception must be raised; with `match`, its text must contain it."""

    def __init__(self, expected, *call, match=None, **kwargs):
        self.expected, self.match, self.raised = expected, match, Raised()
        if call:
            with self:
                call[0](*call[1:], **kwargs)

    def __enter__(self):
        return self.raised

    def __exit__(self, kind, error, trace):
        if error is None:
            raise AssertionError(f"nothing was raised; expected {self.expected}")
        if not isinstance(error, self.expected):
            return False
        self.raised.value = error
        if self.match is not None and not re.search(self.match, str(error)):
            raise AssertionError(f"raised {str(error)!r}, which does not match {self.match!r}")
        return True


class approx:
    """Equal to numbers nearby; also for lists, tuples and dicts of numbers."""

    __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

    def __eq__(self, got):
        return self._near(self.expected, got)

    def _near(self, expected, got):
        if type(expected) in (list, tuple):
            return (
                type(got) in (list, tuple)
                and len(got) == len(expected)
                and all(map(self._near, expected, got))
            )
        if type(expected) is dict:
            return (
                type(got) is dict
                and got.keys() == expected.keys()
                and all(self._near(expected[key], got[key]) for key in expected)
            )
        if type(got) not in (int, float, complex):
            plain = type(got).__module__ in ("builtins", "decimal", "fractions")
            return plain and type(got) is not object and expected == got
        if isinstance(got, float) and math.isnan(got):
            return self.nan_ok and isinstance(expected, float) and math.isnan(expected)
        if expected == got:
            return True
        rel = 1e-6 if self.rel is None and self.abs is None else self.rel or 0.0
        near = max(rel * abs(expected), 1e-12 if self.abs is None else self.abs)
        return not math.isinf(abs(got)) and abs(got - expected) <= near

    def __repr__(self):
        return f"approx({self.expected!r})"


def fail(reason=""):
    raise AssertionError(reason)


class mark:
    """Only `parametrize`; other marks change nothing."""

    @staticmethod
    def parametrize(names, values, **_):
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

        def decorate(function):
            cases = [dict(zip(names, row if len(names) > 1 else (row,))) for row in values]  # noqa: B905
            before = getattr(function, "_cases", [{}])
            function._cases = [{**one, **other} for one in before for other in cases]
            return function

        return decorate


def module():
    """A module with these names."""
    made = type(sys)("pytest")
    made.raises, made.approx, made.fail, made.mark = raises, approx, fail, mark
    return made
