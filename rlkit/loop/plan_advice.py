"""Advice: what to lower where a step does not fit, and to what value.

Each line would do by itself: one setting is lowered, the others stay. First come settings
that change nothing but memory and time, last those that change what is learned.
"""

from __future__ import annotations

from dataclasses import replace

from rlkit.loop.plan_counted import Counted
from rlkit.loop.plan_fit import Fit
from rlkit.loop.plan_sizes import Size

#: What can be lowered, in the order in which it costs least, and the least it can be.
LEVERS = {
    "micro_batch_tokens": 64,
    "new_tokens": 8,
    "problems": 1,
    "group_size": 2,
    "prompt_tokens": 16,
}


def what_fits(fit: Fit, size: Size, limit: float) -> tuple[str, ...]:
    """For each setting the largest value that fits, all others as they are."""
    lines = []
    for name, least in LEVERS.items():
        value = largest_that_fits(fit, size, name, least, limit)
        if value is not None:
            flag = "--max-new-tokens" if name == "new_tokens" else f"--{name.replace('_', '-')}"
            lines.append(f"lower {flag} to {value}")
    return tuple(lines)


def largest_that_fits(fit: Fit, size: Size, name: str, least: int, limit: float) -> int | None:
    """The largest value below the present one with which a step fits; `None` if none does."""
    now = getattr(size, name)
    if name == "micro_batch_tokens":
        # Not below one whole rollout: that much is always scored at once.
        least = max(least, size.prompt_tokens + size.new_tokens)
        now = size.tokens if now is None else min(now, size.tokens)
    low, high = least, now - 1
    best = None
    while low <= high:
        middle = (low + high) // 2
        peak = fit.predict(replace(size, **{name: middle})).peak_mb
        if peak is not None and peak <= limit:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    return best


def model_advice(
    counted: Counted, quantize: str | None, rank: int, room: float | None
) -> tuple[str, ...]:
    """What makes the model itself smaller."""
    lines = []
    if quantize is None:
        lines.append("take --quantize nf4")
    each = counted.adapter_mb / rank
    left = None if room is None else room - counted.weights_mb - counted.copy_mb
    if left is not None and each <= left < counted.adapter_mb:
        lines.append(f"lower --rank to {int(left / each)}")
    if counted.copy_mb:
        lines.append(
            f"take --rollouts plain, which is slower and keeps no copy of {counted.copy_mb:.0f} MB"
        )
    lines.append(f"take a smaller model than one of {counted.parameters / 1e6:.0f} M parameters")
    return tuple(lines)


def after_a_kill(size: Size) -> str:
    """What to do where not even the probe's small steps fitted."""
    return f"the probe itself ran out of memory; lower --prompt-tokens below {size.prompt_tokens}"
