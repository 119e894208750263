"""Making an ordinary repository one that can hold datasets.

Datasets' internals are kept out of the work tree by a sparse checkout, in git's
general (not `cone`) form, whose last patterns are ours:

    /*                        everything, unless the user had patterns of their own
    !**/.havasu-dataset/
    !**/.table-dataset/

A user's patterns stay in front. Patterns in cone form mean the same in general form,
so such a checkout is turned into the general form. `tables/` (checkouts) is ignored
through `info/exclude`. The files are written here, not by `git sparse-checkout`, which would
also turn on an extension of the repository format. git-lfs is shown the data files.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.names import OLD_TABLE_MARKER, TABLES
from havasu_vc.store.command import run_git
from havasu_vc.store.disk import replace_file
from havasu_vc.store.files import DataFileStore, LfsLinks, lfs_folder
from havasu_vc.store.objects import ObjectId, ObjectSource
from havasu_vc.store.repository import GitRepository, init_kart
from havasu_vc.store.trees import read_blob

__all__ = [
    "ATTRIBUTES_FILE",
    "attributes_edit",
    "hidden_patterns",
    "ignore",
    "init_repository",
    "is_prepared",
    "prepare",
]


ATTRIBUTES_FILE = ".gitattributes"
_GENERATED = (b"data", b"edits", b"files")
"""Folders inside of a dataset that a host need not show in a review."""
_BYTES = b"**/.havasu-dataset/** -text diff=havasu"
_ATTRIBUTES = (
    *(b"**/.havasu-dataset/%s/** linguist-generated" % name for name in _GENERATED),
    _BYTES,
)
_DOCUMENTS = (b"dataset.json", b"title", b"EPSG:4326.wkt", b"82a3537ff0dbce7e")
"""Names of documents, by which patterns that may be of some are known."""

_IGNORED = "/tables/"


def is_prepared(repository: GitRepository) -> bool:
    """Return whether internals stay out of this work tree, and git-lfs sees the data files."""
    if repository.is_kart:
        return True
    links = LfsLinks(repository.data_folder, lfs_folder(repository))
    return links.all_made and _hides_internals(repository)


def hidden_patterns() -> list[str]:
    """Return the patterns by which a sparse checkout leaves the internals of datasets out.

    Only repositories of Kart's own have tables of V2, and in those the work tree is Kart's.
    """
    return [f"!**/{marker}/" for marker in TABLES if marker != OLD_TABLE_MARKER]


def _hides_internals(repository: GitRepository) -> bool:
    if repository.is_bare:
        return True
    patterns, hidden = _lines(_read(repository, "sparse-checkout")), hidden_patterns()
    return (
        patterns[-len(hidden) :] == hidden
        and repository.config.boolean("core.sparseCheckout")
        and not repository.config.boolean("core.sparseCheckoutCone", True)
    )


def prepare(repository: GitRepository) -> None:
    """Set a repository up for datasets; do nothing where that was done.

    In a repository that Kart made, the work tree and its settings stay Kart's.
    """
    if repository.is_kart:
        return
    store = DataFileStore(repository.data_folder, lfs_folder(repository))
    if store.lfs_links is not None and not store.lfs_links.noted:
        store.show_all_to_lfs()
    if not repository.is_bare:
        ignore(repository, _IGNORED)
        if not _hides_internals(repository):
            _hide_internals(repository)


def attributes_edit(source: ObjectSource, tree: ObjectId | None) -> bytes | None:
    """Return `.gitattributes` as a commit upon `tree` should have it; None if it is so already."""
    old = read_blob(source, tree, ATTRIBUTES_FILE) if tree is not None else None
    known = {tuple(line.split()) for line in (old or b"").splitlines()}
    missing = [line for line in _ATTRIBUTES if tuple(line.split()) not in known]
    before = old or b""
    if _BYTES not in missing and _converts_later(lines := before.splitlines(keepends=True)):
        before = b"".join(line for line in lines if line.split() != _BYTES.split())
        missing.append(_BYTES)
    if not missing:
        return None
    if before and not before.endswith(b"\n"):
        before += b"\n"
    return before + b"".join(line + b"\n" for line in missing)


def _converts_later(lines: Sequence[bytes]) -> bool:
    """Whether attributes after ours have git convert line ends of documents: the last holds."""
    ours = max(n for n, line in enumerate(lines) if line.split() == _BYTES.split())
    return any(_is_of_documents(line) for line in lines[ours + 1 :])


def _is_of_documents(line: bytes) -> bool:
    pattern, *attributes = line.split() or [b"#"]
    if pattern.startswith((b"#", b"[attr]", b"!")):
        return False
    if not any(a.partition(b"=")[0] in (b"text", b"!text") for a in attributes):
        return False
    last = pattern.rpartition(b"/")[2]
    return pattern.startswith(b'"') or any(fnmatchcase(name, last) for name in _DOCUMENTS)


def ignore(repository: GitRepository, pattern: str) -> None:
    """Have git pass over what a pattern matches, in all work trees of this repository."""
    path = repository.common_directory / "info" / "exclude"
    text = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
    if pattern not in _lines(text):
        added = ("" if not text or text.endswith("\n") else "\n") + pattern + "\n"
        replace_file(path, (text + added).encode("utf-8", "surrogateescape"))


def _hide_internals(repository: GitRepository) -> None:
    config = repository.config
    wanted = _lines(_read(repository, "sparse-checkout"))
    if not wanted or not config.boolean("core.sparseCheckout"):
        wanted = ["/*"]  # patterns that were not in force would hide files now
    hidden = hidden_patterns()
    wanted = [line for line in wanted if line not in hidden] + hidden
    data = "".join(f"{line}\n" for line in wanted).encode("utf-8", "surrogateescape")
    replace_file(repository.git_directory / "info" / "sparse-checkout", data)
    if (repository.git_directory / "index").exists():
        # Before the settings, so that a repository whose index is locked is not taken for
        # prepared while git still misses no file of its datasets.
        settings = ("core.sparseCheckout=true", "core.sparseCheckoutCone=false")
        given = [word for setting in settings for word in ("-c", setting)]
        repository.git(*given, "sparse-checkout", "reapply")
    # `git sparse-checkout` keeps its settings per work tree, where they win.
    own = config.boolean("extensions.worktreeConfig")
    config.set("core.sparseCheckout", True, worktree=own)
    config.set("core.sparseCheckoutCone", False, worktree=own)
    if config.boolean("index.sparse"):
        config.set("index.sparse", False, worktree=own)


def _read(repository: GitRepository, name: str) -> str:
    path = repository.git_directory / "info" / name
    return path.read_text("utf-8", "surrogateescape") if path.exists() else ""


def _lines(text: str) -> list[str]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


# Making a repository, or taking one that is there, so that it can hold datasets.
#
# Doing it again changes nothing, and what somebody has chosen before (a branch, a work
# tree) is never chosen anew.


def init_repository(
    path: Path | str, *, bare: bool = False, branch: str | None = None, kart: bool = False
) -> GitRepository:
    """Make a repository at `path`, or take the one that is there, and prepare it for datasets.

    With `kart` a new one is such as Kart makes.
    """
    place = Path(path).absolute()
    repository = GitRepository.at(place)
    if repository is None:
        _make(place, bare=bare, branch=branch, kart=kart)
        repository = GitRepository.open(place)
    else:
        _check_same(repository, bare, branch)
    prepare(repository)
    return repository


def _make(place: Path, *, bare: bool, branch: str | None, kart: bool) -> None:
    if place.exists() and not place.is_dir():
        raise InvalidArgumentError(f"{place} is a file; a repository needs a folder")
    if branch is None:
        configured = run_git(["config", "--get", "init.defaultBranch"], check=False).text
        branch = configured or "main"
    if kart:
        init_kart(place, bare=bare, branch=branch)
        return
    options = ["--quiet", "--object-format=sha1", f"--initial-branch={branch}"]
    run_git(["init", *options, *(["--bare"] if bare else []), "--", str(place)])


def _check_same(repository: GitRepository, bare: bool, branch: str | None) -> None:
    """Refuse what a repository is not, but name the branch of one without commits."""
    if bare and not repository.is_bare:
        raise InvalidArgumentError(f"{repository.path} is a repository with a work tree already")
    if branch is None or branch == repository.head_branch:
        return
    if not repository.handle.head_is_unborn:
        raise InvalidArgumentError(
            f"{repository.path} is a repository on branch {repository.head_branch!r} already",
            hints=(f"`havasu-vc switch -c {branch}` makes another branch",),
        )
    repository.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
