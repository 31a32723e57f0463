"""Subject of rewards that compare mathematics: one problem for each kind of answer.

The truth is given by hand here: what equals what is what such a reward is about, and a
computer's opinion of it is what is tried. The honest forms are those that people write
for the same thing; the wrong ones are its nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlkit.rewards.audit.mutation import mutate_number
from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject

_BOX = r"The answer is \boxed{ANSWER}."
#: Ways of announcing an answer, beside the box; only for answers that are one plain word.
_ANNOUNCED = {
    "announced in words": "The answer is ANSWER.",
    "after four hashes": "6 boxes.\n#### ANSWER",
    "answer block": "<answer>ANSWER</answer>",
    "in bold": "**Final Answer:** ANSWER",
}


def maths_problem(
    gold: str,
    same: Sequence[str],
    wrong: Sequence[str],
    question: str,
    plain: str | None = None,
) -> AuditProblem:
    """A problem from a right answer, other forms of it, and wrong ones."""
    honest = {f"box with {form}": _write(form) for form in (gold, *same)}
    honest["thought and box"] = f"<think>Maybe {wrong[0]}? No.</think>\n{_write(gold)}"
    honest["box named twice"] = f"It must be {_box(gold)}.\n\n**Final Answer**\n{_box(gold)}"
    honest["box in dollars"] = f"So $x$ is found: ${_box(gold)}$"
    if plain is not None:
        for name, form in _ANNOUNCED.items():
            honest[name] = form.replace("ANSWER", plain)
    return AuditProblem(
        columns={"answer": gold},
        honest=honest,
        wrong={
            **{f"wrong box {w}": _write(w) for w in wrong},
            "empty completion": "",
            "question repeated": question,
        },
        answer=gold,
        wrong_answers=tuple(wrong),
        template=_BOX,
        question=question,
        ladder=("", _write(wrong[0]), _write(gold)),
        same=(tuple(_write(f) for f in (gold, f" {gold} ", f"\n{gold}\n", rf"\, {gold}")),),
        mutants={name: _write(new) for name, new in mutate_number(gold).items()},
    )


def _box(answer: str) -> str:
    return rf"\boxed{{{answer}}}"


def _write(answer: str) -> str:
    return _BOX.replace("ANSWER", answer)


def _problems(seed: int) -> list[AuditProblem]:
    """One problem for each kind of answer. Nothing is drawn: the seed changes nothing."""
    return [
        maths_problem(
            "54",
            ["54.0", "x=54", r"\text{54}", r"54\text{ cm}", r"\$54", "054", r"\frac{108}{2}"],
            ["53", "58", "55"],
            "How long is the rope, in centimetres?",
            plain="54",
        ),
        maths_problem(
            "-37",
            ["-37.0", r"- 37", r"-\frac{74}{2}"],
            ["37", "-38", "-36"],
            "By how much does the temperature change?",
            plain="-37",
        ),
        maths_problem(
            "10000",
            ["10,000", "10{,}000", r"10\,000", "10^4"],
            ["1000", "10001", "100000"],
            "How many litres flow in a day?",
            plain="10,000",
        ),
        maths_problem(
            r"\frac{11}{4}",
            ["11/4", "2.75", r"2\frac{3}{4}", "2 3/4", r"\dfrac{11}{4}", r"\frac{22}{8}"],
            [r"\frac{4}{11}", r"\frac{11}{5}", r"2\frac{1}{4}", r"-\frac{11}{4}", "2.7", "11"],
            "Which fraction of an hour is that?",
            plain="11/4",
        ),
        maths_problem(
            r"28\%",
            ["0.28", r"28 \text{ percent}", r"28.0\%"],
            ["0.028", r"2.8\%", r"82\%"],
            "What share of the students passed?",
        ),
        maths_problem(
            r"36\pi",
            [r"36 \pi", r"\pi \cdot 36", r"36\pi\text{ cm}^2", r"6^2\pi"],
            ["36", r"35\pi", r"36\pi^2", r"-36\pi"],
            "What is the area of the circle?",
        ),
        maths_problem(
            "-2, 5",
            ["5, -2", r"-2 \text{ and } 5"],
            ["3, 7", "2, -5", "-2", "5", "-2, 5, 7"],
            "Which numbers solve the equation?",
        ),
        maths_problem(
            r"(-\infty, 3]",
            [r"x \le 3", r"\left(-\infty, 3\right]", r"3 \ge x"],
            [r"(-\infty, 3)", "x < 3", r"[3, \infty)", r"x \ge 3", r"(-\infty, 4]"],
            "For which x does the inequality hold?",
        ),
        maths_problem(
            r"\left(1,\frac{9}{2}\right)",
            ["(1,4.5)", r"(1, \frac{9}{2})"],
            [r"(\frac{9}{2}, 1)", "(1, 4)", "(1, 4.5, 0)"],
            "Where do the lines meet?",
        ),
        maths_problem(
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            [r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", r"\begin{pmatrix}1.0&2\\3&4\end{pmatrix}"],
            [r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"],
            "Which matrix is it?",
        ),
        maths_problem(
            r"\text{Monday}",
            ["Monday", r"\text{monday}"],
            [r"\text{Tuesday}", r"\text{Sunday}"],
            "Which day is it?",
        ),
    ]


register_subject(
    "math_answer",
    Subject(
        "maths",
        "answer",
        "the answer, as mathematics",
        ("answer", "maths", "length", "strain"),
        _problems,
        ("answer",),
        not_tried={
            "restated_question": "equal expressions are right answers to such a reward",
        },
    ),
)
