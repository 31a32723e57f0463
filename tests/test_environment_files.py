"""pyproject.toml, constraints.txt and the two environment.yml files say the same.

`disagreements` compares the four as plain text, so that a test can plant a mistake in one of
them and see it found.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PLATFORMS = ("linux", "darwin")
SCRIPTS = (".ci/make-venv.sh", ".ci/add-extra.sh", ".ci/browser.sh", ".ci/run")
# Extras that a make target adds when it is called (.ci/add-extra.sh), and nothing else needs.
ON_DEMAND = ("browser", "book", "voila", "languages", "bwrap")
# conda-forge's names for what pip calls otherwise.
PIP_NAMES = {"pytorch-cpu": "torch", "pytorch": "torch"}


@dataclass(frozen=True)
class Texts:
    """The four files as text."""

    pyproject: str
    constraints: str
    environment: str
    binder: str


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts(
        pyproject=(ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        constraints=(ROOT / "constraints.txt").read_text(encoding="utf-8"),
        environment=(ROOT / "environment.yml").read_text(encoding="utf-8"),
        binder=(ROOT / "binder" / "environment.yml").read_text(encoding="utf-8"),
    )


def requirement_lines(text: str) -> list[Requirement]:
    lines = (line.split(" #")[0].strip() for line in text.splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def marker_environment(python: str, platform: str = "linux") -> dict[str, str]:
    return {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
    }


def pins(constraints: str, python: str, platform: str = "linux") -> dict[str, list[str]]:
    """The version or versions that each package is pinned to, for one Python and platform."""
    found: dict[str, list[str]] = {}
    for requirement in requirement_lines(constraints):
        if requirement.marker and not requirement.marker.evaluate(
            marker_environment(python, platform)
        ):
            continue
        found.setdefault(canonicalize_name(requirement.name), []).append(str(requirement.specifier))
    return found


def dependencies(pyproject: str, extras: tuple[str, ...], python: str) -> list[Requirement]:
    """What pyproject.toml asks for with these extras, on one Python."""
    project = tomllib.loads(pyproject)["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return [
        requirement
        for requirement in requirements
        if not requirement.marker or requirement.marker.evaluate(marker_environment(python))
    ]


def conda_pins(environment: str) -> tuple[str, dict[str, str], list[str]]:
    """An environment.yml as (Python version, specifier of each pip name, pip options)."""
    python, found, options = "", {}, []
    for entry in yaml.safe_load(environment)["dependencies"]:
        if isinstance(entry, dict):
            for line in entry["pip"]:
                if line.startswith("-"):
                    options.append(line)
                    continue
                requirement = Requirement(line)
                found[canonicalize_name(requirement.name)] = str(requirement.specifier)
            continue
        name, _, version = entry.partition("=")
        if name == "python":
            python = version
        elif name != "pip":
            found[PIP_NAMES.get(name, name)] = f"=={version}"
    return python, found, options


def disagreements(texts: Texts) -> list[str]:
    """Every place where two of the four files contradict each other, as sentences."""
    found = []
    project = tomllib.loads(texts.pyproject)["project"]
    all_extras = tuple(project["optional-dependencies"])
    usual_extras = tuple(extra for extra in all_extras if extra not in ON_DEMAND)

    for python in PYTHONS:
        for platform in PLATFORMS:
            for name, versions in pins(texts.constraints, python, platform).items():
                if len(versions) > 1:
                    found.append(f"constraints.txt pins {name} {len(versions)} times for {python}")
                if not all(re.fullmatch(r"==[^*+,]+", version) for version in versions):
                    found.append(f"constraints.txt does not pin {name} exactly: {versions}")
        pinned = pins(texts.constraints, python)
        for requirement in dependencies(texts.pyproject, all_extras, python):
            name = canonicalize_name(requirement.name)
            if name not in pinned:
                found.append(f"constraints.txt has no pin of {name} for Python {python}")
            elif not requirement.specifier.contains(pinned[name][0][2:], prereleases=True):
                found.append(f"pyproject.toml asks for {requirement}, the pin is {pinned[name][0]}")

    for label, text, extras in (
        ("environment.yml", texts.environment, usual_extras),
        ("binder/environment.yml", texts.binder, ()),
    ):
        python, entries, _ = conda_pins(text)
        if not SpecifierSet(project["requires-python"]).contains(python):
            found.append(f"{label} takes Python {python!r}, outside {project['requires-python']}")
            continue
        pinned = pins(texts.constraints, python)
        for name, specifier in entries.items():
            if [specifier] != pinned.get(name):
                found.append(f"{label} takes {name}{specifier}, constraints.txt {pinned.get(name)}")
        for requirement in dependencies(texts.pyproject, extras, python):
            if canonicalize_name(requirement.name) not in entries:
                found.append(f"{label} lacks {requirement.name}")
    return found


def test_the_four_files_agree(texts):
    assert disagreements(texts) == []


@pytest.mark.parametrize(
    ("field", "old", "new", "expected"),
    [
        ("constraints", "rich==15.0.0", "rich==15.0.1", "environment.yml takes rich==15.0.0"),
        ("constraints", "rich==15.0.0\n", "", "no pin of rich"),
        ("constraints", "torch==2.13.0", "torch>=2.13.0", "does not pin torch exactly"),
        ("constraints", "torch==2.13.0", "torch==2.13.0+cpu", "does not pin torch exactly"),
        ("constraints", "rich==15.0.0\n", "rich==15.0.0\nrich==14.0.0\n", "pins rich 2 times"),
        ("pyproject", '"rich>=13.7"', '"rich>=16"', "asks for rich>=16"),
        ("pyproject", '"rich>=13.7"', '"rich>=13.7", "flask"', "no pin of flask"),
        ("environment", "plotly==7.1.0", "plotly==7.0.0", "environment.yml takes plotly==7.0.0"),
        ("environment", "      - trl==1.16.0\n", "", "environment.yml lacks trl"),
        ("environment", "python=3.12", "python=3.14", "environment.yml takes Python '3.14'"),
        ("binder", "pytorch-cpu=2.13.0", "pytorch-cpu=2.12.0", "takes torch==2.12.0"),
        ("binder", "      - peft==0.21.2\n", "", "binder/environment.yml lacks peft"),
    ],
)
def test_a_planted_disagreement_is_found(texts, field, old, new, expected):
    planted = getattr(texts, field).replace(old, new)
    assert planted != getattr(texts, field), f"{old!r} is no longer in {field}: plant another one"
    found = disagreements(replace(texts, **{field: planted}))
    assert any(expected in sentence for sentence in found), found


def test_everything_installed_here_is_pinned(texts):
    """The versions that the tests run with are those of constraints.txt, and none is missing.

    Followed from rlkit's own requirements, so that a tool somebody added by hand is no fault.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    pinned = pins(texts.constraints, python, sys.platform)
    extras = tuple(tomllib.loads(texts.pyproject)["project"]["optional-dependencies"])
    usual = tuple(extra for extra in extras if extra not in ON_DEMAND)
    waiting = [(r.name, tuple(r.extras)) for r in dependencies(texts.pyproject, usual, python)]
    # What was added on demand is looked at where it was.
    for requirement in dependencies(texts.pyproject, ON_DEMAND, python):
        if importlib.util.find_spec(requirement.name.replace("-", "_")) is not None:
            waiting.append((requirement.name, tuple(requirement.extras)))
    seen: dict[str, str] = {}
    while waiting:
        name, extras = waiting.pop()
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed; `make setup` brings .venv up to date")
        seen[canonicalize_name(name)] = str(Version(installed.version).public)
        for requirement in map(Requirement, installed.requires or []):
            environments = [{**default_environment(), "extra": extra} for extra in ("", *extras)]
            applies = requirement.marker is None or any(
                requirement.marker.evaluate(environment) for environment in environments
            )
            # torch's CUDA builds fix the versions of their own libraries.
            if name != "torch" and applies and canonicalize_name(requirement.name) not in seen:
                waiting.append((requirement.name, tuple(requirement.extras)))
    wrong = {n: v for n, v in seen.items() if pinned.get(n) != [f"=={v}"]}
    assert wrong == {}
    assert len(seen) > 100


