"""Repositories that Kart itself made, unpacked for a test each."""

import os
import subprocess
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"
EXPECTED = SHARED / "kart-expected"
NAMES = (
    "points",
    "polygons",
    "table",
    "string-pks",
    "pk-second",
    "empty-geometry",
    "editing",
    "large-geometry",
    "points-no-crs",
    "s2",
    "s4",
    "conflicts/points",
    "conflicts/inserts",
    "v2/points",
)

needs_data = pytest.mark.skipif(
    not (SHARED / "kart").is_dir(), reason="the repositories that Kart made are not here"
)


def unpacked(name: str, folder: Path) -> Path:
    """Return a repository of Kart's, unpacked below a folder."""
    place = folder / name.replace("/", "-")
    place.mkdir(parents=True)
    archive = SHARED / "kart" / f"{name}.tgz"
    subprocess.run(["tar", "--no-same-owner", "-xzf", archive, "-C", place], check=True)
    (inside,) = place.iterdir()
    return inside


def git(repository: Path, *arguments: str) -> str:
    """Return what git says in a repository of Kart's."""
    command = ["git", "--git-dir", str(repository / ".kart"), *arguments]
    environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return found.stdout.strip()
