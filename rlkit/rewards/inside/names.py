"""Names from `typing` that solutions use in annotations and forget to import."""

TYPING_NAMES = frozenset(
    (
        *("Any", "Callable", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator"),
        *("Iterable", "Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional"),
        *("Sequence", "Set", "Tuple", "TypeVar", "Union"),
    )
)


def supply(code, space):
    """Put the names that a program looks up, and that `typing` has, into its name space."""
    names, todo = set(), [code]
    while todo:
        part = todo.pop()
        names.update(part.co_names)
        todo.extend(constant for constant in part.co_consts if type(constant) is type(code))
    missing = TYPING_NAMES.intersection(names)
    if missing:
        import typing

        space.update({name: getattr(typing, name) for name in missing})
