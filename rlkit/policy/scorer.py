"""Scorer: which way rollouts are scored and trained on, and how many tokens at once.

`copy` computes with the merged copy that answers are sampled from, forward and backward, so
that sampler and learner agree and nothing is multiplied twice; base and adapter stay the
masters (`rlkit.policy.engine.learner`). `model` goes through the model itself, a base in
four bits with the live adapter beside it, as every model can. `auto` takes the copy where
the engine knows the model, nothing but its adapters is trained, and the model is on a CPU.

What the copy computes is compared with the model once, and believed only when it agrees.

Axes: N rollouts, T completion tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch

from rlkit.errors import UserError
from rlkit.policy.engine.packing import pack
from rlkit.policy.engine.rollouts import TOLERANCE, Engine
from rlkit.policy.rollout import Rollout
from rlkit.policy.sampler import Sampler
from rlkit.policy.scoring import Padded, Scored, check_scorable, score_rollouts
from rlkit.policy.token_logprobs import token_logprobs

LearnerKind = Literal["auto", "copy", "model"]
KINDS = ("auto", "copy", "model")

#: Tokens, at least, on which copy and model are compared before the copy is believed.
COMPARED = 24
#: Bytes that a micro-batch may leave for its way back, beside the weights, by bytes a number:
#: in float32 a token leaves twice as many, and parts that are too small lose time.
MAX_ACTIVATIONS = {2: 192 << 20, 4: 256 << 20}
#: As many times that are still kept whole; beyond it only each block's input is.
KEPT_WHOLE = 1.5
#: What a token costs when each block is computed twice: a forward pass more, of three.
AGAIN = 4 / 3
#: Times so many tokens that need about as much memory when only the blocks' inputs are kept.
LONGEST = 4


class Scorer:
    """Scores for one model, by the best way that was asked for and works.

    Args:
        model: the policy's model.
        kind: `auto`, `copy` or `model`.
        sampler: whose copy is used.
        pad_id: for the way through the model.

    Raises:
        UserError: an unknown kind, or `copy` where there is no copy.
    """

    def __init__(self, model: Any, kind: LearnerKind, sampler: Sampler, pad_id: int) -> None:
        if kind not in KINDS:
            raise UserError(f"learner={kind!r} is not a way to learn; give {', '.join(KINDS)}")
        self.model = model
        self.sampler = sampler
        self.pad_id = pad_id
        self.asked = kind
        self._compared = False
        self._apart = ""
        if kind == "copy" and self.note:
            raise UserError(f"learner='copy' was asked for, but {self.note}; use learner='auto'")

    @property
    def _engine(self) -> Engine | None:
        return self.sampler.engine

    @property
    def note(self) -> str:
        """Why the copy is not used; empty when it is.

        Asked each time: what is trained may change, and must never go without its gradient.
        """
        if self.asked == "model":
            return "the model was asked for"
        if self._apart:
            return self._apart
        engine = self._engine
        if engine is None:
            return f"answers come from the model itself ({self.sampler})"
        if self.asked == "auto" and next(self.model.parameters()).device.type != "cpu":
            return "the copy's way back is written for processors"
        known = {id(p) for p in engine.trained()}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in known and not _of_value(name):
                return f"{name} is trained, and it is no adapter of a layer that the copy knows"
        return ""

    @property
    def kind(self) -> str:
        """`copy` or `model`: what is done now."""
        return "model" if self.note else "copy"

    def __str__(self) -> str:
        if note := self.note:
            return "model" if self.asked == "model" else f"model ({note})"
        return f"copy, {str(self._engine.dtype).removeprefix('torch.')}"

    def tokens_at_once(self) -> int | None:
        """Prompt and completion tokens to score with gradient at once; `None` for no limit."""
        return None if self.note else self._budget()

    def _budget(self) -> int:
        engine = self._engine
        return max(64, MAX_ACTIVATIONS[min(4, engine.dtype.itemsize)] // engine.bytes_to_learn())

    def score(self, rollouts: Sequence[Rollout]) -> Scored:
        """Log-probabilities and entropies under the model as it is now, see `score_rollouts`."""
        if self.note or any(not r.prompt_ids for r in rollouts):
            return score_rollouts(self.model, rollouts, self.pad_id)
        if not self._compared and rollouts and self._disagrees(rollouts):
            return score_rollouts(self.model, rollouts, self.pad_id)
        return self._through_copy(rollouts)

    def _through_copy(self, rollouts: Sequence[Rollout]) -> Scored:
        temperature = check_scorable(rollouts)
        learner = self._engine.learner()
        device = learner.copy.embedding.device
        packed = pack([r.prompt_ids for r in rollouts], [r.completion_ids for r in rollouts])
        if learner.copy.dtype != torch.float32:
            packed = packed.round_up()
        keep_all = len(packed.ids_M) <= KEPT_WHOLE * self._budget()
        hidden_SH = learner.hidden(packed.to(device), keep_all)
        padded = Padded.of(rollouts, self.pad_id, device)
        taken_S = padded.mask_NT[padded.present_NT]  # those that the policy chose
        if not bool(taken_S.all()):
            hidden_SH = hidden_SH[taken_S]
        weight_VH, bias_V = learner.copy.output()
        ids_M = padded.ids_NT[padded.mask_NT]
        return padded.scored(*token_logprobs(hidden_SH, weight_VH, ids_M, temperature, bias_V))

    @torch.no_grad()
    def _disagrees(self, rollouts: Sequence[Rollout]) -> bool:
        """Compares copy and model on a few answers; once, as soon as there is a token."""
        few: list[Rollout] = []
        for rollout in sorted(rollouts, key=len):  # a lone token could be off by rounding alone
            if sum(map(len, few)) < COMPARED and len(rollout):
                few.append(rollout)
        few = few or list(rollouts[:1])
        theirs = score_rollouts(self.model, few, self.pad_id)
        ours = self._through_copy(few)
        tokens = int(theirs.mask_NT.sum())
        if not tokens:
            return False
        self._compared = True
        apart = float((theirs.logprobs_NT - ours.logprobs_NT).abs().sum()) / tokens
        allowed = TOLERANCE[self._engine.dtype]
        if apart <= allowed:
            return False
        self._apart = f"the copy is {apart:.3g} nats away from this model ({allowed:g} is allowed)"
        warnings.warn(f"{self._apart}; rollouts are scored by the model itself", stacklevel=4)
        return True


def _of_value(name: str) -> bool:
    return name.startswith("value_head.")
