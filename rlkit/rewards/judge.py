"""judge_reward: an answer is worth what a language model says it is, by a rubric.

Reinforcement learning from AI feedback (Bai et al. 2022, "Constitutional AI"; Zheng et al.
2023, "Judging LLM-as-a-Judge" on what such judges get wrong: length, position, flattery).
The judge is a `Policy`, an OpenAI-compatible endpoint, or a function of a chat.

A judge that says nothing usable leaves its row without a verdict, and that is counted: a
reply without scores, a time-out and "out of scope" are never a zero. Only an answer that
is not there is worth 0 without asking.

Left out on purpose: comparing two answers (a reward sees one), tools, and any belief that
the guard of `rlkit.rewards.untrusted` makes a judge immune. Audit it with your judge.
"""

from __future__ import annotations

import math
import secrets
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import completion_text
from rlkit.rewards.extraction import without_thoughts
from rlkit.rewards.judge_asking import Asking, ask, is_policy, marks_of, name_of
from rlkit.rewards.judge_cache import JudgeCache, cache_key
from rlkit.rewards.judge_client import Endpoint
from rlkit.rewards.judge_prompt import VERSION, Case, messages, read, seal
from rlkit.rewards.reward import Reward, Score
from rlkit.rewards.rubric import Rubric

#: How votes become one mark.
COMBINE: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
}
#: A judge reads no more of an answer than this; a longer one is no verdict. In characters.
MAX_CHARS = 16_000
#: Temperature of several votes: at 0 they would all be the same.
VOTING_TEMPERATURE = 0.7


@dataclass(frozen=True)
class Vote:
    """What one reply came to: its marks, or the status that says why there are none."""

    status: str
    marks: Mapping[str, float]
    reason: str = ""


