"""The recipes of packages say what pyproject.toml says."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import havasu_vc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# What conda-forge calls otherwise than PyPI.
CONDA = {"msgpack": "msgpack-python", "duckdb": "python-duckdb"}
# What no package of PyPI asks for, and ours needs.
BESIDES = {"python", "git", "__unix"}


def named(requirements: list[str]) -> dict[str, str]:
    """Return the bounds of requirements by name."""
    parts = [re.fullmatch(r"([A-Za-z0-9_-]+)\s*(.*)", each) for each in requirements]
    return {part[1]: part[2] for part in parts if part is not None}


def recipe() -> Any:
    return yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text("utf-8"))


def test_the_recipe_of_conda_asks_for_what_the_project_does() -> None:
    document = recipe()
    project = PROJECT["project"]
    ours = named([re.sub(r"\[.*?\]", "", each) for each in project["dependencies"]])
    extras = {
        name: bounds
        for extra, requirements in project["optional-dependencies"].items()
        if extra not in ("dev", "docs")
        for name, bounds in named([re.sub(r"\[.*?\]", "", each) for each in requirements]).items()
    }
    theirs = named(document["requirements"]["run"])

    assert {CONDA.get(name, name): bounds for name, bounds in ours.items()} == {
        name: bounds for name, bounds in theirs.items() if name not in BESIDES
    }
    assert set(theirs) - BESIDES == {CONDA.get(name, name) for name in ours}
    assert theirs["python"] == project["requires-python"]
    assert {CONDA.get(name, name): bounds for name, bounds in extras.items()} == named(
        document["requirements"]["run_constraints"]
    )
    assert named(document["requirements"]["host"])["hatchling"] in str(PROJECT["build-system"])


def test_the_recipe_of_conda_names_this_version() -> None:
    document = recipe()

    assert document["context"]["version"] == havasu_vc.__version__
    (entry,) = document["build"]["python"]["entry_points"]
    name, _, target = entry.partition(" = ")
    assert PROJECT["project"]["scripts"] == {name: target}


def test_the_container_copies_what_the_wheel_is_made_of_and_has_all_extras() -> None:
    text = (ROOT / "Containerfile").read_text("utf-8").replace("\\\n", "")
    steps = [line for line in text.splitlines() if line and not line.startswith("#")]
    copied = {
        word
        for step in steps
        if step.startswith("COPY ") and "--from" not in step
        for word in shlex.split(step)[1:-1]
    }
    (extras,) = re.findall(r"\.whl\)\[([a-z,]+)\]", text)
    known = PROJECT["project"]["optional-dependencies"]

    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "havasu_vc", PROJECT["project"]["readme"]} <= copied
    assert set(PROJECT["project"]["license-files"]) <= copied
    # `geopandas` is for programs, which have images of their own; `spatial` wants an older DuckDB.
    assert set(extras.split(",")) == set(known) - {"dev", "docs", "geopandas", "spatial"}
    assert {step.split()[0] for step in steps} <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD")
    }
    assert 'ENTRYPOINT ["havasu-vc"]' in steps
