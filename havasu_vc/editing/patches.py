"""Applying patches: JSON in Kart's form becomes changes, checked and committed.

What a patch says was there must be there. A patch may list only some columns of a
row; the others keep their values. Where it does not apply, all rows in its way are named.

Files beside datasets, which Kart calls attachments, are committed without a work tree: in a
repository of Kart's git has no index to commit from.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.checkouts import Workspace, working_copy
from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.limits import within_limits
from havasu_vc.datasets.pairing import describe_key, equal_rows
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.editing.metadata import meta_documents
from havasu_vc.editing.patch_misfits import (
    PatchBase,
    base_of,
    misfits,
    require_as_at_base,
    rows_of,
)
from havasu_vc.editing.patch_systems import header_after, own_batches, own_system
from havasu_vc.editing.requests import PatchRequest
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    NoChangesError,
    NotYetSupportedError,
    PatchError,
)
from havasu_vc.formats.patch import (
    MOST_PATCH_BYTES,
    DatasetPatch,
    Patch,
    PatchBatch,
    parse_patch,
)
from havasu_vc.looking import OwnSystem
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import (
    DATASET_MARKERS,
    KART_VERSION,
    OLD_VERSION,
    check_dataset_path,
    unsafe_reason,
)
from havasu_vc.model.schema import Schema
from havasu_vc.repo.edits import aligned, sorted_changes
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.other_branch import other_branch
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.objects import ObjectId, Signature
from havasu_vc.store.trees import Change, read_blob

if TYPE_CHECKING:
    from havasu_vc.checkouts import LivingCopy

__all__ = ["apply_patch", "commit_files", "not_a_users_file"]

MOST_MISFITS = 50
"""Rows that are named where a patch does not fit them."""


def apply_patch(repo: OpenRepo, request: PatchRequest) -> CommitResult:
    """Commit a patch, given as bytes or an open file; without `commit`, only try it.

    Where there is a living working copy, a patch that is not committed is made in that.
    """
    branch = other_branch(repo, request.ref)
    patch = parse_patch(request.source, request.limit or MOST_PATCH_BYTES)
    own = own_system(patch)
    Workspace(repo).require_clean_in_karts()
    settings = repo.settings.staying_here(
        "a patch is one text, which this process reads: it applies the rows too, without Spark"
    )
    text = patch.message if request.message is None else request.message
    if request.needs_message and request.commit and not (text or "").strip():
        raise InvalidArgumentError("the message is empty; nothing is committed")
    with Transaction(repo, branch=branch) as transaction:
        known = transaction.folders
        edits: list[TreeEdit] = []
        removed: dict[str, ChangeCounts] = {}
        for part in patch.datasets:
            _require_known(part, known, rows_left_out=request.rows_left_out)
        for part in patch.datasets:
            with settings.open_engine(0) as engine:
                if part.path not in known:
                    check_dataset_path(part.path, known)
                    from havasu_vc.editing.patch_datasets import created

                    edits.append(created(part, repo, transaction.storage, engine, own))
                elif _removes(part):
                    view = transaction.dataset(part.path)
                    _check_meta(part, view, patch.base)
                    removed[part.path] = _removed(part, view, own)
                else:
                    view = transaction.dataset(part.path)
                    _check_meta(part, view, patch.base)
                    base = base_of(repo, patch, part.path, needed=request.needs_base)
                    with _naming_misfits(repo, part, view, own, base):
                        require_as_at_base(part, view, own, base)
                        edits.append(_edited(part, view, own))
        files = _files(patch, repo, transaction.head.commit)
        changed = [edit for edit in edits if edit.blobs]
        counts = {edit.path: edit.counts for edit in edits} | removed
        if not changed and not removed and not files and not request.allow_empty:
            raise NoChangesError("the patch changes nothing")
        identity, living = None, None
        if not request.commit and branch is None and (living := working_copy(repo)) is not None:
            odd = [*removed, *files]
            living.show(_views(living, transaction, changed, odd, request.keeps_columns))
        if request.commit:
            identity = transaction.commit(
                changed,
                text,
                author=_author(patch, repo),
                removed=tuple(removed),
                merge=MergedTree(files, {}, ()) if files else None,
            )
            counts |= transaction.recounted
    meta = {edit.path: edit.meta for edit in changed}
    where = branch or repo.head_branch
    return CommitResult(identity, where, counts, meta=meta, as_edits=living is not None)


def _require_known(part: DatasetPatch, known: Container[str], *, rows_left_out: bool) -> None:
    """Raise for a dataset that is neither there nor made, and for what is not understood of one."""
    schema = next((each for each in part.meta if each.name == "schema.json"), None)
    if part.path in known and schema is not None and schema.old is None:
        raise PatchError(
            f"the patch makes the dataset {part.path!r}, which is there already",
            hints=("a patch that changes columns says in `-` which there were",),
        )
    if part.path not in known and (schema is None or schema.old is not None):
        error = DatasetNotFoundError(part.path)
        error.message = f"the patch changes the dataset {part.path!r}, which is not there"
        raise error
    unknown = [each for each in part.unknown if each != "data_changes" or not rows_left_out]
    if unknown == ["data_changes"]:
        raise PatchError(
            f"the patch says that rows of {part.path!r} changed, and leaves them out",
            hints=("make it with `havasu-vc create-patch --diff-format full`",),
        )
    if unknown:
        raise PatchError(
            f"dataset {part.path!r} of the patch has {unknown[0]!r}, which is not understood"
        )


@contextmanager
def _naming_misfits(
    repo: OpenRepo, part: DatasetPatch, view: Dataset, own: OwnSystem | None, base: PatchBase
) -> Iterator[None]:
    """Have an error name every row that a patch does not fit, not only the first."""
    try:
        yield
    except PatchError as error:
        items = {change.name: change.new for change in part.meta}
        schema = meta_documents(view, items, keep_ids=True)[0]
        lines = list(islice(misfits(part, view, own, schema, base), MOST_MISFITS + 1))
        if not lines:
            raise
        for line in lines[:MOST_MISFITS]:
            repo.settings.note(line)
        if len(lines) > MOST_MISFITS:
            repo.settings.note(f"{part.path}: and more")
        raise PatchError(f"the patch does not apply: {error.message}", hints=error.hints) from error


def _views(
    living: LivingCopy,
    transaction: Transaction,
    edits: Sequence[TreeEdit],
    odd: Sequence[str],
    keeps_columns: bool,
) -> dict[str, Dataset]:
    """Return datasets as a patch has them; raise for more than a working copy can show as edits.

    `odd` is what a patch has besides edits of datasets; `keeps_columns` refuses other columns.
    """
    views, unseen = {}, list(odd)
    for edit in edits:
        if edit.path not in transaction.folders:
            unseen.append(edit.path)
            continue
        old = transaction.dataset(edit.path)
        views[edit.path] = old.after(edit)
        if keeps_columns and old.schema.by_id.keys() != views[edit.path].schema.by_id.keys():
            raise NotYetSupportedError(
                f"columns cannot be added or dropped as edits: {edit.path}",
                hints=("apply it without --no-commit",),
            )
        if living.unseen(old, views[edit.path]):
            unseen.append(edit.path)
    if unseen:
        raise PatchError(
            f"the patch changes more of {unseen[0]} than {living.name} can show as edits",
            hints=("apply it without --no-commit",),
        )
    return views


def _files(patch: Patch, repo: OpenRepo, head: str | None) -> dict[str, Change]:
    """Return what becomes of files beside datasets, which are what the patch says they were."""
    changes: dict[str, Change] = {}
    for file in patch.files:
        reason = not_a_users_file(file.path)
        if reason is not None:
            raise PatchError(f"the patch cannot change the file {file.path!r}: {reason}")
        tree = None if head is None else repo.resolve(head).tree
        there = None if tree is None else read_blob(repo.git.objects, tree, file.path)
        if there != file.old:
            raise PatchError(
                f"the file {file.path!r} is not what the patch says it was",
                hints=("make the patch from the version that it is applied to",),
            )
        changes[file.path] = file.new
    return changes


def _author(patch: Patch, repo: OpenRepo) -> Signature | None:
    if patch.author_name is None or patch.author_email is None:
        return None
    now = repo.git.author if patch.author_time is None else None
    if now is not None:
        return Signature(patch.author_name, patch.author_email, now.time, now.offset)
    return Signature(
        patch.author_name, patch.author_email, patch.author_time or 0, patch.author_offset or 0
    )


def _removes(part: DatasetPatch) -> bool:
    schema = next((change for change in part.meta if change.name == "schema.json"), None)
    return schema is not None and schema.new is None


def _removed(part: DatasetPatch, view: Dataset, own: OwnSystem | None) -> ChangeCounts:
    """Check that a patch which removes a dataset knows all of it; return the rows that go."""
    if any(change.new is not None for change in part.features):
        raise PatchError(f"the patch removes {part.path} and brings rows to it")
    with view.edit() as edit:
        if part.features:
            edit.collect(_changes(part, view, view.schema, own))
        if edit.counts.deletes != view.rows:
            raise PatchError(
                f"the patch removes {part.path}, which has {view.rows:,} rows, "
                f"and knows {edit.counts.deletes:,} of them",
                hints=("make the patch from the version that it is applied to",),
            )
        return edit.counts


def _check_meta(part: DatasetPatch, view: Dataset, base: str | None) -> None:
    """Raise unless the meta items are what a patch says that they were.

    Of an item that is there it may leave that out, if it names the commit that it is made on.
    """
    first: PatchError | None = None
    lines = []
    for change in part.meta:
        there = view.header.meta.get(change.name)
        item = f"meta item {change.name!r} of {part.path}"
        if change.old is not None and there != change.old:
            verb = "delete" if there is None and change.new is None else "update"
            what = f"{verb} {'nonexistent' if there is None else 'out-of-date'} meta item"
            error = PatchError(f"{item} is not what the patch says it was")
        elif change.old is None and there not in (None, change.new) and base is None:
            what = "create meta item that already exists"
            error = PatchError(
                f"{item} is there already, and the patch does not say what it was",
                hints=("let the patch say it in `-`, or name its `base`",),
            )
        else:
            continue
        first = first or error
        lines.append(f"{part.path}: Trying to {what}: {change.name}")
    if first is not None:
        first.said = (*lines, "Error: Patch does not apply")
        raise first


def _edited(part: DatasetPatch, view: Dataset, own: OwnSystem | None) -> TreeEdit:
    """Return the edit that a patch makes of a dataset."""
    items = {change.name: change.new for change in part.meta}
    schema, documents = meta_documents(view, items, keep_ids=True)
    if schema.identifier_ids != view.schema.identifier_ids:
        raise InvalidArgumentError("a patch cannot change a dataset's key")
    more, edit = view.evolved(schema)
    with edit:
        edit.add_documents(documents)
        if part.features:
            if not view.key and any(change.old and change.new for change in part.features):
                raise PatchError(f"{part.path} has no key: rows are deleted and inserted")
            edit.spell(change.new for change in part.features if change.new)
            after = header_after(part, view.header, schema)
            changes = _changes(part, view, schema, own)
            edit.collect(within_limits(part.path, after, changes))
        if not edit.counts.total and not documents and not more:
            return TreeEdit(part.path, {})
        return edit.finish()


def _changes(
    part: DatasetPatch, view: Dataset, schema: Schema, own: OwnSystem | None
) -> Iterator[ChangeBatch]:
    """Yield a patch's changes, whole and in key order."""
    olds, news, has_old, has_new = [], [], [], []
    header = header_after(part, view.header, schema)
    for batch in own_batches(part, view.schema, header, own):
        old, new, first, second = _whole(batch, view, schema, part.path)
        olds.append(old)
        news.append(new)
        has_old.append(first)
        has_new.append(second)
    old, new = pa.concat_batches(olds), pa.concat_batches(news)
    sides = (pa.concat_arrays(has_old), pa.concat_arrays(has_new))
    yield from sorted_changes(old, new, *sides, (view.schema, schema))


