"""Processes of their own: requests in turns, errors in words, memory that is really theirs."""

from __future__ import annotations

import sys
import textwrap

import pytest

from rlkit.bench import resident
from rlkit.bench.side_process import SideProcess
from rlkit.errors import UserError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module that a process can be started with."""

    def make(body: str) -> str:
        source = """
            import json, os, sys
            from rlkit.bench.side_process import channel
            from rlkit.errors import UserError
            settings = json.loads(sys.argv[1])
            with channel() as line:
        """
        text = textwrap.dedent(source) + textwrap.indent(textwrap.dedent(body), "    ")
        (tmp_path / "a_side.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{__import__('os').getcwd()}")
        return "a_side"

    return make


def test_answers_and_nothing_else_reach_the_parent(module):
    name = module(
        """
        print("a library talks")
        os.system("echo a child talks")
        line.say(ready=settings["n"], threads=os.environ["OMP_NUM_THREADS"])
        for request in line:
            line.say(twice=2 * request["x"])
        """
    )
    with SideProcess(name, {"n": 3}, threads=1) as process:
        assert process.answer() == {"ready": 3, "threads": "1"}
        assert process.ask(x=4) == {"twice": 8}
        assert process.ask(x=5) == {"twice": 10}
    assert process._process.returncode == 0


def test_a_user_error_is_raised_again(module):
    with (
        SideProcess(module('raise UserError("no such policy")'), {}, 1) as process,
        pytest.raises(UserError, match="no such policy"),
    ):
        process.answer()


def test_a_crash_shows_its_last_words(module):
    with (
        SideProcess(module("1 / 0"), {"side": "peer"}, 1) as process,
        pytest.raises(RuntimeError, match=r"(?s)process for peer has ended.*ZeroDivisionError"),
    ):
        process.ask(step=True)


@LINUX
def test_the_peak_is_that_of_the_work_and_can_begin_anew(module):
    name = module(
        """
        from rlkit.bench.resident import Memory
        memory = Memory("cpu")
        for request in line:
            anew = memory.reset_peak()
            before = memory.held_mb()
            block = bytearray(request["mb"] << 20)
            block[::4096] = b"x" * len(block[::4096])
            del block
            line.say(before=before, peak=memory.peak_mb(), after=memory.held_mb())
        """
    )
    with SideProcess(name, {}, 1) as process:
        large, small = process.ask(mb=200), process.ask(mb=20)
    assert large["peak"] - large["before"] == pytest.approx(200, abs=15)
    if resident.reset_peak():
        assert small["peak"] - small["before"] == pytest.approx(20, abs=15)
    assert small["after"] < small["peak"]
