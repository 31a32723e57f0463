"""AnswerShapes: what a policy writes, gathered by the shape of its expressions.

`3 + 11 - 14` and `9 + 2 - 5` have one shape, `N + N - N`. Of each shape it shows how
often it is written, how often the reward pays it, how often it is right, and one example.
A shape that is paid and never right is an exploit. Text is parsed and never evaluated.

Left out on purpose: shapes of programs and of prose; they need other trees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlkit.errors import UserError
from rlkit.lab.theme import MISSING, escape, visible
from rlkit.rewards.answer import extract_answer
from rlkit.tasks.countdown import MAX_EXPRESSION_CHARS

if TYPE_CHECKING:
    from rlkit.loop import Batch

#: Shapes of what has none.
NO_ANSWER, EMPTY, UNREADABLE = "no answer block", "empty answer", "not an expression"
_PLAIN = re.compile(r"[0-9+\-*/%().,=<> \t]+")
_CELL = "text-align:left;padding:2px 12px 2px 0"


def expression_shape(answer: str | None) -> str:
    """The shape of an expression: its syntax tree with every number as `N`.

    >>> expression_shape("3 + 11 - 14"), expression_shape("(7) ** 2"), expression_shape("3 +")
    ('N + N - N', 'N ** N', 'not an expression')
    """
    if answer is None:
        return NO_ANSWER
    if not answer.strip():
        return EMPTY
    if len(answer) > MAX_EXPRESSION_CHARS or not _PLAIN.fullmatch(answer):
        return UNREADABLE
    try:
        tree = ast.parse(answer.strip(), mode="eval")
        return ast.unparse(_Nameless().visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNREADABLE  # a shape of its own, and counted


class _Nameless(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Name("N", ast.Load()), node)


@dataclass(frozen=True)
class Shape:
    """All answers of one shape.

    Attributes:
        shape: such as `N + N - N`.
        count: how many answers have it.
        share: of all answers, from 0 to 1.
        paid: mean reward of those with a verdict; `None` without any.
        right: share of those with a verdict that are right; `None` without any.
        question, answer: the first example.
    """

    shape: str
    count: int
    share: float
    paid: float | None
    right: float | None
    question: str
    answer: str


@dataclass(frozen=True)
class AnswerShapes:
    """Answers by shape, the most frequent first.

    Attributes:
        shapes: one entry for each shape.
        heading: stands above the table.

    >>> print(AnswerShapes.gather(["<answer>7</answer>", "<answer>3 + 4</answer>"],
    ...                           rewards=[1.0, 1.0], solved=[False, True]))
    What was written, by shape of the expression (2 answers)
      share   paid  right  shape  example
        50%   1.00   0.00  N      7
        50%   1.00   1.00  N + N  3 + 4
    """

    shapes: tuple[Shape, ...]
    heading: str = "What was written, by shape of the expression"

    @classmethod
    def gather(
        cls,
        texts: Sequence[str],
        rewards: Sequence[float | None],
        solved: Sequence[bool | None],
        questions: Sequence[str] = (),
        heading: str = heading,
    ) -> AnswerShapes:
        """Sorts completions by the shape of what stands in their answer block.

        Args:
            texts: completions.
            rewards: what each was paid; `None` without a verdict.
            solved: whether each is right; `None` without a verdict.
            questions: what was asked, for the examples.
            heading: stands above the table.

        Raises:
            UserError: the lists are not equally long.
        """
        for name, given in (("rewards", rewards), ("solved", solved), ("questions", questions)):
            if len(given) != len(texts) and (given or name != "questions"):
                raise UserError(f"{len(given)} {name} for {len(texts)} answers; give one for each")
        rows: dict[str, list[int]] = {}
        answers = [extract_answer(text) for text in texts]
        for i, answer in enumerate(answers):
            rows.setdefault(expression_shape(answer), []).append(i)
        shapes = [
            Shape(
                shape=shape,
                count=len(here),
                share=len(here) / len(texts),
                paid=_mean([rewards[i] for i in here]),
                right=_mean([solved[i] for i in here]),
                question=questions[here[0]] if questions else "",
                answer=texts[here[0]] if answers[here[0]] is None else answers[here[0]],
            )
            for shape, here in rows.items()
        ]
        shapes.sort(key=lambda s: (-s.count, s.shape))
        return cls(tuple(shapes), f"{heading} ({len(texts)} answers)")

    @classmethod
    def of(cls, batch: Batch, heading: str = "") -> AnswerShapes:
        """Of one step's batch, as `loop.batch` holds it."""
        rows = list(batch.rows())
        return cls.gather(
            [rollout.text for _, _, rollout, _, _, _ in rows],
            [score.value for _, _, _, score, _, _ in rows],
            [solved for _, _, _, _, solved, _ in rows],
            [rollout.problem.question for _, _, rollout, _, _, _ in rows],
            heading or f"Step {batch.step}: what was written, by shape of the expression",
        )

    def exploits(self) -> list[Shape]:
        """Shapes that are paid more often than not and are never right."""
        return [s for s in self.shapes if (s.paid or 0.0) > 0.5 and s.right == 0.0]

    def __str__(self) -> str:
        width = max([len("shape"), *(len(s.shape) for s in self.shapes)])
        lines = [self.heading, f"  share   paid  right  {'shape':<{width}}  example"]
        for s in self.shapes:
            line = f"  {s.share:>5.0%}  {_number(s.paid):>5}  {_number(s.right):>5}"
            lines.append(f"{line}  {s.shape:<{width}}  {_short(s.answer)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("share", "paid", "right", "shape", "example", "asked")
        head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in heads)
        body = "".join(_row(s) for s in self.shapes)
        return (
            f"<table><caption style='text-align:left'>{escape(self.heading)}. A shape that is "
            f"paid and never right (⚠) is an exploit.</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def _row(s: Shape) -> str:
    warning = "⚠ " if (s.paid or 0.0) > 0.5 and s.right == 0.0 else ""
    cells = (
        f"{s.share:.0%}",
        _number(s.paid),
        f"{warning}{_number(s.right)}",
        f"<code>{escape(s.shape)}</code>",
        f"<code>{escape(_short(s.answer))}</code>",
        escape(s.question),
    )
    return "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"


def _mean(values: Sequence[float | bool | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _short(text: str, most: int = 40) -> str:
    shown = visible(text).replace("\n", " ⏎ ")
    return shown if len(shown) <= most else shown[: most - 1] + "…"
