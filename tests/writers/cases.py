"""Small diffs that show what each writer does with each kind of thing."""

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import shapely

from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.columns import columns_of
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, MetaChange
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Fixed,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
)

P = Primitive
FID = Field(1, "fid", P.LONG, required=True)
NAME = Field(2, "name", P.STRING)

TYPES = Schema(
    (
        FID,
        Field(2, "shape", P.BINARY, geometry=Geometry(Encoding.EWKB, "EPSG:2193", "POINT")),
        Field(3, "outline", P.STRING, geometry=Geometry(Encoding.WKT)),
        Field(4, "yes", P.BOOLEAN),
        Field(5, "int", P.INT),
        Field(6, "single", P.FLOAT),
        Field(7, "double", P.DOUBLE),
        Field(8, "price", Decimal(20, 8)),
        Field(9, "day", P.DATE),
        Field(10, "clock", P.TIME),
        Field(11, "moment", P.TIMESTAMP),
        Field(12, "instant", P.TIMESTAMPTZ),
        Field(13, "uuid", P.UUID),
        Field(14, "blob", P.BINARY),
        Field(15, "four", Fixed(4)),
        Field(16, "text", P.STRING),
        Field(17, "tags", List(Field(18, "element", P.STRING))),
        Field(
            19,
            "owner",
            Struct(
                (Field(20, "who", P.STRING), Field(21, "since", P.DATE), Field(22, "x", P.FLOAT))
            ),
        ),
        Field(
            23,
            "names",
            Map(Field(24, "key", P.STRING, required=True), Field(25, "value", P.STRING)),
        ),
        Field(
            26,
            "levels",
            Map(Field(27, "key", P.INT, required=True), Field(28, "value", P.DOUBLE)),
        ),
    ),
    (1,),
)
FULL: dict[str, Any] = {
    "fid": 9_007_199_254_740_993,
    "shape": shapely.to_wkb(shapely.Point(1.5, -2), output_dimension=2),
    "outline": "POLYGON ((0 0, 1 0, 1 1, 0 0))",
    "yes": True,
    "int": -1,
    "single": 0.1,
    "double": 1e16,
    "price": Number("0.00000001"),
    "day": date(2020, 1, 31),
    "clock": time(23, 59, 59, 500_000),
    "moment": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "instant": datetime(2020, 1, 1),
    "uuid": bytes(range(16)),
    "blob": b"\x00\xff",
    "four": b"abcd",
    "text": 'Rā "quoted" \\ back\nnext',
    "tags": ["a", None, "ü"],
    "owner": {"who": "me", "since": date(1999, 9, 9), "x": 0.1},
    "names": [("en", "hill"), ("mi", None)],
    "levels": [(1, 1.5), (2, None)],
}


def header(schema: Schema, path: str = "roads", **meta: Any) -> DatasetHeader:
    """Return the header of a dataset with a schema."""
    items = {"schema.json": columns_of(schema), **meta}
    return DatasetHeader(path, "havasu", schema, items)


def batch(
    old: Schema, new: Schema, *changes: tuple[dict[str, Any] | None, dict[str, Any] | None]
) -> ChangeBatch:
    """Return changes given as rows of Python values."""
    return ChangeBatch.from_structs(
        rows([change[0] for change in changes], old), rows([change[1] for change in changes], new)
    )


def rows(values: list[dict[str, Any] | None], schema: Schema) -> pa.StructArray:
    """Return one side of a change batch."""
    return pa.array(values, pa.struct([arrow_field(field) for field in schema.fields]))


def diff_of(
    *batches: ChangeBatch,
    old: DatasetHeader | None,
    new: DatasetHeader | None,
    meta: tuple[MetaChange, ...] = (),
) -> DatasetDiff:
    """Return a diff of these batches."""
    some = new or old
    assert some is not None
    return DatasetDiff(some.path, old, new, meta, iter(batches))


