"""Masks of completions that come from elsewhere: a log, another sampler, a padded tensor.

The end is found by its position among all declared end ids, never by the pad id, which
may be one of them. What the policy samples itself needs no mask: it is never padded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def completion_mask(
    rows: Sequence[Sequence[int]], end_ids: Collection[int]
) -> tuple[list[list[int]], list[bool]]:
    """Which tokens belong to each completion, and which completions were cut.

    Args:
        rows: token ids, padded on the right or not.
        end_ids: all ids that end a completion.

    Returns:
        A mask for each row, 1 up to the first end id and 0 behind it; and whether there
        was none, so that the budget cut the row. A row without tokens was not cut.

    >>> completion_mask([[5, 6, 2, 2], [5, 6, 7, 8], []], {2})
    ([[1, 1, 1, 0], [1, 1, 1, 1], []], [False, True, False])
    """
    masks, cut = [], []
    for row in rows:
        end = next((t for t, token in enumerate(row) if token in end_ids), None)
        taken = len(row) if end is None else end + 1
        masks.append([1] * taken + [0] * (len(row) - taken))
        cut.append(end is None and len(row) > 0)
    return masks, cut
