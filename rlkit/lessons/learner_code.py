"""The learner's function as a program: its source, with all it needs, and nothing pickled.

A function from a notebook cell is rebuilt from its own source. What it names is brought
along: other functions and classes of the notebook by their source, plain data by writing
it down, modules and their members as imports. The result runs in the sandbox, which has
Python's standard library and nothing else.

Left out on purpose: objects. What is neither source nor plain data (a model, an open file)
is named in a sentence, for the learner to pass in as an argument.
"""

from __future__ import annotations
import __future__ as future

import ast
import builtins
import dis
import functools
import inspect
import linecache
import math
import re
import sys
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlkit.sandbox.codec import CodecError, encode

_FUTURE = "from __future__ import annotations\n"


class NoSource(Exception):
    """The function cannot be sent by its source; the message says why, for a learner."""


@dataclass(frozen=True)
class Piece:
    """One definition of the program: the name it is known by, its text, its first line."""

    name: str
    text: str
    line: int


@dataclass(frozen=True)
class Program:
    """A program that defines the learner's function.

    Attributes:
        source: all of it.
        entry: the name to call.
        pieces: the learner's own definitions, to say where a line came from.
    """

    source: str
    entry: str
    pieces: tuple[Piece, ...] = ()

    def place(self, line: int) -> str | None:
        """A line of the program as the learner counts it: from the `def` on.

        None where the line is not of the learner's own making.

        >>> Program("", "f", (Piece("f", "def f(x):\\n    return x", 3),)).place(4)
        'line 2 of f'
        """
        for piece in reversed(self.pieces):
            if 0 <= line - piece.line <= piece.text.count("\n"):
                return f"line {line - piece.line + 1} of {piece.name}"
        return None


def program(function: Callable[..., Any]) -> Program:
    """The program that defines this function and all that it names.

    Raises:
        NoSource: it has no source here, or needs something that is neither source nor data.

    >>> RATE = 0.5
    >>> def halved(x):
    ...     return x * RATE
    >>> print(program(halved).source)
    from __future__ import annotations
    RATE = 0.5
    def halved(x):
        return x * RATE
    <BLANKLINE>
    """
    return _Collector().collect(function)


def own_source(function: Callable[..., Any]) -> str | None:
    """The text of the function's own definition, or None when there is none to be had."""
    try:
        return _definition(_bare(function), None)[0]
    except NoSource:
        return None


class _Collector:
    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.pieces: list[tuple[str, str, bool]] = []  # name, text, whether a definition
        self.known: dict[str, int] = {}  # name -> id of what it stands for

    def collect(self, function: Callable[..., Any]) -> Program:
        if inspect.ismethod(function) or isinstance(function, functools.partial):
            raise NoSource("it must be a plain function, written with def")
        bare = _bare(function)
        if not isinstance(bare, (types.FunctionType, type)):
            name = getattr(function, "__name__", type(function).__name__)
            raise NoSource(f"{name} has no source in this notebook; write a function of your own")
        entry = "answer" if bare.__name__ == "<lambda>" else bare.__name__
        self.add(entry, function)
        lines = [_FUTURE, *(f"{line}\n" for line in self.imports.values())]
        number, pieces = len(lines) + 1, []
        for name, text, own in self.pieces:
            if own:
                pieces.append(Piece(name, text, number))
            lines.append(text + "\n")
            number += text.count("\n") + 1
        return Program("".join(lines), entry, tuple(pieces))

    def add(self, name: str, value: Any) -> None:
        """Makes sure that the program defines `name` as `value`."""
        if self.known.get(name) == id(value):
            return
        if name in self.known:
            raise NoSource(f"{name} means two different things in it; rename one")
        self.known[name] = id(value)
        line = _import_line(name, value)
        if line is not None:
            self.imports[name] = line
            return
        bare = _bare(value)
        if isinstance(bare, (types.FunctionType, type)):
            self.define(name, bare)
            return
        self.pieces.append((name, f"{name} = {_literal(name, value)}", False))

    def define(self, name: str, value: types.FunctionType | type) -> None:
        text, space = _definition(value, name)
        missing = []
        for needed in _names(text):
            if needed == value.__name__ and needed not in space:
                continue  # a class or function that names itself
            if needed in space and space[needed] is not _EMPTY:
                if _bare(space[needed]) is value:
                    self.known.setdefault(needed, id(space[needed]))
                    continue
                self.add(needed, space[needed])
            elif not hasattr(builtins, needed):
                missing.append(needed)
        # What is missing may never be reached; when it is, Python says which name it was.
        self.pieces.append((name, text, True))
        if value.__name__ != name and value.__name__ != "<lambda>":
            self.pieces.append((name, f"{name} = {value.__name__}", False))


