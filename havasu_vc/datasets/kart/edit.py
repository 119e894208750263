"""Changing a Kart dataset: which feature files a commit writes and removes.

Every `old` row must be there with just these values, every inserted key must be new.
An updated feature keeps what it holds in columns that do not change byte for byte, so
that spellings which other programs chose (the digits of a number, say) survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.kart.diff import can_pair
from havasu_vc.datasets.kart.trees import Blobs, Files, changed_files
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.datasets.pairing import check_order, conform, describe_key, equal_columns, equal_rows
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import KeyViolationError, PatchError, SchemaViolationError
from havasu_vc.formats.kart.columns import (
    column_id,
    columns_of_schema,
    format_columns,
    format_legend,
    kart_schema,
    legend_name,
    legend_of,
)
from havasu_vc.formats.kart.features import (
    FeatureEncoder,
    RawRows,
    decode_raw,
    usual_spelling,
    values_of,
)
from havasu_vc.formats.kart.paths import (
    KeyColumns,
    PathStructure,
    format_path_structure,
    path_structure_of,
)
from havasu_vc.geo.text import hex_wkb
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.objects import blob_ids
from havasu_vc.store.trees import Change, Existing

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.folders import DatasetInFeatures
    from havasu_vc.datasets.protocol import Dataset

__all__ = ["KartEdit", "kart_rows", "layout_documents"]


class KartEdit(AbstractContextManager["KartEdit"]):
    """Collects changes, then says what becomes of the tree. Use it as a context manager."""

    def __init__(self, dataset: DatasetInFeatures, *, schema: Schema | None = None) -> None:
        """Edit a dataset, perhaps under another schema with the same key."""
        self.dataset = dataset
        self._given = schema or dataset.schema
        self.schema = dataset.schema if schema is None else kart_schema(schema)
        """The columns after the edit."""
        self.documents: dict[str, bytes | None] = {}
        """Its documents after the edit."""
        if self.schema != dataset.schema:
            self.documents |= layout_documents(self.schema, dataset.structure)
        data = format_legend(legend_of(self.schema))
        self._legend = legend_name(data)
        if self._legend not in dataset.legends:
            self.documents[f"meta/legend/{self._legend}"] = data
        self._new_legend = self._legend not in dataset.legends
        self._encoder = FeatureEncoder(self.schema, self._legend)
        self._features = FeatureChanges()
        self._blobs: dict[bytes, bytes] = {}
        self._adopted: dict[bytes, bytes | None] = {}
        self._took_theirs = False
        self._spelled: dict[tuple[Any, ...], dict[str, str]] = {}
        self._last: pa.RecordBatch | None = None
        self.counts = ChangeCounts()
        """The changes collected so far."""

    def __exit__(self, *_: object) -> None:
        self._blobs.clear()

    def add_documents(self, documents: Mapping[str, bytes | None]) -> None:
        """Write or remove documents of the dataset itself, by path."""
        self.documents.update(documents)

    def collect(self, changes: Iterator[ChangeBatch]) -> None:
        """Check changes against the dataset and take them in."""
        for batch in changes:
            if len(batch):
                self._last = check_order(batch, self._last, self.dataset.schema, self._given)
                self._collect(batch)
                self.counts += batch.counts

    def spell(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Store moments and decimal numbers of rows that come as they are spelled here.

        Kart stores what a patch says: `…Z` and zeros at the end stay.
        """
        patterns = [
            (field.name, column_id(field), pattern)
            for field in self.schema.fields
            if (pattern := usual_spelling(field)) is not None
            and field.id not in self.schema.identifier_ids
        ]
        keys = [self.schema.by_id[number].name for number in self.schema.identifier_ids]
        for row in rows if patterns else ():
            odd = {
                column: text
                for name, column, pattern in patterns
                if isinstance(text := row.get(name), str) and not pattern.fullmatch(text)
            }
            if odd:
                self._spelled[tuple(row[name] for name in keys)] = odd

    def join(self, theirs: Dataset) -> bool:
        """Take no one's place: features are what they are, whichever side wrote them."""
        return False

    def adopt_rows(self, base: Dataset, theirs: Dataset) -> bool:
        """Take features as they are in `theirs`, to the byte, that it alone changed since `base`.

        So Kart merges them: whatever the schema shows, a feature holds what it was stored with.
        Returns whether there are any. Under one schema what is written is the same bytes anyway.
        """
        if base.schema == self.dataset.schema == theirs.schema:
            return False
        changed = list(base.folder.difference(theirs.folder, "feature"))
        paths = [path.encode().rpartition(b"/") for path, _, _ in changed]
        here = self.dataset.find([folder for folder, _, _ in paths], [name for *_, name in paths])
        for (path, old, new), ours in zip(changed, here, strict=True):
            if ours == (None if old is None else bytes.fromhex(old)) and old != new:
                identity = None if new is None else bytes.fromhex(new)
                self._adopted[path.encode()] = identity
                if identity is not None and self.dataset.storage.sink is None:
                    self._blobs[identity] = theirs.folder.read_blob(str(new))
        self._took_theirs |= bool(self._adopted)
        for name, blob in theirs.folder.blobs("meta/legend") if self._adopted else ():
            self.documents[f"meta/legend/{name}"] = theirs.folder.read_blob(blob)
        return bool(self._adopted)

    def take_alone(self, base: Dataset, theirs: Dataset) -> list[tuple[Any, ...]] | None:
        """Take the features that `theirs` alone changed since `base`, by their ids, and count them.

        Returns the keys of those that both sides changed, and not alike; None, and nothing is
        taken, where an id does not tell that of a row, as under another schema.
        """
        before, ours, other = (cast("DatasetInFeatures", v) for v in (base, self.dataset, theirs))
        same = before.schema == ours.schema == other.schema == self.schema == self._given
        pairs = same and can_pair(before, ours) and can_pair(before, other)
        if ours.storage.sink is None or not pairs:
            return None
        found = changed_files(before.objects, other.objects, before.features, other.features)
        if not found.names:
            return []
        columns = Files(found.folders, found.names, Blobs(None)).keys(other.form())
        if not {type(value) for column in columns for value in column} <= {int, str}:
            return None
        here = ours.find(found.folders, found.names)
        alone, both = [], []
        for at, (mine, old, new) in enumerate(zip(here, found.old, found.new, strict=True)):
            if mine == old:
                alone.append(at)
            elif mine != new:
                both.append(at)
        self._features.add(
            [found.folders[at] for at in alone],
            [found.names[at] for at in alone],
            [found.new[at] for at in alone],
        )
        inserts = sum(found.old[at] is None for at in alone)
        deletes = sum(found.new[at] is None for at in alone)
        self.counts += ChangeCounts(inserts, len(alone) - inserts - deletes, deletes)
        for name, blob in other.folder.blobs("meta/legend") if alone else ():
            self.documents[f"meta/legend/{name}"] = other.folder.read_blob(blob)
        ids = list(ours.schema.identifier_ids)
        order = [columns[ids.index(field.id)] for field in ours.key.fields]
        return [tuple(column[at] for column in order) for at in both]

    def _add(
        self, folders: Sequence[bytes], names: Sequence[bytes], ids: Sequence[bytes | None]
    ) -> None:
        if self._adopted:
            paths = [folder + b"/" + name for folder, name in zip(folders, names, strict=True)]
            ids = [self._adopted.pop(p, each) for p, each in zip(paths, ids, strict=True)]
        self._features.add(folders, names, ids)

    def write_rows(self, rows: pa.RecordBatch) -> None:
        """Bring rows that are known to be new, without a look at what is there."""
        rows = kart_rows(rows, self._given, self.schema)
        keys = self._encoder.keys(rows)
        folders, names = self._structure.paths(keys)
        self._features.add(folders, names, self._stored(self._encoder.encode(rows)))
        self.counts += ChangeCounts(rows.num_rows, 0, 0)

    @property
    def _structure(self) -> PathStructure:
        return self.dataset.structure

    def _collect(self, batch: ChangeBatch) -> None:
        gone = _Side.of(batch.old, self.dataset.schema, self)
        come = _Side.of(batch.new, self.schema, self, given=self._given)
        blobs = self._check_old(gone)
        updated = np.isin(come.index, gone.index, assume_unique=True)
        partner = np.searchsorted(gone.index, come.index[updated])
        places = np.flatnonzero(updated)
        for mine, other in zip(places.tolist(), partner.tolist(), strict=True):
            if come.path(mine) != gone.path(other):
                raise PatchError(
                    "a change gives a row another key",
                    hints=("a row whose key changes is a delete and an insert",),
                )
        self._check_inserts(come, np.flatnonzero(~updated))
        data = self._encoder.encode(come.rows)
        self._keep_spellings(data, come, gone, blobs, places, partner)
        self._spell_out(data, come)
        deleted = np.flatnonzero(~np.isin(gone.index, come.index, assume_unique=True)).tolist()
        self._add(
            [gone.folders[at] for at in deleted],
            [gone.names[at] for at in deleted],
            [None] * len(deleted),
        )
        self._add(come.folders, come.names, self._stored(data))

    def _stored(self, data: Sequence[bytes]) -> list[bytes]:
        sink = self.dataset.storage.sink
        if sink is not None:
            return sink.write_blobs(data)
        ids = blob_ids(data)
        self._blobs.update(zip(ids, data, strict=True))
        return ids

    def _check_old(self, gone: _Side) -> list[bytes]:
        """Raise unless every row that goes is there and what the change says; return its file."""
        dataset = self.dataset
        found = dataset.find(gone.folders, gone.names)
        absent = [index for index, identity in enumerate(found) if identity is None]
        if absent:
            more = f", nor {len(absent) - 1:,} others that change" if len(absent) > 1 else ""
            raise PatchError(f"{dataset.path} has no row {gone.label(absent[0])}{more}")
        blobs = dataset.objects.read([identity for identity in found if identity is not None])
        form = dataset.form()

        def place(index: int) -> str:
            return form.place(gone.path(index))

        gone.raw = decode_raw(blobs, place)
        there = form.decoder().rows(gone.keys, gone.raw, place)
        same = equal_rows(there, gone.rows, dataset.schema, dataset.schema)
        different = np.flatnonzero(~same)
        if len(different):
            more = f" (and {len(different) - 1:,} more)" if len(different) > 1 else ""
            raise PatchError(
                f"row {gone.label(int(different[0]))} of {dataset.path} "
                f"is not what the change says it was{more}",
                hints=("make the patch from the version that it is applied to",),
            )
        gone.rows = there
        return blobs

    def _check_inserts(self, come: _Side, inserted: np.ndarray[Any, Any]) -> None:
        chosen = inserted.tolist()
        found = self.dataset.find(
            [come.folders[at] for at in chosen], [come.names[at] for at in chosen]
        )
        for at, identity in zip(chosen, found, strict=True):
            if identity is not None:
                raise PatchError(
                    f"{self.dataset.path} already has a row {come.label(at)}",
                    hints=("an insert needs a key that is not there",),
                )

    def _keep_spellings(
        self,
        data: list[bytes],
        come: _Side,
        gone: _Side,
        blobs: Sequence[bytes],
        places: np.ndarray[Any, Any],
        partner: np.ndarray[Any, Any],
    ) -> None:
        """Give updated features the old spelling of values that are not as we would write them."""
        if not len(places) or gone.raw is None:
            return
        odd = self._oddly_written(gone, blobs)
        chosen = [(m, o) for m, o in zip(places.tolist(), partner.tolist(), strict=True) if odd[o]]
        if not chosen:
            return
        mine, other = (pa.array(side, pa.int64()) for side in zip(*chosen, strict=True))
        new, old = pc.take(come.rows, mine), pc.take(gone.rows, other)
        starts = np.concatenate([[0], np.cumsum(gone.raw.widths)]).tolist()
        values: list[list[Any]] = []
        keys = set(self.schema.identifier_ids)
        for field in self.schema.fields:
            if field.id in keys:
                continue
            column = values_of(new.column(field.name), field, marked=True)
            before = self.dataset.schema.by_id.get(field.id)
            if before is not None:
                same = equal_columns(old.column(before.name), new.column(field.name), before, field)
                for row in np.flatnonzero(same).tolist():
                    at = chosen[row][1]
                    legend = self.dataset.legends[gone.raw.legends[at]]
                    name = column_id(before)
                    if name in legend.values:
                        column[row] = gone.raw.values[starts[at] + legend.values.index(name)]
            values.append(column)
        for row, (at, _) in enumerate(chosen):
            data[at] = self._encoder.format([column[row] for column in values])

    def _spell_out(self, data: list[bytes], come: _Side) -> None:
        """Give features the texts that `spell` told of."""
        if not self._spelled:
            return
        columns = legend_of(self.schema).values
        for at, key in enumerate(zip(*come.keys, strict=True)):
            odd = self._spelled.pop(key, None)
            if odd is not None:
                values = decode_raw([data[at]], come.label).values
                for column, text in odd.items():
                    values[columns.index(column)] = text
                data[at] = self._encoder.format(values)

    def _oddly_written(self, gone: _Side, blobs: Sequence[bytes]) -> list[bool]:
        """Return which features are not what we would write of their rows."""
        raw = gone.raw
        if raw is None:
            return []
        legend = legend_name(format_legend(legend_of(self.dataset.schema)))
        again = FeatureEncoder(self.dataset.schema, legend).encode(gone.rows)
        return [
            name != legend or mine != theirs
            for name, mine, theirs in zip(raw.legends, again, blobs, strict=True)
        ]

    def finish(self, *, fold: bool = True) -> TreeEdit:
        """Return what changes in the tree."""
        dataset = self.dataset
        left, self._adopted = self._adopted, {}
        parts = [path.rpartition(b"/") for path in left]
        self._add([folder for folder, _, _ in parts], [n for *_, n in parts], list(left.values()))
        blobs: dict[str, Change] = {
            name: data for name, data in self.documents.items() if dataset.folder.read(name) != data
        }
        if self._new_legend and not len(self._features) and self.schema == dataset.schema:
            blobs.pop(f"meta/legend/{self._legend}", None)
        if dataset.storage.sink is None:
            for path, identity in self._features.paths():
                blobs[f"feature/{path}"] = self._blobs[identity] if identity else None
        elif len(self._features):
            try:
                tree = self._features.write(dataset.storage.sink, dataset.features, dataset.folders)
            except ValueError as error:
                raise KeyViolationError(
                    f"{dataset.path}: two rows have the same key (file {error.args[0]!r})"
                ) from error
            if tree != dataset.features:
                if not self._took_theirs:
                    dataset.note_rows(tree, self.counts)
                blobs["feature"] = Existing(tree, "tree") if tree else None
        return TreeEdit(dataset.path, blobs, counts=self.counts, marker=dataset.marker)


