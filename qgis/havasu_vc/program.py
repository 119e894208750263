"""The command havasu-vc: where it is, whether it will do, and in which environment it runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["NAME", "OLDEST", "clean_environment", "find_program", "is_enough", "read_version"]

NAME = "havasu-vc"
OLDEST = "0.1.0"
"""The oldest version of the command whose answers the plugin understands."""
OF_QGIS = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONNOUSERSITE",
    "GDAL_DATA",
    "GDAL_DRIVER_PATH",
    "PROJ_LIB",
    "PROJ_DATA",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)
"""Variables that QGIS sets for its own Python and libraries, and that would mislead another."""


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command: what QGIS set for itself is taken out.

    git must not wait for a password where nobody can type one.
    """
    kept = {name: value for name, value in environment.items() if name not in OF_QGIS}
    return {**kept, "NO_COLOR": "1", "PYTHONUTF8": "1", "GIT_TERMINAL_PROMPT": "0"}


def usual_places(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return folders in which pipx, uv, pip and Homebrew put commands."""
    places = [home / ".local" / "bin", home / "bin", home / ".havasu-vc" / "bin"]
    if sys.platform == "win32":
        for name in ("APPDATA", "LOCALAPPDATA"):
            if base := environment.get(name):
                places += sorted(Path(base).glob("Python/Python3*/Scripts"))
                places += sorted(Path(base).glob("Programs/Python/Python3*/Scripts"))
    else:
        places += [Path("/usr/local/bin"), Path("/opt/homebrew/bin"), Path("/usr/bin")]
        places += sorted((home / "Library" / "Python").glob("3.*/bin"))
    return places


def find_program(
    setting: str = "",
    environment: Mapping[str, str] | None = None,
    places: Iterable[Path] | None = None,
) -> str:
    """Return the path of the command: what the setting says, or on PATH, or a usual place.

    Empty where there is none. A setting that is a folder means the command in it.
    """
    environment = os.environ if environment is None else environment
    if setting:
        path = Path(setting).expanduser()
        return shutil.which(NAME, path=str(path)) or "" if path.is_dir() else str(path)
    if found := shutil.which(NAME, path=environment.get("PATH") or os.defpath):
        return found
    for place in usual_places(Path.home(), environment) if places is None else places:
        if found := shutil.which(NAME, path=str(place)):
            return found
    return ""


def read_version(out: str) -> str:
    """Return the version in what `version -o json` prints; empty where it is another program.

    >>> read_version('{"havasu-vc": "0.1.0"}')
    '0.1.0'
    >>> read_version("git version 2.39.2")
    ''
    """
    try:
        value = json.loads(out)
    except ValueError:
        return ""
    found = value.get(NAME) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def is_enough(version: str, oldest: str = OLDEST) -> bool:
    """Return whether a version is the oldest that will do, or newer.

    >>> is_enough("0.1.0"), is_enough("0.10", "0.9.3"), is_enough("0.0.9")
    (True, True, False)
    """
    return _numbers(version) >= _numbers(oldest)


def _numbers(version: str) -> list[int]:
    numbers = [int(each) for each in re.findall(r"\d+", version)[:3]]
    return numbers + [0] * (3 - len(numbers))
