"""Scheduler: which job runs next, how many at a time, and for whom.

* **Bounded.** No more than `capacity` jobs wait. Whoever brings another one waits until
  there is room (`submit`), or is told when to come again (`room`, for an event loop).
* **Weights.** A job takes one or several of the `slots`; compiling C++ counts more than
  calling a Python function. A heavy job at the head is waited for: light ones do not
  overtake it for ever.
* **Fair.** Each group of jobs has a queue of its own, and the group that has used least
  goes first (start-time fair queueing: Goyal, Vin and Cheng, 1996). One job beside a
  batch of a thousand waits for one job, not for a thousand. There are no priorities.
* **One flight.** Equal jobs (the same `key`) that wait or run at the same moment run once,
  whoever asked, and everybody gets the result.
* **Cancelling** a future takes its job out of the queue, or stops it while it runs, once
  nobody else waits for it.

Left out on purpose: what a job is. The scheduler runs functions in threads, and the
front (`sandbox.py`) says what they do.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from itertools import count
from typing import Any

#: A worker looks up so often even when nobody woke it, in seconds.
_LOOK_UP_S = 30.0


class Stopped(Exception):
    """Raised by a job's function when it ended because it was told to."""


class Closed(Exception):
    """The scheduler was closed while a job waited or ran."""


class Full(Exception):
    """As many jobs wait as may wait."""


class Flight(Future):
    """The future of one caller. Cancelling it stops its job when nobody else waits for it.

    Attributes:
        shared: whether an equal job was on its way already.
    """

    shared = False
    _work: _Work

    def settle(self, timeout: float | None = None) -> None:
        """Wait until a job that was stopped with this future no longer runs."""
        if self._work.stopped:
            self._work.over.wait(timeout)


class _Work:
    """One job on its way, and the futures of those who wait for it."""

    __slots__ = ("flights", "function", "group", "key", "over", "queued_at", "stopped", "weight")

    def __init__(self, function: Callable, key: Hashable, group: Hashable, weight: int) -> None:
        self.function = function
        self.key = key
        self.group = group
        self.weight = weight
        self.queued_at = time.monotonic()
        self.flights: list[Flight] = []
        self.stopped = False
        self.over = threading.Event()


