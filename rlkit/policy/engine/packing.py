"""Packing: prompts and answers as one row of tokens each, without padding between them.

What is multiplied by a matrix does not care which answer a token belongs to, so all tokens
stand in one column of M rows: first the prompts, each once, then the answers. Only the
attention needs to know who is whose. For it the tokens are laid out on two grids, prompts
(B, P) and answers (B, G, T), padded on the right, where no earlier token looks.

The last token of an answer predicts nothing and is not read.

Axes: B different prompts, G answers of the one that has most, P prompt tokens, T tokens of
the longest answer that are read, N answers, M packed tokens, S predicted tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Packed:
    """Prompts and answers, packed.

    Attributes:
        ids_M: token ids; prompts first.
        positions_M: place of each token in its sequence.
        prompts: number of packed tokens that belong to prompts.
        prompt_slot: where each prompt token stands on the grid (B, P), flat.
        answer_slot: where each answer token stands on the grid (B, G, T), flat.
        grid: (B, P, G, T).
        lengths_B: tokens of each prompt.
        filling: tokens at the end that belong to nobody, see `round_up`.
        predicts_S: the packed token that each predicted token follows; answer by answer,
            in the order they were given in.
    """

    ids_M: torch.Tensor
    positions_M: torch.Tensor
    prompts: int
    prompt_slot: torch.Tensor
    answer_slot: torch.Tensor
    grid: tuple[int, int, int, int]
    lengths_B: torch.Tensor
    predicts_S: torch.Tensor
    filling: int = 0

    def to(self, device: torch.device | str) -> Packed:
        moved = {
            name: getattr(self, name).to(device)
            for name in self.__dataclass_fields__
            if torch.is_tensor(getattr(self, name))
        }
        return replace(self, **moved)

    def round_up(self) -> Packed:
        """As many tokens as few batches have: up to an eighth more, at the end.

        Kernels that are compiled for each number of rows, as oneDNN's are, would otherwise be
        compiled anew for nearly every batch, and kept.

        >>> packed = pack([[7] * 600], [[1] * 100])
        >>> len(packed.ids_M), len(packed.round_up().ids_M)
        (699, 704)
        """
        total = len(self.ids_M)
        step = max(8, 1 << max(0, total.bit_length() - 4))
        more = -total % step
        nothing = self.ids_M.new_zeros(more)
        return replace(
            self,
            ids_M=torch.cat([self.ids_M, nothing]),
            positions_M=torch.cat([self.positions_M, nothing]),
            filling=self.filling + more,
        )


def pack(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Packed:
    """Packs N answers with their prompts; equal prompts are read once.

    Args:
        prompts: the prompt of each of the N answers, at least one token each.
        answers: token ids of each answer; may be empty.

    >>> packed = pack([[7, 8], [7, 8], [9]], [[1, 2, 3], [4], [5, 6]])
    >>> packed.ids_M.tolist()  # two prompts, then what is read of the answers
    [7, 8, 9, 1, 2, 5]
    >>> packed.positions_M.tolist()
    [0, 1, 0, 2, 3, 1]
    >>> packed.predicts_S.tolist()  # 1, 2, 3 follow 8, 1, 2; 4 follows 8; 5, 6 follow 9, 5
    [1, 3, 4, 1, 2, 5]
    """
    number: dict[tuple[int, ...], int] = {}
    of_answer = [number.setdefault(tuple(prompt), len(number)) for prompt in prompts]
    unique = list(number)
    B, P = len(unique), max(map(len, unique))
    counts = [0] * B
    place = []
    for b in of_answer:
        place.append(counts[b])
        counts[b] += 1
    G = max(counts)
    T = max(0, max(len(answer) - 1 for answer in answers))

    ids: list[int] = []
    positions: list[int] = []
    prompt_slot: list[int] = []
    last: list[int] = []
    for b, prompt in enumerate(unique):
        ids += prompt
        positions += range(len(prompt))
        prompt_slot += range(b * P, b * P + len(prompt))
        last.append(len(ids) - 1)
    total = len(ids)
    answer_slot: list[int] = []
    predicts: list[int] = []
    for answer, b, g in zip(answers, of_answer, place, strict=True):
        read = max(0, len(answer) - 1)
        if len(answer):
            predicts.append(last[b])
        predicts += range(len(ids), len(ids) + read)
        ids += answer[:read]
        start = len(unique[b])
        positions += range(start, start + read)
        answer_slot += range((b * G + g) * T, (b * G + g) * T + read)
    return Packed(
        ids_M=torch.tensor(ids),
        positions_M=torch.tensor(positions),
        prompts=total,
        prompt_slot=torch.tensor(prompt_slot),
        answer_slot=torch.tensor(answer_slot, dtype=torch.long),
        grid=(B, P, G, T),
        lengths_B=torch.tensor([len(prompt) for prompt in unique]),
        predicts_S=torch.tensor(predicts, dtype=torch.long),
    )
