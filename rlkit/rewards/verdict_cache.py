"""What is known about a completion already: grades kept in memory, by content.

The same program under the same tests and limits ends in the same way, unless it ran
into a limit: time depends on what else the machine did, so such grades are not kept,
and neither are faults of the sandbox.

What is kept here is what a reward made of a completion (a score, a grade), so a hit costs
neither the search for the code nor a job. What the sandbox itself found out outlives the
process when it is asked to: `Sandbox(cache=True)`, see `rlkit.sandbox.cache`.

Left out on purpose: a file of its own. Scores follow from verdicts in no time.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

from rlkit.errors import UserError
from rlkit.sandbox import CodecError, Sandbox, Status, encode
from rlkit.sandbox.kept import LASTING

#: Statuses that another run of the same program could change.
UNSTABLE = frozenset(s.name for s in Status if s not in LASTING and s is not Status.REJECTED)


def content_key(sandbox: Sandbox, *content: Any) -> bytes:
    """Equal for equal content under equal limits and the same interpreter (32 bytes).

    Args:
        sandbox: whose settings decide how a program ends.
        content: plain data, see `rlkit.sandbox.encode`.

    Raises:
        UserError: something in the content is not plain data.
    """
    try:
        wire = encode((sandbox.identity, content))
    except CodecError as error:
        raise UserError(
            "a problem's columns must hold plain data (text, numbers, lists, dicts of those): "
            f"{error}"
        ) from None
    return hashlib.sha256(wire).digest()


class VerdictCache:
    """A bounded dict that forgets what was not asked for the longest, and counts.

    May be shared by threads. A pickled copy starts empty.

    Args:
        size: so many entries are kept.

    Attributes:
        hits: how often an entry was found.
        misses: how often it was not.

    Raises:
        UserError: the size is not a whole number from 1 up.

    >>> cache = VerdictCache(size=1)
    >>> cache.put("a", 1); cache.put("b", 2)
    >>> cache.get("a"), cache.get("b"), cache.hits, cache.misses, len(cache)
    (None, 2, 1, 1, 1)
    """

    def __init__(self, size: int = 20_000) -> None:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UserError(f"a cache holds 1 entry or more, not {size!r}")
        self.size = size
        self.clear()

    def clear(self) -> None:
        """Forget everything, the counts included."""
        self._lock = threading.Lock()
        self._held: OrderedDict[Any, Any] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def get(self, key: Any) -> Any:
        """The entry, or None."""
        with self._lock:
            if key not in self._held:
                self.misses += 1
                return None
            self.hits += 1
            self._held.move_to_end(key)
            return self._held[key]

    def put(self, key: Any, value: Any) -> None:
        """Keep an entry, and forget the oldest when there are too many."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self.size:
                self._held.popitem(last=False)

    def __len__(self) -> int:
        return len(self._held)

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["size"])
