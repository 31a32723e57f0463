"""A process of its own for each side of a comparison, one line of JSON in, one out.

Memory of two engines can be told apart only when each has a process to itself. The processes
are started together, wait, and are let do one piece of work at a time, in turns.

Left out: several requests on their way at once. Whoever is not asked stands still.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rlkit.errors import UserError


class SideProcess:
    """The parent's end.

    Args:
        module: what is run, with `python -m`; it calls `channel` and answers requests.
        settings: given to it as its one argument, as JSON.
        threads: processor threads that it may use.

    Raises:
        UserError: the process cannot do it, in its own words.
    """

    def __init__(self, module: str, settings: Mapping[str, Any], threads: int) -> None:
        self.name = str(settings.get("side", module))
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
            "TRL_EXPERIMENTAL_SILENCE": "1",
        }
        self._said = tempfile.TemporaryFile(  # noqa: SIM115  (closed in `close`)
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """The next line that the process says; waits for it."""
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            last = "\n".join(self._said.read().strip().splitlines()[-15:])
            raise RuntimeError(f"the process for {self.name} has ended without an answer:\n{last}")
        found = json.loads(line)
        if "cannot" in found:
            raise UserError(found["cannot"])
        return found

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends a request and waits for the answer."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; its last words are read next
        return self.answer()

    def close(self) -> None:
        """Lets the process end; ends it if it does not."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Channel:
    """The process's own end: requests come in, answers go out, nothing else goes out."""

    def __init__(self, requests: Any, answers: Any) -> None:
        self._requests, self._answers = requests, answers

    def say(self, **answer: Any) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def next(self) -> dict[str, Any] | None:
        """The next request; `None` when there will be none."""
        line = self._requests.readline()
        return json.loads(line) if line else None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (request := self.next()) is not None:
            yield request


@contextmanager
def channel() -> Iterator[Channel]:
    """The channel of this process; what libraries print goes to standard error meanwhile.

    A `UserError` is told to the parent, which raises it.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        own = Channel(sys.stdin, answers)
        try:
            yield own
        except UserError as error:
            own.say(cannot=str(error))
