"""StepRecord: one step's numbers, as they go to `metrics.jsonl`.

A number that is not finite is written as a hole (`null`) and named in
`nonfinite`, so that nobody reads a made-up value and nothing is lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepRecord:
    """One step.

    Attributes:
        step: number of the step, from 1.
        metrics: values by name, TRL's names where the meaning is the same; `None`
            where there is no value.
        nonfinite: names of the metrics that were NaN or infinite.
    """

    step: int
    metrics: dict[str, float | None] = field(default_factory=dict)
    nonfinite: tuple[str, ...] = ()

    @classmethod
    def of(cls, step: int, metrics: Mapping[str, float | None]) -> StepRecord:
        """A record with its holes marked."""
        bad = tuple(
            name
            for name, value in metrics.items()
            if value is not None and not math.isfinite(value)
        )
        return cls(step, {n: None if n in bad else v for n, v in metrics.items()}, bad)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> StepRecord:
        """A record from a line of `metrics.jsonl`."""
        metrics = {n: v for n, v in row.items() if n not in ("step", "nonfinite")}
        return cls(int(row["step"]), metrics, tuple(row.get("nonfinite", ())))

    def __getitem__(self, name: str) -> float | None:
        return self.metrics.get(name)

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"step": self.step, **self.metrics}
        if self.nonfinite:
            row["nonfinite"] = list(self.nonfinite)
        return row

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False)
