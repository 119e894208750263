"""Edits in a living working copy: what of each table differs from the dataset it was made of.

Keys that the file tracked are looked up on both sides, and rows that are equal vanish, so cost
follows the edits. That nothing else changed is checked: every trigger must be there, and the
rows that nobody touched must be as many as in the dataset. Where that fails, the whole table
is compared with the whole dataset, and said to be.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from random import Random

import pyarrow as pa

from havasu_vc.checkouts.living_area import ShownPart, outside, part_of
from havasu_vc.checkouts.living_place import left_out
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.datasets.limits import within_limits
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.errors import (
    HavasuError,
    InvalidFileError,
    RevisionNotFoundError,
    StateError,
    WorkingCopyStateError,
)
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_seen import Seen
from havasu_vc.exchange.living_store import LivingStore
from havasu_vc.history.diff import diff_datasets
from havasu_vc.history.partners import partners
from havasu_vc.merging import merged_tree
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, ascending_order
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, MetaChange, meta_changes
from havasu_vc.model.evolution import check_evolution, field_ids, with_stored_names
from havasu_vc.model.names import TABLES
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.edits import BATCH_ROWS, aligned
from havasu_vc.repo.filters import RepoFilter
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import find_entry

ATTACHED = "metadata.xml"
"""The file beside a Kart dataset that its layer carries."""

__all__ = [
    "Base",
    "LayerEdits",
    "base_of",
    "base_views",
    "goal_of",
    "in_full",
    "layer_of",
    "left_out_at",
    "note_beside",
    "read_layer",
    "rows_standing",
]


@dataclass(frozen=True, slots=True)
class Base:
    """The tree that a working copy has the rows of."""

    revision: Revision
    """It, under the name of the commit where that is known."""
    views: dict[str, Dataset]
    """Its tables, by path."""


def goal_of(repo: OpenRepo) -> Revision:
    """Return what a working copy is to have: HEAD, with what a merge that waits has merged."""
    tree = merged_tree(repo.git)
    return repo.head() if tree is None else Revision("the merge that waits", None, tree)


def base_of(repo: OpenRepo, file: LivingStore) -> Base:
    """Return the datasets that a working copy was made of, or brought to last."""
    goal = goal_of(repo)
    tree = file.tree or EMPTY_TREE
    revision = goal if goal.tree == tree else Revision(f"tree {tree[:10]}", None, tree)
    if tree != EMPTY_TREE and not repo.git.objects.has(tree):
        raise WorkingCopyStateError(
            f"{file.name} has the rows of the tree {tree[:10]}, which is not in this repository",
            hints=("move it away, then `havasu-vc create-workingcopy` makes another",),
        )
    return Base(revision, base_views(repo, revision))


def base_views(repo: OpenRepo, revision: Revision) -> dict[str, Dataset]:
    """Return the tables of a revision, those aside that the settings leave out."""
    without = left_out(repo.git)
    return {
        path: repo.view(folder, revision.name)
        for path, folder in repo.folders(revision).items()
        if folder.marker in TABLES and path not in without
    }


def layer_of(file: LivingStore, view: Dataset) -> Layer:
    """Return how a dataset stands, or would stand, in a working copy."""
    table = file.table_of(view.path)
    return file.plan(view.header, view.columns_item(view.schema), table)


def left_out_at(repo: OpenRepo, revision: Revision) -> tuple[str, ...]:
    """Return the datasets of a revision that the settings leave out of the working copy."""
    without = left_out(repo.git)
    here = repo.folders(revision) if without else {}
    return tuple(path for path in without if path in here)


def note_beside(
    repo: OpenRepo, file: LivingStore, views: Mapping[str, Dataset], old: str, new: str
) -> None:
    """Have a working copy carry what stands beside datasets: metadata, and which are left out."""
    objects = repo.git.objects
    for path, view in views.items():
        was, now = (find_entry(objects, tree, f"{path}/{ATTACHED}") for tree in (old, new))
        if now is not None:
            text = objects.read(now.id)[1].decode("utf-8", "replace")
            file.attach(layer_of(file, view), text)
        elif was is not None:
            file.attach(layer_of(file, view), None)
    for path in left_out(repo.git):
        file.set_state(path, "checkout", "false")
    for path in views:
        if find_entry(objects, old, path) is None:  # one of that name may have been left out
            file.set_state(path, "checkout", None)


@dataclass(frozen=True, slots=True)
class LayerEdits:
    """Edits of one table."""

    base: Dataset
    """The dataset that it was made of."""
    layer: Layer
    """How that stands as a table."""
    seen: Seen | None
    """How the table stands now; None where it is gone."""
    schema: Schema
    """The columns now."""
    batches: tuple[ChangeBatch, ...]
    """Rows that differ, in key order."""
    keys: pa.RecordBatch | None
    """The keys that were looked at; None for all."""
    notes: tuple[str, ...] = ()
    """Notes for a person, one line each."""
    others: tuple[ChangeBatch, ...] = ()
    """Rows that differ as well, and are left as they stand."""
    counted: ChangeCounts | None = None
    """How many rows differ, where they were only counted, so that `batches` has none."""
    hidden: pa.RecordBatch | None = None
    """Keys of rows that were inserted and that the dataset has outside of the spatial filter."""
    said: Mapping[str, str | None] = field(default_factory=dict)
    """Meta items that the table says otherwise, as text; None for one that is gone."""

    @property
    def path(self) -> str:
        """The dataset's path."""
        return self.base.path

    @property
    def tree(self) -> str:
        """The tree of the dataset that it was made of."""
        folder = self.base.folder
        return folder.tree if isinstance(folder, TreeFolder) else ""

    @property
    def is_dropped(self) -> bool:
        """Whether the table is gone."""
        return self.seen is None

    @property
    def counts(self) -> ChangeCounts:
        """How many rows differ; of a table that is gone, all."""
        if self.is_dropped:
            return ChangeCounts(deletes=self.base.rows)
        if self.counted is not None:
            return self.counted
        return sum((batch.counts for batch in self.batches), ChangeCounts())

    @property
    def header(self) -> DatasetHeader:
        """The dataset's description of itself with these edits."""
        header = self.base.header
        meta = {**header.meta, **self.said}
        if self.schema != self.base.schema:
            meta["schema.json"] = self.base.columns_item(self.schema)
        there = {name: value for name, value in meta.items() if value is not None}
        return replace(header, schema=self.schema, meta=there)

    @property
    def meta(self) -> tuple[MetaChange, ...]:
        """Meta items that differ."""
        return meta_changes(self.base.header, None if self.is_dropped else self.header)

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        rows = self.batches or (self.counted is not None and self.counted.total)
        return not (self.is_dropped or rows or self.said or self.schema != self.base.schema)

    def diff(self, repo: OpenRepo) -> DatasetDiff:
        """Return how the table differs from the dataset."""
        if self.is_dropped:
            size = self.base.size
            return diff_datasets(
                self.path, self.base, None, lambda: repo.settings.open_engine(size)
            )
        return DatasetDiff(self.path, self.base.header, self.header, self.meta, iter(self.batches))

    def chosen(self, repo: OpenRepo, wanted: RepoFilter) -> LayerEdits | None:
        """Return the edits that a filter means, beside which others stay; None for none."""
        filter_ = wanted.of(self.path)
        if filter_ is None or self.is_empty:
            return None
        if filter_.is_whole:
            return self
        if self.is_dropped:
            raise StateError(
                f"the table of {self.path} is gone, so nothing in it can be chosen",
                hints=(
                    f"name {self.path} as a whole, or `havasu-vc restore {shlex.quote(self.path)}`",
                ),
            )
        every_row = filter_.rows and filter_.keys is None
        if not (every_row or self.base.key):
            raise StateError(f"{self.path} has no key, so its edits are committed together")
        part = wanted.apply(self.diff(repo))
        batches = () if part is None else tuple(each for each in part.changes if len(each))
        named = {each.name for each in part.meta} if part is not None else set()
        evolves = "schema.json" in named
        said = {name: text for name, text in self.said.items() if name in named}
        if evolves:  # a system of coordinates goes with the columns that are in it
            said |= {n: text for n, text in self.said.items() if n.startswith("crs/")}
        if batches and self.schema != self.base.schema and not evolves:
            raise StateError(
                f"the columns of {self.path} were edited, so its rows are committed with them",
                hints=(f"name {self.path}:meta as well, or before",),
            )
        if not batches and not evolves and not said:
            return None
        schema = self.schema if evolves else self.base.schema
        one = replace(self, batches=batches, schema=schema, said=said)
        if one.hidden is not None:
            known = pc.is_valid(partners(one.hidden, one.row_keys))
            one = replace(one, hidden=pc.filter(one.hidden, known))
        if every_row:
            return one
        keys = one.row_keys
        others = [
            ChangeBatch(pc.filter(each.data, pc.is_null(partners(self._keys_of(each), keys))))
            for each in self.batches
        ]
        return replace(one, keys=keys, others=tuple(filter(len, others)))

    def beside(self, layer: Layer) -> Layer:
        """Return a layer with what the table says of itself and these edits do not."""
        said = {} if self.seen is None else dict(self.seen.said)
        stays = {name: text for name, text in said.items() if name not in self.said}
        meta = {**layer.header.meta, **stays}
        there = {name: text for name, text in meta.items() if text is not None}
        return replace(layer, header=replace(layer.header, meta=there)) if stays else layer

    def all_left(self) -> LayerEdits:
        """Return them with all rows left as they stand."""
        return replace(self, batches=(), others=(*self.batches, *self.others), hidden=None)

    @property
    def conflicts(self) -> int:
        """How many rows have the key of a row outside of the spatial filter."""
        return 0 if self.hidden is None else int(self.hidden.num_rows)

    @property
    def row_keys(self) -> pa.RecordBatch:
        """The keys of rows that differ, those left as they stand aside."""
        return self._keys(self.batches)

    @property
    def other_keys(self) -> pa.RecordBatch:
        """The keys of rows that differ and are left as they stand."""
        return self._keys(self.others)

    def _keys(self, batches: Sequence[ChangeBatch]) -> pa.RecordBatch:
        found = [self._keys_of(batch) for batch in batches]
        only = self.schema.select(self.schema.key.names)
        return _one(pa.Table.from_batches(found, arrow_schema(only)), only)

    def _keys_of(self, batch: ChangeBatch) -> pa.RecordBatch:
        """Return the key of each change."""
        only = self.schema.select(self.schema.key.names)
        columns = []
        for each, type_ in zip(only.fields, arrow_schema(only).types, strict=True):
            sides = [
                pc.cast(pc.struct_field(side, schema.by_id[each.id].name), type_)
                for side, schema in ((batch.new, self.schema), (batch.old, self.base.schema))
            ]
            columns.append(pc.coalesce(*sides))
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(only))

    def edit(self, base: Dataset, *, any_value: bool = False) -> TreeEdit:
        """Return the edit of the dataset; `base` is it with the storage of a transaction.

        Values beyond the limits of their columns are refused, or kept with `any_value`.
        """
        rows = self.batches if any_value else within_limits(self.path, self.header, self.batches)
        documents = {
            f"meta/{name}": None if text is None else text.encode()
            for name, text in self.said.items()
        }
        if self.schema == self.base.schema:
            if not (self.batches or documents):
                return TreeEdit(self.path, {}, marker=base.marker)
            with base.edit() as edit:
                edit.add_documents(documents)
                edit.collect(iter(rows))
                return edit.finish()
        _, evolved = base.evolved(self.schema)
        with evolved:
            evolved.add_documents(documents)
            evolved.collect(iter(rows))
            return evolved.finish()


