"""Repositories of Kart's older forms as ones of V3: every commit again, with its own tables.

Authors, dates and messages stay, so what comes out are the commits that `kart upgrade`
makes. Rows are not decoded: a feature's bytes are the same in both forms, only where it
stands differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from havasu_vc.checkouts import Workspace
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.upgrading import is_old, upgrade_blobs
from havasu_vc.datasets.kart.edit import layout_documents
from havasu_vc.datasets.kart.trees import StoredFolder, batches, leaves
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import NoChangesError, StateError, UnsupportedVersionError
from havasu_vc.formats.kart.columns import (
    format_columns,
    format_legend,
    format_wkt,
    legend_name,
    legend_of,
)
from havasu_vc.formats.kart.paths import path_structure_of
from havasu_vc.model.names import (
    HAVASU_MARKER,
    KART_VERSION,
    KART_VERSION_3,
    OLD_TABLE_MARKER,
    OLD_VERSION,
    TABLE_MARKER,
)
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import format_commit, read_commit
from havasu_vc.store.kart_version import kart_version, oldest_form
from havasu_vc.store.objects import ObjectWriter
from havasu_vc.store.preparation import init_repository
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import (
    TREE,
    Change,
    DatasetFolder,
    Existing,
    edit_tree,
    find_datasets,
    find_entry,
    format_tree,
    read_entries,
)

__all__ = ["upgrade", "upgrade_datasets", "upgrade_in_place"]


_METADATA = "meta/metadata/dataset.json"


def upgrade(repo: OpenRepo, destination: Path) -> GitRepository:
    """Make a V3 repository at `destination` of all branches and tags of an older one."""
    _require_older(repo)
    new = init_repository(destination, bare=repo.git.is_bare, branch=repo.head_branch, kart=True)
    if not new.handle.head_is_unborn:
        raise StateError(f"{destination} holds commits already", hints=("give an empty folder",))
    refs = _refs(repo)
    made = _upgraded(repo, new, refs)
    # HEAD's branch at the very end: without it this can be done again.
    for name in sorted(made, key=lambda name: name == f"refs/heads/{new.head_branch}"):
        new.git("update-ref", name, made[name])
    return new


def upgrade_in_place(repo: OpenRepo) -> int:
    """Move all branches and tags to commits in V3; return how many."""
    git = repo.git
    if repo.head_branch is None:
        raise StateError("HEAD is on no branch", hints=("`havasu-vc switch BRANCH` first",))
    _require_older(repo)
    if Workspace(repo).exists:
        raise StateError(
            "there is a working copy, which is of the old commits",
            hints=("commit its edits, move it away, and make it anew afterwards",),
        )
    refs = _refs(repo)
    moved = _upgraded(repo, git, refs)
    lines = [f"update {name} {commit} {refs[name]}\n" for name, commit in moved.items()]
    git.git("update-ref", "-m", "upgrade to V3", "--stdin", stdin="".join(lines).encode())
    git.config.set("kart.repostructure.version", "3")
    return len(moved)


def _require_older(repo: OpenRepo) -> None:
    """Raise unless a repository is in a form of Kart's that can be brought to V3 here."""
    number = kart_version(repo.git)
    if number == 3:
        raise NoChangesError("the repository is in Kart's form V3 already")
    if number in (0, 1):
        raise oldest_form(number)


def _refs(repo: OpenRepo) -> dict[str, str]:
    """Return the commits of all branches and tags."""
    refs = {f"refs/heads/{branch.name}": branch.commit for branch in list_branches(repo.git)}
    return refs | {f"refs/tags/{tag.name}": tag.commit for tag in list_tags(repo.git)}


def _upgraded(repo: OpenRepo, new: GitRepository, refs: Mapping[str, str]) -> dict[str, str]:
    """Write all commits again, to a repository that may be the same; return those of the refs."""
    with new.writer() as writer:
        work = _Upgrade(repo, writer)
        listed = repo.git.git("rev-list", "--reverse", "--topo-order", *refs.values()).text
        for commit in listed.split() if refs else ():
            work.commit(commit)
        writer.flush()
    return {name: work.commits[commit] for name, commit in refs.items()}


