"""Where hostile things stand: a repository, its server and a peer, in a folder that is watched.

    base/home       the home folder, with git's configuration
    base/outside    secrets, and programs that leave a mark; nobody has business here
    base/tmp        TMPDIR
    base/scene      repo (tables checked out), server.git, peer (a clone as of before), and
                    what an item adds

A scene stands at one place, so that what names places by their paths can be copied back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.trees import Change, Objects
from tests.hostile.watching import Calls, Watch, listed, listening
from tests.support.git import CONFIG, run_git

__all__ = ["DATASET", "SECRET", "Ground", "Result", "Scene"]

SECRET = "OUTSIDE-SECRET-5c1e"
DATASET = "points/.havasu-dataset"
SPACE = 6 << 30
SECONDS = 60.0


@dataclass(frozen=True)
class Result:
    """How a command went."""

    arguments: tuple[str, ...]
    code: int
    late: bool
    processor: float
    wall: float
    memory: int
    output: bytes
    errors: bytes


class Ground:
    """The place of all scenes of a run, and the process that runs commands there."""

    def __init__(self, base: Path, calls: Calls) -> None:
        self.base, self.calls = base, calls
        self.home, self.outside = base / "home", base / "outside"
        self.temporary, self.folder = base / "tmp", base / "scene"
        self.template = base / "template"
        for folder in (self.home, self.outside, self.temporary, self.folder):
            folder.mkdir()
        (self.home / ".gitconfig").write_text(CONFIG)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GIT_", "AWS_", "HAVASU", "XDG_"))
        } | {
            "HOME": str(self.home),
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": str(self.temporary),
            "COLUMNS": "100",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        _secrets(self.outside)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        self._make_template()
        self.watch = Watch(self.outside)
        self.before = self.listed()
        self.watch.heard()

    def listed(self) -> dict[str, str]:
        """Return what stands where no command may write."""
        folders = (self.home, self.outside, self.temporary)
        return {f"{f.name}/{n}": what for f in folders for n, what in listed(f).items()}

    def mend(self) -> None:
        """Put back what was written where nothing may be."""
        for name in self.listed().keys() - self.before.keys():
            path = self.base / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        self.before = self.listed()

    def close(self) -> None:
        """End the process."""
        self.watch.close()
        self.process.kill()
        self.process.communicate()

    def run(
        self,
        arguments: tuple[str, ...],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: Path | None = None,
        seconds: float = SECONDS,
    ) -> Result:
        """Run a command, and return how it went."""
        output, errors = self.base / "output", self.base / "errors"
        wanted = {
            "arguments": list(arguments),
            "folder": str(folder or self.folder / "repo"),
            "environment": dict(environment or {}),
            "stdin": str(stdin or "/dev/null"),
            "stdout": str(output),
            "stderr": str(errors),
            "seconds": seconds,
            "space": SPACE,
        }
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        return Result(arguments, **said, output=output.read_bytes(), errors=errors.read_bytes())

    def _make_template(self) -> None:
        """Make the sound scene that every item begins with."""
        top = self.folder
        repo = top / "repo"
        self._do("init", str(repo), folder=top)
        for name in ("good", "points"):
            for number in (0, 1):
                file = top / f"{name}.parquet"
                pq.write_table(rows(number), file)
                how = ("--replace",) if number else ("--primary-key", "id")
                self._do("import", str(file), name, *how, "-m", f"{name} {number}")
                file.unlink()
        self._do("tag", "v1", "HEAD^")
        self._do("switch", "-c", "other")
        pq.write_table(rows(2), top / "points.parquet")
        self._do("import", str(top / "points.parquet"), "points", "--replace", "-m", "Other")
        (top / "points.parquet").unlink()
        self._do("switch", "main")
        run_git("init", "-q", "--bare", "-b", "main", top / "server.git", cwd=top)
        run_git("remote", "add", "origin", top / "server.git", cwd=repo)
        self._do("push", "-u", "origin", "main", "other")
        self._do("clone", "--no-checkout", str(top / "server.git"), str(top / "peer"), folder=top)
        self._do("checkout")
        for sample in top.rglob("*.sample"):
            sample.unlink()
        for each in (repo, top / "server.git", top / "peer"):
            run_git("repack", "-adq", cwd=each)
            run_git("prune-packed", "-q", cwd=each)
        os.rename(top, self.template)

    def _do(self, *arguments: str, folder: Path | None = None) -> None:
        result = self.run(arguments, folder=folder)
        assert result.code == 0, (arguments, result.errors.decode())


def rows(number: int) -> pa.Table:
    """Return a few rows, of the first or the second commit."""
    import shapely

    ids = ([1, 2, 3], [1, 2, 4], [1, 2, 4, 5])[number]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{'row' if number == 0 or i != 2 else 'ROW'} {i}" for i in ids],
            "height": pa.array([i * 1.5 for i in ids]),
            "geom": pa.array([shapely.to_wkb(shapely.Point(i, -i)) for i in ids]),
        }
    ).replace_schema_metadata(
        {
            "geo": json.dumps(
                {
                    "version": "1.0.0",
                    "primary_column": "geom",
                    "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}},
                }
            )
        }
    )


def _secrets(outside: Path) -> None:
    """Write files that must stay unread, and a program that must not run."""
    (outside / "marks").mkdir()
    (outside / "secret.txt").write_text(f"{SECRET}\n")
    (outside / "secret.csv").write_text(f"id,name\n1,{SECRET}\n")
    (outside / "secret.json").write_text(json.dumps({"title": SECRET}))
    # With the field ids that the columns of the dataset have, so that it could be taken in.
    fields = [
        pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"}),
        pa.field("name", pa.string(), metadata={b"PARQUET:field_id": b"2"}),
    ]
    secret = pa.table([[77], [SECRET]], schema=pa.schema(fields))
    pq.write_table(secret, outside / "secret.parquet")
    program = outside / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> {outside}/marks/ran\ncat\n")
    program.chmod(0o755)


@dataclass
class Scene:
    """One item in its place, and what it was made with."""

    ground: Ground
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    """For commands."""
    closing: list[Callable[[], None]] = field(default_factory=list)
    """What ends the item's servers."""
    source: Path | None = None
    """The file or folder to import or apply, of items that are one."""
    web: str = ""
    """The address to clone from, of items that are about one."""
    within: str = ""
    """The folder to run commands in, of items that are about one."""
    options: tuple[str, ...] = ("--primary-key", "id")
    """What importing it needs."""

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def server(self) -> Path:
        return self.folder / "server.git"

    @property
    def peer(self) -> Path:
        return self.folder / "peer"

    @property
    def outside(self) -> Path:
        return self.ground.outside

    @property
    def url(self) -> str:
        """Where somebody listens whom nobody should ask."""
        return self.ground.calls.url

    @property
    def program(self) -> str:
        """What must not run."""
        return str(self.outside / "evil")

    def objects(self) -> Objects:
        """Return the objects of the repository."""
        return Objects(self.repo)

    def commit(self, changes: Mapping[str | bytes, Change], **how: Any) -> str:
        """Commit changes of paths on main, and on the server's."""
        objects = self.objects()
        head = run_git("rev-parse", "main", cwd=self.repo).encode()
        tree = objects.tree(
            run_git("rev-parse", "main^{tree}", cwd=self.repo).encode(),
            {p if isinstance(p, bytes) else p.encode(): c for p, c in changes.items()},
        )
        return self.arrive(objects.commit([head], tree, **how).decode())

    def arrive(self, commit: str) -> str:
        """Make a commit main, here and on the server, as a pull of git's would."""
        for folder in (self.repo / ".git", self.server):
            (folder / "refs" / "heads" / "main").write_text(f"{commit}\n")
        alternates = self.server / "objects" / "info" / "alternates"
        alternates.write_text(f"{self.repo}/.git/objects\n")
        origin = self.repo / ".git" / "refs" / "remotes" / "origin" / "main"
        origin.parent.mkdir(parents=True, exist_ok=True)
        origin.write_text(f"{commit}\n")
        run_git("read-tree", "HEAD", cwd=self.repo, check=False)
        return commit

    def read(self, path: str) -> bytes:
        """Return a file of the last commit."""
        return self.objects().read("main", path)

    def names(self, path: str) -> list[str]:
        """Return the files of the last commit below a folder."""
        return self.objects().names("main", path)


@contextmanager
def ground(base: Path) -> Iterator[Ground]:
    """Make the place of all scenes."""
    with listening(b"id,name\n1,of a stranger\n") as calls:
        made = Ground(base, calls)
        try:
            yield made
        finally:
            made.close()


def place(ground: Ground, source: Path | None = None) -> None:
    """Put a copy of a scene where scenes stand."""
    if ground.folder.exists():
        for folder, _, _ in os.walk(ground.folder):
            os.chmod(folder, 0o755)
        shutil.rmtree(ground.folder)
    copy(source or ground.template, ground.folder)


def copy(source: Path, folder: Path) -> None:
    """Copy a folder with whatever is in it, pipes and links as they are."""
    subprocess.run(["cp", "-a", source, folder], check=True)
