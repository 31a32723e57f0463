"""Services that fail: no verdict is made of it, never a zero, and the loop goes on."""

from __future__ import annotations

import threading
import time

import pytest

from rlkit.errors import UserError
from rlkit.sandbox import Job, Level, Limits, Sandbox, Status, TestSpec
from rlkit.sandbox.backends import http
from rlkit.sandbox.backends.base import InfrastructureFault
from rlkit.sandbox.backends.fusion import FusionBackend
from rlkit.sandbox.backends.http import Cancelled, Service
from rlkit.sandbox.backends.piston import PistonBackend
from rlkit.sandbox.backends.served import ServedBackend
from rlkit.sandbox.verdict import IsolationReport

LIMITS = Limits(wall_s=0.2, cpu_s=1.0)
HOPELESS = ("500", "502", "503", "504", "no json", "empty", "truncated", "cut", "cut at once")
SLOW = ("hang", "drip", "drip headers")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(http, "FIRST_PAUSE_S", 0.01)


def io(n: int = 0, expected: str = "42") -> Job:
    tests = [TestSpec("t", stdin=f"{n}", expected=expected)]
    return Job("python", f"print(42)  # {n}", tests, mode="io", cache="off")


def known(backend):
    """The backend, with its report given: the service runs nothing that could probe it."""
    report = IsolationReport(Level.CONFINED, "given")
    backend.report = backend.report_io = lambda: report
    return backend


def clients(bad, patience_s: float = 0.1):
    yield known(FusionBackend(bad.url, tries=3, patience_s=patience_s))
    yield known(PistonBackend(bad.url, tries=3, patience_s=patience_s))
    yield known(ServedBackend(bad.url, tries=3, patience_s=patience_s))


@pytest.mark.parametrize("word", HOPELESS + SLOW)
def test_a_service_that_fails_gives_no_verdict(bad, word):
    for backend in clients(bad):
        bad.plan = [word]
        with Sandbox(LIMITS, workers=2, backend=backend) as box:
            started = time.monotonic()
            verdict = box.run(io())
            took = time.monotonic() - started
        assert (verdict.status, verdict.reward) == (Status.SANDBOX_ERROR, None), verdict
        assert bad.url in verdict.message
        assert verdict.backend == backend.name
        assert took < 10.0  # twice 0.2 + 0.1 s for each, not the 30 s of a hang


@pytest.mark.parametrize("word", [w for w in HOPELESS if w != "500"] + ["429", "408"])
def test_what_passes_is_waited_for(bad, word):
    bad.plan = [word, word, "good"]
    backend = known(FusionBackend(bad.url, tries=3, patience_s=5.0))
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        verdict = box.run(io())
    assert verdict.status is Status.PASS, verdict.summary
    assert len(bad.seen) == 3  # two failures and the good answer


def test_the_loop_goes_on_when_the_service_comes_back(bad):
    backend = known(FusionBackend(bad.url, tries=1, patience_s=0.3))
    with Sandbox(LIMITS, workers=2, backend=backend) as box:
        bad.plan = ["504"]
        rewards = [v.reward for v in box.run_many([io(n) for n in range(6)])]
        bad.plan = ["good"]
        rewards += [v.reward for v in box.run_many([io(n) for n in range(6)])]
    assert rewards == [None] * 6 + [1.0] * 6


def test_some_fail_and_some_do_not_and_each_gets_its_own(bad):
    bad.plan = ["good", "cut", "cut", "good", "no json", "no json", "good"]
    backend = known(FusionBackend(bad.url, tries=1))
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        rewards = [box.run(io(n)).reward for n in range(5)]
    # each job is tried twice by the front: 0 good | 1 cut, cut | 2 good | 3 damaged twice | 4 good
    assert rewards == [1.0, None, 1.0, None, 1.0]


FUSION_NONSENSE = [
    [], 7, {}, {"status": "Fine"}, {"status": "Success"},
    {"status": "SandboxError", "message": "no space left"},
    {"status": "Success", "run_result": 7},
    {"status": "Success", "run_result": {"status": "Finished", "stdout": 42, "return_code": 0}},
    {"status": "Success", "run_result": {"status": "Finished", "stdout": "42", "return_code": "0"}},
    {"status": "Failed", "run_result": {"status": "Finished", "stdout": "42", "return_code": True}},
    {"status": "Success", "run_result": {"status": "Finished", "stdout": "42"}},
    {"status": "Success", "run_result": {"status": "Error", "stderr": "overlayfs"}},
    {"status": "Success", "compile_result": {"status": "Finished", "return_code": 0}},
]  # fmt: skip


