"""Further kinds of plain data that tests and programs exchange, beside the codec's own.

Each is rebuilt by the receiver from its own classes: what arrives is data, not a claim. A
named tuple becomes a named tuple of the receiver's making if its class adds nothing to it;
an array of numbers becomes an array of the receiver's numpy, or a list where it has none.

Left out: enumerations and data classes, which are objects of the program.
"""

from __future__ import annotations

import builtins
import datetime
import importlib
import re
import sys
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from math import prod

#: Modules whose functions and classes are handed over by name: each end has its own.
BY_NAME = ("builtins", "operator", "math", "collections", "itertools", "functools", "string")

_VIEWS = {
    type({}.keys()): "keys",
    type({}.values()): "values",
    type({}.items()): "items",
}
_DATES = {
    datetime.date: "date",
    datetime.datetime: "datetime",
    datetime.time: "time",
    datetime.timedelta: "timedelta",
}
_NAMED_TUPLE_OWN = frozenset(dir(namedtuple("Plain", "a"))) | {"__annotations__", "__orig_bases__"}
_ARRAYS = "biufc"
_DTYPE = re.compile(rf"[<>|=]?[{_ARRAYS}]\d{{1,2}}")


def pack(values, value: object) -> tuple | None:
    """The value packed with the tag `k` or `b`; None when it is not one of these kinds."""
    kind = type(value)
    if kind is Decimal:
        return "k", "Decimal", str(value)
    if kind is Fraction:
        return "k", "Fraction", (value.numerator, value.denominator)
    if kind is range:
        return "k", "range", (value.start, value.stop, value.step)
    if kind is slice:
        parts = (value.start, value.stop, value.step)
        return "k", "slice", [values.pack(part) for part in parts]
    if value is Ellipsis or value is NotImplemented:
        return "k", "constant", repr(value)
    if kind in _VIEWS:
        return "k", _VIEWS[kind], [values.pack(item) for item in list(value)]
    if kind in _DATES:
        return _pack_date(value, kind)
    if issubclass(kind, tuple) and kind.__bases__ == (tuple,):
        return _pack_named(values, value, kind)
    if kind.__module__ == "numpy" and "numpy" in sys.modules:
        return _pack_array(values, value, kind)
    if kind in (type, type(len)) or kind is type(operator_like):
        return _by_name(value)
    return None


def unpack(values, packed: tuple) -> object:
    """The value that `pack` made data of; raises ValueError and the like on anything else."""
    if packed[0] == "b":
        _, module, name = packed
        if module not in BY_NAME or name.startswith("_"):
            raise ValueError(f"{module}.{name} is not handed over by name")
        if module == "builtins" and name in _DANGEROUS and values.leads:
            raise ValueError(f"{name} is not handed over")
        return getattr(importlib.import_module(module), name)
    _, kind, state = packed
    if kind == "Decimal":
        return Decimal(state)
    if kind == "Fraction":
        return Fraction(*state)
    if kind == "range":
        return range(*state)
    if kind == "slice":
        return slice(*[values.unpack(part) for part in state])
    if kind == "constant":
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[state]
    if kind in ("keys", "items", "values"):
        items = [values.unpack(item) for item in state]
        if kind == "keys":
            return dict.fromkeys(items).keys()
        return dict(items).items() if kind == "items" else dict(enumerate(items)).values()
    if kind == "named":
        name, fields, items = state
        made = namedtuple(name, fields)  # checks that all of them are identifiers
        return made(*[values.unpack(item) for item in items])
    if kind == "array":
        return _unpack_array(*state)
    return _unpack_date(kind, state)


_DANGEROUS = frozenset(
    ("eval", "exec", "compile", "open", "input", "breakpoint", "getattr", "setattr", "delattr")
)


def operator_like() -> None:
    """Only here to name the type of a Python function."""


def _by_name(value: object) -> tuple | None:
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    # The operator module and a few others say where they are written, not where they are found.
    for place in (module, str(module).lstrip("_")):
        if place in BY_NAME and type(name) is str and not name.startswith("_"):
            home = builtins if place == "builtins" else sys.modules.get(place)
            if getattr(home, name, None) is value:
                return "b", place, name
    return None


def _pack_named(values, value: tuple, kind: type) -> tuple | None:
    fields = kind.__dict__.get("_fields")
    if type(fields) is not tuple or not _NAMED_TUPLE_OWN.issuperset(
        set(kind.__dict__) - set(fields)
    ):
        return None  # a class with methods of its own
    if not all(type(field) is str for field in fields):
        return None
    items = [values.pack(item) for item in tuple.__iter__(value)]
    return "k", "named", (kind.__name__, list(fields), items)


def _pack_date(value, kind: type) -> tuple | None:
    if kind is datetime.timedelta:
        return "k", "timedelta", (value.days, value.seconds, value.microseconds)
    zone = getattr(value, "tzinfo", None)
    if zone is not None and zone is not datetime.timezone.utc:
        return None
    text = value.isoformat()
    return "k", _DATES[kind], text


def _unpack_date(kind: str, state: object) -> object:
    if kind == "timedelta":
        return datetime.timedelta(*state)
    made = getattr(datetime, {"date": "date", "time": "time", "datetime": "datetime"}[kind])
    return made.fromisoformat(state)


def _pack_array(values, value, kind: type) -> tuple | None:
    numpy = sys.modules["numpy"]
    if kind is numpy.ndarray and value.dtype.kind in _ARRAYS:
        dtype = value.dtype.newbyteorder("<")
        data = value.astype(dtype, copy=False).tobytes()
        return "k", "array", (dtype.str, list(value.shape), data)
    if issubclass(kind, numpy.generic) and value.dtype.kind in _ARRAYS:
        return "k", "array", (value.dtype.newbyteorder("<").str, None, value.tobytes())
    return None


def _unpack_array(dtype: str, shape: list | None, data: bytes) -> object:
    if type(data) is not bytes or _DTYPE.fullmatch(dtype) is None:
        raise ValueError("not an array of numbers")
    import numpy

    flat = numpy.frombuffer(data, dtype=numpy.dtype(dtype))
    if shape is None:
        return flat[0]
    if prod(shape) != len(flat):
        raise ValueError("an array of another shape")
    return flat.reshape(shape).copy()
