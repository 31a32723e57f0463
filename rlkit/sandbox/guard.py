"""The fence that a child process puts around itself before it runs foreign code.

In this order: resource limits, no new privileges, die with the parent, drop
capabilities, Landlock (which files), seccomp (which system calls). Each step can
only be tightened afterwards, never undone, and each is reported by name only
after the kernel accepted it, so the host knows what is in force.

This file is run by the child as a fresh interpreter, standard library only, and
the cheap part of it: `_ctypes` costs 0.3 ms where `ctypes` costs 3 ms, and `os`
is another 1 ms, hence `posix`.

Source: the manual pages landlock(7), seccomp(2), prctl(2), capabilities(7).
Left out on purpose: namespaces and control groups.
"""

from __future__ import annotations

import posix
import resource
import sys

#: Number that resource(2) gives a limit the kernel ignores since 2.4. Processes inherit
#: it and cannot raise it, so a number of ours in it marks everything a job ever starts.
RLIMIT_LOCKS = 10

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SIGKILL = 9
_CAP_DAC_READ_SEARCH = 1 << 2

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
#: How many kinds of access each version of Landlock knows; later ones add no new kinds.
_KINDS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
#: The kinds that make sense for something that is not a folder.
_FILE_KINDS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL


def install(plan: dict) -> tuple[str, ...]:
    """Put every fence of the plan in place; returns the names of those that stand.

    Args:
        plan: `limits` (as in `types.Limits`, by name), `layers` (names to try), `scratch`
            (the job's folder), `readable` (paths to read from), `tag` (a whole number, see
            `RLIMIT_LOCKS`), `parent` (process id of the host), `seccomp` (the filter, or None),
            `pid_mark` (what to replace by this process's id in it).
    """
    limits, layers = plan["limits"], plan["layers"]
    standing = _limit_resources(plan)
    if not sys.platform.startswith("linux"):
        return tuple(standing)
    try:
        call = _libc()
    except ImportError:  # an interpreter built without _ctypes
        return tuple(standing)
    if call("prctl", _PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0) == 0:
        # The parent may have died before the line above.
        if posix.getppid() != plan["parent"]:
            posix._exit(1)
        standing.append("dies_with_parent")
    if call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        standing.append("no_new_privileges")
    if _drop_capabilities(call):
        standing.append("no_capabilities")
    if "landlock" in layers:
        version = _landlock(call, plan["scratch"], plan["readable"], limits)
        if version:
            standing.append(f"landlock:{version}")
    if "seccomp" in layers and plan["seccomp"] and _seccomp(call, plan):
        standing.append("seccomp")
    elif limits["processes"] == 0 and posix.geteuid() != 0:
        # Counts threads too, and nothing at all for root: only where the filter is missing.
        _lower(resource.RLIMIT_NPROC, 1)
        standing.append("no_processes")
    return tuple(standing)


