"""The script behind `make setup`: which Python it takes, and when it installs again.

It runs for real, on interpreters that are small shell scripts: they answer its question about
their version, make a folder when asked for an environment, and note each call of pip. So the
tests see every decision without installing anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("sh", "dirname", "cksum", "cat", "sed", "rm", "mkdir", "cp", "mv")
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
    "-c "*) echo "{answer}" ;;
    "-m venv")
        rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo venv >> calls ;;
    "-m pip") echo "$*" >> calls; [ ! -e pip_fails ] ;;
    *) exit 3 ;;
esac
"""


class Project:
    """A copy of the files that the script reads, with a PATH that holds only chosen tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder.parent / "path"
        for name in ("Makefile", "pyproject.toml", "constraints.txt", ".ci/make-venv.sh"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        (folder / "binder").mkdir()
        shutil.copy(ROOT / "binder" / "overrides.json", folder / "binder" / "overrides.json")
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool))

    def add_python(self, name: str, answer: str, text: str = FAKE_PYTHON) -> Path:
        """Puts an interpreter on the PATH that answers `answer`, such as "3.12.1 ok"."""
        interpreter = self.path / name
        interpreter.write_text(text.format(answer=answer))
        interpreter.chmod(0o755)
        return interpreter

    def setup(self, python: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), **({"PYTHON": python} if python else {})}
        return subprocess.run(
            ["sh", ".ci/make-venv.sh"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def calls(self) -> list[str]:
        """What was asked of the interpreters since the last look: "venv" and calls of pip."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def project(tmp_path) -> Project:
    # A space in the path, because people have folders with spaces.
    return Project(tmp_path / "my project")


def test_without_any_python_there_is_one_sentence_and_nothing_is_made(project):
    done = project.setup()
    assert done.returncode == 1
    assert done.stderr.startswith("rlkit: no Python 3.10 to 3.13 was found")
    assert done.stderr.count("\n") == 1
    assert not (project.folder / ".venv").exists()


def test_unsupported_pythons_are_named(project):
    project.add_python("python3", "3.9.2 unsupported")
    project.add_python("python", "3.14.0 unsupported")
    done = project.setup()
    assert done.returncode == 1
    assert "python3 is 3.9.2; python is 3.14.0;" in done.stderr


def test_a_shim_that_fails_and_an_old_python_are_skipped(project):
    project.add_python(
        "python3", "", text="#!/bin/sh\necho 'shim: command not found' >&2; exit 127\n"
    )
    project.add_python("python3.11", "3.8.1 unsupported")
    project.add_python("python3.12", "3.12.1 ok")
    done = project.setup()
    assert done.returncode == 0, done.stderr
    assert "Python 3.12.1 (python3.12)" in done.stdout
    assert done.stderr == ""


def test_a_python_without_venv_says_what_to_install(project):
    project.add_python("python3", "3.11.2 no-venv")
    done = project.setup()
    assert done.returncode == 1
    assert "python3 (3.11.2) has no venv module" in done.stderr
    assert "python3-venv" in done.stderr


def test_the_python_that_was_asked_for_is_taken_or_refused(project):
    project.add_python("python3", "3.11.7 ok")
    good = project.add_python("mine", "3.13.0 ok")
    old = project.add_python("old", "3.9.2 unsupported")
    assert "Python 3.13.0" in project.setup(str(good)).stdout
    refused = project.setup(str(old))
    assert refused.returncode == 1
    assert f"PYTHON={old} is not a Python 3.10 to 3.13" in refused.stderr
    assert "is not a Python" in project.setup("no/such/python").stderr


def test_every_install_is_constrained_and_the_second_run_does_nothing(project):
    project.add_python("python3", "3.11.7 ok")
    first = project.setup()
    assert first.returncode == 0, first.stderr
    venv, *installs = project.calls()
    assert venv == "venv"
    assert installs
    assert all("-c constraints.txt" in install for install in installs)
    assert "--editable .[lab,bench,scale,dev]" in installs[-1]
    settings = project.folder / ".venv/share/jupyter/lab/settings/overrides.json"
    assert "windowingMode" in settings.read_text()

    second = project.setup()
    assert (second.returncode, second.stdout, project.calls()) == (0, "", [])


def test_a_failed_install_is_done_again_from_nothing(project):
    project.add_python("python3", "3.11.7 ok")
    (project.folder / "pip_fails").touch()
    failed = project.setup()
    assert failed.returncode == 1
    assert "the installation failed" in failed.stderr
    project.calls()
    (project.folder / "pip_fails").unlink()
    assert project.setup().returncode == 0
    assert project.calls()[0] == "venv"


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_pin_is_installed_into_the_same_environment(project, name):
    project.add_python("python3", "3.11.7 ok")
    project.setup()
    project.calls()
    with (project.folder / name).open("a") as file:
        file.write("# moved\n")
    assert project.setup().returncode == 0
    calls = project.calls()
    assert "venv" not in calls
    assert calls


def test_another_python_or_another_place_makes_a_new_environment(project):
    project.add_python("python3", "3.11.7 ok")
    other = project.add_python("other", "3.13.0 ok")
    project.setup()
    project.calls()
    project.setup(str(other))
    assert project.calls()[0] == "venv"
    # Without PYTHON=... the environment that is there is kept.
    assert project.setup().stdout == ""

    # The scripts in .venv/bin name the folder they were made for.
    moved = project.folder.with_name("moved project")
    os.rename(project.folder, moved)
    project.folder = moved
    project.setup()
    assert project.calls()[0] == "venv"
