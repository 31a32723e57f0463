"""Stand-ins: what one process holds of an object that lives in the other.

A stand-in of an instance is an instance of a class made for its class, with the same name and
stand-ins as bases, so `isinstance`, `type(x) is Point`, `except OwnError` and special methods
work as in one process. Every use of it is a question to the other end.

The verifier's end is strict, because a program may hand it an object where a value is due:

* An object is never equal to a plain value, and answers no other yes-or-no question about
  one by `<` and its like.
* A class is *open* when the test's text names it as a class (`Strict.classes`). Objects of
  all other classes are opaque: what plain data could also be asked (operators, `len`, `in`,
  indexing, methods that a str or list has too) is refused, and the test cannot pass.
  Calling, `with`, own attributes and one pass of iteration remain.
* An operator between an object and a plain value must give an object, and that one gives no
  numbers: no difference to an expected value can be made to look small.

Left out: deriving a class from a stand-in.
"""

from __future__ import annotations

import sys

from rlkit.sandbox.zygote.proxy_values import Home

#: Attributes that a value of Python's own plain types has too.
PLAIN_NAMES = frozenset(
    name
    for kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex)
    for name in dir(kind)
    if not name.startswith("_")
)
#: Names between double underscores that may be asked for; all others are this process's own.
ASKED = frozenset(
    f"__{name}__"
    for name in (
        *("name", "qualname", "dict", "wrapped", "members", "annotations", "version", "all"),
        *("defaults", "kwdefaults", "slots", "match_args", "author", "dataclass_fields"),
    )
)

set_own = object.__setattr__


class RemoteClass(type):
    """The class of all stand-ins of classes."""

    def __new__(mcs, name, bases, space, **_):
        for base in bases:
            if isinstance(base, RemoteClass):
                base._rl_peer.refuse("the test derives a class of its own from one of the program")
        raise TypeError("a stand-in cannot be made by hand")

    def __call__(cls, *args, **kwargs):
        return cls._rl_peer.ask("call", "", Home(cls._rl_class), args, kwargs)

    def __getattr__(cls, name):
        if (name.startswith("__") and name not in ASKED) or name.startswith("_rl_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        found = cls._rl_peer.ask("get", name, Home(cls._rl_class))
        cls._rl_peer.named(found, name)
        return found

    def __setattr__(cls, name, value):
        if name.startswith(("__", "_rl_")) or name == "_abc_impl":
            type.__setattr__(cls, name, value)
        else:
            cls._rl_peer.ask("set", name, Home(cls._rl_class), value)

    def __delattr__(cls, name):
        cls._rl_peer.ask("del", name, Home(cls._rl_class))

    def __dir__(cls):
        return cls._rl_peer.ask("op", "dir", Home(cls._rl_class))

    def __iter__(cls):
        return iter(cls._rl_of_class("iter"))

    def __len__(cls):
        return cls._rl_peer.exactly(int, cls._rl_of_class("len"))

    def __contains__(cls, member):
        if not cls._rl_enumeration:
            raise TypeError(f"argument of type {cls.__name__!r} is not a container")
        return isinstance(member, Remote) and type(member) is cls

    def __getitem__(cls, key):
        return cls._rl_peer.ask("op", "getitem", Home(cls._rl_class), key)

    def __bool__(cls):
        return True

    def _rl_of_class(cls, operation):
        if not cls._rl_enumeration:
            raise TypeError(f"{operation}: {cls.__name__!r} is a class")
        return cls._rl_peer.ask("op", operation, Home(cls._rl_class))


class _Asks:
    """Attributes of a stand-in, which are the object's."""

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("_rl_") or (name.startswith("__") and name not in ASKED):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in PLAIN_NAMES and not self._rl_trusted():
            self._rl_peer.opaque(f"attribute {name!r}")
        return self._rl_peer.ask("get", name, Home(self._rl_number))

    def __setattr__(self, name, value):
        if name.startswith("_rl_"):
            set_own(self, name, value)
        else:
            self._rl_peer.ask("set", name, Home(self._rl_number), value)

    def __delattr__(self, name):
        self._rl_peer.ask("del", name, Home(self._rl_number))

    def __dir__(self):
        return self._rl_peer.ask("op", "dir", Home(self._rl_number))

    def __copy__(self):
        return self._rl_peer.ask("op", "copy", Home(self._rl_number))

    def __deepcopy__(self, _):
        return self._rl_peer.ask("op", "deepcopy", Home(self._rl_number))

    def _rl_trusted(self):
        return self._rl_open or not self._rl_peer.leads


class Remote(_Asks):
    """The base of all stand-ins of instances."""

    __slots__ = ("__weakref__", "_rl_number", "_rl_once", "_rl_taint")
    _rl_open = False

    def __repr__(self):
        return f"<an object of class {type(self).__name__}>"

    __str__ = __repr__

    def __bool__(self):
        return True


class RemoteFunction(_Asks):
    """A function, method or other callable of Python's own kinds."""

    def __init__(self, peer, number, name, doc):
        self.__dict__.update(
            _rl_peer=peer, _rl_number=number, _rl_open=False, __name__=name, __doc__=doc
        )

    def __call__(self, *args, **kwargs):
        return self._rl_peer.call(self._rl_number, self.__name__, args, kwargs)

    def __repr__(self):
        return f"<function {self.__name__}>"


class RemoteModule(type(sys)):
    """A module; its own names between double underscores stay with this process."""

    def __init__(self, peer, number, name):
        super().__init__(name)
        self.__dict__.update(_rl_peer=peer, _rl_number=number)

    def __getattr__(self, name):
        if name.startswith("_rl_") or (name.startswith("__") and name not in ASKED):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name == "__all__":
            return self._rl_peer.ask("op", "dir", Home(self._rl_number))
        found = self._rl_peer.ask("get", name, Home(self._rl_number))
        self._rl_peer.named(found, name)
        return found

    def __setattr__(self, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._rl_peer.ask("set", name, Home(self._rl_number), value)


class RemoteIterator(_Asks):
    """An iterator of Python's own kinds; once at its end it stays there."""

    __slots__ = ("_rl_ended", "_rl_number", "_rl_open", "_rl_peer")

    def __init__(self, peer, number):
        set_own(self, "_rl_peer", peer)
        set_own(self, "_rl_number", number)
        set_own(self, "_rl_ended", False)
        set_own(self, "_rl_open", False)

    def __getattr__(self, name):
        if name in PLAIN_NAMES:  # dict(), for one, asks whether there are keys
            raise AttributeError(f"an iterator has no attribute {name!r}")
        return super().__getattr__(name)

    def __iter__(self):
        return self

    def __next__(self):
        if self._rl_ended:
            raise StopIteration
        try:
            return self._rl_peer.ask("op", "next", Home(self._rl_number))
        except StopIteration:
            self._rl_ended = True
            raise


class RemoteError:
    """Mixed into the stand-ins of exception classes."""

    _rl_stands = True
    _rl_open = True
    _rl_text = None

    def __getattr__(self, name):
        number = self.__dict__.get("_rl_number")
        if number is None or (name.startswith("__") and name not in ASKED):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._rl_peer.ask("get", name, Home(number))

    def __str__(self):
        if self._rl_text is None:
            return self._rl_peer.exactly(str, self._rl_peer.ask("op", "str", Home(self._rl_number)))
        return self._rl_text
