"""Training in the background: the same steps, commands between them, nothing swallowed."""

from __future__ import annotations

import _thread
import threading

import pytest

from rlkit import UserError
from rlkit.lab.frontend import headless, mode
from rlkit.lab.live import current, start
from rlkit.lab.live_run import LiveRun


@pytest.fixture
def front_end(monkeypatch):
    """As in a notebook: runs go to the background."""
    monkeypatch.setenv("RLKIT_HEADLESS", "0")


@pytest.fixture
def no_front_end(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")


def hold(loop) -> tuple[threading.Event, threading.Event]:
    """Makes the loop wait at the end of its next step: (reached, let go)."""
    reached, let_go = threading.Event(), threading.Event()

    def callback(record, batch):
        reached.set()
        assert let_go.wait(60)

    loop.callbacks.insert(0, callback)
    return reached, let_go


# -- the same training ---------------------------------------------------------------------


def test_the_background_takes_the_same_steps_as_the_caller(build_loop, front_end):
    by_hand, live = build_loop(seed=3), build_loop(seed=3)
    by_hand.run(3, progress=False)
    run = start(live, 3).wait()
    assert run.state == "finished"
    assert [row["step"] for row in run.history] == [1, 2, 3]
    assert live.policy.fingerprint() == by_hand.policy.fingerprint()
    assert live.policy.version == 3


def test_start_returns_before_the_steps_are_taken_and_in_another_thread(build_loop, front_end):
    loop = build_loop()
    reached, let_go = hold(loop)
    threads = []
    loop.callbacks.append(lambda record, batch: threads.append(threading.current_thread()))
    run = start(loop, 2)
    assert run.state == "running"
    assert reached.wait(60)
    assert loop.steps_done == 1
    let_go.set()
    run.wait()
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()


def test_without_a_front_end_the_steps_are_taken_in_the_caller(build_loop, no_front_end):
    loop = build_loop()
    threads = []
    loop.callbacks.append(lambda record, batch: threads.append(threading.current_thread()))
    run = start(loop, 2)
    assert run.state == "finished"
    assert threads == [threading.current_thread()] * 2
    assert run.wait() is run


# -- commands ---------------------------------------------------------------------------------


def test_single_steps_pause_and_resume(build_loop, front_end):
    loop = build_loop()
    run = start(loop, 6, paused=True)
    assert run.wait().state == "paused"
    assert loop.steps_done == 0
    run.step().wait()
    assert (loop.steps_done, run.state) == (1, "paused")
    run.step(2).wait()
    assert (loop.steps_done, run.state) == (3, "paused")
    run.resume().wait()
    assert (loop.steps_done, run.state) == (6, "finished")
    with pytest.raises(UserError, match=r"has ended \(finished\); start another"):
        run.step()


def test_the_same_commands_without_a_front_end(build_loop, no_front_end):
    loop = build_loop()
    run = start(loop, 4, paused=True)
    assert (loop.steps_done, run.state) == (0, "paused")
    run.step(2)
    assert (loop.steps_done, run.state) == (2, "paused")
    assert run.stop().state == "stopped"
    assert loop.steps_done == 2


def test_pause_and_stop_wait_for_the_step_under_way(build_loop, front_end):
    loop = build_loop()
    reached, let_go = hold(loop)
    run = start(loop, 50)
    assert reached.wait(60)
    run.pause()
    let_go.set()
    assert run.wait().state == "paused"
    assert loop.steps_done == 1
    run.stop()
    assert run.wait().state == "stopped"
    assert run.stop().state == "stopped"  # twice does no harm
    assert loop.steps_done == 1


def test_a_stop_of_the_loop_itself_ends_the_run(build_loop, front_end):
    loop = build_loop()
    loop.callbacks.append(lambda record, batch: loop.stop() if record.step == 2 else None)
    assert start(loop, 50).wait().state == "stopped"
    assert loop.steps_done == 2


def test_the_learning_rate_changes_between_two_steps(build_loop, front_end):
    loop = build_loop()
    run = start(loop, 8, paused=True).step(2).wait()
    before = run.history[-1]["learning_rate"]
    assert before == pytest.approx(loop.config.learning_rate)  # warm-up takes two steps
    run.set_learning_rate_factor(0.25)
    run.step().wait()
    assert run.history[-1]["learning_rate"] == pytest.approx(before / 4)
    with pytest.raises(UserError, match="must be above 0, not 0"):
        run.set_learning_rate_factor(0)
    run.stop().wait()
    run.set_learning_rate_factor(1.0)  # an ended run hands it to the loop
    assert loop.learning_rate == pytest.approx(loop.config.learning_rate)


def test_a_step_by_hand_while_the_run_rests_is_not_the_runs(build_loop, front_end):
    loop = build_loop()
    run = start(loop, 5, paused=True).step().wait()
    loop.step()
    assert [row["step"] for row in run.history] == [1]
    run.step().wait()
    assert [row["step"] for row in run.history] == [1, 3]
    run.stop().wait()


def test_held_out_evaluations_on_the_way_do_not_disturb_training(build_loop, front_end):
    loop, undisturbed = build_loop(seed=5), build_loop(seed=5)
    run = start(loop, 5, evaluate_every=2, problems=4).wait()
    assert [e.step for e in run.evaluations] == [2, 4, 5]
    undisturbed.run(5, progress=False)
    assert loop.policy.fingerprint() == undisturbed.policy.fingerprint()


# -- one run at a time, and again --------------------------------------------------------------


def test_a_second_run_is_refused_while_one_goes(build_loop, front_end):
    loop = build_loop()
    reached, let_go = hold(loop)
    run = start(loop, 2)
    assert reached.wait(60)
    with pytest.raises(UserError, match=r"in training already .*wait\(\) or stop\(\)"):
        start(loop, 2)
    with pytest.raises(UserError, match="in training already"):
        start(loop, 2, fresh=True)
    let_go.set()
    run.wait()
    assert start(loop, 1).wait().state == "finished"
    assert loop.steps_done == 3


@pytest.mark.parametrize("where", ["front_end", "no_front_end"])
def test_running_the_same_cell_twice_says_so_and_offers_a_fresh_start(
    build_loop, where, request, capsys
):
    # public case g_rerun_cell
    request.getfixturevalue(where)
    loop = build_loop(seed=1)
    first = start(loop, 5).wait()
    fingerprint = loop.policy.fingerprint()
    assert capsys.readouterr().out == ""
    start(loop, 5).wait()
    said = capsys.readouterr().out
    assert "continuing from step 5" in said
    assert "fresh=True" in said
    assert loop.steps_done == 10
    again = start(loop, 5, fresh=True).wait()
    assert "continuing" not in capsys.readouterr().out
    assert loop.steps_done == 5
    assert loop.policy.fingerprint() == fingerprint
    assert [r["reward"] for r in again.history] == [r["reward"] for r in first.history]
    assert sum(isinstance(c, LiveRun) for c in loop.callbacks) == 1


def test_a_loop_that_keeps_a_run_directory_is_not_rewound(
    build_loop, no_front_end, tmp_path, capsys
):
    loop = build_loop(run=tmp_path / "run")
    start(loop, 1)
    with pytest.raises(UserError, match="build a loop with another run directory"):
        start(loop, 1, fresh=True)
    assert loop.steps_done == 1
    start(loop, 1)
    assert "another run directory" in capsys.readouterr().out


# -- errors and interrupts ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no such thing"), UserError("give another")])
def test_an_error_is_shown_kept_and_raised_again(build_loop, front_end, capsys, error):
    loop = build_loop()

    def callback(record, batch):
        if record.step == 2:
            raise error

    loop.callbacks.append(callback)
    run = start(loop, 5)
    with pytest.raises(type(error), match=str(error)):
        run.wait()
    assert run.error is error
    assert run.state == "failed"
    assert str(error) in capsys.readouterr().err
    assert str(error) in repr(run)
    loop.callbacks.remove(callback)
    assert start(loop, 1).wait().state == "finished"  # the loop is free again


def test_without_a_front_end_an_error_comes_straight_up(build_loop, no_front_end):
    loop = build_loop()

    def callback(record, batch):
        raise ValueError("no such thing")

    loop.callbacks.append(callback)
    with pytest.raises(ValueError, match="no such thing"):
        start(loop, 5)
    assert current(loop).state == "failed"


def test_an_interrupt_while_waiting_leaves_policy_and_run_usable(build_loop, front_end, capsys):
    loop = build_loop()

    def callback(record, batch):
        if record.step == 2:
            _thread.interrupt_main()

    loop.callbacks.append(callback)
    run = start(loop, 10_000)
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert run.state == "interrupted"
    assert len(run.history) == loop.steps_done < 10_000
    assert "interrupted" in capsys.readouterr().out
    # Whole steps only: the same number of steps without an interrupt gives the same policy.
    undisturbed = build_loop()
    undisturbed.run(loop.steps_done, progress=False)
    assert loop.policy.fingerprint() == undisturbed.policy.fingerprint()
    loop.callbacks.remove(callback)
    assert start(loop, 1).wait().state == "finished"


def test_an_interrupt_before_the_first_step_is_nothing_but_an_interrupt(
    build_loop, no_front_end, monkeypatch
):
    # public case g_interrupt_secondary_error
    loop = build_loop()

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.policy, "generate", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        start(loop, 3)
    assert caught.value.__context__ is None
    run = current(loop)
    assert (run.state, run.history) == ("interrupted", [])
    monkeypatch.undo()
    monkeypatch.setenv("RLKIT_HEADLESS", "1")
    assert start(loop, 1).state == "finished"


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "3"])
def test_steps_must_be_a_whole_number_from_1(build_loop, steps):
    with pytest.raises(UserError, match="steps must be a whole number from 1"):
        start(build_loop(), steps)


