"""The same frozen batch through TRL's real trainers and through ours.

A `Peer` is a real `GRPOTrainer` (or `RLOOTrainer`) on a small random model. Three of its
methods are replaced, those that would ask a model: what was generated, what it was paid,
and the log-probabilities. Everything from rewards to the scalar that is differentiated is
TRL's own code. `python tests/objectives/trl_parity.py` prints the table of differences, and
with `--write` puts it into docs/objectives.md.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rlkit.objectives import (
    CISPO,
    DAPO,
    GDPO,
    GRPO,
    GSPO,
    RLOO,
    SAPO,
    Band,
    DrGRPO,
    Objective,
    SequenceMask,
    Truncate,
    Window,
)

END, PAD = 2, 0
DOCS = Path(__file__).parents[2] / "docs" / "objectives.md"
MARKS = ("<!-- parity: begin -->", "<!-- parity: end -->")


@dataclass
class Batch:
    """B = 3 groups of G = 4 answers with two parts of a reward, all drawn once.

    Attributes:
        rewards_NK: parts of the rewards, NaN where one abstains.
        ids: the answers' tokens; those that do not end with `END` were cut.
        now_NT, behaviour_NT, proximal_NT, reference_NT: log-probabilities.
        entropy_NT: entropies.
    """

    rewards_NK: torch.Tensor
    ids: list[list[int]]
    now_NT: torch.Tensor
    proximal_NT: torch.Tensor
    behaviour_NT: torch.Tensor
    reference_NT: torch.Tensor
    entropy_NT: torch.Tensor
    group_size: int = 4

    @property
    def mask_NT(self) -> torch.Tensor:
        width = self.now_NT.shape[1]
        return torch.tensor([[t < len(row) for t in range(width)] for row in self.ids])

    @property
    def cut_N(self) -> torch.Tensor:
        return torch.tensor([row[-1] != END for row in self.ids])


def frozen_batch(seed: int = 0, distance: float = 0.3) -> Batch:
    """A batch whose ratios leave the clip range on both sides."""
    draw = torch.Generator().manual_seed(seed)
    rows, width = 12, 7

    def noise(scale: float) -> torch.Tensor:
        return scale * torch.randn(rows, width, generator=draw)

    lengths = torch.randint(1, width + 1, (rows,), generator=draw).tolist()
    lengths[3] = width
    ids = [[5 + t for t in range(n)] for n in lengths]
    for i, row in enumerate(ids):
        if i % 4:  # every fourth answer was cut by the budget
            row[-1] = END
    now = -1.5 - noise(1.0).abs()
    proximal = now + noise(distance)
    rewards = torch.rand(rows, 2, generator=draw).round(decimals=3)
    return Batch(
        rewards,
        ids,
        now,
        proximal,
        proximal + noise(0.2),
        now + noise(0.4),
        noise(1.0).abs() + 0.1,
    )


class Peer:
    """TRL's trainer, with the model's answers replaced by those of a batch."""

    def __init__(self, model: Path, folder: Path, kind: str = "grpo") -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

        config, trainer = {
            "grpo": (GRPOConfig, GRPOTrainer),
            "rloo": (RLOOConfig, RLOOTrainer),
        }[kind]
        self.trainer: Any = trainer(
            model=str(model),
            reward_funcs=[_silent, _silent_too],
            args=config(
                output_dir=str(folder),
                use_cpu=True,
                bf16=False,
                per_device_train_batch_size=12,
                num_generations=4,
                max_completion_length=16,
                report_to=[],
                beta=0.0,
                **({"num_iterations": 2} if kind == "grpo" else {}),
            ),
            train_dataset=Dataset.from_dict({"prompt": ["a"] * 12}),
        )
        self.trainer.model.train()
        self.trainer.current_gradient_accumulation_steps = 1
        self.trainer.ref_model = object()  # asked for by identity, never called
        self.kind = kind

    @contextmanager
    def _set(self, settings: dict[str, Any]) -> Iterator[None]:
        """Settings by name, on the trainer and on its arguments, for this block alone."""
        kept = []
        for name, value in settings.items():
            for owner in (self.trainer, self.trainer.args):
                if hasattr(owner, name):
                    kept.append((owner, name, getattr(owner, name)))
                    setattr(owner, name, value)
        assert {name for _, name, _ in kept} == set(settings), "TRL lacks a setting"
        try:
            yield
        finally:
            for owner, name, value in reversed(kept):
                setattr(owner, name, value)

    def run(self, batch: Batch, *, parts: int = 1, **settings: Any) -> Outcome:
        """Advantages, loss and its gradient, as TRL has them."""
        trainer = self.trainer
        now_NT, entropy_NT = _leaves(batch)
        place: dict[str, slice] = {"rows": slice(None)}

        def answers(prompts: Any) -> tuple[Any, ...]:
            spoken = [batch.behaviour_NT[i, : len(row)].tolist() for i, row in enumerate(batch.ids)]
            heard = ([[1]] * len(batch.ids), batch.ids)
            if self.kind == "rloo":
                return (*heard, ["x"] * len(batch.ids))
            return (*heard, None, ["x"] * len(batch.ids), spoken, {}, None, None)

        def logprobs(model: Any, *args: Any, **options: Any) -> tuple[Any, Any, None]:
            if model is trainer.ref_model:
                return batch.reference_NT, None, None
            if not torch.is_grad_enabled():
                return batch.proximal_NT, batch.entropy_NT, None
            rows = place["rows"]
            return now_NT[rows], entropy_NT[rows], None

        settings = {"reward_weights": torch.ones(2), **settings}
        overrides = {
            "_generate": answers,
            "_calculate_rewards": lambda *a, **k: batch.rewards_NK.clone(),
            "_get_per_token_logps_and_entropies": logprobs,
        }
        with self._set({**overrides, **settings}), self._accumulating(parts):
            whole = trainer._generate_and_score_completions([{"prompt": "a"}] * len(batch.ids))
            losses = []
            size = len(batch.ids) // parts
            for k in range(parts):
                rows = place["rows"] = slice(k * size, (k + 1) * size)
                part = {n: t[rows] if t.dim() else t for n, t in whole.items()}
                losses.append(trainer._compute_loss(trainer.model, part))
        loss = torch.stack(losses).sum()
        return Outcome(whole["advantages"], loss.detach(), _gradient(loss, now_NT, entropy_NT))

    @contextmanager
    def _accumulating(self, parts: int) -> Iterator[None]:
        trainer = self.trainer
        kept = trainer.args.steps_per_generation if self.kind == "grpo" else None
        trainer.current_gradient_accumulation_steps = parts
        if self.kind == "grpo":
            trainer.args.steps_per_generation = parts
            # Only where it is no multiple are the proximal log-probabilities computed.
            trainer.args.gradient_accumulation_steps = 1
        try:
            yield
        finally:
            trainer.current_gradient_accumulation_steps = 1
            if self.kind == "grpo":
                trainer.args.steps_per_generation = kept


@dataclass(frozen=True)
class Outcome:
    """What came of a batch; the gradient is by log-probabilities, then by entropies."""

    advantages_N: torch.Tensor
    loss: torch.Tensor
    gradient_NT: torch.Tensor

    def largest_difference(self, other: Outcome) -> float:
        """Over advantages, loss and gradient; one that is not finite is infinitely far."""
        gaps = [
            (self.advantages_N - other.advantages_N).abs().max(),
            (self.loss - other.loss).abs(),
            (self.gradient_NT - other.gradient_NT).abs().max(),
        ]
        gap = max(map(float, gaps))
        return gap if math.isfinite(gap) else math.inf


def ours(
    objective: Objective,
    batch: Batch,
    *,
    parts: int = 1,
    weights_K: torch.Tensor | None = None,
    advantages: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Outcome:
    """The same with ours; `advantages` of (B, G, K) takes the place of the objective's."""
    weights_K = torch.ones(batch.rewards_NK.shape[1]) if weights_K is None else weights_K
    parts_BGK = batch.rewards_NK.view(-1, batch.group_size, batch.rewards_NK.shape[1])
    if advantages is None:
        total_BG = (parts_BGK * weights_K).nansum(-1)
        total_BG[parts_BGK.isnan().all(-1)] = torch.nan
        divergence = torch.where(batch.mask_NT, batch.proximal_NT - batch.reference_NT, 0.0)
        divergence_BG = divergence.sum(-1).view(total_BG.shape)
        advantages_BG, _ = objective.advantages(total_BG, None, divergence_BG)
    else:
        advantages_BG = advantages(parts_BGK)
    advantages_N = advantages_BG.flatten()
    mask_NT = batch.mask_NT
    if objective.mask_truncated:
        mask_NT = mask_NT & ~batch.cut_N[:, None]
    now_NT, entropy_NT = _leaves(batch)
    chosen_NT = None
    if objective.needs_choice:
        chosen_NT = objective.choose(batch.now_NT, batch.entropy_NT, advantages_N, mask_NT)
    window = Window.of(mask_NT, 16, chosen_NT)
    size = len(batch.ids) // parts
    loss = torch.zeros(())
    for k in range(parts):
        rows = slice(k * size, (k + 1) * size)
        loss = (
            loss
            + objective.loss(
                now_NT[rows],
                (batch.proximal_NT if objective.off_policy is None else batch.behaviour_NT)[rows],
                advantages_N[rows],
                mask_NT[rows],
                window=window,
                reference_NT=batch.reference_NT[rows] if objective.beta else None,
                proximal_NT=batch.proximal_NT[rows],
                entropy_NT=entropy_NT[rows],
                chosen_NT=None if chosen_NT is None else chosen_NT[rows],
            ).loss
        )
    return Outcome(advantages_N, loss.detach(), _gradient(loss, now_NT, entropy_NT))


