"""Adapters beside adapters, and adapters merged for good: several policies, one base.

A second policy needs no second base: its module tree is copied and its parameters are not,
so that all of them read the same frozen numbers, in four bits or plain. Each has a `peft`
adapter of its own, with its own flags, gradients, sampler, random numbers and reference.
Nothing is switched when another one is used, so there is nothing to put back after an
error or Ctrl-C.

Merged, a policy becomes an ordinary model without an adapter (Hu et al., 2106.09685,
section 4.1). The numbers go into new memory and the policy stays as it is, so there is
nothing to unmerge. Four bits are not merged into: rounding the sum to four bits again would
lose part of what was learned, so the merged model has plain weights.

Left out: several adapters on one `peft` model, which `peft` itself does (`add_adapter`,
`set_adapter`; the rollout engine follows), and mixtures of adapters. `peft`'s own
`merge_adapter` works in place, so it would move the base of every policy that stands beside.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy.engine.blueprint import active_adapters, base_of, plain
from rlkit.policy.engine.weights import base_weight
from rlkit.policy.loading import add_lora, load_tokenizer, quiet_transformers
from rlkit.policy.lora import LoraSpec
from rlkit.policy.saving import saved_policy, write_aside

#: Types that a merged model may be written in.
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def beside(
    policy: Any,
    folder: str | Path | None = None,
    *,
    lora: LoraSpec | None = None,
    seed: int | None = None,
    rollouts: str | None = None,
    learner: str | None = None,
) -> Any:
    """A second policy on the same base weights, with an adapter of its own.

    Args:
        policy: the first one; its base must be frozen.
        folder: a saved policy whose adapter to load; its reference is that adapter.
        lora: size of a fresh adapter in place of a loaded one; its reference is the base.
        seed: decides a fresh adapter and what the second policy samples; the first one's
            seed when not given.
        rollouts, learner: as in `Policy.load`; the first one's when not given.

    Raises:
        UserError: neither or both of `folder` and `lora`, a folder without a saved policy or
            with one of another base, or a base that is trained itself.

    >>> from rlkit.policy import Policy
    >>> first = Policy.load("tiny", quantize=None, lora=LoraSpec(rank=2))
    >>> second = first.beside(lora=LoraSpec(rank=4), seed=1)
    >>> first.model.get_input_embeddings().weight is second.model.get_input_embeddings().weight
    True
    >>> first.parameter_counts()[1], second.parameter_counts()[1]
    (27648, 55296)
    """
    if (folder is None) == (lora is None):
        raise UserError(
            "a policy beside another needs an adapter of its own: give either the folder of a "
            "saved one, or lora=LoraSpec() for a fresh one"
        )
    if policy.lora is None and policy.trainable():
        raise UserError(
            "this policy trains its base weights, which a second one cannot stand on; load it "
            "with lora=LoraSpec()"
        )
    seed = policy.seed if seed is None else seed
    saved: dict[str, Any] | None = None
    tokenizer, version = policy.tokenizer, 0
    if folder is not None:
        saved = _saved_on(policy, str(folder))
        tokenizer, version, lora = load_tokenizer(str(folder)), saved["version"], saved["lora"]
    base = shared_base(policy.model)
    if saved is None:
        model = add_lora(base, lora, seed)
    else:
        from peft import PeftModel

        model = PeftModel.from_pretrained(
            base, str(folder), is_trainable=True, autocast_adapter_dtype=True
        ).eval()
    second = type(policy)(
        model,
        tokenizer,
        name=policy.name,
        precision=policy.precision,
        lora=lora,
        quantize=policy.quantize,
        seed=seed,
        pretrained_adapter=saved is not None,
        rollouts=policy.sampler.asked if rollouts is None else rollouts,
        learner=policy.scorer.asked if learner is None else learner,
    )
    second.version = version
    return second


def shared_base(model: Any) -> Any:
    """The model without any adapter, as new modules around the same parameters."""
    shared: dict[int, Any] = {id(p): p for p in model.parameters()}
    for owner in (*model.parameters(), *model.modules()):  # the scales of four bits
        state = getattr(owner, "quant_state", None)
        if state is not None:
            shared[id(state)] = state
    twin = copy.deepcopy(model, shared)
    with quiet_transformers():
        return twin.unload() if hasattr(twin, "peft_config") else twin


def merged(policy: Any, dtype: str = "float32") -> Any:
    """An ordinary `transformers` model of what the policy computes now, in memory of its own.

    Args:
        dtype: `float32` or `bfloat16`.

    Returns:
        A model without adapter and without four bits; the policy is not changed. Within
        `policy.reference()` it is the reference that is merged.

    Raises:
        UserError: an unknown type, or an adapter that is more than plain LoRA.

    >>> from rlkit.policy import Policy
    >>> model = merged(Policy.load("tiny", lora=LoraSpec(rank=2)))
    >>> type(model).__name__, model.num_parameters()
    ('LlamaForCausalLM', 1737984)
    """
    if dtype not in TYPES:
        raise UserError(f"a merged model is kept in {' or '.join(TYPES)}, not in {dtype!r}")
    inside = plain(policy.model)
    config = copy.deepcopy(inside.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        model = type(inside)._from_config(config, dtype=TYPES[dtype])
    model.generation_config = copy.deepcopy(inside.generation_config)
    modules = dict(inside.named_modules())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            owner, _, kind = name.rpartition(".")
            parameter.copy_(_merged_parameter(modules[owner], kind))
        for name, buffer in model.named_buffers():
            buffer.copy_(inside.get_buffer(name))
    return model.to(policy.device).eval()


def export_merged(policy: Any, folder: str | Path, dtype: str = "float32") -> Path:
    """Writes the merged model and the tokenizer, for `Policy.load(folder)` and everybody else.

    The folder is written aside and renamed, so it is whole or absent.

    Raises:
        UserError: as `merged`.
    """
    folder = Path(folder)
    model = merged(policy, dtype)

    def write(aside: Path) -> None:
        with quiet_transformers():
            model.save_pretrained(aside)
        policy.tokenizer.save_pretrained(aside)

    write_aside(folder, write)
    return folder


def _merged_parameter(module: Any, kind: str) -> torch.Tensor:
    """A module's weight with its active adapters, in float32 where there are any, or its bias."""
    layer = base_of(module)
    if kind != "weight":
        return getattr(layer, kind)
    names = active_adapters(module)
    if not names:
        packed = getattr(layer.weight, "quant_state", None) is not None
        return base_weight(layer) if packed else layer.weight
    if any(getattr(module, "use_dora", {}).values()) or any(
        getattr(module, "lora_bias", {}).values()
    ):
        raise UserError("an adapter with DoRA or with a bias cannot be merged here; peft can")
    weight = base_weight(layer)
    for name in names:
        weight += module.get_delta_weight(name).float()
    return weight


def _saved_on(policy: Any, folder: str) -> dict[str, Any]:
    """The note of a saved policy that has this policy's base."""
    saved = saved_policy(folder)
    if saved is None:
        raise UserError(f"{folder!r} holds no saved policy; give a folder that `save` wrote")
    if saved["base"] != policy.name:
        raise UserError(
            f"the adapter in {folder!r} belongs to {saved['base']!r}, and this policy's base is "
            f"{policy.name!r}; load it by itself with Policy.load"
        )
    return saved
