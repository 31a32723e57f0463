"""Settings for every test: no model hub, two threads, no wall-clock verdicts by hypothesis.

They are set before anything imports torch or transformers, which read them once, and they
reach the processes that tests start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# A test that needs something from a hub must fail at once, and say so, not wait for it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# The tokenizers library warns whenever a process that used its threads starts another one.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# The tiny model is faster on two threads than on thirty, and the numbers are then the same
# on a laptop and on a large server. Set it yourself to try another count.
os.environ.setdefault("OMP_NUM_THREADS", "2")

import pytest
from hypothesis import settings

from rlkit.rewards import TestsPass
from rlkit.sandbox import Sandbox

# A slow machine is not a failed property; the time limit of pytest still ends a hang.
settings.register_profile("rlkit", deadline=None, database=None, print_blob=True)
settings.load_profile("rlkit")


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One sandbox with default limits for all tests."""
    with Sandbox() as shared:
        yield shared


@pytest.fixture(scope="session")
def sandboxed_tests_pass(sandbox: Sandbox) -> TestsPass:
    """The reward `tests_pass` on the shared sandbox."""
    return TestsPass(sandbox)


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small Llama-shaped model with random weights, for tests of mechanics."""
    from rlkit.policy.pretrain import PretrainConfig, new_model, new_tokenizer

    config = PretrainConfig(
        hidden_size=64, intermediate_size=128, layers=2, heads=2, key_value_heads=1, context=128
    )
    folder = tmp_path_factory.mktemp("untrained")
    tokenizer = new_tokenizer(config, examples=500)
    new_model(config, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
