"""Loading, four bits, the reference, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlkit.errors import UserError
from rlkit.policy import LoraSpec, Policy, flatten
from rlkit.policy.quantization import four_bit_layers, is_four_bit, probe_nf4
from rlkit.tasks import get_domain

LORA = LoraSpec(rank=4, alpha=8)


def adapter_gradients(policy: Policy, rollouts) -> dict[str, torch.Tensor]:
    for parameter in policy.trainable().values():
        parameter.grad = None
    policy.score(rollouts).logprobs_NT.sum().backward()
    return {n: p.grad.clone() for n, p in policy.trainable().items() if p.grad is not None}


def stir(policy: Policy, seed: int = 1) -> None:
    """An adapter that does something."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def test_nf4_really_works_here() -> None:
    assert probe_nf4("cpu") is None


def test_four_bits_are_in_force_and_said(untrained: Path) -> None:
    policy = Policy.load(untrained, quantize="nf4", lora=LORA)
    layers = four_bit_layers(policy.model)
    assert len(layers) == 2 * 7  # two blocks of q, k, v, o, gate, up, down
    assert all(is_four_bit(layer) for layer in layers)
    assert str(policy.precision) == "NF4 weights in 14 layers, float32 products"
    assert str(Policy.load(untrained, quantize=None).precision) == "float32 weights"


def test_only_the_adapter_is_trained(untrained: Path) -> None:
    policy = Policy.load(untrained, quantize="nf4", lora=LORA)
    assert policy.trainable()
    assert all("lora_" in name for name in policy.trainable())
    assert all(p.dtype == torch.float32 for p in policy.trainable().values())
    frozen = {n: p.detach().clone() for n, p in policy.model.named_parameters()}
    rollouts = flatten(policy.generate(get_domain("arith").held_out(2), 2, 6))
    optimizer = torch.optim.AdamW(policy.trainable().values(), lr=0.1)
    policy.score(rollouts).logprobs_NT.sum().backward()
    optimizer.step()
    changed = {
        n for n, p in policy.model.named_parameters() if not torch.equal(p.detach(), frozen[n])
    }
    assert changed
    assert changed <= set(policy.trainable())


def test_gradients_survive_generation_and_evaluation(untrained: Path) -> None:
    """The four-bit trap: a repacked layer passes no gradient, and says nothing.

    The gradients of the adapter after sampling and after scoring without gradient must
    be those of a plain model with the dequantised weights.
    """
    import bitsandbytes.functional as bnb

    policy = Policy.load(untrained, quantize="nf4", lora=LORA, seed=2)
    stir(policy)
    problems = get_domain("arith").held_out(4)
    rollouts = flatten(policy.generate(problems, 2, 8))
    with torch.no_grad():
        policy.score(rollouts)
    policy.model.eval()
    policy.generate(problems, 1, 4, temperature=0)
    ours = adapter_gradients(policy, rollouts)

    plain = Policy.load(untrained, quantize=None, lora=LORA, seed=2)
    plain.restore(policy.snapshot())
    packed = dict(policy.model.named_modules())
    with torch.no_grad():
        for name, module in plain.model.named_modules():
            twin = packed.get(name)
            if hasattr(twin, "weight") and twin.weight.dtype == torch.uint8:
                module.weight.copy_(bnb.dequantize_4bit(twin.weight, twin.weight.quant_state))
    expected = adapter_gradients(plain, rollouts)
    assert set(ours) == set(expected)
    for name, gradient in expected.items():
        assert float(gradient.norm()) > 0, f"{name} gets no gradient even in plain weights"
        difference = float((ours[name] - gradient).norm() / gradient.norm())
        assert difference < 1e-3, f"{name} differs by {difference:.2g}"


def test_the_reference_is_the_base_and_all_is_restored(untrained: Path) -> None:
    policy = Policy.load(untrained, quantize="nf4", lora=LORA, seed=2)
    rollouts = flatten(policy.generate(get_domain("arith").held_out(2), 2, 6))
    fresh = policy.score(rollouts).logprobs_NT.detach()
    stir(policy)
    moved = policy.score(rollouts).logprobs_NT.detach()
    assert float((moved - fresh).abs().max()) > 1e-3
    with torch.no_grad(), policy.reference():
        torch.testing.assert_close(policy.score(rollouts).logprobs_NT, fresh)
    torch.testing.assert_close(policy.score(rollouts).logprobs_NT.detach(), moved)
    with pytest.raises(KeyboardInterrupt), policy.reference():
        raise KeyboardInterrupt
    assert all(p.requires_grad for n, p in policy.model.named_parameters() if "lora_" in n)
    torch.testing.assert_close(policy.score(rollouts).logprobs_NT.detach(), moved)


