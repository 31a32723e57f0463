"""TODO, WRONG and RIGHT are told apart, with a sentence for every way to be wrong."""

from __future__ import annotations

import functools
import math
import threading
import time

import pytest

from rlkit.errors import UserError
from rlkit.lessons import calls, examination
from rlkit.lessons.checked import State
from rlkit.lessons.examination import examine
from rlkit.lessons.exercise import Call, Exercise, Property, call, random_inputs, same_as
from rlkit.lessons.expect import close, holds, raises

HINTS = ("one", "two", "three")
SECRET = object()


def mean(values):
    return sum(values) / len(values)


def task(where="sandbox", **settings) -> Exercise:
    given = {
        "inputs": [[1.0, 2.0], *random_inputs(lambda rng: [rng.random() for _ in range(3)], 9)],
        "properties": [same_as(mean, what="the mean", hint="did you divide by the count?")],
        **settings,
    }
    return Exercise("mean", "The mean", HINTS, where=where, **given)


everywhere = pytest.mark.parametrize("where", ["sandbox", "here"])


def right(values):
    return sum(values) / len(values)


@everywhere
def test_right(where):
    checked = examine(task(where, right="Well done."), right)
    assert checked.state is State.RIGHT
    assert checked.right
    assert checked.message == "The property holds, on 10 different calls. Well done."


@everywhere
def test_wrong_says_which_property_by_how_much_and_on_which_input(where):
    def total(values):
        return sum(values)

    checked = examine(task(where), total)
    assert checked.state is State.WRONG
    # 1 + 2 = 3 instead of 1.5
    assert checked.message == (
        "It gives the right value: broken for 10 of 10 inputs. For total([1.0, 2.0]): the mean "
        "is 3, expected 1.5: off by 1.5. Did you divide by the count?"
    )
    assert [str(f) for f in checked.findings] == ["✗ broken: it gives the right value"]


def todo_ellipsis(values):
    return ...


def todo_empty(values):
    """The mean."""


def todo_error(values):
    raise NotImplementedError


def todo_hidden(values):
    return [None, ...][1]


@everywhere
@pytest.mark.parametrize("answer", [todo_ellipsis, todo_empty, todo_error, todo_hidden, None, ...])
def test_todo(where, answer):
    checked = examine(task(where), answer)
    assert checked.state is State.TODO
    assert checked.message.startswith("TODO: ")
    assert checked.message.endswith("Write your answer and run this again.")
    assert "TODO" in str(checked)


@everywhere
def test_a_bare_ellipsis_above_finished_code_is_right_and_above_wrong_code_todo(where):
    def finished(values):
        ...  # TODO
        return sum(values) / len(values)

    def begun(values):
        total = 0.0
        for _ in values:
            ...
        return total

    assert examine(task(where), finished).state is State.RIGHT
    assert examine(task(where), begun).state is State.TODO


def crashes(values):
    total = 0
    return sum(values) / total


def forgets_return(values):
    sum(values) / len(values)


def gives_text(values):
    return str(mean(values))


def gives_list(values):
    return [mean(values)]


def gives_nan(values):
    return math.nan


def yields(values):
    yield sum(values)


async def waits(values):
    return sum(values)


def leaves(values):
    raise SystemExit(3)


def gives_object(values):
    return SECRET if values is None else threading.Lock


def takes_two(values, count):
    return sum(values) / count


