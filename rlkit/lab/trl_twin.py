"""trl_twin: the same frozen batch through TRL's own `GRPOTrainer`, to compare numbers with.

The trainer is real, on a model of a few hundred weights that is never asked. Three of its
methods are replaced: what was generated, what it was paid, and the log-probabilities, all of
which come from the batch. Everything from rewards to the loss that is differentiated is
TRL's own code. Those methods are private to TRL, so `tests/lab/test_trl_twin.py` fails
loudly when one of them goes.

Left out on purpose: everything beside GRPO; `tests/objectives/trl_parity.py` has more.

Axes: B problems, G answers a problem, N = B x G, T completion tokens.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rlkit.errors import UserError


@dataclass(frozen=True)
class Twin:
    """What TRL makes of a batch.

    Attributes:
        advantages_N: one for each answer.
        loss: a number.
        gradient_NT: of the loss, by each log-probability.
    """

    advantages_N: torch.Tensor
    loss: float
    gradient_NT: torch.Tensor


def trl_twin(
    rewards_BG: torch.Tensor,
    ids: Sequence[Sequence[int]],
    now_NT: torch.Tensor,
    old_NT: torch.Tensor,
    tokenizer: Any,
    *,
    loss_type: str = "dapo",
    scale_rewards: str = "group",
    epsilon: float = 0.2,
) -> Twin:
    """Advantages, loss and gradient of a batch, by TRL.

    Args:
        rewards_BG: a reward for each answer.
        ids: the N answers' tokens, without padding.
        now_NT: log-probabilities now, padded on the right.
        old_NT: log-probabilities when the answers were drawn.
        tokenizer: whose end and padding tokens count.
        loss_type, scale_rewards, epsilon: of `GRPOConfig`.

    Raises:
        UserError: TRL is not installed, or shapes that do not agree.
    """
    count = rewards_BG.numel()
    if len(ids) != count or now_NT.shape != old_NT.shape or len(now_NT) != count:
        raise UserError(
            f"{count} rewards, {len(ids)} answers, log-probabilities of shape "
            f"{tuple(now_NT.shape)} and {tuple(old_NT.shape)}: give one row for each answer"
        )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # About settings that TRL and transformers have between themselves.
        warnings.simplefilter("ignore")
        trainer = _trainer(rewards_BG.shape, tokenizer, folder, loss_type, scale_rewards, epsilon)
        leaf_NT = now_NT.detach().clone().requires_grad_()
        _replace_what_asks_a_model(trainer, rewards_BG, ids, leaf_NT, old_NT.detach())
        batch = trainer._generate_and_score_completions([{"prompt": "a"}] * count)
        loss = trainer._compute_loss(trainer.model, batch)
        (gradient_NT,) = torch.autograd.grad(loss, [leaf_NT])
    return Twin(batch["advantages"].detach(), float(loss.detach()), gradient_NT)


def _trainer(
    shape: torch.Size,
    tokenizer: Any,
    folder: str,
    loss_type: str,
    scale_rewards: str,
    epsilon: float,
) -> Any:
    try:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer
    except ImportError as error:
        raise UserError(f"TRL is not installed here ({error}); `pip install trl`") from None
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, group_size = int(shape.numel()), int(shape[1])
    small = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    trainer = GRPOTrainer(
        model=LlamaForCausalLM(small),
        processing_class=tokenizer,
        reward_funcs=[_unasked],
        args=GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            report_to=[],
            per_device_train_batch_size=rows,
            num_generations=group_size,
            num_iterations=2,  # so that the ratio is one of now to then
            beta=0.0,
            epsilon=epsilon,
            loss_type=loss_type,
            scale_rewards=scale_rewards,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["a"] * rows}),
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    # Only where it is no multiple are the old log-probabilities asked for.
    trainer.args.steps_per_generation = trainer.args.gradient_accumulation_steps = 1
    return trainer


def _replace_what_asks_a_model(
    trainer: Any,
    rewards_BG: torch.Tensor,
    ids: Sequence[Sequence[int]],
    now_NT: torch.Tensor,
    old_NT: torch.Tensor,
) -> None:
    known = [list(row) for row in ids]
    spoken = [old_NT[i, : len(row)].tolist() for i, row in enumerate(known)]
    replacements = {
        "_generate": lambda prompts: (
            [[1]] * len(known), known, None, ["x"] * len(known), spoken, {}, None, None
        ),
        "_calculate_rewards": lambda *a, **k: rewards_BG.flatten()[:, None].float(),
        "_get_per_token_logps_and_entropies": lambda *a, **k: (
            now_NT if torch.is_grad_enabled() else old_NT,
            torch.zeros_like(old_NT),
            None,
        ),
    }  # fmt: skip
    for name, replacement in replacements.items():
        if not hasattr(trainer, name):
            raise RuntimeError(f"DRIFT DETECTED: this TRL's GRPOTrainer has no {name}")
        setattr(trainer, name, replacement)


def _unasked(completions: Any, **columns: Any) -> list[float]:
    raise AssertionError("the rewards of the batch stand in for this")
