"""The places of TRL and transformers that the bridge stands on, each with a check.

TRL says of some of them that they may change at any time. A changed name or order would not
always raise an error: a callback that is never called watches nothing, and a sampler that
repeats otherwise mixes groups. So every place is looked at, before a run and in a test, and
what changed is named.

A check looks at a signature, tries the thing on a few numbers where that is cheap, and reads
the source only where an order or a name inside a method matters. Reading the source can raise
a false alarm after a harmless change; that is meant: somebody has to look.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hook:
    """One place.

    Attributes:
        name: what it is called there.
        used_by: the module here that stands on it.
        check: gives `None`, or a sentence about what changed.
    """

    name: str
    used_by: str
    check: Callable[[], str | None]


def drift(hooks: Iterable[Hook] | None = None) -> list[str]:
    """What changed in TRL, transformers or torch, one sentence each; empty when nothing did.

    A check that itself fails counts as a change, since what it looked for is gone.
    """
    found = []
    for hook in HOOKS if hooks is None else hooks:
        try:
            said = hook.check()
        except Exception as error:  # whatever a changed library raises is the finding
            said = f"looking at it failed with {type(error).__name__}: {error}"
        if said is not None:
            found.append(f"{hook.name}, used by {hook.used_by}: {said}")
    return found


# -- what checks are made of --------------------------------------------------------------------


def missing_parameters(function: Callable[..., Any], wanted: Iterable[str]) -> str | None:
    """Parameters that a function no longer takes."""
    parameters = inspect.signature(function).parameters
    gone = [name for name in wanted if name not in parameters]
    return f"the parameters {gone} are gone" if gone else None


def missing_in_source(function: Callable[..., Any], wanted: Iterable[str]) -> str | None:
    """Texts that the source of a function must contain, in this order."""
    source = " ".join(inspect.getsource(function).split())
    start = 0
    for text in wanted:
        place = source.find(text, start)
        if place < 0:
            where = "is gone" if text not in source else "stands in another order"
            return f"{text!r} {where} in {function.__qualname__}"
        start = place
    return None


def missing_attributes(kind: type, wanted: Iterable[str]) -> str | None:
    """Attributes that a class no longer has, or that its methods no longer set."""
    bases = [b for b in kind.__mro__ if b.__module__.split(".")[0] in ("trl", "transformers")]
    sources = [inspect.getsource(base) for base in bases]
    gone = [
        name
        for name in wanted
        if not hasattr(kind, name) and not any(f"self.{name} =" in source for source in sources)
    ]
    return f"the attributes {gone} are gone" if gone else None


# -- the checks ------------------------------------------------------------------------------


def _trainer_arguments() -> str | None:
    from trl import GRPOTrainer

    wanted = "model reward_funcs args train_dataset processing_class callbacks peft_config"
    return missing_parameters(GRPOTrainer.__init__, [*wanted.split(), "rollout_func"])


def _trainer_attributes() -> str | None:
    from trl import GRPOTrainer

    wanted = (
        "use_vllm top_p top_k min_p repetition_penalty max_completion_length temperature "
        "eos_token_ids num_generations reward_weights accelerator model_wrapped processing_class "
        "args model state"
    )
    return missing_attributes(GRPOTrainer, wanted.split())


def _config_fields() -> str | None:
    from dataclasses import fields

    from trl import GRPOConfig

    from rlkit.objectives import GRPO
    from rlkit.scale.trl.objectives import trl_settings

    named = (
        "output_dir per_device_train_batch_size gradient_accumulation_steps num_generations "
        "generation_batch_size steps_per_generation num_iterations max_completion_length "
        "temperature max_steps learning_rate warmup_steps lr_scheduler_type max_grad_norm "
        "shuffle_dataset remove_unused_columns dataloader_num_workers ds3_gather_for_generation "
        "gradient_checkpointing gradient_checkpointing_kwargs use_cpu bf16 logging_steps "
        "logging_strategy save_steps save_strategy save_total_limit reward_weights use_vllm "
        "vllm_mode vllm_server_base_url report_to seed"
    )
    wanted = {*trl_settings(GRPO()), *named.split()}
    gone = sorted(wanted - {f.name for f in fields(GRPOConfig)})
    return f"the settings {gone} are gone from GRPOConfig" if gone else None


def _rollout_contract() -> str | None:
    from trl import GRPOTrainer

    return missing_in_source(
        GRPOTrainer._generate,
        (
            "output = self.rollout_func(prompts, self)",
            'required_keys = {"prompt_ids", "completion_ids", "logprobs"}',
            "extra_fields = {k: v for k, v in output.items() if k not in required_keys}",
        ),
    )


def _reward_contract() -> str | None:
    from trl import GRPOTrainer

    return missing_in_source(
        GRPOTrainer._calculate_rewards,
        (
            'reward_kwargs["trainer_state"] = self.state',
            'reward_kwargs["log_extra"]',
            'reward_kwargs["log_metric"]',
            "prompts=prompts, completions=completions, completion_ids=completion_ids_list",
            "torch.nan",
            "gather(rewards_per_func)",
        ),
    )


def _reward_names() -> str | None:
    from trl.trainer.utils import get_callable_name, is_async_callable

    from rlkit.rewards import format_reward

    if get_callable_name(format_reward) != "format_reward":
        return f"a reward is now logged as {get_callable_name(format_reward)!r}"
    return "a plain reward now counts as async" if is_async_callable(format_reward) else None


def _sampler_arguments() -> str | None:
    from trl import GRPOTrainer

    return missing_in_source(
        GRPOTrainer._get_train_sampler,
        (
            "mini_repeat_count=self.num_generations",
            "batch_size=self.args.generation_batch_size // self.num_generations",
            "repeat_count=self.num_iterations * self.args.steps_per_generation",
            "shuffle=self.shuffle_dataset",
        ),
    )


def _sampler_order() -> str | None:
    from trl.trainer.utils import RepeatSampler

    got = list(RepeatSampler(range(5), 2, batch_size=2, repeat_count=2, shuffle=False))
    wanted = [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2
    return None if got == wanted else f"it walks {got}, not {wanted}"


def _dataset_reads() -> str | None:
    from datasets import Dataset
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    if not isinstance(Dataset, type):
        return "Dataset is no class that can be extended"
    return missing_in_source(_MapDatasetFetcher.fetch, ("self.dataset.__getitems__(",))


def _unwrapping() -> str | None:
    from trl.models import unwrap_model_for_generation

    return missing_parameters(
        unwrap_model_for_generation,
        ("model", "accelerator", "gather_deepspeed3_params"),
    )


def _sharding() -> str | None:
    from torch.distributed.fsdp import FSDPModule

    wanted = ("unshard", "reshard", "set_reshard_after_forward")
    gone = [name for name in wanted if not hasattr(FSDPModule, name)]
    if gone:
        return f"the methods {gone} of FSDPModule are gone"
    return missing_parameters(FSDPModule.set_reshard_after_forward, ("recurse",))


def _callback_order() -> str | None:
    from transformers import Trainer

    return missing_in_source(
        Trainer._run_epoch,
        (
            "self._clip_grad_norm(model)",
            "self.callback_handler.on_pre_optimizer_step(",
            "self.optimizer.step()",
            "self.callback_handler.on_optimizer_step(",
            "self.lr_scheduler.step()",
            "self.callback_handler.on_step_end(",
            "self._maybe_log_save_evaluate(",
            "self.control.should_training_stop",
        ),
    )


def _log_then_save() -> str | None:
    from transformers import Trainer

    return missing_in_source(
        Trainer._maybe_log_save_evaluate,
        (
            'logs["loss"]',
            'logs["grad_norm"]',
            'logs["learning_rate"]',
            "self.log(logs, start_time)",
            "if self.control.should_save:",
            "self._save_checkpoint(model, trial)",
            "self.callback_handler.on_save(",
        ),
    )


def _callback_parts() -> str | None:
    from transformers import TrainerCallback
    from transformers.trainer_callback import CallbackHandler

    hooks = "on_train_begin on_pre_optimizer_step on_optimizer_step on_step_end on_log on_save "
    gone = [n for n in f"{hooks} on_train_end".split() if not hasattr(TrainerCallback, n)]
    if gone:
        return f"the callbacks {gone} are gone"
    wanted = ("model=self.model", "optimizer=self.optimizer", "lr_scheduler=self.lr_scheduler")
    return missing_in_source(CallbackHandler.call_event, wanted)


def _checkpoint_names() -> str | None:
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    return None if PREFIX_CHECKPOINT_DIR == "checkpoint" else f"it is {PREFIX_CHECKPOINT_DIR!r} now"


def _schedule_bases() -> str | None:
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    scheduler.base_lrs = [0.25]
    scheduler._last_lr = [0.25]
    if scheduler.get_last_lr() != [0.25]:
        return "the last rate is kept elsewhere"
    optimizer.step()
    scheduler.step()
    rate = optimizer.param_groups[0]["lr"]
    return None if rate == 0.25 else f"a base rate of 0.25 led to a rate of {rate}"


#: Everything the bridge stands on.
HOOKS: tuple[Hook, ...] = (
    Hook("GRPOTrainer.__init__", "rlkit.scale.trainer", _trainer_arguments),
    Hook("attributes of GRPOTrainer", "rlkit.scale.trl.rollouts", _trainer_attributes),
    Hook("GRPOConfig", "rlkit.scale.trainer", _config_fields),
    Hook("rollout_func", "rlkit.scale.trl.rollouts", _rollout_contract),
    Hook("reward_funcs", "rlkit.scale.trl.watching", _reward_contract),
    Hook("names of reward functions", "rlkit.scale.trl.watching", _reward_names),
    Hook("GRPOTrainer._get_train_sampler", "rlkit.scale.trl.dataset", _sampler_arguments),
    Hook("RepeatSampler", "rlkit.scale.trl.dataset", _sampler_order),
    Hook("datasets.Dataset", "rlkit.scale.trl.dataset", _dataset_reads),
    Hook("unwrap_model_for_generation", "rlkit.scale.trl.rollouts", _unwrapping),
    Hook("torch FSDPModule", "rlkit.scale.trl.rollouts", _sharding),
    Hook("order of callbacks in Trainer", "rlkit.scale.trl.monitoring", _callback_order),
    Hook("log before save in Trainer", "rlkit.scale.trl.monitoring", _log_then_save),
    Hook("arguments of callbacks", "rlkit.scale.trl.monitoring", _callback_parts),
    Hook("names of checkpoints", "rlkit.scale.trl.keeping", _checkpoint_names),
    Hook("torch LRScheduler.base_lrs", "rlkit.scale.trl.snapshots", _schedule_bases),
)
