"""Golden documents of an older version read and write as they are; damaged ones are refused."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.deltas import (
    Delta,
    format_delta,
    format_tombstone,
    parse_delta,
    parse_tombstone,
)
from havasu_vc.formats.havasu.entry import (
    ColumnStatistics,
    Content,
    Entry,
    Origin,
    format_entry,
    parse_entry,
)
from havasu_vc.formats.havasu.json_text import MOST_BYTES, document_hash, pack, parse_json, unpack
from havasu_vc.formats.havasu.markers import blob_id, open_epoch
from havasu_vc.formats.havasu.properties import (
    PartitionField,
    PartitionSpec,
    Properties,
    SortField,
    SortOrder,
    format_partition,
    format_properties,
    format_sort_order,
    parse_partition,
    parse_properties,
    parse_sort_order,
)
from havasu_vc.formats.havasu.schema import (
    format_columns,
    format_schema,
    parse_columns,
    parse_schema,
)
from havasu_vc.formats.lfs import format_pointer, parse_pointer
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from tests.formats.havasu.golden import FIXTURES, cases, documents
from tests.model.strategies import schemas

WHERE = "parcels/.havasu-dataset/x.json at HEAD"
NAME = "ab" * 32

CODECS: dict[str, Callable[[bytes, str], bytes]] = {
    "meta/schema.json": lambda data, path: format_schema(parse_schema(data, path)),
    "meta/partition.json": lambda data, path: format_partition(parse_partition(data, path)),
    "meta/sort-order.json": lambda data, path: format_sort_order(parse_sort_order(data, path)),
    "dataset.json": lambda data, path: format_properties(parse_properties(data, path)),
}


def again(path: str, data: bytes) -> bytes:
    """Parse a document and format it."""
    if path in CODECS:
        return CODECS[path](data, path)
    if path.startswith("files/"):
        folded = parse_tombstone(data)
        if folded is not None:
            return format_tombstone(folded)
        return format_delta(parse_delta(data, Path(path).stem, path))
    if path.startswith(("columns/", "edits/")):
        return data  # as a whole: the tests below
    if path.startswith("data/"):
        return format_pointer(parse_pointer(data))
    assert path in ("meta/title", "meta/description")
    return data


def past_of(case: Path) -> dict[str, bytes]:
    """Return what the files of a golden dataset were written with, as its deltas have it."""
    found: dict[str, bytes] = {}
    for path, data in documents(case / "files").items():
        if parse_tombstone(data) is None:
            delta = parse_delta(data, Path(path).stem, path)
            found |= {name: text.encode() for name, text in delta.past.items()}
    return found


GOLDEN = [(case, path) for case in cases() for path in documents(case)]


def test_there_are_cases() -> None:
    kinds = {path.split("/")[0] for _, path in GOLDEN}
    names = {"closed", "edited", "everything", "evolved", "keyless"}
    assert {case.name for case in cases()} == names
    assert kinds == {"dataset.json", "columns", "meta", "files", "data", "edits"}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_columns_are_written_as_they_were(case: Path) -> None:
    found = documents(case / "columns")
    schema, places = parse_columns(found.items(), WHERE)

    assert format_columns(schema, places) == found
    assert document_hash(format_schema(schema)) in past_of(case)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_stands_in_edits_is_that_of_an_epoch(case: Path) -> None:
    top: dict[str, tuple[str, bool]] = {}
    for path, data in documents(case / "edits").items():
        first, _, below = path.partition("/")
        top[first] = ("", True) if below else (blob_id(data), False)
    epoch = open_epoch(top)
    found = {f"edits/{path}": data for path, data in documents(case / "edits").items()}

    assert epoch.number == (1 if case.name == "closed" else 0)
    assert {path: found.pop(path) for path in epoch.placeholders()} == epoch.placeholders()
    for path, data in found.items():
        assert data[:1] == b"\0"
        marker = path.startswith(f"{epoch.folder}/")
        assert len(data) == (33 if marker else 41)


@pytest.mark.parametrize(("case", "path"), GOLDEN, ids=lambda value: getattr(value, "name", value))
def test_a_golden_document_is_written_as_it_was(case: Path, path: str) -> None:
    data = (case / path).read_bytes()

    assert again(path, data) == data


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_past_documents_stand_under_their_hash(case: Path) -> None:
    found = past_of(case)
    kinds = {"schema-id": "schema", "spec-id": "partition", "order-id": "sort-order"}

    assert found
    assert {document_hash(data) for data in found.values()} == set(found)
    for data in found.values():
        kind = next(kind for key, kind in kinds.items() if key in json.loads(data))
        assert CODECS[f"meta/{kind}.json"](data, kind) == data
    for name in ("partition", "sort-order"):
        assert document_hash((case / "meta" / f"{name}.json").read_bytes()) in found


def test_a_document_that_a_version_of_ours_did_not_write_can_be_read() -> None:
    data = next(data for data in past_of(FIXTURES / "edited").values() if b"schema-id" in data)
    plain = json.dumps(json.loads(data), separators=(",", ":"), sort_keys=True).encode()

    assert format_schema(parse_schema(plain, WHERE)) == data


# Damage: each document with one fact missing, of a wrong type, or impossible

SCHEMA = {
    "type": "struct",
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "geom", "type": "binary", "havasu.geometry-encoding": "ewkb"},
    ],
}
ENTRY: dict[str, Any] = json.loads(
    format_entry(
        Entry(
            NAME,
            Content.DELETES,
            10,
            2,
            "a" * 32,
            "b" * 32,
            "c" * 32,
            Origin.EDIT,
            statistics={1: ColumnStatistics(2, 0, 5, lower=1, upper=2)},
            bounds={2: Bounds(0, 0, 1, 1)},
            splits=(4,),
            targets={"cd" * 32: 2},
        )
    )
)
PARTITION = {
    "spec-id": 1,
    "fields": [{"name": "k", "transform": "identity", "source-id": 1, "field-id": 1000}],
}
ORDER = {
    "order-id": 1,
    "fields": [
        {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    ],
}
PROPERTIES = {
    "format": 2,
    "markers": "hash32",
    "table-uuid": "u",
    "havasu.format-version": "0.1.0",
    "last-column-id": 2,
}
IDENTITY = "ab" * 20
DELTA: dict[str, Any] = {
    "id": IDENTITY,
    "table": "u",
    "epoch": [0, ""],
    "rows": -1,
    "digests": {"1": "ab" * 16},
    "marks": "cd" * 16,
    "replaces": ["ef" * 20],
    "past": {document_hash(b"past"): "past"},
    "files": [{"file": NAME, **ENTRY}],
}


def entry_of(data: bytes, where: str) -> Entry:
    return parse_entry(data, NAME, where)


def delta_of(data: bytes, where: str) -> Delta:
    return parse_delta(b"\0z" + zlib.compress(data), IDENTITY, where)


DOCUMENTS: dict[str, tuple[Any, Callable[[bytes, str], object]]] = {
    "schema": (SCHEMA, parse_schema),
    "entry": (ENTRY, entry_of),
    "partition": (PARTITION, parse_partition),
    "order": (ORDER, parse_sort_order),
    "properties": (PROPERTIES, parse_properties),
    "delta": ({**DELTA, "files": []}, delta_of),
}
OPTIONAL = {
    ("delta", "epoch"),
    ("delta", "digests", "1"),
    ("delta", "past", document_hash(b"past")),
    ("schema", "type"),
    ("schema", "identifier-field-ids"),
    ("schema", "fields", 1, "havasu.geometry-encoding"),
    ("entry", "targets"),
    ("entry", "targets", "cd" * 32),
    ("entry", "statistics", "1"),
    ("entry", "statistics", "1", "lower"),
    ("entry", "statistics", "1", "upper"),
    ("entry", "geometry-bounds", "2"),
}
ANY = {
    ("schema", "type"),
    ("entry", "statistics", "1", "lower"),
    ("entry", "statistics", "1", "upper"),
}
"""Facts of which any simple value makes sense, or that readers pass over."""


def places(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the places of all facts in a document."""
    found: list[tuple[Any, ...]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places(item, (*path, key))
    return found


ALL = [place for name, (value, _) in DOCUMENTS.items() for place in places(value, (name,))]


def changed(place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> bytes:
    value = json.loads(json.dumps(DOCUMENTS[place[0]][0]))
    inside = value
    for key in place[1:-1]:
        inside = inside[key]
    change(inside, place[-1])
    return json.dumps(value).encode()


def refused(place: tuple[Any, ...], data: bytes) -> CorruptDatasetError:
    with pytest.raises(CorruptDatasetError) as caught:
        DOCUMENTS[place[0]][1](data, WHERE)
    assert caught.value.path == WHERE
    assert "\n" not in str(caught.value)
    return caught.value


def drop(inside: Any, key: Any) -> None:
    del inside[key]


@pytest.mark.parametrize(
    "place", [p for p in ALL if p not in OPTIONAL and not isinstance(p[-1], int)], ids=str
)
def test_a_missing_fact_is_refused(place: tuple[Any, ...]) -> None:
    refused(place, changed(place, drop))


@pytest.mark.parametrize("place", sorted(OPTIONAL, key=str), ids=str)
def test_what_may_be_missing_is_known(place: tuple[Any, ...]) -> None:
    DOCUMENTS[place[0]][1](changed(place, drop), WHERE)


@pytest.mark.parametrize("wrong", [None, True, -0.5, "?", [], {}, [{}], {"1": 1}], ids=repr)
@pytest.mark.parametrize("place", [p for p in ALL if p not in ANY], ids=str)
def test_a_fact_of_a_wrong_type_is_refused(place: tuple[Any, ...], wrong: Any) -> None:
    def put(inside: Any, key: Any) -> None:
        inside[key] = wrong

    data = changed(place, put)
    try:
        DOCUMENTS[place[0]][1](data, WHERE)
    except CorruptDatasetError as error:
        assert error.path == WHERE
    except UnsupportedVersionError as error:
        assert WHERE in str(error)
    else:
        assert same_type(place, wrong), f"{place} may not be {wrong!r}"


def same_type(place: tuple[Any, ...], wrong: Any) -> bool:
    """Whether a value is of the type that stands there, or may be left out."""
    inside: Any = DOCUMENTS[place[0]][0]
    for key in place[1:]:
        inside = inside[key]
    if wrong is None:
        return place in OPTIONAL
    if isinstance(inside, int | float) and place[1] == "geometry-bounds":
        return isinstance(wrong, int | float) and not isinstance(wrong, bool)
    return type(wrong) is type(inside)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff{}",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"9" * 10_000,
    ],
    ids=lambda data: str(data[:12]),
)
def test_what_is_no_document_is_refused(name: str, damage: bytes) -> None:
    refused((name,), damage)


