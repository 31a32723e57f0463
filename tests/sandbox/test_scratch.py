from __future__ import annotations

import os

import pytest

from rlkit.sandbox.zygote.wipe import MAX_DEPTH_COUNTED, megabytes_in, remove_folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "scratch"
    made.mkdir()
    return made


def make_deep(folder, levels):
    """Folders in folders, made from inside so that no path gets too long."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def test_a_plain_folder_is_removed(folder):
    (folder / "a").mkdir()
    (folder / "a" / "file").write_text("x")
    assert remove_folder(str(folder))
    assert not folder.exists()


def test_folders_deeper_than_a_path_can_name_are_removed(folder):
    make_deep(folder, 2_200)
    assert remove_folder(str(folder))
    assert not folder.exists()


def test_folders_that_nobody_may_enter_are_removed(folder):
    (folder / "a" / "b" / "c").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    for place in ("a/b/c", "a/b", "a"):
        (folder / place).chmod(0)
    assert remove_folder(str(folder))
    assert not folder.exists()


def test_what_a_link_points_to_stays(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    make_deep(folder, 1_100)  # so that the second way is taken as well
    (folder / "to-folder").symlink_to(outside)
    (folder / "d" / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "file")
    assert remove_folder(str(folder))
    assert (outside / "file").read_text() == "kept"


def test_size_is_what_lies_on_the_disk(folder):
    assert megabytes_in(str(folder)) < 0.1
    (folder / "a").mkdir()
    (folder / "a" / "file").write_bytes(os.urandom(3 << 20))
    assert 2.9 < megabytes_in(str(folder)) < 3.5
    with open(folder / "sparse", "wb") as file:
        file.truncate(1 << 40)
    assert megabytes_in(str(folder)) < 3.5
    make_deep(folder, 3 * MAX_DEPTH_COUNTED)
    assert 2.9 < megabytes_in(str(folder)) < 4.0
    assert megabytes_in(str(folder / "nowhere")) == 0.0
