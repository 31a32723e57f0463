"""Files around a job: its request, its folder, and the removal of what it left there.

Left out on purpose: a quota. The folder is an ordinary one, and how much lies in it
is counted from outside while the job runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count

#: Nobody counts more files than this in one go.
MAX_FILES_COUNTED = 2_000

#: Nor looks deeper; a path of a thousand folders takes a thousand steps to follow.
MAX_DEPTH_COUNTED = 32


@contextlib.contextmanager
def as_file(data: bytes) -> Iterator[int]:
    """A file without a name that holds the data; unlike a pipe it never fills up."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("job")
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.lseek(descriptor, 0, os.SEEK_SET)
            yield descriptor
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            yield file.fileno()


def megabytes_in(folder: str) -> float:
    """Mebibytes on disk in a folder, as far as `MAX_FILES_COUNTED` and `MAX_DEPTH_COUNTED` go."""
    blocks, counted, todo = 0, 0, [(folder, MAX_DEPTH_COUNTED)]
    while todo and counted < MAX_FILES_COUNTED:
        place, depth = todo.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    counted += 1
                    blocks += entry.stat(follow_symlinks=False).st_blocks
                    if depth and entry.is_dir(follow_symlinks=False):
                        todo.append((entry.path, depth - 1))
                    if counted >= MAX_FILES_COUNTED:
                        break
        except OSError:
            continue  # the program removed it, or forbade itself to list it
    return blocks * 512 / (1 << 20)


def remove_folder(folder: str) -> bool:
    """Remove a scratch folder whatever the program made of it; False when something stays."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        # Nested deeper than Python recurses or a path may be long, or without permissions.
        try:
            _remove_level_by_level(folder)
        except OSError:
            return False
    return not os.path.lexists(folder)


def _remove_level_by_level(folder: str) -> None:
    """Move what lies two levels down up by one until nothing lies there: no path grows long."""
    names = count()
    while first_level := os.listdir(folder):
        for name in first_level:
            place = os.path.join(folder, name)
            if not os.path.isdir(place) or os.path.islink(place):
                os.unlink(place)
                continue
            os.chmod(place, 0o700)
            for inner in os.listdir(place):
                deeper = os.path.join(place, inner)
                if not os.path.isdir(deeper) or os.path.islink(deeper):
                    os.unlink(deeper)
                    continue
                os.chmod(deeper, 0o700)  # a folder that may not be written cannot be moved
                os.rename(deeper, os.path.join(folder, f".removing-{next(names)}"))
            os.rmdir(place)
    os.rmdir(folder)