@dataclass(slots=True)
class _Side:
    """The rows of one side of a batch of changes, and where they stand."""

    rows: pa.RecordBatch
    index: np.ndarray[Any, Any]
    keys: KeyColumns
    folders: list[bytes]
    names: list[bytes]
    raw: RawRows | None = None

    @classmethod
    def of(
        cls, side: pa.StructArray, schema: Schema, edit: KartEdit, *, given: Schema | None = None
    ) -> _Side:
        there = np.flatnonzero(pc.is_valid(side).to_numpy(zero_copy_only=False))
        present = side if len(there) == len(side) else pc.filter(side, pc.is_valid(side))
        rows = kart_rows(pa.RecordBatch.from_struct_array(present), given or schema, schema)
        keys = FeatureEncoder(schema, "").keys(rows)
        folders, names = edit.dataset.structure.paths(keys)
        return cls(rows, there, keys, folders, names)

    def path(self, at: int) -> bytes:
        return self.folders[at] + b"/" + self.names[at]

    def label(self, at: int) -> str:
        return describe_key(tuple(column[at] for column in self.keys))


def layout_documents(schema: Schema, structure: PathStructure | None) -> dict[str, bytes | None]:
    """Return the documents that a dataset has because of its schema.

    `structure` is the path structure that is there, which stays; a new dataset has none.
    """
    legend = format_legend(legend_of(schema))
    documents: dict[str, bytes | None] = {
        "meta/schema.json": format_columns(columns_of_schema(schema)),
        f"meta/legend/{legend_name(legend)}": legend,
    }
    if structure is None:
        documents["meta/path-structure.json"] = format_path_structure(path_structure_of(schema))
    return documents


