"""Cases: cloning and pushing, by a folder and by servers on loopback.

Servers are imported where they are started: peak memory of what is measured begins at
this process's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.bench.cases import Figure, case, counted
from tests.bench.process import CommandFailed, Run, alternated, repeated, run
from tests.bench.scratch import Scratch, Variant

COPY_HTTP = """
import pathlib, shutil, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
target, *urls = sys.argv[1:]
def copy(url):
    with urllib.request.urlopen(url) as source, open(f"{target}/{url[-64:]}", "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
pathlib.Path(target).mkdir()
with ThreadPoolExecutor(8) as pool:
    list(pool.map(copy, urls))
"""
COPY_S3 = """
import sys
from pyarrow.fs import FileSystem, LocalFileSystem, copy_files
system, path = FileSystem.from_uri(sys.argv[2])
copy_files(path, sys.argv[1], system, LocalFileSystem())
"""


@case("clone")
def clone(scratch: Scratch) -> Iterator[Figure]:
    """A clone of a folder, with its tables checked out."""
    variant = Variant("points", scratch.sizes.usual)
    measured = _clones(scratch, scratch.repository(variant))
    note = f"{measured.cpu:.2f} s CPU, {measured.memory:.0f} MB"
    name = f"clone with checkout from a folder, {counted(variant.rows)} points"
    yield Figure(name, measured.wall, "s", 2.0, note)


@case("push")
def push(scratch: Scratch) -> Iterator[Figure]:
    """A commit of 1,000 edits goes to a folder, whatever the table's size."""
    sizes = scratch.sizes
    for variant in (Variant("points", sizes.usual), Variant("points", sizes.largest)):
        patches = sorted(scratch.patches(variant, sizes.runs + 1, sizes.edits).iterdir())
        repository = scratch.copy(scratch.repository(variant))
        server = _pushed(scratch, repository)

        def once(number: int, repo: Path = repository, files: list[Path] = patches) -> Run:
            scratch.havasu("-C", repo, "apply", files[number])
            return scratch.havasu("-C", repo, "push")

        measured = repeated(once, sizes.runs)
        name = f"push of {sizes.edits:,} edits to a folder, {counted(variant.rows)} points"
        yield Figure(name, measured.wall, "s", 1.0, f"{measured.cpu:.2f} s CPU")
        scratch.remove(repository)
        scratch.remove(server)


@case("clone-servers")
def clone_servers(scratch: Scratch) -> Iterator[Figure]:
    """Clones by Git LFS and S3 against copying the same files from the same server."""
    from tests.support.servers import has_moto
    from tests.support.web import has_git_lfs

    variant = Variant("points", scratch.sizes.largest)
    for what, there in (("Git LFS", has_git_lfs()), ("S3", has_moto())):
        name = f"clone by {what} against a plain copy, {counted(variant.rows)} points"
        if not there:
            yield Figure(name, None, "x", 1.5, "there is no such server or client here")
            continue
        with ExitStack() as stack:
            if what == "S3":
                yield _against(name, *_by_s3(scratch, variant, stack))
                continue
            plain, git = _by_lfs(scratch, variant, stack)
        yield _against(name, *plain)
        yield _against(name.replace("a plain copy", "git and its LFS client"), *git)


def _against(name: str, ours: Run, other: Run) -> Figure:
    note = f"{ours.wall:.2f} s against {other.wall:.2f} s"
    return Figure(name, ours.wall / other.wall, "x", 1.5, note)


def _by_lfs(
    scratch: Scratch, variant: Variant, stack: ExitStack
) -> tuple[tuple[Run, Run], tuple[Run, Run]]:
    """Return a clone and, first, its files by HTTP alone; then git's clone with its client."""
    from tests.support.web import serving

    repository = scratch.copy(scratch.repository(variant))
    root = _folder(scratch, "web")
    server = stack.enter_context(serving(root))
    _git(scratch, "init", "-q", "--bare", root / "table.git")
    _git(scratch, "-C", root / "table.git", "config", "http.receivepack", "true")
    _push_to(scratch, repository, server.url("table.git"))
    urls = [server.url(f"lfs/{path.name}") for path in (root / "lfs").iterdir()]

    def ours(number: int) -> Run:
        return _clone_once(scratch, server.url("table.git"), "-n")

    runs = scratch.sizes.runs
    plain = alternated(ours, lambda number: _copied(scratch, COPY_HTTP, *urls), runs)
    git = alternated(ours, lambda number: _gits_own(scratch, server.url("table.git")), runs)
    scratch.remove(repository)
    scratch.remove(root)
    return plain, git


def _by_s3(scratch: Scratch, variant: Variant, stack: ExitStack) -> tuple[Run, Run]:
    from tests.support.servers import S3_ENVIRONMENT, moto

    endpoint = stack.enter_context(moto())
    scratch.environment.update({**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint})
    host = endpoint.removeprefix("http://")
    options = f"?endpoint_override={host}&scheme=http&allow_bucket_creation=true"
    script = "import sys; from pyarrow.fs import *; s, p = FileSystem.from_uri(sys.argv[1])\n"
    scratch.python("-c", script + "s.create_dir('bucket')", f"s3://bucket/{options}")
    repository = scratch.copy(scratch.repository(variant))
    server = _bare(scratch)
    _git(scratch, "-C", repository, "config", "havasu.data.url", "s3://bucket/data")
    _push_to(scratch, repository, server)
    pair = alternated(
        lambda number: _clone_once(scratch, server, "-n", "--data-url", "s3://bucket/data"),
        lambda number: _copied(scratch, COPY_S3, f"s3://bucket/data/objects{options}"),
        scratch.sizes.runs,
    )
    scratch.remove(repository)
    scratch.remove(server)
    return pair


def _clones(scratch: Scratch, url: Path | str, *options: str) -> Run:
    return repeated(lambda number: _clone_once(scratch, url, *options), scratch.sizes.runs)


def _clone_once(scratch: Scratch, url: Path | str, *options: str) -> Run:
    place = _folder(scratch, "clone", make=False)
    measured = scratch.havasu("clone", *options, str(url), place)
    scratch.remove(place)
    return measured


def _gits_own(scratch: Scratch, url: str) -> Run:
    """Clone with git alone, and let its LFS client fetch what the commits name."""
    place = _folder(scratch, "clone", make=False)
    script = 'git clone -q -n "$0" "$1" && git -C "$1" lfs fetch --all'
    measured = run(["sh", "-c", script, url, str(place)], scratch.environment)
    if not any((place / ".git" / "lfs" / "objects").rglob("*")):
        raise CommandFailed("nothing was fetched")
    scratch.remove(place)
    return measured


def _copied(scratch: Scratch, program: str, *arguments: str) -> Run:
    place = _folder(scratch, "copy", make=False)
    measured = scratch.python("-c", program, place, *arguments)
    if not any(place.rglob("*")):
        raise CommandFailed("nothing was copied")
    scratch.remove(place)
    return measured


def _pushed(scratch: Scratch, repository: Path) -> Path:
    server = _bare(scratch)
    _push_to(scratch, repository, server)
    return server


def _bare(scratch: Scratch) -> Path:
    server = _folder(scratch, "server.git")
    _git(scratch, "init", "-q", "--bare", server)
    return server


def _push_to(scratch: Scratch, repository: Path, url: Path | str) -> None:
    _git(scratch, "-C", repository, "remote", "add", "origin", url)
    scratch.havasu("-C", repository, "push", "-u", "origin", "HEAD")


def _git(scratch: Scratch, *arguments: str | Path) -> None:
    run(["git", *map(str, arguments)], scratch.environment)


def _folder(scratch: Scratch, name: str, *, make: bool = True) -> Path:
    place = scratch.repositories / f"{name}-{os.urandom(4).hex()}"
    if make:
        place.mkdir()
    return place
