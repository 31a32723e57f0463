"""Token returns: what still comes after each token.

REINFORCE++ (2501.03262): the reward at the end minus the divergence that follows, then
whitening over the whole batch. GAE (Schulman et al., 1506.02438): a weighted sum of how
far the values were off, token by token, or turn by turn where a completion has turns.

Left out: rewards at every token (a process reward comes in as `rewards_NT` to
`gae`), and the chunked scan that long completions on a GPU want.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import torch


def last_token_rewards(rewards_N: torch.Tensor, mask_NT: torch.Tensor) -> torch.Tensor:
    """Rewards at the last token that takes part, 0 elsewhere; NaN rewards become 0.

    A row without tokens has no place for its reward, which is then left out.

    >>> last_token_rewards(torch.tensor([2.0]), torch.tensor([[True, True, False]]))
    tensor([[0., 2., 0.]])
    """
    mask_NT = mask_NT.bool()
    positions_T = torch.arange(mask_NT.shape[-1], device=mask_NT.device)
    last_N = torch.where(mask_NT, positions_T, -1).amax(-1) if mask_NT.shape[-1] else None
    if last_N is None:
        return rewards_N.new_zeros(mask_NT.shape)
    reward_N1 = torch.where(torch.isfinite(rewards_N), rewards_N, 0.0)[:, None]
    return torch.where((positions_T == last_N[:, None]) & mask_NT, reward_N1, 0.0)


def token_returns(
    rewards_N: torch.Tensor,
    mask_NT: torch.Tensor,
    divergence_NT: torch.Tensor | None = None,
    beta: float = 0.0,
) -> torch.Tensor:
    """REINFORCE++'s return of each token: `r - beta * sum of the divergence from it on`.

    Args:
        rewards_N: one reward a rollout; NaN counts as 0, mask such rows out yourself.
        mask_NT: true where a token takes part; 0 is returned elsewhere.
        divergence_NT: k1 of each token against the reference.
        beta: weight of the divergence.

    >>> mask_NT = torch.tensor([[True, True, True]])
    >>> token_returns(torch.tensor([1.0]), mask_NT, torch.tensor([[0.1, 0.2, 0.3]]), beta=1.0)
    tensor([[0.4000, 0.5000, 0.7000]])
    """
    mask_NT = mask_NT.bool()
    step_NT = last_token_rewards(rewards_N, mask_NT)
    if divergence_NT is not None:
        step_NT = step_NT - beta * torch.where(mask_NT, divergence_NT, 0.0)
    following_NT = step_NT.flip(-1).cumsum(-1).flip(-1)
    return torch.where(mask_NT, following_NT, 0.0)


def whiten(values_NT: torch.Tensor, mask_NT: torch.Tensor, eps: float = 1e-4) -> torch.Tensor:
    """Mean 0 and deviation 1 over all tokens that take part, of the whole batch.

    Computed in float64; values that are all alike give 0. Outside the mask 0.

    >>> whiten(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]), eps=0.0)
    tensor([[-0.7071,  0.7071,  0.0000]])
    """
    mask_NT = mask_NT.bool()
    taken = values_NT.double()[mask_NT]
    if taken.numel() < 2 or float(taken.max() - taken.min()) <= 1e-6:
        return torch.zeros_like(values_NT)
    normal_NT = (values_NT.double() - taken.mean()) / (taken.std() + eps)
    return torch.where(mask_NT, normal_NT, 0.0).to(values_NT.dtype)


def gae(
    rewards_NT: torch.Tensor,
    values_NT: torch.Tensor,
    mask_NT: torch.Tensor,
    gamma: float = 1.0,
    lam: float = 1.0,
    turns_NT: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimation over the tokens that take part.

    `delta_t = r_t + gamma V_{t+1} - V_t` and `A_t = delta_t + gamma lam A_{t+1}`, where
    t + 1 is the next token that takes part: tokens of a tool or an environment between
    two turns are stepped over, and neither discount nor break the chain. Nothing
    follows the last one, so its next value is 0.

    With `turns_NT` a whole turn is one step: rewards are summed over the turn, its value
    is the one at its first token, and all its tokens get the turn's advantage.

    Args:
        rewards_NT: rewards, token by token; often 0 but at the last.
        values_NT: the value before each token is chosen; taken without gradient.
        mask_NT: true where a token takes part.
        gamma: discount of a step.
        lam: 1 trusts the rewards alone, 0 the values alone.
        turns_NT: number of the turn of each token, rising; padding may have any.

    Returns:
        advantages_NT, and returns_NT = advantages + values, what values should be; both
        0 outside the mask.

    >>> mask = torch.ones(1, 3, dtype=torch.bool)
    >>> values = torch.tensor([[0.5, 0.6, 0.8]])
    >>> gae(torch.tensor([[0.0, 0.0, 1.0]]), values, mask)[0]  # lam = 1: r - V
    tensor([[0.5000, 0.4000, 0.2000]])
    """
    mask_NT = mask_NT.bool()
    values_NT = torch.where(mask_NT, values_NT.detach(), 0.0)
    rewards_NT = torch.where(mask_NT, rewards_NT, 0.0)
    if turns_NT is not None:
        return _gae_over_turns(rewards_NT, values_NT, mask_NT, gamma, lam, turns_NT)
    advantages_NT = torch.zeros_like(values_NT)
    next_value_N = torch.zeros_like(values_NT[:, 0]) if values_NT.shape[-1] else None
    next_advantage_N = next_value_N
    for t in reversed(range(values_NT.shape[-1])):
        delta_N = rewards_NT[:, t] + gamma * next_value_N - values_NT[:, t]
        here_N = delta_N + gamma * lam * next_advantage_N
        taken_N = mask_NT[:, t]
        advantages_NT[:, t] = torch.where(taken_N, here_N, 0.0)
        next_value_N = torch.where(taken_N, values_NT[:, t], next_value_N)
        next_advantage_N = torch.where(taken_N, here_N, next_advantage_N)
    return advantages_NT, torch.where(mask_NT, advantages_NT + values_NT, 0.0)


