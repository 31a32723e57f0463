"""The child process that asks math-verify: `python -m rlkit.rewards.maths.child`.

One JSON object a line comes in, `{"gold": ..., "given": ...}`, both LaTeX that has
passed the guard of `fallback`; one goes out, `{"agrees": true | false | null}`, where
null says that math-verify could not read one of the two. Only its LaTeX grammar is
used, never its reader of plain expressions, which hands text to Python. Its own
time-outs are off: they need signals, and the parent kills this process instead.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import Any

#: Seconds after which this process ends itself, should the parent be gone.
LAST_RESORT = 10
MEMORY_BYTES = 3 << 30


def answer(request: dict[str, str]) -> dict[str, Any]:
    """What math-verify says of one pair."""
    from math_verify import LatexExtractionConfig, parse, verify

    wanted, given = (
        parse(
            f"${request[key]}$",
            extraction_config=[LatexExtractionConfig()],
            parsing_timeout=None,
            raise_on_error=False,
        )
        for key in ("gold", "given")
    )
    # The first entry is the parsed value, a string when nothing could be parsed.
    if not wanted or not given or isinstance(wanted[0], str) or isinstance(given[0], str):
        return {"agrees": None}
    verdict = verify(wanted[:1], given[:1], timeout_seconds=None, raise_on_error=False)
    return {"agrees": bool(verdict)}


def main() -> None:
    """Reads requests until the parent closes the pipe."""
    # What a library prints must not stand between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    _limit_memory()
    answer({"gold": r"\frac{1}{2}", "given": "0.5"})  # the imports and grammars, once
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        signal.alarm(LAST_RESORT)
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"agrees": None, "error": type(error).__name__}
        signal.alarm(0)
        print(json.dumps(reply), file=out, flush=True)


def _limit_memory() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    main()
