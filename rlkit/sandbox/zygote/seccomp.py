"""The filter of system calls that a job runs under, as a program for the kernel.

seccomp takes a small BPF program that sees the number and the arguments of every
system call and answers "allow" or "fail with this error". This one is a deny
list: what a computation needs stays, and what reaches outside the process goes
(new processes, signals to others, sockets, tracing, namespaces, file metadata).
An allow list would be stricter, and would kill honest programs in ways that
nobody can debug. Calls newer than the table are refused as unknown.

The numbers are searched as a balanced tree: when a filter is loaded the kernel runs it
once for every number there is, to learn which calls never need it, so a short way
to each answer makes loading fast.

The program is built once in the zygote and patched with the process id in the
child. Source: the kernel's documentation of seccomp filters and its system call
tables for x86_64 and aarch64 (32-bit and x32 calls are refused whole).

Left out on purpose: paths. A filter sees a pointer where a path is; Landlock and the
mounts of a namespace take care of files.
"""

from __future__ import annotations

import errno

#: Stands in the program where the child writes its own process id.
PID_MARK = 0x5049444D

# (x86_64, aarch64); None where the machine has no such call.
CALLS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "fcntl": (72, 25), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "prlimit64": (302, 261),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # new processes
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    # network and channels between jobs
    "socket": (41, 198), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "shmdt": (67, 197), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183), "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # the system
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467), "statmount": (457, 457), "listmount": (458, 458),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "syslog": (103, 116), "vhangup": (153, 58),
    "modify_ldt": (154, None), "iopl": (172, None), "ioperm": (173, None),
    "uselib": (134, None), "personality": (135, 92), "lookup_dcookie": (212, 18),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    # what Landlock does not see: the metadata of files, and old ways to cut them short
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "mknod": (133, None), "mknodat": (259, 33), "truncate": (76, 45), "ftruncate": (77, 46),
    "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "ioctl": (16, 29),
    # making and removing names
    "creat": (85, None), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None),
    "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None),
    "symlinkat": (266, 36),
}  # fmt: skip

#: The newest call that we know of; what the kernel adds later is refused as unknown.
NEWEST = 471

_ALWAYS = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease"),
    *("kcmp", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "rt_sigqueueinfo"),
    *("rt_tgsigqueueinfo", "ioprio_set", "migrate_pages", "move_pages", "shmget", "shmat"),
    *("shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd"),
    *("msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive"),
    *("mq_notify", "mq_getsetattr", "add_key", "request_key", "keyctl", "unshare", "setns"),
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen"),
    *("fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr", "statmount"),
    *("listmount", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex"),
    *("clock_adjtime", "syslog", "vhangup", "modify_ldt", "iopl", "ioperm", "uselib"),
    *("personality", "lookup_dcookie", "name_to_handle_at", "open_by_handle_at"),
    *("fanotify_init", "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf"),
    *("perf_event_open", "userfaultfd", "chown", "fchown", "lchown", "fchownat", "setxattr"),
    *("lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr"),
    *("removexattrat", "file_setattr", "mknod", "mknodat"),
)
_METADATA = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat"),
)
_NAMES = (
    *("creat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat"),
    *("renameat2", "link", "linkat", "symlink", "symlinkat", "truncate"),
)

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_MACHINE = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}

# Opcodes of classic BPF, and the answers that a filter may give.
_LOAD, _JEQ, _JGE, _JSET, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32

_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000
_O_TRUNC = 0x200
_O_WRITES = 0x003 | 0x040 | _O_TRUNC  # access mode, O_CREAT, O_TRUNC
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_OWNER_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_OWNER_BY_FCNTL = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX

Instruction = tuple[int, int, int, int]
Body = tuple[Instruction, ...]


