"""examine: an exercise and an answer in, TODO, WRONG or RIGHT out, with the reason in words.

First it looks whether the answer was written at all, then whether it can be called as the
exercise calls it, then at the properties. For the sandbox, all calls of all properties go
into one job. A property that calls the answer itself is tried until it asks for a call
that nobody has made yet; those calls are made together, and it is tried again.

Nothing a learner writes makes it raise. What an author writes wrongly does (`UserError`).

Left out on purpose: progress, hints and how the result looks.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlkit.errors import UserError
from rlkit.lessons import learner_code
from rlkit.lessons.calls import (
    OutOfTime,
    Reply,
    Unavailable,
    call_here,
    run_apart,
    seeded,
    time_limit,
)
from rlkit.lessons.checked import Checked, Finding, State
from rlkit.lessons.exercise import Call, Exercise, Property, as_call
from rlkit.lessons.expect import Broken, LearnerError, kind_of, short_text
from rlkit.lessons.unfinished import Gap, gap_in_source, gap_in_value
from rlkit.sandbox import CodecError, encode


def examine(exercise: Exercise, answer: Any) -> Checked:
    """Looks at a learner's answer: is it there, and does every property hold?

    Args:
        exercise: what is asked.
        answer: a function, the source of one as text (for the sandbox), or a value.

    Raises:
        UserError: the exercise itself makes no sense, for example a call of objects that
            cannot go into the sandbox.

    >>> from rlkit.lessons.exercise import Exercise, same_as
    >>> task = Exercise("double", "Double it", ("Add.", "x + x", "2 * x"),
    ...                 [same_as(lambda x: 2 * x, inputs=[1, 2.5])])
    >>> def double(x):
    ...     return x + 2
    >>> print(examine(task, double))
    ✗ Not yet: Double it
      It gives the right value: broken for 2 of 2 inputs. For double(1): the
      result is 3, expected 2: off by 1.
    """
    started = time.monotonic()
    checked = _Examination(exercise, answer).result()
    return replace(checked, seconds=time.monotonic() - started)


class _Unknown(Exception):
    """A property asked for calls that have not been made yet."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__(f"{len(calls)} calls to make")
        self.calls = calls