# Rows of any schema as rows of a Kart dataset: what Kart lacks becomes the next type it has.


def kart_rows(rows: pa.RecordBatch, given: Schema, wanted: Schema) -> pa.RecordBatch:
    """Return rows of `given` in the columns of `wanted`, its counterpart in a Kart dataset."""
    if rows.schema.names != list(given.names):
        rows = conform(rows, given)
    target = arrow_schema(wanted)
    columns = []
    for column, before, field in zip(rows.columns, given.fields, target, strict=True):
        columns.append(_converted(column, before, field.type))
    return conform(pa.RecordBatch.from_arrays(columns, names=list(wanted.names)), wanted)


def _converted(column: pa.Array, before: Field, wanted: pa.DataType) -> pa.Array:
    if before.geometry is not None:
        if before.geometry.encoding is Encoding.EWKB:
            return column
        wkb, srids = to_canonical(column, before.geometry.encoding)
        return from_canonical(wkb, srids, "ewkb")
    if before.type is Primitive.UUID and pa.types.is_fixed_size_binary(column.type):
        digits = pc.utf8_lower(hex_wkb(pc.cast(column, pa.binary())))
        groups = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
        return pc.binary_join_element_wise(
            *(pc.utf8_slice_codeunits(digits, start, stop) for start, stop in groups), "-"
        )
    if column.type == wanted:
        return column
    try:
        return pc.cast(column, wanted)
    except pa.ArrowException as error:
        raise SchemaViolationError(f"a value does not fit {before.name!r}: {error}") from error
