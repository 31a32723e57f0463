"""TRL with our shared-prefix generator as `rollout_func`, beside TRL with its own generator.

One `GRPOTrainer` takes all steps; which generator answers changes from step to step, so model,
adapter, memory and the load of the machine are the same for both, and drift of the machine
falls on both. Seconds are TRL's own `step_time`: generation, scoring, backward pass, update.
The first step of each is left out. The reward is a look at the text and costs nothing, since
what is compared is the trainer.

The adapter is really trained, so that our merged copy of the weights is made anew each step.

Axes: B problems a step, G answers a problem, T completion tokens.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError


@dataclass(frozen=True)
class Side:
    """One generator.

    Attributes:
        name: `rlkit` or `TRL`.
        seconds: of each measured step.
        median_s, fastest_s, slowest_s: of these.
        generation_s: median of the part in which answers are generated.
        tokens: completion tokens of a step, mean.
    """

    name: str
    seconds: tuple[float, ...]
    median_s: float
    fastest_s: float
    slowest_s: float
    generation_s: float
    tokens: float


@dataclass(frozen=True)
class Comparison:
    """Both generators in one run.

    Attributes:
        policy, precision, generator: what answered.
        problems, group_size, max_new_tokens: B, G and the budget.
        ours, theirs: the two sides.
        ratio: TRL's median over ours; above 1 ours is faster.
    """

    policy: str
    precision: str
    generator: str
    problems: int
    group_size: int
    max_new_tokens: int
    ours: Side
    theirs: Side
    ratio: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        """A Markdown table of both sides."""
        rows = [
            "| generator | median s a step | of it generation | fastest | slowest | tokens |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for side in (self.theirs, self.ours):
            rows.append(
                f"| {side.name} | {side.median_s:.2f} | {side.generation_s:.2f} | "
                f"{side.fastest_s:.2f} | {side.slowest_s:.2f} | {side.tokens:.0f} |"
            )
        return "\n".join(
            [
                f"{self.policy} ({self.precision}), {self.problems} problems x {self.group_size} "
                f"answers x {self.max_new_tokens} tokens, {len(self.ours.seconds)} steps each; "
                f"ours is {self.generator}",
                "",
                *rows,
                "",
                f"TRL's step takes {self.ratio:.2f} times as long with its own generator.",
            ]
        )


def measure(
    policy: str = "smol",
    *,
    pairs: int = 5,
    problems: int = 4,
    group_size: int = 8,
    max_new_tokens: int = 64,
    quantize: str | None = "nf4",
    domain: str = "pyfunc",
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Steps of both generators, one after the other.

    Args:
        policy: name of a policy.
        pairs: measured steps of each; one more of each comes first and is left out.
        problems, group_size, max_new_tokens: B, G and the budget.
        quantize: as in `Policy.load`.
        domain: where the prompts come from.
        say: told how it goes.

    Raises:
        UserError: sizes out of range, or a policy that cannot be loaded.
    """
    if pairs < 1 or problems < 1 or group_size < 2 or max_new_tokens < 1:
        raise UserError("pairs, problems and max_new_tokens must be 1 or more, group_size 2")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from transformers.trainer_callback import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from rlkit.policy import LoraSpec, Policy
    from rlkit.rewards import format_reward
    from rlkit.scale.trainer import keep_float32
    from rlkit.scale.trl import SharedPrefixRollouts, domain_dataset

    loaded = Policy.load(policy, quantize=quantize, lora=LoraSpec(), seed=seed)
    steps = 2 * (pairs + 1)
    ours = SharedPrefixRollouts(seed)
    alternate = _alternate(ours, say)
    with tempfile.TemporaryDirectory(prefix="rlkit-bench-") as folder:
        trainer = GRPOTrainer(
            model=loaded.model,
            reward_funcs=[format_reward],
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=problems * group_size,
                num_generations=group_size,
                max_completion_length=max_new_tokens,
                max_steps=steps,
                learning_rate=1e-5,
                shuffle_dataset=False,
                gradient_checkpointing=False,
                bf16=False,
                use_cpu=loaded.device.type == "cpu",
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                seed=seed,
            ),
            train_dataset=domain_dataset([domain], steps=steps, problems_per_step=problems),
            processing_class=loaded.tokenizer,
            callbacks=[alternate],
        )
        keep_float32(loaded.model)
        trainer.remove_callback(PrinterCallback)  # the numbers are said here, and once
        alternate.trainer = trainer
        generating = _timed(trainer)
        trainer.train()
        rows = [row for row in trainer.state.log_history if "step_time" in row]
    mine, theirs = (
        _side(name, rows[start + 2 :: 2], generating[start + 2 :: 2], group_size * problems)
        for name, start in _ORDER
    )
    return Comparison(
        loaded.name,
        str(loaded.precision),
        str(ours),
        problems,
        group_size,
        max_new_tokens,
        mine,
        theirs,
        theirs.median_s / mine.median_s,
    )


#: Ours takes the steps 0, 2, 4, ..., TRL's own the others.
_ORDER = (("rlkit", 0), ("TRL", 1))


def _alternate(ours: Any, say: Callable[[str], None]) -> Any:
    """A callback that exchanges the trainer's generator before each step."""
    from transformers import TrainerCallback

    class Alternate(TrainerCallback):
        trainer: Any = None

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.trainer.rollout_func = ours if state.global_step % 2 == 0 else None

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
        ) -> None:
            if logs and "step_time" in logs:
                name = _ORDER[(state.global_step - 1) % 2][0]
                place = f"step {state.global_step} of {state.max_steps}"
                say(f"{place}, {name}: {logs['step_time']:.2f} s")

    return Alternate()


def _timed(trainer: Any) -> list[float]:
    """Seconds of each generation, by whichever generator; grows while the trainer runs."""
    seconds: list[float] = []
    inner = trainer._generate

    def generate(prompts: list) -> Any:
        begun = time.perf_counter()
        made = inner(prompts)
        seconds.append(time.perf_counter() - begun)
        return made

    trainer._generate = generate
    return seconds


def _side(name: str, rows: list[dict[str, Any]], generating: list[float], answers: int) -> Side:
    seconds = tuple(row["step_time"] for row in rows)
    tokens = statistics.fmean(row["completions/mean_length"] for row in rows) * answers
    return Side(
        name,
        seconds,
        statistics.median(seconds),
        min(seconds),
        max(seconds),
        statistics.median(generating),
        tokens,
    )