def test_only_a_loop_can_be_started():
    with pytest.raises(UserError, match="trains a ClosedLoop, not a str"):
        start("tiny", 3)


# -- front end and mode ----------------------------------------------------------------------------


def test_outside_a_kernel_there_is_no_front_end(monkeypatch):
    monkeypatch.delenv("RLKIT_HEADLESS", raising=False)
    assert headless()
    monkeypatch.setenv("RLKIT_HEADLESS", "0")
    assert not headless()
    monkeypatch.setenv("RLKIT_HEADLESS", "yes")
    with pytest.raises(UserError, match="must be 0 or 1, not 'yes'"):
        headless()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"RLKIT_HEADLESS": "0"}, "full"),
        ({"RLKIT_HEADLESS": "1"}, "fast"),
        ({"RLKIT_HEADLESS": "1", "RLKIT_MODE": "full"}, "full"),
        ({"RLKIT_HEADLESS": "0", "RLKIT_MODE": "fast"}, "fast"),
        ({"RLKIT_HEADLESS": "0", "BINDER_SERVICE_HOST": "x"}, "fast"),
    ],
)
def test_mode(monkeypatch, settings, expected):
    for name in ("RLKIT_HEADLESS", "RLKIT_MODE", "BINDER_SERVICE_HOST", "BINDER_REPO_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert mode() == expected
