"""Work of a stated size: prompts of so many tokens, and a reward that looks at the text only.

Two engines can be compared only when they do equally much. So the prompts here have an exact
number of tokens (short of it only where no word fits), answers never end early, and the reward
costs nothing and still tells answers apart.

Axes: B problems, G answers a problem, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards import Reward
from rlkit.tasks import Domain, Problem
from rlkit.tasks.problem import content_key

#: Ordinary words, most of them one token of a large vocabulary.
WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world"),
    *("school", "state", "family", "student", "group", "country", "problem", "hand", "part"),
    *("place", "case", "week", "company", "system", "program", "question", "work", "number"),
    *("night", "point", "home", "water", "room", "mother", "area", "money", "story", "fact"),
    *("month", "lot", "right", "study", "book", "eye", "job", "word", "business", "issue"),
    *("side", "kind", "head", "house", "service", "friend", "father", "power", "hour", "game"),
)
_STEM = "Write about this:"
#: No token ends an answer where this is the only one that may: no vocabulary has it.
NEVER = (-1,)


@dataclass(frozen=True)
class Case:
    """The size of one step.

    Attributes:
        name: what it is called on the command line.
        problems, group_size: B and G.
        prompt_tokens: P, chat template included.
        new_tokens: T, of every answer.
    """

    name: str
    problems: int = 4
    group_size: int = 8
    prompt_tokens: int = 48
    new_tokens: int = 24

    def __post_init__(self) -> None:
        if min(self.problems, self.prompt_tokens, self.new_tokens) < 1 or self.group_size < 2:
            raise UserError(
                "problems, prompt tokens and new tokens must be 1 or more and the group size 2 or "
                f"more, not {self.problems}, {self.prompt_tokens}, {self.new_tokens} and "
                f"{self.group_size}"
            )

    @property
    def answers(self) -> int:
        """N = B x G."""
        return self.problems * self.group_size

    @property
    def tokens(self) -> int:
        """Completion tokens of a step."""
        return self.answers * self.new_tokens

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


#: The steps that `rlkit bench step` knows.
CASES = {
    case.name: case
    for case in (
        Case("24"),
        Case("64", new_tokens=64),
        Case("prompt512", prompt_tokens=512),
    )
}


class SizedPrompts(Domain):
    """Requests for a text, each with the same number of prompt tokens.

    Args:
        encode: messages to token ids, chat template included.
        prompt_tokens: how many there shall be.

    Raises:
        UserError: the chat template alone is longer.

    >>> letters = lambda messages: list(messages[0]["content"])
    >>> prompts = SizedPrompts(letters, 40)
    >>> len(prompts.sample(random.Random(0)).question)
    40
    """

    name = "sized"

    def __init__(self, encode: Callable[[list[dict[str, str]]], Sequence[int]], prompt_tokens: int):
        self._encode = encode
        self.prompt_tokens = prompt_tokens
        self.reward = self.success = SHARE_OF_E
        bare = self._length(_STEM)
        if bare >= prompt_tokens:
            raise UserError(
                f"the shortest prompt of this model has {bare + 1} tokens, chat template "
                f"included; ask for that many prompt tokens at least, not {prompt_tokens}"
            )
        self._worst = max(self._length(f"{_STEM} {word}") - bare for word in WORDS)

    def _length(self, text: str) -> int:
        return len(self._encode([{"role": "user", "content": text}]))

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        text = _STEM
        while (missing := self.prompt_tokens - self._length(text)) > 0:
            if missing >= self._worst:
                text += "".join(f" {rng.choice(WORDS)}" for _ in range(missing // self._worst))
                continue
            longer = [f"{text} {word}" for word in rng.sample(WORDS, len(WORDS))]
            longer += [f"{text} {sign}" for sign in "abc123"] + [text + sign for sign in "s.!"]
            fitting = (t for t in longer if 0 < self._length(t) - self._length(text) <= missing)
            found = next(fitting, None)
            if found is None:
                break
            text = found
        return Problem(
            key=content_key(self.name, text),
            domain=self.name,
            prompt=({"role": "user", "content": text},),
        )


def share_of_e(completions: list[str], **columns: Any) -> list[float]:
    """Share of the letters that are an e: dense, free, and never the same for a whole group.

    >>> share_of_e(["eel", "oak", ""])
    [0.6666666666666666, 0.0, 0.0]
    """
    return [text.lower().count("e") / max(1, len(text)) for text in completions]


def mean_remainder(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Mean of the token ids modulo 997, scaled to 0 to 1, for models whose texts are noise.

    >>> mean_remainder([[0, 997], [498, 499], []])
    [0.0, 0.5, 0.0]
    """
    return [sum(i % 997 for i in ids) / (997 * max(1, len(ids))) for ids in completion_ids]


SHARE_OF_E = Reward(share_of_e, bounds=(0.0, 1.0))
MEAN_REMAINDER = Reward(mean_remainder, bounds=(0.0, 1.0))
#: Rewards that a benchmark may ask for.
REWARDS = {"text": SHARE_OF_E, "ids": MEAN_REMAINDER}


def sized_prompts(policy: Any, prompt_tokens: int) -> SizedPrompts:
    """The domain for a policy's tokenizer and chat template."""
    from rlkit.policy.prompts import encode_prompt

    return SizedPrompts(lambda messages: encode_prompt(policy.tokenizer, messages), prompt_tokens)


def some_problems(policy: Any, prompt_tokens: int, count: int, seed: int = 0) -> list[Problem]:
    """`count` different problems of a size."""
    stream = sized_prompts(policy, prompt_tokens).stream(seed)
    found: dict[str, Problem] = {}
    while len(found) < count:
        problem = next(stream)
        found.setdefault(problem.key, problem)
    return list(found.values())
