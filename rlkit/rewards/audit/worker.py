"""The child process in which a reward is tried: `python -m rlkit.rewards.audit.worker`.

The parent sends pickles (its own data, never a model's), the child answers with lines of
JSON, because what runs here may be a careless reward that executed an attack: nothing
that comes out of this process is unpickled. Each line carries a word that only the two
of them know; a line without it was forged by an attack and is reported as such.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import time
import traceback
from typing import Any, BinaryIO

#: Address space of the child, in bytes; an attack that asks for more gets a MemoryError.
MEMORY_BYTES = 8 << 30
#: Processor time of the child, in seconds; it ends one that hangs after its parent was killed.
CPU_SECONDS = 900


def read_frame(stream: BinaryIO) -> Any:
    """The next object from the parent; `None` at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    return pickle.loads(stream.read(struct.unpack("!I", head)[0]))


def frame(thing: Any) -> bytes:
    """An object as the parent sends it."""
    body = pickle.dumps(thing)
    return struct.pack("!I", len(body)) + body


def call(reward: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Scores the completions of one request; whatever is raised becomes part of the reply."""
    completions = request["completions"]
    columns = {name: [value] * len(completions) for name, value in request["columns"].items()}
    if "completion_ids" in columns:  # a stand-in for tokens: one for each word
        columns["completion_ids"] = [list(range(len(text.split()))) for text in completions]
    prompts = [request["prompt"]] * len(completions)
    begun = time.perf_counter()
    try:
        scores = reward.score(completions=completions, prompts=prompts, **columns)
    except BaseException as error:  # whatever an attack makes the reward raise is a finding
        return {
            "seconds": time.perf_counter() - begun,
            "raised": f"{type(error).__name__}: {error}"[:300],
            "traceback": traceback.format_exc()[-2000:],
        }
    seconds = time.perf_counter() - begun
    rows = [[s.value, s.status, s.reason[:300]] for s in scores]
    return {"seconds": seconds, "scores": rows}


def main() -> None:
    stdin = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    # What a reward or an attack prints is nobody's answer.
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silent, descriptor)
    start = read_frame(stdin)
    word = start["word"]

    def send(reply: dict[str, Any]) -> None:
        out.write(f"\n{word}{json.dumps(reply)}\n")
        out.flush()

    _limit()
    sys.path[:] = start["path"]
    try:
        reward = pickle.loads(start["reward"])
    except BaseException as error:  # told to the parent, which then does without a child
        send({"raised": f"{type(error).__name__}: {error}"[:300]})
        return
    send({"ready": True})
    while (request := read_frame(stdin)) is not None:
        send(call(reward, request))


def _limit() -> None:
    if os.name != "posix":
        return  # Windows has no such limits; the wall clock still holds there
    import resource

    for kind, wanted in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
    ):
        _, hard = resource.getrlimit(kind)
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError) as error:  # macOS refuses a limit of address space
            print(f"no limit of {wanted} here: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
