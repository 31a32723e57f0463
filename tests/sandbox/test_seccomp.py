"""The filter of system calls, run here by a small interpreter, for both kinds of machine.

So the filter for aarch64 is checked on x86_64 and the other way round, call by call.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlkit.sandbox.zygote import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = ("x86_64", "aarch64")
SELF = 4242


def errno_of(answer: int) -> int | None:
    return answer & 0xFFFF if answer & 0xFFFF0000 == 0x00050000 else None


def run(code: bytes, number: int, arguments=(), arch: int = 0, most: int = 60) -> int:
    """What the kernel would answer: classic BPF over `struct seccomp_data`."""
    words = [number, arch, 0, 0]  # number, architecture, instruction pointer
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, (argument >> 32) & 0xFFFFFFFF]
    at = accumulator = 0
    for _ in range(most):  # no way through the tree is longer
        op = int.from_bytes(code[8 * at : 8 * at + 2], "little")
        yes, no = code[8 * at + 2], code[8 * at + 3]
        value = int.from_bytes(code[8 * at + 4 : 8 * at + 8], "little")
        at += 1
        if op == 0x20:
            accumulator = words[value // 4]
        elif op == 0x06:
            return value
        elif op == 0x05:
            at += value
        elif op == 0x54:
            accumulator &= value
        elif op == 0x15:
            at += yes if accumulator == value else no
        elif op == 0x35:
            at += yes if accumulator >= value else no
        elif op == 0x45:
            at += yes if accumulator & value else no
        else:
            raise AssertionError(f"opcode {op:#x}")
    raise AssertionError("the way is too long")


def filtered(machine: str, **options):
    """A function from a call's name and arguments to an error number, 0 for allowed."""
    code = seccomp.program(machine, **options)
    code = code.replace(seccomp.PID_MARK.to_bytes(4, "little"), SELF.to_bytes(4, "little"))
    column = MACHINES.index(machine)

    def answer(call: str | int, *arguments: int) -> int | None:
        number = call if isinstance(call, int) else seccomp.CALLS[call][column]
        if number is None:
            return None  # this machine has no such call
        said = run(code, number, arguments, seccomp.AUDIT_ARCH[machine])
        return 0 if said == ALLOW else errno_of(said)

    return answer