def read_layer(
    repo: OpenRepo, file: LivingStore, base: Dataset, *, only_count: bool = False
) -> LayerEdits:
    """Return what differs in the table of a dataset; rows may only be counted."""
    layer = layer_of(file, base)
    seen = file.look(layer)
    if seen is None:
        return LayerEdits(base, layer, None, base.schema, (), None)
    edits = _read_rows(repo, file, base, layer, seen, only_count=only_count)
    if not seen.said:
        return edits
    said, schema = _described(base, edits.schema, seen)
    return replace(edits, said=said, schema=schema)


def _described(base: Dataset, schema: Schema, seen: Seen) -> tuple[dict[str, str | None], Schema]:
    """Return the meta items that a table says otherwise, and its columns in its system."""
    said = dict(seen.said)
    definition, main = said.pop("crs", None), seen.layer.geometry
    if definition is None or main is None or main.id not in schema.by_id:
        return said, schema
    from havasu_vc.geo.crs import parse_crs

    text = base.crs_item(definition).decode()
    name, field_now = parse_crs(definition).identifier, schema.by_id[main.id]
    assert field_now.geometry is not None
    was = field_now.geometry.crs
    if name == was and base.header.crs.get(name) == text:
        return said, schema
    moved = replace(field_now, geometry=replace(field_now.geometry, crs=name))
    fields = tuple(moved if each.id == main.id else each for each in schema.fields)
    others = {each.geometry.crs for each in fields if each.geometry is not None}
    if was is not None and was not in others and was in base.header.crs:
        said[f"crs/{was}.wkt"] = None
    said[f"crs/{name}.wkt"] = text
    return said, Schema(fields, schema.identifier_ids)