class _Examination:
    """One answer under examination; holds the replies to all calls made so far."""

    def __init__(self, exercise: Exercise, answer: Any) -> None:
        self.exercise, self.answer = exercise, answer
        self.name = getattr(answer, "__name__", None)
        if not isinstance(self.name, str) or self.name == "<lambda>":
            self.name = exercise.entry or exercise.id
        self.apart = exercise.where == "sandbox"
        self.program: learner_code.Program | None = None
        self.printed = ""
        self.notes: list[str] = []
        self.forget()

    def forget(self) -> None:
        """As if no call had been made."""
        self.replies: dict[Any, Reply] = {}
        self.kept: list[Call] = []  # alive, so that no two calls ever share an id
        self.stopped = False  # whether a call used up the time

    def result(self) -> Checked:
        gap = self._gap()
        if gap is not None and gap.certain:
            return self._todo(gap.sentence)
        problem = self._problem()
        if problem:
            return self._checked(State.WRONG, problem)
        findings = self._findings()
        if all(finding.holds for finding in findings):
            return self._checked(State.RIGHT, self._praise(len(findings)), findings)
        unwritten = next((r for r in self.replies.values() if _kind(r) == "TODO"), None)
        if unwritten is not None:
            return self._todo(str(unwritten.error))
        if gap is not None:
            return self._todo(gap.sentence)
        first = next(f for f in findings if not f.holds)
        first = next((f for f in findings if f.holds is False), first)
        message = first.message or f"{first.name}: not tried, because the time was up."
        return self._checked(State.WRONG, message, findings)

    # -- before anything runs --------------------------------------------------------------

    def _gap(self) -> Gap | None:
        if callable(self.answer):
            source = learner_code.own_source(self.answer)
            return None if source is None else gap_in_source(source)
        if isinstance(self.answer, str) and self.apart:
            return gap_in_source(self.answer)
        return gap_in_value(self.answer)

    def _problem(self) -> str:
        """Why the answer cannot even be tried; empty when it can."""
        if self.apart and isinstance(self.answer, str):
            self.name = self.exercise.entry or self.exercise.id
            text = learner_code.Piece("your code", self.answer, 1)
            self.program = learner_code.Program(self.answer, self.name, (text,))
            return ""
        if self.exercise.wants == "function" and not callable(self.answer):
            return (
                f"This is {kind_of(self.answer)}, {short_text(self.answer)}, and a function is "
                "expected: hand over its name, without brackets behind it."
            )
        if self.exercise.wants == "value" and callable(self.answer):
            return (
                f"This is {kind_of(self.answer)}, and a value is expected: call it, with "
                "brackets behind its name, and hand over what it gives."
            )
        problem = self._signature()
        if problem or not self.apart:
            return problem
        try:
            self.program = learner_code.program(self.answer)
        except learner_code.NoSource as error:
            return f"Your function cannot be sent to the sandbox: {error}."
        self.name = self.program.entry
        return ""

    def _signature(self) -> str:
        """Whether the function takes the arguments it will be called with."""
        calls = [c for p in self.exercise.properties for c in self.exercise.calls_of(p) or ()]
        if not calls or not callable(self.answer):
            return ""
        try:
            signature = inspect.signature(self.answer)
        except (TypeError, ValueError):  # some builtins do not tell
            return ""
        try:
            signature.bind(*calls[0].args, **calls[0].kwargs)
        except TypeError as error:
            return (
                f"Your function is {self.name}{signature}, and it is called as "
                f"{calls[0].text(self.name)}: {error}."
            )
        return ""

    # -- the calls -------------------------------------------------------------------------

    def run_apart(self, calls: Sequence[Call]) -> None:
        """Makes the calls that nobody has made yet, in one job of the sandbox."""
        fresh: dict[Any, Call] = {}
        for made in calls:
            if self.key(made) not in self.replies:
                fresh.setdefault(self.key(made), made)
        if not fresh:
            return
        if self.stopped:
            self.replies.update(dict.fromkeys(fresh, _LATE))
            return
        replies, printed = run_apart(self.program, list(fresh.values()), self.exercise.seconds)
        self.printed = self.printed or printed
        self.replies.update(zip(fresh, replies, strict=True))
        self.stopped = any(_kind(reply) == "TIMEOUT" for reply in replies)

    def run_here(self, calls: Sequence[Call], copied: bool) -> None:
        """Makes these calls in this process."""
        self.kept += calls
        for made in calls:
            reply = _LATE if self.stopped else call_here(self.answer, made, self.name, copied)
            self.replies[self.key(made)] = reply
            self.stopped = self.stopped or _kind(reply) == "TIMEOUT"

    def key(self, made: Call) -> Any:
        """What equal calls share in the sandbox; here, where there is a state, each is its own."""
        return encode((tuple(made.args), dict(made.kwargs))) if self.apart else id(made)

    # -- the properties --------------------------------------------------------------------

    def _findings(self) -> list[Finding]:
        if self.apart:
            try:
                return self._look()
            except Unavailable as fault:
                if not callable(self.answer):
                    raise UserError(f"the sandbox does not work here: {fault}") from None
                self.notes.append(
                    f"checked in this process, for the sandbox does not work here: {fault}"
                )
                self.apart = False
                self.forget()
            except CodecError as error:
                raise UserError(
                    f"exercise {self.exercise.id!r}: an input cannot go into the sandbox: {error}"
                ) from None
        try:
            with seeded(), time_limit(self.exercise.seconds):
                return self._look()
        except OutOfTime:  # between two calls
            sentence = "The time was up before all of it was tried: is your function very slow?"
            return [Finding(p.name, None, sentence) for p in self.exercise.properties]

    def _look(self) -> list[Finding]:
        properties = self.exercise.properties
        cases = {p.name: self.exercise.calls_of(p) for p in properties}
        on_inputs = [made for calls in cases.values() for made in calls or ()]
        whole = [p for p in properties if cases[p.name] is None]
        if self.apart:
            findings = self._whole_apart(whole, on_inputs)
        else:
            self.run_here(on_inputs, copied=True)
            answer = _Callable(self) if callable(self.answer) else self.answer
            findings = {p.name: self._whole(p, answer) for p in whole}
        for prop in properties:
            if cases[prop.name] is not None:
                findings[prop.name] = self._on_inputs(prop, cases[prop.name])
        found = [findings[prop.name] for prop in properties]
        if self.exercise.keeps_inputs and any(r.changed for r in self.replies.values()):
            sentence = f"{self.name} changes the value it is given. Work on a copy of it."
            found.append(Finding("it leaves what it is given as it was", False, sentence))
        return found

    def _whole_apart(self, whole: list[Property], wanted: list[Call]) -> dict[str, Finding]:
        """Tries the properties again and again, until all the calls they ask for are made."""
        findings = {}
        while True:
            waiting = []
            for prop in whole:
                try:
                    findings[prop.name] = self._whole(prop, _Callable(self))
                except _Unknown as unknown:
                    wanted = [*wanted, *unknown.calls]
                    waiting.append(prop)
            self.run_apart(wanted)
            if not waiting:
                return findings
            whole, wanted = waiting, []

    def _on_inputs(self, prop: Property, calls: list[Call]) -> Finding:
        broken: list[tuple[str, bool]] = []  # what is said, and whether a value was there
        replies = [self.replies[self.key(made)] for made in calls]
        pairs = zip(calls, replies, strict=True)
        tried = [(made, reply) for made, reply in pairs if _kind(reply) != "NOT_REACHED"]
        for made, reply in tried:
            if reply.error is not None:
                broken.append((str(reply.error), False))
                continue
            message = self._complaint(
                prop.test, reply.value, (reply.value, *made.args), dict(made.kwargs)
            )
            if message is not None:
                broken.append((f"For {made.text(self.name)}: {message}", True))
        if broken:
            count = "" if len(calls) == 1 else f" for {len(broken)} of {len(tried)} inputs"
            return _finding(prop, count, *broken[0])
        return Finding(prop.name, True if len(tried) == len(calls) else None)

    def _whole(self, prop: Property, answer: Any) -> Finding:
        try:
            message = self._complaint(prop.test, answer, (answer,), {})
        except LearnerError as error:
            late = error.kind == "NOT_REACHED"
            return Finding(prop.name, None) if late else _finding(prop, "", str(error), False)
        return Finding(prop.name, True) if message is None else _finding(prop, "", message, True)

    def _complaint(
        self, test: Callable[..., Any], value: Any, args: tuple, kwargs: dict[str, Any]
    ) -> str | None:
        """What a test complains about; None when it is content."""
        try:
            test(*args, **kwargs)
        except Broken as complaint:
            return str(complaint)
        except (LearnerError, _Unknown, UserError):
            raise
        except OutOfTime:
            return "the time was up before this was finished"
        except Exception as error:
            if value is None:
                return "the result is None: is a return missing?"
            # The tests hold for our own solutions, so something about the answer is odd.
            shown = "" if isinstance(value, _Callable) else f" {kind_of(value)},"
            return f"the check cannot work with{shown or ' it,'} {type(error).__name__}: {error}"
        return None

    # -- words -----------------------------------------------------------------------------

    def _praise(self, count: int) -> str:
        made = len(self.replies)
        on = f", on {made} different calls" if made > 1 else ""
        properties = "The property holds" if count == 1 else f"All {count} properties hold"
        return f"{properties}{on}. {self.exercise.right}".strip()

    def _todo(self, sentence: str) -> Checked:
        return self._checked(State.TODO, f"TODO: {sentence}. Write your answer and run this again.")

    def _checked(self, state: State, message: str, findings: Sequence[Finding] = ()) -> Checked:
        return Checked(
            exercise=self.exercise.id,
            title=self.exercise.title,
            state=state,
            message=message,
            findings=tuple(findings),
            printed=self.printed,
            notes=tuple(self.notes),
        )


