"""Which matrices of a model do what: the plan that the rollout engine computes by.

Known are decoders of the Llama kind: RMS norms before attention and before a gated MLP,
rotary positions, grouped-query attention; with or without biases (Qwen2), norms on
queries and keys (Qwen3), tied embeddings. Everything else gives `None`, with the reason
from `why_not`, and the general path is taken. What is recognised by name is also compared
with the model itself by number, see `rlkit.policy.engine.rollouts.Engine.check`.

Left out on purpose: sliding windows, mixtures of experts, soft-capped logits, adapters
other than plain LoRA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

#: `model_type`s whose forward pass is the one written out in `decoder`.
KNOWN = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Layer:
    """One block of the decoder, as modules of the model."""

    attention_norm: Any
    query: Any
    key: Any
    value: Any
    query_norm: Any | None
    key_norm: Any | None
    output: Any
    mlp_norm: Any
    gate: Any
    up: Any
    down: Any

    def linears(self) -> tuple[Any, ...]:
        """The seven products of the block."""
        mlp = (self.gate, self.up, self.down)
        return (self.query, self.key, self.value, self.output, *mlp)


@dataclass(frozen=True)
class Blueprint:
    """A decoder of the Llama kind.

    Attributes:
        embedding: module of the token embedding.
        layers: its blocks, in order.
        norm: the last norm.
        head: module that gives the logits.
        rotary: the model's own module for cosines and sines.
        heads, key_value_heads, head_size: of the attention.
        scale: what the products of queries and keys are multiplied by.
    """

    embedding: Any
    layers: tuple[Layer, ...]
    norm: Any
    head: Any
    rotary: Any
    heads: int
    key_value_heads: int
    head_size: int
    scale: float

    def linears(self) -> Iterator[Any]:
        """All products that may carry an adapter."""
        for layer in self.layers:
            yield from layer.linears()
        yield self.head


def read(model: Any) -> Blueprint | None:
    """The plan of a model, `peft` wrapping or not; `None` where it is not known."""
    return None if why_not(model) else _read(plain(model))


def plain(model: Any) -> Any:
    """The `transformers` model inside a `peft` model."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def why_not(model: Any) -> str:
    """Why the engine cannot compute this model; empty when it can."""
    model = plain(model)
    config = model.config
    kind = getattr(config, "model_type", None)
    if kind not in KNOWN:
        return f"models of type {kind!r} are not written out; known are {', '.join(KNOWN)}"
    windows = getattr(config, "layer_types", None) or ()
    if "sliding_attention" in windows or (
        not windows and getattr(config, "sliding_window", None) is not None
    ):
        return "attention with a sliding window is not written out"
    act = getattr(config, "hidden_act", None)
    if act not in ("silu", "swish"):
        return f"the activation {act!r} is not written out"
    try:
        blueprint = _read(model)
    except AttributeError as error:
        return f"a part of the model is not where it is looked for: {error}"
    for linear in blueprint.linears():
        reason = _why_not_linear(linear)
        if reason:
            return reason
    return ""


def _read(model: Any) -> Blueprint:
    inner, config = model.model, model.config
    layers = []
    for block in inner.layers:
        attention, mlp = block.self_attn, block.mlp
        layers.append(
            Layer(
                attention_norm=block.input_layernorm,
                query=attention.q_proj,
                key=attention.k_proj,
                value=attention.v_proj,
                query_norm=getattr(attention, "q_norm", None),
                key_norm=getattr(attention, "k_norm", None),
                output=attention.o_proj,
                mlp_norm=block.post_attention_layernorm,
                gate=mlp.gate_proj,
                up=mlp.up_proj,
                down=mlp.down_proj,
            )
        )
    first = inner.layers[0].self_attn
    heads = config.num_attention_heads
    return Blueprint(
        embedding=inner.embed_tokens,
        layers=tuple(layers),
        norm=inner.norm,
        head=model.get_output_embeddings(),
        rotary=inner.rotary_emb,
        heads=heads,
        key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_size=first.head_dim,
        scale=first.scaling,
    )


def base_of(linear: Any) -> Any:
    """The layer under an adapter, or the layer itself."""
    return getattr(linear, "base_layer", linear)


def active_adapters(linear: Any) -> list[str]:
    """Names of the adapters that act on this layer now."""
    if not hasattr(linear, "base_layer") or getattr(linear, "disable_adapters", False):
        return []
    if getattr(linear, "merged_adapters", []):  # they are in the base weight already
        return []
    return [name for name in linear.active_adapters if name in linear.lora_A]


def _why_not_linear(linear: Any) -> str:
    base = base_of(linear)
    if not isinstance(base, torch.nn.Linear):
        return f"a layer of type {type(base).__name__} is not written out"
    if base is linear:
        return ""
    if not hasattr(linear, "lora_A") or getattr(linear, "merged_adapters", []):
        return f"an adapter of type {type(linear).__name__} is not written out"
    if any(getattr(linear, "use_dora", {}).values()) or any(
        getattr(linear, "lora_bias", {}).values()
    ):
        return "adapters with DoRA or with a bias are not written out"
    return ""
