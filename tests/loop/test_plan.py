"""Plan: counted, measured in a child, carried over; what cannot fit is refused with a way out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.errors import UserError
from rlkit.loop import plan as module
from rlkit.loop.plan import plan, probe, run_probe
from rlkit.loop.plan_advice import largest_that_fits
from rlkit.loop.plan_counted import count
from rlkit.loop.plan_fit import Facts, Fit
from rlkit.loop.plan_machine import available_mb
from rlkit.loop.plan_sizes import (
    Part,
    Size,
    first_size,
    generations,
    in_two,
    largest_part,
    second_size,
)

MB = 1 << 20
SETTINGS = {
    "policy": "tiny",
    "quantize": "nf4",
    "rank": 16,
    "rollouts": "exact",
    "learner": "auto",
    "seed": 0,
}
ASKED = Size(problems=8, group_size=8, prompt_tokens=40, new_tokens=96)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What the probe of `tiny` says."""
    found = probe(SETTINGS, ASKED)
    assert found is not None
    return found


# -- against what is really taken --------------------------------------------------------------


def test_the_plan_of_tiny_is_what_a_process_of_its_own_takes(rows) -> None:
    """The dearest step, run as it stands in a fresh process: the peak is within a fifth."""
    planned = Fit(rows).predict(ASKED)
    seen = run_probe(
        {**SETTINGS, "seed": 5, "size": ASKED.to_dict(), "steps": [ASKED.to_dict()] * 2}
    )
    taken = [r for r in seen if r["kind"] == "step" and not r.get("warm")]
    assert [r["stepped"] for r in taken] == [1.0, 1.0]
    peak = max(seen[0]["load_mb"], *(max(r["generate_mb"], r["update_mb"]) for r in taken))
    assert planned.peak_mb / peak == pytest.approx(1.0, abs=0.2)
    # And it is no constant that always fits: the update is most of what is beyond loading.
    assert peak > 1.2 * seen[0]["load_mb"]


def test_the_probe_takes_real_steps_that_are_small(rows) -> None:
    facts, steps = rows[0], [r for r in rows if r["kind"] == "step" and not r.get("warm")]
    assert facts["kind"] == "facts" and facts["layers"] == 4 and facts["vocabulary"] == 595
    assert 50 < facts["base_mb"] < facts["load_mb"] < steps[0]["update_mb"]
    assert len(steps) >= 3 and all(r["stepped"] == 1.0 for r in steps)
    assert all(_size(r).rows * r["new_tokens"] < ASKED.rows * ASKED.new_tokens for r in steps)
    assert all(0 <= r["prompt_tokens"] - ASKED.prompt_tokens < 10 for r in steps)
    assert [r["new_tokens"] for r in rows if r["kind"] == "generate"] == [1, 12, 96]


#: Of this, and of twice as much of it, one micro-batch holds all.
KEPT_WHOLE = replace(ASKED, problems=4)


def test_more_of_anything_takes_more(rows) -> None:
    fit = Fit(rows)
    size = replace(KEPT_WHOLE, micro_batch=10**6, micro_batch_tokens=10**6)
    for name in ("problems", "group_size", "prompt_tokens", "new_tokens"):
        twice = replace(size, **{name: 2 * getattr(size, name)})
        assert fit.predict(twice).seconds > fit.predict(size).seconds, name
        assert fit.predict(twice).peak_mb > fit.predict(size).peak_mb, name
    cut = fit.predict(replace(size, micro_batch_tokens=600))
    assert cut.peak_mb < fit.predict(size).peak_mb and cut.part.parts > 1


def _size(row: dict[str, Any]) -> Size:
    return Size(**{name: row[name] for name in Size().to_dict()})


# -- refusals ----------------------------------------------------------------------------------


