"""`python -m rlkit.scale.train`: a run of one or several processes, from one YAML file.

    torchrun --nproc_per_node 2 -m rlkit.scale.train --config cpu_two_processes --max-steps 20
    accelerate launch --config_file FILE -m rlkit.scale.train --config fsdp2
    ... the same with --resume, after a kill

A run directory is what `ClosedLoop` leaves, too: `metrics.jsonl`, `events.jsonl`,
`rollouts.jsonl.gz`, read by `rlkit report` and by the monitor. TRL's checkpoints lie in `trl/`,
the model in `model/`, which `Policy.load` takes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.scale.config import ScaleConfig, config_names

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.accelerate is not None:
            print(accelerate_file(options.accelerate))
            return 0
        if options.config is None:
            raise UserError(f"--config is missing; give a file, or one of {_listed()}")
        return train(config_from(options), resume=options.resume)
    except UserError as error:
        if os.environ.get("RANK", "0") == "0":
            _print(str(error))
        return 2


def config_from(options: argparse.Namespace) -> ScaleConfig:
    """The config of the command line: the file, and what was given beside it."""
    changes: dict[str, Any] = {}
    if options.max_steps is not None:
        changes["steps"] = options.max_steps
    if options.directory is not None:
        changes["run"] = str(options.directory)
    config = ScaleConfig.from_yaml(options.config)
    return config.with_changes(**changes) if changes else config


def train(config: ScaleConfig, *, resume: bool = False) -> int:
    """Trains; returns 0, or 130 when a signal ended it.

    Raises:
        UserError: a library has changed where the bridge stands on it, the settings do not fit,
            or the run has steps already and `resume` was not asked for.
    """
    _prepare(config)
    from rlkit.scale.interruption import Interruption
    from rlkit.scale.trainer import build
    from rlkit.scale.trl import drift

    if changed := drift():
        raise UserError("the bridge to TRL does not fit this version: " + "; ".join(changed))
    built = build(config, _print)
    _say(built, f"{_memory(config)}; {built.trainer.accelerator.num_processes} process(es)")
    interruption = Interruption(built.monitoring)
    built.trainer.add_callback(interruption)
    try:
        checkpoint = _start_at(built, resume)
        with interruption:
            return _train(built, interruption, checkpoint)
    finally:
        built.sandbox.close()
        _leave()


def _train(built: Any, interruption: Any, checkpoint: Path | None) -> int:
    trainer = built.trainer
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except (KeyboardInterrupt, RuntimeError) as error:
        if not interruption.asked:
            raise
        # The step was given up. Another rank may be gone, so nothing is asked of it any more.
        step = trainer.state.global_step
        if built.first and built.policy is not None:
            built.monitoring.repair(trainer.model, trainer.optimizer)
            save_model(built, step)
        if built.run is not None:
            reason = str(error) or "the step took longer than the grace time"
            built.run.append_event("interrupted", step, given_up=reason.split("\n")[0])
        return INTERRUPTED
    save_model(built, trainer.state.global_step)
    trainer.accelerator.wait_for_everyone()
    ending = built.monitoring.ending
    _say(built, f"{ending} at step {trainer.state.global_step}: {built.config.run}")
    return INTERRUPTED if ending == "interrupted" else 0


def save_model(built: Any, step: int) -> None:
    """Writes the model where `Policy.load` finds it; all ranks must call it for shards."""
    from rlkit.policy import LoraSpec
    from rlkit.policy.saving import write_note

    folder = Path(built.config.run) / "model"
    if built.policy is not None and built.policy.lora is not None:
        if built.first:
            built.policy.version = step
            built.policy.save(folder)
        return
    built.trainer.save_model(str(folder))
    if built.first:
        built.tokenizer.save_pretrained(folder)
        if built.config.lora is not None:
            lora = LoraSpec(built.config.lora.rank, built.config.lora.alpha)
            write_note(folder, built.config.policy, lora, step)


def accelerate_file(name: str) -> Path:
    """The file for `accelerate launch --config_file`.

    Raises:
        UserError: no such file in the package.

    >>> accelerate_file("ddp").name
    'ddp.yaml'
    """
    folder = Path(str(resources.files("rlkit.scale") / "configs" / "accelerate"))
    file = folder / f"{name}.yaml"
    if not file.exists():
        known = ", ".join(sorted(f.stem for f in folder.glob("*.yaml")))
        raise UserError(f"there is no accelerate config {name!r}; known are {known}")
    return file


def _start_at(built: Any, resume: bool) -> Path | None:
    """The checkpoint to go on from, or `None`; our own parts are put there already."""
    from accelerate.utils import broadcast_object_list

    from rlkit.scale.trl.keeping import newest_checkpoint, remove_broken

    found: Any = (None, [])
    if built.first:
        newest, _ = newest_checkpoint(built.output)
        begun = newest is not None or bool(built.run.metrics())
        if begun and not resume:
            found = ("refused", [])
        else:
            found = (newest, remove_broken(built.output))
    (found,) = broadcast_object_list([found])
    checkpoint, broken = found
    if checkpoint == "refused":
        raise UserError(
            f"the run {built.config.run!r} has steps already; give --resume to go on with it, or "
            "choose another with --directory"
        )
    if built.first:
        for name, reason in broken:
            built.run.append_event("checkpoint_ignored", 0, checkpoint=name, reason=reason)
        if resume and (checkpoint is not None or built.run.events()):
            step = 0 if checkpoint is None else int(checkpoint.name.split("-")[1])
            name = None if checkpoint is None else checkpoint.name
            built.run.append_event("resumed", step, checkpoint=name)
    if checkpoint is not None:
        built.keeping.load(checkpoint)
    return checkpoint


def _prepare(config: ScaleConfig) -> None:
    """What the libraries must find before they are imported."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # hooks are watched by `drift`
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if config.device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"
    import warnings

    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|torch|peft)\.")


def _leave() -> None:
    """Ends the talk with the other ranks, so that none waits for this one."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _memory(config: ScaleConfig) -> str:
    from rlkit.scale.memory import estimate

    try:
        return f"about {estimate(config).gib} GiB on each device, by estimate"
    except UserError as error:
        return str(error)


def _say(built: Any, text: str) -> None:
    if built.first:
        _print(text)


def _print(text: str) -> None:
    print(f"rlkit: {text}", file=sys.stderr, flush=True)


def _listed() -> str:
    return ", ".join(config_names())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rlkit.scale.train",
        description="Trains with TRL, with rlkit's rewards, curriculum, monitor and sandbox.",
    )
    add = parser.add_argument
    add("--config", help=f"a YAML file, or one of {_listed()}")
    add("--max-steps", type=int, help="steps in all, in place of the config's")
    # Not `--run`: torchrun would take it for a beginning of its own `--run-path`.
    add("--directory", type=Path, help="run directory, in place of the config's")
    add("--resume", action="store_true", help="go on with a run that was broken off")
    add("--accelerate", metavar="NAME", help="print the path of an accelerate config, and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
