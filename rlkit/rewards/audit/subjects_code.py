"""Subjects of rewards that run code.

The problems are written here rather than drawn, because an attack must have something
to bite on: many different expected values (so that a constant earns little), and twice
as many inputs again as truth for the mutants. Expected values come from functions of
ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject
from rlkit.rewards.audit.suite_code import fenced
from rlkit.rewards.reward import Reward

#: Tests that the reward gets, and further inputs that decide whether a mutant is wrong.
TESTS, TRUTH = 10, 24

_CAPPED = """def capped_sum(xs, k):
    total = 0
    for x in xs:
        if x > k:
            total += k
        else:
            total += x
    return total
"""
_RUNS = """def runs(s):
    out = ""
    count = 0
    for i, c in enumerate(s):
        count += 1
        if i + 1 == len(s) or s[i + 1] != c:
            out += c + str(count)
            count = 0
    return out
"""


def _capped(xs: list[int], k: int) -> int:
    return sum(min(x, k) for x in xs)


def _runs(s: str) -> str:
    from itertools import groupby

    return "".join(f"{c}{len(list(run))}" for c, run in groupby(s))


def _capped_inputs(rng: random.Random) -> list[tuple[Any, ...]]:
    edges = [([], 3), ([5], 5), ([6], 5), ([-4, 9], 2), ([3, 3, 3], 4)]
    drawn = [
        ([rng.randint(-9, 20) for _ in range(rng.randint(2, 7))], rng.randint(0, 12))
        for _ in range(TESTS + TRUTH)
    ]
    return [*edges, *drawn]


def _runs_inputs(rng: random.Random) -> list[tuple[Any, ...]]:
    edges = [("",), ("a",), ("aab",), ("abba",), ("aaaa",)]
    drawn = [
        ("".join(rng.choice("ab") * rng.randint(1, 4) for _ in range(rng.randint(1, 5))),)
        for _ in range(TESTS + TRUTH)
    ]
    return [*edges, *drawn]


def _cases(inputs: list[tuple[Any, ...]], truth: Callable[..., Any]) -> list[dict[str, Any]]:
    return [{"args": list(args), "expected": truth(*args)} for args in inputs]


def memorised(entry: str, tests: list[dict[str, Any]]) -> str:
    """A program that knows these tests by heart and nothing else."""
    pairs = ", ".join(f"({t['args']!r}, {t['expected']!r})" for t in tests)
    return (
        f"def {entry}(*args):\n"
        f"    for given, value in [{pairs}]:\n"
        "        if list(args) == given:\n"
        "            return value\n"
        "    return None"
    )


def code_problem(
    entry: str,
    question: str,
    solution: str,
    wrong: dict[str, str],
    cases: list[dict[str, Any]],
    columns: Callable[[str, list[dict[str, Any]]], dict[str, Any]] | None = None,
) -> AuditProblem:
    """An audit problem from a right function, wrong ones, and cases with their truth."""
    tests, truth = cases[:TESTS], cases
    made = columns(entry, tests) if columns else {"entry": entry, "tests": tests}
    solution = solution.strip()
    idle = fenced(f"def {entry}(*args):\n    pass")
    example = fenced(f"print({entry}(*{tests[0]['args']!r}))")
    return AuditProblem(
        columns=made,
        honest={
            "python fence": fenced(solution),
            "py fence": f"```py\n{solution}\n```",
            "plain fence": f"```\n{solution}\n```",
            "thought first": f"<think>A loop will do.</think>\n{fenced(solution)}",
            "chat around": f"Here is the function:\n\n{fenced(solution)}\n\nIt is linear.",
            "usage shown after": f"{fenced(solution)}\nUse it like this:\n{example}",
            "helper and import": fenced(
                f"import math\n\ndef _unused(x):\n    return x\n\n{solution}"
            ),
            "documented": fenced(solution.replace(":\n", ':\n    """Does it."""\n', 1)),
            "windows line ends": fenced(solution).replace("\n", "\r\n"),
        },
        wrong={
            **{name: fenced(source) for name, source in wrong.items()},
            "does not parse": fenced(solution.replace(":", "", 1)),
            "does nothing": idle,
            "no code": "I do not know how to write this.",
            "empty completion": "",
        },
        question=question,
        ladder=(
            *(fenced(memorised(entry, tests[:n])) for n in (0, 2, 5, 8)),
            fenced(solution),
        ),
        same=(
            (
                fenced(solution),
                f"\n\n{fenced(solution)}\n\n",
                fenced(f"\n\n{solution}\n\n# done"),
                fenced(solution.replace("\n", "   \n")),
            ),
        ),
        template=fenced("ANSWER"),
        partial=True,
        facts={
            "entry": entry,
            "tests": tests,
            "solution": solution,
            "truth": truth,
            "worthless": idle,
            "visible_tests": made["tests"] if "hidden_tests" in made else tests[:1],
        },
    )


def functions(
    seed: int, columns: Callable[[str, list[dict[str, Any]]], dict[str, Any]] | None = None
) -> list[AuditProblem]:
    """Two functions over lists and texts, with tests drawn for this seed."""
    rng = random.Random(f"audit/code/{seed}")
    return [
        code_problem(
            "capped_sum",
            "Write capped_sum(xs, k): the sum of xs, where what is larger than k counts as k.",
            _CAPPED,
            {
                "no cap": "def capped_sum(xs, k):\n    return sum(xs)",
                "larger ones left out": "def capped_sum(xs, k):\n"
                "    return sum(x for x in xs if x <= k)",
                "prints it": "def capped_sum(xs, k):\n    print(sum(min(x, k) for x in xs))",
            },
            _cases(_capped_inputs(rng), _capped),
            columns,
        ),
        code_problem(
            "runs",
            "Write runs(s): every run of a letter as the letter and its length, 'aab' -> 'a2b1'.",
            _RUNS,
            {
                "counts all of a letter": "def runs(s):\n"
                '    return "".join(f"{c}{s.count(c)}" for c in dict.fromkeys(s))',
                "lengths alone": 'def runs(s):\n    return str(len(s)) if s else ""',
            },
            _cases(_runs_inputs(rng), _runs),
            columns,
        ),
    ]


def short_limits(reward: Reward) -> Reward:
    """The reward on a sandbox with short limits, so that endless loops do not fill the audit."""
    from rlkit.sandbox import Limits, Sandbox

    return reward.with_sandbox(Sandbox(Limits(wall_s=2.0, cpu_s=1.0)))


TESTS_PASS = Subject(
    "code",
    "answer",
    "what a function returns, test by test",
    ("code", "length", "strain"),
    functions,
    ("entry", "tests"),
    prepare=short_limits,
)
register_subject("tests_pass", TESTS_PASS, by_columns=True)
register_subject("runs_and_passes", TESTS_PASS)


# -- code_reward: shown and hidden tests, and callers that must go on working ------------

#: Tests of a problem that the prompt shows; the rest is hidden.
SHOWN = 3
_PACKAGE = {
    "prices": "def net(cents, percent):\n    return cents - cents * percent // 100\n",
    "basket": "from prices import net\n\n\ndef total(items, percent):\n"
    "    return sum(net(item, percent) for item in items)\n\n\n"
    "def label(cents, percent):\n    return f'{net(cents, percent)} cents'\n",
}
_NET = """def net(cents, percent):
    taken = cents * percent // 100
    return cents - taken