@everywhere
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            crashes,
            "crashes([1.0, 2.0]) raised ZeroDivisionError: {division}, in line 3 of crashes.",
        ),
        (forgets_return, "the mean is None: is a return missing?"),
        (gives_text, "the mean is text, '1.5'; expected a number, 1.5"),
        (gives_list, "the mean is a list, [1.5]; expected a number, 1.5"),
        (gives_nan, "the mean is NaN (not a number), expected 1.5"),
        (yields, "yields([1.0, 2.0]) returned a generator: list(...) makes a list of it"),
        (waits, "waits([1.0, 2.0]) returned a coroutine: write def, not async def"),
        (leaves, "leaves([1.0, 2.0]) raised SystemExit: 3, in line 2 of leaves"),
        (
            takes_two,
            "Your function is takes_two(values, count), and it is called as takes_two([1.0, "
            "2.0]): missing a required argument: 'count'.",
        ),
        (3.5, "This is a number, 3.5, and a function is expected"),
        ([1.5], "This is a list, [1.5], and a function is expected"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_every_mistake_has_a_sentence(where, answer, says):
    checked = examine(task(where), answer)
    assert checked.state is State.WRONG
    assert says.replace("{division}", division()) in checked.message


@functools.cache
def division() -> str:
    """What this interpreter says of a division by zero; newer ones say `division by zero`."""
    with pytest.raises(ZeroDivisionError) as caught:
        1.0 / int("0")
    return str(caught.value)


def test_a_value_that_cannot_leave_the_sandbox():
    def answer(values):
        return object()

    said = examine(task(), answer).message
    assert "returned a value of type object, not plain numbers, text or lists" in said


def test_a_function_that_cannot_enter_the_sandbox():
    def answer(values):
        return SECRET

    checked = examine(task(), answer)
    assert checked.state is State.WRONG
    assert checked.message.startswith("Your function cannot be sent to the sandbox: it uses SECRET")


def test_what_the_sandbox_does_not_have():
    def answer(values):
        import numpy

        return numpy.mean(values)

    said = examine(task(), answer).message
    assert "ModuleNotFoundError" in said
    assert "the sandbox has Python's own library only" in said


@everywhere
def test_an_endless_loop_ends_and_says_so(where):
    def endless(values):
        while True:
            pass

    started = time.monotonic()
    checked = examine(task(where, seconds=0.5), endless)
    assert time.monotonic() - started < 20  # it ends; how fast is the machine's affair
    assert checked.state is State.WRONG
    assert "endless([1.0, 2.0]) did not come back within 0.5" in checked.message
    assert "is there a loop that never ends?" in checked.message


def test_only_the_input_that_never_ends_is_blamed():
    def answer(values):
        while values[0] == 5.0:
            pass
        return sum(values) / len(values)

    exercise = task(seconds=0.5, inputs=[[1.0], [5.0], [2.0]])
    said = examine(exercise, answer).message
    # of three inputs the first was right, the second never ended, the third was not tried
    assert "broken for 1 of 2 inputs. answer([5.0]) did not come back" in said


def test_code_that_swallows_everything_is_still_ended():
    def stubborn(values):
        while True:
            try:
                sum(values)
            except Exception:
                continue

    assert "did not come back" in examine(task("here", seconds=0.3), stubborn).message


def test_where_no_timer_can_be_set_a_sentence_asks_to_interrupt(capsys):
    seen = []

    def look():
        with calls.time_limit(0.05) as can:
            seen.append(can)
            time.sleep(0.3)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False]
    assert "interrupt it: ■" in capsys.readouterr().out


@everywhere
def test_an_interruption_is_no_crash(where):
    def interrupted(values):
        raise KeyboardInterrupt

    checked = examine(task(where), interrupted)
    assert checked.state is State.WRONG
    assert "interrupted" in checked.message or "KeyboardInterrupt" in checked.message


