"""Prompts: from chat messages to token ids, and what may be asked of a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlkit.errors import UserError
from rlkit.tasks import Problem


def encode_prompt(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """Token ids of rendered messages, generation prompt included.

    The text is tokenised once and carries one beginning-of-sequence id at most: a chat
    template writes its own, and plain text gets the tokenizer's unless it starts with it.
    """
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]
    text = "\n".join(m["content"] for m in messages) + "\n"
    bos = tokenizer.bos_token
    starts = bool(bos) and text.startswith(bos)
    return tokenizer(text, add_special_tokens=not starts)["input_ids"]


def check_request(
    problems: Sequence[Problem], group_size: int, max_new_tokens: int, temperature: float
) -> None:
    """Refuses a request for rollouts that cannot be met.

    Raises:
        UserError: no problems, or a size out of range.
    """
    if not problems:
        raise UserError("there are no problems to answer; give at least one")
    if group_size < 1:
        raise UserError(f"group_size must be at least 1, not {group_size}")
    if max_new_tokens < 1:
        raise UserError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
    if temperature < 0:
        raise UserError(f"temperature must not be negative, not {temperature}")
