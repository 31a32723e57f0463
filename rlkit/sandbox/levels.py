"""Making a machine look weaker than it is, to see what the sandbox does then.

Most people's machines are weaker than the one a sandbox is written on: containers forbid new
namespaces, old kernels have no Landlock, a class runs as one ordinary user. Each of them can
be played here: by hiding what the kernel offers (an environment variable that the sandbox
reads when it starts a worker), and by starting a process under the filter that container
engines use, or as an ordinary user.

It only ever weakens, and every report says so.

Words, joined by `+` or commas: `full` (nothing is hidden), `userns` (no namespaces of any
kind, as in most containers), `userns:only` (root can still make the others), `landlock`
(none), `landlock:N` (no newer version than N), `seccomp` (no filters), `uid` (root's jobs
stay root's), `limits` (no namespaces, Landlock or filters), `docker` (a container's system
call filter and privileges), `user` (an ordinary user), `root` (as root; refused to others).

Left out on purpose: the real thing. A filter like a container engine's is not a container.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlkit.errors import UserError

VARIABLE = "RLKIT_SANDBOX_HIDE"

#: Which words are handed on in the variable; the others need a process of their own.
_HIDDEN = ("userns", "userns:only", "landlock", "seccomp", "uid")
_LIMITS_ONLY = ("userns", "landlock", "seccomp")
_WRAPPED = ("docker", "user", "root")

#: The versions of Landlock at which something new is fenced in.
ABIS = (0, 1, 2, 4, 6)

#: The levels that `rlkit sandbox check` is shown at, by the name of each.
SHOWN: Mapping[str, str] = {
    "full": "everything that this machine has",
    "userns": "no namespaces, as in most containers and notebooks in the cloud",
    "userns+landlock:6": "no namespaces, Landlock 6 (Linux 6.12)",
    "userns+landlock:4": "no namespaces, Landlock 4 (Linux 6.7)",
    "userns+landlock:2": "no namespaces, Landlock 2 (Linux 5.19)",
    "userns+landlock:1": "no namespaces, Landlock 1 (Linux 5.13)",
    "userns+landlock:0": "no namespaces, no Landlock, only the system call filter",
    "docker": "under the system call filter of a container engine",
    "limits": "resource limits only",
}

#: The user that root becomes where an ordinary user is wanted.
NOBODY = 65534

#: Capabilities that container engines leave to root, by number.
_KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
_PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 24, 22, 38


#: What is said of each word.
_SAYS = {
    "userns": "namespaces",
    "userns:only": "user namespaces",
    "landlock": "Landlock",
    "seccomp": "seccomp",
    "uid": "other user ids",
    "rlimits": "resource limits",
    "docker": "what containers refuse",
    "all": "everything",
}


@dataclass(frozen=True)
class Hidden:
    """What the sandbox is to behave as if the kernel had not.

    Attributes:
        words: as they stand in the variable.
    """

    words: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """The same for a person; empty when nothing is hidden."""
        parts = []
        for word in self.words:
            name, _, number = word.partition(":")
            above = f" above version {number}" if number.isdigit() and number != "0" else ""
            parts.append(f"{_SAYS.get(word) or _SAYS.get(name, name)}{above}")
        return f"weakened on purpose: without {', '.join(parts)}" if parts else ""


def words(text: str) -> tuple[str, ...]:
    """The words of a level, checked, `limits` spelled out, `full` left away.

    Raises:
        UserError: an unknown word.

    >>> words("user+landlock:1"), words("limits"), words("full")
    (('user', 'landlock:1'), ('userns', 'landlock', 'seccomp'), ())
    """
    found: list[str] = []
    for word in text.replace(",", "+").split("+"):
        word = word.strip().lower()
        if word in ("", "full"):
            continue
        if word == "limits":
            found += [one for one in _LIMITS_ONLY if one not in found]
            continue
        name, _, number = word.partition(":")
        fine = word in (*_HIDDEN, *_WRAPPED) or (name == "landlock" and number.isdigit())
        if not fine:
            raise UserError(
                f"level {word!r} is unknown; choose from full, {', '.join(_HIDDEN)}, landlock:N, "
                f"limits, {', '.join(_WRAPPED)}, joined by +"
            )
        found.append(word)
    return tuple(found)


def hidden() -> Hidden:
    """What is hidden now, by the environment.

    >>> hidden().says
    ''
    """
    given = os.environ.get(VARIABLE, "").split(",")
    return Hidden(tuple(word.strip() for word in given if word.strip()))


@contextlib.contextmanager
def forced(level: str) -> Iterator[Hidden]:
    """Hide things from every sandbox that is opened inside.

    Sandboxes that are open already stay as they are. Words that need a process of their own
    (`docker`, `user`) are refused: see `wrap`.

    Raises:
        UserError: an unknown word, or one that cannot be forced in a running process.

    >>> with forced("userns+landlock:4") as held:
    ...     held.says
    'weakened on purpose: without namespaces, Landlock above version 4'
    """
    chosen = words(level)
    alone = [word for word in chosen if word in _WRAPPED]
    if alone:
        raise UserError(
            f"{', '.join(alone)} cannot be forced on a process that runs already; start one with "
            f"`python -m rlkit.sandbox.levels {level} -- COMMAND`"
        )
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = ",".join((*hidden().words, *chosen))
    try:
        yield hidden()
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def wrap(level: str, command: Sequence[str]) -> list[str]:
    """The command line that runs a command at a level, in a process of its own.

    Raises:
        UserError: an unknown word, or one that is not to be had here.
    """
    chosen = words(level)
    if "root" in chosen and os.geteuid() != 0:
        raise UserError("level 'root' can be had by root only; you are an ordinary user already")
    if "root" in chosen and "user" in chosen:
        raise UserError("a process is root's or an ordinary user's, not both")
    if ("docker" in chosen or "user" in chosen) and not sys.platform.startswith("linux"):
        raise UserError("levels 'docker' and 'user' are made of parts that only Linux has")
    return [sys.executable, "-m", "rlkit.sandbox.levels", level, "--", *command]


def needs_a_process(level: str) -> bool:
    """Whether a level can only be had by a process that is started at it.

    Raises:
        UserError: an unknown word.

    >>> needs_a_process("userns"), needs_a_process("user+landlock:1")
    (False, True)
    """
    return any(word in _WRAPPED for word in words(level))


def run_at(level: str, command: Sequence[str]) -> int:
    """Run a command at a level, in a process of its own; returns its exit code.

    What it prints goes where ours goes.

    Raises:
        UserError: an unknown word, or one that is not to be had here.
    """
    import subprocess

    return subprocess.run(wrap(level, command), check=False).returncode


def interpreter() -> tuple[str, dict[str, str]]:
    """An interpreter that an ordinary user may run here too, and its environment.

    Root's own may lie in a folder that nobody else may enter; then the system's is taken, if
    it is of the same version, with this one's packages.

    Raises:
        UserError: there is none.
    """
    place = os.path.realpath(sys.executable)
    if os.geteuid() != 0 or (_open_to_all(place) and _open_to_all(os.__file__)):
        return sys.executable, {}
    ours = ".".join(str(part) for part in sys.version_info[:2])
    for candidate in (f"/usr/bin/python{ours}", f"/usr/local/bin/python{ours}"):
        if os.access(candidate, os.X_OK) and _open_to_all(os.path.realpath(candidate)):
            paths = [p for p in sys.path if p and "site-packages" in p and _open_to_all(p)]
            paths.append(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
            return candidate, {"PYTHONPATH": ":".join(paths)}
    raise UserError(
        f"this interpreter ({place}) lies where an ordinary user cannot reach it, and there is "
        f"no other Python {ours} here; run the check as that user instead"
    )


def _open_to_all(path: str) -> bool:
    """Whether everybody may read it, and enter every folder above it."""
    while True:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            return False
        if not mode & 0o004 and not mode & 0o001:
            return False
        above = os.path.dirname(path)
        if above == path:
            return True
        path = above


def become(level: str) -> None:
    """Weaken this very process, for good: hide, filter, give up root. In this order."""
    chosen = words(level)
    hide = [word for word in chosen if word not in _WRAPPED]
    os.environ[VARIABLE] = ",".join((*hidden().words, *hide))
    os.environ["RLKIT_SANDBOX_LEVEL"] = level
    if "docker" in chosen:
        _filter_like_a_container()
    if "user" in chosen and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # What is written goes where this user may write, not into root's home.
        os.environ.update(HOME="/tmp", RLKIT_HOME=f"/tmp/rlkit-home-{NOBODY}", USER="nobody")


def container_filter(machine: str) -> bytes:
    """The part of a container engine's filter that matters to a sandbox, as a program.

    New namespaces, mounts and what administers the kernel answer EPERM; `clone3` answers
    ENOSYS, so that libraries fall back to `clone`, whose flags a filter can see.

    Raises:
        UserError: no table for this kind of machine.

    >>> len(container_filter("x86_64")) % 8
    0
    """
    column = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}.get(machine.lower())
    if column is None:
        raise UserError(f"level 'docker' has no table of system calls for {machine}")
    arch = (0xC000003E, 0xC00000B7)[column]
    load, jump, jump_set, give = 0x20, 0x15, 0x45, 0x06
    allow, eperm, enosys = 0x7FFF0000, 0x00050001, 0x00050026
    code = [(load, 0, 0, 4), (jump, 1, 0, arch), (give, 0, 0, allow), (load, 0, 0, 0)]
    for numbers in _REFUSED.values():
        code += [(jump, 0, 1, numbers[column]), (give, 0, 0, eperm)]
    code += [(jump, 0, 1, 435), (give, 0, 0, enosys)]  # clone3
    code += [(jump, 0, 3, (56, 220)[column]), (load, 0, 0, 16), (jump_set, 0, 1, 0x7E020000)]
    code += [(give, 0, 0, eperm), (give, 0, 0, allow)]
    return b"".join(
        op.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for op, yes, no, value in code
    )


#: Calls that are refused to everybody in a container, by their numbers (x86_64, aarch64).
_REFUSED: Mapping[str, tuple[int, int]] = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "bpf": (321, 280), "perf_event_open": (298, 241),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "swapon": (167, 224),
    "reboot": (169, 142), "kexec_load": (246, 104), "init_module": (175, 105),
}  # fmt: skip


def _filter_like_a_container() -> None:
    import ctypes
    import platform

    libc = ctypes.CDLL(None, use_errno=True)
    code = container_filter(platform.machine())
    if os.geteuid() == 0:
        for number in range(64):
            if number not in _KEPT:
                libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    held = ctypes.create_string_buffer(code, len(code))
    program = (len(code) // 8).to_bytes(2, "little") + bytes(6)
    program += ctypes.addressof(held).to_bytes(8, "little")
    if libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(program), 0, 0) != 0:
        # Without root's privileges a filter may only be put on by who renounces new ones.
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(program), 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"the filter was refused: {os.strerror(number)}")


def main() -> None:
    """`python -m rlkit.sandbox.levels LEVEL -- COMMAND…`: run a command at a weaker level."""
    arguments = sys.argv[1:]
    if len(arguments) < 3 or arguments[1] != "--":
        print("usage: python -m rlkit.sandbox.levels LEVEL -- COMMAND…", file=sys.stderr)
        raise SystemExit(2)
    try:
        command = arguments[2:]
        if needs_a_process(arguments[0]) and command[0] == sys.executable:
            # In a container, too, the interpreter lies where every user can read it.
            command[0], more = interpreter()
            os.environ.update(more)
        become(arguments[0])
    except UserError as error:
        print(f"rlkit: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
