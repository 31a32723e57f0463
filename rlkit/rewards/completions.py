"""One adapter for every shape a completion comes in: text in, text out.

Trainers hand completions over as plain strings, as one chat message, as lists of
messages with tool turns between, as messages whose content is a list of parts, or
as nothing at all. A reward sees a string, always.

What counts is what the policy itself wrote: a tool's or user's words are never
judged as the policy's. Reasoning that a server returns in a field of its own
(`reasoning_content`) is left out here, because it is not part of the answer's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlkit.errors import UserError

#: Roles whose words are the policy's own.
OWN_ROLES = ("assistant", "model", "ai")


def completion_text(completion: Any) -> str:
    """The text of a completion, whatever shape it comes in; `""` when there is none.

    Several assistant turns are joined by a line break; the text parts of one message
    are joined as they are.

    >>> completion_text([{"role": "assistant", "content": "hello"}])
    'hello'
    >>> completion_text([{"role": "assistant", "content": None},
    ...                  {"role": "tool", "content": "7"},
    ...                  {"role": "assistant", "content": [{"type": "text", "text": "It is 7"}]}])
    'It is 7'
    >>> completion_text(None)
    ''

    Raises:
        UserError: the completion is neither text nor chat messages.
    """
    if isinstance(completion, str):
        return completion
    if completion is None:
        return ""
    if isinstance(completion, Mapping):
        return _message_text(completion)
    if isinstance(completion, (list, tuple)):
        if any(isinstance(turn, Mapping) and "role" in turn for turn in completion):
            turns = (completion_text(turn) for turn in completion)
            return "\n".join(text for text in turns if text)
        return "".join(completion_text(part) for part in completion)
    raise UserError(
        f"a completion must be text or chat messages, not {type(completion).__name__}; "
        "give a string, a message {'role': …, 'content': …}, or a list of messages"
    )


def _message_text(message: Mapping[str, Any]) -> str:
    """Text of one message or one content part; what others said is empty."""
    if message.get("role", OWN_ROLES[0]) not in OWN_ROLES:
        return ""
    # A part of another type (an image, a tool call) carries no text of the answer.
    if "role" not in message and message.get("type", "text") not in ("text", "output_text"):
        return ""
    content = message.get("content")
    return completion_text(message.get("text") if content is None else content)


def completion_rows(completions: Any) -> list[str]:
    """The texts of a batch of completions, one for each entry of the list.

    >>> completion_rows(["a", {"role": "assistant", "content": "b"}, None])
    ['a', 'b', '']

    Raises:
        UserError: it is not a list, or an entry is neither text nor messages.
    """
    if completions is None or isinstance(completions, (str, bytes, Mapping)):
        raise UserError(
            "completions must be a list with one entry for each completion, "
            f"not {type(completions).__name__}"
        )
    return [c if isinstance(c, str) else completion_text(c) for c in completions]


def prompt_ends_with(prompt: Any, tag: str) -> bool:
    """Whether the prompt already opens this tag, so that the completion starts inside it.

    True when the prompt's text, or the last message of a chat if the assistant is
    made to begin with it, ends in the tag.

    >>> prompt_ends_with("What is 2 + 2?\\n<think>\\n", "<think>")
    True
    >>> prompt_ends_with([{"role": "user", "content": "Write <think>"}], "<think>")
    False
    """
    if isinstance(prompt, str):
        return prompt.rstrip().endswith(tag)
    if isinstance(prompt, (list, tuple)) and prompt and isinstance(prompt[-1], Mapping):
        last = prompt[-1]
        return last.get("role") in OWN_ROLES and completion_text(last).rstrip().endswith(tag)
    return False


def until_eos(ids: Sequence[int], eos_ids: int | Iterable[int] | None) -> list[int]:
    """The token ids before the first end-of-sequence token: what a reward may read.

    Decode these, never the whole padded row: what follows the end is not part of
    the completion, and the loss does not see it either.

    Args:
        ids: token ids of one completion.
        eos_ids: the id, or all ids, that end a completion; `None` when nothing does.

    >>> until_eos([11, 12, 2, 13, 14], [2])
    [11, 12]
    """
    ends = {eos_ids} if isinstance(eos_ids, int) else set(eos_ids or ())
    for place, token in enumerate(ids):
        if int(token) in ends:
            return [int(t) for t in ids[:place]]
    return [int(t) for t in ids]