def _read_rows(
    repo: OpenRepo,
    file: LivingStore,
    base: Dataset,
    layer: Layer,
    seen: Seen,
    *,
    only_count: bool,
) -> LayerEdits:
    schema = _schema_now(file, base, seen)
    notes = [f"{base.path}: its table is called {seen.table} now"] * (seen.table != layer.table)
    part = part_of(repo, file, base)
    if seen.distrusted is not None and not part.is_known:
        raise WorkingCopyStateError(
            f"{base.path}: {seen.distrusted}, and the spatial filter that the working copy was "
            "made with is not known, so nothing tells what is edited",
            hints=("`havasu-vc create-workingcopy --discard-changes` makes it anew",),
        )
    if not base.key:
        batches, told = _without_keys(repo, file, base, part, seen, schema)
        return LayerEdits(base, layer, seen, schema, batches, None, (*notes, *told))
    doubt = seen.distrusted
    if doubt is None:
        keys = _sorted(file.tracked(seen), base.schema)
        whole = only_count and seen.is_whole and part.inside is None
        counted = _counted(file, base, seen, keys) if whole else None
        if counted is not None:
            apart = counted.inserts - counted.deletes
            if _agrees(file, seen, part, apart):
                return replace(
                    LayerEdits(base, layer, seen, schema, (), keys, tuple(notes)), counted=counted
                )
        # Kart tells each row that was touched where a column came, went or got another name.
        every = is_of_kart(base.header.kind) and set(base.schema.names) != set(schema.names)
        batches, apart, hidden = _compared(file, base, part, seen, schema, keys, equal_ones=every)
        if _agrees(file, seen, part, apart):
            return LayerEdits(base, layer, seen, schema, batches, keys, tuple(notes), hidden=hidden)
        doubt = "it has more or fewer rows than were tracked"
    notes.append(f"{base.path}: {doubt}, so it was compared in full")
    keys = _all_keys(repo, file, base, part, seen)
    batches, _, hidden = _compared(file, base, part, seen, schema, keys)
    return LayerEdits(base, layer, seen, schema, batches, None, tuple(notes), hidden=hidden)


