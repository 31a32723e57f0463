"""The program's end of proxy mode: load it when told to, then answer questions about it.

This process runs the program and nothing of the test. It knows no expected value, and what
it sends is data to the other end; whoever breaks it can only send other data.

Verbs of its own: `load` runs the program, `names` looks names up (`anew`: and forgets the
objects of the test before), `import` imports a module.
"""

from __future__ import annotations

import posix
import sys

from rlkit.sandbox.zygote.harness import flush, load_program
from rlkit.sandbox.zygote.proxy_peer import RECURSION_LIMIT, Ended, Peer


def candidate(request: dict, sock: int) -> None:
    """Serve until the other end hangs up.

    Args:
        request: `source`, `seed`, `entry` and `max_bytes`.
        sock: descriptor of the socket to the verifier.
    """
    sys.setrecursionlimit(RECURSION_LIMIT)
    program = Program(sock, request)
    while True:
        try:
            program.serve(program.read())
        except Ended as end:
            if end.args[0] != "NO_RESULT":  # the other end hangs up when it is done
                print("proxy:", *end.args, file=sys.stderr)
            break
    flush()
    posix._exit(0)


class Program(Peer):
    """Answers for the program."""

    def __init__(self, sock: int, request: dict) -> None:
        super().__init__(sock, leads=False, max_bytes=request["max_bytes"])
        self.request = request
        self.space: dict = {}

    def answer(self, verb: str, name: str, operands: list) -> object:
        if verb == "load":
            return self.load()
        if verb == "names":
            if name == "anew":
                self.forget()
            return tuple((wanted, *self.look_up(wanted)) for wanted in operands[0])
        if verb == "import":
            __import__(name)
            return sys.modules[name]
        return super().answer(verb, name, operands)

    def load(self) -> tuple:
        """Run the program; the answer says how that ended: a status and a message."""
        self.space, *told = load_program(self.request["source"], self.request["seed"])
        return tuple(told)

    def look_up(self, name: str) -> tuple:
        """Whether the program has the name, and what it is."""
        entry = self.request["entry"]
        if name == "candidate" and entry:
            name = entry
        first, *rest = name.split(".")
        if first in self.space:
            found = self.space[first]
            for part in rest:
                owner = found() if isinstance(found, type) else found
                found = getattr(owner, part)
            return True, found
        solution = self.space.get("Solution")
        if not rest and isinstance(solution, type) and hasattr(solution, name):
            return True, getattr(solution(), name)
        return False, None
