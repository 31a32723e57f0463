"""Special methods of stand-ins, and the making of stand-ins; the rules are in `proxy_stubs`."""

from __future__ import annotations

from rlkit.sandbox.zygote.proxy_describe import SPECIAL
from rlkit.sandbox.zygote.proxy_stubs import (
    Remote,
    RemoteClass,
    RemoteError,
    RemoteFunction,
    set_own,
)
from rlkit.sandbox.zygote.proxy_values import CONTAINERS, SCALARS, Home

_RESULTS = {
    "len": int, "hash": int, "str": str, "repr": str, "format": str, "contains": bool,
    "int": int, "float": float, "complex": complex, "index": int, "bytes": bytes, "bool": bool,
}  # fmt: skip
_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "divmod"),
    *("lshift", "rshift"),
)
_LOGIC = {"and": "and_", "or": "or_", "xor": "xor"}
_ORDER = ("lt", "le", "gt", "ge")
#: What gives numbers, or a yes or no, and is refused to the result of a mixed operator.
_MEASURES = frozenset(
    (
        *("abs", "round", "trunc", "floor", "ceil", "int", "float", "complex", "index"),
        *("bool", "len", "contains", "getitem", "iter", "next", "neg", "pos"),
    )
)
#: Plain data cannot be asked these, so an opaque object may.
_HARMLESS = frozenset(("call", "enter", "exit", "await", "next"))


#: What an opaque object is shown as: nothing in it is the program's.
_NOBODY = "<an object>"


def _tainted(value):
    return getattr(value, "_rl_taint", False) is True


def _unary(operation):
    result = _RESULTS.get(operation)

    def method(self, *operands):
        peer = self._rl_peer
        if peer.leads and not self._rl_open and operation not in _HARMLESS:
            return _NOBODY if operation in ("str", "repr", "format") else peer.opaque(operation)
        if operation in _MEASURES and peer.leads and _tainted(self):
            peer.refuse(f"{operation} of what an operator made of an object and a plain value")
        value = peer.ask("op", operation, Home(self._rl_number), *operands)
        return value if result is None else peer.exactly(result, value)

    return method


def _binary(operation, reflected):
    def method(self, other, *more):
        peer = self._rl_peer
        pair = (other, Home(self._rl_number)) if reflected else (Home(self._rl_number), other)
        if not peer.leads:
            return peer.ask("op", operation, *pair, *more)
        if not self._rl_open:
            return peer.opaque(operation)
        value = peer.ask("op", operation, *pair, *more)
        mixed = not isinstance(other, Remote)
        if mixed or _tainted(self) or _tainted(other):
            if not isinstance(value, Remote):
                peer.refuse("an operator between an object and a plain value gave a plain value")
            value._rl_taint = True
        return value

    return method


def _comparison(operation):
    def method(self, other):
        peer = self._rl_peer
        if not isinstance(other, (Remote, RemoteError)):
            plain = type(other) in SCALARS or type(other) in (*CONTAINERS, tuple, frozenset)
            if operation in _ORDER and peer.leads and plain:
                peer.refuse(f"'{operation}' between an object and a plain value")
            return NotImplemented
        if peer.leads and not (self._rl_open and other._rl_open):
            if operation in _ORDER:
                peer.opaque(operation)
            return (self is other) is (operation == "eq")
        value = peer.ask("op", operation, Home(self._rl_number), other)
        return peer.exactly(bool, value) if peer.leads else value

    return method


def _bool(self):
    peer = self._rl_peer
    if peer.leads and _tainted(self):
        peer.refuse("the truth of what an operator made of an object and a plain value")
    if peer.leads and not self._rl_open:
        # It is worth no more than True or False, and may not change its mind.
        if not hasattr(self, "_rl_once"):
            truth = peer.exactly(bool, peer.ask("op", "bool", Home(self._rl_number)))
            self._rl_once = {"bool": truth}
        return self._rl_once.setdefault("bool", True)
    return peer.exactly(bool, peer.ask("op", "bool", Home(self._rl_number)))


def _iter(self):
    peer = self._rl_peer
    if peer.leads and not self._rl_open:
        if not hasattr(self, "_rl_once"):
            self._rl_once = {}
        if self._rl_once.get("iter"):
            return peer.opaque("a second pass of iteration")
        self._rl_once["iter"] = True
    elif peer.leads and _tainted(self):
        peer.refuse("iteration over what an operator made of an object and a plain value")
    return iter_of(peer.ask("op", "iter", Home(self._rl_number)), self)


def iter_of(found, owner):
    """What `iter` gave, as an iterator of this process."""
    return _Stepping(found) if isinstance(found, Remote) else iter(found)