class _Callable:
    """The learner's function as a test sees it; what it raises arrives as `LearnerError`."""

    def __init__(self, examination: _Examination) -> None:
        self._examination = examination

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.map([Call(args, kwargs)])[0]

    def map(self, inputs: Sequence[Any]) -> list[Any]:
        """The values of many calls at once; inputs as those of a property."""
        calls = [as_call(given) for given in inputs]
        examination = self._examination
        if not examination.apart:
            examination.run_here(calls, copied=False)
        unknown = [made for made in calls if examination.key(made) not in examination.replies]
        if unknown:
            raise _Unknown(unknown)
        return [_value(examination.replies[examination.key(made)]) for made in calls]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._examination.answer, name)


_LATE = Reply(error=LearnerError("NOT_REACHED", "it was not tried any more"))


def _value(reply: Reply) -> Any:
    if reply.error is not None:
        raise reply.error
    return reply.value


def _kind(reply: Reply) -> str | None:
    return None if reply.error is None else reply.error.kind


def _finding(prop: Property, count: str, message: str, with_hint: bool) -> Finding:
    """A broken property in words; the hint is about values, and helps no call that gave none."""
    end = "" if re.search(r"[.?!]$", message) else "."
    hint = f" {prop.hint[0].upper()}{prop.hint[1:]}" if prop.hint and with_hint else ""
    name = prop.name[0].upper() + prop.name[1:]
    return Finding(prop.name, False, f"{name}: broken{count}. {message}{end}{hint}")
