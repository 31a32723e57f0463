"""train_reward_model: a reward model from pairs of a better and a worse answer.

The loss is that of Bradley and Terry (1952): the log-probability that the better answer
beats the worse one is the logistic function of the difference of their outputs. The loop
is TRL's `RewardTrainer`; the tokens are ours, so that training and scoring agree.

Left out on purpose: margins, adapters and quantisation. Pairs that are too long are left
out and counted, never cut.

Axes: none; a batch holds N better and N worse answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rlkit.errors import UserError


@dataclass(frozen=True)
class Preference:
    """One pair: for this prompt, `chosen` is better than `rejected`.

    Attributes:
        prompt: the question, as text or chat messages.
        chosen, rejected: the answers, as text or chat messages.
    """

    prompt: Any
    chosen: Any
    rejected: Any


@dataclass(frozen=True)
class RewardModelReport:
    """What came of training a reward model.

    Attributes:
        folder: where it lies; give it to `learned_reward`.
        pairs: pairs that it was trained on; `held_out`: that it was measured on.
        left_out: pairs that were longer than the model may read.
        accuracy: share of the held-out pairs that it orders rightly, ties as half;
            `None` when there were none.
        losses: the training loss, in nats a pair, as it was logged.
        mean, std: of its raw outputs on the answers it was calibrated on.
        steps: updates.
    """

    folder: str
    pairs: int
    held_out: int
    left_out: int
    accuracy: float | None
    losses: tuple[float, ...]
    mean: float
    std: float
    steps: int

    def __str__(self) -> str:
        right = "unknown" if self.accuracy is None else f"{self.accuracy:.1%}"
        return (
            f"Reward model in {self.folder}: {self.pairs} pairs, {self.steps} steps, loss "
            f"{self.losses[0]:.3f} to {self.losses[-1]:.3f}; orders {right} of {self.held_out} "
            f"held-out pairs rightly; {self.left_out} pairs were too long and left out"
        )


def train_reward_model(
    pairs: Sequence[Preference | Mapping[str, Any]],
    base: str | Path,
    out: str | Path,
    *,
    steps: int = 200,
    seed: int = 0,
    batch_size: int = 16,
    learning_rate: float = 1e-4,
    max_length: int | None = None,
    held_out: float = 0.1,
    center: float | None = 0.01,
) -> RewardModelReport:
    """Trains a reward model from preferences with TRL, and saves it for `learned_reward`.

    Args:
        pairs: `Preference`s, or mappings with `prompt`, `chosen` and `rejected`.
        base: a folder or hub id of the language model to start from.
        out: folder for the reward model; it must not exist or be empty.
        steps: updates.
        seed: decides the new head, the order and the held-out pairs.
        batch_size: pairs an update.
        learning_rate: of AdamW, falling linearly to 0.
        max_length: longest question and answer, in tokens; the model's context at most.
        held_out: share of the prompts that are kept to measure; all pairs of a prompt are
            on the same side.
        center: weight of the term that keeps outputs near 0 (Eisenstein et al. 2023).

    Raises:
        UserError: pairs that are none, a folder with something in it, a base that cannot
            be loaded, no TRL, or a number out of range.
    """
    given = [_preference(pair, i) for i, pair in enumerate(pairs)]
    _check(given, steps, batch_size, learning_rate, held_out)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not empty; choose another folder")
    try:
        import datasets
        import torch
        import trl
        from transformers import AutoTokenizer
    except ImportError as error:
        raise UserError(
            f"a reward model is trained with TRL, and {error.name} is missing; "
            "pip install 'rlkit[scale]'"
        ) from error
    from rlkit.rewards.learned import encode

    with _own_randomness(seed), _scratch_beside(out) as scratch:
        model = _classifier(base)
        tokenizer = AutoTokenizer.from_pretrained(str(base))
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        longest = min(n for n in (max_length, room, 1 << 20) if n is not None)
        rows = [
            {
                "chosen_ids": encode(tokenizer, pair.prompt, pair.chosen),
                "rejected_ids": encode(tokenizer, pair.prompt, pair.rejected),
            }
            for pair in given
        ]
        fitting = [max(map(len, row.values())) <= longest for row in rows]
        kept = [(pair, row) for pair, row, fits in zip(given, rows, fitting, strict=True) if fits]
        measured = _held_out_prompts([pair for pair, _ in kept], held_out, seed)
        train = [row for pair, row in kept if _prompt_key(pair) not in measured]
        test = [pair for pair, _ in kept if _prompt_key(pair) in measured]
        if not train:
            raise UserError(
                f"none of the {len(given)} pairs is left to train on: {fitting.count(False)} are "
                f"longer than {longest} tokens and {len(test)} are held out"
            )
        gpu = torch.cuda.is_available()
        # TRL recomputes activations unless told not to; the option has a new name since 5.x.
        names = {f.name for f in fields(trl.RewardConfig)}
        recompute = "activation_checkpointing"
        recompute = recompute if recompute in names else "gradient_checkpointing"
        config = trl.RewardConfig(
            output_dir=str(scratch / "trainer"),
            max_steps=steps,
            per_device_train_batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            data_seed=seed,
            bf16=gpu,
            use_cpu=not gpu,
            **{recompute: False},
            dataloader_pin_memory=gpu,
            max_length=None,  # what is too long was left out and counted above
            center_rewards_coefficient=center,
            logging_steps=max(1, steps // 10),
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = trl.RewardTrainer(
            model=model,
            args=config,
            train_dataset=datasets.Dataset.from_list(train),
            processing_class=tokenizer,
        )
        with _silent(trainer):
            trainer.train()
        losses = tuple(log["loss"] for log in trainer.state.log_history if "loss" in log)
        report = _save(
            trainer.model, tokenizer, scratch / "model", kept, test, longest,
            {"pairs": len(train), "left_out": fitting.count(False), "losses": losses,
             "steps": steps, "folder": str(out)},
        )  # fmt: skip
        if out.exists():
            out.rmdir()
        os.replace(scratch / "model", out)
    return report


def _save(
    model: Any,
    tokenizer: Any,
    folder: Path,
    kept: Sequence[tuple[Preference, Any]],
    test: Sequence[Preference],
    longest: int,
    facts: dict[str, Any],
) -> RewardModelReport:
    """Measures the model, and writes it with what was found."""
    from rlkit.rewards.learned import LearnedReward, calibration_of, write_facts

    folder.mkdir()
    model.float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    reward = LearnedReward(model, tokenizer, calibration=None, max_length=longest)
    accuracy = None
    if test:
        prompts = [pair.prompt for pair in test]
        better = reward.raw([pair.chosen for pair in test], prompts)
        worse = reward.raw([pair.rejected for pair in test], prompts)
        points = [(b > w) + 0.5 * (b == w) for b, w in zip(better, worse, strict=True)]
        accuracy = math.fsum(points) / len(points)
    measured = test if len(test) > 1 else [pair for pair, _ in kept]
    answers = [answer for pair in measured for answer in (pair.chosen, pair.rejected)]
    raw = reward.raw(answers, [pair.prompt for pair in measured for _ in range(2)])
    calibration = calibration_of(raw)
    report = RewardModelReport(
        held_out=len(test),
        accuracy=accuracy,
        mean=calibration.mean,
        std=calibration.std,
        **facts,
    )
    told = {key: value for key, value in asdict(report).items() if key != "folder"}
    write_facts(folder, calibration, max_length=longest, **told)
    return report


def _classifier(base: str | Path) -> Any:
    """The language model with a new head of one output, without its warning that it is new."""
    import torch
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        return AutoModelForSequenceClassification.from_pretrained(
            str(base), num_labels=1, dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        raise UserError(f"the base model {str(base)!r} cannot be loaded: {error}"[:500]) from error
    finally:
        logging.set_verbosity(before)


def _preference(pair: Any, number: int) -> Preference:
    if isinstance(pair, Preference):
        return pair
    if isinstance(pair, Mapping):
        missing = [name for name in ("prompt", "chosen", "rejected") if pair.get(name) is None]
        if not missing:
            return Preference(pair["prompt"], pair["chosen"], pair["rejected"])
        raise UserError(f"pair {number} has no {missing[0]!r}; it needs prompt, chosen, rejected")
    raise UserError(f"pair {number} is a Preference or a mapping, not {type(pair).__name__}")


def _check(
    pairs: Sequence[Preference], steps: int, batch_size: int, rate: float, held_out: float
) -> None:
    if len(pairs) < 2:
        raise UserError(f"a reward model needs at least two pairs, not {len(pairs)}")
    for what, value in (("steps", steps), ("batch_size", batch_size)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"{what} is a whole number from 1 up, not {value!r}")
    if not isinstance(rate, float) or not 0 < rate < 1:
        raise UserError(f"learning_rate is a number between 0 and 1, not {rate!r}")
    if not isinstance(held_out, (int, float)) or not 0 <= held_out < 1:
        raise UserError(f"held_out is a share from 0 to below 1, not {held_out!r}")
    same = next((i for i, pair in enumerate(pairs) if pair.chosen == pair.rejected), None)
    if same is not None:
        raise UserError(f"pair {same} prefers an answer to itself; leave it out")


def _prompt_key(pair: Preference) -> str:
    return hashlib.sha256(repr(pair.prompt).encode("utf-8", "surrogatepass")).hexdigest()


def _held_out_prompts(pairs: Sequence[Preference], share: float, seed: int) -> set[str]:
    """The prompts to measure on, drawn by their content, so that no prompt is on both sides."""
    keys = sorted({_prompt_key(pair) for pair in pairs})
    random.Random(f"held out/{seed}").shuffle(keys)
    count = min(len(keys) - 1, max(1, round(share * len(keys)))) if share and keys else 0
    return set(keys[:count])


@contextlib.contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Random numbers of its own: those of the caller go on as if nothing had been drawn."""
    import numpy as np
    import torch

    plain, arrays = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)


@contextlib.contextmanager
def _scratch_beside(out: Path) -> Iterator[Path]:
    """A folder on the same disk, so that the finished model is moved into place as a whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".rlkit-reward-", dir=out.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _silent(trainer: Any) -> Iterator[None]:
    """Without the trainer's printed logs; they are in the report."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    yield
