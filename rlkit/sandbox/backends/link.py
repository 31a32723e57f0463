"""The host's end of one zygote: start it, hand it a job, wait for its answer, end it.

A zygote is started by exec, so this process is never forked. Its code is sent over the
same stream as the jobs: nothing need be installed where it runs, and the same few lines
start one inside a container.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlkit.sandbox import survivors
from rlkit.sandbox.backends.base import InfrastructureFault, Outcome
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.zygote.wipe import remove_folder

#: Reads the zygote's code from its standard input and runs it; Python 3.10 and later.
BOOT = """
import sys, marshal, posix
def read(count):
    data = b""
    while len(data) < count:
        piece = posix.read(0, count - len(data))
        if not piece: posix._exit(0)
        data += piece
    return data
class Finder:
    rlkit = True
    def find_spec(self, name, path=None, target=None):
        if name in code:
            return Spec(name, self, origin=code[name][0], is_package=code[name][1])
    def create_module(self, spec): return None
    def exec_module(self, module):
        origin, _, body = code[module.__name__]
        if type(body) is str: body = compile(body, origin, "exec", dont_inherit=True)
        module.__file__ = origin
        exec(body, module.__dict__)
Spec = type(sys.__spec__)
code = marshal.loads(read(int.from_bytes(read(4), "little")))
sys.meta_path.insert(0, Finder())
from rlkit.sandbox.zygote import serve
serve.main(0, 1)
"""

#: A zygote that has not said hello after so many seconds never will.
START_S = 60.0
#: So much later than the job's own limits the host gives a zygote up.
SLACK_S = 15.0
#: How often a waiting thread asks whether its job is still wanted.
ASK_S = 0.05

_PACKAGES = ("rlkit", "rlkit.sandbox", "rlkit.sandbox.zygote")


@lru_cache(maxsize=2)
def child_code(compiled: bool) -> bytes:
    """All that a zygote may import of ours, as one block; compiled for this very interpreter."""
    folder = Path(__file__).parent.parent
    texts = {"rlkit.sandbox.codec": folder / "codec.py"}
    texts |= {
        f"rlkit.sandbox.zygote.{path.stem}": path
        for path in sorted((folder / "zygote").glob("*.py"))
        if path.stem != "__init__"
    }
    code: dict[str, tuple[str, bool, Any]] = {name: ("rlkit", True, "") for name in _PACKAGES}
    for name, path in texts.items():
        text = path.read_text("utf-8")
        origin = name.replace(".", "/") + ".py"
        body = compile(text, origin, "exec", dont_inherit=True) if compiled else text
        code[name] = (origin, False, body)
    # The second version of the format is the same in every Python that we run on.
    data = marshal.dumps(code) if compiled else marshal.dumps(code, 2)
    return len(data).to_bytes(4, "little") + data


class Link:
    """One zygote process.

    Args:
        python: the interpreter to start.
        plan: what it is told about itself, see `local.LocalBackend`.
        environment: its whole environment.
        command: starts an interpreter elsewhere, up to the interpreter's own options, and
            connects it to its own standard input and output; None starts `python` here.

    Raises:
        InfrastructureFault: it cannot be started, or ends before it is ready.
        Refused: it is well, but this machine refuses the isolation asked for.
    """

    def __init__(
        self,
        python: str,
        plan: Mapping[str, Any],
        environment: Mapping[str, str],
        command: Sequence[str] | None = None,
    ) -> None:
        self.tag = plan["tag"]
        self.programs = plan["programs"]
        self.network = plan["network"]
        self.jobs = 0
        self.folder = ""
        #: Fences without which no job of this zygote counts.
        self.wanted: frozenset[str] = frozenset()
        self._sequence = 0
        self._left = b""
        self._socket, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [*(command or (python,)), "-s", "-S", "-B", "-c", BOOT],
                stdin=theirs,
                stdout=theirs,
                stderr=subprocess.PIPE,
                cwd="/",
                env=dict(environment),
                close_fds=True,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._socket.close()
            program = command[0] if command else python
            raise InfrastructureFault(f"cannot start {program}: {error}") from error
        finally:
            theirs.close()
        os.set_blocking(self._process.stderr.fileno(), False)
        self._socket.settimeout(START_S)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            told = encode(dict(plan), max_bytes=1 << 24)
            same = command is None and python == sys.executable
            self._send([child_code(same), len(told).to_bytes(4, "little"), told])
            kind, about = self._frame(time.monotonic() + START_S, None)[0]
        except BaseException:
            self.kill()
            raise
        if kind != "ready":
            self.kill()
            if kind == "refused":
                raise Refused(about)
            raise InfrastructureFault(f"a zygote could not be made ready: {about}")
        self.about: dict[str, Any] = about
        self.folder = about["folder"]

    @property
    def pid(self) -> int:
        """Process id of the zygote, or of the process that keeps it."""
        return self._process.pid

    def run(
        self,
        head: bytes,
        requests: Sequence[bytes],
        wall_s: float,
        cancelled: Callable[[], bool],
    ) -> tuple[tuple, memoryview]:
        """Hand over one job; returns the zygote's facts, and what the job wrote.

        Raises:
            InfrastructureFault: the zygote died or did not answer; it is of no more use.
            Cancelled: the job is not wanted any more; nor is the zygote of use.
        """
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self.jobs += 1
        lengths = [len(request) for request in requests] + [0] * (2 - len(requests))
        numbers = (len(head), *lengths, self._sequence)
        order = b"".join(number.to_bytes(4, "little") for number in numbers)
        self._send([order + head, *requests])
        facts, body = self._frame(time.monotonic() + wall_s + START_S + SLACK_S, cancelled)
        if facts[0] != self._sequence:
            raise InfrastructureFault("the zygote answered to another job")
        return facts, body

    def alive(self) -> bool:
        """Whether it still runs and has nothing to say."""
        return self._process.poll() is None and not self._poll.poll(0)

    def hang_up(self) -> None:
        """Let the zygote end by itself; `kill` must follow."""
        self._socket.close()

    def kill(self, patience_s: float = 0.0) -> None:
        """End the zygote and all it started, and reap it."""
        self._socket.close()
        process = self._process
        ended = False
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
                ended = True
        if not ended:
            process.kill()
            process.wait()
        process.stderr.close()
        if self.programs and self.folder:
            # Without a namespace of its own, something may have outlived it.
            survivors.kill_tagged(self.tag)
        if self.folder:
            remove_folder(self.folder)

    def last_words(self) -> str:
        """What it printed on its standard error before it died."""
        try:
            return (self._process.stderr.read() or b"").decode("utf-8", "replace").strip()[-300:]
        except (OSError, ValueError):
            return ""

    def _send(self, pieces: Sequence[bytes]) -> None:
        try:
            self._socket.sendall(b"".join(pieces))
        except OSError as error:
            raise self._fault(f"cannot be reached ({error})") from error

    def _frame(
        self, deadline: float, cancelled: Callable[[], bool] | None
    ) -> tuple[tuple, memoryview]:
        prefix = self._receive(12, deadline, cancelled)
        length = int.from_bytes(prefix[:4], "little")
        total = int.from_bytes(prefix[4:], "little")
        data = self._receive(length + total, deadline, cancelled)
        try:
            facts = decode(bytes(data[:length]))
        except CodecError as error:
            raise self._fault(f"answered nonsense ({error})") from error
        return facts, memoryview(data)[length:]

    def _receive(
        self, count: int, deadline: float, cancelled: Callable[[], bool] | None
    ) -> bytes | bytearray:
        if len(self._left) >= count:
            data, self._left = self._left[:count], self._left[count:]
            return data
        data = bytearray(self._left)
        self._left = b""
        while len(data) < count:
            wait_s = ASK_S if cancelled is not None else 1.0
            if not self._poll.poll(1000 * wait_s):
                if cancelled is not None and cancelled():
                    raise Cancelled
                if time.monotonic() > deadline:
                    raise self._fault("did not answer in time")
                continue
            try:
                piece = self._socket.recv(max(65536, min(count - len(data), 1 << 22)))
            except OSError as error:
                raise self._fault(f"cannot be reached ({error})") from error
            if not piece:
                raise self._fault("ended")
            data += piece
        self._left = bytes(data[count:])
        del data[count:]
        return data

    def _fault(self, what: str) -> InfrastructureFault:
        try:
            code = self._process.wait(0.5)
            how = f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        except subprocess.TimeoutExpired:
            how = ""
        return InfrastructureFault(f"the zygote {what}{how} {self.last_words()}".strip())


class Refused(Exception):
    """This machine refuses the isolation that was asked for; said by the zygote."""


class Cancelled(Exception):
    """The job is not wanted any more."""


def outcome_of(facts: tuple, body: memoryview) -> Outcome:
    """The facts of a zygote as an `Outcome`.

    Raises:
        InfrastructureFault: the job's process never came up.
    """
    (_, ended, stopped_by, code, other, cpu_s, wall_ns, peak_kb, fences, truncated, orphans,
     not_run, files, sizes) = facts  # fmt: skip
    pieces, at = [], 0
    for size in (*sizes, *(size for _, size in files)):
        pieces.append(bytes(body[at : at + size]))
        at += size
    channel, stdout, stderr, *contents = pieces
    if ended == "start" or not_run:
        reason = os.strerror(not_run) if not_run else f"exit code {code}"
        text = stderr.decode("utf-8", "replace").strip()[-300:]
        raise InfrastructureFault(f"the job's process did not come up ({reason}) {text}".strip())
    outcome = Outcome(
        ended=ended,
        fences=frozenset(fences),
        stdout=stdout,
        stderr=stderr,
        truncated=truncated,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        cpu_s=cpu_s,
        wall_s=wall_ns / 1e9,
        peak_rss_mb=peak_kb / 1024 if peak_kb else None,
        files={name: data for (name, _), data in zip(files, contents, strict=True)},
        orphans=orphans,
        stopped_by=stopped_by,
    )
    if other is not None:
        outcome.candidate_exit_code = other if other >= 0 else None
        outcome.candidate_signal = -other if other < 0 else None
    for line in channel.split(b"\n"):
        if line:
            take_line(outcome, line)
    return outcome


def take_line(outcome: Outcome, line: bytes) -> None:
    """One line of the channel: a message of the harness, or something else."""
    try:
        message = decode(line.replace(b"%0A", b"\n").replace(b"%25", b"%"))
    except CodecError:
        message = None
    if type(message) is not tuple or not message:
        outcome.garbage += 1
        return
    outcome.messages.append(message)
