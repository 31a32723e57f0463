"""Training beside the lab: a short run of `tiny` with the reward that stands in the box.

It trains for real, in the background, with a reward of its own: what is changed in the box
meanwhile does not reach it. Reward and truth are drawn together, because the gap between
them is what one looks for.

Left out on purpose: keeping the run. It is a try; `ClosedLoop(..., run=...)` keeps one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from rlkit.errors import UserError
from rlkit.lab.drawing import add_line, finish, story
from rlkit.lab.frontend import headless
from rlkit.lab.live import start
from rlkit.lab.live_run import LiveRun, check_steps, describe_error
from rlkit.lab.rows import steps_of, values_of
from rlkit.lab.theme import number, template
from rlkit.rewards import Reward

if TYPE_CHECKING:
    from rlkit.loop import Batch
    from rlkit.monitor import StepRecord

#: Problems a step and rollouts a problem: small, so that a step takes about a second.
PROBLEMS, GROUP_SIZE = 8, 8


class TrainingBeside:
    """One short run with a reward. It begins at once, in the background.

    Args:
        reward: what is trained on.
        domains: where the problems come from.
        steps: how many steps.
        seed: decides everything that is sampled.
        changed: called without arguments whenever there is something new to show; from
            the training's own thread.

    Attributes:
        rows: one row of metrics for each step.
        run: the run itself, once the policy is loaded.
        error: why it could not begin, or `None`.

    Raises:
        UserError: `steps` is not a whole number from 1, or there are no domains.
    """

    def __init__(
        self,
        reward: Reward,
        domains: Sequence[str],
        steps: int,
        *,
        seed: int = 0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        check_steps(steps)
        if not domains:
            raise UserError("the reward gives no verdict on any domain, so there is nothing to do")
        self.reward, self.domains, self.steps, self.seed = reward, tuple(domains), steps, seed
        self.rows: list[dict[str, Any]] = []
        self.run: LiveRun | None = None
        self.error: BaseException | None = None
        self._changed = changed
        self._stopped = threading.Event()
        self._ready = threading.Event()
        if headless():
            self._begin()
        else:  # loading a policy takes seconds, and the buttons must not wait for it
            threading.Thread(target=self._begin_safely, daemon=True).start()

    # -- what may be asked of it ------------------------------------------------------------

    def stop(self) -> TrainingBeside:
        """Ends it after the step under way; harmless twice."""
        self._stopped.set()
        if self.run is not None:
            self.run.stop()
        return self

    def wait(self) -> TrainingBeside:
        """Waits until it has ended.

        Raises:
            Exception: whatever ended it, if anything did.
        """
        self._ready.wait()
        if self.error is not None:
            raise self.error
        if self.run is not None:
            self.run.wait()
        return self

    @property
    def state(self) -> str:
        """`loading`, `running`, `finished`, `stopped`, `interrupted` or `failed`."""
        if self.error is not None:
            return "failed"
        if self.run is not None:
            return self.run.state
        return "stopped" if self._ready.is_set() else "loading"

    @property
    def going(self) -> bool:
        return self.state in ("loading", "running", "paused")

    @property
    def sentence(self) -> str:
        """How far it is, in one sentence."""
        fault = self.error or (self.run.error if self.run is not None else None)
        if fault is not None:
            return f"Training failed: {describe_error(fault)}"
        text = f"Training: {self.state}, step {len(self.rows)} of {self.steps}"
        if self.rows:
            row = self.rows[-1]
            text += (
                f", reward {number(row.get('reward'))}, share solved {number(row.get('pass_rate'))}"
            )
        return f"{text}."

    def figure(self) -> go.Figure:
        """Reward and truth of each step."""
        figure = go.Figure(layout={"template": template()})
        steps, stories = steps_of(self.rows), []
        lines = (("your reward", "reward"), ("share solved (truth)", "pass_rate"))
        for index, (name, key) in enumerate(lines):
            values = values_of(self.rows, key)
            add_line(figure, name, steps, values, index)
            stories.append(story(name, steps, values))
        figure.update_yaxes(title_text="mean of a step (no unit)")
        figure.update_layout(showlegend=True)
        caption = (
            "The mean reward of each step and the share of answers that really solve their "
            "problem. Where the reward rises and the share does not, the reward is being gamed."
        )
        return finish(figure, self.rows, (), "Training with it", caption, "Line chart", stories)

    # -- how it is done -----------------------------------------------------------------------

    def __call__(self, record: StepRecord, batch: Batch) -> None:
        """After each step of the loop."""
        self.rows.append(record.to_dict())
        self._changed()

    def run_changed(self, run: LiveRun) -> None:
        self._changed()

    def add_evaluation(self, evaluation: Any) -> None:
        """Nothing is evaluated here."""

    def _begin_safely(self) -> None:
        try:
            self._begin()
        except Exception as error:  # nobody is above this thread: kept for wait(), and shown
            self.error = error
            self._ready.set()
            self._changed()

    def _begin(self) -> None:
        from rlkit.loop import ClosedLoop, LoopConfig
        from rlkit.policy import LoraSpec, Policy

        self._changed()
        policy = Policy.load("tiny", quantize=None, lora=LoraSpec(), seed=self.seed)
        config = LoopConfig(problems_per_step=PROBLEMS, group_size=GROUP_SIZE, seed=self.seed)
        loop = ClosedLoop(policy, self.domains, config=config, reward=self.reward)
        loop.callbacks.append(self)
        if not self._stopped.is_set():
            self.run = start(loop, self.steps, quiet=True)
            if self._stopped.is_set():  # asked for while the run was being made
                self.run.stop()
        self._ready.set()
        self._changed()
