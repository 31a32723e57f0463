"""ScaleConfig: every config of the package loads, and mistakes are told to a person."""

from __future__ import annotations

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from rlkit.errors import UserError
from rlkit.objectives import DAPO, GRPO, Truncate
from rlkit.scale.config import Lora, ScaleConfig, config_names, find_config
from rlkit.scale.train import accelerate_file
from rlkit.scale.trainer import batch_sizes, objective_of, rewards_of, trl_arguments

NAMES = ("cpu_two_processes", "ddp", "fsdp2", "one_gpu_qlora", "vllm_server", "zero3")


def config(**changes):
    return ScaleConfig.from_dict({"policy": "tiny", "run": "runs/a", **changes})


def test_these_are_the_configs():
    assert config_names() == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_loads_and_becomes_settings_of_trl(name, tmp_path, monkeypatch):
    """On a CPU, so without bfloat16 and without a GPU; nothing is loaded or connected."""
    found = ScaleConfig.from_yaml(name)
    monkeypatch.setenv("WORLD_SIZE", "1")
    here = found.with_changes(device="cpu", precision="float32")
    args = trl_arguments(here, objective_of(found), tmp_path)
    assert args.generation_batch_size == found.problems_per_step * found.group_size
    assert args.steps_per_generation == args.gradient_accumulation_steps
    assert args.num_generations == found.group_size
    assert args.use_vllm is (name == "vllm_server")
    assert args.vllm_importance_sampling_correction is (name == "vllm_server")
    # The sizes work for the number of processes that the file is written for, too.
    per_device, windows = batch_sizes(found, found.processes)
    assert per_device * windows * found.processes == args.generation_batch_size
    rewards, weights = rewards_of(found)
    assert len(rewards) == len(weights) == 1


@pytest.mark.parametrize("name", NAMES)
def test_each_says_when_to_use_it_and_how_to_start_it(name):
    text = find_config(name).read_text("utf-8")
    assert "# When: " in text and "-m rlkit.scale.train" in text.replace("\\\n#", "")
    assert "Memory: about " in text


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "zero3"])
def test_the_launchers_configs_are_what_accelerate_reads(name):
    loaded = load_config_from_file(str(accelerate_file(name)))
    kind = {"ddp": "MULTI_GPU", "fsdp2": "FSDP", "zero3": "DEEPSPEED"}[name]
    assert str(loaded.distributed_type).split(".")[-1] == kind
    assert loaded.num_processes == ScaleConfig.from_yaml(name).processes
    assert loaded.mixed_precision == "bf16"