@pytest.mark.parametrize("answer", FUSION_NONSENSE, ids=range(len(FUSION_NONSENSE)))
def test_answers_of_the_wrong_shape_give_no_verdict(bad, answer):
    bad.plan = [answer]
    with Sandbox(LIMITS, workers=1, backend=known(FusionBackend(bad.url))) as box:
        verdict = box.run(io())
    assert (verdict.status, verdict.reward) == (Status.SANDBOX_ERROR, None)


PISTON_NONSENSE = [
    [], {}, {"run": {}}, {"run": {"stdout": "42", "stderr": "", "code": "0", "signal": None}},
    {"run": {"stdout": "42", "stderr": "", "code": None, "signal": None}},
    {"run": {"stdout": "42", "stderr": "", "code": None, "signal": None, "status": "XX"}},
    {"message": "something went wrong"},
]  # fmt: skip


@pytest.mark.parametrize("answer", PISTON_NONSENSE, ids=range(len(PISTON_NONSENSE)))
def test_answers_of_the_wrong_shape_from_piston(bad, answer):
    bad.plan = ["good", answer]  # the first request asks for the runtimes
    with Sandbox(LIMITS, workers=1, backend=known(PistonBackend(bad.url))) as box:
        verdict = box.run(io())
    assert (verdict.status, verdict.reward) == (Status.SANDBOX_ERROR, None)


def test_success_is_no_pass(bad):
    bad.stdout = "41\n"  # exit code 0, status Success, and the wrong answer
    for backend in list(clients(bad))[:2]:
        with Sandbox(LIMITS, workers=1, backend=backend) as box:
            assert box.run(io()).reward == 0.0


def test_a_call_that_never_came_up_is_no_zero(bad):
    bad.stdout = "Segmentation fault"  # exit code 0, and nothing that our harness says
    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)])
    for backend in list(clients(bad))[:2]:
        with Sandbox(LIMITS, workers=1, backend=backend) as box:
            verdict = box.run(job)
        assert (verdict.status, verdict.reward) == (Status.SANDBOX_ERROR, None)
        assert "no interpreter came up" in verdict.message


def test_a_cut_channel_is_no_zero(bad):
    backend = known(FusionBackend(bad.url, kept_bytes=64))
    bad.stdout = "x" * 64
    job = Job(source="def f(): return 1", entry="f", tests=[TestSpec("t", expected=1)])
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        verdict = box.run(job)
    assert verdict.reward is None and "keeps" in verdict.message


def test_a_service_that_stops_output_too_early_is_no_zero(bad):
    stage = {"stdout": "x" * 1024, "stderr": "", "code": None, "signal": "SIGKILL", "status": "OL"}
    bad.plan = ["good", {"run": stage}]
    with Sandbox(LIMITS, workers=1, backend=known(PistonBackend(bad.url))) as box:
        verdict = box.run(io())
    assert verdict.reward is None and "can allow more" in verdict.message


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_wrong_address_or_token_is_said_to_the_user(bad, status):
    bad.plan = [status]
    with Sandbox(LIMITS, workers=1, backend=known(FusionBackend(bad.url, tries=4))) as box:
        with pytest.raises(UserError, match="check its address and the token"):
            box.run(io())
    assert len(bad.seen) == 1  # no other try could have helped


def test_a_refused_request_is_not_repeated(bad):
    bad.plan = ["400"]
    with Sandbox(LIMITS, workers=1, backend=known(FusionBackend(bad.url, tries=4))) as box:
        verdict = box.run(io())
    assert verdict.reward is None and "400: told to" in verdict.message
    assert len(bad.seen) == 2  # once, and once more by the front


def test_nobody_listens():
    backend = known(FusionBackend("http://127.0.0.1:9", tries=2, patience_s=1.0))
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        verdict = box.run(io())
    assert verdict.reward is None and "cannot be reached" in verdict.message