def _leaves(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.now_NT.clone().requires_grad_(), batch.entropy_NT.clone().requires_grad_()


def _gradient(loss: torch.Tensor, *leaves: torch.Tensor) -> torch.Tensor:
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    pairs = zip(leaves, found, strict=True)
    return torch.cat([torch.zeros_like(x) if g is None else g for x, g in pairs], dim=1)


@dataclass(frozen=True)
class Pair:
    """An objective of ours, and TRL's settings that mean the same."""

    name: str
    objective: Objective
    trl: dict[str, Any]
    parts: int = 1
    kind: str = "grpo"
    advantages: Callable[[torch.Tensor], torch.Tensor] | None = None
    weights: tuple[float, float] = (1.0, 1.0)
    abstains: bool = False

    def batch(self) -> Batch:
        batch = frozen_batch()
        if self.abstains:  # one part of row 1, and all of row 6
            batch.rewards_NK[1, 0] = torch.nan
            batch.rewards_NK[6] = torch.nan
        return batch

    def both(self, peers: dict[str, Peer]) -> tuple[Outcome, Outcome]:
        weights_K = torch.tensor(self.weights)
        settings = {**self.trl, "reward_weights": weights_K}
        theirs = peers[self.kind].run(self.batch(), parts=self.parts, **settings)
        mine = ours(
            self.objective,
            self.batch(),
            parts=self.parts,
            weights_K=weights_K,
            advantages=self.advantages,
        )
        return mine, theirs


def _grpo(loss_type: str = "dapo", **more: Any) -> dict[str, Any]:
    return {"loss_type": loss_type, "epsilon_low": 0.2, "epsilon_high": 0.2, **more}


def _vllm(mode: str, low: float | None = None, high: float | None = 3.0) -> dict[str, Any]:
    return _grpo(
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=low,
        vllm_importance_sampling_clip_max=high,
    )


def _gdpo(parts_BGK: torch.Tensor) -> torch.Tensor:
    return GDPO().advantages(
        parts_BGK.nansum(-1), parts_BGK=parts_BGK, weights_K=torch.tensor([1.0, 0.5])
    )[0]


_BONUS = {"entropy_coef": 0.01, "_entropy_bonus_enabled": True}
_GSPO = _grpo("grpo", epsilon_low=3e-4, epsilon_high=4e-4, importance_sampling_level="sequence")

#: Everything that both have, to be equal to 1e-5 in float32.
PAIRS = (
    Pair("GRPO, scale `group`", GRPO(), _grpo()),
    Pair("scale `batch`", GRPO(scale_rewards="batch"), _grpo(scale_rewards="batch")),
    Pair("scale `none`", GRPO(scale_rewards="none"), _grpo(scale_rewards="none")),
    Pair("weights of parts", GRPO(), _grpo(), weights=(0.3, 2.0)),
    Pair("abstentions", GRPO(), _grpo(), abstains=True),
    Pair(
        "GDPO (`normalize_then_sum`)",
        GRPO(),
        _grpo(multi_objective_aggregation="normalize_then_sum"),
        advantages=_gdpo,
        weights=(1.0, 0.5),
    ),
    Pair(
        "GDPO with abstentions",
        GRPO(),
        _grpo(multi_objective_aggregation="normalize_then_sum"),
        advantages=_gdpo,
        weights=(1.0, 0.5),
        abstains=True,
    ),
    Pair("`grpo`, sequence mean", GRPO(normaliser="sequence"), _grpo("grpo")),
    Pair("DAPO (`dapo`, clip-higher)", DAPO(), _grpo(epsilon_high=0.28)),
    Pair("Dr. GRPO (`dr_grpo`)", DrGRPO(), _grpo("dr_grpo", scale_rewards="none")),
    Pair("`bnpo`, whole batch", GRPO(), _grpo("bnpo")),
    Pair("CISPO (`cispo`)", CISPO(), _grpo("cispo", epsilon_high=5.0)),
    Pair("CISPO, cap 1.1", CISPO(ratio_cap=1.1), _grpo("cispo", epsilon_high=1.1)),
    Pair("SAPO (`sapo`)", SAPO(), _grpo("sapo")),
    Pair("GSPO (level `sequence`)", GSPO(), _GSPO),
    Pair("two-sided clip (`delta`)", GRPO(ratio_cap=1.5), _grpo(delta=1.5)),
    Pair(
        "k3 in the loss, plain",
        GRPO(beta=0.1, kl_weighted=False),
        _grpo(beta=0.1, use_bias_correction_kl=False),
    ),
    Pair("k3 in the loss, weighted", GRPO(beta=0.1), _grpo(beta=0.1, use_bias_correction_kl=True)),
    Pair(
        "GSPO, k3 weighted", GSPO(beta=0.1), {**_GSPO, "beta": 0.1, "use_bias_correction_kl": True}
    ),
    Pair("entropy bonus", GRPO(entropy_coef=0.01), _grpo(**_BONUS)),
    Pair("top 20 % by entropy", GRPO(top_entropy=0.2), _grpo(top_entropy_quantile=0.2)),
    Pair(
        "top 20 % and entropy bonus",
        GRPO(top_entropy=0.2, entropy_coef=0.01),
        _grpo(top_entropy_quantile=0.2, **_BONUS),
    ),
    Pair("truncated masked", GRPO(mask_truncated=True), _grpo(mask_truncated_completions=True)),
    Pair("three micro-batches, `dapo`", GRPO(), _grpo(), parts=3),
    Pair("three micro-batches, `grpo`", GRPO(normaliser="sequence"), _grpo("grpo"), parts=3),
    Pair(
        "three micro-batches, `dr_grpo`",
        DrGRPO(),
        _grpo("dr_grpo", scale_rewards="none"),
        parts=3,
    ),
    Pair("three micro-batches, `cispo`", CISPO(), _grpo("cispo", epsilon_high=5.0), parts=3),
    Pair(
        "truncated masked, three micro-batches",
        GRPO(mask_truncated=True, beta=0.1),
        _grpo(mask_truncated_completions=True, beta=0.1, use_bias_correction_kl=True),
        parts=3,
    ),
    Pair("TIS, token", GRPO(off_policy=Truncate(1.2)), _vllm("token_truncate", None, 1.2)),
    Pair(
        "TIS, sequence",
        GRPO(off_policy=Truncate(1.2, "sequence")),
        _vllm("sequence_truncate", None, 1.2),
    ),
    Pair("IcePop band", GRPO(off_policy=Band(0.8, 1.2)), _vllm("token_mask", 0.8, 1.2)),
    Pair(
        "sequence mask",
        GRPO(off_policy=SequenceMask(0.8, 1.2)),
        _vllm("sequence_mask", 0.8, 1.2),
    ),
    Pair("RLOO", RLOO(), {"epsilon_low": 0.2, "epsilon_high": 0.2}, kind="rloo"),
    Pair("RLOO, abstentions", RLOO(), {}, kind="rloo", abstains=True),
    Pair("RLOO, k1 in the reward", RLOO(beta=0.1), {"beta": 0.1}, kind="rloo"),
)


def parity_table(peers: dict[str, Peer]) -> str:
    """The largest difference to TRL of each pair, as a table in Markdown."""
    lines = ["| objective | advantages | loss | gradient |", "|---|---:|---:|---:|"]
    for pair in PAIRS:
        mine, theirs = pair.both(peers)
        gaps = (
            (mine.advantages_N - theirs.advantages_N).abs().max(),
            (mine.loss - theirs.loss).abs(),
            (mine.gradient_NT - theirs.gradient_NT).abs().max(),
        )
        lines.append(f"| {pair.name} | " + " | ".join(f"{float(g):.0e}" for g in gaps) + " |")
    return "\n".join(lines)


def make_peers(model: Path, folder: Path) -> dict[str, Peer]:
    """One of each kind."""
    return {kind: Peer(model, folder / kind, kind) for kind in ("grpo", "rloo")}


def _silent(completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def _silent_too(completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def _main() -> None:
    parser = argparse.ArgumentParser(description="The table of differences to TRL.")
    parser.add_argument("--write", action="store_true", help="put it into docs/objectives.md")
    write = parser.parse_args().write
    from rlkit.policy.pretrain import PretrainConfig, new_model, new_tokenizer

    sizes = {"hidden_size": 64, "intermediate_size": 128, "layers": 2, "context": 128}
    config = PretrainConfig(**sizes, heads=2, key_value_heads=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = new_tokenizer(config, examples=500)
        new_model(config, tokenizer).save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        table = parity_table(make_peers(folder / "model", folder))
    print(table)
    if write:
        before, rest = DOCS.read_text("utf-8").split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        DOCS.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", "utf-8")


if __name__ == "__main__":
    _main()
