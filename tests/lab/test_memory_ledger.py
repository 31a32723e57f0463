"""The memory ledger: published sizes, sums by hand, and what a real policy holds."""

from __future__ import annotations

import itertools

import pytest
import torch

from rlkit import LoraSpec, Policy, get_domain
from rlkit.errors import UserError
from rlkit.lab.memory_figures import ledger_figure, ledger_table, size
from rlkit.lab.memory_ledger import (
    KNOWN,
    PARTS,
    Shape,
    count_setup,
    full_training,
    measure,
    predict,
    tokens_of,
)
from rlkit.policy import flatten
from rlkit.policy.quantization import probe_nf4

needs_library = pytest.mark.skipif(
    probe_nf4("cpu") is not None, reason=f"no four bits here: {probe_nf4('cpu')}"
)


def test_the_shapes_have_the_published_numbers_of_weights():
    published = {
        "SmolLM2-135M": 134_515_008,
        "Qwen2.5-0.5B": 494_032_768,
        "Qwen3-0.6B": 596_049_920,
        "Llama-3.2-1B": 1_235_814_400,
        "Qwen3-1.7B": 1_720_574_976,
        "Llama-3.1-8B": 8_030_261_248,
    }
    assert {name: shape.parameters for name, shape in KNOWN.items()} == published


def test_a_ledger_by_hand():
    # One block: q 8 x 4, k and v 4 x 4, o 4 x 8, gate and up 16 x 4, down 4 x 16.
    shape = Shape(
        hidden=4, layers=1, heads=2, key_value_heads=1, head_size=4, mlp=16, vocabulary=10
    )
    # 32 + 16 + 16 + 32 + 64 + 64 + 64 = 288 in matrices; 10 * 4 + 2 * 4 + 4 = 52 outside.
    assert (shape.in_matrices, shape.outside, shape.parameters) == (288, 52, 340)
    # In + out: 12 + 8 + 8 + 12 + 20 + 20 + 20 = 100.
    assert shape.adapter(3) == 300
    found = predict(shape, rank=3, tokens=5, outside=2, compute=4, copy=2)
    assert found["weights, 4 bits"] == 144
    # 4.5 blocks of 1 byte and a 64th, and for each of 7 matrices 16 + 256 + 1 numbers of 4.
    assert found["scales"] == round(4.5 * (1 + 4 / 256) + 7 * 273 * 4)
    assert found["unquantised"] == 104
    assert [found[p] for p in ("adapter", "gradient", "Adam's moments")] == [1200, 1200, 2400]
    # A token: 4 * (16 + 4) + 2 * 8 + 7 * 3 = 117, and keys and values 2 * 8 = 16: 133.
    assert found["activations"] == 4 * 5 * 133
    assert found["rollout copy"] == 2 * (288 + 2 * 40)
    assert predict(shape, rank=3, tokens=5, seen=9, compute=4)["activations"] == 4 * (
        5 * 117 + 9 * 16
    )
    assert predict(shape, rank=3, tokens=5, copy=None)["rollout copy"] == 0
    for wrong in ({"rank": 0, "tokens": 1}, {"rank": 1, "tokens": 0}):
        with pytest.raises(UserError, match="at least 1"):
            predict(shape, **wrong)


def test_full_training_is_16_bytes_a_weight():
    shape = KNOWN["Llama-3.1-8B"]
    assert sum(full_training(shape).values()) == 16 * 8_030_261_248


@needs_library
@pytest.mark.parametrize(("problems", "group", "rollouts"), [(4, 1, "fast"), (3, 5, "exact")])
def test_every_part_is_predicted_within_10_percent(problems, group, rollouts):
    policy = Policy.load("tiny", lora=LoraSpec(rank=8), learner="model", rollouts=rollouts)
    asked = list(itertools.islice(get_domain("sort").stream(seed=0), problems))
    answers = flatten(policy.generate(asked, group, 12))
    before = policy.fingerprint()
    found = measure(policy, answers)
    tokens, seen = tokens_of(answers)
    told = predict(
        Shape.of(policy.model.config),
        rank=8,
        tokens=tokens,
        seen=seen,
        outside=4,
        compute=4,
        copy=policy.sampler.dtype.itemsize,
    )
    assert list(found) == list(told) == list(PARTS)
    for part in PARTS:
        assert told[part] == pytest.approx(found[part], rel=0.1), part
    assert sum(told.values()) == pytest.approx(sum(found.values()), rel=0.05)
    # It took a step, and the policy is the one it was.
    assert policy.fingerprint() == before
    assert all(p.grad is None for p in policy.trainable().values())


def test_what_is_no_qlora_is_not_counted(untrained):
    plain = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=2), learner="model")
    with pytest.raises(UserError, match="quantize='nf4'"):
        measure(plain, [])
    copy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=2), learner="copy")
    with pytest.raises(UserError, match="learner='model'"):
        measure(copy, [])


def test_tokens_count_a_shared_prompt_once_and_its_keys_for_each():
    policy = Policy.load("tiny", quantize=None)
    asked = list(itertools.islice(get_domain("sort").stream(seed=0), 2))
    apart = flatten(policy.generate(asked, 1, 4))
    widest = max(len(r.prompt_ids) for r in apart)
    longest = max(map(len, apart))
    assert tokens_of(apart) == (2 * (widest + longest), 2 * (widest + longest))
    shared = flatten(policy.generate(asked[:1], 3, 4))
    prompt, longest = len(shared[0].prompt_ids), max(map(len, shared))
    read = prompt + 3 * longest
    assert tokens_of(shared) == (read, prompt + 3 * (prompt + longest))


@needs_library
def test_a_set_up_is_counted_on_real_layers():
    # 64 x 128: half a byte each, 128 scales and 16 levels of 4 bytes; 10 weights of 2 bytes;
    # rank 2: 2 * (64 + 128) numbers, each with a gradient and two moments of 4 bytes.
    assert count_setup([(64, 128)], 10, 2) == 4096 + 512 + 64 + 20 + 16 * 2 * 192


def test_the_figure_holds_all_bytes():
    ledgers = {name: predict(shape, rank=16, tokens=64) for name, shape in KNOWN.items()}
    figure = ledger_figure(ledgers, "title")
    assert figure.layout.meta["caption"] and figure.layout.meta["alt"]
    assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text
    for index in range(len(ledgers)):
        assert sum(trace.x[index] for trace in figure.data) == pytest.approx(100, abs=0.1)
    table = ledger_table(ledgers)
    assert table.rows[-1][0] == "together"
    assert table.rows[-1][1] == pytest.approx(sum(ledgers["SmolLM2-135M"].values()) / 1e6, abs=1e-3)
    with pytest.raises(UserError, match="at least one"):
        ledger_figure({}, "title")
    assert size(128e9) == "128 GB" and torch.float32.itemsize == 4