class _Stepping:
    """Steps through an iterator that is an object of the program's own class."""

    def __init__(self, remote):
        self.remote, self.ended = remote, False

    def __iter__(self):
        return self

    def __next__(self):
        if self.ended:
            raise StopIteration
        try:
            return self.remote._rl_peer.ask("op", "next", Home(self.remote._rl_number))
        except StopIteration:
            self.ended = True
            raise


def _hash(self):
    known = self._rl_peer.hashes.get(self._rl_number)
    return object.__hash__(self) if known is None else known


def _call(self, *args, **kwargs):
    return self._rl_peer.call(self._rl_number, type(self).__name__, args, kwargs)


def _exit(self, kind, error, trace):
    return self._rl_peer.ask("op", "exit", Home(self._rl_number), kind, error, None)


def _await(self):
    return self._rl_peer.ask("op", "await", Home(self._rl_number))
    yield


METHODS = {
    **{f"__{name}__": _unary(name) for name in (
        *("neg", "pos", "invert", "abs", "round", "trunc", "floor", "ceil"),
        *("int", "float", "complex", "index", "bytes", "len", "contains"),
        *("getitem", "setitem", "delitem", "next", "reversed", "enter", "str", "repr"),
    )},
    **{f"__{name}__": _binary(name, False) for name in _BINARY},
    **{f"__r{name}__": _binary(name, True) for name in _BINARY},
    **{f"__i{name}__": _binary(f"i{name}", False) for name in _BINARY if name != "divmod"},
    **{f"__{name}__": _binary(word, False) for name, word in _LOGIC.items()},
    **{f"__r{name}__": _binary(word, True) for name, word in _LOGIC.items()},
    **{f"__i{name}__": _binary(f"i{name}", False) for name in _LOGIC},
    **{f"__{name}__": _comparison(name) for name in (*_ORDER, "eq", "ne")},
    "__bool__": _bool, "__iter__": _iter, "__hash__": _hash, "__call__": _call,
    "__exit__": _exit, "__await__": _await, "__format__": _unary("format"),
}  # fmt: skip


def make_class(peer, number, name, bases, special, exception, enumeration):
    """A class that stands for one of the other end's."""
    space = {
        "__slots__": (), "_rl_peer": peer, "_rl_class": number, "__module__": "solution",
        "_rl_enumeration": enumeration is True,
    }  # fmt: skip
    wanted = SPECIAL.intersection(special)
    for method in wanted:
        if method in METHODS and not exception:
            space[method] = METHODS[method]
    if "__repr__" in space and "__str__" not in space:
        space["__str__"] = METHODS["__str__"]
    if "__len__" in wanted and "__bool__" not in wanted:
        space["__bool__"] = _bool
    if "__getitem__" in wanted and "__iter__" not in wanted:
        space["__iter__"] = _iter
    if "__eq__" in wanted and not exception:
        space["__hash__"] = None if "unhashable" in special else _hash
    root = RemoteError if exception else Remote
    parents = [
        base
        for base in bases
        if (isinstance(base, RemoteClass) and issubclass(base, root))
        or (exception and isinstance(base, type) and issubclass(base, BaseException))
    ]
    if exception:
        del space["__slots__"]
        if not any(issubclass(base, RemoteError) for base in parents):
            parents.insert(0, RemoteError)
        if not any(issubclass(base, BaseException) for base in parents):
            parents.append(Exception)
    elif not parents:
        parents = [Remote]
    try:
        return type.__new__(RemoteClass, name, tuple(parents), space)
    except TypeError:  # bases that do not fit together here
        fallback = (RemoteError, Exception) if exception else (Remote,)
        return type.__new__(RemoteClass, name, fallback, space)


def make_instance(cls, number, args):
    """An object that stands for one of the other end's."""
    made = cls.__new__(cls)
    if isinstance(made, RemoteError):
        made.__dict__.update(_rl_number=number)
        made.args = args
    else:
        set_own(made, "_rl_number", number)
    return made


def make_function(peer, number, name, doc, coroutine):
    """A function that calls one of the other end's; on the program's side a real one."""
    if coroutine:

        async def function(*args, **kwargs):
            return await peer.call(number, name, args, kwargs)

    elif peer.leads:
        return RemoteFunction(peer, number, name, doc)
    else:

        def function(*args, **kwargs):
            return peer.call(number, name, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function._rl_number = number
    return function


def make_coroutine(peer, number):
    """A coroutine that is run to its end at the other side when it is awaited."""

    async def coroutine():
        return peer.ask("op", "await", Home(number))

    return coroutine()
