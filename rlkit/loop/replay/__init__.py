"""Counterfactual replay: one batch, and the update that each objective would make of it.

`replay` takes a batch that a run has stored, `Replay.from_batch` one that a loop holds in
memory. Nothing is trained: the run stays as it is, and the policy is put back.
"""

from rlkit.loop.replay.measure import token_logprobs
from rlkit.loop.replay.result import Replay, ReplayedObjective, ReplayedRollout
from rlkit.loop.replay.stored import replay

__all__ = ["Replay", "ReplayedObjective", "ReplayedRollout", "replay", "token_logprobs"]