def in_full(repo: OpenRepo, file: LivingStore, edits: LayerEdits) -> LayerEdits:
    """Return what differs in a table where all its rows are compared, whatever was tracked."""
    base, seen = edits.base, edits.seen
    if seen is None or edits.keys is None:
        return edits
    part = part_of(repo, file, base)
    keys = _all_keys(repo, file, base, part, seen)
    batches, _, hidden = _compared(file, base, part, seen, edits.schema, keys)
    return replace(edits, batches=batches, keys=None, hidden=hidden, counted=None)


def _agrees(file: LivingStore, seen: Seen, part: ShownPart, apart: int) -> bool:
    """Whether a table has as many rows as it would with what was tracked, where that is known."""
    return part.rows is None or file.has_rows(seen, part.rows + apart)


def rows_standing(
    file: LivingStore, base: Dataset, keys: pa.RecordBatch
) -> tuple[pa.RecordBatch, Schema]:
    """Return the rows of a dataset's table that have some keys, as they stand, and its columns."""
    seen = file.look(layer_of(file, base))
    if seen is None:
        raise InvalidFileError(
            file.name,
            f"the table of {base.path} is gone",
            hints=(f"`havasu-vc restore {shlex.quote(base.path)}` brings it back",),
        )
    schema = _schema_now(file, base, seen)
    return file.rows(seen, schema, keys), schema


def _schema_now(file: LivingStore, base: Dataset, seen: Seen) -> Schema:
    """Return the columns of a table as the dataset would have them."""
    if seen.is_whole:
        return base.schema
    gone = [name for name in base.key.names if name not in seen.columns]
    if gone:
        raise InvalidFileError(
            file.name,
            f"the table {seen.table} has no column {gone[0]!r} any more, which is the key of "
            f"{base.path}",
            hints=(f"`havasu-vc restore {shlex.quote(base.path)}` makes the table anew",),
        )
    # Drawn alike whenever the edit is looked at, so that a diff names the ids that a commit keeps.
    added = [(field.name, str(field.type)) for field in seen.added]
    source = Random(repr((file.tree, base.path, added)))
    schema = with_stored_names(seen.schema(field_ids(base.last_column_id, source=source)))
    schema = base.fitted(schema, seen.declared)
    check_evolution(base.schema, schema)
    return schema


