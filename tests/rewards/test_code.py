"""Code rewards: what is taken out of a completion, and what the sandbox says of it."""

from __future__ import annotations

import pytest

from rlkit.rewards import TestsPass, extract_code
from rlkit.sandbox import Limits, Sandbox

GOOD = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    "text, source",
    [
        (f"```python\n{GOOD}\n```", GOOD),
        (f'```python title="a.py"\n{GOOD}\n```', GOOD),
        (f"```\n{GOOD}\n```", GOOD),
        (f"```python\r\n{GOOD}\r\n```\r\n".replace("\n    ", "\r\n    "), GOOD),
        (f"```python\n{GOOD}\n```\nUse it:\n```python\nprint(f(3))\n```", GOOD),
        (f"Here is the code\n```python\n{GOOD}\n", GOOD),
        (GOOD, GOOD),
        (
            "```python\ndef f(x):\n    s = '```'\n    return s\n```",
            "def f(x):\n    s = '```'\n    return s",
        ),
        (f"```python\ndef f(x):\n    return 0\n```\nBetter:\n```python\n{GOOD}\n```", GOOD),
        (f"```js\nfunction f() {{}}\n```\n```python\n{GOOD}\n```", GOOD),
        ("I would sort the list and take the first item.", None),
        ("```python\n\n```", None),
        ("```python\ndef g(x):\n    return x\n```", None),
        ("", None),
    ],
)
def test_extraction(text: str, source: str | None) -> None:
    assert extract_code(text, "f") == source


def test_code_that_does_not_parse_is_handed_on_so_that_the_verdict_can_say_so() -> None:
    assert extract_code("```python\ndef f(x)\n    return x\n```", "f") == "def f(x)\n    return x"


COLUMNS = {
    "entry": ["f"],
    "tests": [[{"args": [1], "expected": 2}, {"args": [2], "expected": 3}]],
}


@pytest.mark.parametrize(
    "body, value, status",
    [
        ("return x + 1", 1.0, "PASS"),
        ("return 2", 0.5, "FAIL"),
        ("return 0", 0.0, "FAIL"),
        ("return z", 0.0, "RUNTIME_ERROR"),
        ("return x +", 0.0, "COMPILE_ERROR"),
        ("import os; os._exit(0)", 0.0, None),
    ],
)
def test_the_share_of_tests_is_paid(sandboxed_tests_pass, body, value, status) -> None:
    text = f"```python\ndef f(x):\n    {body}\n```"
    (score,) = sandboxed_tests_pass.score(completions=[text], **COLUMNS)
    assert score.value == value
    assert status is None or score.status == status
    assert score.reason


def test_all_or_nothing(sandbox) -> None:
    strict = TestsPass(sandbox, all_or_nothing=True)
    texts = [f"```python\ndef f(x):\n    return {e}\n```" for e in ("x + 1", "2")]
    columns = {name: values * 2 for name, values in COLUMNS.items()}
    assert strict(completions=texts, **columns) == [1.0, 0.0]


def test_no_code_is_worth_nothing(sandboxed_tests_pass) -> None:
    (score,) = sandboxed_tests_pass.score(completions=["no idea"], **COLUMNS)
    assert (score.value, score.status) == (0.0, "NO_CODE")


def test_an_endless_loop_is_worth_nothing_and_ends() -> None:
    with Sandbox(limits=Limits(wall_s=1.0, cpu_s=1.0), workers=1) as sandbox:
        (score,) = TestsPass(sandbox).score(
            completions=["```python\ndef f(x):\n    while True: pass\n```"], **COLUMNS
        )
    assert score.value == 0.0
    assert score.status in ("TIMEOUT", "CPU_LIMIT")
