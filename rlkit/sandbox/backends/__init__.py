"""What can run a program: this machine's own zygotes, other sandboxes, remote services."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rlkit.errors import UserError

#: Where the class of a backend lives, by its name.
_HOMES = {
    "local": ("rlkit.sandbox.backends.local", "LocalBackend"),
    "bwrap": ("rlkit.sandbox.backends.bwrap", "BwrapBackend"),
    "docker": ("rlkit.sandbox.backends.docker", "DockerBackend"),
    "kubernetes": ("rlkit.sandbox.backends.kubernetes", "KubernetesBackend"),
    "fusion": ("rlkit.sandbox.backends.fusion", "FusionBackend"),
    "piston": ("rlkit.sandbox.backends.piston", "PistonBackend"),
    "http": ("rlkit.sandbox.backends.served", "ServedBackend"),
}

#: What follows the colon of a name, as in `fusion:http://127.0.0.1:8080`.
_AFTER = {
    "docker": ("image", ""),
    "kubernetes": ("namespace", ""),
    "fusion": ("url", "http://127.0.0.1:8080"),
    "piston": ("url", "http://127.0.0.1:2000"),
    "http": ("url", "http://127.0.0.1:8080"),
}

#: Read for the token of a service, so that no token stands in a program or a notebook.
TOKEN_VARIABLE = "RLKIT_SANDBOX_TOKEN"


def names() -> tuple[str, ...]:
    """The backends that `Sandbox(backend=...)` knows by name.

    >>> names()[0]
    'local'
    """
    return tuple(_HOMES)


def split_name(name: str) -> tuple[str, str]:
    """The kind of a backend and what follows: an address, an image, a namespace.

    Raises:
        UserError: no such backend, or an address is missing.

    >>> split_name("local"), split_name("fusion:http://127.0.0.1:8080")
    (('local', ''), ('fusion', 'http://127.0.0.1:8080'))
    >>> split_name("https://class.example/rlkit")
    ('http', 'https://class.example/rlkit')
    """
    kind, colon, rest = name.partition(":")
    if kind in ("http", "https"):
        if not rest.startswith("//"):
            raise UserError(f"backend {name!r} needs an address, such as http://127.0.0.1:8080")
        return "http", name
    if kind not in _HOMES:
        raise UserError(
            f"backend {name!r} is none of {', '.join(_HOMES)}; a server of `rlkit sandbox serve` "
            "goes by its address, http://…"
        )
    what, example = _AFTER.get(kind, ("", ""))
    if colon and not what:
        raise UserError(f"backend {kind!r} stands alone; leave out {colon + rest!r}")
    if example and not rest:
        raise UserError(f"backend {kind!r} needs an address, such as {kind}:{example}")
    return kind, rest


def check_name(name: str) -> None:
    """Refuse a name that no backend has.

    Raises:
        UserError: no such backend, or an address is missing.
    """
    split_name(name)


def make(name: str, workers: int, python: str, layers: Sequence[str]) -> Any:
    """A backend by its name, with default settings beside these.

    Args:
        name: see `names`; perhaps with more after a colon, see `split_name`. A service is given
            the token in the environment variable `RLKIT_SANDBOX_TOKEN`.
        workers: how many jobs will run at a time.
        python: interpreter for the local backend.
        layers: fences of the kernel for the local backend.

    Raises:
        UserError: no such backend, or it cannot work here.
    """
    kind, rest = split_name(name)
    module, attribute = _HOMES[kind]
    backend = getattr(import_module(module), attribute)
    if kind == "local":
        return backend(workers, python, layers)
    more = {_AFTER[kind][0]: rest} if rest else {}
    if kind in ("fusion", "piston", "http"):
        more["token"] = os.environ.get(TOKEN_VARIABLE) or None
    return backend(workers=workers, **more)
