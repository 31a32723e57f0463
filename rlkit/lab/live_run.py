"""LiveRun: steps of a loop taken in one background thread. Made by `rlkit.lab.start`.

What a person wants goes to the thread as a command in a queue: pause, resume, so
many steps more, stop, another learning rate. Commands are obeyed between two steps,
never within one, so whatever happens the policy stands at the end of a whole step.

Without a notebook front end the same turns are taken in the caller.

Left out on purpose: more than one thread, and killing a step under way; a step
takes seconds, and half of one is worth nothing.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol

from rlkit.errors import UserError

if TYPE_CHECKING:
    from rlkit.loop import Batch, ClosedLoop, Evaluation
    from rlkit.loop.state import LoopState
    from rlkit.monitor import StepRecord

#: Seconds between two looks at a run that is being waited for; an interrupt is seen then.
_LOOK = 0.2


class Watcher(Protocol):
    """Whatever stands in `loop.callbacks` and also wants to know of runs."""

    def __call__(self, record: StepRecord, batch: Batch) -> None: ...

    def run_changed(self, run: LiveRun) -> None:
        """The run began, rests, or ended."""

    def add_evaluation(self, evaluation: Evaluation) -> None:
        """The run measured the policy on held-out problems."""


class LiveRun:
    """Some steps of a loop, taken in the background. Made by `start`.

    Attributes:
        loop: the loop that is trained.
        first: steps the loop had done before this run.
        last: step after which the run has done its work.
        history: one row of metrics for each step of this run.
        evaluations: held-out evaluations that this run made.
        error: what ended the run, or `None`; `wait` raises it.
        origin: the loop's state before anybody trained it here, for a fresh start.
    """

    def __init__(
        self,
        loop: ClosedLoop,
        steps: int,
        *,
        origin: LoopState,
        evaluate_every: int | None = None,
        problems: int = 200,
        background: bool = True,
    ) -> None:
        self.loop = loop
        self.first = loop.steps_done
        self.last = loop.steps_done + steps
        self.history: list[dict[str, Any]] = []
        self.evaluations: list[Evaluation] = []
        self.error: BaseException | None = None
        self.origin = origin
        self._evaluate_every = evaluate_every
        self._problems = problems
        self._commands: queue.SimpleQueue[tuple[str, float]] = queue.SimpleQueue()
        self._allowance = 0  # steps that may be taken before the run rests
        self._stopping = False
        self._interrupted = False
        self._outcome: str | None = None  # how it ended, once it has
        self._stepping = False
        self._resting = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="rlkit-live-run", daemon=True)
        self._background = background

    # -- what a person may ask ----------------------------------------------------------

    def step(self, steps: int = 1) -> LiveRun:
        """Takes so many steps more, one unless said, then rests.

        Raises:
            UserError: the run has ended, or `steps` is not a whole number from 1.
        """
        check_steps(steps)
        return self._go("step", steps)

    def resume(self) -> LiveRun:
        """Takes all steps that are left.

        Raises:
            UserError: the run has ended.
        """
        return self._go("resume")

    def pause(self) -> LiveRun:
        """Rests after the step under way; `resume` or `step` goes on."""
        return self._ask("pause")

    def stop(self) -> LiveRun:
        """Ends after the step under way; safe from any thread, and harmless twice."""
        return self._ask("stop")

    def set_learning_rate_factor(self, factor: float) -> LiveRun:
        """Scales the configured learning rate from the next step on.

        Raises:
            UserError: the factor is not above 0.
        """
        if not factor > 0 or factor == float("inf"):
            raise UserError(f"the learning rate's factor must be above 0, not {factor}")
        return self._ask("rate", factor)

    def wait(self) -> LiveRun:
        """Waits until the run has ended or rests.

        Interrupting the kernel while waiting ends the run after the step under way, so
        that policy and run stay usable; a second interrupt does not wait for that.

        Raises:
            KeyboardInterrupt: after an interrupt, when the run has ended.
            Exception: whatever ended the run, as it was raised in the thread.
        """
        try:
            while not self._resting.wait(_LOOK):
                pass
        except KeyboardInterrupt:
            self._interrupted = True
            self.stop()
            print("interrupted: the run ends after the step under way", flush=True)
            while not self._resting.wait(_LOOK):
                pass
            raise
        if self.error is not None:
            raise self.error
        return self

    @property
    def state(self) -> str:
        """`running`, `paused`, `finished`, `stopped`, `interrupted` or `failed`."""
        if self._outcome is not None:
            return self._outcome
        return "paused" if self._resting.is_set() else "running"

    @property
    def going(self) -> bool:
        """Whether it runs or rests, so that the loop is not free for another run."""
        return self._outcome is None

    def __repr__(self) -> str:
        text = f"LiveRun({self.state}: step {self.first + len(self.history)} of {self.last}"
        if self.error is not None:
            text += f", {describe_error(self.error)}"
        return text + ")"

    # -- how it is done ---------------------------------------------------------------------

    def _go(self, command: str, value: float = 0) -> LiveRun:
        with self._lock:
            if not self.going:
                raise UserError(
                    f"this run has ended ({self.state}); start another one with "
                    "rlkit.lab.start(loop, steps)"
                )
            self._resting.clear()  # before the command, so that wait() cannot miss it
            self._commands.put((command, value))
        return self._serve()

    def _ask(self, command: str, value: float = 0) -> LiveRun:
        with self._lock:
            if self.going:
                if command == "stop":
                    self._resting.clear()  # so that wait() waits for the end, also when paused
                self._commands.put((command, value))
            elif command == "rate":
                self.loop.set_learning_rate_factor(value)
        return self._serve()

    def _serve(self) -> LiveRun:
        """In the caller, obeys at once; a thread sees the queue by itself."""
        if self.going and not self._background and not self._stepping:
            self._turn()
        return self

    def begin(self, paused: bool) -> None:
        """Starts the thread, or takes the steps here; called once, by `start`."""
        self._commands.put(("pause" if paused else "resume", 0))
        if self._background:
            self._thread.start()
        else:
            self._turn()

    def _work(self) -> None:
        """The thread: takes its turns until the run has ended."""
        while self.going:
            try:
                self._turn()
                if self.going:
                    self._obey(*self._commands.get())  # rests until somebody asks
            except BaseException as error:
                # There is nobody above to raise it to: it is kept for wait(), and shown.
                self._fail(error)

    def _turn(self) -> None:
        """Obeys what was asked, takes the steps that are allowed, and rests or ends."""
        try:
            self._obey_all()
            self._tell()
            while self._allowance and not self._stopping and self.loop.steps_done < self.last:
                self._take_steps()
                self._obey_all()
        except KeyboardInterrupt:  # only in the caller; a thread never gets one
            self._interrupted = True
            self._end()
            raise
        except BaseException as error:
            self.error = error
            if not self._background:
                self._end()
            raise
        if self._stopping or self.loop.steps_done >= self.last:
            self._end()
            return
        with self._lock:
            if self._commands.empty():
                self._resting.set()
        self._tell()

    def _take_steps(self) -> None:
        goal = min(self.last, self.loop.steps_done + self._allowance)
        self._stepping = True
        try:
            self.loop.run(goal, progress=False)
        finally:
            self._stepping = False
        if self.loop.steps_done < goal and self._allowance:
            self._stopping = True  # somebody called loop.stop() itself

    def __call__(self, record: StepRecord, batch: Batch) -> None:
        """After each step of the loop: remembers, measures, listens."""
        if not self._stepping:
            return  # a step that somebody took by hand while this run rests
        self.history.append(record.to_dict())
        self._allowance -= 1
        every = self._evaluate_every
        if every and (record.step % every == 0 or record.step == self.last):
            evaluation = self.loop.evaluate(self._problems)
            self.evaluations.append(evaluation)
            for watcher in watchers(self.loop):
                watcher.add_evaluation(evaluation)
        self._obey_all()
        if self._stopping or self._allowance <= 0:
            self.loop.stop()

    def _obey_all(self) -> None:
        while not self._commands.empty():
            self._obey(*self._commands.get())

    def _obey(self, command: str, value: float) -> None:
        if command == "step":
            self._allowance += int(value)
        elif command == "resume":
            self._allowance = self.last - self.loop.steps_done
        elif command == "pause":
            self._allowance = 0
        elif command == "stop":
            self._stopping = True
        elif command == "rate":
            self.loop.set_learning_rate_factor(value)
        else:
            raise ValueError(f"no command {command!r}")

    def _fail(self, error: BaseException) -> None:
        self.error = error
        print(f"training ended: {describe_error(error)}", file=sys.stderr, flush=True)
        self._end()

    def _end(self) -> None:
        if self.error is not None:
            outcome = "failed"
        elif self.loop.steps_done >= self.last:
            outcome = "finished"
        else:
            outcome = "interrupted" if self._interrupted else "stopped"
        with self._lock:
            self._outcome = outcome
        try:
            self._tell()
        finally:
            self._resting.set()

    def _tell(self) -> None:
        for watcher in watchers(self.loop):
            watcher.run_changed(self)


def watchers(loop: ClosedLoop) -> list[Watcher]:
    """Those of the loop's callbacks that want to know of runs, too."""
    return [callback for callback in loop.callbacks if hasattr(callback, "run_changed")]


def describe_error(error: BaseException) -> str:
    """An error as a short sentence; its message alone when it is meant for a person."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def check_steps(steps: Any, name: str = "steps") -> None:
    """Raises a UserError unless this is a whole number from 1."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise UserError(f"{name} must be a whole number from 1, not {steps!r}")