def test_a_document_of_any_size_is_not_read() -> None:
    with pytest.raises(CorruptDatasetError, match="more than any should"):
        parse_json(bytes(MOST_BYTES + 1), WHERE)


def test_a_schema_that_nests_too_deeply_is_refused() -> None:
    type_: Any = "long"
    for number in range(3, 200):
        type_ = {"type": "list", "element-id": number, "element": type_}
    data = json.dumps({"fields": [{"id": 1, "name": "x", "type": type_}]}).encode()

    with pytest.raises(CorruptDatasetError, match="nested too deeply"):
        parse_schema(data, WHERE)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": 1}, "used twice"),
        ({"id": 0}, "out of range"),
        ({"id": 2147483448}, "out of range"),
        ({"name": ""}, "no name"),
        ({"name": "id"}, "two columns"),
        ({"type": "varchar"}, "no type 'varchar'"),
        ({"type": "decimal(39, 0)"}, "no such decimal"),
        ({"type": "string"}, "has type string"),
        ({"havasu.geometry-encoding": "twkb"}, "not one of"),
        ({"havasu.raster-encoding": "v1"}, "not an empty struct"),
        ({"havasu.raster-encoding": "v2"}, "is not v1"),
    ],
)
def test_an_impossible_schema_is_refused(change: dict[str, Any], reason: str) -> None:
    value = json.loads(json.dumps(SCHEMA))
    value["fields"][1] |= change

    with pytest.raises(CorruptDatasetError, match=reason):
        parse_schema(json.dumps(value).encode(), WHERE)


