"""Functions that travel between processes: by reference if importable, else by source.

Pickle stores a function as "module and name", which is of no use for one that was
written in a notebook cell, shadowed by its own decorator, or made as a lambda. Such
a function is stored as its source text, with the names of its module that it uses:
other functions and classes of the notebook by source too, modules by name, plain
data by value. Loading it runs that source, as loading any pickle runs code: load
only what you wrote yourself.

Left out: functions whose source is not to be had (made by `exec` without a file), and
closures or globals that cannot be pickled, such as open files. Both are errors that
name the culprit.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import pickle
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from rlkit.errors import UserError


@dataclass(frozen=True)
class OwnMethod:
    """A method of the object that is being pickled."""

    name: str


@dataclass(frozen=True)
class Shadowed:
    """The function inside an importable object that took its name (a decorated function)."""

    module: str
    name: str


@dataclass(frozen=True)
class BySource:
    """A function as text, with the names it needs; `home` is the module it was written in."""

    name: str
    sources: tuple[tuple[str, str], ...]
    modules: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Any], ...]
    home: str


def pack_function(function: Any, owner: Any = None) -> Any:
    """What to pickle in place of a function; anything else that is callable stays as it is.

    Raises:
        UserError: its source, or a name it uses, cannot be taken along.
    """
    if isinstance(function, MethodType):
        mine = owner is not None and function.__self__ is owner
        return OwnMethod(function.__name__) if mine else function
    if not isinstance(function, FunctionType):
        return function
    module, path = function.__module__, function.__qualname__
    if module != "__main__" and "<" not in path and module in sys.modules:
        found = _look_up(module, path)
        if found is function:
            return function
        if _innermost(found) is function:
            return Shadowed(module, path)
    return _by_source(function)


def unpack_function(packed: Any, owner: Any = None) -> Any:
    """The function that `pack_function` packed.

    >>> unpack_function(pack_function(textwrap.dedent)) is textwrap.dedent
    True
    """
    if isinstance(packed, OwnMethod):
        return getattr(owner, packed.name)
    if isinstance(packed, Shadowed):
        __import__(packed.module)
        return _innermost(_look_up(packed.module, packed.name))
    return _rebuild(packed) if isinstance(packed, BySource) else packed


def _look_up(module: str, path: str) -> Any:
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _innermost(thing: Any) -> Any:
    """The function inside a reward, and inside what the reward made of it."""
    while thing is not None and not isinstance(thing, FunctionType):
        thing = getattr(thing, "function", None)
    return thing


# -- by source -------------------------------------------------------------------------


def _by_source(function: FunctionType) -> BySource:
    kept = getattr(function, "__rlkit_source__", None)
    if isinstance(kept, BySource):
        return kept
    sources: dict[str, str] = {}
    modules: dict[str, str] = {}
    values: dict[str, Any] = {}
    name = function.__name__ if function.__name__.isidentifier() else "function"
    pending: list[tuple[str, Any]] = [(name, function)]
    while pending:
        known_as, thing = pending.pop()
        if known_as in sources or known_as in modules or known_as in values:
            continue
        own = isinstance(thing, (FunctionType, type)) and not _importable(thing)
        if isinstance(thing, ModuleType):
            modules[known_as] = thing.__name__
        elif thing is function or own:
            sources[known_as] = _definition(thing, known_as)
            pending.extend(_names_used(thing, sources[known_as]))
        else:
            values[known_as] = _picklable(thing, known_as, function.__name__)
    return BySource(
        name,
        tuple(sources.items()),
        tuple(modules.items()),
        tuple(values.items()),
        function.__module__ or "__main__",
    )


def _picklable(thing: Any, name: str, user: str) -> Any:
    try:
        pickle.dumps(thing)
    except Exception as error:
        raise UserError(
            f"the reward function {user!r} cannot be sent to another process: it uses {name!r}, "
            f"a {type(thing).__name__} that cannot be pickled ({error}); make it inside the "
            "function"
        ) from None
    return thing


def _importable(thing: Any) -> bool:
    module = getattr(thing, "__module__", None)
    return (
        module not in (None, "__main__")
        and not hasattr(thing, "__rlkit_source__")
        and _look_up(module, thing.__qualname__) is thing
    )


def _names_used(thing: Any, source: str) -> list[tuple[str, Any]]:
    """The names outside a function or class that its source reads, with what they stand for."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    found: dict[str, Any] = {}
    members = [thing] if isinstance(thing, FunctionType) else list(vars(thing).values())
    for member in members:
        function = inspect.unwrap(getattr(member, "__func__", member))
        if not isinstance(function, FunctionType):
            continue
        found.update({n: v for n, v in function.__globals__.items() if n in names})
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                found[name] = cell.cell_contents
            except ValueError:  # a variable that has no value yet
                continue
    if isinstance(thing, type):
        home = vars(sys.modules.get(thing.__module__, builtins))
        found.update({n: v for n, v in home.items() if n in names and n not in found})
    found.pop("__class__", None)
    return [(n, v) for n, v in sorted(found.items()) if v is not getattr(builtins, n, found)]


