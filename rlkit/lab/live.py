"""start: trains a loop while the notebook stays yours.

A cell that trains blocks the kernel, and every slider and button with it. So `start`
returns at once, and a `LiveRun` takes the steps in a background thread. Without a
notebook front end (a script, a test, `RLKIT_HEADLESS=1`) there is nobody to press a
button, and the same steps are taken here and now.

A loop has one run at a time. Which one it is stands in `loop.callbacks`, and nowhere
else, so that nothing outlives the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.lab.frontend import headless
from rlkit.lab.live_run import LiveRun, check_steps

if TYPE_CHECKING:
    from rlkit.loop import ClosedLoop
    from rlkit.loop.state import LoopState


def start(
    loop: ClosedLoop,
    steps: int,
    *,
    evaluate_every: int | None = None,
    problems: int = 200,
    fresh: bool = False,
    paused: bool = False,
    quiet: bool = False,
) -> LiveRun:
    """Trains a loop for `steps` more steps in the background, and returns at once.

    Without a notebook front end the steps are taken here and now. A loop that has
    been trained already goes on, and that is said; `fresh` goes back to its beginning.

    Args:
        loop: the loop to train; it may have one run at a time.
        steps: how many steps to take, beyond those done before.
        evaluate_every: held-out pass@1 after every so many steps and at the end;
            `None` for never.
        problems: held-out problems of such an evaluation.
        fresh: put policy, optimizer, curriculum and monitor back to where they were
            before the first run of this loop.
        paused: wait for `step` or `resume` before the first step.
        quiet: say nothing about going on.

    Raises:
        UserError: a run of this loop is still going, `steps` is not a whole number
            from 1, or a fresh start of a loop that keeps a run directory.
    """
    if not hasattr(loop, "steps_done"):
        raise UserError(f"start() trains a ClosedLoop, not a {type(loop).__name__}")
    check_steps(steps)
    if evaluate_every is not None:
        check_steps(evaluate_every, "evaluate_every")
    before = current(loop)
    if before is not None and before.going:
        raise UserError(
            f"this loop is in training already ({before.state}, step {loop.steps_done} of "
            f"{before.last}); call wait() or stop() on that run first"
        )
    origin = origin_of(loop)
    if fresh:
        start_afresh(loop)
    if loop.steps_done and not quiet:
        again = "start(..., fresh=True) goes back to the beginning"
        if loop.run_directory is not None:
            again = "for a fresh start build a loop with another run directory"
        print(f"continuing from step {loop.steps_done}; {again}")
    run = LiveRun(
        loop,
        steps,
        origin=origin,
        evaluate_every=evaluate_every,
        problems=problems,
        background=not headless(),
    )
    loop.callbacks[:] = [c for c in loop.callbacks if not isinstance(c, LiveRun)] + [run]
    run.begin(paused)
    return run


def current(loop: ClosedLoop) -> LiveRun | None:
    """The latest run of this loop, also one that was interrupted; `None` before the first."""
    return next((c for c in loop.callbacks if isinstance(c, LiveRun)), None)


def origin_of(loop: ClosedLoop) -> LoopState:
    """The loop's state before anybody trained it here."""
    known = (getattr(callback, "origin", None) for callback in loop.callbacks)
    return next((origin for origin in known if origin is not None), None) or loop.state_dict()


def start_afresh(loop: ClosedLoop) -> None:
    """Puts a loop back to where it was before anybody trained it here.

    Raises:
        UserError: a run of it is going, or it keeps a run directory, whose lines would
            then tell of steps that are gone.
    """
    run = current(loop)
    if run is not None and run.going:
        raise UserError("this loop is in training; stop() the run before a fresh start")
    if loop.run_directory is not None:
        raise UserError(
            f"this loop keeps its run in {str(loop.run_directory)!r}, and a run is never "
            "rewritten; for a fresh start build a loop with another run directory"
        )
    loop.load_state_dict(origin_of(loop))
    loop.batch = None