@pytest.mark.parametrize("file", ["", "AB" * 32, "../" + NAME, NAME[:-1]])
def test_an_entry_stands_under_a_sha256(file: str) -> None:
    with pytest.raises(CorruptDatasetError, match="not a sha256"):
        parse_entry(json.dumps(ENTRY).encode(), file, WHERE)


@pytest.mark.parametrize(
    "damage", [b"", b"\0", b"\0z", b"{}", pack(DELTA)[:-9], b"\0z" + bytes(50)], ids=repr
)
def test_what_is_no_packed_document_is_refused(damage: bytes) -> None:
    with pytest.raises(CorruptDatasetError) as caught:
        parse_delta(damage, IDENTITY, WHERE)
    assert caught.value.path == WHERE


@pytest.mark.thorough
def test_a_packed_document_of_any_size_is_not_read() -> None:
    data = b"\0z" + zlib.compress(bytes(MOST_BYTES + 1), 9)

    with pytest.raises(CorruptDatasetError, match="more than any should"):
        parse_delta(data, IDENTITY, WHERE)


def test_a_delta_stands_under_its_id() -> None:
    with pytest.raises(CorruptDatasetError, match="its name is not its id"):
        parse_delta(pack(DELTA), "cd" * 20, WHERE)


@pytest.mark.parametrize("damage", ["name", "id", "claim", "twice", "place"])
def test_columns_that_do_not_agree_are_refused(damage: str) -> None:
    schema = parse_schema(json.dumps(SCHEMA).encode(), WHERE)
    found = format_columns(schema)
    one, two = (unpack(found[f"{number}.json"], WHERE) for number in (1, 2))
    match damage:
        case "name":
            two["field"]["name"] = "id"
        case "id":
            two["field"]["id"] = 3
        case "claim":
            del found[next(path for path in found if path.startswith("names/"))]
        case "twice":
            found["3.json"] = pack({**one, "field": {**one["field"], "id": 3}})
        case "place":
            two["place"] = "first"
    found["2.json"] = pack(two)

    with pytest.raises(CorruptDatasetError):
        parse_columns(found.items(), WHERE)


