"""A new Kart dataset: its documents, and its features as rows come.

Rows without a key get one as in Kart: a column `auto_pk` stands first, rows are counted,
and `meta/generated-pks.json` remembers which number is whose.

Keys for the rows of a source that has none: those that they had, or the next numbers.

A row that is as it was is known by the id of its feature. When a source comes in again,
the others wait until all have come. Then they are looked for among the rows of the last
import that did not come: one that is alike keeps its key, so that it shows as an edit.
The search is as Kart's, and gives the keys that Kart gives: it takes place only when the
rows that came and the rows that went are few, and the columns are nearly the same ones.

Memory holds hashes of the rows that wait, no more of them than the limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.kart.edit import kart_rows, layout_documents
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.datasets.protocol import EarlierImport, TreeEdit
from havasu_vc.errors import KeyViolationError
from havasu_vc.formats.kart.columns import (
    GENERATED_KEYS,
    GeneratedKeys,
    as_all_declared,
    column_id,
    columns_of_schema,
    format_legend,
    format_wkt,
    kart_schema,
    legend_name,
    legend_of,
    schema_of_columns,
)
from havasu_vc.formats.kart.features import FeatureDecoder, FeatureEncoder
from havasu_vc.formats.kart.paths import (
    LEGACY,
    KeyColumns,
    PathStructure,
    format_path_structure,
    parse_keys,
    path_structure_of,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.hashing import Hashes, hash_values, mix
from havasu_vc.model.names import TABLE_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store.trees import Change, Existing, ObjectSink

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.folders import DatasetInFeatures
    from havasu_vc.datasets.storage import Storage

__all__ = [
    "KeyGiver",
    "NewKartDataset",
    "SimilarRows",
    "crs_document",
    "new_table",
    "rekeyed_kart",
    "related_hashes",
    "remade",
    "schema_of_items",
]

AUTO_KEY = "auto_pk"
AT_ONCE = 1 << 11
"""Rows that are objects of Python at once, which takes more room than their bytes do."""


class NewKartDataset:
    """Writes the features of a dataset that is not there yet."""

    def __init__(
        self,
        path: str,
        schema: Schema,
        sink: ObjectSink,
        *,
        meta: Mapping[str, bytes] | None = None,
        structure: PathStructure | None = None,
        keys: GeneratedKeys | None = None,
        earlier: EarlierImport | None = None,
    ) -> None:
        """Make a dataset; `meta` are documents that it has besides those of its schema.

        With `keys` the schema has the key column that they are for, and rows come without it;
        those that are not remembered may be alike to rows of an `earlier` import.
        """
        self._path = path
        self._given = schema if schema.key else _with_key(schema)
        self.schema = kart_schema(self._given)
        """The columns that it has."""
        if not schema.key:
            keys = GeneratedKeys(columns_of_schema(self.schema)[0])
        self._keys = None if keys is None else KeyGiver(keys, self.schema, earlier)
        self._meta = dict(meta or {})
        self._sink = sink
        self._structure = structure
        legend = legend_name(format_legend(legend_of(self.schema)))
        self._encoder = FeatureEncoder(self.schema, legend)
        self._features = FeatureChanges()
        self._rows = 0

    @property
    def files(self) -> None:
        """None: features are objects of git, written here."""
        return None

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows in."""
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                self._write(batch.slice(start, AT_ONCE))

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._keys is not None:
            place = self._given.fields.index(self._given.key.fields[0])
            field = arrow_field(self._given.fields[place])
            unknown = pc.cast(pa.array(np.zeros(batch.num_rows, np.int64)), field.type)
            columns, fields = list(batch.columns), list(batch.schema)
            columns.insert(place, unknown)
            fields.insert(place, field)
            batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        rows = kart_rows(batch, self._given, self.schema)
        features = self._encoder.encode(rows)
        ids = self._sink.write_blobs(features)
        self._rows += batch.num_rows
        if self._keys is None:
            self._add(self._encoder.keys(rows), ids)
        else:
            self._add_keyed(self._keys.take(ids, features), ids)

    def _add_keyed(self, keys: Sequence[int | None], ids: Sequence[bytes]) -> None:
        """Put rows at the keys that they were given, if they were."""
        there = [(key, each) for key, each in zip(keys, ids, strict=True) if key is not None]
        if there:
            self._add([[key for key, _ in there]], [each for _, each in there])

    def _add(self, keys: KeyColumns, ids: Sequence[bytes]) -> None:
        folders, names = (self._structure or path_structure_of(self.schema)).paths(keys)
        self._features.add(folders, names, ids)

    def finish(self) -> TreeEdit:
        """Write the folders, and return the edit that makes the dataset."""
        blobs: dict[str, Change] = dict(self._meta)
        for name, data in layout_documents(self.schema, self._structure).items():
            blobs.setdefault(name, data)
        if self._keys is not None:
            self._add_keyed(*self._keys.rest())
            blobs[f"meta/{GENERATED_KEYS}"] = self._keys.keys.format()
        if self._structure not in (None, LEGACY):
            blobs["meta/path-structure.json"] = format_path_structure(self._structure)
        try:
            tree = self._features.write(self._sink, "")
        except ValueError as error:
            key = ",".join(str(column[0]) for column in parse_keys([error.args[0]]))
            raise KeyViolationError(f"{self._path}: the key {key} comes twice") from error
        if tree:
            blobs["feature"] = Existing(tree, "tree")
        counts = ChangeCounts(self._rows, 0, 0)
        return TreeEdit(self._path, blobs, fresh=True, counts=counts, marker=TABLE_MARKER)


