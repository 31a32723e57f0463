"""Values on their way between two processes: copies of plain data, numbers for the rest.

* Scalars, tuples and frozensets are copied.
* Lists, dicts, sets and their relatives are copied too, but both ends remember which copy
  belongs to which original, and a change on one side is told with the next message, so that
  arguments changed in place, `obj.items.append(x)` and two names for one list work as in one
  process.
* Functions, classes, modules, instances, iterators stay where they are. The other end gets
  a number and a description and makes a stand-in (`proxy_stubs`).

A value is packed as itself when it is a scalar, else as a tuple that begins with a tag:

    t z   tuple, frozenset (packed items)      T   tuple of scalars only, as it is
    r     a shared container, by number        b   a builtin of Python's, by module and name
    x X   an object of the sender, X with its description    o   one of the receiver
    e     an exception of Python's own
    k     further plain kinds: range, slice, dict views, dates, named tuples, arrays

Types are asked for exactly, by `type()`, so no subclass with ideas of its own passes as
plain data: it stays where it is, like every other object.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from operator import is_

from rlkit.sandbox.zygote import proxy_kinds
from rlkit.sandbox.zygote.proxy_describe import describe_object
from rlkit.sandbox.zygote.proxy_errors import BUILTIN_ERRORS, pack_error, unpack_error

SCALARS = frozenset((type(None), bool, int, float, complex, str, bytes))

_MAPPINGS = {dict: "dict", OrderedDict: "OrderedDict", defaultdict: "defaultdict"}
_MAPPINGS[Counter] = "Counter"
CONTAINERS = {list: "list", set: "set", bytearray: "bytearray", deque: "deque", **_MAPPINGS}
_KINDS = {name: kind for kind, name in CONTAINERS.items()}

_FACTORIES = (list, dict, set, tuple, str, int, float, bool, None)

#: Only so many containers are looked at before the table is swept.
_SWEEP_FROM = 8


class Values:
    """What one end knows: its containers that are shared, its objects that are out, stand-ins.

    Args:
        leads: whether this end decides what is still shared; it numbers with even numbers.
    """

    def __init__(self, leads: bool) -> None:
        self.leads = leads
        self.next_number = 0 if leads else 1
        self.forget()

    def forget(self) -> None:
        """Forget all objects; numbers are never used twice."""
        self.shared: dict[int, list] = {}  # number: [container, what it held at the last message]
        self.shared_ids: dict[int, int] = {}
        self.fresh: list[int] = []
        self.dropped: list[int] = []
        self.out: dict[int, object] = {}
        self.out_ids: dict[int, int] = {}
        self.described: set[int] = set()
        self.stand_ins: dict[int, object] = {}

    def _number(self) -> int:
        self.next_number += 2
        return self.next_number

    # -- packing ----------------------------------------------------------------------

    def pack(self, value: object) -> object:
        kind = type(value)
        if kind in SCALARS:
            return value
        if kind is tuple:
            if SCALARS.issuperset(map(type, value)):
                return ("T", value)
            return ("t", [self.pack(item) for item in value])
        if kind is frozenset:
            return ("z", [self.pack(item) for item in value])
        if kind in CONTAINERS:
            return ("r", self._share(value))
        home = self.home_number(value)
        if home is not None:
            return ("o", home)
        if BUILTIN_ERRORS.get(kind.__name__) is kind:
            return ("e", pack_error(self, value))
        plain = proxy_kinds.pack(self, value)
        return self.hand_out(value) if plain is None else plain

    def home_number(self, value: object) -> int | None:
        """The number of a stand-in, which is its object's at the other end; None for others."""
        if type(value) is Home:
            return value.number
        if issubclass(type(value), type):
            number = _dict_of(value).get("_rl_class")
        else:
            number = getattr_own(value, "_rl_number")
        # A program may write any attribute: only what was made here counts.
        return number if number is not None and self.stand_ins.get(number) is value else None

    def _share(self, value: object) -> int:
        number = self.shared_ids.get(id(value))
        if number is None:
            number = self._number()
            self.shared[number] = [value, None]
            self.shared_ids[id(value)] = number
            self.fresh.append(number)
        return number

    def hand_out(self, value: object) -> tuple:
        number = self.out_ids.get(id(value))
        if number is None:
            number = self._number()
            self.out[number] = value
            self.out_ids[id(value)] = number
        if number in self.described:
            return ("x", number)
        self.described.add(number)
        return ("X", number, describe_object(self, value))

    def mail(self) -> tuple:
        """New containers, changed ones, and those no longer shared: the end of a message."""
        if self.leads and len(self.shared) > _SWEEP_FROM:
            self._sweep()
        nodes, changes = [], []
        for number, entry in list(self.shared.items()):
            if entry[1] is not None and not _unchanged(*entry):
                changes.append(self._node(number, entry))
        while self.fresh:
            number = self.fresh.pop()
            nodes.append(self._node(number, self.shared[number]))
        dropped, self.dropped = self.dropped, []
        return nodes, changes, dropped

    def _node(self, number: int, entry: list) -> tuple:
        value = entry[0]
        kind = type(value)
        name = CONTAINERS[kind]
        entry[1] = _snapshot(value)
        extra = None
        if kind is bytearray:
            return number, name, True, bytes(value), None
        if kind is deque:
            extra = value.maxlen
        elif kind is defaultdict:
            extra = self.pack(value.default_factory)
        if kind in _MAPPINGS:
            items: list = list(value.keys())
            items += value.values()
        else:
            items = list(value)
        if SCALARS.issuperset(map(type, items)):
            return number, name, True, items, extra
        return number, name, False, [self.pack(item) for item in items], extra

    def _sweep(self) -> None:
        """Stop sharing what nobody at this end can reach any more."""
        gone = True
        while gone:
            gone = [
                number
                for number, entry in self.shared.items()
                # One reference is the table's, one is the question's own.
                if entry[1] is not None and sys.getrefcount(entry[0]) <= 2
            ]
            for number in gone:
                del self.shared_ids[id(self.shared.pop(number)[0])]
            self.dropped += gone

    # -- unpacking --------------------------------------------------------------------

    def open_mail(self, mail: object) -> None:
        """Make the new containers, then fill these and the changed ones."""
        try:
            nodes, changes, dropped = mail
            for number, name, _, _, extra in nodes:
                if type(number) is not int or number in self.shared or number % 2 != self.leads:
                    self.end("TAMPERED", "the program shared what is not its own")
                value = self._empty(name, extra)
                self.shared[number] = [value, None]
                self.shared_ids[id(value)] = number
            for number, name, raw, items, _ in (*nodes, *changes):
                entry = self.shared[number]
                if CONTAINERS[type(entry[0])] != name or not isinstance(items, (list, bytes)):
                    self.end("TAMPERED", "the program changed the kind of a container")
                _fill(entry[0], items if raw else [self.unpack(item) for item in items])
                entry[1] = _snapshot(entry[0])
            for number in dropped if not self.leads else ():
                entry = self.shared.pop(number)
                del self.shared_ids[id(entry[0])]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.end("TAMPERED", f"the program sent a broken message: {error}")

    def _empty(self, name: str, extra: object) -> object:
        if name == "deque":
            return deque(maxlen=extra)
        if name == "defaultdict":
            # A default of the program's making would be an answer to every question.
            made = self.unpack(extra)
            return defaultdict(made if made in _FACTORIES or not self.leads else None)
        return _KINDS[name]()

    def unpack(self, packed: object) -> object:
        """This end's own value.

        Raises:
            whatever `end` raises: it is not something that was packed.
        """
        if type(packed) in SCALARS:
            return packed
        if type(packed) is not tuple or len(packed) < 2:
            return self._broken()
        tag, content = packed[:2]
        try:
            if tag == "T":
                return content if type(content) is tuple else self._broken()
            if tag == "t":
                return tuple([self.unpack(item) for item in content])
            if tag == "z":
                return frozenset([self.unpack(item) for item in content])
            if tag == "r":
                return self.shared[content][0]
            if tag == "o":
                return self.out[content]
            if tag == "x":
                return self.stand_ins[content]
            if tag == "X":
                if (
                    type(content) is not int
                    or content in self.stand_ins
                    or content % 2 != self.leads
                ):
                    return self._broken()
                return self.stand_in(content, packed[2])
            if tag == "e":
                return unpack_error(self, content)
            if tag in ("k", "b"):
                return proxy_kinds.unpack(self, packed)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            self.end("TAMPERED", f"the program sent a broken value: {error}")
        return self._broken()

    def _broken(self) -> object:
        return self.end("TAMPERED", "the program sent a broken value")

    def stand_in(self, number: int, description: tuple) -> object:
        """Make, remember and return a stand-in for an object of the other end."""
        raise NotImplementedError

    def end(self, status: str, message: str) -> object:
        raise NotImplementedError


