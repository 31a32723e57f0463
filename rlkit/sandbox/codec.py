"""Plain data as bytes: the only language that crosses the border of the sandbox.

A value is written by its exact builtin type (`type(x) is list`, never
`isinstance`), so nothing that carries code can cross: no `__eq__`, no
`__class__`, no pickle. Both sides load this file; the host decodes what an
untrusted program sent, so `decode` is strict, bounded in depth, and raises
nothing but `CodecError`.

The encoding is canonical: sets are written in sorted order, floats in
hexadecimal, so equal bytes mean equal values of equal types.

    None N   True T   False F   int i-ff;   float f0x1.8p+1;   complex c<float>,<float>;
    str s<bytes>:<utf-8>   bytes b<bytes>:<raw>   Decimal D<bytes>:<text>   Fraction Q<int>/<int>;
    list l<items>:   tuple t<items>:   dict d<pairs>:   set e<items>:   frozenset z<items>:

Left out on purpose: bytearray, range, numpy and every class of the program's
own. Only the standard library's cheapest modules are used, because every process of
the sandbox loads this file.
"""

from __future__ import annotations

import sys

#: Containers may be nested this deep; a list that contains itself ends here.
MAX_DEPTH = 50

#: Neither side writes one value longer than this many bytes.
MAX_BYTES = 1 << 24

#: Reducing a fraction takes time quadratic in its length, so the length is bounded.
MAX_FRACTION_DIGITS = 10_000

#: More keys than this with one and the same hash are an attack, not data.
MAX_EQUAL_HASHES = 64


class CodecError(ValueError):
    """The value is not plain data, or the bytes are not the encoding of plain data."""


def encode(value: object, max_bytes: int = MAX_BYTES) -> bytes:
    """Write a plain value as bytes.

    Args:
        value: None, bool, int, float, complex, str, bytes, Decimal, Fraction, or a list,
            tuple, dict, set or frozenset of those, of exactly these types.
        max_bytes: longest encoding to produce, in bytes.

    Raises:
        CodecError: another type, nested deeper than `MAX_DEPTH`, or too long.

    >>> encode([1, 2.5, "a"])
    b'l3:i1;f0x1.4000000000000p+1;s1:a'
    >>> encode(object())
    Traceback (most recent call last):
      ...
    rlkit.sandbox.codec.CodecError: a value of type 'object' is not plain data
    """
    out: list[bytes] = []
    _write(value, out, MAX_DEPTH, [max_bytes])
    return b"".join(out)


def decode(data: bytes) -> object:
    """Rebuild the value from its encoding, with types of our own making only.

    Raises:
        CodecError: the bytes are not exactly one encoded value.

    >>> decode(encode({"a": (1, None)}))
    {'a': (1, None)}
    """
    try:
        value, end = _read(data, 0, MAX_DEPTH)
    except CodecError:
        raise
    except (ValueError, ArithmeticError, IndexError, TypeError, RecursionError) as error:
        raise CodecError(f"not an encoded value: {error}") from None
    if end != len(data):
        raise CodecError(f"{len(data) - end} bytes too many after the value")
    return value


def _optional(module: str, name: str) -> object:
    # Decimal and Fraction exist only where something already imported them: a
    # program that never did cannot have made one, and importing them is dear.
    return getattr(sys.modules.get(module), name, None)


def _write(value: object, out: list[bytes], depth: int, left: list[int]) -> None:
    kind = type(value)
    if value is None:
        piece = b"N"
    elif kind is bool:
        piece = b"T" if value else b"F"
    elif kind is int:
        piece = b"i%s;" % format(value, "x").encode()
    elif kind is str:
        text = value.encode("utf-8", "surrogatepass")
        piece = b"s%d:%s" % (len(text), text)
    elif kind is float:
        piece = b"f%s;" % value.hex().encode()
    elif kind is bytes:
        piece = b"b%d:%s" % (len(value), value)
    elif kind in _CONTAINERS:
        _write_container(value, kind, out, depth, left)
        return
    elif kind is complex:
        piece = b"c%s,%s;" % (value.real.hex().encode(), value.imag.hex().encode())
    elif kind is _optional("decimal", "Decimal"):
        text = str(value).encode()
        piece = b"D%d:%s" % (len(text), text)
    elif kind is _optional("fractions", "Fraction"):
        piece = f"Q{value.numerator:x}/{value.denominator:x};".encode()
    else:
        raise CodecError(f"a value of type {kind.__name__!r} is not plain data")
    _spend(left, len(piece))
    out.append(piece)


