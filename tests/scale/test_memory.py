"""The memory estimate: parameters counted exactly, and the comments in the configs kept true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3Config

from rlkit.errors import UserError
from rlkit.policy import LoraSpec
from rlkit.policy.loading import TINY
from rlkit.scale.config import Lora, ScaleConfig, config_names, find_config
from rlkit.scale.memory import GIB, SHAPES, Shape, estimate, shape_from, shape_of


@pytest.mark.parametrize("name", config_names())
def test_the_comment_in_a_config_is_what_the_function_says(name):
    text = find_config(name).read_text("utf-8")
    (told,) = re.findall(r"Memory: about ([\d.]+) GiB", text)
    assert float(told) == estimate(ScaleConfig.from_yaml(name)).gib


def qwen3(shape: Shape) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=shape.tied,
    )


def parameters(config) -> tuple[int, object]:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(p.numel() for p in model.parameters()), model


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"])
def test_parameters_are_those_of_the_model(name):
    """One with tied embeddings and one without; built on the meta device, so for nothing."""
    counted, _ = parameters(qwen3(SHAPES[name]))
    assert counted == SHAPES[name].parameters()
    assert shape_from(qwen3(SHAPES[name])) == SHAPES[name]


def test_tiny_is_read_from_its_own_config():
    config = AutoConfig.from_pretrained(TINY)
    assert shape_from(config) == SHAPES["tiny"] == shape_of(str(TINY))
    counted, model = parameters(config)
    assert counted == SHAPES["tiny"].parameters()
    from peft import get_peft_model

    adapted = get_peft_model(model, LoraSpec(rank=8).peft_config())
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    assert trained == SHAPES["tiny"].lora_parameters(8)


def config(**changes) -> ScaleConfig:
    base = {"policy": "Qwen/Qwen3-8B", "run": "a", "precision": "bfloat16", "processes": 8}
    return ScaleConfig(**{**base, **changes})


def test_weights_by_hand():
    # 8,190,735,360 parameters at 2 bytes; in four bits those of the layers (6,945,767,424) take
    # 4.127 bits each and the rest (1,244,967,936: two embeddings and norms) 2 bytes.
    assert estimate(config()).weights == 2 * 8_190_735_360
    four_bits = estimate(config(quantize="nf4")).weights
    assert four_bits == pytest.approx(6_945_767_424 * 4.127 / 8 + 2 * 1_244_967_936)


def test_what_is_trained_by_hand():
    # Rank 1 on q (4096+4096), k and v (4096+1024 each), o (4096+4096), gate and up
    # (4096+12288 each), down (12288+4096): 75,776 a layer, 2,727,936 in 36 layers.
    # float32 parameters and gradients (4 + 4) and two moments (8): 16 bytes each.
    one = estimate(config(lora=Lora(rank=1)))
    assert one.trained == 2_727_936 * 16
    assert one.copies == 2 * 2_727_936 * 12
    assert estimate(config(lora=Lora(rank=1), keep_best=False)).copies == 0


def test_shards_share_what_is_held_and_not_the_base():
    whole, shards = estimate(config()), estimate(config(sharding="fsdp2"))
    assert shards.weights == whole.weights / 8
    assert shards.trained == whole.trained / 8
    assert shards.base == whole.base
    assert shards.learning == whole.learning


def test_smaller_micro_batches_and_checkpoints_take_less():
    plain = estimate(config(micro_batch=8)).learning
    assert estimate(config(micro_batch=4)).learning < plain
    assert estimate(config(micro_batch=8, activation_checkpointing=True)).learning < plain / 4


def test_totals_and_table():
    found = estimate(config())
    parts = found.weights + found.trained + found.copies + found.base
    assert found.total == parts + max(found.generation, found.learning)
    assert found.gib == round(found.total / GIB, 1)
    assert f"total      {found.total / GIB:7.2f} GiB" in found.table()


def test_the_table_in_the_docs_is_the_same():
    docs = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d.]+) GiB \|", docs, re.MULTILINE))
    assert {name: float(gib) for name, gib in told.items()} == {
        name: estimate(ScaleConfig.from_yaml(name)).gib for name in config_names()
    }


def test_a_model_of_unknown_shape():
    with pytest.raises(UserError, match="'me/mine' cannot be estimated"):
        shape_of("me/mine")