def test_a_trained_adapter_is_its_own_reference(untrained: Path, tmp_path: Path) -> None:
    trained = Policy.load(untrained, quantize=None, lora=LORA, seed=2)
    stir(trained)
    trained.version = 7
    trained.save(tmp_path / "saved")
    again = Policy.load(tmp_path / "saved", quantize=None)
    assert again.version == 7
    assert again.fingerprint() == trained.fingerprint()
    rollouts = flatten(again.generate(get_domain("arith").held_out(2), 2, 6))
    start = again.score(rollouts).logprobs_NT.detach()
    torch.testing.assert_close(trained.score(rollouts).logprobs_NT.detach(), start)
    stir(again, seed=9)
    with torch.no_grad(), again.reference():
        # The base alone would be somewhere else: the loaded adapter is not zero.
        torch.testing.assert_close(again.score(rollouts).logprobs_NT, start)
    assert float((again.score(rollouts).logprobs_NT.detach() - start).abs().max()) > 1e-3


def test_snapshots_are_copies(untrained: Path) -> None:
    policy = Policy.load(untrained, quantize=None, lora=LORA)
    kept = policy.snapshot()
    values = {n: t.clone() for n, t in kept.items()}
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter.add_(5.0)
    assert all(torch.equal(kept[n], values[n]) for n in kept)
    policy.restore(kept)
    assert all(torch.equal(p, values[n]) for n, p in policy.trainable().items())
    with pytest.raises(UserError, match="belongs to another adapter"):
        policy.restore({"x": torch.zeros(1)})


def test_scoring_restores_the_mode_and_has_no_dropout(untrained: Path) -> None:
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4, dropout=0.5), seed=1)
    stir(policy)
    rollouts = flatten(policy.generate(get_domain("arith").held_out(2), 2, 6))
    policy.model.train()
    first = policy.score(rollouts).logprobs_NT
    second = policy.score(rollouts).logprobs_NT
    assert torch.equal(first, second)
    assert policy.model.training


def test_the_adapter_follows_its_seed_alone(untrained: Path) -> None:
    torch.manual_seed(1)
    first = Policy.load(untrained, quantize=None, lora=LORA, seed=4).fingerprint()
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    again = Policy.load(untrained, quantize=None, lora=LORA, seed=4).fingerprint()
    other = Policy.load(untrained, quantize=None, lora=LORA, seed=5).fingerprint()
    assert first == again != other
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("nope", {}, "unknown policy 'nope'; give 'tiny', 'smol', a folder"),
        ("tiny", {"quantize": "int8"}, "quantize must be 'nf4' or None"),
        ("tiny", {"device": "cuda"}, "no CUDA device is here"),
        ("no-such-owner/no-such-model", {}, "cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_said(name: str, options: dict, message: str) -> None:
    if "cuda" in options.values() and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device, so asking for one is no mistake")
    with pytest.raises(UserError, match=message):
        Policy.load(name, **options)


def test_a_folder_without_a_model_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json is missing"):
        Policy.load(tmp_path)


def test_bad_lora() -> None:
    with pytest.raises(UserError, match="rank must be at least 1"):
        LoraSpec(rank=0)
    with pytest.raises(UserError, match="dropout must lie"):
        LoraSpec(dropout=1.0)


def test_without_bitsandbytes_it_loads_and_says_so(untrained: Path, monkeypatch) -> None:
    import sys

    probe_nf4.cache_clear()
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # as if it were not installed
    try:
        with pytest.warns(UserWarning, match="NF4 was asked for, but bitsandbytes cannot"):
            policy = Policy.load(untrained, quantize="nf4")
        assert policy.precision.weights == "float32"
        assert "NF4 was asked for" in str(policy.precision)
    finally:
        monkeypatch.undo()
        probe_nf4.cache_clear()