def _limit_resources(plan: dict) -> list[str]:
    limits = plan["limits"]
    mebibyte = 1 << 20
    seconds = max(1, -int(-limits["cpu_s"] // 1))  # rounded up
    wanted = [
        ("core", "RLIMIT_CORE", 0),
        # SIGXCPU at the limit, SIGKILL a second later for those who ignore it
        ("cpu", "RLIMIT_CPU", (seconds, seconds + 1)),
        ("memory", "RLIMIT_AS", limits["memory_mb"] * mebibyte),
        ("data", "RLIMIT_DATA", limits["memory_mb"] * mebibyte),
        ("file_size", "RLIMIT_FSIZE", limits["files_mb"] * mebibyte),
        ("open_files", "RLIMIT_NOFILE", limits["open_files"]),
        ("message_queues", "RLIMIT_MSGQUEUE", 0),
        ("locked_memory", "RLIMIT_MEMLOCK", 0),
    ]
    standing = []
    for name, constant, value in wanted:
        number = getattr(resource, constant, None)
        if number is not None and _lower(number, value):
            standing.append(name)
    if sys.platform.startswith("linux"):
        _lower(RLIMIT_LOCKS, plan["tag"])
        # A host that has lowered this one itself leaves no room for a number of our own.
        if resource.getrlimit(RLIMIT_LOCKS)[1] == plan["tag"]:
            standing.append("tag")
    if limits["processes"]:
        _lower(resource.RLIMIT_NPROC, plan["tasks"] + limits["processes"])
    return standing


def _lower(number: int, value: int | tuple[int, int]) -> bool:
    """Set a limit, never above what is already the ceiling; False where the system refuses."""
    soft, hard = value if isinstance(value, tuple) else (value, value)
    ceiling = resource.getrlimit(number)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):  # macOS refuses RLIMIT_AS, for one
        return False
    return True


def _libc():
    """A function that calls the C library by name: ints as C longs, bytes as pointers."""
    import _ctypes

    class Long(_ctypes._SimpleCData):
        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Long

    handle = _ctypes.dlopen(None, 0)

    def call(name, *arguments):
        function = Function(_ctypes.dlsym(handle, name))
        return function(*(Long(a) if type(a) is int else a for a in arguments))

    return call


def _drop_capabilities(call) -> bool:
    # Root keeps one: to read the files of an interpreter that belongs to somebody else.
    kept = _CAP_DAC_READ_SEARCH if posix.geteuid() == 0 else 0
    header = (0x20080522).to_bytes(4, "little") + bytes(4)
    low = kept.to_bytes(4, "little") * 2 + bytes(4)  # effective, permitted, inheritable
    return call("capset", header, low + bytes(12)) == 0


def _landlock(call, scratch: str, readable: tuple[str, ...], limits: dict) -> int:
    """Everything in the scratch folder, reading in `readable`, nothing elsewhere.

    Returns:
        the version of Landlock in force, 0 where the kernel has none.
    """
    create, add, restrict = 444, 445, 446
    version = call("syscall", create, 0, 0, 1)
    if version < 1:
        return 0
    handled = (1 << _KINDS[min(version, 5)]) - 1
    attributes = handled.to_bytes(8, "little")
    if version >= 4:  # TCP, bind and connect
        attributes += (0 if limits["network"] else 3).to_bytes(8, "little")
    if version >= 6:  # no abstract sockets, no signals to the outside
        attributes += (3).to_bytes(8, "little")
    rules = call("syscall", create, attributes, len(attributes), 0)
    if rules < 0:
        return 0
    look = _READ | _LIST | (_EXECUTE if limits["processes"] else 0)
    grants = [(path, look) for path in readable]
    if limits["processes"]:
        grants += [(path, look) for path in ("/bin", "/usr/bin", sys.base_prefix + "/bin")]
    grants += [(path, _READ | _WRITE) for path in ("/dev/null", "/dev/zero")]
    grants += [(path, _READ) for path in ("/dev/urandom", "/dev/random")]
    grants += [(scratch, handled & ~_EXECUTE)]
    done = 0
    for path, kinds in grants:
        try:
            place = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
        except OSError:
            if path == scratch:
                raise
            continue  # this machine has no such folder
        if posix.stat(place).st_mode & 0o170000 != 0o040000:
            kinds &= _FILE_KINDS
        rule = (kinds & handled).to_bytes(8, "little") + place.to_bytes(4, "little")
        failed = call("syscall", add, rules, 1, rule, 0)
        posix.close(place)
        if failed and path == scratch:
            break
    else:
        done = version if call("syscall", restrict, rules, 0) == 0 else 0
    posix.close(rules)
    return done


def _seccomp(call, plan: dict) -> bool:
    import _ctypes

    mark = plan["pid_mark"].to_bytes(4, "little")
    code = plan["seccomp"].replace(mark, posix.getpid().to_bytes(4, "little"))

    class Char(_ctypes._SimpleCData):
        _type_ = "c"

    class Code(_ctypes.Array):
        _type_ = Char
        _length_ = len(code)

    held = Code.from_buffer_copy(code)
    # struct sock_fprog: the number of instructions, padding, and where they are
    program = (len(code) // 8).to_bytes(2, "little") + bytes(6)
    program += _ctypes.addressof(held).to_bytes(8, "little")
    return call("prctl", _PR_SET_SECCOMP, 2, program, 0, 0) == 0
