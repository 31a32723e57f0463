"""build: from a `ScaleConfig` to TRL's trainer with all of our objects in their places.

The order matters: TRL's settings come first, since they start the processes' talk with each
other (and, under ZeRO-3, decide how weights are loaded); then the model, the sandbox, the
rewards, the dataset, and the callbacks.

Left out: evaluation on held-out problems inside TRL. Load the saved model with `Policy.load`
and ask `ClosedLoop.evaluate`, which measures as it does everywhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.monitor import Monitor
from rlkit.objectives import Objective, get_objective, objective_from
from rlkit.policy import LoraSpec, Policy
from rlkit.rewards import Reward, get_reward, per_domain
from rlkit.scale.config import ScaleConfig
from rlkit.scale.sandboxes import rank_sandbox
from rlkit.tasks import get_domains


@dataclass
class Built:
    """A run that is ready to train.

    Attributes:
        trainer: TRL's `GRPOTrainer`.
        policy: ours around the same model; `None` for a model in shards.
        dataset, watch, rollouts, monitoring, keeping: our objects in their places.
        run: the run directory; `None` on every rank but the first.
        output: TRL's own folder, with its checkpoints.
    """

    config: ScaleConfig
    trainer: Any
    tokenizer: Any
    policy: Policy | None
    dataset: Any
    watch: Any
    rollouts: Any
    monitoring: Any
    keeping: Any
    sandbox: Any
    run: Any
    output: Path

    @property
    def first(self) -> bool:
        """Whether this is the first rank of all."""
        return self.trainer.accelerator.is_main_process


def build(config: ScaleConfig, say: Callable[[str], None] | None = None) -> Built:
    """Everything but the training.

    Args:
        config: the run.
        say: told one line a step, on rank 0; in place of TRL's own lines.

    Raises:
        UserError: the settings do not fit each other, the launcher, or an existing run.
    """
    for name in config.imports:
        import_module(name)
    _check_launcher(config)
    objective = objective_of(config)
    output = Path(config.run) / "trl"
    args = trl_arguments(config, objective, output)
    domains = get_domains(config.domains)
    model, tokenizer, policy = load_model(config, args)
    sandbox = rank_sandbox(config.sandbox_workers)
    curriculum = Curriculum(
        domains, config.weighting, difficulty=config.difficulty, seed=config.seed
    )
    rewards, weights = rewards_of(config)

    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOTrainer

    from rlkit.scale.trl import MonitorCallback, SharedPrefixRollouts, domain_dataset, watch
    from rlkit.scale.trl.keeping import StateCallback

    dataset = domain_dataset(
        domains, curriculum, steps=config.steps, problems_per_step=config.problems_per_step
    )
    watched = watch(
        rewards,
        dataset,
        config.group_size,
        weights=weights,
        objective=objective,
        sandbox=sandbox,
        end_ids=_end_ids(model, tokenizer),
    )
    ours = config.rollouts == "shared_prefix"
    rollouts = SharedPrefixRollouts(config.seed) if ours else None
    monitor = Monitor(budget=config.monitor_budget, cooldown=config.monitor_cooldown)
    description = describe(config, objective, model, policy, curriculum, monitor, rewards)
    run = _open_run(config, description, sandbox, args)
    monitoring = MonitorCallback(
        monitor, run=run, watch=watched, keep_best=config.keep_best, say=say
    )
    parts = {} if rollouts is None else {"rollouts": rollouts}
    keeping = StateCallback(parts, dataset, monitoring)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=list(watched.functions),
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
        callbacks=[monitoring, keeping],
        rollout_func=rollouts,
        peft_config=_peft_config(config) if policy is None else None,
    )
    trainer.remove_callback(PrinterCallback)
    if policy is not None:
        keep_float32(policy.model)
    return Built(
        config,
        trainer,
        tokenizer,
        policy,
        dataset,
        watched,
        rollouts,
        monitoring,
        keeping,
        sandbox,
        run,
        output,
    )


# -- the parts -------------------------------------------------------------------------------


def objective_of(config: ScaleConfig) -> Objective:
    """The objective that the config names, with its fields changed.

    Raises:
        UserError: no such preset, or no such field.
    """
    values = dict(config.objective)
    name = values.get("name")
    if name is None:
        raise UserError("objective needs a name, such as {name: GRPO}")
    preset = get_objective(name)
    known = preset.describe()
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise UserError(f"{known['name']} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return objective_from({**known, **values, "name": known["name"]})


def trl_arguments(config: ScaleConfig, objective: Objective, output: Path) -> Any:
    """TRL's settings for this config and this number of processes."""
    from trl import GRPOConfig

    from rlkit.scale.trl.objectives import trl_settings

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    per_device, windows = batch_sizes(config, ranks)
    vllm: dict[str, Any] = {}
    if config.rollouts == "vllm":
        vllm = {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_base_url": config.vllm_url,
        }
    _, weights = rewards_of(config)
    return GRPOConfig(
        output_dir=str(output),
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=windows,
        num_generations=config.group_size,
        max_completion_length=config.max_new_tokens,
        temperature=config.temperature,
        max_steps=config.steps,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        lr_scheduler_type="constant_with_warmup",
        max_grad_norm=config.max_grad_norm,
        weight_decay=0.0,
        reward_weights=weights,
        shuffle_dataset=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        gradient_checkpointing=config.activation_checkpointing,
        bf16=config.precision == "bfloat16",
        use_cpu=config.device == "cpu",
        ddp_find_unused_parameters=False,
        logging_strategy="steps",
        logging_steps=1,
        save_strategy="steps",
        save_steps=config.checkpoint_every,
        save_total_limit=config.keep_checkpoints,
        seed=config.seed,
        report_to=[],
        disable_tqdm=True,
        **trl_settings(objective),
        **vllm,
    )


