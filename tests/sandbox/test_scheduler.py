"""The queue of the sandbox: order, bounds, weights, one flight, cancelling, closing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import CancelledError, wait

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlkit.sandbox.scheduler import Closed, Full, Scheduler, Stopped, settle

SOON = 20.0


@pytest.fixture
def scheduler():
    made = Scheduler(slots=1, capacity=100)
    yield made
    made.close()


class Gate:
    """A job that runs until it is let go or told to stop."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.let_go = threading.Event()
        self.stopped = False

    def __call__(self, stopped, waited):
        self.started.set()
        while not self.let_go.wait(0.002):
            if stopped():
                self.stopped = True
                raise Stopped
        return "gate"


def noting(log: list, name):
    def job(stopped, waited):
        log.append(name)
        return name

    return job


def test_a_result_an_error_and_the_time_in_the_queue(scheduler):
    gate = Gate()
    first = scheduler.submit(gate)
    waits = scheduler.submit(lambda stopped, waited: waited)

    def broken(stopped, waited):
        raise KeyError("mine")

    fails = scheduler.submit(broken)
    gate.started.wait(SOON)
    time.sleep(0.05)
    gate.let_go.set()
    assert first.result(SOON) == "gate"
    assert 0.05 <= waits.result(SOON) < SOON
    with pytest.raises(KeyError, match="mine"):
        fails.result(SOON)
    assert scheduler.submit(lambda stopped, waited: 7).result(SOON) == 7  # the thread lives on


def test_groups_take_turns(scheduler):
    gate, log = Gate(), []
    scheduler.submit(gate, group="gate")
    gate.started.wait(SOON)
    flights = [scheduler.submit(noting(log, f"a{n}"), group="a") for n in range(5)]
    flights += [scheduler.submit(noting(log, f"b{n}"), group="b") for n in range(3)]
    flights += [scheduler.submit(noting(log, "c0"), group="c")]
    gate.let_go.set()
    wait(flights, SOON)
    # One of each group in turn, in the order in which the groups came.
    assert log == ["a0", "b0", "c0", "a1", "b1", "a2", "b2", "a3", "a4"]


def test_a_heavy_job_counts_more_in_its_groups_turn():
    scheduler = Scheduler(slots=2, capacity=100)
    gates, log = [Gate(), Gate()], []
    for gate in gates:
        scheduler.submit(gate, group="gate")
        gate.started.wait(SOON)
    flights = [scheduler.submit(noting(log, f"h{n}"), group="h", weight=2) for n in range(3)]
    flights += [scheduler.submit(noting(log, f"l{n}"), group="l") for n in range(6)]
    for gate in gates:
        gate.let_go.set()
    wait(flights, SOON)
    scheduler.close()
    # A heavy job uses both slots, so for each of them two light ones run. The two light ones
    # of a turn may overtake each other: two threads take them.
    pairs = [log[i : i + 3] for i in range(0, 9, 3)]
    assert [sum(name[0] == "h" for name in part) for part in pairs] == [1, 1, 1]


def test_what_runs_at_a_time_never_weighs_more_than_the_slots():
    scheduler = Scheduler(slots=3, capacity=200)
    lock, now, most = threading.Lock(), [0], [0]

    def weighing(weight):
        def job(stopped, waited):
            with lock:
                now[0] += weight
                most[0] = max(most[0], now[0])
            time.sleep(0.001)
            with lock:
                now[0] -= weight

        return job

    flights = [
        scheduler.submit(weighing(min(w, 3)), weight=w, group=str(w))
        for w in (1, 2, 3, 9, 1, 2) * 15
    ]
    assert all(f.exception(SOON) is None for f in flights)
    assert most[0] == 3
    scheduler.close()


def test_a_heavy_job_is_not_overtaken_for_ever():
    scheduler = Scheduler(slots=2, capacity=100)
    gate, log = Gate(), []
    scheduler.submit(gate, group="gate")
    gate.started.wait(SOON)
    heavy = scheduler.submit(noting(log, "heavy"), group="h", weight=2)
    light = [scheduler.submit(noting(log, "light"), group="l") for _ in range(3)]
    time.sleep(0.05)
    assert log == []  # a slot is free, but the head of the queue needs two
    gate.let_go.set()
    wait([heavy, *light], SOON)
    scheduler.close()
    assert log == ["heavy", "light", "light", "light"]


def test_the_queue_is_bounded_and_who_brings_more_waits():
    scheduler = Scheduler(slots=1, capacity=2)
    gate, log = Gate(), []
    scheduler.submit(gate)
    gate.started.wait(SOON)
    for n in range(2):
        scheduler.submit(noting(log, n))
    with pytest.raises(Full):
        scheduler.submit(noting(log, "no room"), wait=False)
    room = scheduler.room()
    assert not room.done()
    came_in = threading.Event()

    def bring() -> None:
        scheduler.submit(noting(log, 2))
        came_in.set()

    thread = threading.Thread(target=bring)
    thread.start()
    assert not came_in.wait(0.05)
    gate.let_go.set()
    assert came_in.wait(SOON)
    thread.join()
    assert room.result(SOON) is None
    scheduler.submit(noting(log, 3)).result(SOON)
    assert log == [0, 1, 2, 3]
    assert scheduler.room().done()
    scheduler.close()


