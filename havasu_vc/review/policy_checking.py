"""A repository's policy against a review, a commit that is about to be made, or a range.

The policy is the one of the side that is changed, not of the change, so that a branch
cannot loosen what it is checked by; where that side has none, it is that of the change.

A policy against the changes of one dataset: it sees each batch once, and says what it found.

Only rows that come are looked at, inserted or updated; what stood there before is taken as
it is. Uniqueness needs more: the columns in question of the whole new version, read when
all changes have gone by, and only if some change touched them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import SchemaViolationError
from havasu_vc.geo.bounds import reach_of_rows
from havasu_vc.history.diff import bytes_between, diff_datasets
from havasu_vc.looking import lost_values
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.hashing import Hashes, hash_values
from havasu_vc.model.names import POLICY_FILE
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Struct
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import broken_datasets
from havasu_vc.review.geometry_tally import readable_rows
from havasu_vc.review.policy import Policy, Rules, parse_policy
from havasu_vc.review.report import FlagKind, PolicyFinding
from havasu_vc.review.requests import BrokenRequest
from havasu_vc.review.summarising import BatchFindings, Means, summarise
from havasu_vc.review.words import column_words, quoted
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import read_blob
from havasu_vc.writers.values import key_labels

if TYPE_CHECKING:
    from havasu_vc.exchange.duckdb import RowExpressions

__all__ = [
    "DatasetCheck",
    "PolicyWatch",
    "broken_findings",
    "check_edits",
    "check_moves",
    "policy_between",
    "read_policy",
    "schema_changes",
]

_Versions: TypeAlias = tuple[str, Dataset | None, Dataset | None]


def read_policy(repo: OpenRepo, revision: Revision) -> Policy | None:
    """Return the policy of a revision; None where it has none."""
    data = read_blob(repo.git.objects, revision.tree, POLICY_FILE)
    if data is None:
        return None
    return parse_policy(data, f"{POLICY_FILE} of {revision.name}")


def policy_between(
    repo: OpenRepo, old: Revision, new: Revision
) -> tuple[Policy | None, tuple[str, ...]]:
    """Return the policy for what changes between two revisions, and what to know of it."""
    texts = [read_blob(repo.git.objects, end.tree, POLICY_FILE) for end in (old, new)]
    if texts[0] is None:
        return read_policy(repo, new), ()
    if texts[0] == texts[1]:
        return read_policy(repo, old), ()
    note = f"the policy changes too; what is checked here is that of `{old.name[:40]}`"
    return read_policy(repo, old), (note,)


class PolicyWatch:
    """Holds a policy against each dataset whose changes go by."""

    def __init__(self, repo: OpenRepo, policy: Policy) -> None:
        self._repo, self._policy = repo, policy
        self._checks: list[DatasetCheck] = []
        self.unread: list[str] = []
        """Datasets of which rows could not be read."""

    def __call__(
        self, diff: DatasetDiff, old: Dataset | None, new: Dataset | None
    ) -> _Checks | None:
        """Return what sees the changes of a dataset; None where no rule is for it."""
        rules = self._policy.of(diff.path)
        if not rules:
            return None
        rows = 0 if old is None else old.rows
        scan = None if new is None else _Scan(self._repo, new)
        found = [DatasetCheck(each, diff, rows_before=rows, scan=scan) for each in rules]
        self._checks += found
        return _Checks(tuple(found))

    def findings(self) -> tuple[PolicyFinding, ...]:
        """Return what is against the policy, after all changes went by."""
        found = [finding for check in self._checks for finding in check.findings()]
        for path in self.unread:
            if rules := self._policy.of(path):
                refuses = any(each.refuses for each in rules)
                text = "not all rows could be read, so they are not checked"
                found.append(PolicyFinding("data", text, refuses, path))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Checks:
    """The rules of several entries at once."""

    checks: tuple[DatasetCheck, ...]

    def see(self, seen: BatchFindings) -> None:
        for check in self.checks:
            check.see(seen)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Reads columns of a version."""

    repo: OpenRepo
    view: Dataset

    def __call__(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        with self.repo.settings.open_engine(self.view.size) as engine:
            yield from engine.run(self.view.scan(tuple(columns)), description="Looking for equals")


def check_edits(
    repo: OpenRepo, storage: Storage, edits: Sequence[TreeEdit], base: Revision
) -> None:
    """Hold the policy of a revision against what is to be committed upon it.

    Warnings are told; what is refused raises `SchemaViolationError`.
    """
    policy = read_policy(repo, base)
    if policy is not None:
        _hold(repo, policy, _edited_versions(repo, storage, edits, base))


def check_moves(repo: OpenRepo, moves: Mapping[str, str | None], base: Revision) -> None:
    """Hold the policy of a revision against datasets that go, or get another path."""
    policy = read_policy(repo, base)
    if policy is not None:
        _hold(repo, policy, _moved_versions(repo, moves, base))


def _moved_versions(
    repo: OpenRepo, moves: Mapping[str, str | None], base: Revision
) -> Iterable[_Versions]:
    folders = repo.folders(base)
    for path, new in moves.items():
        view = repo.view(folders[path], base.name)
        yield path, view, None
        if new is not None:
            yield new, None, view


def _engine(repo: OpenRepo, old: Dataset | None, new: Dataset | None) -> Engine:
    return repo.settings.open_engine(bytes_between(old, new))


def _hold(repo: OpenRepo, policy: Policy, versions: Iterable[_Versions]) -> None:
    """Tell what is warned of datasets before and after; raise for what is refused."""
    watch = PolicyWatch(repo, policy)
    for path, old, new in versions:
        if not policy.of(path):
            continue
        diff = diff_datasets(path, old, new, partial(_engine, repo, old, new))
        check = watch(diff, old, new)
        summarise(diff, Means(samples=0), [] if check is None else [check])
    refused = []
    for finding in watch.findings():
        text = f"{finding.dataset}: {finding.message.replace('`', '')}"
        if finding.rows:
            text += f" ({', '.join(finding.rows)}{', …' if finding.count > 5 else ''})"
        if finding.refuses:
            refused.append(text)
        else:
            repo.settings.note(f"policy: {text}")
    if refused:
        raise SchemaViolationError(
            f"the policy refuses this commit: {'; '.join(refused)}",
            hints=("mend the rows, or commit with --no-verify",),
        )


def broken_findings(repo: OpenRepo, request: BrokenRequest) -> tuple[PolicyFinding, ...]:
    """Return the broken datasets of a revision, which are against every policy."""
    since = request.since
    before = () if since is None else broken_datasets(repo, since)
    broken = broken_datasets(repo, request.revision).items()
    found = [each for each in broken if each[0] not in before or each[0] in request.changed]
    known = () if since is None or since.commit is None else (since.commit,)
    found += lost_values(repo, [request.revision], known)
    return tuple(
        PolicyFinding("broken", error.message, request.refuses, path) for path, error in found
    )


def _edited_versions(
    repo: OpenRepo, storage: Storage, edits: Sequence[TreeEdit], base: Revision
) -> Iterable[_Versions]:
    """Yield the datasets that edits change, before and after."""
    from havasu_vc.repo.rebasing import after_edit  # here, as with it all of merging is loaded

    folders = repo.folders(base)
    for edit in edits:
        folder = folders.get(edit.path)
        old = None if folder is None else repo.view(folder, base.name)
        if old is not None:
            old = old.with_storage(storage)
            yield edit.path, old, after_edit(old, edit, storage)


SHOWN = 5
"""Rows that are named of each finding."""
MOST_HASHES = 4_000_000
"""Rows that a uniqueness rule looks up; of a larger change these are the first."""
_Bools = npt.NDArray[np.bool_]
Scan = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads columns of the new version."""


class _Tally:
    """Rows that break one rule: how many, and the names of some."""

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[str] = []

    def add(self, flags: _Bools, labels: pa.StringArray) -> None:
        count = int(flags.sum())
        self.count += count
        if count and len(self.rows) < SHOWN:
            chosen = np.flatnonzero(flags)[: SHOWN - len(self.rows)]
            self.rows += [str(name) for name in pc.take(labels, pa.array(chosen)).to_pylist()]


class DatasetCheck:
    """Holds the rules of one `[[dataset]]` against the changes of a dataset."""

    def __init__(
        self, rules: Rules, diff: DatasetDiff, *, rows_before: int, scan: Scan | None
    ) -> None:
        self._rules, self._diff = rules, diff
        self._rows_before, self._scan = rows_before, scan
        self._deletes = 0
        self._tallies: dict[tuple[str, str, bool], _Tally] = {}
        self._schema = None if diff.new is None else diff.new.schema
        names = set() if self._schema is None else set(self._schema.names)
        self._unique = [names_ for names_ in rules.unique if names.issuperset(names_)]
        self._hashes: dict[tuple[str, ...], list[Hashes]] = {each: [] for each in self._unique}
        self._hashed = 0
        self._expressions: RowExpressions | None = None
        if rules.checks and self._schema:
            from havasu_vc.exchange.duckdb import RowExpressions

            self._expressions = RowExpressions()

    def see(self, seen: BatchFindings) -> None:
        """Look at a batch of changes."""
        batch, schema = seen.batch, self._schema
        self._deletes += batch.new.null_count
        if schema is None or batch.new.null_count == len(batch):
            return
        here = pc.is_valid(batch.new)
        come = pc.filter(batch.new, here)
        where = here.to_numpy(zero_copy_only=False)
        rows = pa.RecordBatch.from_struct_array(come)
        labels = key_labels(come, schema)
        self._see_required(rows, labels)
        if self._rules.valid_geometry and FlagKind.INVALID_GEOMETRY in seen.flags:
            flags = seen.flags[FlagKind.INVALID_GEOMETRY][where]
            self._add("valid-geometry", "with a geometry that is not valid", flags, labels)
        self._see_bounds(rows, labels)
        self._see_unique(rows)
        for check in self._rules.checks if self._expressions is not None else ():
            assert self._expressions is not None
            flags = self._expressions.false_rows(rows, check.sql)
            text = f"against the check {quoted(check.name)}"
            self._add("check", text, flags, labels, refuses=check.refuses)

    def _add(
        self,
        rule: str,
        text: str,
        flags: _Bools,
        labels: pa.StringArray,
        *,
        refuses: bool | None = None,
    ) -> None:
        refuses = self._rules.refuses if refuses is None else refuses
        self._tallies.setdefault((rule, text, refuses), _Tally()).add(flags, labels)

    def _see_required(self, rows: pa.RecordBatch, labels: pa.StringArray) -> None:
        for name in self._rules.required_columns:
            if name in rows.schema.names:
                column = rows.column(name)
                if column.null_count:
                    flags = pc.is_null(column).to_numpy(zero_copy_only=False)
                    self._add("required-columns", f"without {quoted(name)}", flags, labels)

    def _see_bounds(self, rows: pa.RecordBatch, labels: pa.StringArray) -> None:
        wanted = self._rules.bounds
        if wanted is None or self._schema is None:
            return
        outside = np.zeros(rows.num_rows, np.bool_)
        for field in self._schema.geometries:
            if field.geometry is None:
                continue
            encoding = field.geometry.encoding
            column = rows.column(field.name)
            read = partial(reach_of_rows, encoding=encoding, edges=field.edges)
            for some, found in readable_rows(column, read):
                if found is None:
                    outside[some] = True
                    continue
                with np.errstate(invalid="ignore"):
                    outside[some] |= (found[:, :2] < wanted[:2]).any(axis=1)
                    outside[some] |= (found[:, 2:] > wanted[2:]).any(axis=1)
        corners = " ".join(f"{number:.10g}" for number in wanted)
        self._add("bounds", f"outside of {corners}", outside, labels)

    def _see_unique(self, rows: pa.RecordBatch) -> None:
        if self._hashed >= MOST_HASHES or self._schema is None:
            return
        for names, kept in self._hashes.items():
            kept.append(_row_hashes(rows, names, self._schema))
        self._hashed += rows.num_rows

    def findings(self) -> Iterator[PolicyFinding]:
        """Yield what is against the rules, when all changes have gone by."""
        if self._expressions is not None:
            self._expressions.close()
        yield from self._about_the_whole()
        for (rule, text, refuses), tally in self._tallies.items():
            if tally.count:
                yield self._finding(
                    rule,
                    f"{_rows(tally.count)} {text}",
                    refuses=refuses,
                    count=tally.count,
                    rows=tuple(tally.rows),
                )
        yield from self._not_unique()

    def _finding(
        self,
        rule: str,
        message: str,
        *,
        refuses: bool | None = None,
        count: int = 0,
        rows: tuple[str, ...] = (),
    ) -> PolicyFinding:
        refuses = self._rules.refuses if refuses is None else refuses
        return PolicyFinding(rule, message, refuses, self._diff.path, count, rows)

    def _about_the_whole(self) -> Iterator[PolicyFinding]:
        rules, diff, deletes = self._rules, self._diff, self._deletes
        if diff.new is None and not rules.allow_removal:
            yield self._finding("allow-removal", "the dataset is removed")
        if rules.max_deletes is not None and deletes > rules.max_deletes:
            text = f"{_rows(deletes)} deleted, and {rules.max_deletes:,} may be"
            yield self._finding("max-deletes", text, count=deletes)
        share = deletes / self._rows_before if self._rows_before else 0.0
        if rules.max_delete_share is not None and share > rules.max_delete_share:
            text = f"{share:.3%} of the rows deleted, and {rules.max_delete_share:.3%} may be"
            yield self._finding("max-delete-share", text, count=deletes)
        if diff.new is None:
            return
        for name in rules.required_columns:
            if name not in diff.new.schema.names:
                yield self._finding("required-columns", f"column {quoted(name)} is not there")
        for names in rules.unique:
            if names not in self._unique:
                lacking = next(name for name in names if name not in diff.new.schema.names)
                yield self._finding("unique", f"column {quoted(lacking)} is not there")
        if rules.schema_changes is not None and diff.old is not None:
            for kind, text in schema_changes(diff.old, diff.new):
                if kind not in rules.schema_changes:
                    yield self._finding("schema-changes", text)

    def _not_unique(self) -> Iterator[PolicyFinding]:
        schema = self._schema
        if schema is None or self._scan is None:
            return
        for names, kept in self._hashes.items():
            suspects = np.unique(np.concatenate(kept)) if kept else np.zeros(0, np.uint64)
            suspects = suspects[suspects != 0]
            if not len(suspects):
                continue
            counts = np.zeros(len(suspects), np.int64)
            wanted = tuple(name for name in schema.names if name in names)
            for rows in self._scan(wanted):
                hashes = _row_hashes(rows, names, schema)
                places = np.minimum(np.searchsorted(suspects, hashes), len(suspects) - 1)
                hits = places[suspects[places] == hashes]
                counts += np.bincount(hits, minlength=len(suspects))
            shared = int((counts > 1).sum())
            if shared:
                listed = ", ".join(map(quoted, names))
                what = "value" if len(names) == 1 else "set of values"
                text = f"{shared:,} {what}{'' if shared == 1 else 's'} of {listed} in several rows"
                yield self._finding("unique", text, count=int(counts[counts > 1].sum()))


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


def _row_hashes(rows: pa.RecordBatch, names: tuple[str, ...], schema: Schema) -> Hashes:
    """Return a hash of some columns of each row; 0 where one of them is null."""
    fields = tuple(schema.by_name[name] for name in names)
    columns = [rows.column(name) for name in names]
    struct = pa.StructArray.from_arrays(columns, list(names))
    hashes = hash_values(struct, Field(1, "row", Struct(fields)))
    lacking = np.zeros(rows.num_rows, np.bool_)
    for column in columns:
        lacking |= pc.is_null(column).to_numpy(zero_copy_only=False)
    return np.where(lacking, np.uint64(0), np.maximum(hashes, np.uint64(1)))


def schema_changes(old: DatasetHeader, new: DatasetHeader) -> Iterator[tuple[str, str]]:
    """Yield what happened to a schema: its kind, and it in words."""
    before, after = old.schema.by_id, new.schema.by_id
    for number in {**before, **after}:
        first, second = before.get(number), after.get(number)
        words = column_words(first, second)
        kinds = list(_column_changes(first, second))
        if len(words) != len(kinds):  # such as another encoding, which has no words
            name = (second or first or old.schema.fields[0]).name
            words = [f"column {quoted(name)} changes"] * len(kinds)
        yield from zip(kinds, words, strict=True)
    if old.schema.key.names != new.schema.key.names:
        yield "change-key", "the key is another one"
    common = [field.id for field in old.schema.fields if field.id in after]
    if common != [field.id for field in new.schema.fields if field.id in before]:
        yield "reorder-columns", "columns are in another order"
    for name in sorted({**old.crs, **new.crs}):
        if old.crs.get(name) != new.crs.get(name):
            yield "change-crs", f"coordinate reference system {quoted(name)} changes"


def _column_changes(old: Field | None, new: Field | None) -> Iterator[str]:
    """Yield the kinds of what `column_words` says, in its order."""
    if old is None or new is None:
        yield "add-column" if old is None else "remove-column"
        return
    if old.name != new.name:
        yield "rename-column"
    if (old.type, old.geometry, old.raster) != (new.type, new.geometry, new.raster):
        systems = [None if each.geometry is None else each.geometry.crs for each in (old, new)]
        both = old.geometry is not None and new.geometry is not None
        yield "change-crs" if both and systems[0] != systems[1] else "change-type"
    if old.required != new.required:
        yield "change-nullability"