def _with_key(schema: Schema) -> Schema:
    name = AUTO_KEY
    while name in schema.by_name:
        name += "_"
    field = Field(schema.last_id + 1, name, Primitive.LONG, required=True)
    return Schema((field, *schema.fields), (field.id,))


def new_table(
    path: str,
    schema: Schema,
    storage: Storage,
    *,
    meta: Mapping[str, bytes],
    hilbert: int | None = None,
) -> NewKartDataset:
    """Return a new dataset in the making, whose rows stand where their keys say."""
    return NewKartDataset(path, schema, sink_of(storage), meta=meta)


def schema_of_items(columns: list[Any]) -> Schema:
    """Return the schema that a list of columns means."""
    return schema_of_columns(columns)


def fitted(schema: Schema, declared: Mapping[str, str]) -> Schema:
    """Return a schema that keeps the lengths and sizes that columns have in SQL."""
    return as_all_declared(schema, declared)


def crs_document(wkt: str) -> bytes:
    """Return the definition of a coordinate reference system as Kart writes it."""
    return format_wkt(wkt)


def sink_of(storage: Storage) -> ObjectSink:
    """Return where the objects of a commit in the making go."""
    if storage.sink is None:
        raise ValueError("there is no commit in the making")
    return storage.sink


def remade(
    old: DatasetInFeatures, schema: Schema, *, has_key: bool, earlier: EarlierImport | None
) -> NewKartDataset:
    """Return what takes in the rows of another version of a dataset."""
    keys = None if has_key else old.generated_keys
    if keys is not None:
        (key,) = old.key.fields
        schema = Schema((key, *schema.fields), (key.id,))
    return NewKartDataset(
        old.path, schema, sink_of(old.storage), structure=old.structure, keys=keys, earlier=earlier
    )


def rekeyed_kart(
    old: DatasetInFeatures,
    schema: Schema,
    meta: Mapping[str, bytes | None],
    rows: Iterable[pa.RecordBatch],
) -> TreeEdit:
    """Return the edit that gives a dataset another key; `rows` are all, in its columns of then."""
    sink = old.storage.sink
    if sink is None:
        raise ValueError(f"{old.path} is opened for reading only")
    kept = {
        f"meta/{name}": old.folder.read_blob(blob)
        for name, blob in old.folder.blobs("meta")
        if name not in ("schema.json", "path-structure.json", GENERATED_KEYS)
    }
    kept.update({name: data for name, data in meta.items() if data is not None})
    for name, data in meta.items():
        if data is None:
            kept.pop(name, None)
    new = NewKartDataset(old.path, schema, sink, meta=kept)
    new.write(rows)
    return replace(new.finish(), counts=ChangeCounts(), marker=old.marker)


_AT_ONCE = 1 << 12


class KeyGiver:
    """Gives keys to rows, as they come and after the last one."""

    def __init__(
        self, keys: GeneratedKeys, schema: Schema, earlier: EarlierImport | None = None
    ) -> None:
        """Give keys to rows of a Kart dataset's schema."""
        self.keys = keys
        """The keys that are remembered."""
        self._schema = schema
        self._earlier = earlier if earlier is not None and earlier.limit > 0 else None
        legend = legend_of(schema)
        self._decoder = FeatureDecoder(schema, {legend_name(format_legend(legend)): legend})
        self._rows = 0
        self._ids: list[bytes] = []
        self._hashes: list[Hashes] = []
        self._numbers: list[int] | None = None

    def take(self, ids: Sequence[bytes], features: Sequence[bytes]) -> list[int | None]:
        """Return the keys of rows, by the ids and bytes of their features; None if one waits."""
        self._rows += len(ids)
        if self._earlier is None or self._numbers is not None:
            return [*self.keys.assign(ids)]
        found = self.keys.recall(ids)
        waiting = [index for index, key in enumerate(found) if key is None]
        if waiting:
            self._ids += [ids[index] for index in waiting]
            if len(self._ids) > self._earlier.limit:
                self._hashes.clear()
                self._numbers = [self.keys.new(each) for each in self._ids]
            else:
                chosen = [features[index] for index in waiting]
                rows = self._decoder.decode([[0] * len(chosen)], chosen, str)
                self._hashes.append(related_hashes(rows, self._schema))
        return found

    def rest(self) -> tuple[list[int], list[bytes]]:
        """Return the keys and ids of the rows that waited, after the last one came."""
        if self._numbers is None:
            pairs = self._alike() if self._ids else {}
            for index, key in pairs.items():
                self.keys.change(key, self._ids[index])
            self._numbers = [
                pairs[index] if index in pairs else self.keys.new(identity)
                for index, identity in enumerate(self._ids)
            ]
        return self._numbers, self._ids

    def _alike(self) -> dict[int, int]:
        """Return the keys of rows that are alike to one that went, by their numbers."""
        if self._earlier is None:
            return {}
        before = cast("DatasetInFeatures", self._earlier.find())
        limit = self._earlier.limit
        if not _is_near(before.schema, self._schema):
            return {}
        # The rows that went are as many as those that came, and what the table shrank by.
        grown = self._rows - before.rows
        if abs(grown) > limit or len(self._ids) > (limit + grown) // 2:
            return {}
        found = SimilarRows(np.concatenate(self._hashes))
        form = before.form()
        decoder = form.decoder()
        name = before.key.fields[0].name
        gone = self.keys.unused()
        for start in range(0, len(gone), _AT_ONCE):
            files = before.files_of([(key,) for key in gone[start : start + _AT_ONCE]])
            if files.names:
                rows = files.rows(form, decoder)
                keys = rows.column(name).to_numpy().astype(np.int64)
                found.add(related_hashes(rows, before.schema), keys)
        return dict(found.pairs())


