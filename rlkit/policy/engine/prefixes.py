"""Beginnings that prompts share, read once: a system prompt, worked examples, a document.

Prompts of one batch that begin alike have their common beginning read once and handed to
all of them. What was read is kept, up to a size, for the calls that follow: refills of the
same step, the batches of an evaluation, several questions about one document.

Keys and values belong to the weights that made them, so everything is forgotten when those
change: after an update nothing is found, and the hit rate in the record says so.

A hit changes a number in its last digits, as any other cut of a batch does. A loop that must
be the same after a break therefore forgets at the start of each step.

Short beginnings are not worth the second pass they cost and are left alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from rlkit.policy.engine.decoder import Decoder, Prompts

#: Beginnings shorter than this are not looked for.
SHORTEST = 64
#: Bytes of keys and values that are kept, unless told otherwise.
LIMIT = 1 << 26


@dataclass
class Found:
    """Prompt tokens that were asked for, and those that did not have to be read again."""

    tokens: int = 0
    reused: int = 0

    @property
    def rate(self) -> float | None:
        """Share of the tokens that were reused; `None` before the first."""
        return self.reused / self.tokens if self.tokens else None


class Prefixes:
    """Reads prompts with what is known of their beginnings.

    Args:
        limit: bytes of keys and values that are kept from call to call; 0 keeps nothing.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.found = Found()
        self._of: Decoder | None = None
        self._kept: OrderedDict[tuple[int, ...], Prompts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def bytes(self) -> int:
        """What the kept beginnings take."""
        return sum(one.bytes() for one in self._kept.values())

    def take_stock(self) -> Found:
        """What was found since this was last asked."""
        now, self.found = self.found, Found()
        return now

    def forget(self) -> None:
        """Drops what is kept and counted, so that what follows does not hang on what was before."""
        self._kept.clear()
        self._of = None  # or a copy that has had its day would stay
        self.found = Found()

    def read(self, decoder: Decoder, prompts: Sequence[Sequence[int]]) -> Prompts:
        """As `decoder.read_prompts`, in the same order."""
        if decoder is not self._of:
            self._of = decoder
            self._kept.clear()
        rows = [tuple(prompt) for prompt in prompts]
        self.found.tokens += sum(map(len, rows))
        clusters: dict[tuple[int, ...], list[int]] = {}
        for i, row in enumerate(rows):
            clusters.setdefault(row[:SHORTEST], []).append(i)
        parts, order = [], []
        plain: list[int] = []  # those that share nothing are read together
        for members in clusters.values():
            read = self._cluster(decoder, [rows[i] for i in members])
            if read is None:
                plain += members
            else:
                parts.append(read)
                order += members
        if plain:
            parts.append(decoder.read_prompts([list(rows[i]) for i in plain]))
            order += plain
            for place, i in enumerate(plain):
                self._keep(rows[i], parts[-1], place)
        if len(parts) == 1 and order == list(range(len(rows))):
            return parts[0]
        place_of = {i: place for place, i in enumerate(order)}
        joined = Prompts.join(parts)
        return joined.select(joined.lengths_B.new_tensor([place_of[i] for i in range(len(rows))]))

    def _cluster(self, decoder: Decoder, rows: list[tuple[int, ...]]) -> Prompts | None:
        """Reads prompts that begin alike; `None` where nothing can be saved."""
        # One token of each is left to be read, since its logits are wanted.
        shared = min(_common(rows[0], row) for row in rows)
        shared = min(shared, min(map(len, rows)) - 1)
        if shared < SHORTEST:
            return None
        known, begun = self._best(rows[0][:shared])
        if len(rows) > 1 and shared - known >= SHORTEST:
            rest = [list(rows[0][known:shared])]
            begun = decoder.read_prompts(rest, begun)
            self.found.reused += known
            self._keep(rows[0][:shared], begun, 0)
            self.found.reused += (len(rows) - 1) * shared
            known = shared
        elif begun is None:
            return None
        else:
            self.found.reused += len(rows) * known
        read = decoder.read_prompts([list(row[known:]) for row in rows], begun)
        if len(rows) == 1:
            self._keep(rows[0], read, 0)
        return read

    def _best(self, row: tuple[int, ...]) -> tuple[int, Prompts | None]:
        """The longest known beginning of a prompt, and its length."""
        best, key = 0, None
        for kept in self._kept:
            length = _common(kept, row)
            if length > best:
                best, key = length, kept
        if key is None or best < SHORTEST:
            return 0, None
        self._kept.move_to_end(key)
        return best, self._kept[key].first(best)

    def _keep(self, row: tuple[int, ...], read: Prompts, place: int) -> None:
        """Keeps a prompt's keys and values; the ones used longest ago make room."""
        if len(row) <= SHORTEST or row in self._kept:
            return
        one = read.select(read.lengths_B.new_tensor([place])).first(len(row))
        one = Prompts(
            [k.clone() for k in one.keys], [v.clone() for v in one.values],
            one.lengths_B, one.logits_BV,
        )  # fmt: skip
        if one.bytes() > self.limit:
            return
        self._kept[row] = one
        while self.bytes() > self.limit:
            self._kept.popitem(last=False)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of the common beginning.

    >>> _common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))
