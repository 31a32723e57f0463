"""Small models of every known shape, with weights large enough that a mistake shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
SHAPES = {
    "llama": LlamaConfig(**SIZES),
    "llama tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama without groups": LlamaConfig(**{**SIZES, "num_key_value_heads": 6}),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
}


@pytest.fixture(params=list(SHAPES))
def any_shape(request: pytest.FixtureRequest) -> Any:
    """The configuration of each known shape in turn."""
    return SHAPES[request.param]


@pytest.fixture
def shapes() -> dict[str, Any]:
    """Configurations by name, and `sizes`, which others can be made of."""
    return {**SHAPES, "sizes": SIZES}


@pytest.fixture
def build() -> Callable[..., Any]:
    """Builds a model from a configuration, with an adapter of this rank; 0 for none."""
    return build_model


def build_model(config: Any, rank: int = 4) -> Any:
    torch.manual_seed(0)
    # Larger than usual, so that what is computed wrongly is far off.
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            elif parameter.ndim == 2:
                parameter.normal_(0, 0.2)
    if not rank:
        return model
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = get_peft_model(model, LoraConfig(r=rank, lora_alpha=8, target_modules=targets))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    return adapted.eval()
