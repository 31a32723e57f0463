"""The tokenizer of `tiny`: byte-level BPE, lossless on any text, at most 1,024 tokens.

Digits stand alone, so that numbers are written one digit a token. Line breaks
swallow the indentation that follows, so that a line of Python costs few tokens.
Role marks are special tokens and never come from text: a prompt that spells
`<|user|>` is encoded as plain characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY = 1024

PAD, BOS, END = "<|pad|>", "<|bos|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
SPECIAL = (PAD, BOS, END, *ROLES)
#: One token each, but ordinary text: they stay when a completion is decoded.
MARKS = ("<think>", "</think>", "<answer>", "</answer>", "```python\n", "\n```")

_SPLIT = r"\n *|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]|[^\S\n]+"

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] != 'assistant' or not loop.last or not continue_final_message %}"
    "{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], seed_alphabet: Sequence[str] = ()) -> Tokenizer:
    """A byte-level BPE tokenizer trained on these texts.

    The vocabulary is the special tokens, the marks, all 256 bytes, and merges
    up to `VOCABULARY` tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    return tokenizer


def wrap_tokenizer(tokenizer: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    """The `transformers` tokenizer: pad, BOS, EOS and the chat template set."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=list(ROLES),
        padding_side="left",
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        # Text is encoded as text even where it spells a special token.
        split_special_tokens=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
