"""Landlock: which files a process may open, and nothing else.

A set of rules is built once in the zygote and put on by each child. Everything is
allowed in the job's own folder, reading in the folders that Python and other programs
need, nothing elsewhere; from version 4 on no TCP, from version 6 on no signals and no
abstract sockets to the outside of the job.

Source: the manual page landlock(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rlkit.sandbox.zygote import kernel

_CREATE, _ADD, _RESTRICT = 444, 445, 446

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
#: How many kinds of access each version of Landlock knows; later ones add none for files.
_KINDS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
#: The kinds that make sense for something that is not a folder.
_FILE_KINDS = EXECUTE | WRITE | READ | _TRUNCATE | _IOCTL


def version() -> int:
    """The version of Landlock that the kernel has, 0 where it has none."""
    if not kernel.available():
        return 0
    return max(0, kernel.call("syscall", _CREATE, None, 0, 1))


def handled(abi: int) -> int:
    """Every kind of access to files that this version can refuse, as bits."""
    return (1 << _KINDS[min(abi, 5)]) - 1


def ruleset(
    abi: int,
    own: Iterable[str],
    readable: Iterable[str],
    executable: bool,
    network: bool,
    signals: bool = False,
) -> int:
    """Build a set of rules; returns its descriptor.

    Args:
        abi: version to use, at most what the kernel has.
        own: folders in which everything is allowed; they must exist.
        readable: files and folders to read from; those that do not exist are left out.
        executable: whether programs there may be run.
        network: whether TCP is allowed.
        signals: whether processes outside may be signalled.

    Raises:
        kernel.Refused: the kernel does not take it.
    """
    kinds = handled(abi)
    attributes = kinds.to_bytes(8, "little")
    if abi >= 4:
        attributes += (0 if network else 3).to_bytes(8, "little")
    if abi >= 6:
        attributes += (1 if signals else 3).to_bytes(8, "little")
    rules = kernel.must("a Landlock ruleset", "syscall", _CREATE, attributes, len(attributes), 0)
    look = READ | LIST | (EXECUTE if executable else 0)
    everything = kinds if executable else kinds & ~EXECUTE
    grants = [(path, look, False) for path in readable]
    grants += [(path, READ | WRITE, False) for path in ("/dev/null", "/dev/zero", "/dev/full")]
    grants += [(path, READ, False) for path in ("/dev/urandom", "/dev/random")]
    grants += [(path, everything, True) for path in own]
    for path, wanted, needed in grants:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            if needed:
                raise
            continue  # this machine has no such folder
        if os.fstat(place).st_mode & 0o170000 != 0o040000:
            wanted &= _FILE_KINDS
        rule = (wanted & kinds).to_bytes(8, "little") + place.to_bytes(4, "little")
        failed = kernel.call("syscall", _ADD, rules, 1, rule, 0) < 0
        os.close(place)
        if failed and needed:
            raise kernel.Refused(kernel.error(), f"a Landlock rule for {path}")
    return rules


def restrict(rules: int) -> bool:
    """Put the rules on this process, for ever; it must have no way to new privileges."""
    return kernel.call("syscall", _RESTRICT, rules, 0) == 0
