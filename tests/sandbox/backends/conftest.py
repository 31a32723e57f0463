"""A server of our own for the remote backends, and clients of engines that run things here."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlkit.sandbox.serve import Server

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server(port=0, workers=2) as running:
        yield running


class Shims:
    """A folder with a `docker` and a `kubectl`, first on the search path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.state.mkdir()
        self.log = self.state / "log"
        for name in ("docker", "kubectl"):
            path = folder / name
            path.write_text(
                f'#!/bin/sh\nSHIM_LOG={self.log} exec {sys.executable} {HERE}/shim_{name}.py "$@"\n'
            )
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def asked(self, *words: str) -> list[list[str]]:
        """The command lines so far that have all these words."""
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if set(words) <= set(line)]

    def left(self) -> list[str]:
        """Containers and pods that are still there."""
        return sorted(path.name for path in self.state.iterdir() if path != self.log)


@pytest.fixture(scope="session")
def make_shims(tmp_path_factory) -> Callable[[], Shims]:
    def make() -> Shims:
        shims = Shims(tmp_path_factory.mktemp("shims"))
        os.environ["PATH"] = f"{shims.folder}{os.pathsep}{os.environ['PATH']}"
        return shims

    before = os.environ["PATH"]
    yield make
    os.environ["PATH"] = before


@pytest.fixture(scope="session")
def shims(make_shims) -> Shims:
    return make_shims()


def neighbour(name: str):
    """A module of this folder, which is no package."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bad():
    """A service that misbehaves; see `misbehaving.Misbehaving`."""
    service = neighbour("misbehaving").Misbehaving()
    yield service
    service.close()