def test_binder_takes_what_its_post_build_needs(texts):
    _, entries, options = conda_pins(texts.binder)
    assert {"ipywidgets", "hatchling"} <= set(entries)
    # A base with its own JupyterLab breaks when pip lays another one over it.
    assert "jupyterlab" not in entries
    assert options == ["-c ../constraints.txt"]


def test_the_set_up_installs_every_extra_that_is_not_on_demand(texts):
    """The extras that make-venv.sh names, and those that the make targets add, are all there are
    beside Colab's, whose packages the others bring."""
    script = (ROOT / ".ci" / "make-venv.sh").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    usual = re.search(r'^extras="([a-z,]+)"$', script, re.MULTILINE)[1].split(",")
    lane = (ROOT / ".ci" / "browser.sh").read_text(encoding="utf-8")
    added = set(re.findall(r"sh \.ci/add-extra\.sh (\w+)", makefile + lane))
    assert added == set(ON_DEMAND)
    extras = set(tomllib.loads(texts.pyproject)["project"]["optional-dependencies"])
    assert {*usual, *added} == extras - {"colab"}


def test_colab_keeps_its_own_torch_numpy_and_pillow(texts):
    """What the colab extra names may not make pip exchange what a running kernel holds."""
    for python in PYTHONS:
        asked = {r.name: r for r in dependencies(texts.pyproject, ("colab",), python)}
        extra = {r.name for r in dependencies(texts.pyproject, ("colab",), python)} - {
            r.name for r in dependencies(texts.pyproject, (), python)
        }
        assert not extra & {"torch", "torchvision", "torchaudio", "numpy", "pillow", "ipykernel"}
        assert "pillow" not in asked
        # Ranges that are open upwards: whatever Colab has is kept once it is new enough.
        for name in ("torch", "numpy", "transformers"):
            assert {s.operator for s in asked[name].specifier} == {">="}, asked[name]


def test_conda_installs_the_package_itself_with_the_constraints(texts):
    assert conda_pins(texts.environment)[2] == ["-c constraints.txt", "-e ."]


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_binder_scripts_run_and_stop_at_errors(name):
    script = ROOT / "binder" / name
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/bin/bash\n")
    assert "\nset -euo pipefail\n" in text
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_binder_post_build_installs_without_resolving_again():
    text = (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")
    (install,) = (line for line in text.splitlines() if line.startswith("pip install"))
    assert {"--no-deps", "--no-cache-dir", "-e", "."} <= set(install.split())


def test_binder_start_hands_over_to_its_command():
    done = subprocess.run(
        [
            ROOT / "binder" / "start",
            "sh",
            "-c",
            'echo "threads $OMP_NUM_THREADS, got $1"',
            "-",
            "x",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "threads 1, got x\n"


def test_every_install_uses_the_constraints():
    """No `pip install` of a package in the Makefile, .ci or CONTRIBUTING goes without -c."""
    for name in ("Makefile", *SCRIPTS, "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if re.search(r"\bpip install\b", line):
                assert "-c constraints.txt" in line, f"{name}: {line.strip()}"
    assert "pip install" in (ROOT / ".ci" / "make-venv.sh").read_text(encoding="utf-8")