_EMPTY = object()


def _bare(value: Any) -> Any:
    """The function below its decorators; they come along with its source."""
    try:
        return inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value
    except ValueError:  # it wraps itself
        return value


def _definition(value: Any, name: str | None) -> tuple[str, dict[str, Any]]:
    """The source of a function or class, without indentation, and what its names stand for."""
    called = name or getattr(value, "__name__", "it")
    if isinstance(value, type):
        text, node = _class_in_text(value)
        space = dict(vars(sys.modules.get(value.__module__, builtins)))
        for method in _methods(value):
            space.update(_space(method))
    elif isinstance(value, types.FunctionType):
        code, space = value.__code__, _space(value)
        text = "".join(linecache.getlines(code.co_filename, value.__globals__))
        if not text:
            raise NoSource(f"the source of {called} is not known here; define it in a cell")
        node = _function_in_text(text, code)
    else:
        raise NoSource(f"{called} is no function")
    if node is None:
        raise NoSource(
            f"the source of {called} cannot be told from what stands around it; write it with "
            "def, on lines of its own"
        )
    if isinstance(node, ast.Lambda):
        return f"{name or 'answer'} = {ast.get_source_segment(text, node)}", space
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(lines)), space


def _space(function: types.FunctionType) -> dict[str, Any]:
    """What the names in a function stand for: its globals, and the variables it closes over."""
    space = dict(function.__globals__)
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            space[free] = cell.cell_contents
        except ValueError:  # not bound yet
            space[free] = _EMPTY
    space.pop("__class__", None)  # what a bare super() needs; the class's own source brings it
    return space


def _methods(value: type) -> list[types.FunctionType]:
    found = []
    for member in vars(value).values():
        member = getattr(member, "fget", None) or getattr(member, "__func__", member)
        member = _bare(member)
        if isinstance(member, types.FunctionType) and member.__module__ == value.__module__:
            found.append(member)
    return found


def _class_in_text(value: type) -> tuple[str, ast.ClassDef | None]:
    """The text of the file or cell that defines a class, and the class in it.

    Python does not keep where a class stands, but where its methods do. One without methods
    is looked for by its name, in the newest cell first.
    """
    files = [method.__code__.co_filename for method in _methods(value)]
    files.append(getattr(sys.modules.get(value.__module__), "__file__", None) or "")
    if value.__module__ == "__main__":
        files += reversed(list(linecache.cache))
    for file in dict.fromkeys(files):
        text = "".join(linecache.getlines(file)) if file else ""
        tree = _parse(text) if f"class {value.__name__}" in text else None
        found = [
            node
            for node in (ast.walk(tree) if tree is not None else ())
            if isinstance(node, ast.ClassDef) and node.name == value.__name__
        ]
        if found:
            return text, found[-1]
    return "", None


def _function_in_text(text: str, code: types.CodeType) -> ast.AST | None:
    """The node that defines a function, in the text of its file or cell."""
    tree = _parse(text)
    if tree is None:
        return None
    line = code.co_firstlineno
    if code.co_name == "<lambda>":
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == line]
    else:
        found = [
            node
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == code.co_name
            and line in (node.lineno, *(d.lineno for d in node.decorator_list))
        ]
    return found[0] if len(found) == 1 else None


def _parse(text: str) -> ast.Module | None:
    """A file or a cell, which may hold IPython's own lines, as a tree."""
    for candidate in (text, _without_magics(text)):
        try:
            return ast.parse(candidate)
        except (SyntaxError, ValueError):
            continue
    return None


