"""A new Kart dataset: its documents, and its features as rows come.

Rows without a key get one as in Kart: a column `auto_pk` stands first, rows are counted,
and `meta/generated-pks.json` remembers which number is whose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.kart.edit import kart_rows, layout_documents
from havasu_vc.datasets.kart.key_giving import KeyGiver
from havasu_vc.datasets.kart.writing import FeatureChanges
from havasu_vc.datasets.protocol import EarlierImport, TreeEdit
from havasu_vc.errors import KeyViolationError
from havasu_vc.formats.kart.columns import (
    GENERATED_KEYS,
    GeneratedKeys,
    columns_of_schema,
    format_legend,
    format_wkt,
    kart_schema,
    legend_name,
    legend_of,
    schema_of_columns,
)
from havasu_vc.formats.kart.features import FeatureEncoder
from havasu_vc.formats.kart.paths import (
    LEGACY,
    KeyColumns,
    PathStructure,
    format_path_structure,
    parse_keys,
    path_structure_of,
)
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.model.names import TABLE_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store.trees import Change, Existing, ObjectSink

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.view import KartDataset
    from havasu_vc.datasets.storage import Storage

__all__ = [
    "NewKartDataset",
    "crs_document",
    "new_table",
    "rekeyed_kart",
    "remade",
    "schema_of_items",
]

AUTO_KEY = "auto_pk"
AT_ONCE = 1 << 12
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
            unknown = pa.array(np.zeros(batch.num_rows, np.int64)).cast(field.type)
            columns, fields = list(batch.columns), list(batch.schema)
            columns.insert(place, unknown)
            fields.insert(place, field)
            batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        rows = kart_rows(batch, self._given, self.schema)
        write = self._sink.write
        features = self._encoder.encode(rows)
        ids = [bytes.fromhex(write("blob", data)) for data in features]
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


def crs_document(wkt: str) -> bytes:
    """Return the definition of a coordinate reference system as Kart writes it."""
    return format_wkt(wkt)


def sink_of(storage: Storage) -> ObjectSink:
    """Return where the objects of a commit in the making go."""
    if storage.sink is None:
        raise ValueError("there is no commit in the making")
    return storage.sink


def remade(
    old: KartDataset, schema: Schema, *, has_key: bool, earlier: EarlierImport | None
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
    old: KartDataset,
    schema: Schema,
    meta: Mapping[str, bytes | None],
    rows: Iterable[pa.RecordBatch],
) -> TreeEdit:
    """Return the edit that gives a dataset another key; `rows` are all that it has."""
    sink = old.storage.sink
    if sink is None:
        raise ValueError(f"{old.path} is opened for reading only")
    kept = {
        f"meta/{name}": old.folder.read_blob(blob)
        for name, blob in old.folder.blobs("meta")
        if name not in ("schema.json", "path-structure.json")
    }
    kept.update({name: data for name, data in meta.items() if data is not None})
    for name, data in meta.items():
        if data is None:
            kept.pop(name, None)
    new = NewKartDataset(old.path, schema, sink, meta=kept)
    names = [
        old.schema.by_id[f.id].name if f.id in old.schema.by_id else None for f in schema.fields
    ]
    new.write(_renamed(batch, names, schema) for batch in rows)
    return replace(new.finish(), counts=ChangeCounts(), marker=old.marker)


def _renamed(batch: pa.RecordBatch, names: Sequence[str | None], schema: Schema) -> pa.RecordBatch:
    columns = []
    for name, field in zip(names, schema.fields, strict=True):
        wanted = arrow_field(field).type
        columns.append(
            pa.nulls(batch.num_rows, wanted) if name is None else batch.column(name).cast(wanted)
        )
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))
