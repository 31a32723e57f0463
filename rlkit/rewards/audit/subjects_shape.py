"""Subjects of rewards that shape a text: against repetition, for one language.

Such a reward looks at no answer. What is tried is whether it tells what it is for, and
whether a small change of white space or case gets round it. A shaping reward with
settings of its own (a longest length, say) is tried with problems made for those
settings: `audit(reward, subject="repetition", problems=[...])`.
"""

from __future__ import annotations

from dataclasses import replace

from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject

_FLUENT = (
    "The train from Bern leaves at nine and needs two hours to cross the mountains, so we "
    "will be in Milan before noon, with time to spare for a coffee near the station."
)
_OTHER = (
    "A spider builds its web in the evening, waits at its edge through the night, and eats "
    "the torn threads again in the morning, because silk is costly to make."
)
_REPEATED = "I will think about this once more. " * 20
_RUSSIAN = (
    "Поезд из Берна отправляется в девять часов и идёт через горы два часа, поэтому мы "
    "будем в Милане ещё до полудня и успеем выпить кофе рядом с вокзалом."
)
_CHINESE = (
    "火车九点从伯尔尼出发，穿过群山需要两个小时，所以我们中午之前就能到米兰，还有时间喝一杯咖啡。"
)


def _problem(wrong: dict[str, str], **facts: str) -> AuditProblem:
    return AuditProblem(
        columns={"language": "en"},
        honest={"fluent": _FLUENT, "another fluent one": _OTHER},
        wrong=wrong,
        question="Tell me something.",
        ladder=(next(iter(wrong.values())), _FLUENT),
        same=((_FLUENT, f"\n{_FLUENT}\n"),),
        template="ANSWER",
        facts=facts,
    )


def _repetition(seed: int) -> list[AuditProblem]:
    words = "again and again " * 40
    return [_problem({"a sentence over and over": _REPEATED, "words": words}, repeated=_REPEATED)]


def _language(seed: int) -> list[AuditProblem]:
    return [
        _problem({"Russian": _RUSSIAN, "Chinese": _CHINESE}, other_language=text)
        for text in (_RUSSIAN, _CHINESE)
    ]


# -- too long ----------------------------------------------------------------------------


def overlong(max_length: int = 200, cache: int = 50, unit: str = "words") -> Subject:
    """The subject of a penalty on length, for a longest length in words, tokens or characters."""

    def text(length: float) -> str:
        words = max(1, int(length))
        return "x" * words if unit == "characters" else " ".join(["word"] * words)

    def make(seed: int) -> list[AuditProblem]:
        free = max(1, max_length - cache)
        short, long = text(free / 2), text(2 * max_length)
        return [
            AuditProblem(
                columns={},
                honest={"half of what is free": short, "all that is free": text(free)},
                wrong={"twice too long": long, "ten times too long": text(10 * max_length)},
                question="Tell me something.",
                ladder=(long, text((free + max_length) / 2), short),
                template="ANSWER",
                partial=True,
                facts={"too_long": long},
            )
        ]

    says = "whether a text is too long; it does not judge the answer"
    return Subject("overlong", "form", says, ("shape", "strain"), make)


register_subject(
    "soft_overlong",
    replace(
        overlong(), fitted=lambda reward: overlong(reward.max_length, reward.cache, reward.unit)
    ),
)
for _name in ("repetition", "repetition_penalty"):
    register_subject(
        _name,
        Subject(
            "repetition",
            "form",
            "how much a text repeats itself; it does not judge the answer",
            ("shape", "strain"),
            _repetition,
        ),
    )
for _name in ("language", "language_consistency"):
    register_subject(
        _name,
        Subject(
            "language",
            "form",
            "whether a text is English; it does not judge the answer",
            ("shape", "strain"),
            _language,
        ),
    )
