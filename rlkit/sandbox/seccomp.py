"""The filter of system calls that a job runs under, as a program for the kernel.

seccomp takes a small BPF program that sees the number and the arguments of every
system call and answers "allow" or "fail with this error". This one is a deny
list: what a computation needs stays, and what reaches outside the process goes
(new processes, signals to others, sockets, tracing, namespaces, file metadata).
An allow list would be stricter, and would kill honest programs in ways that
nobody can debug.

The program is built once on the host and patched with the process id in the
child. Source: the kernel's documentation of seccomp filters and its system call
tables for x86_64 and aarch64 (32-bit and x32 calls are refused whole).

Left out on purpose: paths. A filter sees a pointer where a path is; Landlock, in
`guard.py`, takes care of files.
"""

from __future__ import annotations

import errno
from functools import lru_cache

#: Stands in the program where the child writes its own process id.
PID_MARK = 0x5049444D

# (x86_64, aarch64); None where the machine has no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "kill": (62, 129),
    "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "prlimit64": (302, 261), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setaffinity": (203, 122), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # new processes
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    # network and channels between jobs
    "socket": (41, 198), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
    # the system
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    # what Landlock does not see: the metadata of files, and old ways to cut them short
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "truncate": (76, 45), "open": (2, None), "openat": (257, 56), "openat2": (437, 437),
    "ioctl": (16, 29),
}  # fmt: skip

_PLAIN_DENIALS = [
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp"),
    *("pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
    *("ioprio_set", "migrate_pages", "move_pages", "shmget", "shmat", "shmctl", "semget"),
    *("msgget", "mq_open", "add_key", "request_key", "keyctl", "unshare", "setns", "mount"),
    *("umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "io_uring_setup", "bpf", "perf_event_open"),
    *("userfaultfd", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown"),
    *("fchownat", "utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr"),
    *("fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "truncate"),
]

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_MACHINE = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}

# Opcodes of classic BPF, and the answers that a filter may give.
_LOAD, _JEQ, _JGE, _JSET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32

_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000
_O_TRUNC = 0x200
_TIOCSTI = 0x5412


@lru_cache
def program(machine: str, processes: bool = False, network: bool = False) -> bytes | None:
    """The filter for one kind of machine, or None when we have no table for it.

    Args:
        machine: as `platform.machine()` names it.
        processes: let the job start processes and run other programs.
        network: let the job open sockets.

    >>> len(program("x86_64")) % 8, program("riscv64")
    (0, None)
    """
    column = _MACHINE.get(machine.lower())
    if column is None:
        return None
    arch = _AUDIT_ARCH["x86_64" if column == 0 else "aarch64"]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, arch),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NR),
    ]
    if column == 0:  # the x32 calls share the architecture and would slip past the numbers
        code += [(_JGE, 0, 1, 0x40000000), _deny(errno.ENOSYS)]

    def rule(call: str, *body: tuple[int, int, int, int]) -> None:
        number = _CALLS[call][column]
        if number is not None:
            code.extend([(_JEQ, 0, len(body), number), *body])

    for call in _PLAIN_DENIALS:
        rule(call, _deny(errno.EPERM))
    for call in ("kill", "tgkill", "tkill"):
        rule(call, *_argument_in(_ARG0, PID_MARK))
    for call in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler"):
        rule(call, *_argument_in(_ARG0, 0, PID_MARK))
    rule("sched_setattr", *_argument_in(_ARG0, 0, PID_MARK))
    # setpriority(PRIO_PROCESS, self, ...) only: the other kinds name a group or a user
    rule("setpriority", (_LOAD, 0, 0, _ARG0), (_JEQ, 1, 0, 0), _deny(errno.EPERM),
         *_argument_in(_ARG1, 0, PID_MARK))  # fmt: skip
    # Opening for reading with O_TRUNC empties a file under Landlock before version 3.
    for call, flags in (("open", _ARG1), ("openat", _ARG2)):
        rule(call, (_LOAD, 0, 0, flags), (_JSET, 1, 0, _O_TRUNC), _allow(),
             (_AND, 0, 0, 3), (_JEQ, 1, 0, 0), _allow(), _deny(errno.EACCES))  # fmt: skip
    rule("openat2", _deny(errno.ENOSYS))  # its flags lie behind a pointer
    rule("ioctl", (_LOAD, 0, 0, _ARG1), (_JEQ, 0, 1, _TIOCSTI), _deny(errno.EPERM), _allow())
    if not network:
        rule("socket", _deny(errno.EACCES))
    # clone3 hides its flags behind a pointer; libraries fall back to clone on ENOSYS.
    rule("clone3", _deny(errno.ENOSYS))
    if processes:
        rule("clone", (_LOAD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_NAMESPACES),
             _deny(errno.EPERM), _allow())  # fmt: skip
    else:
        rule("clone", (_LOAD, 0, 0, _ARG0), (_JSET, 1, 0, _CLONE_THREAD),
             _deny(errno.EAGAIN), _allow())  # fmt: skip
        for call in ("fork", "vfork"):
            rule(call, _deny(errno.EAGAIN))
        for call in ("execve", "execveat"):
            rule(call, _deny(errno.EACCES))
    code.append(_allow())
    return b"".join(
        op.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for op, yes, no, value in code
    )


def _allow() -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ALLOW)


def _deny(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | error)


def _argument_in(offset: int, *values: int) -> list[tuple[int, int, int, int]]:
    """Allow when the argument is one of the values, else EPERM."""
    code = [(_LOAD, 0, 0, offset)]
    code += [(_JEQ, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*code, _deny(errno.EPERM), _allow()]