#: Where the kernel's headers keep the numbers of each kind of machine.
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),  # aarch64 uses the generic table
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine):
    header = next((Path(p) for p in HEADERS[machine] if Path(p).exists()), None)
    if header is None:
        pytest.skip("no kernel headers here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    numbers = {name: int(number) for name, number in found}
    column = MACHINES.index(machine)
    checked = 0
    for name, pair in seccomp.CALLS.items():
        if name in numbers:
            assert pair[column] == numbers[name], name
            checked += 1
        elif pair[column] is not None:
            # Only what is newer than the headers may be missing from them.
            assert pair[column] > 440, name
    assert checked > 80


#: Whatever a job may do, it never does these.
NEVER = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_send_signal"),
    *("rt_sigqueueinfo", "shmget", "semget", "msgget", "mq_open", "keyctl", "unshare", "setns"),
    *("mount", "umount2", "pivot_root", "chroot", "move_mount", "fsmount", "mount_setattr"),
    *("io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "chown", "fchownat"),
    *("setxattr", "fsetxattr", "mknod", "mknodat", "init_module", "kexec_load", "reboot"),
    *("swapon", "sethostname", "settimeofday", "open_by_handle_at", "personality", "acct"),
)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("free", [False, True])
def test_what_no_job_may_do(machine, free):
    names = ("processes", "programs", "network", "metadata", "truncate", "signals")
    answer = filtered(machine, **dict.fromkeys(names, free))
    for call in NEVER:
        assert answer(call) in (errno.EPERM, None), call
    for call in ("clone3", "openat2", "memfd_create"):
        assert answer(call) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_computation_needs_stays(machine):
    answer = filtered(machine)
    # read, write, close, mmap, munmap, mprotect, brk, futex, exit_group, clock_gettime,
    # getrandom, pipe2, socketpair, lseek, getpid, rt_sigaction
    needed = {
        "x86_64": (0, 1, 3, 9, 11, 10, 12, 202, 231, 228, 318, 293, 53, 8, 39, 13),
        "aarch64": (63, 64, 57, 222, 215, 226, 214, 98, 94, 113, 278, 59, 199, 62, 172, 134),
    }[machine]
    for number in needed:
        assert answer(number) == 0, number


@pytest.mark.parametrize("machine", MACHINES)
def test_signals_and_limits_only_for_itself(machine):
    answer = filtered(machine)
    for call in ("kill", "tgkill", "tkill"):
        assert answer(call, SELF, 9) == 0
        for other in (0, 1, SELF + 1, -1 & 0xFFFFFFFFFFFFFFFF, -SELF & 0xFFFFFFFFFFFFFFFF):
            assert answer(call, other, 9) == errno.EPERM, (call, other)
    assert filtered(machine, signals=True)("kill", 77, 9) == 0
    for call in ("prlimit64", "sched_setaffinity", "sched_setattr"):
        assert answer(call, 0) == answer(call, SELF) == 0
        assert answer(call, 1) == errno.EPERM
    assert answer("setpriority", 0, 0, 5) == answer("setpriority", 0, SELF, 5) == 0
    assert answer("setpriority", 0, 7, 5) == answer("setpriority", 2, 0, 5) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_programs_and_sockets(machine):
    thread, process, container = 0x3D0F00, 0x01200011, 0x10000000 | 0x11
    answer = filtered(machine)
    assert answer("clone", thread) == 0
    assert answer("clone", process) == answer("clone", container) == errno.EAGAIN
    assert answer("fork") in (errno.EAGAIN, None)
    assert answer("execve") == answer("execveat") == errno.EACCES
    assert answer("socket", 2, 1) == errno.EACCES
    only_programs = filtered(machine, programs=True)
    assert only_programs("execve") == 0
    assert only_programs("clone", process) == errno.EAGAIN
    free = filtered(machine, processes=True, programs=True, network=True)
    assert free("clone", process) == free("execve") == free("socket", 2, 1) == 0
    assert free("fork") in (0, None)
    assert free("clone", container) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_files_may_not_be_cut_where_nothing_else_forbids_it(machine):
    read, write, cut = 0, 1, 0x200
    answer = filtered(machine)
    assert answer("truncate") == errno.EPERM
    assert answer("openat", 0, 0, read) == answer("openat", 0, 0, write | cut | 0x40) == 0
    assert answer("openat", 0, 0, read | cut) == errno.EACCES
    assert answer("open", 0, read | cut) in (errno.EACCES, None)
    allowed = filtered(machine, truncate=True)
    assert allowed("truncate") == allowed("openat", 0, 0, read | cut) == 0


@pytest.mark.parametrize("machine", MACHINES)
def test_where_nothing_may_be_written(machine):
    answer = filtered(machine, writing=False)
    assert answer("openat", 0, 0, 0o2000000) == 0
    for flags in (1, 2, 0o100, 0x200, 0o20000000 | 2):
        assert answer("openat", 0, 0, flags) == errno.EACCES
    for call in ("mkdirat", "unlinkat", "renameat2", "linkat", "symlinkat", "truncate"):
        assert answer(call) == errno.EACCES
    for call in ("creat", "mkdir", "unlink", "rename", "link", "symlink"):
        assert answer(call) in (errno.EACCES, None)


@pytest.mark.parametrize("machine", MACHINES)
def test_modes_and_times_where_every_file_is_its_own(machine):
    for call in ("fchmod", "fchmodat", "utimensat"):
        assert filtered(machine)(call) == errno.EPERM
        assert filtered(machine, metadata=True)(call) == 0


@pytest.mark.parametrize("machine", MACHINES)
def test_the_terminal_is_not_typed_into(machine):
    answer = filtered(machine)
    assert answer("ioctl", 0, 0x5401) == 0
    assert answer("ioctl", 0, 0x5412) == answer("ioctl", 0, 0x541C) == errno.EPERM
    # The kernel takes the request as 32 bits; bits above must not hide it.
    assert answer("ioctl", 0, 0x5412 | 1 << 32) == errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill(machine):
    code = seccomp.program(machine)
    i386, arm = 0x40000003, 0x40000028
    others = [arch for name, arch in seccomp.AUDIT_ARCH.items() if name != machine]
    for arch in (i386, arm, *others, 0):
        assert run(code, 1, arch=arch) == KILL


def test_the_x32_calls_do_not_exist():
    answer = filtered("x86_64")
    for number in (0, 41, 57, 59, 62, 512, 547):
        assert answer(0x40000000 | number) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_newer_than_the_table_is_unknown(machine):
    answer = filtered(machine)
    assert answer(seccomp.NEWEST + 1) == answer(0x3FFFFFFF) == answer(0xFFFFFFFF) == errno.ENOSYS


OPTIONS = st.fixed_dictionaries(
    {
        name: st.booleans()
        for name in ("processes", "programs", "network", "metadata", "truncate", "writing")
    }
)


@given(st.sampled_from(MACHINES), OPTIONS, st.integers(0, 600))
def test_the_tree_finds_what_a_search_would_find(machine, options, number):
    """A call without a rule is allowed; one with a rule is never allowed by accident."""
    column = MACHINES.index(machine)
    known = {pair[column] for pair in seccomp.CALLS.values()}
    said = filtered(machine, **options)(number)
    if number > seccomp.NEWEST:
        assert said == errno.ENOSYS
    elif number not in known:
        assert said == 0


@given(st.sampled_from(MACHINES), OPTIONS)
def test_no_way_through_the_tree_is_long(machine, options):
    """The kernel runs a new filter once for every number there is; short ways make it cheap."""
    code = seccomp.program(machine, **options)
    assert len(code) // 8 < 400
    for number in range(0, seccomp.NEWEST + 2, 7):
        run(code, number, arch=seccomp.AUDIT_ARCH[machine], most=20)


def test_a_machine_without_a_table_has_no_filter():
    assert seccomp.program("riscv64") is None
    assert seccomp.docker_like("riscv64") is None


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_of_a_container_refuses_new_namespaces_only(machine):
    code = seccomp.docker_like(machine)
    column = MACHINES.index(machine)

    def answer(call, *arguments):
        return errno_of(run(code, seccomp.CALLS[call][column], arguments))

    assert answer("unshare") == answer("mount") == answer("setns") == errno.EPERM
    assert answer("clone", 0x10000011) == errno.EPERM
    assert answer("clone", 0x01200011) is None
    assert answer("kill", 1, 9) is None
