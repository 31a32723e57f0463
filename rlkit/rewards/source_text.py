"""The text of a reward program, looked at and never run: syntax, and which name is the reward.

Used on both sides: where a person edits the text, and in the process that runs it.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from rlkit.errors import UserError

#: The name that tracebacks show for the text.
FILENAME = "<reward>"


class RewardSourceError(UserError):
    """A reward program that cannot be used; the message is one sentence for its author.

    Attributes:
        kind: `syntax`, `import` (running the text itself failed), `exception`,
            `timeout`, `result` (what it gave is no reward's result) or `crash`.
        line: line of the text, from 1; `None` when it is not known.
        trace: the traceback, where there is one.
    """

    def __init__(
        self, message: str, kind: str, line: int | None = None, trace: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = line
        self.trace = trace

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.kind, self.line, self.trace)


@dataclass(frozen=True)
class Outline:
    """What a program defines at its top level.

    Attributes:
        names: public functions and variables in the order they are bound, each once.
        functions: those of them that are functions.
    """

    names: tuple[str, ...]
    functions: tuple[str, ...]

    @property
    def name(self) -> str:
        """The reward's name: `reward` if it is bound, else the last function or variable."""
        if "reward" in self.names:
            return "reward"
        return (self.functions or self.names)[-1]


def outline(text: str) -> Outline:
    """What a reward program defines.

    >>> outline("def short(completions):\\n    return [1.0] * len(completions)").name
    'short'

    Raises:
        RewardSourceError: the text does not parse, or it defines nothing.
    """
    if not isinstance(text, str):
        raise UserError(f"a reward's source is text, not {type(text).__name__}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, FILENAME)
            compile(tree, FILENAME, "exec")
    except SyntaxError as error:
        raise RewardSourceError(_sentence(error), "syntax", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise RewardSourceError(f"the reward's text cannot be read: {error}", "syntax") from None
    names: list[str] = []
    functions: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bound = [node.name]
            functions.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound = [t.id for t in targets if isinstance(t, ast.Name)]
        else:
            bound = []
        names += bound

    def public(given: list[str]) -> tuple[str, ...]:
        # In the order in which each was bound last.
        return tuple(dict.fromkeys(n for n in reversed(given) if not n.startswith("_")))[::-1]

    if not public(names):
        raise RewardSourceError(
            "the text defines no reward; write a function such as "
            "def my_reward(completions, **columns): return [0.0 for text in completions]",
            "syntax",
        )
    return Outline(public(names), public(functions))


def _sentence(error: SyntaxError) -> str:
    line = f"line {error.lineno}: " if error.lineno else ""
    shown = f" in {error.text.strip()[:80]!r}" if error.text and error.text.strip() else ""
    return f"{line}{error.msg}{shown}"
