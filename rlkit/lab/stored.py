"""stored_rollouts: completions that `tiny` really wrote, with the truth about each of them.

2,000 of them lie in the package, in groups of 8, sampled at five moments of one training
run over arith, sort, countdown and pyfunc, so that quality varies. A reward can be tried
on them in a moment, without a model. Those of a run directory can be loaded the same way.

The truth of a completion is what its domain's own verifier says, never the reward that is
being tried. File: one line of facts, then one line a group, as gzipped JSON; its SHA-256
stands in `facts.json` beside it.

    python -m rlkit.lab.stored --make OUT --seed 0    makes the file anew (minutes)

Left out on purpose: token ids. A reward reads text; what training needs comes from a run.

Axes: B groups, G rollouts of a group, N rollouts in all.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rlkit.errors import UserError

DATA = Path(__file__).with_name("data")
FILE, FACTS = "rollouts.jsonl.gz", "facts.json"


@dataclass(frozen=True)
class StoredRollout:
    """One completion as it was sampled, and the truth about it.

    Attributes:
        text: what the policy wrote.
        truth: what the domain's own verifier gave, from 0 to 1; `None` without a verdict.
        logprob: log-probability of the whole completion under the policy that wrote it,
            summed over its tokens (nats); `None` where it was not kept.
        length: its number of tokens, the end-of-sequence token included.
        finish_reason: `stop`, `length` (cut off at the budget) or `error`.
    """

    text: str
    truth: float | None
    logprob: float | None
    length: int
    finish_reason: str

    @property
    def solved(self) -> bool | None:
        """Whether it solves its problem; `None` when nobody knows."""
        return None if self.truth is None else self.truth >= 1.0


@dataclass(frozen=True)
class StoredGroup:
    """The completions of one problem at one moment of training.

    Attributes:
        key: id of the problem; the same problem at two moments has the same key.
        domain, difficulty: where the problem came from.
        step: updates that the policy had seen when it answered.
        prompt: chat messages.
        columns: what a reward needs, by name.
        budget: most tokens that a completion could have; `None` where it was not kept.
        rollouts: the completions.
    """

    key: str
    domain: str
    difficulty: int
    step: int
    prompt: tuple[Mapping[str, str], ...]
    columns: Mapping[str, Any]
    budget: int | None
    rollouts: tuple[StoredRollout, ...]

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return next(m["content"] for m in reversed(self.prompt) if m["role"] == "user")


@dataclass(frozen=True)
class StoredRollouts:
    """N completions in B groups, with everything that a reward is called with.

    Attributes:
        groups: the groups, in order; rollouts are numbered group after group.
        facts: where they come from.
        left_out: a sentence on what could not be loaded; empty when nothing is missing.

    >>> stored = stored_rollouts()
    >>> len(stored), len(stored.groups), stored.domains
    (2000, 250, ('arith', 'sort', 'countdown', 'pyfunc'))
    """

    groups: tuple[StoredGroup, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""

    def __post_init__(self) -> None:
        if not self.groups:
            raise UserError("there are no rollouts here; choose other domains or steps")

    def __len__(self) -> int:
        return len(self.rollouts)

    def __iter__(self) -> Iterator[StoredRollout]:
        return iter(self.rollouts)

    def __repr__(self) -> str:
        steps = ", ".join(map(str, self.steps))
        return (
            f"StoredRollouts({len(self):,} rollouts in {len(self.groups):,} groups; "
            f"{', '.join(self.domains)}; steps {steps})"
        )

    @cached_property
    def rollouts(self) -> tuple[StoredRollout, ...]:
        """The N rollouts, group after group."""
        return tuple(rollout for group in self.groups for rollout in group.rollouts)

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """The number of its group, for each of the N rollouts."""
        return tuple(b for b, group in enumerate(self.groups) for _ in group.rollouts)

    @cached_property
    def first_of(self) -> tuple[int, ...]:
        """The number of its first rollout, for each of the B groups."""
        starts, count = [], 0
        for group in self.groups:
            starts.append(count)
            count += len(group.rollouts)
        return tuple(starts)

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains, in the order of their first group."""
        return tuple(dict.fromkeys(group.domain for group in self.groups))

    @property
    def steps(self) -> tuple[int, ...]:
        """The moments of training that are here."""
        return tuple(sorted({group.step for group in self.groups}))

    @property
    def texts(self) -> list[str]:
        """The N completions."""
        return [rollout.text for rollout in self.rollouts]

    @property
    def solved(self) -> list[bool | None]:
        """Whether each of the N completions solves its problem."""
        return [rollout.solved for rollout in self.rollouts]

    def where(
        self,
        *,
        domain: str | Sequence[str] | None = None,
        step: int | Sequence[int] | None = None,
    ) -> StoredRollouts:
        """The groups of these domains and steps alone.

        Raises:
            UserError: a domain or a step that is not here.

        >>> stored_rollouts().where(domain="sort", step=0).domains
        ('sort',)
        """
        domains = _wanted("domain", domain, self.domains)
        steps = _wanted("step", step, self.steps)
        kept = tuple(g for g in self.groups if g.domain in domains and g.step in steps)
        return StoredRollouts(kept, self.facts, self.left_out)

    @cached_property
    def calls(self) -> tuple[tuple[list[int], dict[str, list[Any]]], ...]:
        """How a reward is called: one call a domain, as in training.

        Each is the numbers of its rollouts, and the keyword columns with one row for each.
        """
        made = []
        for domain in self.domains:
            groups = [(b, g) for b, g in enumerate(self.groups) if g.domain == domain]
            numbers = [self.first_of[b] + i for b, g in groups for i in range(len(g.rollouts))]
            rows = [group for _, group in groups for _ in group.rollouts]
            names = dict.fromkeys(name for _, group in groups for name in group.columns)
            columns: dict[str, list[Any]] = {
                name: [group.columns.get(name) for group in rows] for name in names
            }
            columns["completions"] = [self.rollouts[n].text for n in numbers]
            columns["prompts"] = [[dict(m) for m in group.prompt] for group in rows]
            columns["finish_reason"] = [self.rollouts[n].finish_reason for n in numbers]
            columns["length"] = [self.rollouts[n].length for n in numbers]
            columns["domain"] = [group.domain for group in rows]
            columns["difficulty"] = [group.difficulty for group in rows]
            made.append((numbers, columns))
        return tuple(made)


