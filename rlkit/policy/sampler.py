"""Sampler: which way answers are generated, and how many at once.

`exact` computes with a float32 copy of the weights, adapters merged: the same numbers as
the model's own forward pass to about 1e-5 nats, several times faster. `fast` keeps the
copy in the type that this machine multiplies fastest; sampler and learner are then some
hundredths of a nat apart, which the loop measures. `plain` goes through the model itself,
as every model can that the engine does not know.

Axes: B problems, G rollouts a problem, N = B x G rows, T completion tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from rlkit.errors import UserError
from rlkit.policy.engine import blueprint
from rlkit.policy.engine.precision import fastest_dtype
from rlkit.policy.engine.rollouts import TOLERANCE, Engine
from rlkit.policy.engine.sampling import Sampling
from rlkit.policy.generation import Sampled, sample_groups

RolloutKind = Literal["exact", "fast", "plain"]
KINDS = ("exact", "fast", "plain")

#: Rows that are decoded together, and logits of one token of all of them; more are split.
MAX_ROWS = 256
MAX_LOGITS = 1 << 23
#: Bytes that the keys and values of one batch of answers may take, on a CPU and on a GPU.
MAX_CACHE = 1 << 28
MAX_CACHE_GPU = 1 << 32


class Sampler:
    """Generates for one model, by the best way that was asked for and works.

    Args:
        model: the policy's model.
        kind: `exact`, `fast` or `plain`.
        pad_id: for the plain way.

    Raises:
        UserError: an unknown kind.
    """

    def __init__(self, model: Any, kind: RolloutKind, pad_id: int) -> None:
        if kind not in KINDS:
            raise UserError(f"rollouts={kind!r} is not a way to generate; give {', '.join(KINDS)}")
        self.model = model
        self.pad_id = pad_id
        self.asked = kind
        self.kind: RolloutKind = kind
        self.note = ""
        self.engine: Engine | None = None
        self._checked = False
        if kind == "plain":
            return
        self.note = blueprint.why_not(model)
        if not self.note:
            self.engine = Engine(model, self._dtype())
        elif kind == "fast":
            warnings.warn(f"rollouts='fast' was asked for, but {self.note}", stacklevel=3)
        if self.engine is None:
            self.kind = "plain"

    def _dtype(self) -> torch.dtype:
        parameter = next(self.model.parameters())
        if self.asked == "fast":
            return fastest_dtype(str(parameter.device))
        if parameter.device.type == "cuda":
            embedding = self.model.get_input_embeddings().weight
            return embedding.dtype
        return torch.float32

    @property
    def dtype(self) -> torch.dtype | None:
        """What the copy is computed in; `None` when there is none."""
        return None if self.engine is None else self.engine.dtype

    @property
    def exact(self) -> bool:
        """Whether sampler and learner compute the same numbers."""
        return self.kind != "fast" or self.dtype == torch.float32

    def __str__(self) -> str:
        if self.kind == "plain":
            return f"plain ({self.note})" if self.note else "plain"
        return f"{self.kind}, {str(self.dtype).removeprefix('torch.')}"

    def metrics(self) -> dict[str, float | None]:
        """What a step's record keeps of the sampling since it was last asked."""
        if self.engine is None:
            return {}
        return {"sampling/prefix_hit_rate": self.engine.prefixes.take_stock().rate}

    def forget(self) -> None:
        """Drops kept beginnings of prompts, so that nothing hangs on earlier calls."""
        if self.engine is not None:
            self.engine.prefixes.forget()

    def rows_at_once(self, group_size: int, max_new_tokens: int) -> int:
        """How many problems are answered together, at least one."""
        rows = MAX_ROWS
        if self.engine is not None:
            each = self.engine.bytes_a_token() * max_new_tokens
            on_gpu = next(self.model.parameters()).device.type == "cuda"
            cache = (MAX_CACHE_GPU if on_gpu else MAX_CACHE) // each
            logits = MAX_LOGITS // self.model.config.get_text_config().vocab_size
            rows = max(1, min(MAX_ROWS, cache, logits))
        return max(1, rows // group_size)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group_size: int,
        max_new_tokens: int,
        sampling: Sampling,
        end_ids: Sequence[int],
        uniform_NT: torch.Tensor,
        decode: Callable[[list[int]], str] | None = None,
    ) -> list[Sampled]:
        """`group_size` completions for each of B prompts, group after group; memory is bounded.

        Args:
            uniform_NT: one row of numbers in [0, 1) for each of the N = B x G completions.
            decode: ids to text, needed to stop at texts.
        """
        if self.engine is not None and not self._checked:
            self._check(prompts[0])
        done: list[Sampled] = []
        at_once = self.rows_at_once(group_size, max_new_tokens)
        for start in range(0, len(prompts), at_once):
            part = prompts[start : start + at_once]
            rows = slice(start * group_size, (start + len(part)) * group_size)
            if self.engine is not None:
                done += self.engine.generate(
                    part, group_size, max_new_tokens, sampling, end_ids, uniform_NT[rows], decode
                )
                continue
            done += sample_groups(
                self.model,
                part,
                group_size,
                max_new_tokens,
                sampling.temperature,
                end_ids,
                self.pad_id,
                uniform_NT[rows],
                sampling=sampling,
                decode=decode,
            )
        return done

    def _check(self, prompt: Sequence[int]) -> None:
        """Believes the engine only when its numbers are the model's; once."""
        self._checked = True
        if len(prompt) < 2:
            return
        apart = self.engine.check(prompt)
        if apart <= TOLERANCE[self.engine.dtype]:
            return
        self.note = (
            f"the rollout engine is {apart:.3g} nats away from this model "
            f"({TOLERANCE[self.engine.dtype]:g} is allowed)"
        )
        warnings.warn(f"{self.note}; answers come from the model itself", stacklevel=4)
        self.engine, self.kind = None, "plain"
