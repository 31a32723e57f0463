"""From a completion to the program in it, as text: fences, tags, leftovers.

A completion may hold several blocks: a first draft, the final version, a call that
shows how to use it, what it prints. The rule: the last complete block that is
Python (or names no language), parses and defines what is asked for; then such a
block under a wrong tag; then a last block that was cut off; then a text that is
nothing but code. A fence inside a string does not end a block.

Source: what reports on graders of code name as failures (see `tests/cases`), and
CommonMark 0.31 on fenced code. Left out on purpose: any repair of the code itself.
Text is parsed here, never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Longest completion that is looked at, in characters.
MAX_SOURCE_CHARS = 100_000
#: So many blocks are looked at, counted from the end.
MAX_BLOCKS = 64
#: A fence inside a string is passed over at most so often in one block.
MAX_INNER_FENCES = 8

_OPEN = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
#: A fence at the end of a line of prose: "Here is the code: ```python".
_OPEN_LATE = re.compile(r"^[^`]*[^`\s:]?:[ \t]*(?P<fence>`{3})(?P<info>[A-Za-z0-9]*)[ \t]*$")
_TAG = re.compile(r"[\w+#.-]*")
_PYTHON = frozenset(("python", "py", "python3", "py3", "ipython", "ipython3", "python2"))
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        tag: language after the fence, in lower case; empty when there is none.
        text: what stands between the fences.
        closed: whether the closing fence is there.
    """

    tag: str
    text: str
    closed: bool = True

    @property
    def python(self) -> bool:
        """Tagged as Python, or not tagged."""
        return self.tag in _PYTHON or not self.tag


def extract_code(text: str, entry: str | None = None) -> str | None:
    """The source that defines `entry`, or `None` when there is none.

    A block that says `def entry` but does not parse is given as it is, so that the
    verdict can say what is wrong. Without an entry a whole program is looked for:
    the last block that reads its input, or else the last one that does anything.

    Args:
        text: the completion.
        entry: function or class to find; `Class.method` finds the class, and a class
            `Solution` with a method of that name will do for a function.

    >>> extract_code("Here:\\n```python\\ndef f(x):\\n    return x\\n```", "f")
    'def f(x):\\n    return x'
    """
    answer = without_thoughts(text[:MAX_SOURCE_CHARS].replace("\r\n", "\n").replace("\r", "\n"))
    if answer is None:
        return None
    blocks = list(fenced_blocks(answer, entry))[-MAX_BLOCKS:]
    candidates = _in_order(blocks)
    if not blocks:
        inner = _ANSWER.search(answer)
        candidates = [inner.group(1)] if inner and not defines(answer, entry) else [answer]
    candidates = [c.strip("\n") for c in candidates if c.strip()]
    fitting = [c for c in candidates if defines(c, entry)]
    if not entry and len(fitting) > 1:
        # A program reads its input; a block that shows a result or a call does not.
        fitting = [c for c in fitting if _reads_input(c)] + fitting
    if fitting:
        return fitting[0]
    for block in blocks[-1:]:
        if not block.closed and (shorter := _without_last_statement(block.text, entry)):
            return shorter
    if not entry:
        return next((b.text.strip("\n") for b in reversed(blocks) if b.tag in _PYTHON), None)
    broken = re.compile(
        rf"^\s*(?:async\s+)?def {re.escape(entry.split('.')[-1])}\s*[(\[]", re.MULTILINE
    )
    return next((source for source in candidates if broken.search(source)), None)


def fenced_blocks(text: str, entry: str | None = None) -> Iterator[Block]:
    """Every fenced block of a text, in order; the last may be open.

    Args:
        text: with line feeds as line ends.
        entry: a Python block that seems to end before it parses is read on past fences
            that stand inside a string, when it then defines this name.
    """
    lines = text.split("\n")
    at, tries = 0, MAX_BLOCKS
    while at < len(lines):
        opened = _OPEN.match(lines[at]) or _OPEN_LATE.match(lines[at])
        at += 1
        if opened is None:
            continue
        found = opened.groupdict()
        indent = len((found.get("indent") or "").expandtabs(4))
        tag = _TAG.match(found["info"].strip().lstrip("{.")).group().lower()
        fence = found["fence"]
        close = re.compile(rf"^[ \t]{{0,{indent + 3}}}{fence[0]}{{{len(fence)},}}[ \t]*$")
        end = _next_match(lines, at, close)
        body = [_dedented(line, indent) for line in lines[at:end]]
        if end is None:
            kept = "\n".join(body).rstrip()
            # The fence may stand right behind the last line of code.
            closed = kept.endswith(fence)
            yield Block(tag, kept[: -len(fence)] if closed else "\n".join(body), closed)
            return
        block = Block(tag, "\n".join(body))
        if tries and block.python and entry and entry in block.text and not parses(block.text):
            tries -= 1
            later = end
            for _ in range(MAX_INNER_FENCES):
                if (later := _next_match(lines, later + 1, close)) is None:
                    break
                longer = "\n".join(_dedented(line, indent) for line in lines[at:later])
                if defines(longer, entry):
                    block, end = Block(tag, longer), later
                    break
        yield block
        at = end + 1


