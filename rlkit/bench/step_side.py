"""One side of `rlkit bench step`: loads its model, waits, and takes a step when it is told to.

`ours` is `ClosedLoop.step`, with curriculum, reward, monitor and record. `peer` is TRL's
`GRPOTrainer` with its own generator, on the same prompts in the same order, the same NF4 model,
the same adapter and the same reward. Neither ends an answer early.

TRL makes the adapter of a four-bit model bfloat16, in which an update of 1e-5 of a weight is
lost. Where the curves of learning are compared it is put back to float32.

Left out of the peer's time, to its favour: reading its next problems, and its log.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

from rlkit.bench.fixed_work import NEVER, REWARDS, Case, sized_prompts
from rlkit.bench.resident import Memory
from rlkit.bench.side_process import Channel, channel

#: More steps than anybody asks for.
MANY = 10_000


def load_ours(settings: dict[str, Any], **more: Any) -> Any:
    """The policy of a side; what is `None` is left to `Policy.load`."""
    from rlkit.policy import LoraSpec, Policy

    asked = {"learner": settings.get("learner"), **more}
    return Policy.load(
        settings["policy"],
        quantize=settings["quantize"],
        lora=LoraSpec(rank=settings["rank"]),
        seed=settings["seed"],
        device=settings.get("device", "auto"),
        **{name: value for name, value in asked.items() if value is not None},
    )


def our_loop(policy: Any, settings: dict[str, Any], objective: Any = None) -> Any:
    """The closed loop over prompts of the case's size, with nothing left out."""
    from rlkit.loop import ClosedLoop, LoopConfig
    from rlkit.objectives import GRPO, Truncate

    case = Case(**settings["case"])
    policy.end_ids = NEVER
    config = LoopConfig(
        problems_per_step=case.problems,
        group_size=case.group_size,
        max_new_tokens=case.new_tokens,
        learning_rate=settings["learning_rate"],
        warmup_steps=0,
        seed=settings["seed"],
        micro_batch_tokens=settings.get("micro_batch_tokens"),
    )
    return ClosedLoop(
        policy,
        [sized_prompts(policy, case.prompt_tokens)],
        objective or GRPO(off_policy=Truncate(2.0)),
        config,
        reward=REWARDS[settings.get("reward", "text")],
    )


def ours(settings: dict[str, Any], line: Channel) -> None:
    """Answers each request with one step of the closed loop."""
    policy = load_ours(settings, rollouts=settings.get("rollouts", "fast"))
    loop = our_loop(policy, settings)
    memory = Memory(policy.device.type)
    line.say(
        ready=True,
        held_mb=memory.held_mb(),
        loading_peak_mb=memory.peak_mb(),
        about=policy.describe(),
    )
    for _ in line:
        memory.reset_peak()
        begun = time.perf_counter()
        record = loop.step()
        memory.wait()
        seconds = time.perf_counter() - begun
        first = loop.batch.groups[0].rollouts[0]
        line.say(
            seconds=seconds,
            generation_s=record["time/generate"],
            update_s=record["time/update"],
            peak_mb=memory.peak_mb(),
            held_mb=memory.held_mb(),
            tokens=loop.batch.tokens,
            prompt_tokens=len(first.prompt_ids),
            reward=record["reward"],
            dead=record["frac_reward_zero_std"],
            stepped=record["stepped"] == 1.0,
        )


def peer(settings: dict[str, Any], line: Channel) -> None:
    """Answers each request with one step of TRL's trainer."""
    policy = load_ours(settings, rollouts="plain", learner=None)
    with tempfile.TemporaryDirectory(prefix="rlkit-bench-") as folder:
        trainer = trl_trainer(policy, settings, folder)
        about = {
            **policy.describe(),
            "rollouts": "model.generate",
            "gradient_checkpointing": trainer.args.gradient_checkpointing,
            "bf16": trainer.args.bf16,
        }
        memory = Memory(policy.device.type)
        line.say(
            ready=True, held_mb=memory.held_mb(), loading_peak_mb=memory.peak_mb(), about=about
        )
        try:
            trainer.train()
        except _Enough:
            pass


class _Enough(Exception):
    """The parent asks for no further step."""


def trl_trainer(policy: Any, settings: dict[str, Any], folder: str) -> Any:
    """TRL's trainer, which waits for a request before each step and reports after it."""
    import torch
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from rlkit.curriculum import Curriculum
    from rlkit.policy.quantization import four_bit_layers
    from rlkit.scale.trainer import keep_float32
    from rlkit.scale.trl import domain_dataset

    case = Case(**settings["case"])
    half = settings.get("peer_dtype", "float32") == "bfloat16"
    if half:  # what a user sets beside bf16=True
        for layer in four_bit_layers(policy.model):
            layer.compute_dtype = torch.bfloat16
    domain = sized_prompts(policy, case.prompt_tokens)
    curriculum = Curriculum([domain], seed=settings["seed"])
    turns = _turns(TrainerCallback, settings["line"], case)
    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=[REWARDS[settings.get("reward", "text")]],
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=case.answers,
            num_generations=case.group_size,
            max_completion_length=case.new_tokens,
            generation_kwargs={"min_new_tokens": case.new_tokens},
            max_steps=settings.get("steps", MANY),
            learning_rate=settings["learning_rate"],
            lr_scheduler_type="constant",
            shuffle_dataset=False,
            beta=0.0,
            bf16=half,
            use_cpu=policy.device.type == "cpu",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            seed=settings["seed"],
            **settings.get("trl", {}),
        ),
        train_dataset=domain_dataset(
            [domain],
            curriculum,
            steps=settings.get("steps", MANY),
            problems_per_step=case.problems,
        ),
        processing_class=policy.tokenizer,
        callbacks=[turns],
    )
    trainer.remove_callback(PrinterCallback)
    if settings.get("keep_float32", not half):
        keep_float32(policy.model)
    turns.watch(trainer)
    return trainer


def _turns(base: type, line: Channel, case: Case) -> Any:
    class Turns(base):
        """Waits before a step and reports after it."""

        def watch(self, trainer: Any) -> None:
            self.generation_s, self.prompt_tokens = None, 0
            self.memory = Memory(trainer.args.device.type)
            generate = trainer._generate

            def timed(prompts: list) -> Any:
                begun = time.perf_counter()
                made = generate(prompts)
                self.generation_s = time.perf_counter() - begun
                self.prompt_tokens = len(made[0][0])
                return made

            trainer._generate = timed

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if line.next() is None:
                raise _Enough
            self.memory.reset_peak()
            self.begun = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.memory.wait()
            self.seconds = time.perf_counter() - self.begun
            self.peak, self.held = self.memory.peak_mb(), self.memory.held_mb()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any):
            if not logs or "reward" not in logs:
                return
            line.say(
                seconds=self.seconds,
                generation_s=self.generation_s,
                update_s=self.seconds - self.generation_s,
                peak_mb=self.peak,
                held_mb=self.held,
                tokens=round(logs["completions/mean_length"] * case.answers),
                prompt_tokens=self.prompt_tokens,
                reward=logs["reward"],
                dead=logs["frac_reward_zero_std"],
                stepped=True,
            )

    return Turns()


def main() -> None:
    settings = json.loads(sys.argv[1])
    with channel() as line:
        if settings["side"] == "ours":
            ours(settings, line)
        else:
            peer({**settings, "line": line}, line)


if __name__ == "__main__":
    main()