def _write_container(
    value: object, kind: type, out: list[bytes], depth: int, left: list[int]
) -> None:
    if depth == 0:
        raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
    head = b"%s%d:" % (_CONTAINERS[kind], len(value))
    _spend(left, len(head))
    out.append(head)
    if kind is list or kind is tuple:
        for item in value:
            _write(item, out, depth - 1, left)
    elif kind is dict:
        for key, item in value.items():
            _write(key, out, depth - 1, left)
            _write(item, out, depth - 1, left)
    else:
        pieces = []
        for item in value:
            piece: list[bytes] = []
            _write(item, piece, depth - 1, left)
            pieces.append(b"".join(piece))
        out.extend(sorted(pieces))


_CONTAINERS = {list: b"l", tuple: b"t", dict: b"d", set: b"e", frozenset: b"z"}


def _spend(left: list[int], count: int) -> None:
    left[0] -= count
    if left[0] < 0:
        raise CodecError("the value is too large")


def _read(data: bytes, at: int, depth: int) -> tuple[object, int]:
    tag = data[at : at + 1]
    at += 1
    if tag == b"i":
        end = data.index(b";", at)
        return int(data[at:end], 16), end + 1
    if tag == b"s":
        text, at = _read_counted(data, at)
        return text.decode("utf-8", "surrogatepass"), at
    if tag == b"f":
        end = data.index(b";", at)
        return float.fromhex(data[at:end].decode("ascii")), end + 1
    if tag == b"N":
        return None, at
    if tag == b"T":
        return True, at
    if tag == b"F":
        return False, at
    if tag in (b"l", b"t", b"e", b"z", b"d"):
        if depth == 0:
            raise CodecError(f"nested deeper than {MAX_DEPTH} levels")
        return _read_container(data, at, tag, depth - 1)
    if tag == b"b":
        return _read_counted(data, at)
    if tag == b"c":
        end = data.index(b";", at)
        real, imag = data[at:end].decode("ascii").split(",")
        return complex(float.fromhex(real), float.fromhex(imag)), end + 1
    if tag == b"D":
        from decimal import Decimal

        text, at = _read_counted(data, at)
        return Decimal(text.decode("ascii")), at
    if tag == b"Q":
        from fractions import Fraction

        end = data.index(b";", at)
        if end - at > MAX_FRACTION_DIGITS:
            raise CodecError("the fraction is too long")
        numerator, denominator = data[at:end].split(b"/")
        return Fraction(int(numerator, 16), int(denominator, 16)), end + 1
    raise CodecError(f"unknown tag {tag!r}")


def _read_counted(data: bytes, at: int) -> tuple[bytes, int]:
    count, at = _read_count(data, at)
    return data[at : at + count], at + count


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    end = data.index(b":", at, at + 12)
    digits = data[at:end]
    if not digits.isdigit():
        raise CodecError(f"{digits!r} is not a count")
    count = int(digits)
    # Every item takes a byte at least, so a count beyond the data is a lie.
    if count > len(data) - end - 1:
        raise CodecError("the count is longer than the data")
    return count, end + 1


def _read_container(data: bytes, at: int, tag: bytes, depth: int) -> tuple[object, int]:
    count, at = _read_count(data, at)
    items = []
    for _ in range(count * 2 if tag == b"d" else count):
        item, at = _read(data, at, depth)
        items.append(item)
    if tag == b"l":
        return items, at
    if tag == b"t":
        return tuple(items), at
    if tag == b"d":
        _check_hashes(items[::2])
        pairs = dict(zip(items[::2], items[1::2], strict=True))
        if len(pairs) != count:
            raise CodecError("a dict with a key twice")
        return pairs, at
    _check_hashes(items)
    members = set(items) if tag == b"e" else frozenset(items)
    # NaN is not equal to itself and may stand in a set more than once.
    if len(members) != count:
        raise CodecError("a set with a member twice")
    return members, at


def _check_hashes(keys: list[object]) -> None:
    """Refuse keys that were chosen to collide, which would keep the host busy for minutes."""
    seen: dict[int, int] = {}
    for key in keys:
        mark = hash(key)
        count = seen.get(mark, 0) + 1
        if count > MAX_EQUAL_HASHES:
            raise CodecError("too many keys with the same hash")
        seen[mark] = count