def _is_near(old: Schema, new: Schema) -> bool:
    """Whether the columns are the same, but for one that came and one that went at most."""
    was, becomes = ({column_id(f): f.id for f in schema.fields} for schema in (old, new))
    keys = [
        [column for column, number in ids.items() if number in schema.identifier_ids]
        for ids, schema in ((was, old), (becomes, new))
    ]
    came, went = becomes.keys() - was.keys(), was.keys() - becomes.keys()
    return keys[0] == keys[1] and len(came) <= 1 and len(went) <= 1


# Rows that hardly changed: which one of before each row of now was, told by hashes.
#
# Two rows are alike when they differ in one column at most. Each row has a hash of all of
# its values and, for every column, one of the values of the others; alike rows share one
# of them. A pair counts where nobody else has that hash on its side, and where neither
# row is alike to a second one. Columns are known by their ids, so a row may be found again
# across a column that came, went or was put in another's place.
#
# Rows of now are in memory as hashes. Those of before come in batches, and only what they
# share with the others is kept, so there may be very many.

_NULL = np.uint64(0x2545F4914F6CDD1D)


def related_hashes(rows: pa.RecordBatch, schema: Schema) -> Hashes:
    """Return the hashes of each row: of all values, then of all but those of each column."""
    keys = set(schema.identifier_ids)
    cells = []
    for field in schema.fields:
        if field.id in keys:
            continue
        column = rows.column(field.name)
        if field.type is Primitive.DOUBLE:
            column = pc.add(column, 0.0)  # zero has one sign
        values = hash_values(column, field)
        if column.null_count:
            values[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NULL
        salt = int.from_bytes(hashlib.sha256(column_id(field).encode()).digest()[:8])
        cells.append(mix(values ^ np.uint64(salt)))
    found = np.zeros((rows.num_rows, len(cells) + 1), np.uint64)
    for each in cells:
        found[:, 0] ^= each
    for index, each in enumerate(cells, 1):
        found[:, index] = found[:, 0] ^ each
    return found


class SimilarRows:
    """Pairs rows of now with those of before."""

    def __init__(self, new: Hashes) -> None:
        """Look for rows with some hashes, one line each."""
        self._hashes, first, counts = np.unique(new, return_index=True, return_counts=True)
        self._new: npt.NDArray[np.int64] = first // max(new.shape[1], 1)
        self._sole = counts == 1
        self._seen = np.zeros(len(self._hashes), np.int64)
        self._old = np.zeros(len(self._hashes), np.int64)

    def add(self, hashes: Hashes, keys: npt.NDArray[np.int64]) -> None:
        """Take in rows of before."""
        owners = np.repeat(keys, hashes.shape[1])
        flat = hashes.ravel()
        place = np.searchsorted(self._hashes, flat)
        place[place == len(self._hashes)] = 0
        shared = self._hashes[place] == flat
        np.add.at(self._seen, place[shared], 1)
        self._old[place[shared]] = owners[shared]

    def pairs(self) -> Mapping[int, int]:
        """Return the key that each row of now had, by its number, for those that had one."""
        chosen = self._sole & (self._seen == 1)
        found = np.unique(np.stack([self._new[chosen], self._old[chosen]], axis=1), axis=0)
        alone = np.ones(len(found), bool)
        for side in (0, 1):
            _, inverse, counts = np.unique(found[:, side], return_inverse=True, return_counts=True)
            alone &= counts[inverse] == 1
        return {int(new): int(old) for new, old in found[alone]}