def test_a_newer_dataset_is_not_read() -> None:
    data = json.dumps(PROPERTIES | {"format": 3}).encode()

    with pytest.raises(UnsupportedVersionError, match="format 3"):
        parse_properties(data, WHERE)


def test_newer_tables_are_not_read() -> None:
    data = json.dumps(PROPERTIES | {"havasu.format-version": "9.0"}).encode()

    with pytest.raises(UnsupportedVersionError, match=r"9\.0"):
        parse_properties(data, WHERE)


# Laws

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text("0123456789abcdef", min_size=64, max_size=64)
hashes = st.text("0123456789abcdef", min_size=32, max_size=32)
counts = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.booleans() | st.integers() | numbers | texts
ids = st.integers(1, 2_147_483_447)


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    (xmin, xmax), (ymin, ymax) = (sorted([draw(numbers), draw(numbers)]) for _ in "xy")
    return Bounds(xmin, ymin, xmax, ymax)


statistics = st.builds(
    ColumnStatistics,
    counts,
    counts,
    counts,
    st.none() | counts,
    st.none() | scalars,
    st.none() | scalars,
)
data_entries = st.builds(
    Entry,
    names,
    st.just(Content.DATA),
    counts,
    counts,
    hashes,
    hashes,
    hashes,
    st.sampled_from(Origin),
    partition=st.dictionaries(texts, st.none() | scalars, max_size=2),
    statistics=st.dictionaries(ids, statistics, max_size=3),
    bounds=st.dictionaries(ids, bounds(), max_size=2),
    splits=st.lists(counts, max_size=3).map(tuple),
    location=st.none() | texts,
)
delete_entries = st.builds(
    Entry,
    names,
    st.just(Content.DELETES),
    counts,
    counts,
    hashes,
    hashes,
    hashes,
    st.sampled_from(Origin),
    targets=st.dictionaries(names, st.integers(1, 2**63 - 1), min_size=1, max_size=3),
)