@dataclass(slots=True)
class _Upgrade:
    """The commits and datasets that were written again so far."""

    repo: OpenRepo
    writer: ObjectWriter
    commits: dict[str, str] = field(default_factory=dict)
    datasets: dict[str, dict[str, Change]] = field(default_factory=dict)
    copied: set[bytes] = field(default_factory=set)

    def commit(self, identity: str) -> None:
        """Write a commit again."""
        old = read_commit(self.repo.git.objects, identity)
        self.commits[identity] = self.writer.write(
            "commit",
            format_commit(
                self._tree(old.tree),
                tuple(self.commits[parent] for parent in old.parents),
                author=old.author,
                committer=old.committer,
                message=old.message,
            ),
        )

    def _tree(self, tree: str) -> str:
        source = self.repo.git.objects
        self._check_version(tree)
        changes: dict[str, Change] = {OLD_VERSION: None, KART_VERSION: KART_VERSION_3}
        for folder in find_datasets(source, tree):
            if folder.marker == OLD_TABLE_MARKER:
                changes[f"{folder.path}/{OLD_TABLE_MARKER}"] = None
                for name, change in self._dataset(folder).items():
                    changes[f"{folder.path}/{name}"] = change
        return edit_tree(self.writer, self._copied_tree(tree, top=True), changes)

    def _check_version(self, tree: str) -> None:
        source = self.repo.git.objects
        for name in (KART_VERSION, OLD_VERSION):
            if find_entry(source, tree, name) is not None:
                return
        raise UnsupportedVersionError(
            "the repository is in a form of Kart's older than V2",
            hints=("`kart upgrade` of Kart itself brings it to V3",),
        )

    def _dataset(self, folder: DatasetFolder) -> dict[str, Change]:
        """Return what a V2 dataset becomes, by path below the dataset's folder."""
        known = self.datasets.get(folder.internals)
        if known is not None:
            return known
        repo = self.repo
        inside = TreeFolder(repo.git.objects, folder.internals)
        view = KartDataset(folder.path, inside, repo.storage, "upgrade", folder.marker)
        changes: dict[str, Change] = {}
        for name, blob in inside.blobs("meta"):
            data = inside.read_blob(blob)
            if name.startswith("crs/"):
                data = format_wkt(data.decode(errors="replace"))
            if not name.startswith("metadata/"):
                changes[f"{TABLE_MARKER}/meta/{name}"] = data
        changes |= _layout(view)
        changes |= _attachments(inside.read(_METADATA))
        tree = self._features(view)
        if tree:
            changes[f"{TABLE_MARKER}/feature"] = Existing(tree, "tree")
        self.datasets[folder.internals] = changes
        return changes

    def _features(self, view: KartDataset) -> str:
        if not view.features:
            return ""
        objects, form = view.objects, view.form()
        if not isinstance(objects, StoredFolder):
            raise ValueError("features are read from a repository")
        structure = path_structure_of(view.schema)
        found = FeatureChanges()
        for files in batches(objects, leaves(objects, [(b"", bytes.fromhex(view.features))]), form):
            ids = [files.blobs.ids[at : at + 20] for at in range(0, len(files.blobs.ids), 20)]
            fresh = [identity for identity in ids if identity not in self.copied]
            for data in objects.read(fresh):
                self.writer.write("blob", data)
            self.copied.update(fresh)
            folders, names = structure.paths(files.keys(form))
            found.add(folders, names, ids)
        return found.write(self.writer, "")

    def _copied_tree(self, tree: str, *, top: bool = False) -> str:
        """Copy the user's own files, and datasets that stay as they are."""
        source = self.repo.git.objects
        items: dict[bytes, tuple[bytes, bytes]] = {}
        for mode, name, identity in read_entries(source, tree):
            if mode == TREE:
                if name == OLD_TABLE_MARKER.encode():
                    continue
                copied = self._copied_tree(identity.hex())
                if copied:
                    items[name] = (mode, bytes.fromhex(copied))
                continue
            if identity not in self.copied and mode != b"160000":
                self.writer.write("blob", source.read(identity.hex())[1])
                self.copied.add(identity)
            items[name] = (mode, identity)
        if not items and not top:
            return ""
        return self.writer.write("tree", format_tree(items))


def _layout(view: KartDataset) -> dict[str, Change]:
    """Return the documents that a V3 dataset has because of its schema."""
    legend = format_legend(legend_of(view.schema))
    documents = layout_documents(view.schema, None)
    if legend_name(legend) in view.legends:
        documents.pop(f"meta/legend/{legend_name(legend)}", None)
    changes: dict[str, Change] = {f"{TABLE_MARKER}/{n}": d for n, d in documents.items()}
    columns = view.header.meta["schema.json"]
    changes[f"{TABLE_MARKER}/meta/schema.json"] = format_columns(columns)
    return changes


def _attachments(data: bytes | None) -> Mapping[str, Change]:
    """Return the metadata of a V2 dataset as the file beside the dataset that it is in V3."""
    if data is None:
        return {}
    try:
        (formats,) = json.loads(data).values()
        texts = {kind.rpartition("/")[2]: text for kind, text in formats.items()}
        return {f"metadata.{kind}": text.encode() for kind, text in texts.items()}
    except (ValueError, AttributeError, TypeError):
        return {"metadata.json": data}


# The datasets of HEAD in the newest form, in one commit: documents alone, no data file.


def upgrade_datasets(repo: OpenRepo, message: str | None = None) -> CommitResult:
    """Commit the datasets of HEAD that are of format 1 as ones of format 2."""
    with Transaction(repo) as transaction:
        edits = []
        for path, folder in transaction.folders.items():
            inside = TreeFolder(repo.git.objects, folder.internals)
            if folder.marker == HAVASU_MARKER and is_old(inside):
                edits.append(TreeEdit(path, upgrade_blobs(inside, path, "HEAD")))
        if not edits:
            raise NoChangesError("every dataset of HEAD is of format 2 already")
        repo.git.config.unset("merge.directoryRenames")
        commit = transaction.commit(edits, message or "Upgrade datasets to format 2")
    return CommitResult(commit, repo.head_branch, {edit.path: edit.counts for edit in edits})
