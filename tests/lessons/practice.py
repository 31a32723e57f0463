"""A small answer book for tests: a function for the sandbox, one for here, and a value.

Read with `runpy.run_path`, so that tests and scripts share it; `BOOK` is what the builder
would write.
"""

SHARE_CHECKS = """
from rlkit.lessons import Exercise, Property, close, holds, random_inputs, same_as


def reference(answers, right):
    return sum(a == right for a in answers) / len(answers)


def draw(rng):
    return [rng.choice("abc") for _ in range(rng.randint(1, 6))], "a"


EXERCISE = Exercise(
    "share",
    title="The share of right answers",
    hints=(
        "How many answers equal the right one?",
        "Divide that by the number of answers.",
        "sum(a == right for a in answers) / len(answers)",
    ),
    inputs=[(["a", "b"], "a"), (["a", "a", "a"], "a"), *random_inputs(draw)],
    properties=[
        Property(
            "a share lies between 0 and 1",
            lambda value, answers, right: holds(
                0 <= value <= 1, f"the share is {value}, outside of 0 to 1"
            ),
            hint="did you divide by the number of answers?",
        ),
        same_as(reference, what="the share", hint="did you count the right ones?"),
    ],
    right="This number is the pass rate.",
)
"""

HALF_CHECKS = """
from rlkit.lessons import Exercise, Property, close

EXERCISE = Exercise(
    "half",
    title="One half",
    hints=("It is below 1.", "It is 1 divided by 2.", "0.5"),
    where="here",
    wants="value",
    properties=[Property("it is one half", lambda value: close(value, 0.5))],
)
"""

BOOK = {
    "lesson": "97_practice",
    "title": "Practice",
    "exercises": {
        "share": {
            "title": "The share of right answers",
            "hints": [
                "How many answers equal the right one?",
                "Divide that by the number of answers.",
                "sum(a == right for a in answers) / len(answers)",
            ],
            "solution": (
                "def share(answers, right):\n"
                "    return sum(a == right for a in answers) / len(answers)"
            ),
            "checks": SHARE_CHECKS,
        },
        "half": {
            "title": "One half",
            "hints": ["It is below 1.", "It is 1 divided by 2.", "0.5"],
            "solution": "half = 0.5",
            "checks": HALF_CHECKS,
        },
    },
}
