"""ReportCard: what an audit found, for a person, a browser and a program.

A card has sections; each has passed, failed, or was not tried and says why. The verdict
names every hole in words, with the attack that went through it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Sign and word of a section's result; never colour alone.
MARKS = {True: ("✓", "passed"), False: ("✗", "failed"), None: ("–", "not tried")}
#: Longest completion that is shown of an example.
SHOWN = 120
#: Holes that a verdict names.
MOST_NAMED = 6
#: What an outcome of an attack means, as it begins the sentence of the verdict.
WORDS = {
    "paid": "pays",
    "hung": "hangs on",
    "crashed": "lets its process be ended by",
    "raised": "raises an exception on",
    "forged": "lets its result be forged by",
    "abstained": "gives no verdict on",
    "withstood": "withstands",
    "refused": "refuses",
}


@dataclass(frozen=True)
class AttackResult:
    """What one attack came to on the problems it was tried on.

    Attributes:
        name, suite, exploits: see `Attack`.
        outcome: `"refused"`, `"withstood"` (a strain that was paid rightly for its form),
            `"abstained"`, `"paid"`, `"hung"`, `"crashed"`, `"raised"` or `"forged"`; the
            worst over the problems.
        value: the highest value it earned; `None` without a verdict.
        full: what an honest answer earns on that problem.
        seconds: the longest that one call took.
        tried: on how many problems.
        completion: the completion that did best, in full.
        detail: the reward's own reason, or the fault.
    """

    name: str
    suite: str
    exploits: str
    outcome: str
    value: float | None
    full: float | None
    seconds: float
    tried: int
    completion: str
    detail: str = ""

    @property
    def held(self) -> bool:
        return self.outcome in ("refused", "withstood", "abstained")

    def sentence(self) -> str:
        """The finding in words.

        >>> AttackResult("superset_list", "answer", "a list of guesses", "paid", 1.0, 1.0,
        ...              0.0, 3, "41, 42, 43").sentence()
        "pays a list of guesses ('superset_list', 1 of 1)"
        """
        earned = f", {self.value:g} of {self.full:g}" if self.outcome == "paid" else ""
        return f"{WORDS[self.outcome]} {self.exploits} ({self.name!r}{earned})"


@dataclass(frozen=True)
class Section:
    """One part of a card.

    Attributes:
        name: what was looked at.
        passed: `None` when it was not tried; `finding` then says why.
        finding: one sentence.
        figures: the numbers behind it.
        examples: `{"what": …, "completion": …, "value": …}`, the first few that went wrong.
    """

    name: str
    passed: bool | None
    finding: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    examples: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ReportCard:
    """What an audit found about one reward. `print` it, or let a notebook show it.

    Attributes:
        reward: name of the reward.
        judges: what it judges, in words.
        sections: the parts, in the order in which they were tried.
        attacks: every attack that was tried.
        not_tried: what was not tried, with the reason.
        how: where the reward was called, and under which limits.
        seconds: how long the audit took.
    """

    reward: str
    judges: str
    sections: tuple[Section, ...]
    attacks: tuple[AttackResult, ...] = ()
    not_tried: Mapping[str, str] = field(default_factory=dict)
    how: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether no section failed, and at least one was tried."""
        tried = [section.passed for section in self.sections if section.passed is not None]
        return bool(tried) and all(tried)

    @property
    def holes(self) -> tuple[AttackResult, ...]:
        """The attacks that went through."""
        return tuple(attack for attack in self.attacks if not attack.held)

    def section(self, name: str) -> Section:
        """The section of this name.

        Raises:
            KeyError: no such section.
        """
        for section in self.sections:
            if section.name == name:
                return section
        known = ", ".join(section.name for section in self.sections)
        raise KeyError(f"no section {name!r}; there are {known}")

    @property
    def verdict(self) -> str:
        """One or a few sentences: what is wrong, in words."""
        failed = [s for s in self.sections if s.passed is False]
        if not failed:
            return f"{self.reward} passes: " + "; ".join(
                s.finding for s in self.sections if s.passed
            )
        named = _telling(self.holes)
        said = [attack.sentence() for attack in named]
        if len(self.holes) > len(named):
            said.append(f"and {len(self.holes) - len(named)} more attacks went through")
        said += [s.finding for s in failed if s.name != "attacks"]
        return f"{self.reward} fails: " + "; ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON."""
        return {
            "reward": self.reward,
            "passed": self.passed,
            "judges": self.judges,
            "verdict": self.verdict,
            "how": self.how,
            "seconds": round(self.seconds, 3),
            "sections": [
                {
                    "name": s.name,
                    "passed": s.passed,
                    "finding": s.finding,
                    "figures": dict(s.figures),
                    "examples": [dict(e) for e in s.examples],
                }
                for s in self.sections
            ],
            "attacks": [
                {
                    "name": a.name,
                    "suite": a.suite,
                    "exploits": a.exploits,
                    "outcome": a.outcome,
                    "value": a.value,
                    "full": a.full,
                    "seconds": round(a.seconds, 6),
                    "tried": a.tried,
                    "completion": shorten(a.completion, 400),
                    "detail": a.detail,
                }
                for a in self.attacks
            ],
            "not_tried": dict(self.not_tried),
        }

    def __str__(self) -> str:
        sign, word = MARKS[self.passed]
        lines = [
            f"Report card of {self.reward}: {sign} {word}",
            f"judges {self.judges}",
            self.verdict,
            "",
        ]
        for s in self.sections:
            sign, word = MARKS[s.passed]
            lines.append(f"{sign} {word:9}  {s.name}: {s.finding}")
            lines += [f"      {_example(e)}" for e in s.examples]
        if self.not_tried:
            lines += ["", "Not tried:"]
            lines += [f"  {names}: {why}" for names, why in self._untried()]
        lines += ["", f"{self.how}; {self.seconds:.1f} s in all"]
        return "\n".join(lines)

    __repr__ = __str__

    def _untried(self) -> list[tuple[str, str]]:
        """What was not tried, those with the same reason together."""
        return [
            (", ".join(name for name, reason in self.not_tried.items() if reason == why), why)
            for why in dict.fromkeys(self.not_tried.values())
        ]

    def _repr_html_(self) -> str:
        sign, word = MARKS[self.passed]
        parts = [
            '<div class="rlkit-card">',
            f"<h4>Report card of {_e(self.reward)}: {sign} {word}</h4>",
            f"<p>judges {_e(self.judges)}</p><p>{_e(self.verdict)}</p>",
            _table(
                "What was looked at",
                ("result", "section", "finding"),
                [(_mark(s.passed), s.name, s.finding) for s in self.sections],
            ),
        ]
        examples = [(s.name, e) for s in self.sections for e in s.examples]
        if examples:
            parts.append(
                _table(
                    "Examples of what went wrong",
                    ("section", "what", "completion", "value"),
                    [
                        (name, e.get("what", ""), e.get("completion", ""), _number(e.get("value")))
                        for name, e in examples
                    ],
                )
            )
        parts.append(
            "<details><summary>Every attack</summary>"
            + _table(
                "Attacks",
                ("outcome", "attack", "exploits", "value", "seconds", "completion"),
                [
                    (
                        f"{'✓' if a.held else '✗'} {a.outcome}",
                        a.name,
                        a.exploits,
                        _number(a.value),
                        f"{a.seconds:.3f}",
                        shorten(a.completion),
                    )
                    for a in self.attacks
                ],
            )
            + "</details>"
        )
        if self.not_tried:
            parts.append(_table("Not tried", ("what", "why"), self._untried()))
        parts.append(f"<p>{_e(self.how)}; {self.seconds:.1f} s in all</p></div>")
        return "".join(parts)