def stored_rollouts(source: Any = None) -> StoredRollouts:
    """Loads rollouts: the 2,000 of the package, or those of a run.

    Args:
        source: nothing for the package's own; a file that `--make` wrote; a run directory
            or a `Run`; `StoredRollouts` are given back as they are.

    Raises:
        UserError: nothing there, a damaged file, or a run whose problems are not known.

    >>> stored_rollouts().steps[0]
    0
    """
    if isinstance(source, StoredRollouts):
        return source
    if source is None:
        return _read(DATA / FILE, _shipped_sha256())
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.is_file():
            return _read(path, None)
        if (path / FILE).is_file() and not (path / "config.json").exists():
            return _read(path / FILE, None)
    from rlkit.lab.stored_run import rollouts_of_run

    return rollouts_of_run(source)


def _read(file: Path, sha256: str | None) -> StoredRollouts:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"the rollouts in {str(file)!r} cannot be read: {error}") from error
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise UserError(f"the stored rollouts are damaged: {file.name} is not what it was")
    try:
        facts, *groups = map(json.loads, gzip.decompress(data).decode().splitlines())
        return StoredRollouts(tuple(map(_group_of, groups)), facts)
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, EOFError, OSError, zlib.error) as error:
        raise UserError(
            f"{str(file)!r} holds no stored rollouts ({type(error).__name__}: {error}); "
            "python -m rlkit.lab.stored --make OUT writes such a file"
        ) from error


def _shipped_sha256() -> str:
    return json.loads((DATA / FACTS).read_text(encoding="utf-8"))["sha256"]


def _group_of(row: Mapping[str, Any]) -> StoredGroup:
    return StoredGroup(
        key=row["key"],
        domain=row["domain"],
        difficulty=row["difficulty"],
        step=row["step"],
        prompt=tuple(row["prompt"]),
        columns=row["columns"],
        budget=row["budget"],
        rollouts=tuple(StoredRollout(*rollout) for rollout in row["rollouts"]),
    )


def group_row(group: StoredGroup) -> dict[str, Any]:
    """A group as one line of the file holds it."""
    return {
        "key": group.key,
        "domain": group.domain,
        "difficulty": group.difficulty,
        "step": group.step,
        "prompt": [dict(message) for message in group.prompt],
        "columns": dict(group.columns),
        "budget": group.budget,
        "rollouts": [
            [r.text, r.truth, r.logprob, r.length, r.finish_reason] for r in group.rollouts
        ],
    }


def write_rollouts(file: Path, stored: StoredRollouts) -> str:
    """Writes the rollouts into a file, and returns the file's SHA-256."""
    lines = [stored.facts, *map(group_row, stored.groups)]
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    data = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    file.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _wanted(what: str, wanted: Any, known: Sequence[Any]) -> set[Any]:
    if wanted is None:
        return set(known)
    chosen = {wanted} if isinstance(wanted, (str, int)) else set(wanted)
    if missing := sorted(chosen - set(known)):
        raise UserError(
            f"there are no rollouts of {what} {missing[0]!r} here; "
            f"choose from {', '.join(map(str, known))}"
        )
    return chosen


if __name__ == "__main__":
    from rlkit.lab.stored_making import main

    main()
