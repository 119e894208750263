"""The public modules of packages: what type checkers read is what a program gets."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "havasu_vc"
PACKAGES = sorted(
    path.parent.relative_to(SOURCE.parent).as_posix().replace("/", ".")
    for path in SOURCE.rglob("__init__.py")
    if "loads(" in path.read_text(encoding="utf-8")
)


def for_type_checkers(package: str) -> dict[str, str]:
    """Return the names that a package imports for type checkers, with their modules."""
    text = (SOURCE.parent / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                assert each.module is not None
                found |= dict.fromkeys((name.name for name in each.names), each.module)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_those_that_type_checkers_read(package: str) -> None:
    names, module = for_type_checkers(package), import_module(package)

    assert names
    for name, home in names.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_not_hidden_by_modules(package: str) -> None:
    """A module that is loaded becomes an attribute of its package, before any other."""
    folder = SOURCE.parent / package.replace(".", "/")

    assert {path.stem for path in folder.glob("*.py")} & for_type_checkers(package).keys() == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_loaded_beyond_those(package: str) -> None:
    module = import_module(package)
    table = inspect.getclosurevars(module.__getattr__).nonlocals["homes"]

    assert set(table) == set(for_type_checkers(package))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing
