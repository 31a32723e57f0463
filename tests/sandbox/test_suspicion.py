"""Telemetry about programs: what is found, what is not, and that it decides nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.sandbox import Job, Status, TestSpec
from rlkit.sandbox.suspicion import WORDS, suspicion


@pytest.mark.parametrize(
    "source, said",
    [
        ("import os\nos._exit(0)", "_exit ends the process at once (line 2)"),
        ("from os import _exit\n", "_exit ends the process at once (line 1)"),
        ("getattr(__import__('os'), '_exit')(0)", "_exit ends the process at once (line 1)"),
        ("import sys\n\nsys.exit()", "sys.exit ends the program as if all were well (line 3)"),
        ("from sys import exit", "sys.exit ends the program as if all were well (line 1)"),
        ("import sys\nf = sys._getframe(1)", "_getframe looks at its callers' frames (line 2)"),
        ("import gc\ngc.get_objects()", "get_objects looks through all objects"),
        ("class E:\n    def __eq__(s, o): return True", "__eq__ says itself what it is equal to"),
        ("class E:\n    __class__ = list", "__class__ names or changes its class (line 2)"),
        ("import ctypes", "ctypes reaches below Python (line 1)"),
        ("import sys\nsys.settrace(None)", "settrace follows the interpreter step by step"),
        ("x = open('/proc/self/mem')", "/proc/self reads about processes (line 1)"),
        ("import os\nos.write(3, b'')", "os.write writes to a descriptor by number (line 2)"),
        ("def f(x:\n    os._exit(0)", "_exit ends the process at once (line 2)"),
    ],
)
def test_what_is_found(source: str, said: str) -> None:
    assert any(sentence.startswith(said) for sentence in suspicion(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): return sorted(x)",
        "# os._exit would end it\ndef f(x): return x",
        "'''about sys._getframe and ctypes'''\ndef f(x): return x",
        "class P:\n    def __eq__(self, o): return self.x == o.x",
        "def on_exit_(x): return my_abort_count",
        "def f(s): return s.find('exit')",
        "",
    ],
)
def test_what_an_honest_program_says_is_not(source: str) -> None:
    assert suspicion(source) == ()


def test_other_languages_are_read_as_text() -> None:
    assert suspicion("process.exit(0)", "javascript") == (
        "process.exit ends or opens up its process (line 1)",
    )
    assert suspicion("\nSystem.exit(0);", "java")[0].endswith("(line 2)")


def test_a_kind_is_told_once_and_few_are_told() -> None:
    assert len(suspicion("import os\n" + "os._exit(0)\n" * 50)) == 1
    assert len(suspicion("\n".join(f"{word}" for word in WORDS if word != "None"))) <= 12


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    for source in (text, text + "\nos._exit(0)", "_exit" + text):
        assert all(isinstance(said, str) and said.isprintable() for said in suspicion(source))


def test_it_decides_nothing(sandbox) -> None:
    source = "import os, ctypes\ndef f(x):\n    return x + 1 if os._exit else ctypes"
    tests = [TestSpec("one", args=(1,), expected=2)]
    verdict = sandbox.run(Job(source=source, entry="f", tests=tests))
    assert verdict.status is Status.PASS
    assert len(verdict.suspicion) == 2
