"""Preference and offline losses: learning from answers that somebody else judged, or gave.

* supervised fine-tuning, and rejection fine-tuning: only what earned enough is imitated
* AWR (Peng et al., 1910.00177): imitation weighted by exp(advantage / beta)
* DPO (Rafailov et al., 2305.18290): pairs, the better one against the worse
* KTO (Ethayarajh et al., 2402.01306): single answers, each wanted or unwanted
* A*-PO (Brantley et al., 2505.20686): regression on the optimal advantage

Sequence losses take the summed log-probability of each answer; `sequence_logprobs` makes
it. Left out: length-normalised and reference-free relatives (SimPO, ORPO, IPO).

Axes: N rollouts, T completion tokens, B problems, G rollouts a problem, P pairs.
"""

from __future__ import annotations

import math

import torch
from torch.nn.functional import logsigmoid

from rlkit.errors import UserError
from rlkit.objectives.normalisers import Window, normalise


def sequence_logprobs(logprobs_NT: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """Log-probability (nats) of each answer: the sum over the tokens that take part.

    >>> sequence_logprobs(torch.tensor([[-1.0, -2.0, 7.0]]), torch.tensor([[1, 1, 0]]))
    tensor([-3.])
    """
    return torch.where(mask_NT.bool(), logprobs_NT, 0.0).sum(-1)


def sft_loss(
    logprobs_NT: torch.Tensor,
    mask_NT: torch.Tensor,
    window: Window | None = None,
    weights_N: torch.Tensor | None = None,
    normaliser: str = "token",
) -> torch.Tensor:
    """Cross-entropy of given answers: minus the mean log-probability of their tokens.

    Args:
        logprobs_NT: log-probabilities now, with gradient.
        mask_NT: true where a token takes part.
        window: denominators of the whole update; of these rows when not given.
        weights_N: a weight for each answer, without gradient.
        normaliser: see `normalise`.

    >>> sft_loss(torch.tensor([[-1.0, -3.0]]), torch.ones(1, 2))
    tensor(2.)
    """
    loss_NT = -logprobs_NT
    if weights_N is not None:
        loss_NT = loss_NT * weights_N.detach()[:, None]
    window = Window.of(mask_NT) if window is None else window
    return normalise(loss_NT, mask_NT, normaliser, window)


def accepted(rewards_N: torch.Tensor, threshold: float) -> torch.Tensor:
    """Which answers rejection fine-tuning imitates: those with a reward of at least this.

    An answer without a verdict (NaN) is not accepted. Use it on the mask, so that the
    rejected leave the denominator too: `mask_NT & accepted(r, 1.0)[:, None]`.

    >>> accepted(torch.tensor([1.0, 0.0, float("nan")]), 1.0)
    tensor([ True, False, False])
    """
    return torch.isfinite(rewards_N) & (rewards_N >= threshold)


def awr_weights(
    rewards_N: torch.Tensor, values_N: torch.Tensor, beta: float = 1.0, cap: float = 20.0
) -> torch.Tensor:
    """AWR's weights of an imitation: `min(exp((r - V) / beta), cap)`; 0 without a verdict.

    Args:
        rewards_N: rewards, NaN where there is no verdict.
        values_N: what each problem's answers earn on average.
        beta: low values imitate the best alone, high values everything.
        cap: largest weight.

    Raises:
        UserError: beta is not above 0.

    >>> awr_weights(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))
    tensor([1.6487, 0.6065])
    """
    if not beta > 0:
        raise UserError(f"beta must be above 0, not {beta}")
    known_N = torch.isfinite(rewards_N)
    advantage_N = torch.where(known_N, rewards_N - values_N, 0.0)
    # The exponent is held first: exp would overflow long before the cap is applied.
    weight_N = (advantage_N / beta).clamp(max=math.log(cap)).exp()
    return torch.where(known_N, weight_N, 0.0)


def dpo_loss(
    better_P: torch.Tensor,
    worse_P: torch.Tensor,
    reference_better_P: torch.Tensor,
    reference_worse_P: torch.Tensor,
    beta: float = 0.1,
) -> torch.Tensor:
    """DPO, pair by pair: `-log sigmoid(beta (d_better - d_worse))`, d = log p - log p_ref.

    Args:
        better_P, worse_P: summed log-probabilities of the two answers, with gradient.
        reference_better_P, reference_worse_P: the same under the reference.
        beta: how strongly the policy is held to the reference.

    Returns:
        loss_P. At the reference it is log 2 whatever the pair.

    >>> zero = torch.zeros(1)
    >>> dpo_loss(zero, zero, zero, zero)
    tensor([0.6931])
    """
    margin_P = (better_P - reference_better_P) - (worse_P - reference_worse_P)
    return -logsigmoid(beta * margin_P)


def kto_loss(
    logprobs_N: torch.Tensor,
    reference_N: torch.Tensor,
    wanted_N: torch.Tensor,
    kl: torch.Tensor | float,
    beta: float = 0.1,
    weight_wanted: float = 1.0,
    weight_unwanted: float = 1.0,
) -> torch.Tensor:
    """KTO, answer by answer: gains and losses are felt against a point of reference.

    `w (1 - sigmoid(beta (d - z)))` for a wanted answer and `w (1 - sigmoid(beta (z - d)))`
    for an unwanted one, d = log p - log p_ref, z = max(0, kl) without gradient.

    Args:
        logprobs_N: summed log-probabilities, with gradient.
        reference_N: the same under the reference.
        wanted_N: true where the answer is wanted.
        kl: estimate of the divergence, usually the mean of d over mismatched pairs of
            prompt and answer.
        beta: how strongly the policy is held to the reference.
        weight_wanted, weight_unwanted: for sides of different size.

    Returns:
        loss_N.

    >>> kto_loss(torch.zeros(2), torch.zeros(2), torch.tensor([True, False]), kl=0.0)
    tensor([0.5000, 0.5000])
    """
    point = torch.as_tensor(kl, dtype=logprobs_N.dtype).detach().clamp(min=0.0)
    distance_N = logprobs_N - reference_N - point
    sign_N = torch.where(wanted_N.bool(), 1.0, -1.0).to(logprobs_N)
    weight_N = torch.where(wanted_N.bool(), weight_wanted, weight_unwanted).to(logprobs_N)
    return weight_N * (1 - torch.sigmoid(beta * sign_N * distance_N))


def optimal_value(rewards_BG: torch.Tensor, beta: float = 0.5) -> torch.Tensor:
    """A*-PO's value of a problem, from answers of the reference: a soft maximum.

    `V = beta log mean exp(r / beta)`: the mean reward for a large beta, the best reward
    for a small one. Answers without a verdict (NaN) stay out; NaN without any.

    >>> optimal_value(torch.tensor([[1.0, 0.0]]), beta=0.5).round(decimals=4)
    tensor([0.7169])
    """
    known_BG = torch.isfinite(rewards_BG)
    exponent_BG = (rewards_BG / beta).masked_fill(~known_BG, -torch.inf)
    value_B = beta * (exponent_BG.logsumexp(-1) - known_BG.sum(-1).log())
    return torch.where(known_BG.any(-1), value_B, torch.nan)


def astar_loss(
    logprobs_N: torch.Tensor,
    reference_N: torch.Tensor,
    rewards_N: torch.Tensor,
    values_N: torch.Tensor,
    beta: float = 1e-3,
) -> torch.Tensor:
    """A*-PO, answer by answer: `(beta (log p - log p_ref) - (r - V))^2`.

    The best policy within the divergence has beta log p / p_ref = r - V, so one answer
    a problem is enough and nothing is clipped. Rows without reward or value give 0.

    >>> astar_loss(torch.tensor([0.0]), torch.tensor([0.0]), torch.tensor([1.0]),
    ...            torch.tensor([0.5]))
    tensor([0.2500])
    """
    target_N = rewards_N - values_N
    known_N = torch.isfinite(target_N)
    error_N = beta * (logprobs_N - reference_N) - torch.where(known_N, target_N, 0.0)
    return torch.where(known_N, error_N.square(), 0.0)
