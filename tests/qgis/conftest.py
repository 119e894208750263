"""The parts of the plugin that need no QGIS, imported under the name that they have in it."""

import importlib.util
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "havasu_vc_qgis"
FOLDER = Path(__file__).parents[2] / "qgis" / "havasu_vc"


@pytest.fixture(scope="session")
def plugin() -> Callable[[str], Any]:
    """Import a module of the plugin by its name."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
        )
        assert spec is not None and spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    return lambda name: import_module(f"{PACKAGE}.{name}")
