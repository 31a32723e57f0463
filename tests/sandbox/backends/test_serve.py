"""The server: who may ask, how much, how many at once, and how it ends."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.serve import Server
from rlkit.sandbox.wire import KIND, pack_job

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the server's sandbox is this machine's own"
)

TOKEN = "a-long-enough-token"


def ask(server, method="POST", path="/run_code", body=None, **headers):
    """Status, JSON and headers of one request on a connection of its own."""
    host, port = server.address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None, answer.headers


def job(n: int = 0, seconds: float = 0.0) -> Job:
    source = f"import time\ndef f():\n    time.sleep({seconds})\n    return {n}"
    test = TestSpec("t", expected=n)
    return Job(source=source, entry="f", tests=[test], cache="off", limits=Limits(wall_s=20.0))


def test_it_answers_in_sandboxfusions_schema(server):
    status, told, _ = ask(server, body={"code": "print(input()[::-1])", "language": "python",
                                        "stdin": "h\u00e9"})  # fmt: skip
    assert (status, told["status"], told["run_result"]["stdout"]) == (200, "Success", "\u00e9h\n")
    assert set(told) == {
        "status",
        "message",
        "compile_result",
        "run_result",
        "executor_pod_name",
        "files",
    }
    assert set(told["run_result"]) == {
        "status",
        "execution_time",
        "return_code",
        "stdout",
        "stderr",
    }


def test_files_go_in_and_come_out(server):
    body = {
        "code": "open('out/b.bin', 'wb').write(open('in/a.bin', 'rb').read()[::-1])",
        "language": "python",
        "files": {"in/a.bin": base64.b64encode(b"\xff\x00\x01").decode(), "out/x": "", "no": None},
        "fetch_files": ["out/b.bin", "missing"],
    }
    _, told, _ = ask(server, body=body)
    assert told["status"] == "Success", told
    assert told["files"] == {"out/b.bin": base64.b64encode(b"\x01\x00\xff").decode()}


@pytest.mark.parametrize(
    ("body", "status", "ended", "code"),
    [
        ({"code": "raise SystemExit(3)"}, "Failed", "Finished", 3),
        ({"code": "import os; os.kill(os.getpid(), 11)"}, "Failed", "Finished", -11),
        ({"code": "while True: pass", "run_timeout": 0.5}, "Failed", "TimeLimitExceeded", None),
        ({"code": "while True: print('x' * 9999)"}, "Failed", "Finished", -9),
        ({"code": "x = bytearray(1 << 30)", "memory_limit_MB": 256}, "Failed", "Finished", 1),
    ],
)
def test_how_programs_end_is_told(server, body, status, ended, code):
    _, told, _ = ask(server, body={"language": "python", **body})
    run = told["run_result"]
    assert (told["status"], run["status"], run["return_code"]) == (status, ended, code), told


def test_a_compiler_that_refuses(server):
    _, told, _ = ask(server, body={"code": "int main() { return x; }", "language": "cpp"})
    if told.get("error"):
        pytest.skip(told["error"])
    assert (told["status"], told["compile_result"]["return_code"]) == ("Failed", 1)
    assert told["run_result"] is None and "x" in told["compile_result"]["stderr"]


def test_programs_are_contained(server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("planted")
    code = f"""
import os, socket
for what in (lambda: open({str(secret)!r}).read(), lambda: socket.socket(), lambda: os.kill({os.getpid()}, 0)):
    try: print("LEAK", what())
    except OSError as error: print(type(error).__name__)
