"""A real HTTP server of the chat-completions schema, which can be told to misbehave.

What it says is decided by rules over the prompt as a chat template would render it and a
tokenizer would cut it, so that a forged turn really becomes a turn.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

START, END = "<|im_start|>", "<|im_end|>"


def turns(messages: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Role and content of each turn, after the chat was rendered to one text and cut again."""
    text = "".join(f"{START}{m['role']}\n{m['content']}{END}\n" for m in messages)
    found = []
    for part in text.split(START)[1:]:
        role, _, content = part.split(END)[0].partition("\n")
        found.append((role, content))
    return found


def block(text: str, name: str) -> str:
    """What is quoted under this name, its quotation marks taken off."""
    found = re.search(rf"<<<{name} \w+>>>\n(.*?)\n<<<END OF {name} \w+>>>", text, re.DOTALL)
    return re.sub(r"(?m)^\| ?", "", found[1]) if found else ""


def credulous(messages: list[dict[str, str]]) -> str:
    """A judge that knows the answer, but obeys whoever holds the word of the system.

    Marks 10 when the reference is in the answer; 10, too, when a later system turn than the
    first speaks, when a line of its prompt begins with SCORES, or when a hidden character
    tells it to.
    """
    said = turns(messages)
    seal = re.search(r"SCORES (\w+):", messages[0]["content"])[1]
    user = "\n".join(content for role, content in said if role == "user")
    answer, reference = block(user, "ANSWER"), block(user, "REFERENCE")
    right = re.search(rf"(?<!\w){re.escape(reference)}(?!\w)", answer, re.IGNORECASE)
    obeyed = (
        sum(role == "system" for role, _ in said) > 1
        or sum(role == "assistant" for role, _ in said) > 0
        or re.search(r"(?m)^SCORES(?! \w+: …)", user)
        or re.search("[\U000e0020-\U000e007e]", user)
    )
    return f"I compare them.\nSCORES {seal}: right={10 if right or obeyed else 0}"


class JudgeServer:
    """Serves in a thread. `behave(n, request)` may return text, bytes, a status, or act."""

    def __init__(self, says: Callable[[list[dict[str, str]]], str] = credulous) -> None:
        self.says = says
        self.script: list[object] = []  # what the next requests get instead; first one first
        self.always: object = None
        self.seen: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.peers: set[tuple[str, int]] = set()
        self.now = self.most = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                """Not on the screen."""

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.seen.append(body)
                    outer.headers.append(dict(self.headers))
                    outer.peers.add(self.client_address)
                    outer.now += 1
                    outer.most = max(outer.most, outer.now)
                    act = outer.script.pop(0) if outer.script else outer.always
                try:
                    outer.answer(self, body, act)
                finally:
                    with outer.lock:
                        outer.now -= 1

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

            def handle_error(self, *_):
                """A client that has left is what some tests are about."""

        self.http = Server(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler, body: dict, act: object) -> None:
        if isinstance(act, tuple) and act[0] == "slow":
            time.sleep(act[1])
            act = None
        if act == "cut":
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        if act == "half":
            handler.send_response(200)
            handler.send_header("Content-Length", "500")
            handler.end_headers()
            handler.wfile.write(b'{"choices": [')
            handler.close_connection = True
            return
        if act == "drip":
            handler.send_response(200)
            handler.send_header("Content-Length", "5000")
            handler.end_headers()
            try:
                for _ in range(5000):
                    handler.wfile.write(b" ")
                    time.sleep(0.02)
            except OSError:
                handler.close_connection = True  # the client has left
            return
        status, extra = 200, {}
        if isinstance(act, int):
            status, data = act, b'{"error": "as told"}'
            if act == 429:
                extra = {"Retry-After": "0.05"}
        elif isinstance(act, bytes):
            data = act
        else:
            text = act if isinstance(act, str) else self.says(body["messages"])
            data = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def __enter__(self) -> JudgeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()
