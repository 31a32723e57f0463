"""Engine: groups of answers from a merged copy of the policy's model.

Rows that have finished leave the batch as soon as enough of them have: the answers of
one problem stay together, since they share its prompt, so the batch shrinks to the
problems that still run, each with as many rows as the one that has most of them.

Left out on purpose: continuous batching, where new prompts join while others run. A loop
that updates after each batch has nothing to join.

Axes: B problems, G rollouts a problem, N = B x G rows, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlkit.policy.engine import blueprint as plan
from rlkit.policy.engine import weights
from rlkit.policy.engine.adapters import stacks
from rlkit.policy.engine.decoder import Decoder
from rlkit.policy.engine.learner import Learner
from rlkit.policy.engine.prefixes import Prefixes
from rlkit.policy.engine.sampling import Sampling, completes, draw
from rlkit.policy.generation import Sampled, pad_left, position_ids

#: The batch is made smaller when that leaves at most this share of its rows.
SHRINK = 0.8

#: How far log-probabilities of the engine may be from the model's own, mean over tokens.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


class Engine:
    """Generates with a merged copy of a model that `blueprint` knows.

    Args:
        model: the policy's model, `peft` wrapping or not.
        dtype: of the copy; see `rlkit.policy.engine.precision`.

    Raises:
        ValueError: the model is not known; see `blueprint.why_not`.
    """

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        self.blueprint = plan.read(model)
        if self.blueprint is None:
            raise ValueError(plan.why_not(model))
        self.model = model
        self.dtype = dtype
        self._decoder: Decoder | None = None
        self._of: tuple[Any, ...] = ()
        self.prefixes = Prefixes()

    def refresh(self) -> Decoder:
        """The copy of the weights as they are now; merged again when they have changed."""
        now = weights.fingerprint(self.blueprint)
        if self._decoder is None or now != self._of:
            self._decoder = None  # the old copy goes before the new one comes
            self._decoder = Decoder(self.blueprint, weights.merge(self.blueprint, self.dtype))
            self._of = now
        return self._decoder

    def learner(self) -> Learner:
        """The way to train through the copy of the weights as they are now."""
        return Learner(self.refresh())

    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters that training through the copy changes."""
        return [p for layer in stacks(self.blueprint) for p in layer.parameters()]

    def bytes_a_token(self) -> int:
        """What one token of one row takes in the cache."""
        of = self.blueprint
        return 2 * len(of.layers) * of.key_value_heads * of.head_size * self._bytes()

    def bytes_to_learn(self) -> int:
        """About what one token leaves for the way back of `learner`."""
        of = self.blueprint
        layer = of.layers[0]
        hidden = of.embedding.weight.shape[1]
        inner = 2 * plan.base_of(layer.up).out_features
        heads = 2 * of.head_size * (of.heads + of.key_value_heads)
        normed = 2 * hidden + (0 if layer.query_norm is None else heads)
        return len(of.layers) * self._bytes() * (normed + inner + heads)

    def _bytes(self) -> int:
        return torch.finfo(self.dtype).bits // 8

    @torch.no_grad()
    def check(self, prompt: Sequence[int]) -> float:
        """Mean distance (nats) between engine and model in the likelihood of a prompt's tokens.

        What is recognised by its names is believed only after its numbers were seen.
        """
        ids = list(prompt)[:48]
        ids_1P, mask_1P = (t.to(self.model.device) for t in pad_left([ids], 0))
        theirs = self.model(
            input_ids=ids_1P, attention_mask=mask_1P, position_ids=position_ids(mask_1P)
        ).logits[0]
        decoder = self.refresh()
        answers = decoder.begin(decoder.read_prompts([ids[:1]]), 1, len(ids))
        ours = torch.stack([answers.step(ids_1P[0, i : i + 1])[0] for i in range(1, len(ids))])
        theirs = torch.log_softmax(theirs[1:].float(), -1)
        ours = torch.log_softmax(ours.float(), -1)
        likely = theirs.topk(5, dim=-1).indices
        return float((theirs.gather(-1, likely) - ours.gather(-1, likely)).abs().mean())

    @torch.no_grad()
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
        """`group_size` completions for each prompt, group after group.

        Args:
            prompts: B prompts as token ids, without padding.
            uniform_NT: one row of uniform numbers for each of the N completions.
            decode: ids to text; needed when `sampling.stop` is given.

        Returns:
            N completions; the id that ended one is kept and has a log-probability.
        """
        decoder = self.refresh()
        total = len(prompts) * group_size
        ids: list[list[int]] = [[] for _ in range(total)]
        logprobs: list[list[float]] = [[] for _ in range(total)]
        stopped = [False] * total
        read = self.prefixes.read(decoder, prompts)
        logits_NV = read.logits_BV.repeat_interleave(group_size, dim=0)
        answers = decoder.begin(read, group_size, max_new_tokens)
        ends = torch.tensor(sorted(end_ids), device=logits_NV.device)
        # Which completion each row of the batch works on, and whether it still does.
        row_of = list(range(total))
        running = [True] * total
        for t in range(max_new_tokens):
            chosen_N, logprob_N = draw(logits_NV, sampling, uniform_NT[row_of, t])
            over_N = torch.isin(chosen_N, ends).tolist()
            for i, (token, value) in enumerate(
                zip(chosen_N.tolist(), logprob_N.tolist(), strict=True)
            ):
                if not running[i]:
                    continue
                row = row_of[i]
                ids[row].append(token)
                logprobs[row].append(value)
                if over_N[i] or (sampling.stop and completes(ids[row], sampling.stop, decode)):
                    stopped[row], running[i] = True, False
            if not any(running) or t + 1 == max_new_tokens:
                break
            kept = _shrink(running, answers.group)
            if kept is not None:
                problems, rows, group = kept
                answers.keep(torch.tensor(problems), torch.tensor(rows), group)
                row_of = [row_of[i] for i in rows]
                running = [running[i] for i in rows]
                chosen_N = chosen_N[rows]
            logits_NV = answers.step(chosen_N)
        return [Sampled(i, p, s) for i, p, s in zip(ids, logprobs, stopped, strict=True)]


def _shrink(running: list[bool], group: int) -> tuple[list[int], list[int], int] | None:
    """Which problems and rows to go on with, and rows a problem; None to leave all in.

    A problem with fewer running rows than another keeps finished ones as a filling.

    >>> _shrink([True, False, False, False, True, True, False, False], 4)
    ([0, 1], [0, 1, 4, 5], 2)
    >>> _shrink([True] * 9 + [False], 10) is None
    True
    """
    if sum(running) > SHRINK * len(running):
        return None
    problems, kept = [], []
    for problem in range(len(running) // group):
        rows = range(problem * group, (problem + 1) * group)
        alive = [i for i in rows if running[i]]
        if alive:
            problems.append(problem)
            kept.append((alive, [i for i in rows if not running[i]]))
    largest = max(len(alive) for alive, _ in kept)
    if largest * len(kept) > SHRINK * len(running):
        return None
    chosen = [(alive + dead)[:largest] for alive, dead in kept]
    return problems, [i for rows in chosen for i in rows], largest
