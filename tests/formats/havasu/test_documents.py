"""Golden documents of an older version read and write as they are; damaged ones are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.entry import (
    ColumnStatistics,
    Content,
    Entry,
    Origin,
    format_entry,
    parse_entry,
)
from havasu_vc.formats.havasu.json_text import MOST_BYTES, document_hash, parse_json
from havasu_vc.formats.havasu.layout import (
    PartitionField,
    PartitionSpec,
    SortField,
    SortOrder,
    format_partition,
    format_sort_order,
    parse_partition,
    parse_sort_order,
)
from havasu_vc.formats.havasu.properties import Properties, format_properties, parse_properties
from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.formats.havasu.snapshot import Guard, Snapshot, format_snapshot, parse_snapshot
from havasu_vc.formats.lfs import format_pointer, parse_pointer
from havasu_vc.model.bounds import Bounds
from tests.formats.havasu.golden import FIXTURES, cases, documents
from tests.model.strategies import schemas

WHERE = "parcels/.havasu-dataset/x.json at HEAD"
NAME = "ab" * 32

CODECS: dict[str, Callable[[bytes, str], bytes]] = {
    "meta/schema.json": lambda data, path: format_schema(parse_schema(data, path)),
    "meta/partition.json": lambda data, path: format_partition(parse_partition(data, path)),
    "meta/sort-order.json": lambda data, path: format_sort_order(parse_sort_order(data, path)),
    "meta/properties.json": lambda data, path: format_properties(parse_properties(data, path)),
    "snapshot.json": lambda data, path: format_snapshot(*parse_snapshot(data, path)),
}


def again(path: str, data: bytes) -> bytes:
    """Parse a document and format it."""
    if path in CODECS:
        return CODECS[path](data, path)
    if path.startswith("files/"):
        return format_entry(parse_entry(data, Path(path).stem, path))
    if path.startswith("data/"):
        return format_pointer(parse_pointer(data))
    if path.startswith("meta/past/"):
        kinds = {"schema-id": "schema", "spec-id": "partition", "order-id": "sort-order"}
        kind = next(kind for key, kind in kinds.items() if key in json.loads(data))
        return CODECS[f"meta/{kind}.json"](data, path)
    assert path in ("meta/title", "meta/description")
    return data


GOLDEN = [(case, path) for case in cases() for path in documents(case)]


def test_there_are_cases() -> None:
    kinds = {path.split("/")[0] for _, path in GOLDEN}
    assert {case.name for case in cases()} == {"edited", "everything", "evolved", "keyless"}
    assert kinds == {"snapshot.json", "meta", "files", "data"}


@pytest.mark.parametrize(("case", "path"), GOLDEN, ids=lambda value: getattr(value, "name", value))
def test_a_golden_document_is_written_as_it_was(case: Path, path: str) -> None:
    data = (case / path).read_bytes()

    assert again(path, data) == data


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_past_documents_stand_under_their_hash(case: Path) -> None:
    found = {path.stem: path.read_bytes() for path in (case / "meta" / "past").iterdir()}

    assert found
    assert {document_hash(data) for data in found.values()} == set(found)
    for name in ("schema", "partition", "sort-order"):
        assert document_hash((case / "meta" / f"{name}.json").read_bytes()) in found


def test_a_document_that_a_version_of_ours_did_not_write_can_be_read() -> None:
    data = (FIXTURES / "edited" / "meta" / "schema.json").read_bytes()
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
PROPERTIES = {"table-uuid": "u", "havasu.format-version": "0.1.0", "last-column-id": 2}


def entry_of(data: bytes, where: str) -> Entry:
    return parse_entry(data, NAME, where)


DOCUMENTS: dict[str, tuple[Any, Callable[[bytes, str], object]]] = {
    "schema": (SCHEMA, parse_schema),
    "entry": (ENTRY, entry_of),
    "partition": (PARTITION, parse_partition),
    "order": (ORDER, parse_sort_order),
    "properties": (PROPERTIES, parse_properties),
}
OPTIONAL = {
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


# The snapshot, whose first line guards the others

SNAPSHOT = (FIXTURES / "edited" / "snapshot.json").read_bytes()


def test_each_changed_byte_of_a_snapshot_is_seen() -> None:
    snapshot, guard = parse_snapshot(SNAPSHOT, WHERE)
    for index in range(len(SNAPSHOT)):
        data = SNAPSHOT[:index] + bytes([SNAPSHOT[index] ^ 1]) + SNAPSHOT[index + 1 :]
        try:
            found = parse_snapshot(data, WHERE)
        except (CorruptDatasetError, UnsupportedVersionError):
            continue
        # What the guard says of trees is compared with the trees, and not here.
        assert found[0] == snapshot
        assert found[1] != guard or data.split(b"\n")[1:] == SNAPSHOT.split(b"\n")[1:]


def test_a_newer_snapshot_is_not_read() -> None:
    with pytest.raises(UnsupportedVersionError, match="format 2"):
        parse_snapshot(SNAPSHOT.replace(b'"format": 1', b'"format": 2'), WHERE)


def test_newer_tables_are_not_read() -> None:
    data = json.dumps(PROPERTIES | {"havasu.format-version": "9.0"}).encode()

    with pytest.raises(UnsupportedVersionError, match=r"9\.0"):
        parse_properties(data, WHERE)


def test_the_guard_is_the_first_line_alone() -> None:
    first, second = SNAPSHOT.split(b"\n")[:2]

    assert first.startswith(b'{"guard": {"path": "parcels", ')
    assert second == b' "format": 1,'


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


@given(
    st.builds(
        Snapshot,
        counts,
        counts,
        counts,
        st.dictionaries(ids, st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))),
    ),
    st.builds(Guard, texts, texts, texts, texts),
)
def test_snapshots_come_back(snapshot: Snapshot, guard: Guard) -> None:
    data = format_snapshot(snapshot, guard)

    assert parse_snapshot(data, WHERE) == (snapshot, guard)
    assert data.count(b"\n") == len(snapshot.digests) + (8 if snapshot.digests else 7)


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


OWN = {"table-uuid", "havasu.format-version", "last-column-id"}


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
