"""`call` for a backend that can only run a command: everything goes in by standard input.

The harness, the limits and the request travel as the standard input of one Python process
(see `zygote/once.py`); its standard output is the channel. So whatever can run `python3` on
some bytes (bubblewrap, `docker exec`, a remote service) can run every mode.

Left out on purpose: warm processes. An interpreter is started for each job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlkit.sandbox.backends.base import Call, Command, InfrastructureFault, Outcome
from rlkit.sandbox.backends.link import BOOT, child_code, take_line
from rlkit.sandbox.codec import encode
from rlkit.sandbox.types import Limits

#: Given to `python3 -c`; reads the rest from standard input.
BOOT_ONCE = BOOT.replace("import serve", "import once").replace("serve.main(0, 1)", "once.main()")

#: What Python reads on most systems, beside its own folders.
READABLE = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/etc/localtime"),
)

#: What is imported before the program is read, by flavour.
LIBRARIES = {"numpy": ("numpy",), "sympy": ("sympy", "sympy.parsing.sympy_parser")}


class CallByCommand:
    """Mix this into a backend that has `execute`, to get `call`.

    Attributes:
        python: how the interpreter is called where the commands run.
    """

    python = "python3"

    def call(self, call: Call, limits: Limits, cancelled: Callable[[], bool]) -> Outcome:
        """Run a mode of the harness in an interpreter of its own.

        Raises:
            InfrastructureFault: the interpreter did not come up, or the backend failed.
        """
        command = self.command_of(call, limits)
        # The channel is the command's standard output.
        room = replace(limits, output_kb=limits.output_kb + limits.result_kb + 64)
        return answers(self.execute(command, room, cancelled), limits, pair=of_two(call))

    def command_of(self, call: Call, limits: Limits) -> Command:
        """The command that runs a call: `python3 -c CODE`, and all else on its standard input."""
        stdin = child_code(compiled=False) + blocks_of(call, limits)
        environment = {
            "PYTHONIOENCODING": "utf-8:backslashreplace",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        argv = (self.python, "-s", "-S", "-B", "-c", BOOT_ONCE)
        return Command(argv, stdin=stdin, environment=environment, flavour=call.flavour)


def of_two(call: Call) -> bool:
    """Whether a call is one of two processes."""
    return "candidate" in call.request and "verifier" in call.request


def blocks_of(call: Call, limits: Limits, fences: bool = True) -> bytes:
    """What `zygote/once.py` reads about a call: a head, and a request for each process.

    Args:
        fences: False leaves out all fences of ours, to see what the place itself holds back.
    """
    parts = [call.request]
    if of_two(call):
        parts = [call.request["candidate"], call.request["verifier"]]
    head = {"mode": call.mode, "limits": dict(vars(limits)), "readable": READABLE}
    head["fences"] = fences
    head["imports"] = LIBRARIES.get(call.flavour, ())
    blocks = [encode(head)] + [encode(dict(part), max_bytes=1 << 30) for part in parts]
    return b"".join(len(block).to_bytes(4, "little") + block for block in blocks)


def answers(outcome: Outcome, limits: Limits, pair: bool = False) -> Outcome:
    """The outcome of such a command as the outcome of the call.

    Args:
        pair: whether it was a call of two processes, of which only ours writes here.

    Raises:
        InfrastructureFault: nothing was said before the program was read.
    """
    channel, printed = outcome.stdout, outcome.stderr
    most = limits.output_kb * 1024
    made = replace(outcome, stdout=printed[:most], stderr=b"", messages=[], garbage=0)
    if len(printed) > most:
        made.truncated = True
        if made.ended == "exit":
            made.ended, made.stopped_by = "output", "output limit"
    elif len(channel) > limits.result_kb * 1024 + 65536:
        made.ended, made.stopped_by = "result", "result limit"
    for line in channel.split(b"\n"):
        if line:
            take_line(made, line)
    # The first line is the harness's own: no program had been read when it was written.
    if not made.messages or made.messages[0][:1] != ("fences",):
        if outcome.ended == "cancelled":
            return made
        text = printed.decode("utf-8", "replace").strip()[-300:]
        raise InfrastructureFault(f"no interpreter came up (exit code {made.exit_code}) {text}")
    made.fences = frozenset(map(str, made.messages.pop(0)[1]))
    if pair and made.messages and made.messages[-1][:1] == ("ended",):
        code = made.messages.pop()[1]
        if code is not None:
            made.candidate_exit_code = code if code >= 0 else None
            made.candidate_signal = -code if code < 0 else None
    return made
