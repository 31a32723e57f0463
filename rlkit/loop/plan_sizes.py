"""Size: how large a step is, how it is cut up, and which small steps stand for it in a probe.

Axes: B problems, G rollouts a problem, N = B x G rows, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from rlkit.errors import UserError

#: Completion tokens that the smaller and the larger step of a probe have, about.
FEW, MANY = 384, 1152
#: Longest answers and prompts of a probe, and most rows of its generations.
LONG, LONG_PROMPT, ROWS = 48, 1024, 32
#: Seconds that the larger step may take, so that a quick model is seen nearer its size.
SHORT = 3.0


@dataclass(frozen=True)
class Size:
    """The size of one step.

    Attributes:
        problems, group_size: B and G.
        prompt_tokens: P, chat template included.
        new_tokens: T; answers are taken to use all of it.
        micro_batch, micro_batch_tokens: rollouts and tokens scored at once, see `LoopConfig`.
        inner_epochs: optimizer steps on the same rollouts.
    """

    problems: int = 8
    group_size: int = 8
    prompt_tokens: int = 48
    new_tokens: int = 64
    micro_batch: int = 64
    micro_batch_tokens: int | None = None
    inner_epochs: int = 1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")

    @property
    def rows(self) -> int:
        """N, rollouts of a step."""
        return self.problems * self.group_size

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens, prompts counted once."""
        return self.problems * self.prompt_tokens + self.rows * self.new_tokens

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Part:
    """The largest micro-batch of a step, and how many there are.

    Attributes:
        parts: micro-batches.
        prompts, rows: different prompts and rollouts of the largest.
    """

    parts: int
    prompts: int
    rows: int


@dataclass
class _Row:
    """As much of a rollout as it takes to cut a batch up."""

    prompt_ids: tuple[int, ...]
    length: int

    def __len__(self) -> int:
        return self.length


def largest_part(size: Size, tokens_at_once: int | None) -> Part:
    """How the loop would cut a step of this size into micro-batches.

    Args:
        tokens_at_once: what the policy can bear, where the size says nothing.

    >>> largest_part(Size(4, 8, 50, 10), 300)  # a group has 50 + 80 tokens, two of them fit
    Part(parts=2, prompts=2, rows=16)
    """
    from rlkit.loop.micro_batches import Budget, split

    budget = Budget.of(size.micro_batch_tokens, tokens_at_once)
    rows = [
        _Row((problem,) * size.prompt_tokens, size.new_tokens)
        for problem in range(size.problems)
        for _ in range(size.group_size)
    ]
    parts = split(rows, size.micro_batch, budget)
    counted = [Part(len(parts), len({r.prompt_ids for r in part}), len(part)) for part in parts]
    return max(counted, key=lambda p: p.prompts * size.prompt_tokens + p.rows * size.new_tokens)


def first_size(size: Size) -> Size:
    """The smaller step of a probe: the prompts and groups of a large one, only few of them.

    >>> first = first_size(Size(problems=32, group_size=8, prompt_tokens=48, new_tokens=256))
    >>> first.problems, first.group_size, first.prompt_tokens, first.new_tokens
    (1, 8, 48, 48)
    """
    group, length = min(size.group_size, 8), min(size.new_tokens, LONG)
    if size.problems == 1:  # one group is all there is, so the smaller step has a smaller one
        group = max(2, group // 3)
    problems = min(size.problems // 2, FEW // (group * length))
    return in_one(
        replace(
            size,
            problems=max(1, problems),
            group_size=group,
            prompt_tokens=min(size.prompt_tokens, LONG_PROMPT),
            new_tokens=length,
        )
    )


def second_size(size: Size, first: Size, seconds: float, tokens_at_once: int | None = None) -> Size:
    """The larger step of a probe: more problems, and many more where they take little time.

    Args:
        size: what is asked for.
        first, seconds: the smaller step, and how long it took.
        tokens_at_once: what the policy can bear; half as much again is still kept whole.

    >>> asked = Size(problems=32, group_size=8, prompt_tokens=48, new_tokens=256)
    >>> second_size(asked, first_size(asked), 5.0).problems
    3
    >>> second_size(asked, first_size(asked), 0.3).problems
    10
    """
    from rlkit.policy.scorer import KEPT_WHOLE

    whole = replace(first, group_size=min(size.group_size, 8))
    each = whole.prompt_tokens + whole.group_size * whole.new_tokens
    room = min(4 * MANY, max(MANY, first.tokens * SHORT / max(seconds, 1e-3)))
    room = max(room, 3 * first.tokens)
    larger = in_one(replace(whole, problems=max(1, min(size.problems, int(room // each)))))
    if tokens_at_once is None:
        return larger
    most = min(larger.micro_batch_tokens, max(int(KEPT_WHOLE * tokens_at_once), each))
    return replace(larger, micro_batch_tokens=most)


def in_one(size: Size) -> Size:
    """The same step, learned from in one micro-batch."""
    return replace(size, micro_batch=10**6, micro_batch_tokens=2 * size.tokens)


def in_two(size: Size) -> Size:
    """The same step, learned from in two micro-batches or more."""
    most = min(size.tokens, size.micro_batch_tokens or size.tokens)
    return replace(size, micro_batch_tokens=most // 2 + size.prompt_tokens)


def generations(size: Size) -> list[Size]:
    """Answers only, of three lengths: they tell prompts from tokens, and long from short."""
    group = min(size.group_size, 8)
    answers = replace(
        first_size(size), group_size=group, problems=max(1, min(size.problems, ROWS // group))
    )
    lengths = sorted({1, min(size.new_tokens, 12), min(size.new_tokens, 2 * LONG)})
    return [replace(answers, new_tokens=length) for length in lengths]
