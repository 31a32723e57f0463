"""What the text of a test says, found before anything runs: its names, and what it needs.

Host side, on the task author's text only. A program's text is never looked at here, so no
program can choose how it is tested.

Left out on purpose: types. That a capital letter begins the name of a class is the rule of
PEP 8, and the strictness of proxy mode rests on it; `isinstance`, `issubclass` and `except`
name classes whatever their letters.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from dataclasses import dataclass
from functools import lru_cache

from rlkit.errors import UserError

#: What a test reaches for that only works where the program itself runs.
_ELSEWHERE = {
    "monkeypatch": "replaces parts of the program",
    "patch": "replaces parts of the program",
    "mock": "replaces parts of the program",
    "capsys": "reads what the program prints",
    "capfd": "reads what the program prints",
    "redirect_stdout": "reads what the program prints",
    "redirect_stderr": "reads what the program prints",
    "tmp_path": "shares files with the program",
    "tmpdir": "shares files with the program",
    "tempfile": "shares files with the program",
    "caplog": "reads the program's log",
    "catch_warnings": "catches the program's warnings",
    "warns": "catches the program's warnings",
    "inspect": "inspects the program's source",
    "getsource": "inspects the program's source",
    "setrecursionlimit": "sets the interpreter up for the program",
    "unittest": "is a unittest.TestCase",
    "fixture": "uses pytest fixtures",
    "asdict": "takes a data class of the program apart",
    "astuple": "takes a data class of the program apart",
    "GeneratorType": "asks for a kind of object that only the program has",
    "FunctionType": "asks for a kind of object that only the program has",
    "LambdaType": "asks for a kind of object that only the program has",
    "MethodType": "asks for a kind of object that only the program has",
    "CoroutineType": "asks for a kind of object that only the program has",
    "getrefcount": "counts references in the program",
    "weakref": "watches the program's objects being freed",
    "pickle": "pickles the program's objects",
}
_CALLED_ELSEWHERE = {
    "open": "shares files with the program",
    "eval": "evaluates text",
    "exec": "evaluates text",
    "globals": "looks at the program's name space",
    "locals": "looks at the program's name space",
    "input": "reads from standard input",
    "id": "compares the identity of objects in two processes",
}
_EVIDENCE = ("raises", "fail", "check", "candidate")


@dataclass(frozen=True)
class TestText:
    """What a test's text says.

    Attributes:
        names: that it looks up and has not bound before, in alphabetical order: the program's.
        bound: names that its outermost lines give a meaning to.
        classes: those of them, and attributes, that it treats as classes.
        evidence: whether anything in it could fail.
        elsewhere: why it cannot run apart from the program; empty when it can.
    """

    __test__ = False

    names: tuple[str, ...]
    bound: frozenset[str]
    classes: tuple[str, ...]
    evidence: bool
    elsewhere: str


@lru_cache(maxsize=4096)
def read_test(code: str) -> TestText:
    """Read a test's text.

    Raises:
        UserError: it is not Python.

    >>> text = read_test("assert f(Point(1, n)) == sorted([3])")
    >>> text.names, text.classes, text.evidence, text.elsewhere
    (('Point', 'f', 'n'), ('Point',), True, '')
    >>> read_test("with patch('solution.now'):\\n    assert f() == 1").elsewhere
    'replaces parts of the program'
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        raise UserError(f"a test is not Python ({error}): {code[:80]!r}") from None
    reader = _Reader()
    reader.visit(tree)
    # A program that defines what the test failed to bind must not be asked for it.
    looked_up, bound = _scopes(symtable.symtable(code, "test", "exec"))
    own = set(dir(builtins))
    classes = {name for name in reader.words if name[:1].isupper()} | reader.classes
    elsewhere = reader.elsewhere
    if not elsewhere and reader.bases - own - reader.defined - reader.imported:
        derived = min(reader.bases - own - reader.defined - reader.imported)
        elsewhere = f"derives a class from {derived}, which is the program's"
    return TestText(
        tuple(sorted((looked_up - bound | _asked_first(tree.body, set())) - own)),
        frozenset(bound),
        tuple(sorted(classes - own)),
        reader.evidence,
        elsewhere,
    )


