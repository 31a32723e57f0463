"""What a release carries: all of rlkit, the tiny policy's files included, and no junk.

Built by the real backend from a small tree laid out like the repository, with one file of
every kind that must be in and of every kind that must stay out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TINY = (
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "chat_template.jinja",
    "README.md",
    "model.safetensors.sha256",
)
JUNK = (
    "runs/first/metrics.jsonl",
    "notebooks/runs/first/rollouts.jsonl.gz",
    "notebooks/.ipynb_checkpoints/00-checkpoint.ipynb",
    "rlkit/__pycache__/cli.cpython-311.pyc",
    "tests/.DS_Store",
    ".venv/bin/python",
    ".git/config",
    "report.html",
    "my_notes.txt",
)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> tuple[set[str], set[str], str]:
    """The names in a wheel and in an sdist of the planted tree, and the wheel's entry points."""
    tree = tmp_path_factory.mktemp("tree")
    out = tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", ".gitignore", "LICENSE", "Makefile", "constraints.txt"):
        shutil.copy(ROOT / name, tree / name)
    planted = [f"rlkit/policy/tiny/{name}" for name in TINY]
    planted += ["README.md", "rlkit/cli.py", "tests/test_x.py", "notebooks/00_x.ipynb", *JUNK]
    for name in planted:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("planted\n")
    shutil.copy(ROOT / "rlkit" / "__init__.py", tree / "rlkit" / "__init__.py")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", out],
        cwd=tree,
        check=True,
        capture_output=True,
    )
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
        (entry_points,) = (n for n in in_wheel if n.endswith("entry_points.txt"))
        scripts = archive.read(entry_points).decode()
    with tarfile.open(sdist) as archive:
        in_sdist = {member.name.partition("/")[2] for member in archive if member.isfile()}
    return in_wheel, in_sdist, scripts


def test_the_wheel_is_the_package_and_its_metadata(release):
    in_wheel, _, scripts = release
    code = {name for name in in_wheel if ".dist-info/" not in name}
    expected = {f"rlkit/policy/tiny/{name}" for name in TINY}
    assert code == expected | {"rlkit/__init__.py", "rlkit/cli.py"}
    assert any(name.endswith("/licenses/LICENSE") for name in in_wheel)
    assert scripts.split("\n")[:2] == ["[console_scripts]", "rlkit = rlkit.cli:main"]


def test_the_sdist_has_what_a_build_and_a_test_run_need(release):
    _, in_sdist, _ = release
    expected = {f"rlkit/policy/tiny/{name}" for name in TINY}
    expected |= {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt"}
    expected |= {"tests/test_x.py", "notebooks/00_x.ipynb", "rlkit/cli.py"}
    assert expected <= in_sdist


def test_no_junk_is_released(release):
    in_wheel, in_sdist, _ = release
    assert not set(JUNK) & (in_wheel | in_sdist)


def test_git_keeps_every_file_of_the_tiny_policy(tmp_path):
    """A pattern in .gitignore that hid a weight file would only be noticed by the next clone."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path / ".gitignore")
    paths = [f"rlkit/policy/tiny/{name}" for name in TINY]
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"],
        input="\n".join([*paths, "runs/first/metrics.jsonl"]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ignored.stdout.split() == ["runs/first/metrics.jsonl"]