def batch_sizes(config: ScaleConfig, ranks: int) -> tuple[int, int]:
    """Answers scored at once on one device, and how often before an update.

    Raises:
        UserError: the answers of a step cannot be shared out.

    >>> batch_sizes(ScaleConfig(policy="tiny", run="a", micro_batch=20), 2)
    (16, 2)
    """
    answers = config.problems_per_step * config.group_size
    if answers % ranks:
        raise UserError(
            f"{config.problems_per_step} problems x {config.group_size} answers cannot be shared "
            f"out to {ranks} processes; change problems_per_step"
        )
    own = answers // ranks
    at_once = next(n for n in range(min(config.micro_batch, own), 0, -1) if own % n == 0)
    return at_once, own // at_once


def rewards_of(config: ScaleConfig) -> tuple[list[Reward], list[float]]:
    """The rewards that TRL gets, and their weights."""
    if config.rewards:
        return [get_reward(name) for name in config.rewards], [
            float(weight) for weight in config.rewards.values()
        ]
    own = {d.name: d.reward for d in get_domains(config.domains)}
    if len(set(own.values())) == 1:
        return [get_reward(next(iter(own.values())))], [1.0]
    return [per_domain({name: get_reward(reward) for name, reward in own.items()})], [1.0]


def load_model(config: ScaleConfig, args: Any) -> tuple[Any, Any, Policy | None]:
    """Model and tokenizer; a `Policy` around them unless the model goes into shards.

    A model in shards must not be put on a device by us: FSDP2 cuts it on the CPU, and under
    ZeRO-3 each rank loads its own part. Its adapter is then added by TRL.
    """
    if config.sharding == "none":
        device = "cpu" if args.device.type == "cpu" else f"{args.device.type}:{args.device.index}"
        lora = None if config.lora is None else LoraSpec(config.lora.rank, config.lora.alpha)
        policy = Policy.load(
            config.policy, quantize=config.quantize, lora=lora, device=device, seed=config.seed
        )
        return policy.model, policy.tokenizer, policy
    import torch
    from transformers import AutoModelForCausalLM

    from rlkit.policy.loading import load_tokenizer, resolve_source

    source = resolve_source(config.policy)
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    return model, load_tokenizer(source), None


def keep_float32(model: Any) -> int:
    """Puts a trained adapter back to float32; gives how many tensors were touched.

    TRL makes the adapter of a 4-bit model bfloat16. An update of 1e-5 of a weight is then lost
    to rounding, since bfloat16 has 8 bits for it.
    """
    touched = 0
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype.itemsize < 4:
            parameter.data = parameter.data.float()
            touched += 1
    return touched


def describe(
    config: ScaleConfig,
    objective: Objective,
    model: Any,
    policy: Policy | None,
    curriculum: Curriculum,
    monitor: Monitor,
    rewards: list[Reward],
) -> dict[str, Any]:
    """What `config.json` keeps, in the words that `ClosedLoop` uses."""
    import trl

    if policy is not None:
        about: Mapping[str, Any] = policy.describe()
    else:
        lora = None if config.lora is None else vars(config.lora).copy()
        precision = f"{config.precision} weights, in shards by {config.sharding}"
        about = {"name": config.policy, "quantize": None, "precision": precision, "lora": lora}
    settings = config.to_dict()
    identity = (
        "problems_per_step group_size max_new_tokens temperature learning_rate warmup_steps "
        "max_grad_norm difficulty weighting seed rollouts"
    )
    return {
        "engine": f"TRL {trl.__version__}",
        "policy": dict(about),
        "domains": [d.name for d in curriculum.domains],
        "objective": objective.describe(),
        "loop": {name: settings[name] for name in identity.split()},
        "curriculum": {"weighting": curriculum.weighting, "difficulty": curriculum.difficulty},
        "monitor": {
            "rules": [rule.name for rule in monitor.rules],
            "budget": monitor.budget,
            "cooldown": monitor.cooldown,
        },
        "rewards": {reward.name: reward.name for reward in rewards},
    }


def _open_run(config: ScaleConfig, description: Mapping[str, Any], sandbox: Any, args: Any) -> Any:
    """The run directory, on the first rank; what is wrong with it is said on all."""
    from accelerate.utils import broadcast_object_list

    from rlkit import __version__
    from rlkit.loop.run import Run

    run, problem = None, None
    if args.process_index == 0:
        try:
            about = {"rlkit": __version__, **description, "isolation": sandbox.record()}
            run = Run.create(config.run, about)
        except UserError as error:
            problem = str(error)
    (problem,) = broadcast_object_list([problem])
    if problem is not None:
        raise UserError(problem)
    return run


def _peft_config(config: ScaleConfig) -> Any:
    if config.lora is None:
        return None
    return LoraSpec(config.lora.rank, config.lora.alpha).peft_config()


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    from rlkit.policy.loading import end_ids

    return end_ids(model, tokenizer)


def launched_as() -> str:
    """How the launcher spreads the model, from what `accelerate launch` sets."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
        return f"zero{os.environ.get('ACCELERATE_DEEPSPEED_ZERO_STAGE', '?')}"
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        return f"fsdp{os.environ.get('FSDP_VERSION', '1')}"
    return "none"


def _check_launcher(config: ScaleConfig) -> None:
    started = launched_as()
    if started != config.sharding:
        raise UserError(
            f"the config says sharding: {config.sharding}, but the launcher was told {started}; "
            f"start it with the accelerate config that fits, see "
            "`python -m rlkit.scale.train --accelerate NAME`"
        )
