"""Stands in for `docker`: checks the command line as strictly as the real client, and runs it here.

Standard input and output are passed on through pipes, as the real client does over its socket. A
container is a process group of its own; `rm` kills it. What was asked for is logged, one JSON list
a line, in `$SHIM_LOG`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

FLAGS = {"--interactive", "--rm", "--init", "--read-only"}
VALUES = {
    *("--name", "--label", "--network", "--hostname", "--cap-drop", "--security-opt", "--user"),
    *("--workdir", "--log-driver", "--memory", "--memory-swap", "--pids-limit", "--tmpfs"),
    *("--shm-size", "--ulimit", "--env", "--runtime", "--entrypoint"),
}
FOLDER = os.path.dirname(os.environ["SHIM_LOG"])


def main(words: list[str]) -> int:
    with open(os.environ["SHIM_LOG"], "a") as log:
        log.write(json.dumps(words) + "\n")
    command, rest = words[0], words[1:]
    if command == "version":
        return 0
    if command == "image":
        assert rest[:3] == ["inspect", "--format", "{{.Id}}"], rest
        if rest[3] == "absent:1":
            print("Error: No such image: absent:1", file=sys.stderr)
            return 1
        print("sha256:0123")
        return 0
    if command == "rm":
        assert rest[:2] == ["--force", "--volumes"], rest
        return remove(rest[2])
    assert command == "run", words
    return run(rest)


def run(words: list[str]) -> int:
    given: dict[str, list[str]] = {}
    while words[0].startswith("-"):
        flag = words.pop(0)
        if flag in FLAGS:
            given[flag] = []
        elif flag in VALUES:
            given.setdefault(flag, []).append(words.pop(0))
        else:
            print(f"unknown flag: {flag}", file=sys.stderr)
            return 125
    image, arguments = words[0], words[1:]
    if image == "broken:1":
        print("exec: python3: executable file not found in $PATH", file=sys.stderr)
        return 127
    assert given["--entrypoint"] == ["python3"], given
    environment = dict(pair.split("=", 1) for pair in given["--env"])
    environment["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
    if os.environ.get("SHIM_HANG"):  # a zygote that comes up and then says nothing
        arguments = ["-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/tmp",
        start_new_session=True, bufsize=0,
    )  # fmt: skip
    name = given["--name"][0]
    with open(os.path.join(FOLDER, name), "w") as file:
        file.write(str(process.pid))
    threading.Thread(target=copy, args=(0, process.stdin.fileno(), process), daemon=True).start()
    copy(process.stdout.fileno(), 1, None)
    code = process.wait()
    remove(name)
    return code if code >= 0 else 128 - code


def copy(source: int, target: int, process: subprocess.Popen | None) -> None:
    while piece := os.read(source, 1 << 16):
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]
    if process is not None:
        process.stdin.close()


def remove(name: str) -> int:
    path = os.path.join(FOLDER, name)
    try:
        with open(path) as file:
            pid = int(file.read())
        os.unlink(path)
    except FileNotFoundError:
        print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
        return 1
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 0


sys.exit(main(sys.argv[1:]))
