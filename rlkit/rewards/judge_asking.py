"""Asking a judge many things at once, whatever kind of judge it is.

One function for all: requests in, one `Reply` for each out, within a deadline and with a
bounded number at a time. An endpoint and a plain function are asked in threads, an `async`
function in an event loop of its own, a policy in batches. What is late is no verdict; a
function that hangs is left behind in its thread.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.judge_client import Endpoint, Reply

#: Rows that a policy answers in one batch; the clock is looked at in between.
POLICY_ROWS = 16
_LATE = Reply(None, "JUDGE_TIMEOUT", "the time for judging was used up")

Chat = list[dict[str, str]]


@dataclass(frozen=True)
class Asking:
    """How a judge is asked.

    Attributes:
        temperature: 0 for the likeliest reply.
        max_tokens: budget of a reply, in tokens.
        concurrency: requests at a time.
        time_limit_s: wall clock of all requests of one call, in seconds.
    """

    temperature: float = 0.0
    max_tokens: int = 512
    concurrency: int = 8
    time_limit_s: float = 600.0


def is_policy(judge: Any) -> bool:
    """Whether it is a policy: it generates for problems, and can count a prompt's tokens."""
    return callable(getattr(judge, "generate", None)) and callable(getattr(judge, "encode", None))


def name_of(judge: Any) -> str:
    """What a cache knows the judge by; another state of a policy has another name."""
    if isinstance(judge, Endpoint):
        return judge.name
    if is_policy(judge):
        trained = judge.fingerprint() if hasattr(judge, "fingerprint") else ""
        return f"policy {getattr(judge, 'name', '')} {trained}".strip()
    return f"function {getattr(judge, 'model', '')}"


def marks_of(judge: Any) -> list[str]:
    """The special tokens of the judge's own tokenizer, where it has one here."""
    tokenizer = getattr(judge, "tokenizer", None)
    return [str(token) for token in getattr(tokenizer, "all_special_tokens", None) or ()]


def ask(judge: Any, chats: Sequence[Chat], how: Asking) -> list[Reply]:
    """One reply for each chat.

    Args:
        judge: an `Endpoint`, a policy, or a function of a chat that gives text.
        chats: what is asked.
        how: see `Asking`.

    Raises:
        UserError: the server refuses its settings.
    """
    deadline = time.monotonic() + how.time_limit_s
    if not chats:
        return []
    if isinstance(judge, Endpoint):

        def request(chat: Chat) -> Reply:
            return judge.chat(
                chat,
                temperature=how.temperature,
                max_tokens=how.max_tokens,
                deadline=deadline,
            )

        return _in_threads(request, chats, how.concurrency, deadline, judge.cancel)
    if is_policy(judge):
        return _in_batches(judge, chats, how, deadline)
    if inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(
        getattr(judge, "__call__", None)  # noqa: B004 - whether calling it gives a coroutine
    ):
        return _in_loop(judge, chats, how.concurrency, deadline)
    return _in_threads(lambda c: _text(judge(c)), chats, how.concurrency, deadline, lambda: None)


def _text(said: Any) -> Reply:
    if said is None:
        return Reply(None, "REFUSED", "the judge gave nothing")
    if not isinstance(said, str):
        return Reply(None, "JUDGE_ERROR", f"the judge gave {type(said).__name__}, not text")
    return Reply(said)


def _fault(error: BaseException) -> Reply:
    return Reply(None, "JUDGE_ERROR", f"the judge raised {type(error).__name__}: {error}"[:300])


def _in_threads(
    request: Callable[[Chat], Reply],
    chats: Sequence[Chat],
    concurrency: int,
    deadline: float,
    cancel: Callable[[], None],
) -> list[Reply]:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Reply | UserError]] = queue.SimpleQueue()
    for i in range(len(chats)):
        waiting.put(i)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                i = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((i, request(chats[i])))
            except UserError as error:
                done.put((i, error))
            except Exception as error:  # a judge of somebody's own may raise anything
                done.put((i, _fault(error)))

    for n in range(min(concurrency, len(chats))):
        threading.Thread(target=work, name=f"rlkit-judge-{n}", daemon=True).start()
    replies = [_LATE] * len(chats)
    try:
        for _ in chats:
            # A little longer than the deadline: a request that notices it itself says more.
            left = deadline + 0.25 - time.monotonic()
            try:
                i, reply = done.get(timeout=max(left, 0.001))
            except queue.Empty:
                cancel()
                break
            if isinstance(reply, UserError):
                raise reply
            replies[i] = reply
    finally:
        stop.set()
    return replies


def _in_loop(
    judge: Callable[[Chat], Any], chats: Sequence[Chat], concurrency: int, deadline: float
) -> list[Reply]:
    replies = [_LATE] * len(chats)

    async def one(i: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                left = deadline - time.monotonic()
                replies[i] = _text(await asyncio.wait_for(judge(chats[i]), max(left, 0.0)))
            except asyncio.TimeoutError:  # the builtin one only since Python 3.11
                replies[i] = _LATE
            except Exception as error:
                replies[i] = _fault(error)

    async def everything() -> None:
        gate = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(one(i, gate) for i in range(len(chats))))

    # A thread of its own: the caller's may have a loop that is running.
    thread = threading.Thread(target=asyncio.run, args=(everything(),), daemon=True)
    thread.start()
    thread.join(max(0.0, deadline + 1.0 - time.monotonic()))
    return list(replies)


def _in_batches(policy: Any, chats: Sequence[Chat], how: Asking, deadline: float) -> list[Reply]:
    from rlkit.tasks import Problem

    replies: list[Reply] = [_LATE] * len(chats)
    fitting = []
    for i, chat in enumerate(chats):
        problem = Problem(f"judge-{i}", "judge", tuple(chat))
        room = getattr(policy, "context", None)
        needed = len(policy.encode(problem)) + how.max_tokens
        if room is not None and needed > room:
            replies[i] = Reply(
                None,
                "TOO_LONG",
                f"prompt and reply need {needed} tokens, and the judge's context has {room}",
            )
        else:
            fitting.append((i, problem))
    for start in range(0, len(fitting), POLICY_ROWS):
        if time.monotonic() >= deadline:
            break
        part = fitting[start : start + POLICY_ROWS]
        groups = policy.generate(
            [problem for _, problem in part],
            group_size=1,
            max_new_tokens=how.max_tokens,
            temperature=how.temperature,
        )
        for (i, _), group in zip(part, groups, strict=True):
            replies[i] = _text(group.rollouts[0].text)
    return replies