def _whole(
    batch: PatchBatch, view: Dataset, schema: Schema, path: str
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.BooleanArray, pa.BooleanArray]:
    """Return both halves of some changes with every column, and which of them count."""
    old = rows_of(batch.changes.old, view.schema)
    new = rows_of(batch.changes.new, schema)
    has_old, has_new = pc.is_valid(batch.changes.old), pc.is_valid(batch.changes.new)
    partial = set(batch.given_old) != set(view.schema.names) and pc.any(has_old).as_py()
    partial |= set(batch.given_new) != set(schema.names) and pc.any(has_new).as_py()
    if not schema.key or not (partial or batch.upsert):
        return old, new, has_old, has_new
    keys = pa.RecordBatch.from_arrays(
        [
            pc.if_else(has_new, new.column(f.name), old.column(view.schema.by_id[f.id].name))
            for f in schema.key.fields
        ],
        schema=arrow_schema(view.schema.select(view.key.names)),
    )
    current = view.rows_with_keys(keys)
    found = aligned(current, keys, view.schema)
    there = pc.is_valid(found)
    if batch.upsert:
        has_old = there
        missing = [name for name in schema.names if name not in batch.given_new]
        if missing and view.in_files is None and not pc.all(there).as_py():
            raise PatchError(
                f"{path}: Cannot insert new feature {_first_key(keys, pc.invert(there))} "
                f"with missing fields: {', '.join(sorted(missing))}"
            )
    elif not pc.all(pc.or_(there, pc.invert(has_old))).as_py():
        raise PatchError(f"{path} has no row {_first_key(keys, pc.and_not(has_old, there))}")
    was = pc.take(current, found)
    old = _filled(old, batch.given_old if not batch.upsert else (), was, view.schema, view.schema)
    new = _filled(new, batch.given_new, was, schema, view.schema)
    if not batch.upsert:
        return old, new, has_old, has_new
    # A row that is as it was is no change.
    different = arrow_array(~equal_rows(old, new, view.schema, schema))
    keep = pc.or_(different, pc.invert(there))
    return (
        pc.filter(old, keep),
        pc.filter(new, keep),
        pc.filter(has_old, keep),
        pc.filter(has_new, keep),
    )