class Home:
    """Names an object of the other end by its number, for a question about it."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


_dict_of = type.__dict__["__dict__"].__get__


def getattr_own(value: object, name: str) -> object:
    """An instance attribute, without asking the class of the value anything."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _snapshot(value: object) -> object:
    kind = type(value)
    if kind in _MAPPINGS:
        return list(value), list(value.values())
    if kind is bytearray:
        return bytes(value)
    return list(value)


def _unchanged(value: object, seen: object) -> bool:
    """By identity of the items: an item that is a container itself is looked at by itself."""
    kind = type(value)
    if kind in _MAPPINGS:
        keys, items = seen
        return len(value) == len(keys) and (
            all(map(is_, value, keys)) and all(map(is_, value.values(), items))
        )
    if kind is bytearray:
        return value == seen
    if kind is set:
        return len(value) == len(seen) and set(map(id, value)) == set(map(id, seen))
    return len(value) == len(seen) and all(map(is_, value, seen))


def _fill(value: object, items: list) -> None:
    kind = type(value)
    if kind in _MAPPINGS:
        half = len(items) // 2
        pairs = list(zip(items[:half], items[half:]))  # noqa: B905 - two halves
        value.clear()
        for key, item in pairs:
            dict.__setitem__(value, key, item) if kind is not OrderedDict else value.__setitem__(
                key, item
            )
        return
    value.clear()
    if kind is set:
        value.update(items)
    else:
        value.extend(items)