class JudgeReward(Reward):
    """The weighted mean of a judge's marks, from 0 to 1. Made by `judge_reward`.

    The question comes from the column `question` if there is one, else from the prompts.
    Parts: the share of its scale for each criterion, by name.

    Attributes:
        asked: how many times the judge was asked.
        statuses: how many rows ended with each status (`OK`, `UNPARSABLE`, …).
    """

    def __init__(
        self,
        judge: Any,
        rubric: Any,
        *,
        reference: str | None = None,
        votes: int = 1,
        combine: str = "mean",
        asking: Asking | None = None,
        cache: JudgeCache | None = None,
        max_chars: int = MAX_CHARS,
        name: str = "judge_reward",
    ) -> None:
        columns = () if reference is None else (reference,)
        super().__init__(self._run, name, columns, bounds=(0.0, 1.0))
        self.judge = judge
        self.rubric = Rubric.of(rubric)
        self.reference = reference
        self.votes = votes
        self.combine = combine
        self.asking = asking or Asking()
        self.cache = cache
        self.max_chars = max_chars
        self.asked = 0
        self.statuses: Counter[str] = Counter()
        self._secret = secrets.token_bytes(16)
        self._check()

    def _check(self) -> None:
        known = isinstance(self.judge, Endpoint) or is_policy(self.judge)
        if not known and not callable(self.judge):
            raise UserError(
                "a judge is a Policy, an Endpoint, or a function that answers a chat, not "
                f"{type(self.judge).__name__}"
            )
        taken = [c.name for c in self.rubric.criteria if c.name == self.name]
        if taken:
            raise UserError(f"a criterion cannot have the reward's own name {self.name!r}")
        whole = {
            "votes": self.votes,
            "max_chars": self.max_chars,
            "max_tokens": self.asking.max_tokens,
            "concurrency": self.asking.concurrency,
        }
        for what, value in whole.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"{what} is a whole number from 1 up, not {value!r}")
        if self.combine not in COMBINE:
            raise UserError(f"combine is {' or '.join(COMBINE)}, not {self.combine!r}")
        for what, value, least in (
            ("temperature", self.asking.temperature, 0.0),
            ("time_limit_s", self.asking.time_limit_s, 1e-3),
        ):
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value < least:
                raise UserError(f"{what} is a number from {least:g} up, not {value!r}")
        named = known or isinstance(getattr(self.judge, "model", None), str)
        if not named and self.cache is not None and self.cache.in_file:
            raise UserError(
                "a cache in a file must know which judge gave a verdict; give the function an "
                "attribute: judge.model = 'name and version'"
            )
        if self.votes > 1 and self.asking.temperature == 0:
            raise UserError(
                f"{self.votes} votes at temperature 0 are one vote; give temperature="
                f"{VOTING_TEMPERATURE}, or votes=1"
            )

    async def score_async(self, **columns: Any) -> list[Score]:
        """As `score`, while the event loop that awaits it goes on with other things."""
        import asyncio

        return await asyncio.to_thread(lambda: self.score(**columns))

    # -- one call -----------------------------------------------------------------------------

    def _run(
        self,
        *,
        completions: Sequence[str],
        prompts: Any = None,
        log_metric: Any = None,
        **columns: Any,
    ) -> list[Score]:
        questions = self._questions(len(completions), prompts, columns.get("question"))
        references = columns.get(self.reference) if self.reference else None
        cases: list[Case | None] = []
        for i, text in enumerate(completions):
            answer = without_thoughts(text)
            known = None if references is None or references[i] is None else str(references[i])
            empty = answer is None or not answer.strip()
            cases.append(None if empty else Case(questions[i], answer.strip(), known))
        votes = self._collect(list(dict.fromkeys(c for c in cases if c is not None)))
        scores = [self._none() if c is None else self._combined(votes[c]) for c in cases]
        self.statuses.update(score.status for score in scores)
        if callable(log_metric):
            known = [s for s in scores if s.value is not None]
            log_metric(f"rewards/{self.name}/abstained", 1 - len(known) / len(scores))
        return scores

    def _questions(self, rows: int, prompts: Any, column: Any) -> list[str]:
        given = prompts if column is None else column
        if given is None:
            raise UserError(
                f"reward {self.name!r} must know what was asked: give prompts, or a column "
                "'question'"
            )
        if isinstance(given, (str, bytes)) or len(given) != rows:
            raise UserError(f"reward {self.name!r} needs one question for each completion")
        return [_question(one) for one in given]

    def _collect(self, cases: Sequence[Case]) -> dict[Case, list[Vote]]:
        """The votes on each case: from the cache, and from the judge for the rest."""
        judge = name_of(self.judge)
        how = (self.asking.temperature, self.asking.max_tokens, VERSION)
        wanted: dict[tuple[Case, int], bytes] = {}
        votes: dict[Case, list[Vote]] = {case: [] for case in cases}
        for case in cases:
            if len(case.answer) > self.max_chars or len(case.question) > self.max_chars:
                reason = f"question or answer is longer than {self.max_chars:,} characters"
                votes[case].append(Vote("TOO_LONG", {}, reason))
                continue
            for n in range(self.votes):
                wanted[case, n] = cache_key(self.rubric.key, judge, how, case.content(), n)
        known = self.cache.get(list(wanted.values())) if self.cache is not None else {}
        open_, chats, seals = [], [], []
        marks = marks_of(self.judge)
        for (case, n), key in wanted.items():
            if key in known:
                votes[case].append(Vote(**known[key]))
                continue
            word = seal(self._secret, self.rubric, case, n)
            open_.append((case, key))
            seals.append(word)
            chats.append(messages(self.rubric, case, word, marks))
        self.asked += len(chats)
        learned: dict[bytes, Any] = {}
        replies = ask(self.judge, chats, self.asking)
        for (case, key), word, reply in zip(open_, seals, replies, strict=True):
            if reply.text is None:
                votes[case].append(Vote(reply.status, {}, reply.reason))
                continue
            vote = Vote(**vars(read(reply.text, self.rubric, word)))
            votes[case].append(vote)
            if vote.status in ("OK", "OUT_OF_SCOPE"):
                learned[key] = asdict(vote)
        if self.cache is not None:
            self.cache.put(learned)
        return votes

    # -- from votes to a score -------------------------------------------------------------------

    def _none(self) -> Score:
        nothing: dict[str, float | None] = {c.name: 0.0 for c in self.rubric.criteria}
        return Score(0.0, "NO_ANSWER", nothing, "there is no answer to judge")

    def _combined(self, votes: Sequence[Vote]) -> Score:
        valid = [vote for vote in votes if vote.status == "OK"]
        empty: dict[str, float | None] = {c.name: None for c in self.rubric.criteria}
        if 2 * len(valid) <= len(votes):
            failed = Counter(vote.status for vote in votes if vote.status != "OK")
            status = failed.most_common(1)[0][0]
            reason = next(vote.reason for vote in votes if vote.status == status)
            if len(votes) > 1:
                reason = f"{len(votes) - len(valid)} of {len(votes)} votes gave none; {reason}"
            return Score(None, status, empty, reason)
        together = COMBINE[self.combine]
        marks = {c.name: together([v.marks[c.name] for v in valid]) for c in self.rubric.criteria}
        told = ", ".join(f"{c.name} {marks[c.name]:g} of {c.high}" for c in self.rubric.criteria)
        if len(votes) > 1:
            values = [self.rubric.value(vote.marks) for vote in valid]
            told += f" ({len(valid)} of {len(votes)} votes, {min(values):g} to {max(values):g})"
        return Score(
            self.rubric.value(marks),
            "OK",
            {**self.rubric.shares(marks)},
            told,
            contributions=self.rubric.contributions(marks),
        )

    # -- copies ----------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> JudgeReward:
        copied = self.__copy__()
        copied.statuses = Counter(self.statuses)
        return copied  # judge and cache are shared: neither holds a state of the reward