def _scopes(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Names that are looked up in the outermost scope, and those that are bound there."""
    outermost = table.get_type() == "module"
    looked_up, bound = set(), set()
    for symbol in table.get_symbols():
        name = symbol.get_name()
        if outermost or symbol.is_global():
            if symbol.is_referenced():
                looked_up.add(name)
            if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
                bound.add(name)
    for child in table.get_children():
        theirs, its = _scopes(child)
        looked_up |= theirs
        bound |= its
    return looked_up, bound


def _asked_first(body: list[ast.stmt], bound: set[str]) -> set[str]:
    """Names that are looked up before anything binds them, as in `f = wrapped(f)`."""
    asked = set()
    for node in body:
        blocks = [part for part in ast.iter_child_nodes(node) if _is_block(part)]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            # What stands inside is looked up later, except for decorators and bases.
            heads = [*node.decorator_list, *getattr(node, "bases", ())]
            asked |= _names(heads, ast.Load) - bound
            bound.add(node.name)
            for part in ast.walk(node):
                bound.update(part.names if isinstance(part, ast.Global) else ())
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((a.asname or a.name).partition(".")[0] for a in node.names)
            continue
        heads = [part for part in ast.iter_child_nodes(node) if part not in blocks]
        asked |= _names(heads, ast.Load) - bound
        if isinstance(node, ast.AugAssign):
            asked |= _names(heads, ast.Store) - bound
        bound |= _names(heads, ast.Store)
        for block in blocks:
            if isinstance(block, ast.ExceptHandler):
                asked |= _names([block.type] if block.type else [], ast.Load) - bound
                bound |= {block.name} - {None}
                asked |= _asked_first(block.body, bound)
            else:
                asked |= _asked_first([block], bound)
    return asked


def _is_block(node: ast.AST) -> bool:
    return isinstance(node, (ast.stmt, ast.ExceptHandler))


def _names(nodes: list[ast.AST], kind: type) -> set[str]:
    own: set[str] = set()  # of comprehensions and lambdas, which have scopes of their own
    found: set[str] = set()
    for node in (part for whole in nodes for part in ast.walk(whole)):
        if isinstance(node, ast.comprehension):
            own |= _names([node.target], ast.Store)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, kind):
            found.add(node.id)
    return found - own


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.words: set[str] = set()  # names that are looked up, and attributes
        self.classes: set[str] = set()
        self.bases: set[str] = set()
        self.defined: set[str] = set()
        self.imported: set[str] = set()  # from the standard library
        self.evidence = False
        self.elsewhere = ""

    def _note(self, reason: str | None) -> None:
        self.elsewhere = self.elsewhere or reason or ""

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.words.add(node.id)
            self._note(_ELSEWHERE.get(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.words.add(node.attr)
        self._note(_ELSEWHERE.get(node.attr))
        whole = ast.unparse(node)
        if whole in ("sys.stdout", "sys.stderr", "sys.stdin", "os.environ", "sys.argv"):
            self._note("reads or replaces what belongs to the program's process")
        if whole in ("random.seed", "np.random.seed", "numpy.random.seed"):
            self._note("seeds the program's random numbers")
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._note(_ELSEWHERE.get(node.arg))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.partition(".")[0]
            self._note(_ELSEWHERE.get(first))
            if first in sys.stdlib_module_names:
                self.imported.add(alias.asname or first)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        first = (node.module or "").partition(".")[0]
        self._note(_ELSEWHERE.get(first))
        for alias in node.names:
            self._note(_ELSEWHERE.get(alias.name))
            self.words.add(alias.name)
            if first in sys.stdlib_module_names or first == "pytest":
                self.imported.add(alias.asname or alias.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.defined.add(node.name)
        for base in node.bases:
            first = base
            while isinstance(first, (ast.Attribute, ast.Subscript)):
                first = first.value
            if isinstance(first, ast.Name):
                self.bases.add(first.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if isinstance(node.func, ast.Name):
            name = node.func.id
            self._note(_CALLED_ELSEWHERE.get(name))
        if name in ("isinstance", "issubclass") and len(node.args) == 2:
            self._as_classes(node.args[1])
        if name in _EVIDENCE or (name or "").startswith("assert"):
            self.evidence = True
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self._as_classes(node.type)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if not (isinstance(node.test, ast.Constant) and node.test.value):
            self.evidence = True
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.evidence = True
        self.generic_visit(node)

    def _as_classes(self, node: ast.expr) -> None:
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            if isinstance(part, (ast.Name, ast.Attribute)):
                self.classes.add(part.id if isinstance(part, ast.Name) else part.attr)