def _compared(
    file: LivingStore,
    base: Dataset,
    part: ShownPart,
    seen: Seen,
    schema: Schema,
    keys: pa.RecordBatch,
    *,
    equal_ones: bool = False,
) -> tuple[tuple[ChangeBatch, ...], int, pa.RecordBatch | None]:
    """Return the changes of rows with some keys, and how many more of these are there now.

    With `equal_ones` rows that are there on both sides are changes whatever is in them.
    Last come the keys among them that rows outside of the part have, which is no row to see, so
    that none of these counts as deleted.
    """
    found: list[ChangeBatch] = []
    taken: list[pa.RecordBatch] = []
    apart = 0
    names = list(base.key.names)
    for start in range(0, keys.num_rows, BATCH_ROWS):
        piece = keys.slice(start, BATCH_ROWS)
        old = base.rows_with_keys(piece)
        if not all(old.column(name).equals(piece.column(name)) for name in names):
            # Some are not there, and rarely one comes whose key only hashes alike.
            old = pc.take(old, pc.drop_null(aligned(old, piece, base.schema)))
        new = file.rows(seen, schema, piece)
        hidden = outside(part, old)
        apart += new.num_rows - old.num_rows + hidden.num_rows
        if hidden.num_rows:
            now = pa.RecordBatch.from_arrays(
                [new.column(seen.columns[name]) for name in names], names
            )
            hidden = pc.filter(hidden, pc.is_valid(partners(hidden.select(names), now)))
            old = pa.concat_batches([pc.filter(old, pa.array(part.mask(old))), hidden])
        changes = pair_rows(old, new, base.schema, schema, equal_ones=equal_ones)
        found += [batch for batch in changes if len(batch)]
        if hidden.num_rows:
            taken.append(hidden.select(names))
    return tuple(found), apart, pa.concat_batches(taken) if taken else None


def _counted(
    file: LivingStore, base: Dataset, seen: Seen, keys: pa.RecordBatch
) -> ChangeCounts | None:
    """Return how many rows with some keys differ; None where rows must be read to know."""
    total = ChangeCounts()
    for start in range(0, keys.num_rows, BATCH_ROWS):
        piece = keys.slice(start, BATCH_ROWS)
        counts = base.count_apart(piece, partial(file.rows, seen, base.schema, piece))
        if counts is None:
            return None
        total += counts
    return total


def _without_keys(
    repo: OpenRepo, file: LivingStore, base: Dataset, part: ShownPart, seen: Seen, schema: Schema
) -> tuple[tuple[ChangeBatch, ...], tuple[str, ...]]:
    """Return the changes of a table whose rows no key tells apart: all are compared, if any."""
    notes: tuple[str, ...] = ()
    if seen.distrusted is not None:
        notes = (f"{base.path}: {seen.distrusted}, so it was compared in full",)
    elif not file.has_track(seen.layer) and _agrees(file, seen, part, 0):
        return (), ()
    old = _all_rows(repo, base, part, None)
    new = file.rows(seen, schema, None)
    batches = tuple(batch for batch in pair_rows(old, new, base.schema, schema) if len(batch))
    return batches, notes


def _all_rows(
    repo: OpenRepo, base: Dataset, part: ShownPart, columns: Sequence[str] | None
) -> pa.RecordBatch:
    """Return all rows of a part of a dataset, or some of their columns."""
    schema = base.schema if columns is None else base.schema.select(tuple(columns))
    with repo.settings.open_engine(base.size) as engine:
        if part.inside is None:
            batches = list(engine.run(base.scan(columns)))
        else:
            read = None if columns is None else list(dict.fromkeys((*columns, part.inside.column)))
            tasks = base.scan(read, part.inside.where)
            batches = [part.inside.of(batch) for batch in engine.run(tasks)]
            batches = [batch.select(list(schema.names)) for batch in batches]
    return _one(pa.Table.from_batches(batches, arrow_schema(schema)), schema)


def _one(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    columns = []
    for column in table.columns:
        whole = column.combine_chunks()
        columns.append(whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole)
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def _all_keys(
    repo: OpenRepo, file: LivingStore, base: Dataset, part: ShownPart, seen: Seen
) -> pa.RecordBatch:
    """Return the keys of either side, in order."""
    there, known = file.keys(seen), _all_rows(repo, base, part, base.key.names)
    schema = base.schema.select(base.key.names)
    both = pa.Table.from_batches([there, known], arrow_schema(schema))
    names = list(schema.names)
    return _sorted(_one(both.group_by(names).aggregate([]).select(names), schema), base.schema)


def _sorted(keys: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    order = ascending_order(keys.select(list(schema.key.names)))
    return pc.take(keys, arrow_array(order))


def each_layer(
    repo: OpenRepo, file: LivingStore, base: Base, paths: Sequence[str] = ()
) -> Iterator[LayerEdits | tuple[str, HavasuError]]:
    """Yield how much differs in each table, or why it cannot be told."""
    for path, view in base.views.items():
        if paths and path not in paths:
            continue
        try:
            yield read_layer(repo, file, view, only_count=True)
        except RevisionNotFoundError:
            raise
        except HavasuError as error:
            yield path, error
