"""Rows that are no whole number of blocks: right, or refused and said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlkit.policy import Policy, loading
from rlkit.policy.loading import TINY
from rlkit.policy.quantization import four_bit_layers, probe_uneven_rows, uneven_layers


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """A model 96 wide: one and a half blocks of 64."""
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=595, hidden_size=96, intermediate_size=96, num_hidden_layers=1,
        num_attention_heads=4, max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path)
    return tmp_path


def test_four_bits_are_near_or_not_taken(uneven: Path) -> None:
    import warnings

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        policy = Policy.load(uneven, quantize="nf4")
    plain = Policy.load(uneven, quantize=None)
    if probe_uneven_rows() is None:
        assert uneven_layers(policy.model) == len(four_bit_layers(policy.model)) > 0
        return
    said = [str(one.message) for one in seen]
    assert any("no whole number of 64 numbers" in text for text in said)
    assert not four_bit_layers(policy.model)
    assert policy.precision.weights == "float32"
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(policy.model(ids).logits, plain.model(ids).logits)


def test_even_rows_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "probe_uneven_rows", lambda device: pytest.fail("not needed"))
    policy = Policy.load("tiny", quantize="nf4")
    assert uneven_layers(policy.model) == 0
