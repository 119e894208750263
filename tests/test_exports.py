"""What a package promises in `__all__`, it has. Their order is ruff's to check."""

import importlib
from pathlib import Path

import pytest

import havasu_vc

SOURCE = Path(havasu_vc.__file__).parent
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE.parent).parts) for path in SOURCE.rglob("__init__.py")
)


def test_there_are_packages() -> None:
    assert {"havasu_vc", "havasu_vc.model"} <= set(PACKAGES)


@pytest.mark.parametrize("name", ["havasu_vc.errors", *PACKAGES])
def test_exports_exist_once(name: str) -> None:
    module = importlib.import_module(name)
    exported = list(getattr(module, "__all__", []))

    assert len(exported) == len(set(exported))
    assert [each for each in exported if not hasattr(module, each)] == []


def test_the_package_exports_its_version() -> None:
    assert "__version__" in havasu_vc.__all__
    assert havasu_vc.__version__.count(".") == 2


def test_nothing_can_be_had_that_is_not_there() -> None:
    assert not hasattr(havasu_vc, "no_such_name")
