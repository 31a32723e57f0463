"""DomainDataset: a curriculum in the place of TRL's dataset.

TRL's sampler walks over numbers and repeats each of them for a group and for every pass
over a batch; that is left to it. Here a number is no row but a place in the schedule: the
problems of a step are drawn when the step is first asked for, with the weights that the
curriculum has by then. Every rank draws all problems of a step, from the same seed and the
same results, and uses its own part, so no rank has to be told what was drawn.

The data loader reads one step ahead. So the problems of step k are drawn from the results
of the steps up to k - 2.

Left out: loading in worker processes, which would have a curriculum of their own, and
shuffling, which would ask for steps out of order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.tasks import Domain, Problem

#: Names that TRL gives a meaning of its own, so no column may carry them.
RESERVED = frozenset(
    (
        *("prompt", "prompts", "completion", "completions", "completion_ids", "image", "images"),
        *("environment", "environments", "trainer_state", "log_extra", "log_metric"),
    )
)
#: Steps whose problems are kept: the one in use, the one read ahead, and one behind.
_KEPT = 3


class DomainDataset(Dataset):
    """Problems of a curriculum, drawn step by step; TRL takes it as `train_dataset`.

    Use `domain_dataset` to make one.
    """

    def __init__(self, curriculum: Curriculum, steps: int, problems_per_step: int) -> None:
        if steps < 1 or problems_per_step < 1:
            raise UserError(
                f"steps and problems_per_step must be 1 or more, not {steps} and "
                f"{problems_per_step}"
            )
        places = Dataset.from_dict({"place": range(steps * problems_per_step)})
        super().__init__(places.data, info=places.info, fingerprint="rlkit-domains")
        self.curriculum = curriculum
        self.steps = steps
        self.problems_per_step = problems_per_step
        self._next = 0  # the step to be drawn next, counted from 0
        self._drawn: dict[int, list[Problem]] = {}
        self._before: dict[int, dict[str, Any]] = {}

    # -- what a data loader asks ---------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            raise UserError(
                f"the column {key!r} cannot be read in advance: problems are drawn step by step"
            )
        return self.__getitems__([key])[0] if isinstance(key, int) else self.__getitems__(key)

    def __getitems__(self, keys: Sequence[int]) -> list[dict[str, Any]]:
        """One row for each place, a fresh dictionary each; absent columns are `None`."""
        problems = [self.problem(int(key)) for key in keys]
        columns = dict.fromkeys(name for p in problems for name in p.columns)
        return [
            {
                "prompt": [dict(message) for message in problem.prompt],
                **{name: problem.columns.get(name) for name in columns},
                "key": problem.key,
                "domain": problem.domain,
                "difficulty": problem.difficulty,
            }
            for problem in problems
        ]

    def problem(self, place: int) -> Problem:
        """The problem at a place; its step is drawn now if nobody has asked for it.

        Raises:
            UserError: the place lies in no step that may be asked for now.
        """
        step, within = divmod(place, self.problems_per_step)
        if step == self._next:
            self._draw()
        if step not in self._drawn:
            raise UserError(
                f"the sampler asked for step {step} while step {self._next} is the next to be "
                "drawn; set shuffle_dataset=False and dataloader_num_workers=0 in GRPOConfig, and "
                f"let a generation batch hold {self.problems_per_step} problems, as the dataset "
                "does"
            )
        return self._drawn[step][within]

    def _draw(self) -> None:
        step = self._next
        self._before[step] = self.curriculum.state_dict()
        problems = self.curriculum.sample(self.problems_per_step)
        for problem in problems:
            if taken := RESERVED & set(problem.columns):
                raise UserError(
                    f"the domain {problem.domain!r} has the column {min(taken)!r}, which has a "
                    "meaning of its own in TRL; give it another name"
                )
        self._drawn[step] = problems
        self._next = step + 1
        for kept in (self._drawn, self._before):
            kept.pop(step - _KEPT, None)

    # -- what it learns -------------------------------------------------------------------

    def observe(self, domain: str, pass_rate: float | None, dead: bool) -> None:
        """Takes in one group's result, see `Curriculum.observe`; on every rank the same."""
        self.curriculum.observe(domain, pass_rate, dead)

    # -- remembering -----------------------------------------------------------------------

    def state_dict(self, steps_done: int) -> dict[str, Any]:
        """What a checkpoint keeps after so many steps (generation batches).

        A step that was read ahead is kept by the state it was drawn from, so that a resumed
        run asks the same problems as one that was never broken off.
        """
        ahead = [self._before[step] for step in range(steps_done, self._next)]
        return {"step": steps_done, "ahead": ahead, "now": self.curriculum.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if never stopped.

        Raises:
            UserError: the state belongs to other domains, or to a longer run.
        """
        if state["step"] > self.steps:
            raise UserError(f"{state['step']} steps are done, and this run has {self.steps} in all")
        self._drawn, self._before = {}, {}
        self._next = state["step"]
        for before in state["ahead"]:
            self.curriculum.load_state_dict(before)
            self._draw()
        self.curriculum.load_state_dict(state["now"])


def domain_dataset(
    domains: Sequence[str | Domain],
    curriculum: Curriculum | None = None,
    *,
    steps: int,
    problems_per_step: int = 8,
) -> DomainDataset:
    """Domains as a dataset whose weights follow the rewards.

    Args:
        domains: names or `Domain` objects.
        curriculum: decides what comes next; by default all domains equally often.
        steps: generation batches in all; one for each update unless TRL reuses them.
        problems_per_step: problems in each, `generation_batch_size // num_generations` of
            TRL's settings.

    Raises:
        UserError: the curriculum is over other domains, or a size below 1.

    >>> data = domain_dataset(["arith"], steps=2, problems_per_step=2)
    >>> len(data)
    4
    >>> [row["domain"] for row in data.__getitems__([0, 0, 1, 1])]
    ['arith', 'arith', 'arith', 'arith']
    """
    chosen = Curriculum(domains) if curriculum is None else curriculum
    wanted = [d if isinstance(d, str) else d.name for d in domains]
    if [d.name for d in chosen.domains] != wanted:
        raise UserError(
            f"the curriculum is over {[d.name for d in chosen.domains]}, the dataset over {wanted}"
        )
    return DomainDataset(chosen, steps, problems_per_step)
