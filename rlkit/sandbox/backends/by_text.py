"""`call` for a service that runs one Python program given as text, and gives text back.

The program is the harness itself: a text that unpacks the modules which a mode needs and starts
`zygote/once.py`. It is the same for every job of a mode. What differs, the limits and the
requests, is its standard input, in hexadecimal; so the verifier's part of a job never lies in a
file that the candidate could read. Answers come back as ASCII on standard output.

The fences of the harness stand inside the service, as far as it lets them. They do not for
programs that the service runs itself (mode `io`), so there are two reports: `report` on calls,
and `report_io` on the bare place, made by the same probes without our fences.

Left out on purpose: anything that only one service has.
"""

from __future__ import annotations

import base64
import re
import textwrap
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rlkit.sandbox.backends.base import Call, InfrastructureFault, Outcome
from rlkit.sandbox.backends.by_command import answers, blocks_of, of_two
from rlkit.sandbox.types import IsolationReport, Job, Limits

#: Modules that every mode needs, beside those whose names begin as told below.
CORE = ("once", "fences", "harness", "kernel", "landlock", "seccomp", "child")
_MORE = {"proxy": ("proxy",), "inproc": ("proxy", "inproc"), "mathematics": ("mathematics",)}

#: Starting an interpreter and the harness may take so much longer than a program may run, as
#: long as it is not known how long it takes.
START_S = 2.0

_PROGRAM = '''\
import base64, os, sys, zlib
if os.access(os.path.dirname(os.path.abspath(__file__)), os.W_OK):
    os.unlink(__file__)  # so that a job finds its folder empty
parts = zlib.decompress(base64.b85decode("".join("""
{packed}
""".split()))).decode().split("\\0")
code = dict(zip(parts[::2], parts[1::2]))
class Finder:
    rlkit = True
    def find_spec(self, name, path=None, target=None):
        if name in code:
            return Spec(name, self, origin=name.replace(".", "/") + ".py", is_package=not code[name])
    def create_module(self, spec): return None
    def exec_module(self, module):
        origin = module.__spec__.origin
        module.__file__ = origin
        exec(compile(code[module.__name__], origin, "exec", dont_inherit=True), module.__dict__)
Spec = type(sys.__spec__) if sys.__spec__ else __import__("importlib.machinery", None, None, ["x"]).ModuleSpec
del parts
sys.meta_path.insert(0, Finder())
from rlkit.sandbox.zygote import once
once.main(text=True)
'''  # noqa: E501 (as short as it can be: it is sent with every job)


class CallByText:
    """Mix this into a backend that has `run_text`, to get `call` and both reports."""

    #: The shortest time that a whole call took so far, most of it for starting.
    _quickest = START_S

    def run_text(
        self, source: str, stdin: str, limits: Limits, cancelled: Callable[[], bool]
    ) -> Outcome:
        """Run a Python program; its output is ASCII. To be given by the backend."""
        raise NotImplementedError

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a mode of the harness in an interpreter of the service's.

        Raises:
            InfrastructureFault: the interpreter did not come up, or the service failed.
        """
        return self._call(call, limits, cancelled, fences=True)

    def report(self) -> IsolationReport:
        """What keeps calls apart, as seen by probes run behind the harness's own fences.

        Raises:
            InfrastructureFault: the service could not run the probes.
        """
        return self._probed(fences=True)

    def report_io(self) -> IsolationReport:
        """What keeps whole programs apart: the service alone, without fences of ours.

        Raises:
            InfrastructureFault: the service could not run the probes.
        """
        return self._probed(fences=False)

    def _call(
        self, call: Call, limits: Limits, cancelled: Callable[[], bool], fences: bool
    ) -> Outcome:
        stdin = blocks_of(call, limits, fences).hex()
        # The channel is standard output, and every byte of it may take three characters.
        room = replace(
            limits,
            output_kb=limits.output_kb + 3 * limits.result_kb + 64,
            wall_s=limits.wall_s + min(START_S, 0.25 + 2 * self._quickest),
            processes=limits.processes + of_two(call),
        )
        outcome = self.run_text(program_of(call.mode), stdin, room, cancelled)
        if outcome.ended == "exit" and outcome.wall_s:
            self._quickest = min(self._quickest, outcome.wall_s)
        stopped_early(outcome, len(outcome.stderr), limits.output_kb, limits.result_kb)
        outcome = replace(outcome, stdout=unpacked(outcome.stdout))
        return answers(outcome, limits, pair=of_two(call))

    def _probed(self, fences: bool) -> IsolationReport:
        from rlkit.sandbox.judge import prepare
        from rlkit.sandbox.probe import probe

        def run(job: Job, limits: Limits) -> Outcome:
            return self._call(prepare(job, limits), limits, lambda: False, fences)

        with self._probing:
            if fences not in self._reports:
                self._reports[fences] = probe(run)[0]
            return self._reports[fences]

    @property
    def _probing(self) -> threading.Lock:
        return self.__dict__.setdefault("_probing_lock", threading.Lock())

    @property
    def _reports(self) -> dict[bool, IsolationReport]:
        return self.__dict__.setdefault("_reports_made", {})


def stopped_early(outcome: Outcome, printed: int, output_kb: int, result_kb: int) -> None:
    """Refuse to take a service's own limit on output for one of ours.

    Raises:
        InfrastructureFault: it stopped a program that had not printed what it may.
    """
    if outcome.ended != "output" or printed >= output_kb << 10:
        return
    if len(outcome.stdout) < result_kb << 10:
        raise InfrastructureFault(
            f"the service stopped the program after {len(outcome.stdout) + len(outcome.stderr)} "
            "bytes of output, which is less than it may print; the service's owner can allow more"
        )


@lru_cache(maxsize=16)
def program_of(mode: str) -> str:
    """The text of the program that runs a mode; ASCII, some tens of kilobytes.

    >>> program_of("func").isascii()
    True
    """
    folder = Path(__file__).parent.parent
    wanted = _MORE.get(mode, (mode,))
    texts = {"rlkit": "", "rlkit.sandbox": "", "rlkit.sandbox.zygote": ""}
    texts["rlkit.sandbox.codec"] = (folder / "codec.py").read_text("utf-8")
    for path in sorted((folder / "zygote").glob("*.py")):
        if path.stem in CORE or path.stem.startswith(wanted):
            texts[f"rlkit.sandbox.zygote.{path.stem}"] = path.read_text("utf-8")
    joined = "\0".join(part for pair in texts.items() for part in pair).encode()
    packed = base64.b85encode(zlib.compress(joined, 9)).decode("ascii")
    # No line of the alphabet holds a quote or a backslash; some services dislike long lines.
    return _PROGRAM.format(packed="\n".join(textwrap.wrap(packed, 4000)))


_ESCAPED = re.compile(rb"%([89A-F][0-9A-F])")


def unpacked(channel: bytes) -> bytes:
    """The channel as the harness meant it: the bytes that were no ASCII are put back.

    >>> unpacked(b"s2:%C3%A9 %25 %0A")
    b's2:\\xc3\\xa9 %25 %0A'
    """
    return _ESCAPED.sub(lambda found: bytes((int(found[1], 16),)), channel)
