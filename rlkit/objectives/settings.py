"""Settings: every choice that an objective makes, checked when it is made.

Kept apart from `Objective`, which acts on them, so that a preset can be read as a list
of choices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlkit.errors import UserError
from rlkit.objectives.advantages import BASELINES, SCALES
from rlkit.objectives.divergence import ESTIMATORS
from rlkit.objectives.normalisers import NORMALISERS
from rlkit.objectives.off_policy import Correction
from rlkit.objectives.ratios import LEVELS
from rlkit.objectives.surrogates import SURROGATES

#: What the group normalisation acts on: the reward, or each of its parts.
PARTS = ("sum", "normalise")
#: What a value head reads.
TRUNKS = ("detached", "shared", "own_lora")


@dataclass(frozen=True)
class Settings:
    """Every choice of an objective, and what follows from it.

    Attributes:
        baseline: what an answer is compared with: `group` mean, `leave_one_out` mean,
            `running` mean, `none`, or a learned `value`.
        parts: `sum`, the reward as it is, or `normalise`, each of its parts over the group
            before they are summed (GDPO).
        scale_rewards: what advantages are divided by: deviation of the `group` or of the
            `batch`, the group's `mean`, `none`, or `whiten` over all tokens.
        eps: added to what is divided by.
        returns: `sequence`, one advantage an answer, or `token`, what still follows.
        ratio: `token`, `sequence` (geometric mean) or `product`.
        surrogate: `clip`, `cispo`, `sapo`, `plain` or `kl_cov`.
        epsilon: clip range below 1; lower it when the policy jumps about.
        epsilon_high: clip range above 1, `epsilon` when `None`; raise it when the entropy
            falls too fast.
        dual_clip: bound for advantages below 0, see `ppo_clip`.
        ratio_cap: largest ratio that may weigh: in `cispo`, and in the unclipped branch.
        tau_positive, tau_negative: temperatures of `sapo`.
        cov_fraction, cov_coef: share of tokens and weight of `kl_cov`.
        normaliser: `token`, `sequence` or `constant`.
        beta: weight of the divergence; raise it when the policy drifts.
        kl_estimator: `k1`, `k2` or `k3`.
        kl_in: `loss`, or `reward` (then k1, without gradient, whatever the estimator).
        kl_weighted: in the loss, multiply by the ratio, which makes k3's gradient right.
        kl_target: divergence a token that beta is adapted to; `None` leaves beta alone.
        kl_horizon: rollouts over which beta may change by a fifth.
        entropy_coef: weight of the entropy bonus.
        entropy_target: the bonus is paid, and raised, only at or below this entropy.
        entropy_step, entropy_coef_max: how the coefficient moves with a target.
        top_entropy: share of tokens, by entropy, that the surrogate acts on.
        off_policy: a correction for a sampler that is not quite the policy.
        mask_truncated: answers cut by the budget take no part in the loss.
        decay: of the running baseline.
        gamma, lam: discount and trust of `gae`.
        value_coef, value_clip: weight of the value loss, and how far a value may step.
        value_trunk: what the values are read from: the policy's own trunk, left alone
            (`detached`) or moved by the value loss too (`shared`), or the base with a
            LoRA of the values' own (`own_lora`); take the last where values must be good
            and the policy must not be disturbed.

    Raises:
        UserError: a name that is none of those above, or a number out of range.
    """

    baseline: str = "group"
    parts: str = "sum"
    scale_rewards: str = "group"
    eps: float = 1e-4
    returns: str = "sequence"
    ratio: str = "token"
    surrogate: str = "clip"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    dual_clip: float | None = None
    ratio_cap: float | None = None
    tau_positive: float = 1.0
    tau_negative: float = 1.05
    cov_fraction: float = 2e-3
    cov_coef: float = 1.0
    normaliser: str = "token"
    beta: float = 0.0
    kl_estimator: str = "k3"
    kl_in: str = "loss"
    kl_weighted: bool = True
    kl_target: float | None = None
    kl_horizon: int = 10_000
    entropy_coef: float = 0.0
    entropy_target: float | None = None
    entropy_step: float = 5e-3
    entropy_coef_max: float = 1.0
    top_entropy: float = 1.0
    off_policy: Correction | None = None
    mask_truncated: bool = False
    decay: float = 0.9
    gamma: float = 1.0
    lam: float = 1.0
    value_coef: float = 0.5
    value_clip: float | None = 0.2
    value_trunk: str = "detached"

    def __post_init__(self) -> None:
        for name, known in (
            ("baseline", BASELINES),
            ("parts", PARTS),
            ("value_trunk", TRUNKS),
            ("scale_rewards", SCALES),
            ("returns", ("sequence", "token")),
            ("ratio", LEVELS),
            ("surrogate", SURROGATES),
            ("normaliser", NORMALISERS),
            ("kl_estimator", ESTIMATORS),
            ("kl_in", ("loss", "reward")),
        ):
            if getattr(self, name) not in known:
                raise UserError(
                    f"{name}={getattr(self, name)!r} is unknown; choose {', '.join(known)}"
                )
        for name in ("beta", "epsilon", "entropy_coef", "eps", "value_coef"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise UserError(f"{name} must be a number from 0 up, not {getattr(self, name)}")
        for name in ("top_entropy", "cov_fraction", "gamma"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"{name} must lie in (0, 1], not {getattr(self, name)}")
        if not (0 <= self.decay < 1 and 0 <= self.lam <= 1):
            raise UserError(f"decay={self.decay} must lie in [0, 1) and lam={self.lam} in [0, 1]")
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise UserError(f"dual_clip must be above 1, not {self.dual_clip}")
        if self.surrogate == "cispo" and self.ratio_cap is None:
            raise UserError("cispo needs ratio_cap, the largest weight; 5.0 is usual")
        if self.surrogate == "kl_cov" and (self.top_entropy < 1 or self.ratio != "token"):
            raise UserError("kl_cov picks its own tokens: leave top_entropy=1, ratio='token'")
        if self.kl_target is not None and not (self.kl_target > 0 and self.beta > 0):
            raise UserError("kl_target needs to be above 0, and a beta above 0 to start from")
        if self.baseline == "value" and self.scale_rewards not in ("none", "whiten"):
            raise UserError("a value baseline goes with scale_rewards='none' or 'whiten'")
        if self.parts == "normalise" and (self.baseline != "group" or self.kl_in == "reward"):
            raise UserError(
                "parts='normalise' needs baseline='group', and the divergence in the loss: it "
                "replaces the reward's own group normalisation"
            )
        if self.baseline in ("running", "none") and self.scale_rewards in ("group", "mean"):
            raise UserError(
                f"scale_rewards={self.scale_rewards!r} needs a group baseline, not "
                f"{self.baseline!r}"
            )
        bare = self.kl_in == "loss" and not self.kl_weighted
        if self.beta and bare and self.kl_estimator == "k1":
            raise UserError(
                "k1 in the loss has no gradient in the mean; put it in the reward "
                "(kl_in='reward'), weigh it (kl_weighted=True), or take k2"
            )

    # -- what a loop has to know ----------------------------------------------------------

    @property
    def needs_group(self) -> bool:
        """Whether a group of one could learn nothing."""
        return self.baseline in ("group", "leave_one_out")

    @property
    def needs_reference(self) -> bool:
        """Whether the reference's log-probabilities are used."""
        return self.beta > 0

    @property
    def needs_value(self) -> bool:
        """Whether a value head has to be there."""
        return self.baseline == "value"

    @property
    def token_level(self) -> bool:
        """Whether advantages differ within an answer."""
        return self.returns == "token" or self.needs_value or self.scale_rewards == "whiten"

    @property
    def needs_choice(self) -> bool:
        """Whether tokens are picked by looking at the whole window first."""
        return self.surrogate == "kl_cov" or self.top_entropy < 1

    @property
    def pulls_always(self) -> bool:
        """Whether an answer with advantage 0 has a gradient too."""
        in_loss = self.beta > 0 and self.kl_in == "loss"
        bonus = self.entropy_coef > 0 or self.entropy_target is not None
        return in_loss or bonus or self.needs_value or self.surrogate == "kl_cov"
