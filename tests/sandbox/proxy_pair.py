"""The two processes of proxy mode, as plain subprocesses joined by a socketpair.

The protocol is tested with it by itself: no zygote, no fences. Nothing hostile to the
machine may be run this way.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from rlkit.sandbox.backends.base import Call, Outcome
from rlkit.sandbox.codec import CodecError, decode, encode
from rlkit.sandbox.modes import proxy
from rlkit.sandbox.types import IsolationReport, Job, Level, Limits, Verdict

_CHILD = """
import sys, os
sys.path.insert(0, {root!r})
from rlkit.sandbox import codec
from rlkit.sandbox.zygote import proxy
with open(0, "rb") as stdin:
    request = codec.decode(stdin.read())
for name in [n for n in sys.modules if n.startswith("rlkit")]:
    del sys.modules[name]
sys.path.remove({root!r})

def send(*message):
    line = codec.encode(message).replace(b"%", b"%25").replace(b"\\n", b"%0A")
    os.write(3 + {channel}, b"\\n" + line + b"\\n")

if {verifier}:
    proxy.verifier(request, {sock}, send)
else:
    proxy.candidate(request, {sock})
"""
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_pair(call: Call, seconds: float = 10.0) -> Outcome:
    """Run both processes of a proxy call to their end."""
    ours, theirs = socket.socketpair()
    reading, channel = os.pipe()

    def start(verifier: bool, sock: socket.socket, keep: tuple[int, ...]) -> subprocess.Popen:
        code = _CHILD.format(root=_ROOT, channel=channel - 3, sock=sock.fileno(), verifier=verifier)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(sock.fileno(), *keep),
            env={"PYTHONHASHSEED": "0"},
        )

    candidate = start(False, theirs, ())
    verifier = start(True, ours, (channel,))
    for end in (ours, theirs):
        end.close()
    os.close(channel)
    outcome = Outcome()
    try:
        for process, part in ((candidate, "candidate"), (verifier, "verifier")):
            process.stdin.write(encode(call.request[part], max_bytes=1 << 30))
            process.stdin.close()
            process.stdin = None
        outcome.stdout, outcome.stderr = verifier.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        outcome.ended = "wall"
    finally:
        for process in (candidate, verifier):
            process.kill() if outcome.ended == "wall" else None
            try:
                out, err = process.communicate(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            outcome.stdout += out or b""
            outcome.stderr += err or b""
    with open(reading, "rb") as pipe:
        for line in pipe.read().split(b"\n"):
            if not line:
                continue
            try:
                outcome.messages.append(decode(line.replace(b"%0A", b"\n").replace(b"%25", b"%")))
            except CodecError:
                outcome.garbage += 1
    code = candidate.returncode
    outcome.exit_code = verifier.returncode
    outcome.candidate_exit_code = code if code >= 0 else None
    outcome.candidate_signal = -code if code < 0 else None
    return outcome


def run_proxy(job: Job, limits: Limits | None = None) -> Verdict:
    limits = limits or Limits()
    report = IsolationReport(Level.NONE, "no fences: a test of the protocol")
    return proxy.judge(job, limits, run_pair(proxy.prepare(job, limits), limits.wall_s), report)