def _telling(holes: Sequence[AttackResult]) -> list[AttackResult]:
    """The holes that a verdict names: the first of every suite in turn, `MOST_NAMED` in all."""
    turn = {id(a): sum(b.suite == a.suite for b in holes[:i]) for i, a in enumerate(holes)}
    return sorted(holes, key=lambda a: turn[id(a)])[:MOST_NAMED]


def shorten(text: str, limit: int = SHOWN) -> str:
    """A completion on one line, its invisible characters spelled out, cut in the middle.

    >>> shorten("a\\u200bb")
    'a\\\\u200bb'
    """
    if len(text) > 4 * limit:
        text = f"{text[: 2 * limit]}{text[-2 * limit :]}"
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if len(shown) <= limit:
        return shown
    half = limit // 2 - 2
    return f"{shown[:half]} … {shown[-half:]}"


def _example(example: Mapping[str, Any]) -> str:
    value = example.get("value")
    return f"{example.get('what', '')}: {example.get('completion', '')!r} earned {_number(value)}"


def _number(value: float | None) -> str:
    return "no verdict" if value is None else f"{value:g}"


def _mark(passed: bool | None) -> str:
    return " ".join(MARKS[passed])


def _e(text: object) -> str:
    return html.escape(str(text))


def _table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f'<th scope="col">{_e(h)}</th>' for h in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{_e(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table><caption style="text-align:left">{_e(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