def test_equal_jobs_fly_once(scheduler):
    gate = Gate()
    first = scheduler.submit(gate, key="k")
    gate.started.wait(SOON)
    others = [scheduler.submit(gate, key="k") for _ in range(3)]
    different = scheduler.submit(lambda stopped, waited: "other", key="l")
    gate.let_go.set()
    assert [f.result(SOON) for f in (first, *others)] == ["gate"] * 4
    assert [f.shared for f in (first, *others, different)] == [False, True, True, True, False]
    assert different.result(SOON) == "other"
    assert (scheduler.started, scheduler.shared) == (2, 3)
    # What has landed is not remembered: that is the cache's work.
    assert not scheduler.submit(lambda stopped, waited: "again", key="k").shared


def test_a_job_goes_on_while_anybody_waits_for_it(scheduler):
    gate = Gate()
    one = scheduler.submit(gate, key="k")
    other = scheduler.submit(gate, key="k")
    gate.started.wait(SOON)
    assert one.cancel()
    assert not gate.stopped
    one.settle(SOON)  # nothing to wait for: it goes on
    gate.let_go.set()
    assert other.result(SOON) == "gate"


def test_cancelling_stops_what_runs_and_forgets_what_waits(scheduler):
    gate, log = Gate(), []
    runs = scheduler.submit(gate, key="k")
    gate.started.wait(SOON)
    waits = scheduler.submit(noting(log, "never"), key="w")
    after = scheduler.submit(noting(log, "after"))
    settle([runs, waits])
    assert gate.stopped
    assert after.result(SOON) == "after"
    assert log == ["after"]
    with pytest.raises(CancelledError):
        runs.result(SOON)
    # Nobody joins a job that was told to stop.
    assert not scheduler.submit(noting(log, "new"), key="k").shared
    assert scheduler.waiting in (0, 1)


def test_cancelling_makes_room():
    scheduler = Scheduler(slots=1, capacity=1)
    gate = Gate()
    scheduler.submit(gate)
    gate.started.wait(SOON)
    waits = scheduler.submit(lambda stopped, waited: 1)
    room = scheduler.room()
    waits.cancel()
    assert room.result(SOON) is None
    fits = scheduler.submit(lambda stopped, waited: 2, wait=False)
    gate.let_go.set()
    assert fits.result(SOON) == 2
    scheduler.close()


def test_closing_stops_everything_and_tells_everybody():
    scheduler = Scheduler(slots=2, capacity=10)
    gates = [Gate(), Gate()]
    flights = [scheduler.submit(gate) for gate in gates]
    for gate in gates:
        gate.started.wait(SOON)
    flights.append(scheduler.submit(lambda stopped, waited: "never"))
    scheduler.close()
    scheduler.close()
    assert all(gate.stopped for gate in gates)
    for flight in flights:
        with pytest.raises(Closed):
            flight.result(SOON)
    with pytest.raises(Closed):
        scheduler.submit(lambda stopped, waited: 1)
    assert not any(thread.is_alive() for thread in scheduler._threads)


def test_closing_lets_go_whoever_waits_for_room():
    scheduler = Scheduler(slots=1, capacity=1)
    gate = Gate()
    scheduler.submit(gate)
    gate.started.wait(SOON)
    scheduler.submit(lambda stopped, waited: 1)
    room, outcome = scheduler.room(), []

    def bring() -> None:
        try:
            scheduler.submit(lambda stopped, waited: 2)
        except Closed as error:
            outcome.append(error)

    thread = threading.Thread(target=bring)
    thread.start()
    time.sleep(0.02)
    scheduler.close()
    thread.join(SOON)
    assert len(outcome) == 1
    assert room.done()


def test_an_idle_thread_keeps_nothing_alive(scheduler):
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    flight = scheduler.submit(lambda stopped, waited, thing=thing: id(thing))
    flight.result(SOON)
    del thing, flight
    for _ in range(200):  # the thread lets go a moment after it delivered
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.005)
    assert gone() is None


def test_many_callers_at_once_lose_nothing():
    scheduler = Scheduler(slots=4, capacity=8)
    results: list[tuple[int, int]] = []

    def caller(number: int) -> None:
        for n in range(100):
            flight = scheduler.submit(
                lambda stopped, waited, n=n: n, key=n % 7, group=number, weight=1 + n % 3
            )
            if n % 11 == 0:
                flight.cancel()
                continue
            results.append((n % 7, flight.result(SOON) % 7))

    threads = [threading.Thread(target=caller, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 6 * (100 - 10)  # n = 0, 11, ..., 99 were given up
    assert all(asked == got for asked, got in results)
    scheduler.close()
    assert (scheduler.waiting, scheduler.running, scheduler._used) == (0, 0, 0)
    assert scheduler._flying == {}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=24))
def test_no_group_is_ever_more_than_one_turn_ahead(groups):
    """With equal weights, while two groups wait, their numbers of finished jobs differ by one."""
    scheduler = Scheduler(slots=1, capacity=100)
    gate, log = Gate(), []
    scheduler.submit(gate, group="gate")
    gate.started.wait(SOON)
    flights = [scheduler.submit(noting(log, g), group=g) for g in groups]
    gate.let_go.set()
    wait(flights, SOON)
    scheduler.close()
    left = {g: groups.count(g) for g in groups}
    done = dict.fromkeys(left, 0)
    for g in log:
        done[g] += 1
        left[g] -= 1
        waiting = [done[other] for other in left if left[other]]
        assert not waiting or max(waiting) - min(waiting) <= 1
    assert sorted(log) == sorted(groups)