def _gae_over_turns(
    rewards_NT: torch.Tensor,
    values_NT: torch.Tensor,
    mask_NT: torch.Tensor,
    gamma: float,
    lam: float,
    turns_NT: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    advantages_NT, returns_NT = torch.zeros_like(values_NT), torch.zeros_like(values_NT)
    for n in range(len(values_NT)):
        numbers = turns_NT[n][mask_NT[n]].unique().tolist()
        places = [mask_NT[n] & (turns_NT[n] == number) for number in numbers]
        next_value = next_advantage = values_NT.new_zeros(())
        for place_T in reversed(places):
            value = values_NT[n][place_T][0]
            delta = rewards_NT[n][place_T].sum() + gamma * next_value - value
            next_advantage = delta + gamma * lam * next_advantage
            next_value = value
            advantages_NT[n, place_T] = next_advantage
            returns_NT[n, place_T] = next_advantage + value
    return advantages_NT, returns_NT


def value_loss(
    values_NT: torch.Tensor,
    old_values_NT: torch.Tensor,
    returns_NT: torch.Tensor,
    clip: float | None = 0.2,
) -> torch.Tensor:
    """Half the squared error of the values, token by token, the step held within `clip`.

    As in PPO's code: the larger of the plain error and that of the value held within
    `old +- clip`, so that a value that moved far gets no gradient to move further.

    >>> value_loss(torch.tensor(1.0), torch.tensor(0.0), torch.tensor(2.0), clip=0.2)
    tensor(1.6200)
    """
    plain_NT = (values_NT - returns_NT).square()
    if clip is not None:
        held_NT = old_values_NT + (values_NT - old_values_NT).clamp(-clip, clip)
        plain_NT = torch.maximum(plain_NT, (held_NT - returns_NT).square())
    return 0.5 * plain_NT


def explained_variance(
    values_NT: torch.Tensor, returns_NT: torch.Tensor, mask_NT: torch.Tensor
) -> float | None:
    """How much of the returns' variance the values explain: 1 all, 0 none, below 0 harm.

    Returns:
        `None` where the returns do not vary, so that there is nothing to explain.

    >>> mask = torch.tensor([[True, True]])
    >>> explained_variance(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 2.0]]), mask)
    0.75
    """
    taken = returns_NT.double()[mask_NT.bool()]
    if taken.numel() < 2 or float(taken.max() - taken.min()) <= 1e-6:
        return None
    error = taken - values_NT.detach().double()[mask_NT.bool()]
    return float(1 - error.var() / taken.var())
