"""The corpora: every Python case at this machine's own level, and a sample of the other languages.

`RLKIT_FULL_CORPUS=1` runs all cases of all languages; so does `rlkit sandbox check`. What a
case must not do, beside its status, is looked after by `corpus.check.Watch`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Level, Sandbox, Status
from rlkit.sandbox.corpus import cases, check
from rlkit.sandbox.corpus.case import WORKED, Case, attack, cheat
from rlkit.sandbox.corpus.command import check_command
from rlkit.sandbox.corpus.surroundings import Surroundings

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the attacks are attacks on Linux"
)

FULL = os.environ.get("RLKIT_FULL_CORPUS") == "1"
#: One or two of each other language, quick ones, chosen for what they attack.
SAMPLE = {
    *("reads a file in JavaScript", "exits before it is asked", "include of a secret"),
    *("exits before main", "opens a socket in C", "kills in C", "a secret by include in C++"),
    *("exits while the class is loaded", "a secret by include in Rust", "reads in Bash"),
    *("the network of Bash", "background jobs in Bash", "a shell from SQL"),
    *("attaches a file outside", "exits early in JavaScript", "exits before main in C"),
}
CHOSEN = [
    case for case in cases() if FULL or case.language in ("python", "math") or case.name in SAMPLE
]


@pytest.fixture(scope="module")
def watch():
    with Surroundings() as world, Sandbox(workers=1, min_isolation=Level.NONE) as sandbox:
        if sandbox.report().level < Level.CONFINED:
            pytest.skip(f"this machine offers too little: {sandbox.report().sentence}")
        watch = check.Watch(sandbox, world, check.Check("local", isolation=sandbox.report()))
        watch.warm_up()
        yield watch
        assert watch.check.left_behind == []


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.key)
def test_a_case_is_contained(watch, case):
    result = watch.run(case)
    if result is None:
        pytest.skip(watch.check.not_run[-1]["why"])
    if result.admitted:
        pytest.skip(f"the report says beforehand that {case.attacks} does not hold here")
    assert result.ok, (result.status, result.wrong, result.says)


def test_there_are_as_many_as_were_promised():
    counted = Counter(case.corpus for case in cases())
    assert counted["hostile"] >= 110
    assert counted["cheat"] >= 40
    in_languages = {case.language for case in cases("hostile")}
    assert {"python", "javascript", "c", "cpp", "java", "rust", "bash", "sql"} <= in_languages
    assert {case.mode for case in cases("cheat")} == {"func", "io", "proxy", "inproc"}


def test_every_case_says_what_it_is_about():
    for case in cases():
        assert case.lesson.endswith("."), case.key
        assert case.name and case.attacks and case.tests and case.expected, case.key
        assert Status.SANDBOX_ERROR not in case.expected, case.key
        if case.corpus == "cheat":
            assert Status.PASS not in case.expected, case.key
    assert len({case.key for case in cases()}) == len(cases())


def test_all_that_start_processes_or_signal_everybody_ask_for_a_fence_first():
    """The rule that keeps a check at a weak level from harming the machine."""
    words = {
        "fork()": ("teardown", "signals"),
        ":|:&": ("teardown",),
        "kill(-1": ("signals",),
        "kill(0,": ("signals",),
        "kill(os.getppid(), 9": ("signals",),
        "PRIO_USER": ("other_processes",),
        "setsid": ("teardown",),
        'rm -rf "$PWD"': ("files_write",),
        "evil.py": ("files_write",),
    }
    bombs = [case for case in cases() if "while True" in case.source or "for(;;)" in case.source]
    for case in bombs:
        if "fork" in case.source:
            assert "teardown" in case.needs, case.key
    for case in cases("hostile"):
        for word, needed in words.items():
            if word in case.source and word != "fork()":
                assert set(needed) & set(case.needs), case.key


def one(**changes) -> Case:
    return attack("a test of the check", "files_read", 'open("@OUTSIDE@/secret").read()',
                  "Reads.", **changes)  # fmt: skip


@pytest.fixture
def open_watch():
    """Without a fence, so that what the check is to notice really happens."""
    layers = {"layers": ()}
    with (
        Surroundings() as world,
        Sandbox(workers=1, allow_unsafe=True, min_isolation=Level.NONE, **layers) as sandbox,
    ):
        watch = check.Watch(sandbox, world, check.Check("local", isolation=sandbox.report()))
        watch.warm_up()
        yield watch


def test_an_attack_that_works_is_seen_and_admitted(open_watch):
    result = open_watch.run(one())
    assert (result.status, result.ok, result.admitted) == ("PASS", False, True)
    assert result.wrong == ("ended as PASS",)


def test_a_changed_file_a_killed_victim_and_a_connection_are_seen(open_watch):
    body = (
        'open("@OUTSIDE@/file", "a").write("x")\n'
        "import socket\n"
        'socket.create_connection(("127.0.0.1", @PORT@), 1).close()'
    )
    result = open_watch.run(attack("two things", "files_write", body, "Does two things."))
    assert "changed: file file" in result.wrong
    assert "connected to: tcp" in result.wrong
    # What was changed is put back, so that the next case is judged for itself.
    assert open_watch.world.changes() == []


def test_a_secret_in_a_verdict_is_seen(open_watch):
    source = 'def f(x): return open("@OUTSIDE@/secret").read()'
    result = open_watch.run(cheat("tells", "secrets", source, "Tells a secret."))
    assert "the verdict holds what was planted outside" in result.wrong


def test_a_folder_that_is_removed_is_seen_and_planted_again():
    with Surroundings() as world:
        shutil.rmtree(world.folder)
        assert "changed: the folder" in world.changes()
        assert (world.folder / "secret").read_text() == world.secret
        assert world.changes() == []


def test_a_process_that_is_left_running_is_seen():
    with Surroundings() as world:
        world.settle()
        child = subprocess.Popen(["sleep", "60"])
        try:
            assert len(world.left_behind()) == 1
        finally:
            child.kill()
            child.wait()
        assert world.left_behind() == []


def test_a_cheat_that_is_paid_is_never_admitted(open_watch):
    honest = cheat("an honest program", "values", "def f(x): return sorted(x)", "Solves it.")
    result = open_watch.run(honest)
    assert (result.ok, result.admitted) == (False, False)
    assert "it was paid in full" in result.wrong


def test_a_dangerous_case_is_not_run_where_nothing_holds_it(open_watch):
    assert open_watch.run(one(needs=("signals",))) is None
    assert "would harm this machine" in open_watch.check.not_run[-1]["why"]


def test_the_attacks_are_attacks():
    """Outside the sandbox the same lines work, so that their failure inside means something."""
    names = {
        *("read a file outside", "list a folder outside", "look whether a file is there"),
        *("append to a file outside", "cut a file outside", "rename a file outside"),
        *("change the mode of a file outside", "touch a file outside", "connect"),
        *("send a datagram", "listen", "a socket in the file system", "an abstract socket"),
        *("a process", "a shell", "kill the victim", "signal the host", "read by executing"),
    }
    with Surroundings() as world:
        for case in cases("hostile", mode="func"):
            if case.name not in names:
                continue
            source = case.job(world.places).source + "\nprint(f())"
            done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
            assert done.stdout.strip() == WORKED, (case.name, done.stdout, done.stderr)
            names.remove(case.name)
            world.changes()
    assert not names


def test_the_command_prints_one_json_object(capsys):
    code = check_command(only=["read a file outside"], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert code == 0 and found["ok"]
    (case,) = found["cases"]
    assert {"name", "corpus", "language", "status", "expected", "ok"} <= set(case)
    assert (case["name"], case["ok"], found["left_behind"]) == ("read a file outside", True, [])
    assert found["isolation"]["level"] in Level.__members__


def test_the_command_refuses_what_it_does_not_know():
    with pytest.raises(UserError, match="no case of the corpora fits"):
        check_command(only=["no such case"])
    with pytest.raises(UserError, match="corpus 'friendly'"):
        check_command(corpora=["friendly"])
    with pytest.raises(UserError, match="level 'weak'"):
        check_command(level="weak")
