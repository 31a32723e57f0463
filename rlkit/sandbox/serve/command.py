"""`rlkit sandbox serve`: start a server, say where it is, and end it in good order.

Left out on purpose: running in the background. A service manager, or a second terminal, does that.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from rlkit.sandbox.serve.protocol import is_loopback
from rlkit.sandbox.serve.server import Server


def serve_command(
    host: str,
    port: int,
    token: str | None,
    workers: int | None,
    queue: int,
    grace_s: float,
    allow_unsafe: bool,
    as_json: bool,
) -> None:
    """Serve until a signal ends it; prints one line (or one JSON object) when it is ready.

    Raises:
        UserError: it cannot listen there.
        SandboxUnavailable: programs cannot be kept apart here.
    """
    server = Server(
        host, port, token=token, workers=workers, queue=queue, allow_unsafe=allow_unsafe
    )
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    about = {
        "address": server.address,
        "level": server.report.level.name,
        "workers": server.workers,
        "token": token is not None,
    }
    if as_json:
        print(json.dumps(about), flush=True)
    else:
        print(f"serving at {server.address} with {server.workers} workers; Ctrl-C ends it")
        print(f"{server.report.level.name}: {server.report.sentence}")
        if not is_loopback(host):
            print("the way here is not encrypted: use it in a network that you trust")
        print(f"use it: Sandbox(backend={server.address!r})", flush=True)
    try:
        while not ending.wait(1.0):  # in turns, so that signals are seen on every system
            continue
    finally:
        print("ending: running jobs are given their time", file=sys.stderr, flush=True)
        server.stop(grace_s)
        stats = server.stats()
        if as_json:
            print(json.dumps({"ended": True, **stats}), flush=True)
        else:
            print(f"served {stats['served']:,} requests, refused {stats['refused']:,}", flush=True)
