"""pywords: small Python functions asked in plain English, for a real language model.

The sister of `pyfunc`, which speaks the few words that `tiny` knows. Here the request is
what one would type to a chat model, which brings its own troubles: prose around the code,
a function under another name, an answer that does not end. The base rate of
SmolLM2-135M-Instruct on level 1 is in docs/LOG.md.

A problem's key holds the family and its constants, not the wording or the argument's name,
so a held-out problem is never a training problem said in other words. About half of the
held-out problems of level 1 are of families that are trained with other constants; the
others, whose column `new_family` is true, are of families that are never trained on.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from rlkit.tasks.problem import Domain, Problem, content_key, split_of
from rlkit.tasks.pywords_families import FAMILIES, Family

#: Hidden tests of one problem.
TESTS = 8
#: Each further test is chosen among so many inputs.
_CANDIDATES = 12

_ARGUMENTS = {
    "int": (("n",), ("x",), ("number",)),
    "pair": (("a", "b"), ("x", "y")),
    "divide": (("a", "b"), ("x", "y")),
    "text": (("text",), ("s",), ("word",)),
    "words": (("text",), ("sentence",)),
    "list": (("numbers",), ("values",), ("nums",)),
}
_QUESTIONS = (
    "Write a Python function {call} that returns {what}. Reply with the code only.",
    "Write one short Python function `{call}` that returns {what}. Give only the code.",
    "Write a Python function {call}. It returns {what}. Only the code, no explanation.",
)
_WORDS = ("apple", "Python", "tree", "loop", "Noon", "kit", "banana", "level", "Code", "data")
_SMALL_WORDS = ("a", "red", "fox", "runs", "over", "the", "old", "bridge", "today", "we")


class PyWords(Domain):
    """Write a small Python function asked in plain English; hidden tests run in the sandbox."""

    name = "pywords"
    reward = "runs_and_passes"
    success = "runs_and_passes"  # 1.0 is: all tests pass
    levels = 3
    max_new_tokens = 56

    def draw(self, rng: random.Random, difficulty: int) -> Problem:
        family = rng.choice(FAMILIES[difficulty])
        constants = _constants(rng)
        names = rng.choice(_ARGUMENTS[family.kind])
        wording = rng.choice(family.wordings)
        question = rng.choice(_QUESTIONS)
        used = {name: constants[name] for name in family.constants}
        key = _key(family, used)
        words = _words(family, used, names, key)
        entry = family.entry.format(**words)
        call = f"{entry}({', '.join(names)})"
        return Problem(
            key=key,
            domain=self.name,
            prompt=(
                {
                    "role": "user",
                    "content": question.format(call=call, what=wording.format(**words)),
                },
            ),
            columns={
                "entry": entry,
                "tests": _hidden_tests(family, used, key),
                "solution": _source(call, family.right.format(**words)),
                "wrong_bodies": tuple(wrong.format(**words) for wrong in family.wrong),
                "family": family.title,
                # A family without constants is one problem, and so in one split as a whole.
                "new_family": split_of(key) == "held_out" and (family.new or not used),
            },
            difficulty=difficulty,
        )

    def good_answer(self, problem: Problem, rng: random.Random) -> str:
        return _fenced(problem.columns["solution"])

    def wrong_answer(self, problem: Problem, rng: random.Random) -> str:
        """What a chat model does wrong: another name, no return, prose alone, or a wrong body."""
        solution: str = problem.columns["solution"]
        entry: str = problem.columns["entry"]
        head, body = solution.split("\n", 1)
        kind = rng.random()
        if kind < 0.15:  # a name of its own choice
            return "Here it is:\n" + _fenced(solution.replace(entry, f"my_{entry}", 1))
        if kind < 0.25:  # shown instead of returned
            return _fenced(f"{head}\n    print({body.removeprefix('    return ')})")
        if kind < 0.30:  # only talked about
            return f"You can write {entry} in one line, with a return statement."
        return _fenced(_source(head[4:-1], rng.choice(problem.columns["wrong_bodies"])))


def _fenced(source: str) -> str:
    return f"```python\n{source}\n```"


def _source(call: str, body: str) -> str:
    return f"def {call}:\n    return {body}"


def _constants(rng: random.Random) -> dict[str, Any]:
    first, second = rng.sample("abdehlnopst", 2)
    return {"k": rng.randint(3, 50), "m": rng.randint(2, 6), "c": first, "d": second}


def _key(family: Family, used: dict[str, Any]) -> str:
    """The problem's key; that of a new family is one of the held-out split.

    A key decides the split, so a number is put behind the content of a new family's
    problem, the first one that makes its key a held-out one.
    """
    content = (family.title, *(f"{name}={value}" for name, value in used.items()))
    key = content_key("pywords", *content)
    number = 0
    while family.new and split_of(key) != "held_out":
        number += 1
        key = content_key("pywords", *content, number)
    return key


def _words(
    family: Family, used: dict[str, Any], names: tuple[str, ...], key: str
) -> dict[str, Any]:
    """What the braces of a family are filled with."""
    words = {**_stand_ins(key), **used}
    words |= {"k1": words["k"] + 1, "k2": words["k"] + 8}
    if len(names) == 2:
        return {**words, "a": names[0], "b": names[1]}
    return {**words, "x": names[0]}


def _stand_ins(key: str) -> dict[str, Any]:
    """Constants for inputs and wrong bodies of a family that has none of its own."""
    return _constants(random.Random(f"stand-ins/{key}"))


def _hidden_tests(family: Family, used: dict[str, Any], key: str) -> tuple[dict[str, Any], ...]:
    """Inputs with expected values, drawn from the key so that they never change.

    Of several inputs the one whose value is rarest so far comes next, so that a function
    that returns a constant passes as little as possible.
    """
    rng = random.Random(key)
    constants = {**_stand_ins(key), **used}

    def tried(args: tuple[Any, ...]) -> dict[str, Any]:
        return {"args": list(args), "expected": family.reference(*args, **used)}

    tests = [tried(args) for args in _edges(family.kind, constants)]
    while len(tests) < TESTS:
        seen = Counter(repr(test["expected"]) for test in tests)
        drawn = [tried(_input(family.kind, constants, rng)) for _ in range(_CANDIDATES)]
        tests.append(min(drawn, key=lambda t: (seen[repr(t["expected"])], t in tests)))
    return tuple(tests)


def _edges(kind: str, constants: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Inputs that tell near misses apart: at the constant and one beside it on each side."""
    k, m, c = constants["k"], constants["m"], constants["c"]
    if kind == "int":
        return [(k,), (k - 1,), (k + 1,), (0,), (m,)]
    if kind == "pair":
        return [(k, k - 1), (2, k + 3), (m, m)]
    if kind == "divide":
        return [(k, m), (2 * m, m), (m, k)]
    if kind == "text":
        return [(f"a{c}b{c}c",), (c + "xyzuv"[: m - 1],), (f"Wxyz{c}",), (f"{c}xy{c}",)]
    if kind == "words":
        return [(" ".join(_SMALL_WORDS[:m]),), ("today",)]
    return [([k, k + 1, k - 1, k, m],), ([k + 1],), ([-k, 2 * k],)]


def _input(kind: str, constants: dict[str, Any], rng: random.Random) -> tuple[Any, ...]:
    k, c = constants["k"], constants["c"]
    if kind == "int":
        return (_number(k, rng),)
    if kind == "pair":
        a = _number(k, rng)
        return (a, a if rng.random() < 0.4 else _number(k, rng))
    if kind == "divide":
        return (abs(_number(k, rng)), rng.randint(1, 9))
    if kind == "text":
        word = rng.choice(_WORDS)
        if rng.random() < 0.6:
            spot = rng.choice((0, len(word), rng.randint(0, len(word))))
            word = word[:spot] + c * rng.randint(1, 2) + word[spot:]
        return (word if rng.random() < 0.8 else word + word[::-1],)
    if kind == "words":
        return (" ".join(rng.sample(_SMALL_WORDS, rng.randint(1, 6))),)
    return ([_number(k, rng) for _ in range(rng.randint(1, 6))],)


def _number(k: int, rng: random.Random) -> int:
    near = (k, k, k - 1, k + 1, 2 * k, 3 * k, -k)
    return rng.choice(near) if rng.random() < 0.5 else rng.randint(-9, 60)
