"""Each rank's share of a machine's processors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.sandbox import Job, TestSpec
from rlkit.scale.sandboxes import processors, rank_sandbox, share_of


@given(st.integers(1, 256), st.integers(1, 32))
def test_shares_add_up_and_nobody_is_left_without(workers, ranks):
    shares = [share_of(workers, rank, ranks) for rank in range(ranks)]
    assert min(shares) >= 1
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == max(workers, ranks)


def test_a_rank_that_does_not_exist():
    with pytest.raises(UserError, match="rank 2 is none of 2"):
        share_of(4, 2, 2)


def test_a_rank_opens_its_share_and_runs_a_program(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with rank_sandbox(workers=5) as sandbox:
        assert sandbox.workers == 2  # 5 over 2 ranks: 3 and 2
        job = Job(
            source="def f(x):\n    return x + 1",
            entry="f",
            tests=[TestSpec("a", args=(1,), expected=2)],
        )
        assert sandbox.run(job).reward == 1.0
    monkeypatch.delenv("LOCAL_RANK")
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    with rank_sandbox() as sandbox:
        assert sandbox.workers == processors()