def test_retry_after_is_obeyed_within_the_deadline(bad):
    bad.plan = ["429 with Retry-After", "good"]
    service = Service(bad.url, tries=3)
    started = time.monotonic()
    service.json("GET", "/api/v2/runtimes", wait_s=10.0)
    assert time.monotonic() - started >= 1.0
    bad.plan = ["429 with Retry-After"]
    with pytest.raises(InfrastructureFault, match="time ran out"):
        service.json("GET", "/api/v2/runtimes", wait_s=0.5)
    service.close()


def test_pauses_grow_and_are_never_in_step(bad, monkeypatch):
    monkeypatch.setattr(http, "FIRST_PAUSE_S", 0.05)
    bad.plan = ["503"]
    with pytest.raises(InfrastructureFault, match="4 times"):
        Service(bad.url, tries=4, seed=1).json("GET", "/api/v2/runtimes", wait_s=10.0)
    pauses = [after - before for before, after in zip(bad.times, bad.times[1:], strict=False)]
    # half to all of 0.05, 0.1 and 0.2 s
    assert all(p >= 0.025 * 2**n for n, p in enumerate(pauses))
    drawn = [Service(bad.url, seed=n)._pause(0) for n in range(20)]
    assert len(set(drawn)) == 20 and all(0.025 <= p <= 0.05 for p in drawn)


def test_one_connection_serves_many_requests_and_a_lost_one_is_no_trouble(bad):
    service = Service(bad.url)
    for _ in range(20):
        service.json("GET", "/api/v2/runtimes", wait_s=5.0)
    assert (bad.connections, service.opened, service.repeated) == (1, 1, 0)
    bad.plan = ["cut at once", "good"]  # the kept connection ends without a word
    service.json("GET", "/api/v2/runtimes", wait_s=5.0)
    assert (service.opened, service.repeated) == (2, 0)
    service.close()


def test_waiting_can_be_given_up(bad):
    bad.plan = ["hang"]
    wanted = threading.Event()
    wanted.set()
    threading.Timer(0.2, wanted.clear).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        Service(bad.url).json(
            "GET", "/api/v2/runtimes", wait_s=30.0, cancelled=lambda: not wanted.is_set()
        )
    assert time.monotonic() - started < 5.0


def test_an_answer_without_end_is_refused(bad, monkeypatch):
    monkeypatch.setattr(http, "MOST_BYTES", 100)
    with pytest.raises(InfrastructureFault, match="damaged"):
        Service(bad.url, tries=2).json("GET", "/api/v2/runtimes", wait_s=5.0)


def test_the_token_goes_along_and_what_is_expected_does_not(bad):
    backend = known(FusionBackend(bad.url, token="secret-of-a-class"))
    with Sandbox(LIMITS, workers=1, backend=backend) as box:
        box.run(io(expected="unlikely-1234"))
    assert bad.seen[0]["token"] == "Bearer secret-of-a-class"
    assert "unlikely-1234" not in repr(bad.seen)


def test_what_a_service_cannot_be_given_is_said(bad):
    fusion, piston = known(FusionBackend(bad.url)), known(PistonBackend(bad.url))
    binary = Job("python", "1", [TestSpec("t", stdin=b"\xff", expected="1")], mode="io")
    words = Job("python", "1", [TestSpec("t", argv=("a",), expected="1")], mode="io")
    files = Job("python", "1", [TestSpec("t", expected_files={"a": "1"})], mode="io")
    for backend, job, said in (
        (fusion, binary, "no UTF-8"), (piston, binary, "no UTF-8"),
        (fusion, words, "no arguments"), (piston, files, "no files back"),
        (piston, Job("rust", "", [TestSpec("t", expected="1")], mode="io"), "no runtime for rust"),
        (fusion, Job("c", "", [TestSpec("t", expected="1")], mode="io"), "runs no c"),
    ):  # fmt: skip
        with Sandbox(LIMITS, workers=1, backend=backend) as box:
            with pytest.raises(UserError, match=said):
                box.run(job)


def test_piston_takes_the_newest_runtime(bad):
    assert PistonBackend(bad.url).runtimes()["py"] == "3.12.0"  # not 3.9.1, though "9" > "1"


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://a", "http://", "http://u:p@host", "http://a:99999999"]
)
def test_what_is_no_address_is_said(url):
    with pytest.raises(UserError, match="address"):
        Service(url)
