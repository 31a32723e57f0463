"""The probe of a plan: some small real steps in a process of its own, one line of JSON each.

A process keeps the largest memory that it ever held, so what a step takes is measured where
nothing else has run. `ClosedLoop.step` is taken as it is, with curriculum, judge, monitor and
record; stated instead of found are three things: prompts have a given length, answers use
their whole budget, and rewards differ in every group and rise from step to step, so that
nothing is skipped and the copy for a rollback is there, as late in a run.

Run with `python -m rlkit.loop.plan_probe SETTINGS`, where SETTINGS is a JSON object with
`policy`, `quantize`, `rank`, `rollouts`, `learner`, `seed`, `size` (what is planned), and lists
of sizes: `steps` to take, and `generations` that are not learned from.

Seconds are those on the wall; those of the processor (`cpu_s`) go with them, since they do not
depend on what else the machine does.

Left out: the sandbox, which has processes of its own, and evaluations, which need no more
than a step does.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlkit.loop.plan_sizes import Size
from rlkit.tasks import Domain, Problem
from rlkit.tasks.problem import content_key

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "life", "world", "state", "hand")


#: What takes less than so many seconds is done twice, and the better of two is believed.
TWICE = 0.5


def held_mb(field: str = "VmRSS") -> float | None:
    """Memory that this process holds now, or held at most (`VmHWM`), in MB; `None` if unknown."""
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return None


def start_peak() -> None:
    """The largest memory held counts from now on, where the system can do that."""
    with contextlib.suppress(OSError):
        _RESET.write_text("5")


class SizedPrompts(Domain):
    """Questions of about so many tokens, chat template included, and rewards that always differ.

    Args:
        length_of: tokens of a question.
        tokens: how many there should be; a question has a few more where words are long.
    """

    name = "sized"

    def __init__(self, length_of: Callable[[str], int], tokens: int) -> None:
        from rlkit.rewards import Reward

        self.length_of, self.tokens, self.asked = length_of, tokens, 0
        self.reward = self.success = Reward(self._turns, "turns")

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        text = rng.choice(WORDS)
        while (missing := self.tokens - self.length_of(text)) > 0:
            # Most words have one token; a few at a time, so that it is hardly ever too long.
            text += "".join(f" {rng.choice(WORDS)}" for _ in range(max(1, missing // 4)))
        return Problem(
            key=content_key(self.name, text),
            domain=self.name,
            prompt=({"role": "user", "content": text},),
        )

    def _turns(self, completions: list[str], **_: Any) -> list[float]:
        """Every second answer is worth something, whatever it says, and more each time."""
        self.asked += 1
        return [i % 2 + self.asked / 100 for i in range(len(completions))]


class Probe:
    """A policy and its loop, and what they take.

    Args:
        settings: see above.
        tell: called with each row of the answer.
    """

    def __init__(self, settings: Mapping[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        from rlkit.loop.closed_loop import ClosedLoop  # with torch and all
        from rlkit.monitor import Monitor
        from rlkit.monitor.rules import NonFiniteGradient, RewardCollapse
        from rlkit.policy import LoraSpec, Policy
        from rlkit.policy.loading import resolve_source
        from rlkit.policy.saving import saved_policy

        self.tell, self.base = tell, held_mb()
        start_peak()
        options = {n: settings[n] for n in ("quantize", "rollouts", "learner", "seed")}
        own = saved_policy(resolve_source(settings["policy"])) is not None
        lora = None if own else LoraSpec(rank=settings["rank"])
        self.policy = Policy.load(settings["policy"], lora=lora, **options)
        self.load_mb = held_mb("VmHWM")
        self.policy.end_ids = (-1,)  # no token has this id, so no answer ends early
        self.domain = SizedPrompts(self._length, 1)
        self.loop = ClosedLoop(
            self.policy,
            [self.domain],
            _objective(self.policy),
            self._config(Size(1, 2, 1, 2)),
            monitor=Monitor([NonFiniteGradient(), RewardCollapse(window=2, min_drop=1e9)]),
        )

    def facts(self, size: Size) -> None:
        """Tells what is known without a step: shapes, types, and how a step would be cut."""
        policy, config = self.policy, self.policy.model.config.get_text_config()
        engine = policy.sampler.engine
        parameter = next(policy.model.parameters())
        self.tell(
            {
                "kind": "facts",
                "base_mb": self.base,
                "load_mb": self.load_mb,
                "held_mb": held_mb(),
                "about": policy.describe(),
                "context": policy.context,
                "device": parameter.device.type,
                "tokens_at_once": policy.scorer.tokens_at_once(),
                "problems_at_once": policy.sampler.rows_at_once(size.group_size, size.new_tokens),
                "engine": engine is not None,
                "bytes": 4 if policy.sampler.dtype is None else policy.sampler.dtype.itemsize,
                "layers": config.num_hidden_layers,
                "hidden": config.hidden_size,
                "inner": config.intermediate_size,
                "heads": config.num_attention_heads,
                "key_heads": getattr(config, "num_key_value_heads", config.num_attention_heads),
                "head_size": getattr(config, "head_dim", None)
                or config.hidden_size // config.num_attention_heads,
                "vocabulary": config.vocab_size,
            }
        )

    def step(self, size: Size, **note: Any) -> None:
        """Takes one step of a size, and tells seconds and largest memory of both halves."""
        self.domain.tokens = size.prompt_tokens
        self.loop.config = self._config(size)
        seen: dict[str, Any] = {}
        generate = self.policy.generate

        def watched(*args: Any, **more: Any) -> Any:
            start_peak()
            begun = time.process_time()
            groups = generate(*args, **more)
            seen["generate_cpu_s"] = time.process_time() - begun
            seen["generate_mb"] = held_mb("VmHWM")
            start_peak()
            return groups

        self.policy.generate = watched
        begun = time.process_time()
        try:
            record = self.loop.step()
        finally:
            del self.policy.generate
        seen["cpu_s"] = time.process_time() - begun
        prompts = {r.prompt_ids for group in self.loop.batch.groups for r in group.rollouts}
        self.tell(
            {
                "kind": "step",
                **note,
                **replace(size, prompt_tokens=max(map(len, prompts))).to_dict(),
                **seen,
                "update_mb": held_mb("VmHWM"),
                "held_mb": held_mb(),
                "generate_s": record["time/generate"],
                "update_s": record["time/update"],
                "step_s": record["step_time"],
                "stepped": record["stepped"],
            }
        )

    def generate(self, size: Size) -> None:
        """Generates only, from a copy that is there already, and tells the seconds."""
        self.domain.tokens = size.prompt_tokens
        problems = self.loop.curriculum.sample(size.problems)
        seconds = math.inf
        for _ in range(2):
            begun, busy = time.perf_counter(), time.process_time()
            groups = self.policy.generate(problems, size.group_size, size.new_tokens)
            seconds = min(seconds, time.perf_counter() - begun)
            busy = time.process_time() - busy
            if seconds > TWICE:
                break
        longest = max(len(group.rollouts[0].prompt_ids) for group in groups)
        size = replace(size, prompt_tokens=longest)
        found = {"generate_s": seconds, "generate_cpu_s": busy}
        self.tell({"kind": "generate", **size.to_dict(), **found})

    def _config(self, size: Size) -> Any:
        from rlkit.loop.config import LoopConfig

        return LoopConfig(
            problems_per_step=size.problems,
            group_size=size.group_size,
            max_new_tokens=size.new_tokens,
            micro_batch=size.micro_batch,
            micro_batch_tokens=size.micro_batch_tokens,
            inner_epochs=size.inner_epochs,
        )

    def _length(self, text: str) -> int:
        return length_of(self.policy.tokenizer, text)


def length_of(tokenizer: Any, text: str) -> int:
    """Tokens of a question, chat template included."""
    from rlkit.policy.prompts import encode_prompt

    return len(encode_prompt(tokenizer, [{"role": "user", "content": text}]))


def _objective(policy: Any) -> Any:
    """GRPO, with a correction where the sampler rounds."""
    from rlkit.objectives import GRPO, Truncate

    return GRPO() if policy.sampler.exact else GRPO(off_policy=Truncate(2.0))


def probe(settings: Mapping[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
    """Loads the policy and takes the steps that are asked for, and tells of each."""
    from rlkit.errors import UserError

    size = Size(**settings["size"])
    try:
        probe = Probe(settings, tell)
    except UserError as error:
        tell({"kind": "cannot", "why": str(error)})
        return
    probe.facts(size)
    # The first step makes the optimizer's moments, the second the copies of them.
    small = Size(1, 2, min(size.prompt_tokens, 16), 4)
    for _ in range(2):
        probe.step(small, warm=True)
    for one in settings.get("steps", ()):
        probe.step(Size(**one))
    for one in settings.get("generations", ()):
        probe.generate(Size(**one))


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probe(json.loads(sys.argv[1]), lambda row: print(json.dumps(row), flush=True))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
