"""Stands in for `kubectl`: pods are files in a folder, `exec` runs the command here.

A pod must have been created, and waited for, before anything is executed in it; a deleted pod
takes its processes along. What was asked for is logged, one JSON list a line, in `$SHIM_LOG`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

FOLDER = os.path.dirname(os.environ["SHIM_LOG"])


def main(words: list[str]) -> int:
    with open(os.environ["SHIM_LOG"], "a") as log:
        log.write(json.dumps(words) + "\n")
    if words[0] == "--namespace":
        words = words[2:]
    command, rest = words[0], words[1:]
    if command == "version":
        return 0
    if command == "create":
        assert rest == ["-f", "-"], rest
        for pod in json.load(sys.stdin)["items"]:
            write(pod["metadata"]["name"], {"pod": pod, "ready": False, "pids": []})
        return 0
    if command == "wait":
        assert rest[0] == "--for=condition=Ready", rest
        name = rest[1].removeprefix("pod/")
        write(name, {**read(name), "ready": True})
        return 0
    if command == "delete":
        assert rest[0] == "pod" and "--force" in rest and "--ignore-not-found" in rest, rest
        return delete(rest[1])
    assert command == "exec", words
    interactive, name, flag, container, dashes, *argv = rest
    assert (interactive, flag, container, dashes) == ("-i", "-c", "worker", "--"), rest
    state = read(name)
    assert state["ready"], "nothing can be executed in a pod that is not ready"
    environment = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    if argv[0] == "env":
        argv.pop(0)
        while "=" in argv[0]:
            key, value = argv.pop(0).split("=", 1)
            environment[key] = value
    assert argv[0] == "python3", argv
    process = subprocess.Popen(
        [sys.executable, *argv[1:]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/tmp",
        start_new_session=True, bufsize=0,
    )  # fmt: skip
    state["pids"].append(process.pid)
    write(name, state)
    threading.Thread(target=copy, args=(0, process.stdin.fileno(), process), daemon=True).start()
    copy(process.stdout.fileno(), 1, None)
    code = process.wait()
    return code if code >= 0 else 128 - code


def copy(source: int, target: int, process: subprocess.Popen | None) -> None:
    while piece := os.read(source, 1 << 16):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]
    if process is not None:
        process.stdin.close()


def read(name: str) -> dict:
    with open(os.path.join(FOLDER, name)) as file:
        return json.load(file)


def write(name: str, state: dict) -> None:
    with open(os.path.join(FOLDER, name), "w") as file:
        json.dump(state, file)


def delete(name: str) -> int:
    try:
        state = read(name)
    except FileNotFoundError:
        return 0
    os.unlink(os.path.join(FOLDER, name))
    for pid in state["pids"]:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return 0


sys.exit(main(sys.argv[1:]))
