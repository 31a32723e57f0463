"""Exercise and Property: what is asked of a learner's answer, written by a lesson's author.

A property is a sentence that is true of every right answer, and a test that finds out. It
has one of two forms:

* with `inputs` (its own or the exercise's): the learner's function is called on each of
  them, and `test(value, *args)` looks at what came back;
* without: `test(answer)` gets the answer itself, a value or a function to call.

    EXERCISE = Exercise(
        "advantages",
        title="Advantages of a group",
        hints=("Compare with the group.", "Take the mean away.", "r - fmean(rewards)"),
        inputs=[[1.0, 0.0], *random_inputs(lambda rng: [rng.random() for _ in range(4)])],
        properties=[
            same_as(reference),
            Property("they add up to 0", lambda value, rewards: close(sum(value), 0.0)),
        ],
    )

Left out on purpose: how it is run and what is said about it; see `examination`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rlkit.errors import UserError
from rlkit.lessons.expect import close, equal, short_text


@dataclass(frozen=True)
class Call:
    """The arguments of one call; `call(...)` makes it, and a plain input stands for it."""

    args: tuple = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The call as one writes it, shortened."""
        shown = [short_text(value, 60) for value in self.args]
        shown += [f"{key}={short_text(value, 60)}" for key, value in self.kwargs.items()]
        text = ", ".join(shown)
        return f"{name}({text if len(text) <= 120 else text[:117] + '...'})"


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call of the learner's function, named ones included.

    >>> call([1, 0], eps=0.1).text("advantages")
    'advantages([1, 0], eps=0.1)'
    """
    return Call(args, kwargs)


def as_call(given: Any) -> Call:
    """An input as a call: a tuple is several arguments, anything else is one."""
    if isinstance(given, Call):
        return given
    return Call(given) if isinstance(given, tuple) else Call((given,))


def random_inputs(
    make: Callable[[random.Random], Any], count: int = 20, seed: int = 0
) -> list[Any]:
    """Inputs drawn at random, the same ones each time.

    Args:
        make: takes a generator of random numbers and gives one input: a tuple of arguments,
            a `call(...)`, or a single argument.
        count: how many.
        seed: other seeds, other inputs.

    >>> random_inputs(lambda rng: rng.randrange(10), count=3)
    [6, 6, 0]
    """
    rng = random.Random(seed)
    return [make(rng) for _ in range(count)]


@dataclass(frozen=True)
class Property:
    """One thing that is true of every right answer.

    Attributes:
        name: a short sentence a learner understands, such as "the advantages add up to 0".
        test: raises `Broken` (best by `close`, `equal`, `shape`, `holds`) when it is not so.
        inputs: calls to make for it; None takes the exercise's. A tuple is several
            arguments, anything else is one.
        hint: a question that puts the learner on the track, such as "did you divide by n?".

    Raises:
        UserError: no name, or a test that cannot be called.
    """

    name: str
    test: Callable[..., Any]
    inputs: Sequence[Any] | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise UserError(f"a property needs a sentence as its name, not {self.name!r}")
        if not callable(self.test):
            raise UserError(f"the test of property {self.name!r} is no function")


@dataclass(frozen=True)
class Exercise:
    """A task for the learner, with what is true of every right answer.

    Attributes:
        id: its name in the lesson and in the progress file.
        title: what a learner calls it.
        hints: three texts, each saying more than the one before.
        properties: in the order in which they are reported.
        where: `sandbox` for functions of plain data, run apart from this process; `here`
            for values and for functions of tensors.
        inputs: calls for the properties that bring none of their own.
        wants: `function` or `value`; None lets `where` and the inputs decide.
        entry: the name of the answer in the notebook, for `lesson.check(ID)` without one;
            the ID when None.
        seconds: how long all calls together may take.
        keeps_inputs: whether the function must leave what it is given as it was.
        right: a sentence to end on when the answer is right.

    Raises:
        UserError: no properties, not three hints, or settings that make no sense.
    """

    id: str
    title: str
    hints: Sequence[str]
    properties: Sequence[Property]
    where: Literal["sandbox", "here"] = "sandbox"
    inputs: Sequence[Any] = ()
    wants: Literal["function", "value"] | None = None
    entry: str | None = None
    seconds: float | None = None
    keeps_inputs: bool = False
    right: str = ""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise UserError(f"exercise {self.id!r}: {problem}")
        for name in ("hints", "properties", "inputs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.wants is None:
            calls = self.where == "sandbox" or self.inputs or any(p.inputs for p in self.properties)
            object.__setattr__(self, "wants", "function" if calls else None)

    def _problem(self) -> str:
        if self.where not in ("sandbox", "here"):
            return f"where={self.where!r} must be 'sandbox' or 'here'"
        if self.wants not in (None, "function", "value"):
            return f"wants={self.wants!r} must be 'function' or 'value'"
        if self.where == "sandbox" and self.wants == "value":
            return "a value is checked here, only functions go to the sandbox; set where='here'"
        if isinstance(self.hints, str) or len(self.hints) != 3 or not all(self.hints):
            return "give three hints, each saying more than the one before"
        if not self.properties or not all(isinstance(p, Property) for p in self.properties):
            return "give at least one Property; without one, every answer would be right"
        names = [p.name for p in self.properties]
        if len(set(names)) < len(names):
            return f"two properties have the same name: {sorted(names)}"
        return ""

    def calls_of(self, prop: Property) -> list[Call] | None:
        """The calls a property is tested on; None when its test takes the answer itself."""
        if prop.inputs is None and not self.inputs:
            return None
        return [as_call(given) for given in (self.inputs if prop.inputs is None else prop.inputs)]


def same_as(
    reference: Callable[..., Any],
    *,
    inputs: Sequence[Any] | None = None,
    tolerance: float | None = 1e-6,
    name: str = "it gives the right value",
    what: str = "the result",
    hint: str = "",
) -> Property:
    """A property: the learner's function gives what a reference gives, on every input.

    Args:
        reference: our own implementation; called with a copy of the arguments.
        inputs: calls to make; None takes the exercise's.
        tolerance: distance of numbers, see `close`; None demands the very same value.
        name, what, hint: as in `Property` and `close`.

    >>> same_as(sum, inputs=[[1, 2]]).test(3, [1, 2])
    """

    def test(value: Any, *args: Any, **kwargs: Any) -> None:
        expected = reference(*args, **kwargs)
        if tolerance is None:
            equal(value, expected, what)
        else:
            close(value, expected, tolerance, what)

    return Property(name, test, inputs, hint)