def diffs(case: str) -> Iterator[DatasetDiff]:
    """Yield the datasets of a case."""
    yield from CASES[case]()


def _types() -> Iterator[DatasetDiff]:
    nothing = dict.fromkeys(TYPES.names) | {"fid": 9_007_199_254_740_993}
    odd = nothing | {"fid": -1, "single": float("nan"), "double": float("-inf"), "int": 0}
    side = header(TYPES)
    yield diff_of(
        batch(TYPES, TYPES, (nothing, FULL), (FULL | {"fid": 5}, None)),
        batch(TYPES, TYPES),
        batch(TYPES, TYPES, (None, odd)),
        old=side,
        new=side,
    )


def _schema() -> Iterator[DatasetDiff]:
    old = Schema((FID, NAME, Field(3, "gone", P.INT), Field(4, "size", P.INT)), (1,))
    new = Schema(
        (FID, Field(2, "title", P.STRING), Field(4, "size", P.LONG), Field(5, "a", P.DATE)), (1,)
    )
    before, after = header(old), header(new)
    meta = (
        MetaChange("crs/EPSG:2193.wkt", 'PROJCS["A",\n    UNIT["m", 1]]\n', None),
        MetaChange("description", None, "two\nlines"),
        MetaChange("schema.json", before.meta["schema.json"], after.meta["schema.json"]),
        MetaChange("title", "Roads", "Streets"),
    )
    change = (
        {"fid": 1, "name": "x", "gone": 7, "size": 1},
        {"fid": 1, "title": "x", "size": 2, "a": None},
    )
    yield diff_of(batch(old, new, change), old=before, new=after, meta=meta)


def _added() -> Iterator[DatasetDiff]:
    schema = Schema((FID, NAME), (1,))
    side = header(schema, "a/new", title="New")
    meta = (
        MetaChange("schema.json", None, side.meta["schema.json"]),
        MetaChange("title", None, "New"),
    )
    insert = (None, {"fid": 1, "name": "one"})
    yield diff_of(batch(schema, schema, insert), old=None, new=side, meta=meta)
    gone = header(schema, "b/old")
    removed = (MetaChange("schema.json", gone.meta["schema.json"], None),)
    delete = ({"fid": 1, "name": "one"}, None)
    yield diff_of(batch(schema, schema, delete), old=gone, new=None, meta=removed)


def _keyless() -> Iterator[DatasetDiff]:
    schema = Schema((NAME,))
    side = header(schema)
    yield diff_of(
        batch(schema, schema, ({"name": "a"}, None), (None, {"name": "b"})), old=side, new=side
    )


def _hostile() -> Iterator[DatasetDiff]:
    evil = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202egnp.exe\x7f\u2028"
    schema = Schema((Field(1, f"k{evil}", P.STRING, required=True), NAME), (1,))
    side = header(schema, f"d{evil}")
    row = {f"k{evil}": evil, "name": evil}
    meta = (MetaChange(f"title{evil}", None, evil),)
    yield diff_of(batch(schema, schema, (row | {"name": None}, row)), old=side, new=side, meta=meta)


def _nothing() -> Iterator[DatasetDiff]:
    schema = Schema((FID, NAME), (1,))
    side = header(schema)
    yield diff_of(batch(schema, schema), old=side, new=side)


CASES = {
    "types": _types,
    "schema": _schema,
    "added-and-removed": _added,
    "keyless": _keyless,
    "hostile": _hostile,
    "nothing": _nothing,
}

COMMIT = CommitInfo(
    id="0123456789abcdef0123456789abcdef01234567",
    parents=("a" * 40, "b" * 40),
    message="Straighten roads\n\nAll \x1b[31mof them.\n",
    author_name="Ana Rā",
    author_email="ana@example.org",
    author_time=1_560_000_000,
    author_offset=-570,
    committer_name="Ben",
    committer_email="ben@example.org",
    commit_time=1_560_000_060,
    commit_offset=720,
    refs=("HEAD -> main", "tag: v1"),
)