def without_thoughts(text: str) -> str | None:
    """What stands after the thoughts, or `None` when the thoughts never end.

    >>> without_thoughts("<think>maybe 41</think> 42"), without_thoughts("<think>maybe 42")
    (' 42', None)
    """
    opened = text.lstrip().startswith("<think>")
    before, closed, after = text.partition("</think>")
    if opened:
        return after if closed else None
    # A prompt may have opened the tag. A closing tag inside a block of code is code, though.
    fences = sum(1 for line in before.split("\n") if _OPEN.match(line))
    return after if closed and fences % 2 == 0 and not parses(text) else text


def answer_blocks(text: str) -> list[str]:
    """What stands in each complete answer block, in one pass however many tags never close.

    >>> answer_blocks("<answer>1</answer> or <answer>2</answer>"), answer_blocks("<answer>1")
    (['1', '2'], [])
    """
    blocks, at = [], 0
    while True:
        start = text.find("<answer>", at)
        end = text.find("</answer>", start)
        if start < 0 or end < 0:
            return blocks
        blocks.append(text[start + len("<answer>") : end])
        at = end + len("</answer>")


def written_backwards(text: str) -> bool:
    """Does the text hold characters that turn its reading direction around?

    >>> written_backwards("26"), written_backwards("\u202e26\u202c")
    (False, True)
    """
    return any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in text)


def defines(source: str, entry: str | None) -> bool:
    """Does the source parse, and does it define `entry` (or, without one, do anything)?"""
    tree = _tree(source)
    if tree is None:
        return False
    if not entry:
        kinds = (ast.Call, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AugAssign)
        return any(isinstance(node, kinds) for node in ast.walk(tree))
    first, *rest = entry.split(".")
    names = set(_names_bound_by(tree.body))
    if first in names:
        return True
    return not rest and any(
        isinstance(node, ast.ClassDef)
        and node.name == "Solution"
        and first in set(_names_bound_by(node.body))
        for node in tree.body
    )


def _in_order(blocks: list[Block]) -> list[str]:
    """Texts of the blocks, the most likely first."""
    newest = blocks[::-1]
    groups = (
        [b for b in newest if b.closed and b.python],
        [b for b in newest if b.closed and not b.python],
        [b for b in newest if not b.closed],
    )
    return [block.text for group in groups for block in group]


def _names_bound_by(body: list[ast.stmt]) -> Iterator[str]:
    """Names of functions, classes and simple assignments, also inside `if` and `try`."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _names_bound_by(node.body)
            yield from _names_bound_by(getattr(node, "orelse", []))


def _reads_input(source: str) -> bool:
    tree = _tree(source)
    return tree is not None and any(
        (isinstance(node, ast.Name) and node.id in ("input", "open"))
        or (isinstance(node, ast.Attribute) and node.attr == "stdin")
        for node in ast.walk(tree)
    )


def _without_last_statement(source: str, entry: str | None) -> str | None:
    """A cut-off block without the statement that was cut, when what is left is complete."""
    lines = source.rstrip("\n").split("\n")
    starts = [i for i, line in enumerate(lines) if line and not line[0].isspace()]
    if len(starts) < 2 or not entry:
        return None
    shorter = "\n".join(lines[: starts[-1]]).strip("\n")
    return shorter if defines(shorter, entry) else None


def _next_match(lines: list[str], start: int, pattern: re.Pattern) -> int | None:
    return next((i for i in range(start, len(lines)) if pattern.match(lines[i])), None)


def _dedented(line: str, indent: int) -> str:
    room = len(line) - len(line.lstrip(" \t"))
    return line[min(room, indent) :]


def parses(source: str) -> bool:
    """Is it Python, as far as the parser of this interpreter can tell?"""
    return _tree(source) is not None


def _tree(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