def test_the_fsdp2_plugin_is_built_from_its_file(monkeypatch):
    """What `accelerate launch` does with the file: environment variables, then the plugin."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    values = yaml.safe_load(accelerate_file("fsdp2").read_text("utf-8"))["fsdp_config"]
    for key, value in values.items():
        monkeypatch.setenv(key.upper(), str(value))
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert plugin.cpu_ram_efficient_loading is True
    assert str(plugin.state_dict_type).endswith("FULL_STATE_DICT")


def test_the_deepspeed_plugin_is_built_from_its_file(monkeypatch):
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed; the file is only read")
    from accelerate.utils import DeepSpeedPlugin

    values = yaml.safe_load(accelerate_file("zero3").read_text("utf-8"))["deepspeed_config"]
    plugin = DeepSpeedPlugin(zero_stage=values["zero_stage"], zero3_init_flag=False)
    assert plugin.zero_stage == 3


def test_the_launcher_and_the_config_must_agree(monkeypatch):
    from rlkit.scale.trainer import build

    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    with pytest.raises(UserError, match="sharding: none, but the launcher was told fsdp2"):
        build(config())
    monkeypatch.delenv("ACCELERATE_USE_FSDP")
    with pytest.raises(UserError, match="sharding: fsdp2, but the launcher was told none"):
        build(config(sharding="fsdp2"))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"lerning_rate": 1}, "unknown setting 'lerning_rate'; did you mean 'learning_rate'"),
        ({"zzz": 1}, "unknown setting 'zzz'; known are policy, run"),
        ({"lora": {"rnak": 4}}, "lora: unknown setting 'rnak'; did you mean 'rank'"),
        ({"steps": "ten"}, "steps must be of the kind int, not 'ten'"),
        ({"steps": True}, "steps must be of the kind int"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"group_size": 1}, "group_size must be at least 2"),
        ({"keep_checkpoints": 1}, "keep_checkpoints must be at least 2"),
        ({"domains": "pyfunc"}, "domains must be a list, not 'pyfunc'"),
        ({"domains": []}, "domains is empty"),
        ({"learning_rate": "fast"}, "learning_rate must be a number"),
        ({"sharding": "zero2"}, "sharding: 'zero2' is unknown; choose none, fsdp2, zero3"),
        ({"quantize": "int8"}, "quantize: 'int8' is unknown; choose null, nf4"),
        ({"quantize": "nf4", "lora": None}, "cannot be trained"),
        ({"quantize": "nf4", "sharding": "fsdp2"}, "not cut into shards"),
        ({"rollouts": "vllm"}, "belong together"),
        ({"vllm_url": "http://x"}, "belong together"),
    ],
)
def test_mistakes(values, told):
    with pytest.raises(UserError, match=told):
        config(**values)


def test_what_must_be_there():
    with pytest.raises(UserError, match="the setting 'policy' is missing"):
        ScaleConfig.from_dict({"run": "a"})
    with pytest.raises(UserError, match="there is no config 'dpd'; give a file, or one of cpu"):
        ScaleConfig.from_yaml("dpd")


def test_a_file_that_is_no_yaml_or_no_settings(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("policy: [tiny")
    with pytest.raises(UserError, match="is no YAML"):
        ScaleConfig.from_yaml(file)
    file.write_text("- tiny")
    with pytest.raises(UserError, match="settings by name, not list"):
        ScaleConfig.from_yaml(file)
    file.write_text("policy: tiny\nrun: a\nlearning_rate: 1e-4\nlora: {rank: 4}\nobjective: DAPO\n")
    found = ScaleConfig.from_yaml(file)
    # YAML 1.1 takes 1e-4 for a text; nobody should have to know that.
    assert found.learning_rate == 1e-4
    assert found.lora == Lora(4, 32)
    assert objective_of(found) == DAPO()


def test_objectives_by_name_and_with_changes():
    assert objective_of(config()) == GRPO()
    changed = config(objective={"name": "GRPO", "beta": 0.1})
    assert objective_of(changed) == GRPO(beta=0.1)
    served = ScaleConfig.from_yaml("vllm_server")
    assert objective_of(served).off_policy == Truncate(2.0, "token")
    with pytest.raises(UserError, match="GRPO has no setting 'betta'"):
        objective_of(config(objective={"name": "GRPO", "betta": 0.1}))
    with pytest.raises(UserError, match="unknown objective 'GRPPO'"):
        objective_of(config(objective="GRPPO"))
    with pytest.raises(UserError, match="needs a name"):
        objective_of(config(objective={"beta": 0.1}))


def test_rewards_by_name_by_domain_and_weighted():
    rewards, weights = rewards_of(config(rewards={"exact_answer": 0.9, "format_reward": 0.1}))
    assert [r.name for r in rewards] == ["exact_answer", "format_reward"]
    assert weights == [0.9, 0.1]
    (mixed,), _ = rewards_of(config(domains=["arith", "pyfunc"]))
    assert mixed.name == "per_domain(arith, pyfunc)"
    (same,), _ = rewards_of(config(domains=["arith", "sort"]))
    assert same.name == "exact_answer"


def test_answers_that_cannot_be_shared_out():
    with pytest.raises(UserError, match="8 problems x 8 answers cannot be shared out to 3"):
        batch_sizes(config(), 3)
    # 64 answers, 2 ranks: 32 each; at most 12 at once, so 8 at once, 4 times.
    assert batch_sizes(config(micro_batch=12), 2) == (8, 4)
