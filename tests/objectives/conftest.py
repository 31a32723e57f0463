"""TRL's trainers, built once for all tests of parity."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def parity() -> ModuleType:
    """The module `trl_parity.py` beside this file."""
    name = "rlkit_trl_parity"
    if name not in sys.modules:
        file = Path(__file__).with_name("trl_parity.py")
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def peers(parity: ModuleType, untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A real trainer of each kind on the random model."""
    pytest.importorskip("trl", reason="parity needs TRL")
    return parity.make_peers(untrained, tmp_path_factory.mktemp("trl"))
