"""Extraction: hostile texts end soon, whole programs are told from what they print.

What is extracted for a function is in `tests/cases/test_code.py` and `test_code.py`.
"""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.rewards.extraction import defines, extract_code, fenced_blocks, without_thoughts

READS = "n = int(input())\nprint(n * 2)"


@pytest.mark.parametrize(
    "text, program",
    [
        (f"```python\n{READS}\n```", READS),
        (f"```python\n{READS}\n```\nIt prints\n```\n42\n```", READS),
        (f"```python\n{READS}\n```\nCheck:\n```python\nprint(21 * 2)\n```", READS),
        (READS, READS),
        ("```python\nprint(1)\n```\n```python\nprint(2)\n```", "print(2)"),
        ("```\n$ python a.py\n```", None),
        ("42", None),
        ("The answer is 42.", None),
    ],
)
def test_a_whole_program_is_found(text, program) -> None:
    assert extract_code(text) == program


@pytest.mark.parametrize(
    "text",
    [
        "```python\nf(\n```\n" * 6000,
        "```\n" * 25_000,
        "```python\nf = '\n" + "```\n" * 20_000,
        "~~~\n```\n" * 12_000,
        "<think>" * 14_000,
        "</think>" * 12_000,
        "```python\n" + "(" * 90_000,
        "```python\n" + "-" * 90_000 + "1\n```",
        "def f(x): return " + "x." * 45_000 + "x",
        "\x00",
        "\ud800",
    ],
)
def test_hostile_texts_are_no_trouble(text) -> None:
    # What is no Python is handed on from its block, so that the verdict can say so.
    for entry in (None, "f"):
        found = extract_code(text, entry)
        assert found is None or (found in text and not defines(found, entry))


@given(st.text(alphabet="`~\n fd():x<think>/", max_size=200))
def test_whatever_is_extracted_is_part_of_the_text(text) -> None:
    found = extract_code(text, "f")
    if found is not None:
        for line in found.split("\n"):
            assert line in text
    assert sum(len(block.text) for block in fenced_blocks(text)) <= len(text)


@given(st.sampled_from(["```", "~~~", "````"]), st.sampled_from(["python", "", "Py"]), st.text())
def test_a_fenced_function_comes_back_as_it_is(fence, tag, prose) -> None:
    prose = "".join(c for c in prose if c not in "`~<>\r\n")
    source = "def f(x):\n    return x"
    assert extract_code(f"{prose}\n{fence}{tag}\n{source}\n{fence}\n{prose}", "f") == source


def test_thoughts() -> None:
    assert without_thoughts("<think>a</think>b") == "b"
    assert without_thoughts("<think>a") is None
    assert without_thoughts("a</think>b") == "b"
    code = "```python\nx = '</think>'\n```"
    assert without_thoughts(code) == code


def test_definitions() -> None:
    assert defines("class A:\n    def g(self): pass", "A.g")
    assert defines("try:\n    from a import f\nexcept ImportError:\n    f = None", "f")
    assert not defines("x = f", "f")
    assert not defines("def f(", "f")
    assert ast.parse(READS)
