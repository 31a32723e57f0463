"""Fit: from a few small steps to memory and seconds of a large one.

What can be counted is counted (keys and values, logits, products), and what cannot is read
from the probe: a fixed part, and a part that grows with tokens. Memory of the update is a
line in the tokens of the largest micro-batch. Memory of the generation is what the smallest
step held beside its own cache, plus the cache that is asked for. Seconds are sums of parts that
are never negative: of the generation a merge, prompt tokens, token-steps, and a row's share of
them; of the update a fixed part, a part a micro-batch, and a part a product.

Left out: answers that end early, which make a step cheaper, and the time of a slow reward.

Axes: B problems, G rollouts a problem, N = B x G rows, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rlkit.loop.plan_sizes import Part, Size, largest_part

MB = 1 << 20
#: Lengths of answers that leave kernels behind: the library keeps the last thousand it made,
#: and a token makes two.
KERNELS = 512


@dataclass(frozen=True)
class Facts:
    """What the probe knows of the policy without taking a step; see `plan_probe`."""

    load_mb: float
    held_mb: float
    context: int
    tokens_at_once: int | None
    problems_at_once: int
    engine: bool
    bytes: int
    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    head_size: int
    vocabulary: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Facts:
        return cls(**{f.name: row[f.name] for f in fields(cls)})

    def token_bytes(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.key_heads * self.head_size * self.bytes

    def cache_mb(self, size: Size) -> float:
        """Keys and values of the answers that are written together, and of their prompts."""
        at_once = min(size.problems, self.problems_at_once)
        rows = at_once * size.group_size
        # Without the engine the prompts' part is repeated for every row.
        prompts = at_once if self.engine else rows
        tokens = rows * size.new_tokens + prompts * size.prompt_tokens
        return tokens * self.token_bytes() / MB

    def draw_mb(self, size: Size) -> float:
        """Logits of one token a row, and what the draw makes of them; one layer's scores."""
        rows = min(size.problems, self.problems_at_once) * size.group_size
        scores = rows * self.heads * (size.prompt_tokens + size.new_tokens) * 12
        return (rows * self.vocabulary * 16 + scores) / MB

    def reading_mb(self, size: Size) -> float:
        """What one layer makes of all prompts that are read together."""
        rows = min(size.problems, self.problems_at_once)
        each = 4 * self.hidden * 4 + 4 * self.inner * self.bytes
        return rows * size.prompt_tokens * each / MB

    def products(self, size: Size, again: int = 0) -> float:
        """Multiplications of a forward pass over a step, in thousands of millions.

        Args:
            again: prompts that are read once more, as a group was cut up.
        """
        width = self.heads * self.head_size
        linear = self.hidden * (2 * width + 2 * self.key_heads * self.head_size)
        linear = self.layers * (linear + 3 * self.hidden * self.inner)
        answers = size.rows * size.new_tokens
        prompts = (size.problems + again) * size.prompt_tokens
        seen = answers * (size.prompt_tokens + size.new_tokens / 2)
        seen += prompts * size.prompt_tokens / 2
        attention = 2 * self.layers * width * seen
        head = answers * self.hidden * self.vocabulary
        return ((answers + prompts) * linear + head + attention) / 1e9


@dataclass(frozen=True)
class Prediction:
    """Of one step: MB and seconds, by what they are for.

    Attributes:
        load_mb: the peak of loading the model.
        generate_mb, update_mb: the peaks of both halves; `None` where memory is not known.
        cache_mb: of `generate_mb`, keys and values.
        activations_mb: of `update_mb`, what the tokens of a micro-batch leave for the way back.
        part: the largest micro-batch.
        generate_s, update_s, other_s: seconds.
    """

    load_mb: float | None
    generate_mb: float | None
    update_mb: float | None
    cache_mb: float
    activations_mb: float | None
    part: Part
    generate_s: float
    update_s: float
    other_s: float

    @property
    def peak_mb(self) -> float | None:
        """The largest of the three peaks."""
        known = [m for m in (self.load_mb, self.generate_mb, self.update_mb) if m is not None]
        return max(known) if self.update_mb is not None else None

    @property
    def seconds(self) -> float:
        return self.generate_s + self.update_s + self.other_s