@given(data_entries | delete_entries)
def test_entries_come_back(entry: Entry) -> None:
    assert parse_entry(format_entry(entry), entry.file, WHERE) == entry


@given(schemas())
def test_schemas_come_back(schema: Any) -> None:
    data = format_schema(schema)

    assert parse_schema(data, WHERE) == schema
    assert format_schema(parse_schema(data, WHERE)) == data


lanes = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
identities = st.text("0123456789abcdef", min_size=40, max_size=40)


@given(
    st.builds(
        Delta,
        identities,
        texts,
        st.integers(-(2**63), 2**63),
        st.none() | st.tuples(counts, identities),
        st.dictionaries(ids, lanes, max_size=3),
        st.integers(0, 2**128 - 1),
        st.lists(identities, max_size=3).map(tuple),
        st.lists(texts, max_size=3).map(
            lambda found: {document_hash(text.encode()): text for text in found}
        ),
        st.lists(data_entries | delete_entries, max_size=2).map(tuple),
    )
)
def test_deltas_come_back(delta: Delta) -> None:
    data = format_delta(delta)

    assert parse_delta(data, delta.id, WHERE) == delta
    assert format_delta(parse_delta(data, delta.id, WHERE)) == data


@given(schemas())
def test_columns_come_back(schema: Any) -> None:
    assert parse_columns(format_columns(schema).items(), WHERE)[0] == schema


@given(schemas(), st.data())
def test_columns_keep_their_places_where_they_can(schema: Any, data: st.DataObject) -> None:
    documents = format_columns(schema)
    _, places = parse_columns(documents.items(), WHERE)
    wanted = [f for f in schema.fields if f.id not in schema.identifier_ids]
    if not wanted:
        return
    gone = data.draw(st.sampled_from(wanted))
    kept = tuple(field for field in schema.fields if field is not gone)

    after = format_columns(Schema(kept, schema.identifier_ids), places)

    assert {path: documents[path] for path in after} == after


@given(
    st.builds(
        PartitionSpec,
        st.lists(st.builds(PartitionField, ids, ids, texts, texts), max_size=3).map(tuple),
        counts,
    )
)
def test_partition_specs_come_back(spec: PartitionSpec) -> None:
    assert parse_partition(format_partition(spec), WHERE) == spec


@given(
    st.builds(
        SortOrder,
        st.lists(st.builds(SortField, ids, texts, texts, texts), max_size=3).map(tuple),
        counts,
    )
)
def test_sort_orders_come_back(order: SortOrder) -> None:
    assert parse_sort_order(format_sort_order(order), WHERE) == order


OWN = {"format", "markers", "table-uuid", "havasu.format-version", "last-column-id"}


@given(
    st.builds(
        Properties,
        texts,
        counts,
        st.dictionaries(texts.filter(lambda name: name not in OWN), texts, max_size=3),
    )
)
def test_properties_come_back(properties: Properties) -> None:
    assert parse_properties(format_properties(properties), WHERE) == properties


def test_ids_of_parts_that_cannot_be() -> None:
    inner = {"type": "list", "element-id": 0, "element": "int", "element-required": False}
    field = {"id": 1, "name": "a", "required": False, "type": inner}
    document = json.dumps({"type": "struct", "fields": [field]}).encode()

    with pytest.raises(CorruptDatasetError, match="field id 0 of 'element'"):
        parse_schema(document, WHERE)


def test_an_id_alone_is_no_tombstone() -> None:
    named = format_tombstone("ab" * 20)

    assert parse_tombstone(named) == "ab" * 20
    assert parse_tombstone(b"ab" * 20) is None
    assert parse_tombstone(named + b"\n") is None and parse_tombstone(named[:-1]) is None
