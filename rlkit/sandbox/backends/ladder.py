"""Which fences to try, and what hides some of them on purpose.

Strength is chosen by trying, never by configuration: a zygote is first asked to isolate
itself in namespaces, and where this machine refuses that, once more without. All else
(Landlock, seccomp, a user of its own) each zygote finds out by itself.

`RLKIT_SANDBOX_HIDE` makes a machine look weaker than it is, to see what each fence is
good for. It only ever weakens, and every report says so.

    userns       no namespaces of any kind, as in most containers; userns:only leaves root the
                 others
    landlock     no Landlock; landlock:N caps its version at N
    seccomp      no filter of system calls
    docker       the system calls that containers commonly refuse are refused
    uid          root goes on as root
    rlimits      no limits on resources
    all          all of them but docker
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rlkit.errors import UserError

VARIABLE = "RLKIT_SANDBOX_HIDE"

#: Fences that a sandbox can be told to leave out.
LAYERS = ("landlock", "namespaces", "seccomp")

_NEWEST_LANDLOCK = 99
_WORDS = ("userns", "userns:only", "landlock", "seccomp", "docker", "uid", "rlimits", "all")


@dataclass(frozen=True)
class Allowed:
    """What a zygote may try.

    Attributes:
        namespaces: a private world of mounts, processes and network.
        userns: a user namespace.
        landlock: highest version to use, 0 for none.
        seccomp: a filter of system calls.
        docker: behave as in a container.
        uid: give up root's user id.
        limits: limits on resources.
        hidden: what was hidden on purpose, as a person wrote it.
    """

    namespaces: bool = True
    userns: bool = True
    landlock: int = _NEWEST_LANDLOCK
    seccomp: bool = True
    docker: bool = False
    uid: bool = True
    limits: bool = True
    hidden: str = ""


def allowed(
    layers: Collection[str] = LAYERS, environment: Mapping[str, str] = os.environ
) -> Allowed:
    """What a zygote started now may try.

    Args:
        layers: fences to use where the machine has them.
        environment: where `RLKIT_SANDBOX_HIDE` is looked up.

    Raises:
        UserError: a word in the variable that means nothing.

    >>> allowed(environment={"RLKIT_SANDBOX_HIDE": "userns,landlock:4"}).landlock
    4
    """
    words = [word.strip() for word in environment.get(VARIABLE, "").split(",")]
    words = [word for word in words if word]
    cap = _NEWEST_LANDLOCK
    for word in words:
        name, _, number = word.partition(":")
        if name == "landlock" and number:
            if not number.isdigit():
                raise UserError(f"{VARIABLE}: {word!r} needs a version, for example landlock:4")
            cap = min(cap, int(number))
        elif word not in _WORDS:
            raise UserError(f"{VARIABLE}: {word!r} means nothing; use {', '.join(_WORDS)}")

    def open_to(*names: str) -> bool:
        return not {*names, "all"} & set(words)

    return Allowed(
        namespaces="namespaces" in layers and open_to("userns"),
        userns=open_to("userns", "userns:only"),
        landlock=cap if "landlock" in layers and open_to("landlock") else 0,
        seccomp="seccomp" in layers and open_to("seccomp"),
        docker="docker" in words,
        uid=open_to("uid"),
        limits=open_to("rlimits"),
        hidden=",".join(words),
    )
