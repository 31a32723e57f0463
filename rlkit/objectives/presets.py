"""Presets: the algorithms that matter, each as what it changes in the one skeleton.

Read a class body as the algorithm's idea: everything that it does not mention is as in
`Objective`, which is GRPO. `a.difference(b)` lists what sets two of them apart.

Axes: none here; see `rlkit.objectives.objective`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rlkit.errors import UserError
from rlkit.objectives import off_policy
from rlkit.objectives.objective import Objective


@dataclass(frozen=True)
class GRPO(Objective):
    """Group-relative policy optimisation (2402.03300), with the token mean of DAPO.

    The group's mean is the baseline and its deviation the scale; no critic. The paper
    itself averages over each answer first: `GRPO(normaliser="sequence")`.
    """


@dataclass(frozen=True)
class DrGRPO(Objective):
    """Dr. GRPO (2503.20783): two divisions are taken out of GRPO.

    Without the deviation easy and hard groups weigh alike; with a constant length a long
    wrong answer is not blamed less for each of its tokens.
    """

    scale_rewards: str = "none"
    normaliser: str = "constant"


@dataclass(frozen=True)
class DAPO(Objective):
    """DAPO's loss (2503.14476): more room above 1 than below, and a token mean.

    Its other two ideas are not in a loss: the soft overlong penalty is the reward
    `rlkit.rewards.SoftOverlong`, and groups without contrast are replaced by the loop,
    with `LoopConfig(max_refills=2)`.
    """

    epsilon_high: float | None = 0.28


@dataclass(frozen=True)
class GSPO(Objective):
    """GSPO (2507.18071): one ratio for the whole answer, so one clip, which is tight."""

    ratio: str = "sequence"
    epsilon: float = 3e-4
    epsilon_high: float | None = 4e-4
    normaliser: str = "sequence"


@dataclass(frozen=True)
class CISPO(Objective):
    """CISPO (2506.13585): the ratio becomes a truncated weight, no token is clipped away."""

    surrogate: str = "cispo"
    ratio_cap: float | None = 5.0


@dataclass(frozen=True)
class SAPO(Objective):
    """SAPO (2511.20347): a soft gate around a ratio of 1 in place of the clip."""

    surrogate: str = "sapo"
    normaliser: str = "sequence"


@dataclass(frozen=True)
class RLOO(Objective):
    """RLOO (2402.14740): compared with the others of the group; an answer is one action.

    The ratio is that of the whole answer, and a divergence, where asked for, is taken
    from the reward.
    """

    baseline: str = "leave_one_out"
    scale_rewards: str = "none"
    ratio: str = "product"
    normaliser: str = "sequence"
    kl_in: str = "reward"


@dataclass(frozen=True)
class Reinforce(Objective):
    """REINFORCE (Williams, 1992) with a running baseline; works for groups of one."""

    baseline: str = "running"
    scale_rewards: str = "none"
    surrogate: str = "plain"
    kl_in: str = "reward"


@dataclass(frozen=True)
class ReinforcePlusPlus(Objective):
    """REINFORCE++ (2501.03262): returns of tokens, whitened over the whole batch."""

    baseline: str = "none"
    scale_rewards: str = "whiten"
    returns: str = "token"
    kl_in: str = "reward"


@dataclass(frozen=True)
class MaxRL(Objective):
    """MaxRL (2602.02710): divided by the group's mean, so that rare successes count more."""

    scale_rewards: str = "mean"


@dataclass(frozen=True)
class GDPO(Objective):
    """GDPO (2601.05242): each part of the reward is normalised over the group, then summed.

    The sum is whitened over the batch. Two answers whose totals agree for different
    reasons stay apart, and a part that hardly varies is not drowned by one that does.
    """

    parts: str = "normalise"


@dataclass(frozen=True)
class KLCov(Objective):
    """KL-Cov (2505.22617): a few tokens are held back that would let the entropy fall."""

    surrogate: str = "kl_cov"


@dataclass(frozen=True)
class PPO(Objective):
    """PPO (1707.06347): a learned value is the baseline, by GAE, token by token.

    It needs a value head (`rlkit.policy.value_head`), which a loop attaches. Advantages
    are whitened over the batch. Works for groups of one. `PPO(value_trunk="own_lora")` gives
    the values an adapter of their own.
    """

    baseline: str = "value"
    scale_rewards: str = "whiten"
    returns: str = "token"
    kl_in: str = "reward"
    lam: float = 0.95


#: The presets by name.
PRESETS: dict[str, type[Objective]] = {
    preset.__name__: preset
    for preset in (
        GRPO,
        DrGRPO,
        DAPO,
        GSPO,
        CISPO,
        RLOO,
        Reinforce,
        PPO,
        SAPO,
        ReinforcePlusPlus,
        MaxRL,
        GDPO,
        KLCov,
    )
}


def get_objective(name: str | Objective) -> Objective:
    """The preset of this name, whatever its capitals; an `Objective` is given back as it is.

    Raises:
        UserError: no such preset.

    >>> get_objective("dr-grpo") == DrGRPO()
    True
    """
    if isinstance(name, Objective):
        return name
    wanted = str(name).lower().replace("-", "").replace("_", "").replace("++", "plusplus")
    for known, preset in PRESETS.items():
        if known.lower() == wanted:
            return preset()
    raise UserError(f"unknown objective {name!r}; choose {', '.join(PRESETS)}")


def objective_from(description: Mapping[str, Any]) -> Objective:
    """The objective that `Objective.describe` described, for instance in a run's config.

    Fields that an older version did not know keep their defaults.

    Raises:
        UserError: a class that is no preset, or a correction that is unknown.

    >>> objective_from(DAPO(beta=0.1).describe()) == DAPO(beta=0.1)
    True
    """
    name = description.get("name")
    kind = Objective if name == "Objective" else PRESETS.get(str(name))
    if kind is None:
        raise UserError(f"the objective {name!r} is no preset: build it where its class is known")
    known = {f.name for f in fields(kind)}
    values = {key: value for key, value in description.items() if key in known}
    correction = values.get("off_policy")
    if correction is not None:
        given = dict(correction)
        made = getattr(off_policy, str(given.pop("name", "")), None)
        if made is None:
            raise UserError(f"the correction {correction!r} is unknown")
        values["off_policy"] = made(**given)
    return kind(**values)
