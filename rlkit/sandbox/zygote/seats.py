"""Seats: the folders that jobs sit in, emptied after each, and what is read back from them.

A zygote has two, for the two processes of a mode of two. In a private tree they lie on a
file system of limited size; elsewhere in a folder of the zygote's own, which is looked at
while the job runs.
"""

from __future__ import annotations

import os
import stat

from rlkit.sandbox.zygote.plumbing import write
from rlkit.sandbox.zygote.wipe import megabytes_in, remove_folder

#: The seats, and so the names of their folders.
SEATS = ("one", "two")


class Seats:
    """The seats of one zygote.

    Attributes:
        top: the folder that holds them.
        private: whether they lie on a file system of their own.
        shared: folders that jobs may write beside their own.
    """

    top = ""
    private = False
    shared: tuple[str, ...] = ()

    def own(self, seat: str) -> tuple[str, ...]:
        """The folders in which a job may do everything."""
        return (f"{self.top}/{seat}", *self.shared)

    def folder_of(self, seat: str) -> str:
        return f"{self.top}/{seat}/job"

    def clear(self, seat: str) -> None:
        """Make a seat as if no job had ever sat there.

        Raises:
            OSError: something cannot be removed; this zygote is of no more use.
        """
        parent = f"{self.top}/{seat}"
        if not self.private and _untouched(parent):
            return  # making a folder anew may take a disk several milliseconds
        if not remove_folder(f"{parent}/job"):
            raise OSError(f"{parent}/job cannot be removed")
        for folder in (parent, *self.shared):
            if self.private:
                os.chmod(folder, 0o700)
            for name in os.listdir(folder):
                path = f"{folder}/{name}"
                if os.path.islink(path) or not os.path.isdir(path):
                    os.unlink(path)
                elif not remove_folder(path):
                    raise OSError(f"{path} cannot be removed")

    def used_mb(self, running) -> float:
        """Mebibytes in the scratch folders of the job."""
        if self.private:
            facts = os.statvfs(self.top)
            return (facts.f_blocks - facts.f_bfree) * facts.f_frsize / (1 << 20)
        return sum(megabytes_in(f"{self.top}/{job.seat}") for job in running.jobs)


def open_kept(running, names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """The files that the host wants back: plain ones in the job's folder, no links."""
    found = []
    for name in names:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        folder = os.open(running.last.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            *way, last = name.split("/")
            for part in way:  # step by step: no part of the way may be a link either
                inner = os.open(
                    part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder
                )  # fmt: skip
                os.close(folder)
                folder = inner
            descriptor = os.open(last, flags, dir_fd=folder)
        except OSError:
            continue  # the program did not write it
        finally:
            os.close(folder)
        facts = os.fstat(descriptor)
        if stat.S_ISREG(facts.st_mode):
            found.append((name, facts.st_size, descriptor))
        else:
            os.close(descriptor)
    return found


def copy(descriptor: int, size: int, target: int, room) -> None:
    """Send exactly so many bytes of a file; nobody can change it any more."""
    used = 0
    while size:
        want = min(size, 1 << 20)
        count = os.readv(descriptor, [room.view[:want]])
        if count == 0:
            raise OSError("a file became shorter while it was read")
        write(target, [room.view[:count]])
        size -= count
        used = max(used, count)
    room.wipe(used)


def _untouched(parent: str) -> bool:
    """Whether a seat holds nothing but the one empty folder, as it was made."""
    facts = os.stat(f"{parent}/job", follow_symlinks=False)
    return (
        facts.st_mode == 0o040700
        and os.listdir(parent) == ["job"]
        and not os.listdir(f"{parent}/job")
    )