def test_the_timer_and_the_random_numbers_are_put_back():
    import random
    import signal

    random.seed(5)
    before = random.getstate(), signal.getsignal(signal.SIGALRM)
    examine(task("here"), right)
    assert (random.getstate(), signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_all_calls_of_all_properties_are_one_job(monkeypatch):
    jobs = []
    monkeypatch.setattr(examination, "run_apart", counted(jobs))
    twice = [[1.0], [2.0]]
    exercise = task(
        inputs=(),
        properties=[
            same_as(mean, inputs=twice),
            Property("it is a float", lambda v, values: holds(type(v) is float, "no"), twice),
            Property("order plays no part", lambda f: close(*f.map([[1.0, 2.0], [2.0, 1.0]]))),
        ],
    )
    assert examine(exercise, right).state is State.RIGHT
    # two inputs, which two properties share, and two calls of the third
    assert [len(made) for made in jobs] == [4]


def test_a_property_that_calls_one_after_the_other_needs_one_job_a_call(monkeypatch):
    jobs = []
    monkeypatch.setattr(examination, "run_apart", counted(jobs))

    def order(answer):
        first = answer([1.0, 2.0])
        close(answer([2.0, 1.0]), first, what="the mean of the same numbers, turned round")

    exercise = task(inputs=(), properties=[Property("order plays no part", order)])
    assert examine(exercise, right).state is State.RIGHT
    assert [len(made) for made in jobs] == [1, 1]

    def first_only(values):
        return values[0]

    said = examine(exercise, first_only).message
    assert said == (
        "Order plays no part: broken. the mean of the same numbers, turned round is 2, "
        "expected 1: off by 1."
    )


def counted(jobs):
    def run(program, made, seconds):
        jobs.append(made)
        return calls.run_apart(program, made, seconds)

    return run


@everywhere
def test_an_error_on_purpose(where):
    def strict(values):
        if not values:
            raise ValueError("nothing to average")
        return sum(values) / len(values)

    wants = Property("no numbers, no mean", lambda f: raises(lambda: f([]), ValueError))
    exercise = task(where, inputs=(), properties=[wants], wants="function")
    assert examine(exercise, strict).state is State.RIGHT
    said = examine(exercise, right).message
    assert "this call should raise ValueError; right([]) raised ZeroDivisionError" in said


@everywhere
def test_a_changed_input_is_noticed(where):
    def answer(values):
        values.sort()
        return sum(values) / len(values)

    given = {"inputs": [[2.0, 1.0]]}
    assert examine(task(where, **given), answer).state is State.RIGHT
    checked = examine(task(where, keeps_inputs=True, **given), answer)
    assert checked.state is State.WRONG
    assert "answer changes the value it is given. Work on a copy of it." in checked.message
    assert examine(task(where, keeps_inputs=True), right).state is State.RIGHT


def test_the_inputs_of_the_exercise_stay_as_they_are():
    given = [[2.0, 1.0]]

    def answer(values):
        values.clear()
        return 1.5

    examine(task("here", inputs=given), answer)
    assert given == [[2.0, 1.0]]


def test_named_arguments_and_several_properties():
    def share(values, *, of=2):
        return sum(values) / of

    exercise = task(
        inputs=[call([1.0, 2.0], of=4)],
        properties=[
            Property("it is below 1", lambda v, values, of: holds(v < 1, f"it is {v}")),
            Property("it is above 2", lambda v, values, of: holds(v > 2, f"it is {v}")),
        ],
    )
    checked = examine(exercise, share)
    assert checked.message == "It is above 2: broken. For share([1.0, 2.0], of=4): it is 0.75."
    assert str(checked).splitlines()[-2:] == [
        "  ✓ holds: it is below 1",
        "  ✗ broken: it is above 2",
    ]


def test_a_hint_about_values_is_not_given_where_there_is_none():
    assert "Did you divide" not in examine(task(), crashes).message
    assert "Did you divide" in examine(task(), gives_nan).message


def test_what_was_printed_is_shown():
    def answer(values):
        print("looking at", values)
        return 0.0

    checked = examine(task(inputs=[[1.0]]), answer)
    assert checked.printed == "looking at [1.0]"
    assert "    looking at [1.0]" in str(checked)


def test_the_source_of_a_function_as_text():
    exercise = task()
    assert examine(exercise, "def mean(values):\n    return sum(values) / len(values)").right
    assert examine(exercise, "def mean(values):\n    return ...").state is State.TODO
    said = examine(exercise, "def mean(values)\n    return 1").message
    assert "this is not Python: SyntaxError" in said
    assert "NameError: name 'mean' is not defined." in examine(exercise, "x = 1").message
    crash = "def mean(values):\n    return values / 0"
    assert "TypeError: unsupported" in examine(exercise, crash).message
    assert ", in line 2 of your code." in examine(exercise, crash).message


def test_a_value():
    half = Exercise(
        "half", "Half", HINTS, [Property("half", lambda v: close(v, 0.5))], "here", wants="value"
    )
    assert examine(half, 0.5).right
    assert "off by 0.25" in examine(half, 0.75).message
    assert examine(half, ...).state is State.TODO
    assert "a value is expected: call it" in examine(half, right).message
    assert "is text, 'a'" in examine(half, "a").message


def test_an_odd_answer_never_makes_it_raise():
    def test(v):
        return holds(v["a"] > 0, "no")

    exercise = Exercise("odd", "Odd", HINTS, [Property("odd", test)], "here", wants="value")
    for answer in (1, "text", [], object(), float("nan"), {"b": 1}, {"a": "x"}):
        checked = examine(exercise, answer)
        assert checked.state is State.WRONG
        assert "the check cannot work with" in checked.message


def test_functions_of_tensors_keep_their_gradients():
    import torch

    def gradient(answer):
        x_N = torch.tensor([1.0, 2.0], requires_grad=True)
        answer(x_N).backward()
        close(x_N.grad, [2.0, 4.0], what="the gradient")  # of x squared: 2x

    exercise = Exercise(
        "square", "Square", HINTS, [Property("its gradient is 2x", gradient)], "here"
    )
    assert examine(exercise, lambda x_N: (x_N**2).sum()).right
    assert "the gradient" in examine(exercise, lambda x_N: (x_N**3).sum()).message
    said = examine(exercise, lambda x_N: (x_N**2).sum().item()).message
    assert "the check cannot work with it, AttributeError" in said


def test_without_a_sandbox_it_is_checked_here_and_says_so(monkeypatch):
    def broken(*_):
        raise calls.Unavailable("no processes today")

    monkeypatch.setattr(examination, "run_apart", broken)
    checked = examine(task(), right)
    assert checked.right
    assert "the sandbox does not work here: no processes today" in checked.notes[0]
    with pytest.raises(UserError, match="no processes today"):
        examine(task(), "def mean(values): return 1")


def test_an_input_that_cannot_enter_the_sandbox_is_the_authors_mistake():
    with pytest.raises(UserError, match="exercise 'mean': an input cannot go into the sandbox"):
        examine(task(inputs=[object()]), right)


def test_call_here_and_apart_agree():
    program = calls.Program("def f(x):\n    return [x, x * 2]", "f")
    replies, printed = calls.run_apart(program, [Call((2,)), Call(("a",)), Call((None,))])
    assert [r.value for r in replies[:2]] == [[2, 4], ["a", "aa"]]
    assert "TypeError" in str(replies[2].error)
    assert printed == ""


def test_large_values_and_prints_come_through_together():
    source = "def f(n):\n    print('x' * 10)\n    return list(range(n))"
    replies, printed = calls.run_apart(calls.Program(source, "f"), [Call((5000,)), Call((2,))])
    assert replies[0].value == list(range(5000))
    assert replies[1].value == [0, 1]
    assert printed == "xxxxxxxxxx\nxxxxxxxxxx"


def test_of_many_prints_the_first_are_shown():
    source = "def f(n):\n    for i in range(n): print(i)"
    _, printed = calls.run_apart(calls.Program(source, "f"), [Call((10,))])
    assert printed.splitlines() == [*"01234567", "… and 2 more lines"]


def test_prints_without_end_are_stopped():
    source = "def f(n):\n    while True: print('x' * 100)"
    replies, _ = calls.run_apart(calls.Program(source, "f"), [Call((1,))])
    assert replies[0].error.kind in ("OUTPUT_LIMIT", "TIMEOUT")
