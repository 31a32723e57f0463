"""Forcing weaker levels: words, the container's filter, an ordinary user, and what is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Level, Sandbox, levels
from rlkit.sandbox.corpus.check import run_check, select

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fences of Linux")


def test_words_are_checked_and_spelled_out():
    assert levels.words("full") == ()
    assert levels.words("userns,landlock:2") == ("userns", "landlock:2")
    assert levels.words("limits") == ("userns", "landlock", "seccomp")
    for wrong in ("strong", "landlock:two", "seccomp:1", "rlimits"):
        with pytest.raises(UserError, match="unknown"):
            levels.words(wrong)


def test_forcing_is_undone_and_adds_to_what_is_hidden_already(monkeypatch):
    monkeypatch.setenv(levels.VARIABLE, "userns:only")
    with levels.forced("landlock:1") as held:
        assert held.words == ("userns:only", "landlock:1")
        assert held.says == (
            "weakened on purpose: without user namespaces, Landlock above version 1"
        )
    assert os.environ[levels.VARIABLE] == "userns:only"
    monkeypatch.delenv(levels.VARIABLE)
    with pytest.raises(RuntimeError), levels.forced("seccomp"):
        raise RuntimeError
    assert levels.VARIABLE not in os.environ


def test_what_needs_a_process_is_refused_in_a_running_one():
    with pytest.raises(UserError, match="start one"), levels.forced("user"):
        pass
    with pytest.raises(UserError, match="not both"):
        levels.wrap("root+user", ["true"])


@LINUX
@pytest.mark.parametrize(
    ("level", "highest"),
    [
        ("userns", Level.CONFINED),
        ("userns+landlock:4", Level.CONFINED),
        ("userns+landlock:1", Level.CONFINED),
        ("userns+landlock:0", Level.LIMITS),
        ("userns+seccomp", Level.LIMITS),
        ("limits", Level.LIMITS),
    ],
)
def test_a_weaker_machine_is_reported_as_weaker(level, highest):
    """And never below: a report that claims more than its level would be a lie."""
    with levels.forced(level), Sandbox(workers=1, min_isolation=Level.NONE) as sandbox:
        report = sandbox.report()
    assert report.level <= highest
    assert "weakened on purpose" in report.sentence
    with Sandbox(workers=1, min_isolation=Level.NONE) as sandbox:
        assert sandbox.report().level >= report.level
        assert "weakened" not in sandbox.report().sentence


@LINUX
@pytest.mark.parametrize("level", ["userns+landlock:1", "userns+landlock:0", "limits"])
def test_what_a_weak_level_does_not_stop_is_said_beforehand(level):
    """Reading, writing, cutting, renaming: each is contained, or the report says that it is not."""
    with levels.forced(level):
        found = run_check(
            chosen=list(select(["files_read", "files_write"], in_languages=["python"]))
        )
    assert found.failed == [], [(case.name, case.wrong) for case in found.failed]
    assert found.left_behind == []
    if level == "limits":
        assert found.admitted, "without fences something must get through, or this tests nothing"


def run_at(level: str, program: str) -> subprocess.CompletedProcess:
    command = levels.wrap(level, [sys.executable, "-c", program])
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


UNSHARE = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
answer = libc.unshare(0x10000000)
print(json.dumps([os.getuid(), answer, ctypes.get_errno() if answer else 0]))
"""


@LINUX
def test_the_container_filter_refuses_namespaces_and_nothing_that_work_needs():
    done = run_at("docker", UNSHARE)
    assert json.loads(done.stdout)[1:] == [-1, 1], done.stderr  # EPERM
    program = (
        "import subprocess, threading\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['/bin/echo', 'child'], capture_output=True, text=True).stdout)"
    )
    done = run_at("docker", program)
    assert done.stdout.split() == ["thread", "child"], done.stderr


@LINUX
def test_an_ordinary_user_is_one():
    try:
        levels.interpreter()
    except UserError as error:
        pytest.skip(str(error))
    done = run_at("user", UNSHARE)
    assert json.loads(done.stdout)[0] == (levels.NOBODY if os.geteuid() == 0 else os.geteuid())


@LINUX
@pytest.mark.parametrize("level", ["user", "docker"])
def test_the_cheapest_cheats_at_a_level_in_a_process_of_its_own(level):
    try:
        levels.interpreter()
    except UserError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "rlkit.cli", "sandbox", "check", "--json"]
    command += ["--only", "exit code", "--only", "read a file outside", "--language", "python"]
    done = subprocess.run(
        levels.wrap(level, command), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["level"] == level
    assert (done.returncode, found["failed"], found["cheats_paid"]) == (0, [], 0), done.stderr
    assert found["cases"]
