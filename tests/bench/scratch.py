"""What cases share: sizes, tables and edits made once, repositories, and how to run things.

Tables and edits stay in the scratch folder from run to run, named by what they were made
from. Repositories are what the code under test makes, so they are made anew each run.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.bench.process import ROOT, CommandFailed, Run, run

MADE_BY = 1
"""Raised when tables or edits are made otherwise, so that old ones are not used."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the tables are, and how often things are measured."""

    small: int = 100_000
    usual: int = 1_000_000
    large: int = 5_000_000
    largest: int = 10_000_000
    polygons: int = 100_000
    edits: int = 1000
    """Rows of a usual edit."""
    commits: int = 100
    """Commits over which added bytes are averaged."""
    marking: int = 46
    """Commits that leave an epoch with nearly as many markers as it may have."""
    branches: int = 46
    """Branches that are merged two by two."""
    tiny_commits: int = 1000
    """Commits of ten edits before a scan."""
    runs: int = 5
    """How often quick things are measured."""
    slow_runs: int = 3
    """How often slow things are measured."""


QUICK = Sizes(
    small=20_000,
    usual=200_000,
    large=500_000,
    largest=1_000_000,
    polygons=20_000,
    commits=40,
    marking=10,
    branches=8,
    tiny_commits=100,
    runs=3,
    slow_runs=1,
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A table and how it is imported."""

    kind: str
    """Its kind in `data`."""
    rows: int
    order: str = "key"
    """How its rows are ordered in a repository."""

    @property
    def name(self) -> str:
        """What it is called in figures and files."""
        order = "" if self.order == "key" else f"-{self.order}"
        return f"{self.kind}{order}-{self.rows}"


class Scratch:
    """The scratch folder of one run."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder = folder
        self.sizes = sizes
        self.repositories = folder / "repositories"
        shutil.rmtree(self.repositories, ignore_errors=True)
        self.repositories.mkdir(parents=True)
        self._copies = 0

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment of every process: a git of its own, byte code kept."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") and name != "PYTHONDONTWRITEBYTECODE"
        }
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Bench"), ("EMAIL", "bench@example.org"))
        }
        return {
            **inherited,
            **who,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
        }

    @cached_property
    def command(self) -> str:
        """The installed command; where there is none, a script that is the same."""
        installed = Path(sys.executable).with_name("havasu-vc")
        if installed.exists():
            return str(installed)
        script = self.folder / "havasu-vc"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from havasu_vc.cli.main import main\nsys.exit(main())\n"
        )
        script.chmod(0o755)
        return str(script)

    def havasu(self, *arguments: str | Path) -> Run:
        """Run the command."""
        return run([self.command, *map(str, arguments)], self.environment)

    def job(self, name: str, *arguments: str | Path) -> Run:
        """Run a job with the library; its report says what it took."""
        return self.python("-m", "tests.bench.jobs", name, *arguments)

    def python(self, *arguments: str | Path) -> Run:
        """Run Python."""
        return run([sys.executable, *map(str, arguments)], self.environment)

    # Tables and edits

    def table(self, variant: Variant, suffix: str = "parquet") -> Path:
        """Return the file of a table."""
        path = self._made(f"{variant.kind}-{variant.rows}.{suffix}")
        if not path.exists():
            self.python("-m", "tests.bench.data", variant.kind, str(variant.rows), path)
        return path

    def patches(self, variant: Variant, count: int, rows: int) -> Path:
        """Return a folder of patches, each of so many rows."""
        path = self._made(f"{variant.kind}-{variant.rows}-patches-{count}x{rows}")
        if not path.exists():
            self._edits("patches", variant, path, count, rows)
        return path

    def upserts(self, variant: Variant, count: int, groups: int | None = None) -> list[Path]:
        """Return files of rows to upsert, perhaps from a few row groups alone."""
        rows = self.sizes.edits
        inside = "" if groups is None else f"-in-{groups}"
        path = self._made(f"{variant.kind}-{variant.rows}-rows-{count}x{rows}{inside}")
        if not path.exists():
            numbers = (count, rows) if groups is None else (count, rows, groups)
            self._edits("rows", variant, path, *numbers)
        return sorted(path.iterdir())

    def version(self, variant: Variant, rows: int | None = None) -> Path:
        """Return the file of the table with some rows edited, as many as usual if nobody says."""
        count = rows or self.sizes.edits
        path = self._made(f"{variant.kind}-{variant.rows}-version-{count}.parquet")
        if not path.exists():
            self._edits("version", variant, path, count)
        return path

    def _edits(self, what: str, variant: Variant, path: Path, *numbers: int) -> None:
        self.python("-m", "tests.bench.edits", what, self.table(variant), path, *map(str, numbers))

    def _made(self, name: str) -> Path:
        folder = self.folder / f"tables-{MADE_BY}"
        folder.mkdir(exist_ok=True)
        return folder / name

    # Repositories

    def new_repository(self) -> Path:
        """Return an empty repository."""
        path = self.new_path()
        self.havasu("init", path)
        return path

    def new_path(self) -> Path:
        """Return where a repository may be made."""
        self._copies += 1
        return self.repositories / str(self._copies)

    def import_table(self, path: Path, file: Path, variant: Variant) -> Run:
        """Import a file into a repository as the dataset that is measured."""
        key = () if file.suffix == ".gpkg" else ("--primary-key", "fid")
        return self.havasu("-C", path, "import", file, "table", *key, "--order", variant.order)

    def repository(self, variant: Variant) -> Path:
        """Return a repository that holds a table; it must not be changed."""
        path = self.repositories / variant.name
        if not path.exists():
            fresh = self.new_repository()
            self.import_table(fresh, self.table(variant), variant)
            fresh.rename(path)
        return path

    def edited_repository(self, variant: Variant) -> Path:
        """Return a repository whose last commit edits some rows; it must not be changed."""
        path = self.repositories / f"{variant.name}-edited"
        if not path.exists():
            copy = self.copy(self.repository(variant))
            patch = self.patches(variant, self.sizes.runs + 1, self.sizes.edits)
            self.havasu("-C", copy, "apply", patch / "patch-0000.json")
            copy.rename(path)
        return path

    def copy(self, repository: Path) -> Path:
        """Return a copy of a repository to change; files that never change are linked."""
        path = self.new_path()
        shutil.copytree(repository, path, copy_function=_link_or_copy, symlinks=True)
        return path

    def remove(self, repository: Path) -> None:
        """Remove a repository."""
        shutil.rmtree(repository, ignore_errors=True)


_NEVER_CHANGED = ("/havasu/objects/", "/havasu/keys/", "/objects/pack/")


def _link_or_copy(source: str, target: str) -> str:
    if any(folder in source for folder in _NEVER_CHANGED):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


def sizes_of(repository: Path) -> dict[str, int]:
    """Return the bytes of a repository: `git`, `data` and `keys`."""
    sizes = {"git": 0, "data": 0, "keys": 0}
    inside = repository / ".git"
    if not inside.is_dir():
        raise CommandFailed(f"{repository} is no repository")
    for path in _files(inside):
        parts = path.relative_to(inside).parts
        # Of the links by which git-lfs finds our data files no byte of those is counted again.
        size = path.lstat().st_size
        if parts[:2] == ("havasu", "keys"):
            sizes["keys"] += size
        elif parts[:2] == ("havasu", "objects"):
            sizes["data"] += size
        elif parts[0] != "hooks":
            # The samples that git puts there are no part of the repository.
            sizes["git"] += size
    return sizes


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
