"""A verifier in the sandbox: what it pays, and what one bad answer does to the others."""

from __future__ import annotations

import pickle

import pytest

from rlkit.errors import UserError
from rlkit.rewards.sandboxed import MOST_BREAKS, SandboxedVerifier
from rlkit.sandbox import Limits, Sandbox

EVAL = "def verify(answer, target):\n    return eval(answer) == target\n"


def tagged(*answers):
    return [f"<answer>{answer}</answer>" for answer in answers]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as opened:
        yield opened


@pytest.fixture
def verifier(sandbox):
    limits = Limits(wall_s=0.5, cpu_s=1.0, memory_mb=256)
    return SandboxedVerifier(EVAL, ["target"], "careless", limits=limits, sandbox=sandbox)


def test_pays_true_and_nothing_else(sandbox):
    source = "def verify(answer):\n    return {'a': True, 'b': 1, 'c': 'yes'}.get(answer)\n"
    says = SandboxedVerifier(source, [], sandbox=sandbox)
    assert says(completions=tagged("a", "b", "c", "d")) == [1.0, 0.0, 0.0, 0.0]


def test_an_answer_that_hangs_takes_nobody_along(verifier):
    rows = verifier.score(
        completions=tagged("9", "9 ** 9 ** 9", "4 + 5", "10"), target=[9, 9, 9, 9]
    )
    assert [row.value for row in rows] == [1.0, 0.0, 1.0, 0.0]
    assert rows[1].status in ("TIMEOUT", "CPU_LIMIT")


def test_more_hanging_answers_than_are_borne_leave_rows_without_verdict(sandbox):
    limits = Limits(wall_s=0.1, memory_mb=256)
    impatient = SandboxedVerifier(EVAL, ["target"], limits=limits, sandbox=sandbox)
    hanging = MOST_BREAKS + 1
    rows = impatient.score(
        completions=tagged(*["9 ** 9 ** 9"] * hanging, "9"), target=[9] * (hanging + 1)
    )
    assert [row.value for row in rows] == [0.0] * hanging + [None]
    assert rows[-1].status == "NOT_REACHED"


def test_an_exception_is_no_pass(verifier):
    (row,) = verifier.score(completions=tagged("1 / 0"), target=[9])
    assert (row.value, row.status) == (0.0, "RUNTIME_ERROR")
    assert "ZeroDivisionError" in row.reason


def test_an_exit_of_the_process_is_no_pass(verifier):
    first, second = verifier.score(
        completions=tagged("__import__('os')._exit(0)", "9"), target=[9, 9]
    )
    assert first.value == 0.0
    assert second.value == 1.0


def test_without_one_answer_block_nothing_is_called(verifier):
    rows = verifier.score(completions=["9", "<answer>9</answer><answer>9</answer>"], target=[9, 9])
    assert [(row.value, row.status) for row in rows] == [(0.0, "NO_ANSWER")] * 2


def test_a_verifier_that_does_not_load_gives_no_verdict(sandbox):
    broken = SandboxedVerifier(
        "import nowhere\ndef verify(answer):\n    return True\n", [], sandbox=sandbox
    )
    (row,) = broken.score(completions=tagged("9"))
    assert row.value is None
    assert "the verifier fails" in row.reason


def test_columns_go_in_their_order(sandbox):
    source = "def verify(answer, first, second):\n    return answer == f'{first}-{second}'\n"
    pair = SandboxedVerifier(source, ["first", "second"], sandbox=sandbox)
    assert pair(completions=tagged("1-2", "2-1"), second=[2, 2], first=[1, 1]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def verify(", "no Python"),
        ("def check(answer, target): return True", "does not define verify"),
        ("def verify(answer): return True", "takes 1 arguments and is called with 2"),
    ],
)
def test_a_text_that_cannot_work_is_refused_at_once(source, says):
    with pytest.raises(UserError, match=says):
        SandboxedVerifier(source, ["target"])


def test_goes_through_a_pickle(verifier):
    again = pickle.loads(pickle.dumps(verifier))
    assert again.name == "careless"
    assert again(completions=tagged("4 + 5"), target=[9]) == [1.0]
    for opened in again.sandboxes():
        opened.close()


def test_another_sandbox_keeps_the_limits(verifier, sandbox):
    moved = verifier.with_sandbox(sandbox)
    assert moved.sandboxes() == [sandbox]
    assert moved.limits == verifier.limits
