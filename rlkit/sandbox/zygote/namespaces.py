"""A private world for a zygote: its own processes, mounts, network and names.

It is made once, before any job runs. An ordinary user gets it from a user namespace.
Root makes it with its own privileges and then leaves them: the zygote goes on as a user
id that nobody else has, so that not even a hole in a namespace leads back to root. The
root of the new tree is a small private tmpfs; what Python needs is bound into it
read-only, and the scratch folders lie on a second tmpfs of limited size.

Source: the manual pages namespaces(7), user_namespaces(7), pivot_root(2),
mount_namespaces(7).
Left out on purpose: control groups, which an ordinary user cannot make, and network
between jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rlkit.sandbox.zygote import kernel

_FLAGS = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
#: Without these there is no private world; the others are taken where they can be had.
_NEEDED = ("user", "mount", "pid")

_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 32, 4096, 16384, 1 << 18
_DETACH = 2

#: Where the scratch folders lie.
BOX = "/box"

#: No user id of a person or a service is so high; a zygote adds its process id.
FIRST_UID = 0x70000000


def separate(network: bool, user: bool) -> tuple[str, ...]:
    """Leave the host's namespaces; the next fork is the first process of the new ones.

    Args:
        network: keep the host's network.
        user: make a user namespace; without it this needs root's privileges.

    Returns:
        names of the namespaces that are new.

    Raises:
        kernel.Refused: this machine does not allow it.
    """
    wanted = [
        name for name in _FLAGS if (user or name != "user") and (not network or name != "net")
    ]
    optional = [name for name in wanted if name not in _NEEDED]
    uid, gid = os.getuid(), os.getgid()
    while True:
        flags = sum(_FLAGS[name] for name in wanted)
        if kernel.call("unshare", flags) == 0:
            break
        if not optional:
            number = kernel.error()
            raise kernel.Refused(number, f"new namespaces: {os.strerror(number)}")
        # One of those that we can do without may be what is refused.
        wanted.remove(optional.pop())
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    return tuple(wanted)


def build(
    readable: Iterable[str],
    size_mb: int,
    programs: bool,
    owner: int | None,
) -> tuple[int, bool]:
    """Replace the tree of files by a private one; to be called as process 1 of the namespaces.

    Args:
        readable: files and folders to show, read-only; those that do not exist are left out.
        size_mb: mebibytes that all scratch files may take together.
        programs: whether programs other than Python are to run, which need more to be there.
        owner: user id that the scratch folders belong to; None for the present one.

    Returns:
        a descriptor of a /proc of these namespaces, or -1, and whether /proc can be seen.

    Raises:
        kernel.Refused: the kernel refused one of the steps.
    """
    uid = os.getuid() if owner is None else owner
    gid = os.getgid() if owner is None else owner
    _mount("none", "/", None, _RECURSIVE | _PRIVATE, None, "mounts of our own")
    base = next(path for path in ("/tmp", "/mnt", "/run", "/dev") if os.path.isdir(path))
    _mount("rlkit", base, "tmpfs", _NOSUID | _NODEV, "size=4m,nr_inodes=8k,mode=755", "a tmpfs")
    os.mkdir(base + "/old", 0o700)
    kernel.must("pivot_root", "pivot_root", base.encode() + b"\0", base.encode() + b"/old\0")
    os.chdir("/")
    tree = _Tree("/old")
    for path in readable:
        tree.show(path)
    for device in ("null", "zero", "full", "random", "urandom"):
        tree.show(f"/dev/{device}", device=True)
    os.mkdir(BOX, 0o755)
    noexec = 0 if programs else _NOEXEC
    options = f"size={size_mb}m,nr_inodes=16k,mode=700,uid={uid},gid={gid}"
    _mount("scratch", BOX, "tmpfs", _NOSUID | _NODEV | noexec, options, "a tmpfs for scratch")
    if programs:
        for place, name in (("/tmp", "tmp"), ("/dev/shm", "shm")):
            own = f"{BOX}/.{name}"
            os.mkdir(own, 0o700)
            if owner is not None:
                os.chown(own, uid, gid)
            if not os.path.isdir(place):
                os.makedirs(place, 0o755)
            _mount(own, place, None, _BIND, None, f"a private {place}")
        _accounts(uid, gid)
    os.makedirs("/proc", 0o755, exist_ok=True)
    proc, seen = _proc(programs)
    kernel.must("leaving the old tree", "umount2", b"/old\0", _DETACH)
    os.rmdir("/old")
    flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV
    _mount("none", "/", None, flags, None, "a read-only tree")
    os.chdir("/")
    return proc, seen


def _proc(programs: bool) -> tuple[int, bool]:
    """Mount /proc, where that is allowed; only other programs get to see it."""
    for options in ("subset=pid", None):
        flags = _NOSUID | _NODEV | _NOEXEC
        arguments = _strings("proc", "/proc", "proc")
        if kernel.call("mount", *arguments, flags, _string(options)) == 0:
            break
    else:
        return -1, False
    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not programs or not _cover_the_system():
        kernel.must("hiding /proc", "umount2", b"/proc\0", _DETACH)
        return descriptor, False
    for link, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink("/proc/self/fd" + target, f"/dev/{link}")
    return descriptor, True


def _cover_the_system() -> bool:
    """Where /proc shows more than processes, make what could change the machine unreachable."""
    for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "kcore", "keys", "acpi", "scsi"):
        path = f"/proc/{name}"
        if not os.path.lexists(path):
            continue
        if os.path.isdir(path):
            arguments = _strings("none", path, "tmpfs")
            flags, options = _RDONLY | _NOSUID | _NODEV | _NOEXEC, "size=4k,mode=555"
        else:
            arguments, flags, options = _strings("/dev/null", path, None), _BIND, None
        if kernel.call("mount", *arguments, flags, _string(options)) != 0:
            return False
    return True


def _accounts(uid: int, gid: int) -> None:
    """Programs that ask who they are find one user, and nobody of the host."""
    os.makedirs("/etc", 0o755, exist_ok=True)
    for name, text in (
        ("passwd", f"sandbox:x:{uid}:{gid}:sandbox:{BOX}:/bin/sh\n"),
        ("group", f"sandbox:x:{gid}:\n"),
    ):
        if not os.path.lexists(f"/etc/{name}"):
            with open(f"/etc/{name}", "w") as file:
                file.write(text)


class _Tree:
    """Shows parts of an old tree in the new one, links as links, everything read-only."""

    def __init__(self, old: str) -> None:
        self.old = old
        self.shown: set[str] = set()

    def show(self, path: str, device: bool = False) -> None:
        """Show one path, with the links on the way to it."""
        done = ""
        parts = [part for part in os.path.normpath(path).split("/") if part]
        for number, part in enumerate(parts):
            done += f"/{part}"
            if done in self.shown:
                return  # a folder that contains it is there already
            source = self.old + done
            try:
                if os.path.islink(source):
                    target = os.readlink(source)
                    if not os.path.lexists(done):
                        os.symlink(target, done)
                    rest = "/".join(parts[number + 1 :])
                    folder = os.path.dirname(done)
                    self.show(os.path.join(folder, target, rest), device)
                    return
                last = number == len(parts) - 1
                if not last:
                    if not os.path.isdir(source):
                        return
                    if not os.path.lexists(done):
                        os.mkdir(done, 0o755)
                    continue
                self._bind(source, done, device)
            except FileNotFoundError:
                return

    def _bind(self, source: str, place: str, device: bool) -> None:
        if os.path.isdir(source):
            if not os.path.lexists(place):
                os.mkdir(place, 0o755)
        elif os.path.exists(source):
            if not os.path.lexists(place):
                os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        else:
            return
        _mount(source, place, None, _BIND, None, f"showing {place}")
        # What the old mount forbids must stay forbidden, or the kernel refuses.
        forbidden = os.statvfs(place).f_flag & (_NOSUID | _NODEV | _NOEXEC)
        flags = _REMOUNT | _BIND | forbidden | _NOSUID
        if not device:
            flags |= _RDONLY | _NODEV
        _mount("none", place, None, flags, None, f"making {place} read-only")
        self.shown.add(place)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise kernel.Refused(error.errno, f"{path}: {error.strerror}") from None


def _string(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text) + b"\0"


def _strings(*texts: str | None) -> tuple[bytes | None, ...]:
    return tuple(_string(text) for text in texts)


def _mount(
    source: str, place: str, kind: str | None, flags: int, options: str | None, what: str
) -> None:
    kernel.must(what, "mount", *_strings(source, place, kind), flags, _string(options))
