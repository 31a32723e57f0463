"""Binder takes the folder: the rules by which repo2docker chooses a build, read from its source.

The first build pack that detects itself wins: Dockerfile, then Julia, Nix and R, then conda. All
look into `binder/` alone when it is there. (`jupyter-repo2docker --no-build .` says the same, and
was run by hand; it is no dependency.)
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / "binder"
#: Files that make another build pack win, or that this one runs beside ours.
OTHERS = ("Dockerfile", "REQUIRE", "Project.toml", "default.nix", "install.R", "runtime.txt")
#: Files that conda's build pack does not read, so that what stands in them would be lost.
IGNORED = ("requirements.txt", "setup.py", "Pipfile", "pyproject.toml")


def test_conda_builds_the_image():
    assert not (ROOT / ".binder").exists(), "two folders of settings end the build"
    assert (BINDER / "environment.yml").is_file()
    assert [name for name in (*OTHERS, *IGNORED, "apt.txt") if (BINDER / name).exists()] == []


def test_the_repository_is_there_when_the_packages_are_installed():
    """The constraints lie outside binder/. repo2docker copies the whole repository before it
    installs only if a line of pip begins with a dash, a path or an address."""
    (pip,) = (
        entry["pip"]
        for entry in yaml.safe_load((BINDER / "environment.yml").read_text())["dependencies"]
        if isinstance(entry, dict)
    )
    (option,) = (line for line in pip if line.startswith("-"))
    assert (BINDER / option.removeprefix("-c ")).resolve() == ROOT / "constraints.txt"


def test_post_build_fetches_nothing():
    lines = (BINDER / "postBuild").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert not [c for c in commands if any(w in c.split() for w in ("curl", "wget", "git", "hf"))]
    (install,) = (c for c in commands if "pip install" in c)
    assert {"--no-deps", "--no-build-isolation"} <= set(install.split())


def test_start_hands_over():
    assert (BINDER / "start").read_text().rstrip().endswith('exec "$@"')


def test_the_settings_of_jupyterlab_are_placed_where_it_looks():
    """Every cell stays in the page while a lesson trains, and no window asks about news."""
    overrides = json.loads((BINDER / "overrides.json").read_text())
    assert overrides["@jupyterlab/notebook-extension:tracker"]["windowingMode"] == "none"
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    place = "share/jupyter/lab/settings"
    assert f'{place}"' in (BINDER / "postBuild").read_text()
    assert f".venv/{place}/overrides.json" in (ROOT / ".ci" / "make-venv.sh").read_text()


def test_every_setting_is_one_that_this_jupyterlab_knows():
    jupyterlab = pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    schemas = Path(jupyterlab.__file__).parent / "schemas"
    for plugin, values in json.loads((BINDER / "overrides.json").read_text()).items():
        package, name = plugin.split(":")
        known = json.loads((schemas / package / f"{name}.json").read_text())["properties"]
        for key, value in values.items():
            assert key in known, f"{plugin} has no setting {key}"
            allowed = known[key].get("enum")
            assert allowed is None or value in allowed, f"{plugin}: {key} is one of {allowed}"
