"""Subjects of rewards that look at the form and not at the answer.

Honest completions are all that are in good form, wrong answers among them: paying those
is what such a reward is for, and the card says "does not judge the answer".
"""

from __future__ import annotations

from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject

_THOUGHT = "Six times seven is forty-two."
_GIVEN = "42"
_BOTH = "<think>THOUGHT</think><answer>GIVEN</answer>"


def _problem(frame: str, honest: dict[str, str], partial: bool = False) -> AuditProblem:
    filled = frame.replace("THOUGHT", _THOUGHT).replace("GIVEN", _GIVEN)
    return AuditProblem(
        columns={},
        honest={"in good form": filled, **honest},
        wrong={"nothing": "", "plain prose": f"{_THOUGHT} {_GIVEN}"},
        question="What is 6 * 7?",
        ladder=("", filled),
        same=((filled, f"\n {filled}\n\n", filled.replace("><", ">\n<")),),
        partial=partial,
        facts={"frame": frame, "thought": _THOUGHT, "given": _GIVEN},
    )


_FORMS = {
    "blank between": "<think>a</think> <answer>b</answer>",
    "lines of their own": "<think>\na\n</think>\n<answer>\nb\n</answer>\n",
    "a wrong answer": "<think>Six times seven is a lot.</think><answer>1000</answer>",
    "several lines": "<think>one\n\ntwo</think>\n\n<answer>x = 1\ny = 2</answer>",
    "a less-than sign": "<think>3 < 4 and 5 > 2</think><answer>a < b</answer>",
    "other words": "<think>Überlegung: ½ · 4</think><answer>½</answer>",
}


def _both(seed: int) -> list[AuditProblem]:
    """One form with a thought and an answer. Nothing is drawn, so the seed changes nothing."""
    return [_problem(_BOTH, _FORMS)]


def _either(seed: int) -> list[AuditProblem]:
    """The default form: the thought may be missing, and code may stand for the answer."""
    code = "```python\nGIVEN\n```"
    return [
        _problem(_BOTH, _FORMS),
        _problem("<answer>GIVEN</answer>", {"a sentence": "<answer>It is 42.</answer>"}),
        _problem(code, {"a function": "```python\ndef f(x):\n    return x\n```"}),
    ]


_SAYS = "the form alone; it does not judge the answer"

register_subject(
    "format_reward",
    Subject("format", "form", _SAYS, ("format", "strain"), _either),
)
for _name in ("think_answer_format", "format"):
    register_subject(_name, Subject("format", "form", _SAYS, ("format", "strain"), _both))
register_subject(
    "tag_count",
    Subject(
        "tag count",
        "form",
        "how many of the tags are there once; it does not judge the answer",
        ("format", "strain"),
        lambda seed: [_problem(_BOTH, {"lines of their own": _FORMS["lines of their own"]}, True)],
        not_tried={"text_before": "it counts tags, and words before the first one are none"},
        line=0.95,
    ),
)
register_subject(
    "think_text_format",
    Subject(
        "thought, then text",
        "form",
        _SAYS,
        ("format", "strain"),
        lambda seed: [
            _problem(
                "<think>THOUGHT</think>GIVEN",
                {"on lines": "<think>\nr\n</think>\nThe answer is 4."},
            )
        ],
        not_tried={"text_after": "the text after the thought is the answer"},
    ),
)