def _without_magics(text: str) -> str:
    """A cell with IPython's own lines blanked, so that it is Python again."""
    return re.sub(r"^[ \t]*[%!?].*$", "", text, flags=re.MULTILINE)


def _names(text: str) -> list[str]:
    """The names that a definition looks up outside of itself, in order of appearance."""
    flags = future.annotations.compiler_flag
    names: dict[str, None] = {}
    todo = [compile(text, "<learner>", "exec", flags=flags, dont_inherit=True)]
    own = {ins.argval for ins in dis.get_instructions(todo[0]) if ins.opname == "STORE_NAME"}
    while todo:
        code = todo.pop()
        stored = set()
        for step in dis.get_instructions(code):
            if step.opname == "STORE_NAME":
                stored.add(step.argval)
            elif step.opname == "LOAD_GLOBAL" or (
                step.opname in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
                and step.argval not in stored
            ):
                names.setdefault(step.argval)
        todo += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    # In the body of a class its own name and module are set by Python.
    return [n for n in names if n not in {"__name__", "__module__", "__qualname__"} - own]


def _import_line(name: str, value: Any) -> str | None:
    """How the sandbox gets the same thing from Python's library; None when it is not from it."""
    if isinstance(value, types.ModuleType):
        top = value.__name__.partition(".")[0]
        if top not in sys.stdlib_module_names:
            raise NoSource(
                f"it uses {value.__name__}, and the sandbox has Python's own library only; do "
                "without it"
            )
        return f"import {value.__name__} as {name}"
    module = getattr(value, "__module__", None)
    called = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if type(value) in (types.GenericAlias,) or not isinstance(module, str):
        return None
    if getattr(value, "__name__", None) is None and type(value).__module__ == "typing":
        called = getattr(value, "_name", None)  # typing.List and the like
    if not isinstance(called, str) or "." in called or "<" in called:
        return None
    home = sys.modules.get(module)
    if module in ("builtins", "__main__") or getattr(home, called, None) is not value:
        return f"from builtins import {called} as {name}" if module == "builtins" else None
    if module.partition(".")[0] in sys.stdlib_module_names:
        return f"from {module} import {called} as {name}"
    if _is_installed(home):
        raise NoSource(
            f"it uses {called} of {module}, and the sandbox has Python's own library only; do "
            "without it"
        )
    return None


def _is_installed(module: types.ModuleType | None) -> bool:
    """Whether a module belongs to an installed package, rather than to the learner."""
    file = getattr(module, "__file__", None) or ""
    name = getattr(module, "__name__", "")
    return "site-packages" in file or "dist-packages" in file or name.partition(".")[0] == "rlkit"


def _literal(name: str, value: Any) -> str:
    """Plain data as Python writes it.

    >>> _literal("x", {"a": [1, float("inf")]})
    "{'a': [1, float('inf')]}"
    """
    if isinstance(value, re.Pattern):
        return f"__import__('re').compile({value.pattern!r}, {value.flags})"
    try:
        encode(value)
    except CodecError:
        raise NoSource(
            f"it uses {name}, {_said(value)}, which cannot go into the sandbox; pass what you "
            "need of it as an argument"
        ) from None
    return _write(value)


def _said(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _write(value: Any) -> str:
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f"float('{value}')"
    if kind is complex:
        return f"complex({_write(value.real)}, {_write(value.imag)})"
    if kind is list:
        return "[" + ", ".join(map(_write, value)) + "]"
    if kind is tuple:
        return "(" + "".join(f"{_write(item)}, " for item in value) + ")"
    if kind is dict:
        return "{" + ", ".join(f"{_write(k)}: {_write(v)}" for k, v in value.items()) + "}"
    if kind in (set, frozenset):
        return f"{kind.__name__}([{', '.join(map(_write, value))}])"
    if kind.__name__ in ("Decimal", "Fraction"):
        return f"__import__({kind.__module__!r}, fromlist=['x']).{kind.__name__}({str(value)!r})"
    return repr(value)
