"""Our sampler and scorer beside the plain ways: equal tokens, equal numbers, no speeds."""

from __future__ import annotations

import json

import pytest

from rlkit.bench import ceilings, rollout, score
from rlkit.bench.fixed_work import Case
from rlkit.errors import UserError

SMALL = Case("small", problems=2, group_size=2, prompt_tokens=40, new_tokens=4)


@pytest.fixture(scope="module")
def known():
    return ceilings.measure(seconds=0.005, streamed=1 << 20, width=64)


def test_ceilings_are_what_their_parts_say(known):
    assert set(known["gflops"]) == set(known["stream_gb_s"]) == {"float32", "bfloat16"}
    every = [value for rows in known["gflops"].values() for value in rows.values()]
    assert known["best_gflops"] == max(every) > 0
    assert known["best_gb_s"] == max(known["copy_gb_s"], *known["stream_gb_s"].values()) > 0
    assert "GFLOP/s at 32 rows" in ceilings.line(known)


def test_all_samplers_make_equally_many_tokens(known):
    found = rollout.measure("tiny", case=SMALL, sequences=(1, 4), repeats=2, ceilings=known)
    json.dumps(found)
    names = [one["name"] for one in found["contestants"]]
    assert names[0] == rollout.PEER
    assert names[-2:] == ["rlkit, exact", "rlkit, fast"]
    for one in found["contestants"]:
        assert one["tokens"] == 2 * 2 * 4
        assert len(one["tokens_s"]["all"]) == 2
        assert one["shares"]["memory_share"] > 0
    assert found["contestants"][0]["speedup"] == 1.0
    assert [(row["sequences"], row["tokens"]) for row in found["sequences"]] == [(1, 4), (4, 16)]
    assert [(row["problems"], row["group_size"]) for row in found["sequences"]] == [(1, 1), (1, 4)]
    assert set(found["merge_s"]) == {"exact", "fast"}
    page = rollout.page(found)
    assert "| rlkit, exact | exact, float32 |" in page
    assert "| sequences |" in page


def test_all_scorers_give_the_same_numbers(known):
    found = score.measure("tiny", case=SMALL, repeats=1, ceilings=known)
    json.dumps(found)
    assert found["tokens"] == 2 * 2 * 4
    first, *others = found["contestants"]
    assert first["name"] == score.PEER
    assert (first["logprob_apart_max"], first["gradient_apart"]) == (0.0, 0.0)
    assert [one["name"] for one in others[-3:]] == list(score.WAYS)
    for one in others:
        # The fast copy may be in bfloat16; all others compute the same numbers in float32.
        tolerance = (0.1, 0.3) if one["name"] == "rlkit, fast copy" else (1e-4, 1e-3)
        assert one["logprob_apart_mean"] < tolerance[0]
        assert one["gradient_apart"] < tolerance[1]
    assert found["contestants"][0]["forward_s"] > 0
    assert score.PEER in score.page(found)


@pytest.mark.parametrize(
    "call",
    [
        lambda: rollout.measure("tiny", repeats=0),
        lambda: rollout.measure("tiny", sequences=(0,)),
        lambda: score.measure("tiny", repeats=0),
    ],
)
def test_sizes_out_of_range(call):
    with pytest.raises(UserError, match="1 or more"):
        call()
