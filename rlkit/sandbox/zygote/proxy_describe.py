"""What one end tells of an object that stays with it, so that the other makes a stand-in.

    ("class", name, bases, special, exception, enumeration)    bases packed, nearest first
    ("function", name, doc, coroutine)           called, and nothing else
    ("module", name)
    ("iterator", name)                           of Python's own: generator, map, zip, ...
    ("coroutine", name)
    ("instance", class, hash, args)              args: of an exception; hash: None for default

Everything is found by `type()` and by the dictionaries of classes, never by asking the
object itself, except for `__hash__` where a class has one of its own.
"""

from __future__ import annotations

import builtins
import types
from itertools import chain

#: Special methods that a stand-in offers when its class has them.
SPECIAL = frozenset(
    f"__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "divmod"),
        *("and", "or", "xor", "lshift", "rshift"),
        *("radd", "rsub", "rmul", "rtruediv", "rfloordiv", "rmod", "rmatmul", "rpow"),
        *("rdivmod", "rand", "ror", "rxor", "rlshift", "rrshift"),
        *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "imatmul", "ipow"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
        *("neg", "pos", "invert", "abs", "round", "trunc", "floor", "ceil"),
        *("int", "float", "complex", "index", "bool", "bytes", "len", "contains"),
        *("getitem", "setitem", "delitem", "iter", "next", "reversed", "call"),
        *("enter", "exit", "lt", "le", "gt", "ge", "eq", "ne", "hash", "str", "repr", "format"),
        *("await", "aenter", "aexit", "aiter", "anext"),
    )
)

_mro_of = type.__dict__["__mro__"].__get__
_bases_of = type.__dict__["__bases__"].__get__
_name_of = type.__dict__["__name__"].__get__
_dict_of = type.__dict__["__dict__"].__get__

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_ITERATORS = frozenset(
    (
        *map(
            type, (iter([]), iter(()), iter({}), iter(set()), iter(""), iter(b""), iter(range(0)))
        ),
        *map(type, (iter({}.values()), iter({}.items()), reversed([]), chain())),
        *(map, filter, zip, enumerate, reversed, types.GeneratorType),
    )
)


def describe_object(values, value: object) -> tuple:
    """The description of one object, as packed data."""
    kind = type(value)
    if issubclass(kind, type):
        return _describe_class(values, value)
    if kind in _FUNCTIONS or (kind.__module__ == "functools" and callable(value)):
        doc = getattr(value, "__doc__", None)
        flags = getattr(getattr(value, "__code__", None), "co_flags", 0)
        return (
            "function",
            _plain_name(getattr(value, "__name__", "")),
            doc[:2000] if type(doc) is str else None,
            bool(flags & 0x80),  # CO_COROUTINE
        )
    if kind is types.ModuleType:
        return "module", _plain_name(getattr(value, "__name__", ""))
    if kind is types.CoroutineType:
        return "coroutine", _plain_name(value.__name__)
    if kind in _ITERATORS or (kind.__module__ == "itertools" and "__next__" in _dict_of(kind)):
        return "iterator", _plain_name(_name_of(kind))
    args = None
    if issubclass(kind, BaseException):
        args = tuple(values.pack(arg) for arg in tuple(BaseException.args.__get__(value)))
    return "instance", _packed_class(values, kind), _hash_of(value, kind), args


def _packed_class(values, kind: type) -> tuple:
    # Never by name: only exceptions of Python's own are the receiver's own classes.
    if issubclass(kind, BaseException) and getattr(builtins, _name_of(kind), None) is kind:
        return "b", "builtins", _name_of(kind)
    home = values.home_number(kind)
    return values.hand_out(kind) if home is None else ("o", home)


def _describe_class(values, kind: type) -> tuple:
    mro = _mro_of(kind)
    special = {
        name
        for base in mro
        if base is not object
        for name, method in _dict_of(base).items()
        if name in SPECIAL and method is not None
    }
    enumeration = any(_name_of(base) == "Enum" and base.__module__ == "enum" for base in mro)
    bases = [_packed_class(values, base) for base in _bases_of(kind) if base is not object]
    unhashable = next(
        (_dict_of(base)["__hash__"] is None for base in mro if "__hash__" in _dict_of(base)), False
    )
    if unhashable:
        special.add("unhashable")
    exception = issubclass(kind, BaseException)
    return "class", _plain_name(_name_of(kind)), bases, tuple(special), exception, enumeration


def _hash_of(value: object, kind: type) -> int | None:
    for base in _mro_of(kind):
        if "__hash__" in _dict_of(base):
            if base in (object, BaseException) or _dict_of(base)["__hash__"] is None:
                return None
            break
    try:
        return int.__index__(hash(value))
    except BaseException:
        return None


def _plain_name(name: object) -> str:
    text = name if type(name) is str else ""
    return text[:100] if text[:100].isidentifier() else "object"
