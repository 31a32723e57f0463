"""Objective: one skeleton for every algorithm, so that two of them differ in a few fields.

    rewards -> baseline -> advantage -> ratio -> surrogate (clip) -> weight -> normaliser
                                              + divergence and entropy terms -> loss

Each stage is a pure function in a module of its own; this one only joins them. A preset
(`rlkit.objectives.presets`) is a set of defaults, and `difference` lists what sets two
apart.

What changes from step to step (a running baseline, an adapted beta or entropy
coefficient) is not kept here but in an `ObjectiveState`, which a loop stores.

Left out: refilling of groups without contrast (a loop's business, `LoopConfig.max_refills`),
and the soft overlong penalty (a reward, `rlkit.rewards.SoftOverlong`).

Axes: B problems, G rollouts a problem, N rollouts, T completion tokens.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.objectives import advantages as adv
from rlkit.objectives.divergence import divergence, k3, next_beta
from rlkit.objectives.entropy import high_entropy_mask, next_entropy_coefficient
from rlkit.objectives.normalisers import Window, normalise
from rlkit.objectives.off_policy import mismatch_kl
from rlkit.objectives.ratios import log_ratios, ratios
from rlkit.objectives.returns import gae, last_token_rewards, token_returns, whiten
from rlkit.objectives.settings import Settings
from rlkit.objectives.surrogates import (
    cispo,
    clipped,
    kl_cov,
    ppo_clip,
    sapo,
    score_function,
    top_covariance,
)


@dataclass(frozen=True)
class TokenLoss:
    """The loss of some rollouts, and what happened on the way.

    Attributes:
        loss: scalar with gradient: the share of these rollouts in the window's loss.
        sums: plain sums over these tokens (`clipped`, `kl`, `nonfinite_ratio`, ...), so
            that micro-batches add up exactly.
        max_ratio_error: largest |ratio of a token - 1| among these tokens.
    """

    loss: torch.Tensor
    sums: dict[str, float]
    max_ratio_error: float


@dataclass(frozen=True)
class ObjectiveState:
    """What an objective carries from one step to the next; plain numbers.

    Attributes:
        baseline: running mean of the rewards, `None` before there was one.
        beta: weight of the divergence.
        entropy_coef: weight of the entropy bonus.
        entropy: entropy of the step before, `None` before there was one.
    """

    baseline: float | None = None
    beta: float = 0.0
    entropy_coef: float = 0.0
    entropy: float | None = None

    def state_dict(self) -> dict[str, float | None]:
        return asdict(self)

    @classmethod
    def from_state_dict(cls, values: dict[str, float | None]) -> ObjectiveState:
        return cls(**values)


@dataclass(frozen=True)
class Objective(Settings):
    """How rewards become a gradient. Use a preset, and change a field at a time.

    Its fields are those of `Settings`; the defaults are GRPO's.

    >>> from rlkit.objectives import GRPO
    >>> advantages_BG, alive_B = GRPO().advantages(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    >>> alive_B
    tensor([ True, False])
    """

    def start(self) -> ObjectiveState:
        """The state before the first step."""
        return ObjectiveState(beta=self.beta, entropy_coef=self.entropy_coef)

    def next_state(
        self,
        state: ObjectiveState,
        rewards_BG: torch.Tensor,
        kl: float | None = None,
        entropy: float | None = None,
    ) -> ObjectiveState:
        """The state after a step, from what was measured in it."""
        if self.baseline == "running":
            baseline = adv.next_baseline(state.baseline, rewards_BG, self.decay)
            state = replace(state, baseline=baseline)
        if self.kl_target is not None and kl is not None:
            count = rewards_BG.numel()
            beta = next_beta(state.beta, kl, self.kl_target, count, self.kl_horizon)
            state = replace(state, beta=beta)
        if entropy is not None:
            state = replace(state, entropy=entropy)
            if self.entropy_target is not None:
                coefficient = next_entropy_coefficient(
                    state.entropy_coef,
                    entropy,
                    self.entropy_target,
                    self.entropy_step,
                    0.0,
                    self.entropy_coef_max,
                )
                state = replace(state, entropy_coef=coefficient)
        return state

    # -- rewards to advantages ------------------------------------------------------------

    def advantages(
        self,
        rewards_BG: torch.Tensor,
        state: ObjectiveState | None = None,
        divergence_BG: torch.Tensor | None = None,
        parts_BGK: torch.Tensor | None = None,
        weights_K: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One advantage an answer, of shape (B, G), and which groups carry a signal.

        Args:
            rewards_BG: rewards, NaN where there is no verdict.
            state: for a running baseline and an adapted beta.
            divergence_BG: k1 summed over each answer, for a divergence in the reward.
            parts_BGK: the reward's K parts, unweighted, NaN where one abstains; needed
                where `parts` is `normalise`, unused elsewhere.
            weights_K: the weight of each part, 1 when not given.

        Returns:
            advantages_BG in float32, and alive_B.

        Raises:
            UserError: parts are to be normalised and none are given.
        """
        state = self.start() if state is None else state
        if self.parts == "normalise":
            if parts_BGK is None:
                raise UserError("parts='normalise' needs parts_BGK, the reward's parts")
            return adv.gdpo_advantages(parts_BGK, weights_K, self.eps)
        rewards_BG = rewards_BG.double()
        if self.kl_in == "reward" and self.returns == "sequence" and divergence_BG is not None:
            rewards_BG = rewards_BG - state.beta * divergence_BG.double()
        if self.needs_group:
            scale = "none" if self.scale_rewards == "whiten" else self.scale_rewards
            return adv.group_advantages(
                rewards_BG, baseline=self.baseline, scale=scale, eps=self.eps
            )
        baseline = state.baseline if self.baseline == "running" else 0.0
        advantages_BG, alive_B = adv.running_advantages(rewards_BG, baseline)
        if self.scale_rewards == "batch":
            known = rewards_BG[torch.isfinite(rewards_BG)]
            spread = float(known.std()) if known.numel() > 1 else 0.0
            advantages_BG = advantages_BG / (spread + self.eps)
        return advantages_BG, alive_B

    def token_advantages(
        self,
        advantages_N: torch.Tensor,
        mask_NT: torch.Tensor,
        *,
        known_N: torch.Tensor | None = None,
        divergence_NT: torch.Tensor | None = None,
        values_NT: torch.Tensor | None = None,
        turns_NT: torch.Tensor | None = None,
        state: ObjectiveState | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Advantages token by token, for objectives whose `token_level` is true.

        Args:
            advantages_N: from `advantages`, for the whole batch: whitening runs over all.
            mask_NT: true where a token takes part.
            known_N: true where there is a verdict; other rows get 0.
            divergence_NT: k1 of each token, for a divergence in the reward.
            values_NT: the value before each token, for a value baseline.
            turns_NT: number of the turn of each token, see `gae`.
            state: for an adapted beta.

        Returns:
            advantages_NT, and returns_NT for the value head or `None`.

        Raises:
            UserError: a value baseline without values.
        """
        state = self.start() if state is None else state
        mask_NT = mask_NT.bool()
        if known_N is not None:
            mask_NT = mask_NT & known_N[:, None]
        penalty = state.beta if self.kl_in == "reward" and divergence_NT is not None else 0.0
        returns_NT = None
        if self.needs_value:
            if values_NT is None:
                raise UserError("baseline='value' needs values_NT, from a value head")
            step_NT = last_token_rewards(advantages_N, mask_NT)
            if penalty:
                step_NT = step_NT - penalty * torch.where(mask_NT, divergence_NT, 0.0)
            token_NT, returns_NT = gae(step_NT, values_NT, mask_NT, self.gamma, self.lam, turns_NT)
        elif self.returns == "token":
            token_NT = token_returns(advantages_N, mask_NT, divergence_NT, penalty)
        else:
            token_NT = torch.where(mask_NT, advantages_N[:, None], 0.0)
        if self.scale_rewards == "whiten":
            token_NT = whiten(token_NT, mask_NT, self.eps)
        return token_NT, returns_NT

    # -- advantages to a loss -------------------------------------------------------------

    def choose(
        self,
        logprobs_NT: torch.Tensor,
        entropy_NT: torch.Tensor,
        advantages: torch.Tensor,
        mask_NT: torch.Tensor,
    ) -> torch.Tensor:
        """Picks tokens by looking at the whole window; only where `needs_choice`.

        Returns:
            chosen_NT: tokens with the highest entropy, or with the highest covariance.
        """
        if self.surrogate == "kl_cov":
            advantages = advantages if advantages.dim() == 2 else advantages[:, None]
            return top_covariance(logprobs_NT, advantages, mask_NT, self.cov_fraction)
        return high_entropy_mask(entropy_NT, mask_NT, self.top_entropy)

    def loss(
        self,
        logprobs_NT: torch.Tensor,
        behaviour_NT: torch.Tensor,
        advantages: torch.Tensor,
        mask_NT: torch.Tensor,
        *,
        window: Window | None = None,
        reference_NT: torch.Tensor | None = None,
        proximal_NT: torch.Tensor | None = None,
        entropy_NT: torch.Tensor | None = None,
        chosen_NT: torch.Tensor | None = None,
        state: ObjectiveState | None = None,
    ) -> TokenLoss:
        """The loss of these rollouts, as their share in the loss of the window.

        Args:
            logprobs_NT: log-probabilities now, with gradient.
            behaviour_NT: log-probabilities when the tokens were drawn.
            advantages: of shape (N,), for all tokens of an answer, or (N, T).
            mask_NT: true where a token takes part.
            window: denominators of the whole update; of these rows when not given.
            reference_NT: the reference's log-probabilities; needed when beta is not 0.
            proximal_NT: log-probabilities when the update began; needed for `off_policy`.
            entropy_NT: entropies with gradient; needed for an entropy bonus.
            chosen_NT: from `choose`, for the whole window; needed where `needs_choice`.
            state: for an adapted beta or entropy coefficient.

        Raises:
            UserError: something that is needed is missing.
        """
        state = self.start() if state is None else state
        mask_NT = mask_NT.bool()
        window = Window.of(mask_NT, chosen_NT=chosen_NT) if window is None else window
        self._check_inputs(reference_NT, proximal_NT, entropy_NT, chosen_NT)
        advantage = advantages if advantages.dim() == 2 else advantages[:, None]
        old_NT = behaviour_NT if self.off_policy is None else proximal_NT
        log_ratio_NT, unknown_NT = log_ratios(logprobs_NT, old_NT)
        ratio = ratios(log_ratio_NT, mask_NT, self.ratio)
        sums: dict[str, float] = {"tokens": float(mask_NT.sum())}

        loss_NT, acting = self._surrogate(logprobs_NT, log_ratio_NT, ratio, advantage, chosen_NT)
        sums["clipped"] = float((acting & mask_NT).sum())
        if self.off_policy is not None:
            log_weight_NT, unknown_NT = log_ratios(proximal_NT, behaviour_NT)
            weight = self.off_policy.weights(log_weight_NT, mask_NT)
            loss_NT = loss_NT * weight
            sums.update(_weight_sums(weight, log_weight_NT, mask_NT))
        sums["nonfinite_ratio"] = float((unknown_NT & mask_NT).sum())
        if self.top_entropy < 1:
            loss_NT = torch.where(chosen_NT, loss_NT, 0.0)
        if reference_NT is not None:
            shown_NT = k3(logprobs_NT.detach(), reference_NT)
            sums["kl"] = float(torch.where(mask_NT, shown_NT, 0.0).sum())
            if self.kl_in == "loss" and state.beta:
                pull_NT = divergence(self.kl_estimator, logprobs_NT, reference_NT)
                if self.kl_weighted:
                    pull_NT = pull_NT * ratio
                loss_NT = loss_NT + state.beta * pull_NT
        loss = normalise(loss_NT.expand_as(logprobs_NT), mask_NT, self.normaliser, window)
        bonus = self._bonus(state)
        if bonus:
            loss = loss - bonus * self._mean_entropy(entropy_NT, mask_NT, chosen_NT, window)
        error_NT = torch.where(mask_NT, log_ratio_NT.detach().expm1(), 0.0).abs()
        return TokenLoss(loss, sums, float(error_NT.max()) if error_NT.numel() else 0.0)

    def _surrogate(
        self,
        logprobs_NT: torch.Tensor,
        log_ratio_NT: torch.Tensor,
        ratio: torch.Tensor,
        advantage: torch.Tensor,
        chosen_NT: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of each token, and where the clip (or the cap) acts."""
        none = torch.zeros_like(logprobs_NT, dtype=torch.bool)
        if self.surrogate == "clip":
            low = self.epsilon
            high = low if self.epsilon_high is None else self.epsilon_high
            bounds = {"dual": self.dual_clip, "cap": self.ratio_cap}
            loss = ppo_clip(ratio, advantage, low, high, **bounds)
            acting = clipped(ratio.detach(), advantage, low, high, **bounds)
            return loss, acting.expand_as(none)
        if self.surrogate == "cispo":
            acting = (ratio > self.ratio_cap) & (advantage != 0)
            return cispo(logprobs_NT, ratio, advantage, self.ratio_cap), acting.expand_as(none)
        if self.surrogate == "sapo":
            return sapo(ratio, advantage, self.tau_positive, self.tau_negative), none
        if self.surrogate == "kl_cov":
            return kl_cov(log_ratio_NT, advantage, chosen_NT, self.cov_coef), none
        return score_function(logprobs_NT, advantage), none

    def _bonus(self, state: ObjectiveState) -> float:
        """The entropy coefficient in force: with a target, only at or below it."""
        if self.entropy_target is None:
            return state.entropy_coef
        known = state.entropy is not None and state.entropy <= self.entropy_target
        return state.entropy_coef if known else 0.0

    def _mean_entropy(
        self,
        entropy_NT: torch.Tensor,
        mask_NT: torch.Tensor,
        chosen_NT: torch.Tensor | None,
        window: Window,
    ) -> torch.Tensor:
        if self.top_entropy < 1:
            kept_NT, count = mask_NT & chosen_NT, window.chosen
        else:
            kept_NT, count = mask_NT, window.tokens
        return torch.where(kept_NT, entropy_NT, 0.0).sum() / max(1, count or 0)

    def _check_inputs(
        self,
        reference_NT: torch.Tensor | None,
        proximal_NT: torch.Tensor | None,
        entropy_NT: torch.Tensor | None,
        chosen_NT: torch.Tensor | None,
    ) -> None:
        if self.beta and self.kl_in == "loss" and reference_NT is None:
            raise UserError("beta is not 0, so reference_NT is needed")
        if self.off_policy is not None and proximal_NT is None:
            raise UserError("off_policy is set, so proximal_NT is needed")
        if (self.entropy_coef or self.entropy_target is not None) and entropy_NT is None:
            raise UserError("there is an entropy bonus, so entropy_NT is needed")
        if self.needs_choice and chosen_NT is None:
            raise UserError("tokens are picked over the whole window, so chosen_NT is needed")

    # -- what it is -----------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What a run's `config.json` keeps of the objective: plain values only."""
        values = asdict(self)
        if self.off_policy is not None:
            values["off_policy"] = {
                "name": type(self.off_policy).__name__,
                **asdict(self.off_policy),
            }
        return {"name": type(self).__name__, **values}

    def difference(self, other: Objective) -> dict[str, tuple[Any, Any]]:
        """The fields in which two objectives differ: here, there.

        >>> from rlkit.objectives import GRPO, DrGRPO
        >>> GRPO().difference(DrGRPO())  # doctest: +NORMALIZE_WHITESPACE
        {'scale_rewards': ('group', 'none'), 'normaliser': ('token', 'constant')}
        """
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(Objective)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _weight_sums(
    weight: torch.Tensor, log_weight_NT: torch.Tensor, mask_NT: torch.Tensor
) -> dict[str, float]:
    """Sums from which effective sample size and mismatch are made."""
    weight_NT = torch.where(mask_NT, weight.expand_as(log_weight_NT), 0.0).double()
    mismatch_NT = torch.where(mask_NT, mismatch_kl(log_weight_NT), 0.0)
    return {
        "weight": float(weight_NT.sum()),
        "weight_squared": float(weight_NT.square().sum()),
        "weight_zero": float(((weight_NT == 0) & mask_NT).sum()),
        "mismatch_kl": float(mismatch_NT.sum()),
    }
