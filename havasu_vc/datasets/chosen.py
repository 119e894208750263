"""Some keys that are looked for in version after version of a dataset."""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema

__all__ = ["ChosenKeys"]


class ChosenKeys:
    """Keys, as each version has them."""

    def __init__(self, keys: pa.RecordBatch, schema: Schema) -> None:
        """Choose keys, given in the key's columns of a schema."""
        self._keys = keys
        self._cast: tuple[Schema, pa.RecordBatch] | None = None
        self.schema = schema
        """The columns that the keys were given in."""
        self.hashes = distinct(hash_keys(keys, schema))
        """Hashes of the keys, ascending."""
        self.deleted: dict[str, list[tuple[int, str, int]]] = {}
        """By delete file: number of the key, data file and position of each row it deletes."""

    def of(self, schema: Schema) -> pa.RecordBatch:
        """Return the keys under the names and in the types of a version's columns."""
        if self._cast is None or self._cast[0] is not schema:
            self._cast = (schema, self._as(schema))
        return self._cast[1]

    def _as(self, schema: Schema) -> pa.RecordBatch:
        columns = [self._keys.column(self.schema.by_id[f.id].name) for f in schema.key.fields]
        target = arrow_schema(schema.select(schema.key.names))
        # A key that an older, narrower type cannot hold is of no row there.
        cast = [
            pc.cast(column, field.type, safe=False)
            for column, field in zip(columns, target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cast, schema=target)
