"""What is run on an item, by name: the command lines, and whether they change anything.

`{name}` in an argument is a place of the scene. Commands that write get the scene as it was
made; those that only read share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.hostile.scene import Result, Scene

__all__ = ["COMMANDS", "Command", "run"]


@dataclass(frozen=True)
class Command:
    """Command lines that are run one after the other, whatever becomes of each."""

    lines: tuple[str, ...]
    writes: bool = False
    folder: str = "repo"


def _lines(*lines: str, writes: bool = False, folder: str = "repo") -> Command:
    return Command(lines, writes, folder)


def _each(line: str, words: str) -> Command:
    return Command(tuple(line.format(word) for word in words.split()))


_SHAPES = "text json geojson json-lines html feature-count"
_FILES = "parquet gpkg shp geojson geojsonl fgb csv"

COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        # Reading
        "ls": _lines("data ls", "data ls -o json"),
        "good": _lines("export good {out}/good.csv --overwrite", "meta get good"),
        "status": _lines("status", "status -o json"),
        "log": _lines("log", "log points", "log -o json", "log --graph"),
        "tag": _lines("tag", "tag -o json", "branch", "branch -o json"),
        "show": _each("show -o {}", _SHAPES),
        "diff": _each("diff HEAD^...HEAD -o {}", _SHAPES),
        "edits": _each("diff -o {}", "text json html"),
        "review": _each("review HEAD^...HEAD -o {}", "markdown html json"),
        "check": _lines("check HEAD^...HEAD"),
        "export": _each("export points {{out}}/out.{} --overwrite", _FILES),
        "export-tables": _lines(
            "export points {out}/delta --to delta",
            "export points {out}/iceberg --to iceberg",
            "export points {out}/changes.csv --changes HEAD^...HEAD",
        ),
        "patch": _lines("create-patch HEAD"),
        "blame": _lines("blame points", "blame points -o json"),
        "meta": _lines("meta get points", "meta get", "meta get points -o json"),
        "fsck": _lines("fsck", "fsck --full"),
        "validate": _lines("validate"),
        "conflicts": _lines("conflicts", "conflicts -o json"),
        "show-row": _lines("show HEAD:points:feature:2"),
        "pictures": _lines(
            "export pictures {out}/pictures --to geotiff",
            "raster info pictures",
            "export pictures {out}/pictures.parquet",
        ),
        "list": _lines("import {source} --list"),
        "dry-run": _lines("import {source} new {options} --dry-run"),
        # Writing
        "checkout": _lines("checkout --force", "checkout v1", "checkout main", writes=True),
        "copy": _lines("checkout --as {out}/copy.gpkg", "checkout --to {out}/there", writes=True),
        "switch": _lines("switch other", "switch main", writes=True),
        "commit": _lines("commit -m edits", writes=True),
        "merge": _lines("merge other", "conflicts", "merge --abort", writes=True),
        "merge-in": _lines("switch other", "merge main -m in", "conflicts -o json", writes=True),
        "revert": _lines("revert HEAD", writes=True),
        "pick": _lines("switch other", "cherry-pick main", writes=True),
        "restore": _lines("restore -s HEAD^ points", "restore -s HEAD^", writes=True),
        "stash": _lines("stash push", "stash list", "stash pop", writes=True),
        "reset": _lines("reset HEAD^", writes=True),
        "optimize": _lines("optimize", writes=True),
        "gc": _lines("gc --grace-days 0", writes=True),
        "repair": _lines("repair", writes=True),
        "convert": _lines("convert points --to kart", writes=True),
        "meta-set": _lines("meta set points title=x", writes=True),
        "fetch": _lines("fetch", "pull", writes=True, folder="peer"),
        "pull": _lines("pull", "data ls", "status", writes=True, folder="peer"),
        "push": _lines("push", "push --all --force", "push --tags", writes=True),
        "clone": _lines("clone {server} {out}/clone", writes=True, folder=""),
        "clone-web": _lines("clone {web} {out}/web", writes=True, folder=""),
        "clone-bucket": _lines(
            "clone {server} {out}/bucket --data-url s3://maps/data", writes=True, folder=""
        ),
        "ci": _lines("ci review --pull 1 --folder {out}/review", writes=True),
        "clone-late": _lines("clone --filter=data {server} {out}/late", writes=True, folder=""),
        "import": _lines("import {source} new {options}", "diff HEAD^...HEAD", writes=True),
        "import-all": _lines("import {source} -a --no-primary-key", writes=True),
        "replace": _lines("import {source} points --replace", writes=True),
        "from": _lines("diff --from {source}", "commit --from {source} -m from", writes=True),
        "from-points": _lines("commit --from {source} --dataset points -m f", writes=True),
        "apply": _lines("apply {source}", "diff HEAD^...HEAD -o html", writes=True),
        "init": _lines("init {out}/new --import {source}", writes=True, folder=""),
    }
)


def run(scene: Scene, name: str, most: int | None = None) -> list[Result]:
    """Run a command on a scene, or so many of its lines."""
    command = COMMANDS[name]
    out = scene.folder / "out"
    out.mkdir(exist_ok=True)
    named = {"out": out, "server": scene.server, "source": scene.source or "/dev/null"}
    named["web"] = scene.web or scene.server
    results = []
    for line in command.lines[:most]:
        words = [
            option
            for word in line.split()
            for option in (scene.options if word == "{options}" else (word.format_map(named),))
        ]
        folder = scene.folder / (scene.within or command.folder)
        results.append(scene.ground.run(tuple(words), folder=folder, environment=scene.environment))
    return results


def made(scene: Scene) -> list[Path]:
    """Return the files that commands wrote for people to look at."""
    out = scene.folder / "out"
    return [path for path in out.rglob("*") if path.is_file() and not path.is_symlink()]