class Fit:
    """What a probe found, ready to be asked about other sizes.

    Args:
        rows: of a process that took the smaller step, and of one that took the larger, in
            this order, each beginning with its facts; see `plan_probe`.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.facts = Facts.of(next(r for r in rows if r["kind"] == "facts"))
        held, seen = None, []
        for row in rows:
            if row["kind"] == "step" and not row.get("warm"):
                seen.append({**row, "before_mb": held})
            held = row.get("held_mb", held)
        if len(seen) < 2:
            raise ValueError(f"a fit needs two steps at least, and there are {len(seen)}")
        self._memory(seen[0], seen[1])
        self._seconds_of_updates(seen)
        self._seconds_of_answers(seen, [r for r in rows if r["kind"] == "generate"])

    def predict(self, size: Size) -> Prediction:
        """Memory and seconds of a step of this size."""
        part = largest_part(size, self.facts.tokens_at_once)
        cache = self.facts.cache_mb(size)
        generate = update = activations = None
        if self.fixed_mb is not None:
            kernels = self.kernels_mb * min(size.new_tokens, KERNELS)
            generate = self.around_mb + kernels + self._beside(size)
            activations = self.token_mb * self._kept_tokens(size, part)
            update = self.fixed_mb + kernels + activations
        return Prediction(
            load_mb=self.facts.load_mb,
            generate_mb=generate,
            update_mb=update,
            cache_mb=cache,
            activations_mb=activations,
            part=part,
            generate_s=float(self.of_answers @ np.array(_answer_parts(size, merges=1))),
            update_s=self.fixed_s
            + self.part_s * part.parts
            + self.product_s * self._products(size, part),
            other_s=self.other_s * size.rows,
        )

    # -- memory -------------------------------------------------------------------------

    def _memory(self, small: Mapping[str, Any], large: Mapping[str, Any]) -> None:
        self.fixed_mb = self.token_mb = self.around_mb = self.kernels_mb = None
        if small["update_mb"] is None or large["update_mb"] is None:
            return
        # Beyond its own cache, generating leaves kernels behind, one for each length.
        self.around_mb = small["before_mb"]
        left = small["generate_mb"] - self.around_mb - self._beside(_size(small))
        self.kernels_mb = max(0.0, left) / small["new_tokens"]
        at_once = self.facts.tokens_at_once
        parts = [(_size(row), largest_part(_size(row), at_once)) for row in (small, large)]
        tokens = [_tokens(size, part) for size, part in parts]
        peaks = [r["update_mb"] - self.kernels_mb * r["new_tokens"] for r in (small, large)]
        more = tokens[1] - tokens[0]
        self.token_mb = max(0.0, (peaks[1] - peaks[0]) / more) if more > 0 else 0.0
        self.fixed_mb = max(p - self.token_mb * t for p, t in zip(peaks, tokens, strict=True))

    def _beside(self, size: Size) -> float:
        facts = self.facts
        return facts.cache_mb(size) + max(facts.draw_mb(size), facts.reading_mb(size))

    def _kept_tokens(self, size: Size, part: Part) -> float:
        """Tokens of the largest micro-batch, as many as leave so much behind."""
        tokens = _tokens(size, part)
        if not self._twice(tokens):
            return tokens
        # Beyond that only each block's input is kept, and one block at a time is whole.
        facts, whole = self.facts, self.token_mb * MB
        inputs = facts.layers * facts.hidden * 4
        return tokens * min(1.0, (inputs + whole / facts.layers) / max(1.0, whole))

    def _twice(self, tokens: int) -> bool:
        """Whether a micro-batch of so many tokens computes each block twice."""
        from rlkit.policy.scorer import KEPT_WHOLE

        most = self.facts.tokens_at_once
        return most is not None and tokens > KEPT_WHOLE * most

    def _products(self, size: Size, part: Part) -> float:
        """Those of a whole update, what is computed again among them."""
        from rlkit.policy.scorer import AGAIN

        once = self.facts.products(size, _read_again(size, part))
        return once * (AGAIN if self._twice(_tokens(size, part)) else 1.0)

    # -- seconds ------------------------------------------------------------------------

    def _seconds_of_updates(self, steps: Sequence[Mapping[str, Any]]) -> None:
        small, large, *cut = steps
        counts = [largest_part(_size(row), self.facts.tokens_at_once).parts for row in steps]
        products = [self.facts.products(_size(row)) for row in (small, large)]
        # What a further part costs: more than nothing, and no more than all that is fixed.
        more = 0.0
        if cut and counts[2] > counts[1]:
            more = max(0.0, cut[0]["update_s"] - large["update_s"]) / (counts[2] - counts[1])
        seconds = [row["update_s"] for row in (small, large)]
        self.product_s, fixed = _line(products, seconds)
        self.part_s = min(more, fixed)
        seconds = [s - self.part_s * count for s, count in zip(seconds, counts, strict=False)]
        self.product_s, self.fixed_s = _line(products, seconds)
        other = large["step_s"] - large["update_s"] - large["generate_s"]
        self.other_s = max(0.0, other) / _size(large).rows

    def _seconds_of_answers(
        self, steps: Sequence[Mapping[str, Any]], generations: Sequence[Mapping[str, Any]]
    ) -> None:
        seen = [(row, 1) for row in steps] + [(row, 0) for row in generations]
        parts = np.array([_answer_parts(_size(row), merges) for row, merges in seen])
        seconds = np.array([row["generate_s"] for row, _ in seen])
        self.of_answers = nonnegative(parts, seconds)


def nonnegative(parts: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """The rates, none below 0, that explain the seconds best, in relative terms.

    Args:
        parts: (observations, rates) how often each rate is in an observation.
        seconds: (observations,), above 0.

    >>> nonnegative(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([3.0, 7.0])).round(6).tolist()
    [1.0, 2.0]
    >>> nonnegative(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([3.0, 3.0])).round(6).tolist()
    [3.0, 0.0]
    """
    parts, scale = parts / seconds[:, None], parts.max(axis=0)
    parts = parts / np.where(scale > 0, scale, 1.0)
    best, least = np.zeros(parts.shape[1]), np.inf
    places = range(parts.shape[1])
    for count in range(1, min(parts.shape) + 1):
        for chosen in itertools.combinations(places, count):
            rates, *_ = np.linalg.lstsq(parts[:, chosen], np.ones(len(parts)), rcond=None)
            if (rates < 0).any():
                continue
            off = float(((parts[:, chosen] @ rates - 1) ** 2).sum())
            if off < least - 1e-12:
                least, best = off, np.zeros(parts.shape[1])
                best[list(chosen)] = rates
    return best / np.where(scale > 0, scale, 1.0)


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope and height of the line through two points; both at least 0."""
    if x[1] <= x[0]:
        return y[1] / x[1], 0.0
    slope = max(0.0, (y[1] - y[0]) / (x[1] - x[0]))
    height = y[1] - slope * x[1]
    return (y[1] / x[1], 0.0) if height < 0 else (slope, height)


def _answer_parts(size: Size, merges: int) -> list[float]:
    """Merges, prompt tokens, token-steps, tokens, and tokens that each token looks back at."""
    tokens = size.rows * size.new_tokens
    prompts = size.problems * size.prompt_tokens
    return [merges, prompts, size.new_tokens, tokens, tokens * size.new_tokens / 2]


def _read_again(size: Size, part: Part) -> int:
    """Prompts that are read more than once, where a group is cut into several parts."""
    return max(0, part.parts - size.problems) if part.prompts == 1 else 0


def _tokens(size: Size, part: Part) -> int:
    """Of the largest micro-batch, prompts once."""
    return part.prompts * size.prompt_tokens + part.rows * size.new_tokens


def _size(row: Mapping[str, Any]) -> Size:
    return Size(**{f.name: row[f.name] for f in fields(Size)})
