"""The names of the languages, and what else people call them. Nothing is looked up here."""

from __future__ import annotations

from difflib import get_close_matches

from rlkit.errors import UserError

#: Every language of the table, in its order.
NAMES = (
    *("python", "javascript", "typescript", "c", "cpp", "java", "rust", "go", "bash", "sql"),
    "math",
)

_ALIASES = {
    **{"py": "python", "python3": "python", "js": "javascript", "node": "javascript"},
    **{"ts": "typescript", "c++": "cpp", "cxx": "cpp", "rs": "rust", "golang": "go"},
    **{"sh": "bash", "shell": "bash", "sqlite": "sql", "sqlite3": "sql", "maths": "math"},
}


def canonical(name: str) -> str:
    """The table's own name of a language.

    Raises:
        UserError: no such language.

    >>> canonical("C++"), canonical("js"), canonical("rust")
    ('cpp', 'javascript', 'rust')
    """
    asked = name.strip().lower() if isinstance(name, str) else ""
    found = _ALIASES.get(asked, asked)
    if found in NAMES:
        return found
    near = get_close_matches(asked, (*NAMES, *_ALIASES), n=1)
    hint = f"did you mean {canonical(near[0])!r}? " if near else ""
    raise UserError(f"language {name!r} is not supported; {hint}choose one of {', '.join(NAMES)}")