"""  # noqa: E501
    _, told, _ = ask(server, body={"code": code, "language": "python"})
    assert "LEAK" not in told["run_result"]["stdout"], told
    assert told["run_result"]["stdout"].count("Error") == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "no JSON"),
        ([], "JSON object"),
        ({"code": "", "language": "cobol"}, "none of"),
        ({"code": 7, "language": "python"}, "code must be str"),
        ({"code": "", "language": "python", "run_timeout": "1"}, "run_timeout must be"),
        ({"code": "", "language": "python", "run_timeout": 1e9}, "wall_s"),
        ({"code": "", "language": "python", "run_timeout": -1}, "wall_s"),
        ({"code": "", "language": "python", "run_timeout": True}, "run_timeout must be"),
        ({"code": "", "language": "python", "memory_limit_MB": 1 << 30}, "memory_mb"),
        ({"code": "", "language": "python", "files": {"../x": ""}}, "leads out"),
        ({"code": "", "language": "python", "files": {"main.py": "", "/x": ""}}, "leads out"),
        ({"code": "", "language": "python", "files": {"x": "\u00e9"}}, "base64"),
        ({"code": "", "language": "python", "fetch_files": ["../../etc/passwd"]}, "leads out"),
        ({"code": "", "language": "python", "fetch_files": [{}]}, "no name|unhashable"),
        ({"code": "", "language": "python", "args": ["-k"]}, "pytest"),
    ],
)
def test_requests_that_make_no_sense_are_told_why(server, body, said):
    status, told, _ = ask(server, body=body)
    assert status == 400
    import re

    assert re.search(said, told["error"]), told


def test_what_is_not_there_is_404_and_other_methods_405(server):
    assert ask(server, "GET", "/nothing")[0] == 404
    assert ask(server, "GET", "/run_code")[0] == 405
    status, told, _ = ask(server, "GET", "/health")
    assert (status, told["ok"], told["level"]) == (200, True, server.report.level.name)


def test_size_is_limited_before_it_is_read(server):
    host, port = server.address.removeprefix("http://").split(":")
    for head, status in (
        (b"Content-Type: application/json\r\nContent-Length: 99999999999\r\n", b"413"),
        (b"Content-Type: application/json\r\n", b"411"),
        (b"Content-Type: text/plain\r\nContent-Length: 2\r\n", b"415"),
    ):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(b"POST /run_code HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
            assert connection.recv(100).split()[1] == status


def test_web_pages_may_not_ask(server):
    body = {"code": "print(1)", "language": "python"}
    assert ask(server, body=body, Origin="http://evil.example")[0] == 403
    assert ask(server, body=body, Host="evil.example")[0] == 403
    assert ask(server, body=body, Host="localhost:1")[0] == 200


def test_a_token_is_wanted_where_one_is_set(monkeypatch):
    monkeypatch.delenv("RLKIT_SANDBOX_TOKEN", raising=False)
    with Server(port=0, workers=1, token=TOKEN) as server:
        body = {"code": "print(1)", "language": "python"}
        assert ask(server, body=body)[0] == 401
        assert ask(server, body=body, Authorization="Bearer wrong-but-just-as-long")[0] == 401
        assert ask(server, body=body, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(server, "GET", "/health")[0] == 200
        with Sandbox(workers=1, backend=server.address) as box:
            with pytest.raises(UserError, match="check its address and the token"):
                box.run(job())
        monkeypatch.setenv("RLKIT_SANDBOX_TOKEN", TOKEN)
        with Sandbox(workers=1, backend=server.address) as box:
            assert box.run(job()).status is Status.PASS


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0"}, "without a token"),
        ({"host": "192.0.2.1"}, "without a token"),
        ({"token": "short"}, "longer"),
        ({"queue": 0}, "queue=0"),
        ({"workers": 0}, "workers=0"),
        ({"host": "192.0.2.1", "token": TOKEN}, "cannot listen"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        Server(port=0, **settings)


def test_it_refuses_to_serve_where_nothing_holds(monkeypatch):
    monkeypatch.setenv("RLKIT_SANDBOX_HIDE", "userns,landlock,seccomp")
    with pytest.raises(UserError, match="CONFINED"):
        Server(port=0, workers=1)


def test_many_clients_at_once_get_their_own_answers(server):
    with Sandbox(workers=8, backend=server.address) as box, ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda n: box.run(job(n)), range(64)))
    assert [verdict.reward for verdict in verdicts] == [1.0] * 64
    assert all(verdict.isolation.level >= Level.CONFINED for verdict in verdicts)
    assert server.stats()["running"] == 0


def test_a_full_queue_is_told_and_clients_come_again():
    with Server(port=0, workers=1, queue=1) as server:
        slow = {"code": "import time; time.sleep(1)", "language": "python"}
        threads = [
            threading.Thread(target=ask, args=(server, "POST", "/run_code", slow)) for _ in "ab"
        ]
        for thread, what in zip(threads, ("running", "waiting"), strict=True):
            thread.start()
            soon(lambda what=what: server.stats()[what] == 1)
        status, told, headers = ask(server, body=slow)
        assert (status, headers["Retry-After"]) == (429, "1"), told
        with Sandbox(workers=4, backend=server.address) as box:  # which waits, and comes again
            assert [v.reward for v in box.run_many([job(n) for n in range(4)])] == [1.0] * 4
        for thread in threads:
            thread.join()


def test_addresses_take_turns():
    done: list[str] = []

    def client(server, source: str) -> None:
        host, port = server._http.server_address
        connection = http.client.HTTPConnection(host, port, 30, source_address=(source, 0))
        body = json.dumps({"code": "import time; time.sleep(0.2)", "language": "python"})
        connection.request("POST", "/run_code", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        connection.close()
        done.append(source)

    with Server(port=0, workers=1) as server, ThreadPoolExecutor(8) as pool:
        many = [pool.submit(client, server, "127.0.0.2") for _ in range(5)]
        soon(lambda: server.stats()["waiting"] == 4)
        one = pool.submit(client, server, "127.0.0.1")
        for future in (*many, one):
            future.result()
    # The one request waits for the one that runs and perhaps one more, not for all five.
    assert done.index("127.0.0.1") <= 2, done


def test_a_client_that_goes_away_stops_its_job():
    with Server(port=0, workers=1) as server:
        body = pack_job(job(seconds=15), Limits())
        host, port = server.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            head = f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: {KIND}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            soon(lambda: server.stats()["running"] == 1)
        soon(lambda: server.stats()["running"] == 0)
        assert server.stats()["gone"] == 1
        with Sandbox(workers=1, backend=server.address) as box:
            assert box.run(job()).status is Status.PASS


def test_stopping_lets_running_jobs_end_and_takes_no_more():
    server = Server(port=0, workers=1)
    with Sandbox(workers=2, backend=server.address) as box, ThreadPoolExecutor(1) as pool:
        running = pool.submit(box.run, job(seconds=0.7))
        soon(lambda: server.stats()["running"] == 1)
        server.stop(grace_s=10.0)
        assert running.result().status is Status.PASS
    with pytest.raises(OSError):
        ask(server, "GET", "/health")
    server.stop()  # twice is fine


def test_stopping_ends_what_takes_too_long():
    server = Server(port=0, workers=1)
    slow = {"code": "import time; time.sleep(30)", "language": "python", "run_timeout": 60}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask, server, body=slow)
        soon(lambda: server.stats()["running"] == 1)
        started = time.monotonic()
        server.stop(grace_s=0.2)
        assert time.monotonic() - started < 5.0
        try:
            assert running.result()[0] == 503
        except (OSError, http.client.HTTPException):
            return  # it was too late to say so


def test_more_connections_than_allowed_are_told():
    with Server(port=0, workers=1, connections=2) as server:
        address = server._http.server_address
        held = [socket.create_connection(address, 5) for _ in range(2)]
        soon(lambda: len(server._http._open) == 2)
        with socket.create_connection(address, 5) as third:
            assert b"503" in third.recv(100)
        for connection in held:
            connection.close()
        soon(lambda: len(server._http._open) == 0)
        assert ask(server, "GET", "/health")[0] == 200


def test_a_job_above_the_ceiling_is_refused_not_cut(server):
    with Sandbox(Limits(memory_mb=1 << 20), workers=1, backend=server.address) as box:
        with pytest.raises(UserError, match="memory_mb"):
            box.run(Job(source="f = abs", entry="f", tests=[TestSpec("t", args=(1,), expected=1)]))
    with Sandbox(workers=1, backend=server.address) as box:
        with pytest.raises(UserError, match="network"):
            box.run(Job(source="f = abs", entry="f", limits=Limits(network=True),
                        tests=[TestSpec("t", args=(1,), expected=1)]))  # fmt: skip


def test_damaged_jobs_are_told(server):
    good = pack_job(job(), Limits())
    for body in (b"", b"N", good[:-5], good + b"N"):
        status, told, _ = ask(server, path="/v1/jobs", body=body, Content_Type=KIND)
        assert status == 400, told


def test_piston_clients_are_answered_too(server):
    _, runtimes, _ = ask(server, "GET", "/api/v2/runtimes")
    assert any(row["language"] == "python" and "py" in row["aliases"] for row in runtimes)
    body = {"language": "py", "version": "*", "args": ["a", "b"], "stdin": "x\n",
            "files": [{"content": "import sys, data; print(sys.argv[1:], input(), data.X)"},
                      {"name": "data.py", "content": base64.b64encode(b"X = 7").decode(),
                       "encoding": "base64"}]}  # fmt: skip
    _, told, _ = ask(server, path="/api/v2/execute", body=body)
    assert (told["run"]["stdout"], told["run"]["code"]) == ("['a', 'b'] x 7\n", 0)
    for broken, said in (
        ({**body, "version": "2"}, "unknown"), ({**body, "files": []}, "files is required"),
        ({**body, "files": [{}]}, "content is required"), ({"version": "*"}, "required"),
    ):  # fmt: skip
        status, told, _ = ask(server, path="/api/v2/execute", body=broken)
        assert status == 400 and said in told["message"]


def test_the_command_line_serves_until_it_is_told_to_end():
    process = subprocess.Popen(
        [sys.executable, "-m", "rlkit.cli", "sandbox", "serve", "--port", "0", "--workers", "1",
         "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        about = json.loads(process.stdout.readline())
        with Sandbox(workers=1, backend=about["address"]) as box:
            assert box.run(job()).status is Status.PASS
        process.send_signal(signal.SIGTERM)
        ended = json.loads(process.stdout.readline())
        assert ended["ended"] and ended["served"] == 2  # the report, and the job
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def soon(holds, seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