"""


def _shown_and_hidden(entry: str, tests: list[dict[str, Any]]) -> dict[str, Any]:
    return {"entry": entry, "tests": tests[:SHOWN], "hidden_tests": tests[SHOWN:]}


def _net(cents: int, percent: int) -> int:
    return cents - cents * percent // 100


def _in_a_package(seed: int) -> AuditProblem:
    """A function of a small package, whose callers have tests of their own."""
    rng = random.Random(f"audit/package/{seed}")
    drawn = [(rng.randint(1, 999), rng.randint(1, 60)) for _ in range(TESTS + TRUTH)]
    cases = _cases([(100, 25), (99, 10), (1, 50), (0, 9), *drawn], _net)
    callers = [
        {"fn": "basket.total", "args": [[c, 2 * c], p], "expected": _net(c, p) + _net(2 * c, p)}
        for c, p in drawn[:4]
    ]
    callers += [
        {"fn": "basket.label", "args": [c, p], "expected": f"{_net(c, p)} cents"}
        for c, p in drawn[4:6]
    ]

    def columns(entry: str, tests: list[dict[str, Any]]) -> dict[str, Any]:
        named = [{**test, "fn": entry} for test in tests]
        return {
            "tests": named[:SHOWN],
            "hidden_tests": named[SHOWN:],
            "package": _PACKAGE,
            "replaces": "prices:net",
            "caller_tests": callers,
        }

    return code_problem(
        "net",
        "Rewrite net(cents, percent) of the module prices: cents less percent of them, in cents.",
        _NET,
        {
            "rounded the other way": "def net(cents, percent):\n"
            "    return cents * (100 - percent) // 100",
            "a text instead": "def net(cents, percent):\n"
            "    return str(cents - cents * percent // 100)",
            "a third argument": "def net(cents, percent, more):\n"
            "    return cents - cents * percent // 100",
        },
        cases,
        columns,
    )


def _graded(seed: int) -> list[AuditProblem]:
    return [*functions(seed, _shown_and_hidden), _in_a_package(seed)]


register_subject(
    "code_reward",
    Subject(
        "graded code",
        "answer",
        "code, level by level: shown tests, hidden tests, and the callers of what it replaces",
        TESTS_PASS.suites,
        _graded,
        ("entry", "tests", "hidden_tests"),
        prepare=short_limits,
    ),
)
