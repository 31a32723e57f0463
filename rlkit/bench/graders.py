"""One grader of maths answers in a process of its own: `python -m rlkit.bench.graders NAME`.

A JSON object a line comes in (`completion` and `gold`, or `completions` and `golds`
for a whole batch; `thread` to be called outside the main thread), one goes out:
`{"value": 1 | 0 | null, "seconds": ...}` or `{"raised": ...}`. The parent kills this
process when a call takes too long, so a hang costs one row and is counted.

Each grader is called as its documentation shows.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Grader = Callable[[list[str], list[Any], str], list[Any]]

#: What each grader's name means, for the table.
GRADERS = {
    "rlkit": "rlkit `math_answer`",
    "math-verify": "math-verify, gold as it is",
    "math-verify-wrapped": "math-verify, gold in `$…$`",
    "trl": "TRL `accuracy_reward`, gold as it is",
    "trl-wrapped": "TRL `accuracy_reward`, gold in `$…$`",
}


def load(name: str) -> Grader:
    """The grader of this name as `f(completions, golds, mode)`."""
    wrapped = name.endswith("-wrapped")
    if name == "rlkit":
        from rlkit.rewards.maths import MathAnswer
        from rlkit.rewards.maths.fallback import shared

        shared.warm_up()
        rewards = {mode: MathAnswer(mode) for mode in ("strict", "flexible")}
        return lambda texts, golds, mode: rewards[mode](completions=texts, answer=golds)
    if name.startswith("math-verify"):
        from math_verify import parse, verify

        return lambda texts, golds, mode: [
            float(verify(parse(_wrap(gold, wrapped)), parse(text)))
            for text, gold in zip(texts, golds, strict=True)
        ]
    from trl.rewards import accuracy_reward

    return lambda texts, golds, mode: accuracy_reward(
        [[{"role": "assistant", "content": text}] for text in texts],
        [_wrap(gold, wrapped) for gold in golds],
    )


def _wrap(gold: Any, wrapped: bool) -> Any:
    return f"${gold}$" if wrapped else gold


def call(grader: Grader, request: dict[str, Any]) -> dict[str, Any]:
    """One row's outcome and its seconds."""
    batch = "completions" in request
    texts = request["completions"] if batch else [request["completion"]]
    golds = request["golds"] if batch else [request["gold"]]
    reply: dict[str, Any] = {}

    def measured() -> None:
        start = time.perf_counter()
        try:
            values = grader(texts, golds, request.get("mode", "strict"))
            reply["value"] = values if batch else values[0]
        except Exception as error:
            reply["raised"] = type(error).__name__
            reply["says"] = str(error)[:300]
        reply["seconds"] = time.perf_counter() - start

    if request.get("thread"):
        worker = threading.Thread(target=measured)
        worker.start()
        worker.join()
    else:
        measured()
    return reply


def main() -> None:
    """Answers requests until the parent closes the pipe."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    grader = load(sys.argv[1])
    grader([r"\boxed{\frac{1}{2}}"], ["0.5"], "strict")  # imports and grammars, once
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(call(grader, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