def _first_key(keys: pa.RecordBatch, chosen: pa.BooleanArray) -> str:
    """Return the first key that is chosen, for a person."""
    where = int(np.flatnonzero(chosen.to_numpy(zero_copy_only=False))[0])
    return describe_key(tuple(column[where].as_py() for column in keys.columns))


def _filled(
    rows: pa.RecordBatch,
    given: tuple[str, ...],
    was: pa.RecordBatch,
    schema: Schema,
    before: Schema,
) -> pa.RecordBatch:
    """Return rows whose columns that are not given have the values that were there."""
    target = arrow_schema(schema)
    columns = []
    for field, column in zip(schema.fields, rows.columns, strict=True):
        known = before.by_id.get(field.id)
        if field.name not in given and known is not None:
            column = pc.cast(was.column(known.name), target.field(field.name).type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def not_a_users_file(path: str) -> str | None:
    """Return why a file is none that a person may commit beside datasets; None where it is."""
    reason = unsafe_reason(path)
    if reason is None and (
        set(path.split("/")) & set(DATASET_MARKERS) or path in (KART_VERSION, OLD_VERSION)
    ):
        return "it is none of the user's files"
    return reason


def commit_files(
    repo: OpenRepo,
    files: Mapping[str, bytes | None],
    message: str,
    *,
    ref: str | None = None,
    allow_empty: bool = False,
) -> CommitResult:
    """Commit what files are to hold, None for none, to HEAD or to another branch."""
    branch = other_branch(repo, ref)
    if not repo.git.follows_kart:
        raise NotYetSupportedError(
            "files are committed so in Kart's repositories alone",
            hints=("`git add FILE` and `git commit` commit files here",),
        )
    for path in files:
        if (reason := not_a_users_file(path)) is not None:
            raise InvalidArgumentError(f"{path!r} cannot be committed: {reason}")
    Workspace(repo).require_clean_in_karts()
    with Transaction(repo, branch=branch) as transaction:
        head = transaction.head.commit
        tree: ObjectId | None = None if head is None else repo.resolve(head).tree
        changed = {
            path: data
            for path, data in files.items()
            if data != (None if tree is None else read_blob(repo.git.objects, tree, path))
        }
        if not changed and not allow_empty and repo.amended is None:
            raise NoChangesError("no file differs; nothing is committed")
        merge = MergedTree(changed, {}, ()) if changed else None
        identity = transaction.commit((), message, merge=merge)
    return CommitResult(identity, branch or repo.head_branch)