def program(
    machine: str,
    processes: bool = False,
    programs: bool = False,
    network: bool = False,
    metadata: bool = False,
    truncate: bool = False,
    writing: bool = True,
    signals: bool = False,
) -> bytes | None:
    """The filter for one kind of machine, or None when we have no table for it.

    Args:
        machine: as `platform.machine()` names it.
        processes: let the job start processes.
        programs: let the job run other programs in its place.
        network: let the job open sockets.
        metadata: let it change modes and times; harmless where every file it sees is its own
            or lies on a read-only mount.
        truncate: let it cut files by name; harmless there too, and with Landlock 3.
        writing: let it open files for writing and change names; without it, nothing.
        signals: let it signal whatever it can reach; harmless in a namespace of its own.

    >>> len(program("x86_64")) % 8, program("riscv64")
    (0, None)
    """
    column = _MACHINE.get(machine.lower())
    if column is None:
        return None
    rules: dict[str, Body] = {call: (_deny(errno.EPERM),) for call in _ALWAYS}
    own = (0, PID_MARK)
    if not metadata:
        rules.update({call: (_deny(errno.EPERM),) for call in _METADATA})
    if not truncate:
        rules["truncate"] = (_deny(errno.EPERM),)
    if not signals:
        rules.update({call: _argument_in(_ARG0, PID_MARK) for call in ("kill", "tgkill", "tkill")})
    for call in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler"):
        rules[call] = _argument_in(_ARG0, *own)
    rules["sched_setattr"] = _argument_in(_ARG0, *own)
    # setpriority(PRIO_PROCESS, self, ...) only: the other kinds name a group or a user
    rules["setpriority"] = (
        *((_LOAD, 0, 0, _ARG0), (_JEQ, 1, 0, 0), _deny(errno.EPERM)),
        *_argument_in(_ARG1, *own),
    )
    for call, flags in (("open", _ARG1), ("openat", _ARG2)):
        if not writing:
            rules[call] = ((_LOAD, 0, 0, flags), (_JSET, 0, 1, _O_WRITES), _deny(errno.EACCES),
                           _allow())  # fmt: skip
        elif not truncate:
            # Opening for reading with O_TRUNC empties a file under Landlock before version 3.
            rules[call] = ((_LOAD, 0, 0, flags), (_JSET, 1, 0, _O_TRUNC), _allow(),
                           (_AND, 0, 0, 3), (_JEQ, 1, 0, 0), _allow(),
                           _deny(errno.EACCES))  # fmt: skip
    if not writing:
        rules.update({call: (_deny(errno.EACCES),) for call in _NAMES})
    rules["openat2"] = (_deny(errno.ENOSYS),)  # its flags lie behind a pointer
    # Memory that belongs to no process's count, until its last descriptor is closed.
    rules["memfd_create"] = rules["memfd_secret"] = (_deny(errno.ENOSYS),)
    requests = [_TIOCSTI, _TIOCLINUX]
    if not signals:
        # A descriptor can be told whom to send a signal when it is ready, and which one.
        requests += _OWNER_BY_IOCTL
        rules["fcntl"] = _argument_not_in(_ARG1, *_OWNER_BY_FCNTL)
    rules["ioctl"] = _argument_not_in(_ARG1, *requests)
    if not network:
        rules["socket"] = (_deny(errno.EACCES),)
    # clone3 hides its flags behind a pointer; libraries fall back to clone on ENOSYS.
    rules["clone3"] = (_deny(errno.ENOSYS),)
    if processes:
        rules["clone"] = ((_LOAD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_NAMESPACES),
                          _deny(errno.EPERM), _allow())  # fmt: skip
    else:
        rules["clone"] = ((_LOAD, 0, 0, _ARG0), (_JSET, 1, 0, _CLONE_THREAD),
                          _deny(errno.EAGAIN), _allow())  # fmt: skip
        rules["fork"] = rules["vfork"] = (_deny(errno.EAGAIN),)
    if not programs:
        rules["execve"] = rules["execveat"] = (_deny(errno.EACCES),)

    by_number: dict[int, Body] = {}
    for call, body in rules.items():
        number = CALLS[call][column]
        if number is not None:
            by_number[number] = body
    arch = AUDIT_ARCH["x86_64" if column == 0 else "aarch64"]
    # On x86_64 the x32 calls share the architecture; their numbers lie above the newest.
    code = [
        *((_LOAD, 0, 0, _ARCH), (_JEQ, 1, 0, arch), (_RETURN, 0, 0, _KILL_PROCESS)),
        (_LOAD, 0, 0, _NR),
        *_tree(_segments(by_number)),
    ]
    return b"".join(
        op.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for op, yes, no, value in code
    )


def docker_like(machine: str) -> bytes | None:
    """A filter that refuses what container runtimes commonly refuse: new namespaces and mounts."""
    column = _MACHINE.get(machine.lower())
    if column is None:
        return None
    rules: dict[str, Body] = {
        call: (_deny(errno.EPERM),)
        for call in (
            *("unshare", "setns", "mount", "umount2", "pivot_root", "open_tree", "move_mount"),
            *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "keyctl", "add_key"),
            *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup"),
        )
    }
    rules["clone"] = ((_LOAD, 0, 0, _ARG0), (_JSET, 0, 1, _CLONE_NAMESPACES),
                      _deny(errno.EPERM), _allow())  # fmt: skip
    rules["clone3"] = (_deny(errno.ENOSYS),)
    by_number = {CALLS[call][column]: body for call, body in rules.items()}
    code = [(_LOAD, 0, 0, _NR), *_tree(_segments(by_number))]
    return b"".join(
        op.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
        for op, yes, no, value in code
    )


def _segments(by_number: dict[int, Body]) -> list[tuple[int, Body]]:
    """Ranges of numbers with the same answer: where each begins, and the answer."""
    found: list[tuple[int, Body]] = [(0, (_allow(),))]

    def begin(number: int, body: Body) -> None:
        if found[-1][0] == number:
            found.pop()
        if not found or found[-1][1] != body:
            found.append((number, body))

    for number in sorted(by_number):
        begin(number, by_number[number])
        begin(number + 1, (_allow(),))
    begin(NEWEST + 1, (_deny(errno.ENOSYS),))
    return found


def _tree(segments: list[tuple[int, Body]]) -> list[Instruction]:
    if len(segments) == 1:
        return list(segments[0][1])
    middle = len(segments) // 2
    below, above = _tree(segments[:middle]), _tree(segments[middle:])
    if len(below) <= 255:
        return [(_JGE, len(below), 0, segments[middle][0]), *below, *above]
    jump = (0x05, 0, 0, len(below))  # unconditional, for distances that eight bits cannot name
    return [(_JGE, 0, 1, segments[middle][0]), jump, *below, *above]


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _deny(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


def _argument_in(offset: int, *values: int) -> Body:
    """Allow when the argument is one of the values, else EPERM."""
    code = [(_LOAD, 0, 0, offset)]
    code += [(_JEQ, len(values) - place, 0, value) for place, value in enumerate(values)]
    return (*code, _deny(errno.EPERM), _allow())


def _argument_not_in(offset: int, *values: int) -> Body:
    """EPERM when the argument is one of the values, else allow."""
    code = [(_LOAD, 0, 0, offset)]
    code += [(_JEQ, len(values) - place, 0, value) for place, value in enumerate(values)]
    return (*code, _allow(), _deny(errno.EPERM))
