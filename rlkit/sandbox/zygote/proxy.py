"""Proxy mode: the tests run in one process, the program in another, joined by a socket.

`candidate` and `verifier` are what the zygote runs in the two processes; only the verifier
has a channel to the host. `warm` holds such a conversation inside one process, so that
what a zygote has loaded is in the shape in which its children use it: a page that a child
writes to is a page that it must copy first, and that was half the time of a job.
"""

from __future__ import annotations

import sys

from rlkit.sandbox import codec
from rlkit.sandbox.zygote.proxy_candidate import Program, candidate
from rlkit.sandbox.zygote.proxy_verifier import Strict, own_names, verifier

__all__ = ["candidate", "joined", "verifier", "warm"]

_PROGRAM = """
class P:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x
    def go(self): return [self.x]
def f(x): return sorted(x)
def g(fn, x):
    x.append(1)
    return fn(x)
def e(x): raise ValueError(x)
"""
_TEST = """
assert f([3, 1]) == [1, 3]
x = [1]
assert g(lambda y: len(y), x) == 2 and x == [1, 1]
p = P(2)
assert p.x == 2 and p == P(2) and p.go() == [2]
try:
    e(1)
    assert False
except ValueError as error:
    assert error.args == (1,)
"""


def joined(source: str, entry: str = "") -> Strict:
    """Both ends in this process, without a socket: the verifier's, which leads to the other.

    For programs that are trusted, since it runs here: warming up, and tests of the values.
    """
    to_program: list[tuple] = []
    to_strict: list[tuple] = []
    told = {"source": source, "seed": 0, "entry": entry, "max_bytes": 1 << 20}
    program, strict = Program(-1, told), Strict(-1, 1 << 20, entry)

    def strict_reads() -> tuple:
        while not to_strict:
            program.serve(to_program.pop(0))
        return to_strict.pop(0)

    def program_reads() -> tuple:
        while not to_program:
            strict.serve(to_strict.pop(0))
        return to_program.pop(0)

    program.write = lambda message: to_strict.append(codec.decode(codec.encode(message)))
    strict.write = lambda message: to_program.append(codec.decode(codec.encode(message)))
    program.read, strict.read = program_reads, strict_reads
    return strict


def warm(turns: int = 6) -> None:
    """Run a small program and a test of it, both ends in this process."""
    kept = sys.modules.get("solution")
    strict = joined(_PROGRAM, "f")
    for _ in range(turns):
        strict.load()
        space = own_names(strict)
        told = strict.run_test(_TEST, ["P", "candidate", "e", "f", "g"], frozenset("P"), space)
        if told is not None:
            raise RuntimeError(f"proxy mode does not work: {told}")
        strict.stale = True
    sys.modules.pop("solution")
    if kept is not None:
        sys.modules["solution"] = kept


if __name__ != "__main__" and getattr(sys.meta_path[0], "rlkit", False):
    warm()  # a zygote is being loaded