def judge_reward(
    judge: Any = None,
    rubric: Any = "How good is the answer to the question?",
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    reference: str | None = None,
    votes: int = 1,
    combine: str = "mean",
    temperature: float | None = None,
    max_tokens: int = 512,
    concurrency: int = 8,
    timeout_s: float = 60.0,
    time_limit_s: float = 600.0,
    cache: JudgeCache | str | Path | bool = True,
    max_chars: int = MAX_CHARS,
    name: str = "judge_reward",
) -> JudgeReward:
    """A reward that asks a judge, by a rubric.

    Args:
        judge: a `Policy`, an `Endpoint`, or a function (plain or `async`) that takes chat
            messages and gives text. Give a policy of its own: judging moves the random
            stream of one that is being trained.
        rubric: see `Rubric.of`: a sentence, `{name: sentence}`, or `Criterion`s.
        base_url, model, key_env: in place of `judge`: address and model of an
            OpenAI-compatible server, and the environment variable that holds its key.
        reference: column with a right answer that the judge may compare with.
        votes: how often each answer is judged; more than half must give marks.
        combine: `"mean"` or `"median"` of the votes, for each criterion.
        temperature: 0 for one vote, 0.7 for several, unless given.
        max_tokens: budget of a reply, its thoughts included, in tokens.
        concurrency: requests at a time.
        timeout_s: wall clock of one request to `base_url`, in seconds.
        time_limit_s: wall clock of all requests of one call, in seconds.
        cache: `True` keeps verdicts in memory, a path in a file, `False` not at all.
        max_chars: a longer answer is no verdict, in characters.
        name: name of the part.

    Raises:
        UserError: no judge or two, a rubric that is none, a number out of range.

    >>> def strict(chat):  # stands for a model: it must end in the line that is asked for
    ...     line = chat[-1]["content"].rsplit("SCORES ", 1)[1].split(":")[0]
    ...     return f"It is right but long. SCORES\\nSCORES {line}: right=10 brief=4"
    >>> judge = judge_reward(strict, {"right": "Is it right?", "brief": "Is it brief?"})
    >>> score = judge.score(completions=["Four."], prompts=["What is 2 + 2?"])[0]
    >>> score.value, score.parts
    (0.7, {'judge_reward': 0.7, 'right': 1.0, 'brief': 0.4})
    >>> judge(completions=["Four."], prompts=["What is 2 + 2?"]), judge.asked
    ([0.7], 1)
    """
    if (judge is None) == (base_url is None):
        raise UserError("give either a judge, or base_url and model of a server")
    if judge is None:
        if model is None:
            raise UserError(f"which model of {base_url!r}? give model=…")
        judge = Endpoint(base_url, model, key_env=key_env, timeout_s=timeout_s)
    elif model is not None or key_env is not None:
        raise UserError("model and key_env belong to base_url; a judge brings its own")
    several = isinstance(votes, int) and votes > 1
    if temperature is None:
        temperature = VOTING_TEMPERATURE if several else 0.0
    if isinstance(cache, bool):
        kept = JudgeCache() if cache else None
    else:
        kept = cache if isinstance(cache, JudgeCache) else JudgeCache(cache)
    return JudgeReward(
        judge,
        rubric,
        reference=reference,
        votes=votes,
        combine=combine,
        asking=Asking(temperature, max_tokens, concurrency, time_limit_s),
        cache=kept,
        max_chars=max_chars,
        name=name,
    )


def _question(prompt: Any) -> str:
    """What was asked, as text: the last user turn of a chat, with what was said before it."""
    if prompt is None:
        return ""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Sequence) and all(isinstance(m, Mapping) for m in prompt):
        turns = [m for m in prompt if m.get("role") != "system"]
        if len(turns) == 1:
            return _said(turns[0])
        return "\n".join(f"{m.get('role', 'user')}: {_said(m)}" for m in turns)
    return completion_text(prompt)


def _said(message: Mapping[str, Any]) -> str:
    return completion_text({**message, "role": "assistant"})
