"""pyfunc: write a small Python function from a sentence; hidden tests judge it.

A problem is a family (see `pyfunc_families`) with its constants and names
filled in. The expected values come from a Python function of ours, so nothing
that a model wrote is run here; the model's code goes to the sandbox.
"""

from __future__ import annotations

import random
from typing import Any

from rlkit.tasks.problem import Domain, Problem, content_key
from rlkit.tasks.pyfunc_families import FAMILIES, Family

#: Hidden tests of one problem.
TESTS = 8

_FUNCTION_NAMES = ("f", "g", "solve", "run")
_ARGUMENTS = {
    "int": (("x",), ("n",), ("y",)),
    "pair": (("a", "b"), ("x", "y")),
    "text": (("s",), ("text",)),
    "list": (("xs",), ("nums",)),
}
_QUESTIONS = (
    "Write a function {call} that returns {what}.",
    "Write {call} so that it returns {what}.",
)
_WORDS = ("apple", "Python", "tree", "loop", "Noon", "kit", "banana", "level", "Code", "a", "data")


class PyFunc(Domain):
    """Write a small Python function; hidden unit tests run in the sandbox."""

    name = "pyfunc"
    reward = "tests_pass"
    success = "tests_pass"
    levels = 3
    max_new_tokens = 56

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        family = rng.choice(FAMILIES[difficulty])
        names = rng.choice(_ARGUMENTS[family.kind])
        entry = rng.choice(_FUNCTION_NAMES)
        words = _fill_words(family, names, rng)
        call = f"{entry}({', '.join(names)})"
        what = family.sentence.format(**words)
        key = content_key(self.name, call, what)
        question = rng.choice(_QUESTIONS).format(call=call, what=what)
        return Problem(
            key=key,
            domain=self.name,
            prompt=({"role": "user", "content": question},),
            columns={
                "entry": entry,
                "tests": _hidden_tests(family, words, key),
                "solution": _source(call, family.right.format(**words)),
                "wrong_bodies": tuple(wrong.format(**words) for wrong in family.wrong),
                "family": family.sentence,
            },
            difficulty=difficulty,
        )

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        return _fenced(problem.columns["solution"])

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        solution: str = problem.columns["solution"]
        head, body = solution.split("\n", 1)
        kind = rng.random()
        if kind < 0.08:  # shown instead of returned
            line = body.strip().split("return ")[-1]
            return _fenced(f"{head}\n    print({line})")
        if kind < 0.16:  # the value is never returned
            return _fenced(f"{head}\n{body.replace('return ', 'result = ')}")
        if kind < 0.22:  # a name that does not exist
            return _fenced(f"{head}\n{body.replace('return ', 'return z + ')}")
        if kind < 0.26:  # a colon forgotten
            return _fenced(f"{head[:-1]}\n{body}")
        wrong = rng.choice(problem.columns["wrong_bodies"])
        return _fenced(_source(head[4:-1], wrong))


def _fenced(source: str) -> str:
    return f"```python\n{source}\n```"


def _source(call: str, body: str) -> str:
    """A function definition from its call and its body, `return` put before one-liners.

    >>> print(_source("f(x)", "x + 1"))
    def f(x):
        return x + 1
    """
    if "\n" not in body and not body.startswith(("return ", "for ", "if ")):
        body = f"return {body}"
    return f"def {call}:\n" + "\n".join(f"    {line}" for line in body.split("\n"))


def _fill_words(family: Family, names: tuple[str, ...], rng: random.Random) -> dict[str, Any]:
    k, m = rng.randint(2, 12), rng.randint(2, 9)
    first, second = rng.sample("abdehlnopst", 2)
    words = {"k": k, "m": m, "k1": k + 1, "k0": k - 1, "c": first, "d": second}
    if family.kind == "pair":
        return {**words, "a": names[0], "b": names[1]}
    return {**words, "x": names[0]}


def _hidden_tests(family: Family, words: dict[str, Any], key: str) -> tuple[dict[str, Any], ...]:
    """Inputs with expected values, drawn from the key so that they never change.

    Where the family can give more than one answer, the tests do too; otherwise
    a function that returns a constant would be paid.
    """
    rng = random.Random(key)
    constants = {name: words[name] for name in ("k", "m", "c", "d")}
    best: list[dict[str, Any]] = []
    for _ in range(20):
        inputs = _edges(family.kind, constants)
        inputs += [_input(family.kind, constants, rng) for _ in range(TESTS - len(inputs))]
        tests = [
            {"args": list(args), "expected": family.reference(*args, **constants)}
            for args in inputs
        ]
        if _variety(tests) > _variety(best):
            best = tests
        if _variety(best) >= 3:
            break
    return tuple(best)


def _edges(kind: str, constants: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Inputs that tell near misses apart: at the constant and one beside it on each side.

    Without them `max(x, 4)` would pass for "the larger of x and 3".
    """
    k, m, c = constants["k"], constants["m"], constants["c"]
    if kind == "int":
        return [(k,), (k - 1,), (k + 1,)]
    if kind == "pair":
        return [(k, k - 1), (2, k + 3)]
    if kind == "text":
        return [(f"a{c}b{c}c",), ("xyzuvwqrjkmi",)]
    return [([k, k + 1, k - 1, k, m],), ([k + 1],), ([-k, 2 * k],)]


def _variety(tests: list[dict[str, Any]]) -> int:
    return len({repr(t["expected"]) for t in tests}) + len({repr(t["args"]) for t in tests}) // 5


def _input(kind: str, constants: dict[str, Any], rng: random.Random) -> tuple[Any, ...]:
    k = constants["k"]
    if kind == "int":
        return (_number(k, rng),)
    if kind == "pair":
        a = _number(k, rng)
        return (a, a if rng.random() < 0.2 else _number(k, rng))
    if kind == "text":
        word = rng.choice(_WORDS)
        if rng.random() < 0.6:
            spot = rng.randint(0, len(word))
            word = word[:spot] + constants["c"] * rng.randint(1, 2) + word[spot:]
        return (word,)
    return ([_number(k, rng) for _ in range(rng.randint(1, 6))],)


def _number(k: int, rng: random.Random) -> int:
    near = (k, k - 1, k + 1, 2 * k, 3 * k, -k)
    return rng.choice(near) if rng.random() < 0.5 else rng.randint(-9, 25)
