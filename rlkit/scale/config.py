"""ScaleConfig: everything about a run of several processes, read from one YAML file.

The names are those of `LoopConfig` where the meaning is the same. What TRL and accelerate
call differently is made from them in `rlkit.scale.trainer`, so that one file says all.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from rlkit.errors import UserError

ROLLOUTS = ("shared_prefix", "trl", "vllm")
SHARDINGS = ("none", "fsdp2", "zero3")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Lora:
    """Size of the adapter; on all linear layers."""

    #: inner width; raise it when the reward stalls early
    rank: int = 16
    #: scale; the adapter's output is multiplied by alpha / rank
    alpha: int = 32


@dataclass(frozen=True)
class ScaleConfig:
    """Sizes, speeds and places of a run at scale. Each line says when to move it."""

    #: tiny, smol, a folder with a model, or a hub id
    policy: str
    #: where the run is kept; runs with other settings need another directory
    run: str
    #: domains to train on
    domains: tuple[str, ...] = ("pyfunc",)
    #: modules imported first, which register domains and rewards of your own
    imports: tuple[str, ...] = ()
    #: nf4 for a base in four bits; null when a model in shards is trained, or speed matters more
    quantize: str | None = None
    #: the adapter; null trains all weights, which takes many times the memory
    lora: Lora | None = field(default_factory=Lora)
    #: reward names and weights; null takes each domain's own
    rewards: Mapping[str, float] | None = None
    #: name of a preset of rlkit.objectives, or `name` with fields to change
    objective: Mapping[str, Any] = field(default_factory=lambda: {"name": "GRPO"})
    #: steps in all
    steps: int = 100
    #: B, problems a step over all ranks; raise it when the reward jumps about
    problems_per_step: int = 8
    #: G, answers a problem; raise it when most groups are all right or all wrong
    group_size: int = 8
    #: longest prompt that is expected, for the memory estimate alone
    prompt_tokens: int = 128
    #: completion budget in tokens; raise it when completions/clipped_ratio is high
    max_new_tokens: int = 64
    #: temperature of the answers; raise it when those of a group are all alike
    temperature: float = 1.0
    #: peak learning rate; halve it when the reward rises and then breaks down
    learning_rate: float = 1e-4
    #: steps over which the rate rises to its peak
    warmup_steps: int = 2
    #: longest gradient an update may take; lower it when grad_norm has spikes
    max_grad_norm: float = 1.0
    #: answers scored at once on one device; lower it when memory runs out, nothing else changes
    micro_batch: int = 64
    #: keep little of the forward pass and compute it again; true when memory runs out
    activation_checkpointing: bool = False
    #: float32 or bfloat16 (autocast); bfloat16 on any GPU that has it
    precision: str = "float32"
    #: auto takes the GPU of this process where there is one; cpu never does
    device: str = "auto"
    #: shared_prefix (ours), trl (transformers' generate), or vllm (a server, see vllm_url)
    rollouts: str = "shared_prefix"
    #: address of the server that `trl vllm-serve` was started with
    vllm_url: str | None = None
    #: how the model is spread: none (a copy each, DDP), fsdp2 or zero3; must fit the launcher
    sharding: str = "none"
    #: processes this file is written for, for the memory estimate; others work, too
    processes: int = 1
    #: programs run at a time on one machine, over all its ranks; null: one a processor
    sandbox_workers: int | None = None
    #: difficulty level of every domain
    difficulty: int = 1
    #: how the curriculum weighs domains: uniform or learnability
    weighting: str = "uniform"
    #: rollbacks the monitor may make in a run
    monitor_budget: int = 3
    #: steps after a rollback without another
    monitor_cooldown: int = 10
    #: hold copies for a rollback; false when memory runs out, a rollback then ends the run
    keep_best: bool = True
    #: steps between two checkpoints; lower it when a crash would cost too much
    checkpoint_every: int = 10
    #: checkpoints kept; at least 2, since the newest may be broken off by a kill
    keep_checkpoints: int = 3
    #: decides problems, adapter and everything that is sampled
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "problems_per_step", "prompt_tokens", "max_new_tokens"):
            _at_least(self, name, 1)
        for name in ("micro_batch", "processes", "checkpoint_every", "difficulty"):
            _at_least(self, name, 1)
        for name in ("group_size", "keep_checkpoints"):
            _at_least(self, name, 2)
        _one_of(self, "rollouts", ROLLOUTS)
        _one_of(self, "sharding", SHARDINGS)
        _one_of(self, "precision", PRECISIONS)
        _one_of(self, "device", ("auto", "cpu"))
        _one_of(self, "quantize", (None, "nf4"))
        if min(self.learning_rate, self.temperature, self.max_grad_norm) <= 0:
            raise UserError("learning_rate, temperature and max_grad_norm must be above 0")
        if not self.domains:
            raise UserError("domains is empty; name at least one, such as pyfunc")
        if self.quantize and self.lora is None:
            raise UserError("weights in four bits cannot be trained; set lora, or quantize: null")
        if self.quantize and self.sharding != "none":
            raise UserError(
                f"weights in four bits are not cut into shards here; set quantize: null with "
                f"sharding: {self.sharding}, or sharding: none"
            )
        if self.quantize and self.rollouts == "vllm":
            raise UserError("a vLLM server is not fed with weights in four bits; quantize: null")
        if (self.rollouts == "vllm") != (self.vllm_url is not None):
            raise UserError("rollouts: vllm and vllm_url belong together; set both or neither")

    def with_changes(self, **changes: Any) -> ScaleConfig:
        """The same with these fields changed, checked again."""
        return ScaleConfig(**{**{f.name: getattr(self, f.name) for f in fields(self)}, **changes})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        """The config as aligned lines of `name  value`."""
        width = max(len(f.name) for f in fields(self))
        return "\n".join(f"{f.name:<{width}}  {getattr(self, f.name)}" for f in fields(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the config") -> ScaleConfig:
        """A config from plain values, as a YAML file gives them.

        Raises:
            UserError: an unknown name, with the one that was probably meant; a value of
                another kind; or settings that do not go together.

        >>> ScaleConfig.from_dict({"policy": "tiny", "run": "a", "lerning_rate": 1e-3})
        ... # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        rlkit.errors.UserError: the config: unknown setting 'lerning_rate'; did you mean ...
        """
        if not isinstance(values, Mapping):
            raise UserError(f"{where} must be settings by name, not {type(values).__name__}")
        _check_names(values, cls, where)
        for needed in ("policy", "run"):
            if needed not in values:
                raise UserError(f"{where}: the setting {needed!r} is missing")
        made = {name: _as_field(name, value, where) for name, value in values.items()}
        try:
            return cls(**made)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None

    @classmethod
    def from_yaml(cls, file: str | Path) -> ScaleConfig:
        """Reads a config from a file, or one of the package by its name.

        Raises:
            UserError: no such file or name, no YAML, or settings as in `from_dict`.
        """
        import yaml

        path = find_config(file)
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"the config {str(file)!r} cannot be read: {error.strerror}") from None
        except yaml.YAMLError as error:
            line = str(error).replace("\n", " ")
            raise UserError(f"the config {str(file)!r} is no YAML: {line}") from None
        return cls.from_dict(values or {}, path.name)


def config_names() -> list[str]:
    """Names of the configs in the package."""
    folder = resources.files("rlkit.scale") / "configs"
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name[-5:] == ".yaml")


def find_config(file: str | Path) -> Path:
    """The file of this path, or the config of this name in the package.

    Raises:
        UserError: neither is there.

    >>> find_config("ddp").name
    'ddp.yaml'
    """
    if Path(file).is_file():
        return Path(file)
    if str(file) in config_names():
        return Path(str(resources.files("rlkit.scale") / "configs" / f"{file}.yaml"))
    raise UserError(
        f"there is no config {str(file)!r}; give a file, or one of {', '.join(config_names())}"
    )


def _as_field(name: str, value: Any, where: str) -> Any:
    """A value of YAML as the field wants it."""
    if name in ("domains", "imports"):
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            raise UserError(f"{where}: {name} must be a list, not {value!r}")
        return tuple(value)
    if name == "lora" and isinstance(value, Mapping):
        _check_names(value, Lora, f"{where}, lora")
        return Lora(**value)
    if name == "objective":
        return {"name": value} if isinstance(value, str) else dict(value)
    if name in ("learning_rate", "temperature", "max_grad_norm"):
        # YAML 1.1 reads 1e-4 as a text: it wants 1.0e-4 for a number.
        try:
            return float(value)
        except (TypeError, ValueError):
            raise UserError(f"{where}: {name} must be a number, not {value!r}") from None
    kind = next(f.type for f in fields(ScaleConfig) if f.name == name)
    wanted = {"int": int, "bool": bool, "str": str}.get(str(kind).removesuffix(" | None"))
    empty = value is None and "None" in str(kind)
    is_bool = isinstance(value, bool)
    if wanted and not empty and (not isinstance(value, wanted) or (is_bool and wanted is int)):
        raise UserError(f"{where}: {name} must be of the kind {wanted.__name__}, not {value!r}")
    return value


def _check_names(values: Mapping[str, Any], kind: type, where: str) -> None:
    known = [f.name for f in fields(kind)]
    for name in values:
        if name in known:
            continue
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise UserError(f"{where}: unknown setting {name!r}; {hint}")


def _at_least(config: ScaleConfig, name: str, least: int) -> None:
    if getattr(config, name) < least:
        raise UserError(f"{name} must be at least {least}, not {getattr(config, name)}")


def _one_of(config: ScaleConfig, name: str, known: tuple[Any, ...]) -> None:
    value = getattr(config, name)
    if value not in known:
        shown = ", ".join("null" if k is None else str(k) for k in known)
        raise UserError(f"{name}: {value!r} is unknown; choose {shown}")
