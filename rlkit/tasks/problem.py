"""Problem and Domain: what is asked, and where the questions come from.

A domain is a seeded generator of problems. Every problem it can make belongs
to exactly one split, decided by a hash of the problem's content, so training
and held-out problems cannot overlap whatever the seeds are.

Left out on purpose: datasets on disk and several turns; both have a later
place in `rlkit.tasks`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlkit.errors import UserError

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")

#: One problem in HELD_OUT_ONE_IN belongs to the held-out split.
HELD_OUT_ONE_IN = 5

#: A generator that finds no new problem in this many draws has run dry.
MAX_DRAWS = 10_000

#: After so many known problems in a row there is no new one to be expected.
MAX_REPEATS = 500


@dataclass(frozen=True)
class Problem:
    """One question, and what a reward needs to judge an answer to it.

    Attributes:
        key: stable id of the content; equal content has an equal key.
        domain: name of the domain that made it.
        prompt: chat messages, `[{"role": ..., "content": ...}, ...]`.
        columns: what the reward needs, by column name (`answer`, `tests`, ...).
        difficulty: level the problem was drawn at; 1 is the lowest.
    """

    key: str
    domain: str
    prompt: tuple[Mapping[str, str], ...]
    columns: Mapping[str, Any] = field(default_factory=dict)
    difficulty: int = 1

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next(m["content"] for m in reversed(self.prompt) if m["role"] == "user")

    @property
    def split(self) -> Split:
        return split_of(self.key)


def content_key(domain: str, *content: object) -> str:
    """Stable id of a problem's content, for example `arith-3f0c9a1be2d4`."""
    digest = hashlib.sha256("\x1f".join(map(str, content)).encode()).hexdigest()
    return f"{domain}-{digest[:12]}"


def split_of(key: str) -> Split:
    """The split that a problem belongs to: a function of its key alone.

    >>> split_of("arith-000000000000") in SPLITS
    True
    """
    bucket = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16)
    return "held_out" if bucket % HELD_OUT_ONE_IN == 0 else "train"


class Domain:
    """A seeded source of problems of one kind.

    Subclasses set `name`, `reward`, `success`, `levels` and write `draw`.

    Attributes:
        name: what the domain is called on the command line and in records.
        reward: name of the reward the domain trains on, see `rlkit.rewards`.
        success: name of the reward whose value 1.0 means "solved".
        levels: highest difficulty; levels run from 1 to this number.
        max_new_tokens: completion budget that fits a right answer of `tiny`.
    """

    name: str = ""
    reward: str = "exact_answer"
    success: str = "exact_answer"
    levels: int = 1
    max_new_tokens: int = 32

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        """One problem at this difficulty, from either split."""
        raise NotImplementedError(f"{type(self).__name__} must define draw()")

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        """A completion that solves the problem, in the style `tiny` is taught."""
        raise NotImplementedError(f"{type(self).__name__} teaches no answers")

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        """A plausible completion that does not solve the problem."""
        raise NotImplementedError(f"{type(self).__name__} teaches no answers")

    def sample(self, rng: random.Random, difficulty: int = 1, split: Split = "train") -> Problem:
        """One problem of the given split.

        Raises:
            UserError: difficulty out of range, or unknown split.
        """
        self.check_difficulty(difficulty)
        if split not in SPLITS:
            raise UserError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        for _ in range(MAX_DRAWS):
            problem = self.draw(rng, difficulty)
            if problem.split == split:
                return problem
        raise UserError(f"domain {self.name!r} has no {split} problem at difficulty {difficulty}")

    def stream(self, seed: int, difficulty: int = 1, split: Split = "train") -> Iterator[Problem]:
        """Endless problems of one split; the same seed gives the same problems."""
        rng = random.Random(f"{self.name}/{split}/{difficulty}/{seed}")
        while True:
            yield self.sample(rng, difficulty, split)

    def held_out(self, count: int, difficulty: int = 1, seed: int = 0) -> list[Problem]:
        """`count` different held-out problems, or fewer when there are no more."""
        unique: dict[str, Problem] = {}
        stream = self.stream(seed, difficulty, "held_out")
        repeats = 0
        while len(unique) < count and repeats < MAX_REPEATS:
            problem = next(stream)
            repeats = repeats + 1 if problem.key in unique else 0
            unique.setdefault(problem.key, problem)
        return list(unique.values())

    def check_difficulty(self, difficulty: int) -> None:
        if not 1 <= difficulty <= self.levels:
            raise UserError(
                f"difficulty {difficulty} is out of range for domain {self.name!r}; "
                f"choose a level from 1 to {self.levels}"
            )