class Scheduler:
    """Runs functions, a bounded number at a time, and keeps the order fair.

    Args:
        slots: what may run at a time, in weights; also the most threads.
        capacity: how many jobs may wait.
        name: of the threads, for those who look at them.

    Attributes:
        started, shared: how many jobs were run, and how many callers were given the result of
            an equal one that was on its way.

    >>> scheduler = Scheduler(slots=1, capacity=8)
    >>> scheduler.submit(lambda stopped, waited: "done").result()
    'done'
    >>> scheduler.close()
    """

    def __init__(self, slots: int, capacity: int, name: str = "rlkit-sandbox") -> None:
        self.slots = slots
        self.capacity = capacity
        self.started = 0
        self.shared = 0
        # Reentrant: the garbage collector may close a forgotten sandbox in any line of ours.
        self._lock = threading.RLock()
        self._work_to_do = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._coming_again: deque[Future] = deque()
        self._queues: dict[Hashable, deque[_Work]] = {}
        self._order: list[tuple[float, int, Hashable]] = []  # a heap of the groups that wait
        self._virtual_time = 0.0
        self._ticks = count()
        self._flying: dict[Hashable, _Work] = {}
        self._running: set[_Work] = set()
        self._waiting = 0
        self._used = 0
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._name = name
        self.closing = False

    @property
    def waiting(self) -> int:
        """How many jobs wait now."""
        return self._waiting

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return len(self._running)

    def submit(
        self,
        function: Callable[[Callable[[], bool], float], Any],
        *,
        key: Hashable = None,
        group: Hashable = "",
        weight: int = 1,
        wait: bool = True,
    ) -> Flight:
        """Put a job into the queue of its group.

        Args:
            function: does the job. It is given a function that says whether it should stop,
                to be asked often, and the seconds that it waited in the queue; it raises
                `Stopped` when it did stop.
            key: equal keys are equal jobs; None is equal to nothing.
            group: on whose account the job runs.
            weight: how many slots it takes, at most all of them.
            wait: whether to wait for room in the queue.

        Raises:
            Full: there is no room, and `wait` is False.
            Closed: the scheduler is closed.
        """
        flight = Flight()
        with self._lock:
            while True:
                if self.closing:
                    raise Closed
                work = None if key is None else self._flying.get(key)
                if work is not None:
                    flight.shared = True
                    self.shared += 1
                    break
                if self._waiting < self.capacity:
                    work = _Work(function, key, group, max(1, min(weight, self.slots)))
                    self._enqueue(work)
                    break
                if not wait:
                    raise Full
                self._room.wait(_LOOK_UP_S)
            flight._work = work
            work.flights.append(flight)
        flight.add_done_callback(self._dropped)
        return flight

    def room(self) -> Future:
        """A future that is done as soon as another job may be put into the queue."""
        future: Future = Future()
        with self._lock:
            if self.closing or self._waiting < self.capacity:
                future.set_result(None)
            else:
                self._coming_again.append(future)
        return future

    def close(self, wait: bool = True) -> None:
        """Stop what runs, forget what waits, and end the threads. May be called twice.

        Args:
            wait: for the threads; not where the garbage collector calls this, which may hold
                a lock that they need.
        """
        with self._lock:
            self.closing = True
            forgotten = [w for queue in self._queues.values() for w in queue if not w.stopped]
            self._queues.clear()
            self._order.clear()
            self._flying.clear()
            self._waiting = 0
            coming, self._coming_again = self._coming_again, deque()
            self._work_to_do.notify_all()
            self._room.notify_all()
        for work in forgotten:
            self._deliver(work, None, Closed())
        for future in coming:
            _set(future, None, None)
        here = threading.current_thread()
        for thread in self._threads if wait else ():
            if thread is not here:
                thread.join()

    # -- the queue; all with the lock held -------------------------------------------------

    def _enqueue(self, work: _Work) -> None:
        queue = self._queues.get(work.group)
        if queue is None:
            queue = self._queues[work.group] = deque()
            # A group that comes now starts level with the one that is served now.
            heapq.heappush(self._order, (self._virtual_time, next(self._ticks), work.group))
        queue.append(work)
        self._waiting += 1
        if work.key is not None:
            self._flying[work.key] = work
        self._work_to_do.notify()
        if self._waiting > self._idle and len(self._threads) < self.slots:
            thread = threading.Thread(
                target=self._serve, name=f"{self._name}-{len(self._threads)}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _take(self) -> _Work | None:
        """The next job, if there is one and its slots are free."""
        while self._order:
            served, _, group = self._order[0]
            queue = self._queues[group]
            while queue and queue[0].stopped:
                queue.popleft()
            if not queue:
                heapq.heappop(self._order)
                del self._queues[group]
                continue
            work = queue[0]
            if self._used + work.weight > self.slots:
                return None
            queue.popleft()
            self._virtual_time = served
            # An emptied queue keeps its place until its turn comes, so that whoever brings one
            # job after another does not begin anew with each.
            heapq.heapreplace(self._order, (served + work.weight, next(self._ticks), group))
            self._waiting -= 1
            self._used += work.weight
            self._running.add(work)
            self.started += 1
            self._one_more_may_come()
            return work
        return None

    def _one_more_may_come(self) -> None:
        self._room.notify()
        while self._coming_again:
            future = self._coming_again.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(None)
                break

    # -- the threads -----------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self.closing and (work := self._take()) is None:
                    self._idle += 1
                    self._work_to_do.wait(_LOOK_UP_S)
                    self._idle -= 1
                if self.closing:
                    return
            self._run(work)
            del work  # an idle thread must not keep the last job alive

    def _run(self, work: _Work) -> None:
        result, error = None, None
        try:
            result = work.function(
                lambda: work.stopped or self.closing, time.monotonic() - work.queued_at
            )
        except BaseException as raised:
            error = Closed() if isinstance(raised, Stopped) and self.closing else raised
        with self._lock:
            self._used -= work.weight
            self._running.discard(work)
            if self._flying.get(work.key) is work:
                del self._flying[work.key]
            if self._waiting and self._idle:
                self._work_to_do.notify(self._idle)
        self._deliver(work, result, error)

    def _deliver(self, work: _Work, result: Any, error: BaseException | None) -> None:
        with self._lock:
            flights, work.flights = work.flights, []
        # What it was asked to do may well refer to these futures, and so to itself.
        work.function = None
        work.over.set()
        for flight in flights:
            _set(flight, result, error)

    def _dropped(self, flight: Future) -> None:
        """A future is done; if its caller gave it up, the job may not be wanted any more."""
        if not flight.cancelled():
            return
        work = flight._work
        with self._lock:
            if flight in work.flights:
                work.flights.remove(flight)
            if work.flights or work.stopped or work.over.is_set():
                return
            work.stopped = True
            if self._flying.get(work.key) is work:
                del self._flying[work.key]
            if work not in self._running:
                self._waiting -= 1
                work.function = None
                work.over.set()
                self._one_more_may_come()


def settle(flights: Iterable[Flight]) -> None:
    """Cancel futures, and wait until what was stopped by that no longer runs."""
    flights = list(flights)
    for flight in flights:
        flight.cancel()
    for flight in flights:
        flight.settle()


def _set(future: Future, result: Any, error: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
