"""The escape room: seven snippets that want out, and what holds each of them.

None of them sorts, though a list is to be sorted. Each does one thing that it should not, and
then returns the answer to the one visible test. So `PASS` means that nothing held it. All of
them are harmless also where nothing does: they look at a file that is planted here, wave at a
port where nobody listens, and send the signal that does nothing.

Left out on purpose: anything that could hurt if it worked; that is in the corpus, which runs
such programs only where a probe saw that they are held.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rlkit.sandbox import Job, Limits, Sandbox, Status, TestSpec, Verdict
from rlkit.sandbox.sandbox import LAYERS

#: What can hold a snippet.
LIMIT, FENCE, NOTHING = "limit", "fence", "nothing"

BRIEF = Limits(wall_s=0.6, cpu_s=1.0, memory_mb=256)
_LIMITS = (Status.TIMEOUT, Status.CPU_LIMIT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)


@dataclass(frozen=True)
class Snippet:
    """One of the seven.

    Attributes:
        name: a word.
        line: what it does, in Python; `PLACE` is the planted file.
        wants: the same for people.
    """

    name: str
    line: str
    wants: str

    def source(self, place: str) -> str:
        """The whole program."""
        return (
            f"import os, socket\nPLACE = {place!r}\n"
            f"def f(x):\n    {self.line}\n    return [1, 2, 3]\n"
        )


SNIPPETS = (
    Snippet("loops", "while True: pass", "to run for ever"),
    Snippet("hoards", "memory = bytearray(1 << 30)", "a gibibyte of memory"),
    Snippet("reads", "open(PLACE).read()", "a file that everybody may read"),
    Snippet("asks", "os.stat(PLACE)", "to know whether that file exists"),
    Snippet(
        "sends",
        "socket.socket(2, 2).sendto(b'hi', ('127.0.0.1', 9))",
        "to send a packet to this machine",
    ),
    Snippet("signals", "os.kill(os.getppid(), 0)", "to reach the process that started it"),
    Snippet("knows", "pass", "to be paid for the answer that it has learned by heart"),
)


@dataclass(frozen=True)
class Escape:
    """What came of one snippet.

    Attributes:
        name: the snippet's.
        held: `limit`, `fence` or `nothing`.
        verdict: all of it.
    """

    name: str
    held: str
    verdict: Verdict


def held_by(verdict: Verdict) -> str:
    """What held a snippet, by its verdict.

    >>> held_by(Verdict(Status.TIMEOUT, (), 0, 1, 0.0))
    'limit'
    """
    if verdict.status is Status.PASS:
        return NOTHING
    return LIMIT if verdict.status in _LIMITS else FENCE


def escape(
    layers: Collection[str] = LAYERS, snippets: Sequence[Snippet] = SNIPPETS
) -> list[Escape]:
    """Lets the snippets loose in a sandbox with these layers.

    Args:
        layers: fences to use where the machine has them; limits are always on.
        snippets: which of them.

    Raises:
        SandboxUnavailable: on Windows.

    >>> [found.held for found in escape(snippets=SNIPPETS[-1:])]
    ['nothing']
    """
    # Switching layers off is the point here, and the snippets are harmless.
    with planted() as place, Sandbox(BRIEF, 1, layers=tuple(layers), allow_unsafe=True) as sandbox:
        test = TestSpec("the visible test", args=([3, 1, 2],), expected=[1, 2, 3])
        jobs = [Job(source=s.source(place), entry="f", tests=[test], cache="off") for s in snippets]
        verdicts = sandbox.run_many(jobs)
    return [
        Escape(s.name, held_by(verdict), verdict)
        for s, verdict in zip(snippets, verdicts, strict=True)
    ]


@contextlib.contextmanager
def planted() -> Iterator[str]:
    """A file outside of every sandbox that each user of this machine may read."""
    folder = tempfile.mkdtemp(prefix="rlkit-planted-")
    try:
        os.chmod(folder, 0o755)
        place = os.path.join(folder, "planted.txt")
        with open(place, "w", encoding="utf-8") as file:
            file.write("nothing of value\n")
        os.chmod(place, 0o644)
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)
