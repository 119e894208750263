"""The plugin as a package: what it imports, what it asks of the command, and its zip."""

import ast
import configparser
import importlib.util
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import __version__
from havasu_vc.cli.command_pages import context_of
from havasu_vc.cli.main import PROGRAM, cli

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "qgis" / "havasu_vc"
MODULES = sorted(FOLDER.glob("*.py"))
WITHOUT_QGIS = {"answers", "changes", "commands", "program"}
Plugin = Callable[[str], Any]


def imports(path: Path) -> set[str]:
    """Return what a module imports; a relative name begins with a point."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names} if node.module is None else {node.module}
            found |= {f"{'.' * node.level}{name}" for name in names}
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_knows_qt_by_qgis_alone(path: Path) -> None:
    names = imports(path)
    assert not {name for name in names if re.match(r"PyQt|PySide|havasu_vc|osgeo", name)}
    if path.stem in WITHOUT_QGIS:
        assert not {name for name in names if name.startswith("qgis")}
        relative = {name[1:] for name in names if name.startswith(".")}
        assert relative <= WITHOUT_QGIS


@pytest.mark.thorough
def test_the_library_does_not_know_the_plugin() -> None:
    for path in (ROOT / "havasu_vc").rglob("*.py"):
        text = path.read_text("utf-8")
        assert not re.search(r"^\s*(?:import|from) qgis\b", text, re.MULTILINE), path


def test_enumerations_are_scoped_as_qt_6_has_them() -> None:
    """`Qt.Checked` is gone there; `Qt.CheckState.Checked` is in both."""
    for path in MODULES:
        text = path.read_text("utf-8")
        found = re.findall(r"\bQt\.(?!CheckState)[A-Z]\w+\b(?!\.)", text)
        assert not found, (path, found)
        assert not re.search(r"\.exec_\(|\bQMessageBox\.(?:Yes|No)\b", text), path


def lines(commands: Any) -> list[list[str]]:
    return [
        commands.STATUS,
        commands.BRANCHES,
        commands.DATASETS,
        commands.CONFLICTS,
        commands.FETCH,
        commands.PULL,
        commands.REMOTES,
        commands.MERGE_CONTINUE,
        commands.MERGE_ABORT,
        commands.VERSION,
        commands.init("a"),
        commands.clone("u", "a", "a.gpkg"),
        commands.create_working_copy(),
        commands.import_file("a.gpkg"),
        commands.import_file("a.gpkg", "layer", "dataset", "id", replace=True),
        commands.commit("m", ["a", "b:feature:1"]),
        commands.restore(["a"], "HEAD^"),
        commands.diff("HEAD^..HEAD", ["a"], "EPSG:4326"),
        commands.history("a:feature:1", 5, 2),
        commands.blame("a", [1, "x"], ["id", "b"]),
        commands.row_at("HEAD", "a", [1]),
        commands.switch("b"),
        commands.new_branch("b", "HEAD"),
        commands.merge("b"),
        commands.push("origin", "b"),
        commands.resolve("a:feature:1", columns={"b": "ancestor", "c": "ours"}),
        commands.resolve("a:feature:1", "theirs"),
        commands.export("a", "HEAD", "a.gpkg"),
        commands.export_changes("a", "HEAD^", "HEAD", "a.gpkg"),
    ]


def test_the_command_takes_what_the_plugin_says(plugin: Plugin) -> None:
    with context_of(cli, PROGRAM) as context:
        for line in lines(plugin("commands")):
            name, *arguments = line
            command = cli.get_command(context, name)
            assert command is not None, line
            command.make_context(name, arguments, parent=context)


def test_the_command_is_found(tmp_path: Path, plugin: Plugin) -> None:
    find = plugin("program").find_program
    place, other = tmp_path / "bin", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
        (folder / "havasu-vc").write_text("#!/bin/sh\n", "utf-8")
        (folder / "havasu-vc").chmod(0o755)
    nothing = {"PATH": str(tmp_path)}
    assert find("", nothing, []) == ""
    assert find("", nothing, [place]) == str(place / "havasu-vc")
    assert find("", {"PATH": str(other)}, [place]) == str(other / "havasu-vc")
    assert find(str(place), {"PATH": str(other)}, []) == str(place / "havasu-vc")
    assert find("/a/havasu-vc", {"PATH": str(other)}, []) == "/a/havasu-vc".replace("/", os.sep)


def test_the_variables_of_qgis_stay_in_qgis(plugin: Plugin) -> None:
    given = {"PYTHONHOME": "/qgis", "PROJ_LIB": "/qgis", "HOME": "/home"}
    assert plugin("program").clean_environment(given) == {
        "HOME": "/home",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def test_this_version_is_enough(plugin: Plugin) -> None:
    program = plugin("program")
    assert program.is_enough(__version__)


def test_the_zip_has_one_folder_and_what_qgis_asks_for(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("packing", ROOT / "scripts" / "qgis-plugin.py")
    assert spec is not None and spec.loader is not None
    packing: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)

    made, again = packing.pack(tmp_path / "a"), packing.pack(tmp_path / "b")
    assert made.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(made) as packed:
        names = set(packed.namelist())
        metadata = configparser.ConfigParser()
        metadata.read_string(packed.read("havasu_vc_qgis/metadata.txt").decode("utf-8"))
    assert {name.partition("/")[0] for name in names} == {"havasu_vc_qgis"}
    assert {f"havasu_vc_qgis/{path.name}" for path in MODULES} <= names
    assert {"havasu_vc_qgis/LICENSE", "havasu_vc_qgis/icon.svg"} <= names
    general = metadata["general"]
    assert (general["qgisMinimumVersion"], general["qgisMaximumVersion"]) == ("3.22", "4.99")
    assert {"name", "description", "about", "version", "author", "icon"} <= set(general)
    assert general["hasProcessingProvider"] == "yes"
