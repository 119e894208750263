"""A merge in which Kart stopped: concluded once its conflicts are resolved, or given up.

    MERGED_INDEX    an index of git's: what merged, and beside it
                    .conflicts/N/{ancestor,ours,theirs}/PATH    versions of what is in conflict
                    .resolves/N/resolved, .resolves/N/0/PATH    what was decided of it
    MERGED_TREE     the tree of what merged, ours where nothing was decided
    MERGE_HEAD, MERGE_BRANCH, MERGE_MSG

Kart writes these and resolves the conflicts; what the commit then is follows from them alone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import ConflictError, CorruptionError, HavasuError, StateError
from havasu_vc.merging.merge_commits import MergeResult
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import store_commit
from havasu_vc.store.refs import move_head, read_head
from havasu_vc.store.repository import GitRepository

__all__ = [
    "KartMerge",
    "conclude_kart_merge",
    "drop_kart_merge",
    "read_kart_merge",
    "tree_of_kart_merge",
]

_FILES = ("MERGE_HEAD", "MERGE_BRANCH", "MERGE_MSG", "MERGED_INDEX", "MERGED_TREE")
_NOTHING = "0" * 40


@dataclass(frozen=True, slots=True)
class KartMerge:
    """A merge of Kart's that is half done."""

    theirs: str
    """The commit to merge."""
    message: str
    """The message of the merge commit."""
    listed: tuple[str, ...]
    """Every path of the index that is of a conflict, or of how one was resolved."""
    conflicts: Mapping[str, tuple[str, ...]]
    """The paths of each conflict's versions, by its number."""
    resolved: Mapping[str, tuple[tuple[str, str, str], ...]]
    """Mode, blob and path of what stands in the place of each that is resolved."""

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        return len(self.conflicts.keys() - self.resolved.keys())

    def keys(self, view: Dataset) -> pa.RecordBatch | None:
        """Return the keys of a dataset's rows that are in conflict, or resolve one.

        None for a dataset of another kind than Kart's, in which it finds no conflicts.
        """
        inside = f"{view.path}/{view.marker}/feature/"
        paths = {path for each in self.conflicts.values() for path in each}
        paths |= {path for each in self.resolved.values() for _, _, path in each}
        names = [p.rpartition("/")[2].encode() for p in sorted(paths) if p.startswith(inside)]
        return view.keys_named(names)


def read_kart_merge(git: GitRepository) -> KartMerge:
    """Return the merge that Kart stopped in; raises for one that cannot be read."""
    folder = git.git_directory
    try:
        theirs = (folder / "MERGE_HEAD").read_text("ascii").strip()
        message = (folder / "MERGE_MSG").read_text("utf-8")
        environment = {"GIT_INDEX_FILE": str(folder / "MERGED_INDEX")}
        listed = git.git(
            "ls-files", "-s", "-z", "--", ".conflicts", ".resolves", environment=environment
        )
        return _parsed(theirs, message, listed.text)
    except (OSError, ValueError, HavasuError) as error:
        raise CorruptionError(
            "the merge of Kart's cannot be read: its files are damaged, or some are gone",
            hints=("`havasu-vc merge --abort` drops it; nothing committed is lost",),
        ) from error


def _parsed(theirs: str, message: str, listed: str) -> KartMerge:
    paths: list[str] = []
    conflicts: dict[str, list[str]] = {}
    resolved: dict[str, list[tuple[str, str, str]]] = {}
    for line in filter(None, listed.split("\0")):
        head, _, path = line.partition("\t")
        mode, blob, _ = head.split(" ")
        kind, number, part, *rest = path.split("/", 3)
        paths.append(path)
        if kind == ".conflicts":
            conflicts.setdefault(number, []).append(rest[0])
            continue
        entries = resolved.setdefault(number, [])
        if rest:
            entries.append((mode, blob, rest[0]))
        elif part != "resolved":
            raise ValueError(path)
    return KartMerge(
        theirs,
        message,
        tuple(paths),
        {number: tuple(each) for number, each in conflicts.items()},
        {number: tuple(each) for number, each in resolved.items()},
    )


def tree_of_kart_merge(git: GitRepository, merge: KartMerge) -> str:
    """Store the tree that the merge has with its resolutions; raises while conflicts wait."""
    if merge.unresolved:
        are = "conflict is" if merge.unresolved == 1 else "conflicts are"
        raise ConflictError(
            f"{merge.unresolved:,} {are} not resolved yet",
            hints=("`kart conflicts` shows them, `kart resolve` settles them",),
        )
    partial = ("--missing-ok",) if git.config.get("extensions.partialclone") else ()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copyfile(git.git_directory / "MERGED_INDEX", index)
        environment = {"GIT_INDEX_FILE": str(index)}
        lines = "\0".join(_changes(merge)).encode()
        git.git("update-index", "-z", "--index-info", stdin=lines, environment=environment)
        return git.git("write-tree", *partial, environment=environment).text.strip()


def _changes(merge: KartMerge) -> Iterator[str]:
    """Yield what turns the index into that of the commit, as git reads it."""
    for path in merge.listed:
        yield f"0 {_NOTHING}\t{path}"
    for paths in merge.conflicts.values():
        for path in paths:
            yield f"0 {_NOTHING}\t{path}"
    for entries in merge.resolved.values():
        for mode, blob, path in entries:
            yield f"{mode} {blob}\t{path}"
    yield ""


def conclude_kart_merge(
    repo: OpenRepo, merge: KartMerge, tree: str, *, message: str | None = None
) -> MergeResult:
    """Commit the merge with the tree that it has, and forget that it was half done."""
    git, head = repo.git, read_head(repo.git)
    if head.commit is None:
        raise StateError("HEAD has no commit to merge into")
    text = (message or merge.message).strip()
    people = {"author": git.author, "committer": git.committer}
    parents = (head.commit, merge.theirs)
    with git.writer() as writer:
        commit = store_commit(git, writer, tree, parents, **people, message=f"{text}\n")
    move_head(git, head, commit, f"commit (merge): {text.splitlines()[0] if text else ''}")
    drop_kart_merge(git)
    return MergeResult("merge", commit)


def drop_kart_merge(git: GitRepository) -> None:
    """Forget that a merge of Kart's is half done; HEAD never moved."""
    for name in _FILES:
        (git.git_directory / name).unlink(missing_ok=True)
