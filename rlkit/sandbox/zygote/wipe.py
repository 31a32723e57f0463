"""Removing what a job left in its folder, whatever it made of it.

Left out on purpose: `shutil`, which takes 5 ms to import and gives up on folders nested
deeper than a path may be long.
"""

from __future__ import annotations

import os
from itertools import count

#: Nobody counts more files than this in one go.
MAX_FILES_COUNTED = 2_000

#: Nor looks deeper; a path of a thousand folders takes a thousand steps to follow.
MAX_DEPTH_COUNTED = 32


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
    """Remove a folder and all that is in it; False when something stays."""
    try:
        os.rmdir(folder)
    except OSError:
        try:
            empty(folder)
            os.rmdir(folder)
        except OSError:
            return not os.path.lexists(folder)
    return True


def empty(folder: str) -> None:
    """Remove all that is in a folder.

    What lies two levels down is moved up by one until nothing lies there, so that no path
    grows long.

    Raises:
        OSError: something cannot be removed.
    """
    names = count()
    os.chmod(folder, 0o700)
    while first_level := os.listdir(folder):
        for name in first_level:
            place = os.path.join(folder, name)
            if os.path.islink(place) or not os.path.isdir(place):
                os.unlink(place)
                continue
            os.chmod(place, 0o700)
            for inner in os.listdir(place):
                deeper = os.path.join(place, inner)
                if os.path.islink(deeper) or not os.path.isdir(deeper):
                    os.unlink(deeper)
                    continue
                os.chmod(deeper, 0o700)  # a folder that may not be written cannot be moved
                os.rename(deeper, os.path.join(folder, f".removing-{next(names)}"))
            os.rmdir(place)