def _definition(thing: Any, name: str) -> str:
    """The source of a function or class as one statement that binds `name`, undecorated."""
    try:
        text = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        raise UserError(
            f"the source of {getattr(thing, '__name__', thing)!r} is not to be had, so it cannot "
            "be sent to another process; write it in a file or a notebook cell, or use "
            "Reward.from_source(text)"
        ) from None
    if getattr(thing, "__name__", "") == "<lambda>":
        return f"{name} = {_lambda_text(thing, text)}"
    statement = ast.parse(text).body[0]
    if isinstance(statement, ast.ClassDef):
        statement.name = name
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # The decorator made the reward; what travels is the function inside.
        statement.decorator_list = []
        statement.name = name
        # Annotations may name what the other process does not have, and do nothing here.
        for node in ast.walk(statement):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                node.returns = None
            elif isinstance(node, ast.arg):
                node.annotation = None
    return ast.unparse(statement)


def _lambda_text(function: FunctionType, text: str) -> str:
    """The lambda expression in a line of source whose code is that of `function`."""
    tree = None
    for cut in (text, text.strip().rstrip(",)"), f"({text.strip()}"):
        try:
            tree = ast.parse(cut)
            break
        except SyntaxError:
            continue
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)] if tree else []
    for node in found:
        compiled = compile(ast.Expression(node), "<lambda>", "eval").co_consts[0]
        if compiled.co_code == function.__code__.co_code and (
            compiled.co_names == function.__code__.co_names
            and _plain(compiled.co_consts) == _plain(function.__code__.co_consts)
        ):
            return ast.unparse(node)
    # A lambda with a closure compiles to other bytes on its own; alone it can only be this.
    if len(found) == 1:
        return ast.unparse(found[0])
    raise UserError(
        "a lambda of this reward cannot be told apart from others on its line, so it cannot be "
        "sent to another process; give it a name with def"
    )


def _plain(constants: tuple[Any, ...]) -> list[str]:
    return [repr(c) for c in constants if not isinstance(c, CodeType)]


def _rebuild(packed: BySource) -> Callable[..., Any]:
    text = "\n\n".join(source for _, source in packed.sources)
    digest = sha256(text.encode()).hexdigest()[:12]
    filename = f"<rlkit reward {packed.name} {digest}>"
    # Tracebacks show the lines, and the source can be found again.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": packed.home, "__builtins__": builtins}
    for name, module in packed.modules:
        __import__(module)
        namespace[name] = sys.modules[module]
    namespace.update(packed.values)
    # The text is the person's own, as any pickle is. A class may stand before its base:
    # what lacks a name waits until the others are there.
    waiting = [source for _, source in packed.sources]
    while waiting:
        lacking: list[tuple[str, NameError]] = []
        for source in waiting:
            try:
                exec(compile(source, filename, "exec"), namespace)
            except NameError as error:
                lacking.append((source, error))
        if len(lacking) == len(waiting):
            raise lacking[0][1]
        waiting = [source for source, _ in lacking]
    function = namespace[packed.name]
    function.__rlkit_source__ = packed
    return function
