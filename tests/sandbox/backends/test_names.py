"""Backends by name, and what importing them needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Sandbox
from rlkit.sandbox.backends import make, names, split_name

REMOTE = ("http", "served", "fusion", "piston", "by_text", "remote_io", "by_command")


def test_every_name_leads_to_a_backend():
    for name in ("fusion:http://h:1", "piston:http://h:1", "http://h:1", "https://h/x"):
        backend = make(name, 2, sys.executable, ())
        assert backend.workers == 2
        for method in ("execute", "call", "report", "close"):
            assert callable(getattr(backend, method))
        backend.close()
    assert {"local", "bwrap", "docker", "kubernetes", "fusion", "piston", "http"} == set(names())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "is none of"),
        ("fusion", "fusion:http://127.0.0.1:8080"),
        ("piston:", "needs an address"),
        ("http:host", "needs an address"),
        ("bwrap:x", "stands alone"),
    ],
)
def test_names_that_lead_nowhere_are_refused_at_once(name, said):
    with pytest.raises(UserError, match=said):
        Sandbox(backend=name)


def test_what_follows_the_colon():
    assert split_name("docker:ghcr.io/a/b:1") == ("docker", "ghcr.io/a/b:1")
    assert split_name("https://h:1/x") == ("http", "https://h:1/x")


def test_the_token_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("RLKIT_SANDBOX_TOKEN", "t" * 20)
    assert make("fusion:http://h:1", 1, "", ()).service.token == "t" * 20
    monkeypatch.setenv("RLKIT_SANDBOX_TOKEN", "")
    assert make("http://h:1", 1, "", ()).service.token is None


def test_remote_backends_need_nothing_that_only_posix_has():
    """As on Windows: modules that are not there cannot be imported, and names are missing."""
    program = f"""
import sys
# What the standard library itself does with these names is its own affair.
import concurrent.futures, http.client, json, logging, platform, random, select, signal, socket
import sqlite3, ssl, subprocess, tempfile, threading, weakref, multiprocessing
gone = ["resource", "fcntl", "termios", "pwd", "grp"]
for name in gone:
    sys.modules[name] = None
import os
for name in ("geteuid", "getuid", "uname", "register_at_fork", "sched_getaffinity", "O_NOFOLLOW"):
    if hasattr(os, name): delattr(os, name)
for name in ("SIGXCPU", "SIGXFSZ", "SIGKILL", "SIGTRAP"):
    if hasattr(signal, name): delattr(signal, name)
del select.poll
import importlib
for name in {REMOTE!r}:
    importlib.import_module("rlkit.sandbox.backends." + name)
from rlkit.sandbox import Job, Limits, Sandbox, TestSpec
from rlkit.sandbox.backends import make
with Sandbox(Limits(wall_s=0.2), workers=1, backend=sys.argv[1]) as box:
    print(box.report().level.name)
    for mode in ("func", "io"):
        given = dict(entry="f") if mode == "func" else dict(mode="io")
        test = TestSpec("t", args=(2,), expected=4) if mode == "func" else TestSpec("t", expected="4")
        verdict = box.run(Job(source="def f(x): return x * x\\nprint(4)", tests=[test], **given))
        print(verdict.status, verdict.summary)
"""  # noqa: E501
    from rlkit.sandbox.serve import Server

    with Server(port=0, workers=1) as server:
        for name in (server.address, f"fusion:{server.address}", f"piston:{server.address}"):
            done = subprocess.run(
                [sys.executable, "-c", program, name], capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-2000:]
            assert done.stdout.count("PASS") == 2, done.stdout