def test_what_cannot_even_be_loaded_is_refused_before_anything_is(monkeypatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("no probe was to be run")

    monkeypatch.setattr(module, "probe", never)
    found = plan("tiny", ASKED, quantize=None, memory_limit_mb=30)
    assert found.fits is False and found.prediction is None and found.seconds is None
    assert found.advice[0] == "take --quantize nf4"
    assert any("--rollouts plain" in line for line in found.advice)
    with pytest.raises(UserError, match="there are 30 MB; take --quantize nf4"):
        found.require()


def test_a_refusal_says_to_what_value(rows, monkeypatch) -> None:
    monkeypatch.setattr(module, "probe", lambda *_: rows)
    whole = plan("tiny", KEPT_WHOLE, memory_limit_mb=10**6)
    assert whole.fits and whole.require() is whole and whole.advice == ()
    assert "it fits" in str(whole) and whole.to_dict()["prediction"]["part"]["parts"] == 1
    # A bit less than half of what the tokens take: between the fixed part and the whole.
    fit = Fit(rows)
    limit = fit.fixed_mb + 0.4 * whole.prediction.activations_mb
    found = plan("tiny", KEPT_WHOLE, memory_limit_mb=limit)
    assert found.fits is False and found.peak_mb == pytest.approx(whole.peak_mb)
    said = dict(line.removeprefix("lower --").split(" to ") for line in found.advice)
    assert {"micro-batch-tokens", "max-new-tokens", "problems"} <= set(said)
    for flag, value in said.items():
        name = "new_tokens" if flag == "max-new-tokens" else flag.replace("-", "_")
        lowered = replace(KEPT_WHOLE, **{name: int(value)})
        assert plan("tiny", lowered, memory_limit_mb=limit).fits, flag
    more = replace(KEPT_WHOLE, new_tokens=int(said["max-new-tokens"]) + 1)
    assert not plan("tiny", more, memory_limit_mb=limit).fits
    # Tight: it fits, but by less than a plan may be off.
    assert plan("tiny", KEPT_WHOLE, memory_limit_mb=1.1 * whole.peak_mb).tight
    assert not plan("tiny", KEPT_WHOLE, memory_limit_mb=2 * whole.peak_mb).tight


def test_where_no_size_fits_the_model_is_too_large(rows, monkeypatch) -> None:
    monkeypatch.setattr(module, "probe", lambda *_: rows)
    monkeypatch.setattr(module, "_own_mb", lambda: 50.0)
    found = plan("tiny", ASKED, memory_limit_mb=300)
    assert found.fits is False
    assert found.advice[-1] == "take a smaller model than one of 2 M parameters"


def test_a_probe_that_is_killed_is_a_refusal(monkeypatch) -> None:
    monkeypatch.setattr(module, "run_probe", lambda *_: None)
    found = plan("tiny", ASKED)
    assert found.fits is False and "the probe itself ran out of memory" in found.advice[0]


def test_what_is_not_known_is_not_refused(rows, monkeypatch) -> None:
    """Where the system does not tell of memory there is no number and no verdict."""
    blind = [{**r, **{k: None for k in r if k.endswith("_mb")}} for r in rows]
    monkeypatch.setattr(module, "probe", lambda *_: blind)
    found = plan("tiny", ASKED, memory_limit_mb=10_000)
    assert found.peak_mb is None and found.fits is None and found.seconds > 0
    assert found.require() is found and "not known" in str(found)


def test_bad_requests() -> None:
    with pytest.raises(UserError, match="problems must be at least 1, not 0"):
        Size(problems=0)
    with pytest.raises(UserError, match="group_size must be at least 2"):
        plan("tiny", replace(ASKED, group_size=1))
    with pytest.raises(UserError, match="unknown policy 'nope'"):
        plan("nope", ASKED)
    with pytest.raises(UserError, match="do not fit the context of 512 tokens of 'tiny'"):
        plan("tiny", replace(ASKED, new_tokens=600))
    with pytest.raises(UserError, match="the shortest prompts of this model have"):
        plan("tiny", replace(ASKED, prompt_tokens=1))


def test_counted_by_hand() -> None:
    """`tiny`: 595 x 192 embeddings, tied; four layers; products are what four bits act on."""
    inside = 4 * (192 * 192 * 2 + 192 * 96 * 2 + 192 * 512 * 3)
    total = inside + 595 * 192 + 4 * 2 * 192 + 192
    adapter = 16 * 4 * (2 * (192 + 192) + 2 * (192 + 96) + 3 * (192 + 512))
    found = count("tiny", "nf4", 16, "exact")
    assert found.parameters == total and found.adapter_parameters == adapter
    assert found.weights_mb == pytest.approx((inside * 4.127 / 8 + (total - inside) * 4) / MB)
    assert found.copy_mb == pytest.approx(total * 4 / MB)
    assert found.adapter_mb == pytest.approx(10 * adapter * 4 / MB)
    assert count("tiny", "nf4", 16, "plain").copy_mb == 0


# -- sizes -------------------------------------------------------------------------------------

sizes = st.builds(
    Size,
    problems=st.integers(1, 40),
    group_size=st.integers(2, 40),
    prompt_tokens=st.integers(1, 3000),
    new_tokens=st.integers(1, 300),
    micro_batch_tokens=st.none() | st.integers(1, 5000),
)


@settings(max_examples=60)
@given(sizes, st.floats(0.01, 100), st.none() | st.integers(200, 5000))
def test_a_probe_is_never_larger_than_what_it_stands_for(size, seconds, budget) -> None:
    first = first_size(size)
    second = second_size(size, first, seconds, budget)
    assert first.tokens <= second.tokens <= size.tokens
    assert second.rows * second.new_tokens <= 4 * 1152 and second.prompt_tokens <= 1024
    assert in_two(second).tokens == second.tokens
    for one in generations(size):
        assert one.rows <= 32 and one.tokens <= size.tokens
    # Where there is anything to grow, the second is larger, so that there is a line.
    assert first.tokens < second.tokens or size.rows < 3
    parts = [largest_part(one, budget) for one in (first, second)]
    tokens = [p.prompts * first.prompt_tokens + p.rows * first.new_tokens for p in parts]
    assert parts[0].parts == 1
    assert tokens[0] < tokens[1] or size.rows < 3 or (budget and tokens[0] > budget / 2)


@settings(max_examples=60)
@given(sizes, st.none() | st.integers(200, 5000))
def test_parts_are_no_larger_than_the_budget(size, budget) -> None:
    part = largest_part(size, budget)
    assert 1 <= part.rows <= min(size.rows, 64) and part.parts * part.rows >= size.rows
    # What was asked for is strict; what a policy can bear is stretched for a long prompt.
    limit = budget and 4 * budget if size.micro_batch_tokens is None else size.micro_batch_tokens
    if limit is not None and part.rows > 1:
        assert part.prompts * size.prompt_tokens + part.rows * size.new_tokens <= limit


# -- the fit -----------------------------------------------------------------------------------

FACTS = {
    "kind": "facts",
    "load_mb": 400.0,
    "held_mb": 390.0,
    "context": 512,
    "tokens_at_once": None,
    "problems_at_once": 100,
    "engine": True,
    "bytes": 4,
    "layers": 2,
    "hidden": 8,
    "inner": 16,
    "heads": 2,
    "key_heads": 1,
    "head_size": 4,
    "vocabulary": 10,
}


def made_up(size: Size, merges: int = 1) -> dict[str, Any]:
    """A step whose costs are known: 500 MB and a quarter a token; seconds as below."""
    facts = Facts.of(FACTS)
    products = facts.products(size)
    generate = 0.5 * merges + 0.001 * size.problems * size.prompt_tokens
    generate += size.new_tokens * (0.01 + 0.002 * size.rows)
    parts = largest_part(size, None).parts
    update = 0.2 + 0.1 * parts + 3.0 * products
    return {
        "kind": "step" if merges else "generate",
        **size.to_dict(),
        "generate_mb": 390.0 + facts.cache_mb(size),
        "update_mb": 500 + 0.25 * size.tokens,
        "generate_s": generate,
        "update_s": update,
        "step_s": generate + update + 0.01 * size.rows,
    }


def test_what_is_known_is_found_again() -> None:
    """Ten times the size of the probe, and still every part is where it was put."""
    asked = Size(problems=24, group_size=16, prompt_tokens=20, new_tokens=200, micro_batch=64)
    first = first_size(asked)
    second = second_size(asked, first, 1.0)
    rows = [FACTS, made_up(first), *(made_up(s, merges=0) for s in generations(asked))]
    rows += [FACTS, made_up(second), made_up(in_two(second))]
    found = Fit(rows).predict(asked)
    # 64 rollouts at once: four groups of 16, with their prompts. 24 groups make six parts.
    assert found.part == Part(parts=6, prompts=4, rows=64)
    assert found.update_mb == pytest.approx(500 + 0.25 * (4 * 20 + 64 * 200))
    assert found.load_mb == 400.0 and found.peak_mb == found.update_mb
    truth = made_up(asked)
    assert found.update_s == pytest.approx(truth["update_s"], rel=1e-3)
    assert found.generate_s == pytest.approx(truth["generate_s"], rel=1e-3)
    assert found.other_s == pytest.approx(0.01 * asked.rows)
    # Keys and values: 2 x 2 layers x 1 head x 4 numbers x 4 bytes = 64 bytes a token.
    assert found.cache_mb == pytest.approx(64 * (24 * 16 * 200 + 24 * 20) / MB)


def test_the_advice_is_the_largest_value_that_fits() -> None:
    size = Size(problems=4, group_size=4, prompt_tokens=10, new_tokens=50)
    first = first_size(size)
    fit = Fit([FACTS, made_up(first), FACTS, made_up(second_size(size, first, 1.0))])
    # 4 x 10 + 16 T tokens at a quarter each, beside 500: 600 MB leave T = 22.5.
    assert largest_that_fits(fit, size, "new_tokens", 8, 600.0) == 22
    # B (10 + 4 x 50) tokens: 600 MB leave 400 tokens, so one problem.
    assert largest_that_fits(fit, size, "problems", 1, 600.0) == 1
    assert largest_that_fits(fit, size, "new_tokens", 8, 450.0) is None


# -- the machine -------------------------------------------------------------------------------


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc, {"meminfo": "MemTotal: 16384000 kB\nMemAvailable: 8192000 kB\n"})
    assert available_mb(proc, groups) == 8000
    # Version 2, two levels: the upper one leaves less. 4096 - (1500 - 476 of cache) = 3072.
    write(proc, {"self/cgroup": "0::/pod/box\n"})
    write(
        groups,
        {
            "pod/memory.max": f"{4096 * MB}\n",
            "pod/memory.current": f"{1500 * MB}\n",
            "pod/memory.stat": f"anon 1\ninactive_file {476 * MB}\n",
            "pod/box/memory.max": "max\n",
            "pod/box/memory.current": f"{100 * MB}\n",
            "pod/box/memory.stat": "anon 1\n",
        },
    )
    assert available_mb(proc, groups) == 3072
    # Version 1, seen from inside: the path is not there, the group itself is at the top.
    write(proc, {"self/cgroup": "4:cpu:/x\n7:memory:/docker/abc\n"})
    write(
        groups,
        {
            "memory/memory.limit_in_bytes": f"{2048 * MB}\n",
            "memory/memory.usage_in_bytes": f"{48 * MB}\n",
            "memory/memory.stat": "total_inactive_file 0\n",
        },
    )
    assert available_mb(proc, groups) == 2000
    write(groups, {"memory/memory.limit_in_bytes": "9223372036854771712\n"})
    assert available_mb(proc, groups) == 8000
