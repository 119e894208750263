import io
import json
from typing import Any

import pytest

from havasu_vc.errors import PatchError
from havasu_vc.formats.patch import (
    DatasetPatch,
    FeatureForm,
    Patch,
    PatchBatch,
    parse_patch,
    patch_batches,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Encoding, Field, Fixed, Geometry, List, Map, Struct
from havasu_vc.model.types import Primitive as P

POINT = "0101000000000000000000F03F0000000000000040"
SCHEMA = Schema(
    (
        Field(1, "fid", P.LONG, required=True),
        Field(2, "geom", P.BINARY, geometry=Geometry(Encoding.WKB)),
        Field(3, "name", P.STRING),
        Field(4, "size", P.INT),
        Field(5, "ratio", P.FLOAT),
        Field(6, "big", P.DOUBLE),
        Field(7, "price", Decimal(9, 2)),
        Field(8, "day", P.DATE),
        Field(9, "clock", P.TIME),
        Field(10, "at", P.TIMESTAMPTZ),
        Field(11, "id", P.UUID),
        Field(12, "blob", P.BINARY),
        Field(13, "four", Fixed(4)),
        Field(14, "tags", List(Field(15, "element", P.INT))),
        Field(16, "owner", Struct((Field(17, "who", P.STRING),))),
        Field(
            18, "names", Map(Field(19, "key", P.STRING, required=True), Field(20, "value", P.INT))
        ),
        Field(21, "levels", Map(Field(22, "key", P.INT, required=True), Field(23, "value", P.INT))),
        Field(24, "ok", P.BOOLEAN),
    ),
    (1,),
)


def document(features: Any = (), meta: Any = None, **header: Any) -> dict[str, Any]:
    dataset: dict[str, Any] = {"feature": list(features)}
    if meta is not None:
        dataset["meta"] = meta
    return {"kart.patch/v1": header, "kart.diff/v1+hexwkb": {"roads": dataset}}


def parse(value: Any, **options: Any) -> Patch:
    return parse_patch(json.dumps(value).encode(), **options)


def batches(*features: Any, schema: Schema | None = SCHEMA) -> list[PatchBatch]:
    (dataset,) = parse(document(features)).datasets
    return list(patch_batches(dataset, schema, schema))


def insert(**row: Any) -> dict[str, Any]:
    return {"++": dict.fromkeys(SCHEMA.names) | {"fid": 1} | row}


def test_the_header_is_read() -> None:
    patch = parse(
        document(
            authorName="Ana",
            authorEmail="ana@example.org",
            authorTime="2019-06-20T14:28:33Z",
            authorTimeOffset="-09:30",
            message="Move",
            base="a" * 40,
            crs="EPSG:2193",
        )
    )

    assert (patch.author_name, patch.author_email) == ("Ana", "ana@example.org")
    assert (patch.author_time, patch.author_offset) == (1_561_040_913, -570)
    assert (patch.message, patch.base, patch.crs) == ("Move", "a" * 40, "EPSG:2193")


def test_forms_of_features() -> None:
    row = {"fid": 1}
    (dataset,) = parse(
        document([{"++": row}, {"--": row}, {"-": row, "+": row}, {"+": row}, {"-": row}])
    ).datasets

    assert [change.form for change in dataset.features] == [
        FeatureForm.INSERT,
        FeatureForm.DELETE,
        FeatureForm.UPDATE,
        FeatureForm.UPSERT,
        FeatureForm.DELETE,
    ]
    assert [change.number for change in dataset.features] == [1, 2, 3, 4, 5]


def test_meta_items() -> None:
    (dataset,) = parse(
        document(meta={"title": {"-": "a", "+": "b"}, "description": {"+": "c"}})
    ).datasets

    assert [(item.name, item.old, item.new) for item in dataset.meta] == [
        ("title", "a", "b"),
        ("description", None, "c"),
    ]


def test_a_stream_is_read_like_bytes() -> None:
    data = json.dumps(document()).encode()

    assert parse_patch(io.BytesIO(data)) == parse_patch(data)


class Endless(io.RawIOBase):
    """A stream that counts what is read of it."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        self.taken += size
        return b" " * size


def test_a_large_patch_is_refused_after_the_limit() -> None:
    stream = Endless()
    with pytest.raises(PatchError, match="larger than 1,000 bytes"):
        parse_patch(stream, limit=1000)  # type: ignore[arg-type]

    assert stream.taken == 1001


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nests too deeply"),
        (b'{"a": ' * 100_000, "nests too deeply"),
        (b"1" * 5000, "cannot be read"),
        (b"[]", "must be a JSON object, not a list"),
        (b"{}", "changes nothing"),
        (b'{"a": 1, "a": 2}', "names 'a' twice"),
        (b'{"kart.patch/v1": {}}', "changes nothing"),
        (b'{"kart.patch/v1": [], "kart.diff/v1+hexwkb": {}}', "must be a JSON object"),
        (b'{"kart.patch/v1": {}, "kart.diff/v1+hexwkb": []}', "must be a JSON object"),
        (b'{"kart.patch/v1": {}, "kart.diff/v1+hexwkb": {}, "x": 1}', "unknown key 'x'"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_what_is_not_a_patch_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        parse_patch(data)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"authorName": 1}, "authorName of the patch must be text, not a number"),
        ({"authorTime": "yesterday"}, "not a time"),
        ({"authorTimeOffset": "+25:00"}, "not an offset"),
        ({"base": "main"}, "not a commit id"),
        ({"base": "../../x"}, "not a commit id"),
    ],
)
def test_bad_headers_are_refused(header: dict[str, Any], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        parse(document(**header))


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        ([], "dataset 'roads' must be a JSON object"),
        ({"feature": {}}, "feature of 'roads' must be a list"),
        ({"feature": [1]}, "feature 1 of 'roads' must be an object, not a number"),
        ({"feature": [{}]}, "feature 1 of 'roads' must have"),
        ({"feature": [{"++": {}, "--": {}}]}, "feature 1 of 'roads' must have"),
        ({"feature": [{"~": {}}]}, "feature 1 of 'roads' must have"),
        ({"feature": [{"+": {}}, {"+": None}]}, r"`\+` of feature 2 of 'roads' .* not null"),
        ({"meta": []}, "meta of 'roads' must be a JSON object"),
        ({"meta": {"title": "x"}}, "meta item 'title' of 'roads' must be a JSON object"),
        ({"meta": {"title": {}}}, "must have an old half"),
        ({"meta": {"title": {"+": None}}}, "neither an old value nor a new one"),
    ],
)
def test_bad_datasets_are_refused(dataset: Any, reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        parse({"kart.patch/v1": {}, "kart.diff/v1+hexwkb": {"roads": dataset}})


def test_what_else_is_said_of_a_dataset_is_remembered() -> None:
    said: Any = {"kart.patch/v1": {}, "kart.diff/v1+hexwkb": {"roads": {"tile": [], "meta": {}}}}
    (part,) = parse(said).datasets
    assert part.unknown == ("tile",)


def test_whole_rows_of_all_kinds_share_a_batch() -> None:
    row = insert()["++"]
    (batch,) = batches(insert(), {"--": row}, {"-": row, "+": row | {"name": "x"}})

    assert (batch.changes.counts.inserts, batch.changes.counts.deletes) == (1, 1)
    assert batch.changes.new.to_pylist()[2]["name"] == "x"
    assert not batch.upsert
    assert batch.given_old == batch.given_new == SCHEMA.names


def test_rows_that_list_some_columns_say_which() -> None:
    first, second, third = batches(
        insert(), {"+": {"name": "x", "fid": 1}}, {"+": {"fid": 2, "size": None}}
    )

    assert not first.upsert
    assert (second.upsert, second.given_new, second.numbers) == (True, ("fid", "name"), (2,))
    assert (third.upsert, third.given_new, third.numbers) == (True, ("fid", "size"), (3,))
    assert second.changes.new.to_pylist()[0]["size"] is None


def test_an_old_half_may_list_the_key_alone() -> None:
    (batch,) = batches({"--": {"fid": 4}})

    assert batch.given_old == ("fid",)
    assert batch.changes.old.to_pylist()[0]["fid"] == 4


def test_a_dataset_that_is_not_there_takes_no_rows() -> None:
    (dataset,) = parse(document([{"++": {"fid": 1}}])).datasets

    with pytest.raises(PatchError, match="feature 1 of 'roads' cannot be"):
        list(patch_batches(dataset, SCHEMA, None))
    ((batch,)) = list(patch_batches(dataset, None, Schema(SCHEMA.fields[:1], (1,))))
    assert batch.changes.counts.inserts == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"name": "x"}, "feature 1 of 'roads' is missing required primary key field 'fid'"),
        ({"fid": None}, "is missing required primary key field 'fid'"),
        ({"fid": "1"}, "column 'fid' of feature 1 of 'roads' is '1', not a whole number"),
        ({"fid": True}, "is True, not a whole number of 64 bits"),
        ({"fid": 1.0}, "is 1.0, not a whole number of 64 bits"),
        ({"fid": 2**63}, "not a whole number of 64 bits"),
        ({"fid": 1, "nope": 1}, "a column 'nope', which the dataset has not"),
    ],
)
def test_bad_keys_and_columns_are_refused(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        batches({"+": row})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("geom", "zz"),
        ("geom", "01"),
        ("geom", 1),
        ("geom", "0102000000FFFFFFFF"),
        ("geom", "0101000020E6100000000000000000F03F0000000000000040"),
        ("name", 1),
        ("name", "\ud800"),
        ("size", 2**31),
        ("size", 1.5),
        ("ratio", 0.123456789),
        ("ratio", 1e300),
        ("ratio", "1.5"),
        ("big", True),
        ("big", 2**53 + 1),
        ("big", 10**400),
        ("price", "1.234"),
        ("price", "12345678.00"),
        ("price", "1e5"),
        ("price", "9" * 5000),
        ("price", True),
        ("day", "2020-02-30"),
        ("day", "2020-1-1"),
        ("clock", "25:00:00"),
        ("clock", "10:00"),
        ("at", "2020-01-01T00:00:00+01:00"),
        ("at", "2020-01-01T00:00:00.1234567"),
        ("at", "0"),
        ("id", "x" * 36),
        ("blob", "abc"),
        ("four", "0011"),
        ("tags", 1),
        ("tags", [1, "x"]),
        ("owner", {"whom": "x"}),
        ("owner", {"who": 1}),
        ("names", [["a", 1]]),
        ("names", {"a": "b"}),
        ("levels", {"1": 1}),
        ("levels", [[None, 1]]),
        ("levels", [[1]]),
        ("ok", 1),
    ],
)
def test_values_that_do_not_fit_name_their_place(column: str, value: Any) -> None:
    with pytest.raises(
        PatchError, match=rf"column '{column}.*' of feature 2 of 'roads' is "
    ) as error:
        batches(insert(), insert(**{column: value}))
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("price", "1.5", "1.50"),
        ("price", 1.25, "1.25"),
        ("price", -7, "-7.00"),
        ("at", "2020-01-01 00:00:00Z", "2020-01-01 00:00:00+00:00"),
        ("ratio", 0.10000000149011612, "0.10000000149011612"),
        ("ratio", 0.1, "0.10000000149011612"),
        ("big", 3, "3.0"),
        ("id", "00010203-0405-0607-0809-0A0B0C0D0E0F", str(bytes(range(16)))),
    ],
)
def test_other_spellings_are_understood(column: str, value: Any, expected: str) -> None:
    (batch,) = batches(insert(**{column: value}))

    assert str(batch.changes.new.to_pylist()[0][column]) == expected


def test_geometries_come_in_the_encoding_of_their_column() -> None:
    for encoding, expected in (
        (Encoding.WKB, bytes.fromhex(POINT)),
        (Encoding.EWKB, bytes.fromhex(POINT)),
        (Encoding.WKT, "POINT (1 2)"),
        (Encoding.GEOJSON, '{"type":"Point","coordinates":[1.0,2.0]}'),
    ):
        kind = P.BINARY if encoding.is_binary else P.STRING
        fields = (SCHEMA.fields[0], Field(2, "geom", kind, geometry=Geometry(encoding)))
        (batch,) = batches({"++": {"fid": 1, "geom": POINT}}, schema=Schema(fields, (1,)))

        assert batch.changes.new.to_pylist()[0]["geom"] == expected


@pytest.mark.thorough
def test_many_rows_come_in_several_batches() -> None:
    features = [insert(fid=number) for number in range(20_000)]
    (dataset,) = parse(document(features)).datasets
    sizes = [len(batch.changes) for batch in patch_batches(dataset, SCHEMA, SCHEMA)]

    assert sum(sizes) == 20_000
    assert max(sizes) <= 8192


def test_no_features_make_no_batches() -> None:
    assert not list(patch_batches(DatasetPatch("roads", (), ()), SCHEMA, SCHEMA))
