"""Cases of kind c: programs taken out of completions, run, and judged.

Every public row is a test, with its source beside it; the neighbours below it are our own,
in the same shape, so that the kind is fixed and not the row. One adapter maps each
operation to what the package offers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlkit.rewards import CodeReward, extract_code, sanitise
from rlkit.rewards.code_task import make_task
from rlkit.rewards.grading import Grade, grade_many
from rlkit.sandbox import Job, Limits, Sandbox, TestSpec

ROWS = [
    row
    for line in Path(__file__).with_name("public_abc.jsonl").read_text("utf-8").splitlines()
    if (row := json.loads(line))["kind"] == "c"
]


class Recording(Sandbox):
    """A sandbox that remembers its verdicts."""

    def run_many(self, jobs):
        verdicts = super().run_many(jobs)
        self.verdicts = [*getattr(self, "verdicts", []), *verdicts]
        return verdicts


def limits_of(given: dict[str, Any]) -> Limits:
    seconds = given.get("timeout_s", 4)
    return Limits(wall_s=seconds, cpu_s=seconds, memory_mb=given.get("memory_mb", 512))


def passed(grade: Grade) -> bool:
    return all(share == 1.0 for share in grade.shares.values())


def still_usable(sandbox: Sandbox) -> bool:
    job = Job(source="def f(x): return x", entry="f", tests=[TestSpec("1", (1,), expected=1)])
    return sandbox.run(job).reward == 1.0


def children() -> list[str]:
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        found += Path(f"/proc/self/task/{task}/children").read_text().split()
    return found


def is_dead(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False  # reaped meanwhile


def run_tests(given: dict[str, Any]) -> Any:
    with Recording(limits_of(given), workers=2) as sandbox:
        started = time.monotonic()
        task = make_task(given["tests"], tolerance=given.get("float_tol", 1e-6))
        (grade,) = grade_many(sandbox, [(given["code"], task)])
        seconds = time.monotonic() - started
        captured = max(len(v.stdout) + len(v.stderr) for v in sandbox.verdicts)
        return {
            "passed": passed(grade),
            "parent_alive": still_usable(sandbox),
            "max_wall_s": seconds,
            "captured_bytes_at_most": captured,
        }


def run_many(given: dict[str, Any]) -> Any:
    tests = [TestSpec("any", (), expected=None)]
    before = children() if sys.platform.startswith("linux") else None
    with Sandbox(limits_of(given), workers=2) as sandbox:
        jobs = [
            Job(source=given["code"], entry="main", tests=tests, seed=i) for i in range(given["n"])
        ]
        verdicts = sandbox.run_many(jobs)
        # What stays warm for the next job is alive; nothing may be dead and not reaped.
        zombies = [pid for pid in children() if is_dead(pid)] if before is not None else []
    after = children() if before is not None else []
    return {
        "passed": [v.reward == 1.0 for v in verdicts],
        "zombie_children_after": len(set(zombies + after) - set(before or ())),
    }


def run_tests_with_broken_sandbox(given: dict[str, Any]) -> Any:
    with Sandbox(python="/nonexistent/python", workers=1) as sandbox:
        (score,) = CodeReward(sandbox).score(
            completions=["```python\ndef f(x):\n    return x\n```"],
            tests=[[{"fn": "f", "args": [1], "out": 1}]],
        )
    return {"reward": score.value, "error": score.status.lower()}


def run_asserts(given: dict[str, Any]) -> Any:
    with Sandbox(limits_of(given), workers=1) as sandbox:
        (grade,) = grade_many(sandbox, [(given["code"], make_task(given["test_code"]))])
    return passed(grade)


def code_reward(given: dict[str, Any]) -> Any:
    values = []
    with Sandbox(limits_of(given), workers=1) as sandbox:
        for mode in given["modes"]:
            reward = CodeReward(sandbox, mode=mode)
            values += reward(
                completions=[f"```python\n{given['code']}\n```"], tests=[given["tests"]]
            )
    return values


OPERATIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "extract_code": lambda given: extract_code(given["completion"], given["entry_point"]),
    "run_tests": run_tests,
    "run_many": run_many,
    "run_tests_with_broken_sandbox": run_tests_with_broken_sandbox,
    "sanitise_rewards": lambda given: sanitise(given["values"]),
    "run_asserts": run_asserts,
    "code_reward": code_reward,
}


def check(row: dict[str, Any]) -> None:
    given, expected = row["input"], row["expected"]
    got = OPERATIONS[given["op"]](given)
    if given["op"] == "extract_code":
        assert (got and got.strip("\n")) == expected
    elif given["op"] == "run_tests":
        assert got["parent_alive"]
        wanted = expected if isinstance(expected, dict) else {"passed": expected}
        for name, value in wanted.items():
            if name in ("max_wall_s", "captured_bytes_at_most"):
                assert got[name] <= value
            else:
                assert got[name] == value
    else:
        assert got == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_public_case(row: dict[str, Any]) -> None:
    check(row)


def test_every_kind_of_case_is_here() -> None:
    assert len(ROWS) == 33
    assert {row["input"]["op"] for row in ROWS} == OPERATIONS.keys()


# -- neighbours ---------------------------------------------------------------------

F = "def f(x):\n    return x + 1"
ZERO = "def f(x):\n    return 0"


def extraction() -> Iterator[tuple[str, str, str | None]]:
    yield "upper_case_tag", f"```Python\n{F}\n```", F
    yield "python3_tag", f"```python3\n{F}\n```", F
    yield "pandoc_attributes", f"```{{.python .numberLines}}\n{F}\n```", F
    yield "tildes", f"~~~python\n{F}\n~~~", F
    yield "four_backticks", f"````python\n{F}\n````", F
    yield "wrong_tag", f"```text\n{F}\n```", F
    yield "javascript_beside_it", f"```python\n{F}\n```\n```js\nfunction f(x) {{}}\n```", F
    yield "in_a_list", "1. So:\n\n   ```python\n   def f(x):\n       return x + 1\n   ```", F
    yield "fence_after_prose", f"Here it is: ```python\n{F}\n```", F
    yield "fence_behind_the_last_line", f"```python\n{F}```", F
    yield "output_block_last", f"```python\n{F}\n```\nOutput:\n```\n4\n```", F
    yield "shell_blocks", f"```bash\npip install x\n```\n```python\n{F}\n```\n```sh\nls\n```", F
    yield "second_version_counts", f"```python\n{ZERO}\n```\nBetter:\n```python\n{F}\n```", F
    yield "broken_second_version", f"```python\n{F}\n```\n```python\ndef f(x)\n    ?\n```", F
    yield "draft_in_thoughts", f"<think>```python\n{ZERO}\n```</think>\n```python\n{F}\n```", F
    yield "thoughts_never_end", f"<think>\n```python\n{F}\n```", None
    yield "closing_tag_only", f"hm, f\n</think>\n```python\n{F}\n```", F
    yield "answer_tags", f"<answer>\n{F}\n</answer>", F
    yield "carriage_returns", f"```python\r{F}\r```".replace("\n", "\r"), F
    yield (
        "method_of_solution",
        "```python\nclass Solution:\n    def f(self):\n        pass\n```",
        ("class Solution:\n    def f(self):\n        pass"),
    )
    yield "lambda", "```python\nf = lambda x: x + 1\n```", "f = lambda x: x + 1"
    yield "cut_in_the_call_below", f"```python\n{F}\n\nprint(f(", F
    yield "prose_with_def", "Then def f is what we need.", None
    yield "only_another_function", "```python\ndef g(x):\n    return x\n```", None
    yield "nothing", "", None
    fenced_string = 'def f(x):\n    return """\n```\n""" + x'
    yield "fence_line_in_a_string", f"```python\n{fenced_string}\n```", fenced_string


@pytest.mark.parametrize(
    "text, source", [pytest.param(*case, id=name) for name, *case in extraction()]
)
def test_extraction_neighbour(text: str, source: str | None) -> None:
    given = {"op": "extract_code", "completion": text, "entry_point": "f"}
    check({"input": given, "expected": source})


def stdio(code: str, *pairs: tuple[str, str], **more: Any) -> dict[str, Any]:
    tests = [{"stdin": stdin, "stdout": stdout} for stdin, stdout in pairs]
    return {"op": "run_tests", "mode": "stdio", "code": code, "tests": tests, **more}


def call(code: str, *calls: tuple[list, Any], **more: Any) -> dict[str, Any]:
    tests = [{"fn": "f", "args": args, "out": out} for args, out in calls]
    return {"op": "run_tests", "mode": "call", "code": code, "tests": tests, **more}


DOUBLE = "print(int(input()) * 2)"
LOOP = {"timeout_s": 1}

NEIGHBOURS: dict[str, tuple[dict[str, Any], Any]] = {
    # whole programs: streams, exits, threads
    "read_all": (stdio("import sys\nprint(sum(map(int, sys.stdin)))", ("1\n2\n", "3\n")), True),
    "open_0": (stdio("print(int(open(0).read()) * 2)", ("21", "42")), True),
    "os_read": (stdio("import os\nprint(int(os.read(0, 99)) * 2)", ("21\n", "42")), True),
    "two_inputs": (stdio(DOUBLE, ("1\n", "2\n"), ("2\n", "4\n")), True),
    "one_of_two_inputs": (stdio("print(2)", ("1\n", "2\n"), ("2\n", "4\n")), False),
    "no_state_between": (
        stdio("import sys\nsys.n = getattr(sys, 'n', 0) + 1\nprint(sys.n)", ("", "1"), ("", "1")),
        True,
    ),
    "sys_exit_zero": (stdio(f"{DOUBLE}\nimport sys\nsys.exit()", ("1\n", "2")), True),
    "sys_exit_one": (stdio(f"{DOUBLE}\nimport sys\nsys.exit(1)", ("1\n", "2")), False),
    "os_exit": (
        stdio("import os\nprint(1, flush=True)\nos._exit(0)", ("", "1")),
        True,
    ),
    "os_exit_in_trouble": (stdio("import os\nprint(1, flush=True)\nos._exit(3)", ("", "1")), False),
    "raises_after_printing": (stdio(f"{DOUBLE}\n1 / 0", ("1\n", "2")), False),
    "in_a_thread": (
        stdio(
            "import threading\nthreading.stack_size(2**26)\n"
            "def main():\n    print(int(input()) * 2)\nthreading.Thread(target=main).start()",
            ("4\n", "8"),
        ),
        True,
    ),
    "at_exit": (stdio("import atexit\natexit.register(print, 7)", ("", "7")), True),
    "end_of_input": (stdio("input()\ninput()", ("1\n", "")), False),
    "unicode_in": (stdio("print(input()[::-1])", ("aé√\n", "√éa\n")), True),
    "typing_names": (stdio("def g(x: List[int]): ...\nprint(1)", ("", "1")), True),
    "dataclass_in_main": (
        stdio(
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: 'int' = 3\nprint(A().x)",
            ("", "3"),
        ),
        True,
    ),
    "does_not_parse": (stdio("print(1", ("", "1")), False),
    "quotes_in_source": (stdio("print('''a\"\"\"b\\n''')", ("", 'a"""b\n')), True),
    # output
    "empty_line_in_the_middle": (stdio("print(1)\nprint()\nprint(2)", ("", "1\n2\n")), False),
    "leading_blanks_count": (stdio("print(' 1')", ("", "1\n")), False),
    "windows_line_ends": (stdio("print('1\\r\\n2\\r')", ("", "1\n2\n")), True),
    "missing_line": (stdio("print(1)", ("", "1\n2\n")), False),
    "nothing_printed": (stdio("pass", ("", "")), True),
    "words_are_no_numbers": (stdio("print('nan')", ("", "0.5\n")), False),
    "float_in_a_line": (stdio("print('x', 0.1 + 0.2)", ("", "x 0.3\n")), True),
    "large_float": (stdio("print(1e12 + 1)", ("", "1000000000000.0\n")), True),
    "integer_as_decimal": (stdio("print(4 / 2)", ("", "2\n")), True),
    "integer_off_by_little": (stdio("print(2.0000001)", ("", "2\n")), False),
    "underscores_are_no_digits": (stdio("print('1_0')", ("", "10\n")), False),
    # calls
    "nested_tuples": (call("def f(x): return [(1, (2,))]", ([0], [[1, [2]]])), True),
    "a_set_is_no_list": (call("def f(x): return {1, 2}", ([0], [1, 2])), False),
    "true_is_not_one": (call("def f(x): return True", ([0], 1)), False),
    "float_in_a_dict": (call("def f(x): return {'a': 0.1 + 0.2}", ([0], {"a": 0.3})), True),
    "integers_exactly": (call("def f(x): return 10**17 + 1", ([0], 10**17)), False),
    "none_expected": (call("def f(x): pass", ([0], None)), True),
    "typing_in_a_body": (call("def f(x):\n    y: Dict = {}\n    return 1", ([0], 1)), True),
    "always_equal": (
        call("class E:\n    def __eq__(s, o): return True\ndef f(x): return E()", ([0], 1)),
        False,
    ),
    "exits_at_once": (call("import os\nos._exit(0)", ([0], 1)), False),
    "reads_at_load": (call("input()\ndef f(x): return 1", ([0], 1)), False),
    "deep_recursion": (call("def f(x): return f(x)", ([0], 1)), False),
    # limits
    "endless_print": (stdio("while 1: print('x')", ("", "x"), **LOOP), False),
    "endless_stderr": (
        stdio("import sys\nwhile 1: print('x', file=sys.stderr)", ("", ""), **LOOP),
        False,
    ),
    "sleeps": (stdio("import time\ntime.sleep(60)", ("", ""), **LOOP), False),
    "list_bomb": (call("def f(x): return [0] * 10**10", ([0], 1), memory_mb=256), False),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_execution_neighbour(name: str) -> None:
    given, expected = NEIGHBOURS[name]
    check({"input": given, "expected": expected})


@pytest.mark.parametrize(
    "code, test_code, expected",
    [
        (F, "assert f(1) == 2\nassert not f(1) == 3", True),
        (F, "def check(candidate):\n    assert candidate(1) == 2\n\ncheck(f)", True),
        (ZERO, "def check(candidate):\n    assert candidate(1) == 2", False),
        (F, "def test_one():\n    assert f(1) == 2\ndef test_two():\n    assert f(2) == 2", False),
        (F, "want = 2\nassert f(1) == want\nassert abs(f(2) - 3.0) < 1e-6", True),
        (F, "assert f(1) == 2.0", True),
        (F, "for i in range(3):\n    assert f(i) == i + 1\nassert f(0) is not None", True),
        ("def f(x):\n    raise SystemExit(0)", "assert f(1) == 2", False),
        (
            "class E:\n    def __eq__(s, o): return True\ndef f(x): return E()",
            "assert f(1) == 2",
            False,
        ),
    ],
)
def test_assertions_neighbour(code: str, test_code: str, expected: bool) -> None:
    given = {"op": "run_asserts", "code": code, "test_code": test_code, "entry": "f"}
    with Sandbox(limits_of(given), workers=1) as sandbox:
        (grade,) = grade_many(sandbox, [(code, make_task(test_code, entry="f"))])
    assert passed(grade) is expected
