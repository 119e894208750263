"""A sound dataset has no findings; each kind of damage is named; key caches are mended."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.folder import MemoryFolder
from havasu_vc.datasets.havasu.checks import check_dataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.formats.havasu.deltas import Delta, delta_path, format_delta, format_tombstone
from havasu_vc.formats.havasu.entry import Content, Entry, Origin, format_entry, parse_entry
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.schema import format_columns, format_schema
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.findings import Finding
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row, key_of, rows_of, schemas
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

POINT = bytes.fromhex("0101000000000000000000f03f000000000000f03f")
SCHEMA = Schema(
    (
        Field(1, "fid", Primitive.LONG, required=True),
        Field(2, "name", Primitive.STRING),
        Field(3, "geom", Primitive.BINARY, geometry=Geometry()),
    ),
    (1,),
)
ROWS: list[Row] = [{1: number, 2: f"name {number}", 3: POINT} for number in range(8)]


@pytest.fixture
def datasets(tmp_path: Path) -> Iterator[MemoryDatasets]:
    with tiny_thresholds():
        found = MemoryDatasets(tmp_path)
        # fsck looks at what a commit would have stored.
        object.__setattr__(found.storage, "staging", found.storage.files)
        yield found


@pytest.fixture
def dataset(datasets: MemoryDatasets) -> HavasuDataset:
    """A dataset of two data files and a delete file."""
    after = [*ROWS[:6], {**ROWS[6], 2: "changed"}, ROWS[7]]
    return datasets.apply(
        datasets.new(SCHEMA, ROWS), stream_of(changes_between(ROWS, after, SCHEMA), SCHEMA)
    )


def check(view: HavasuDataset, *, full: bool = True) -> list[Finding]:
    with LocalEngine(threads=1) as engine:
        return list(check_dataset(view, engine, full=full))


def entry_of(view: HavasuDataset, content: Content = Content.DATA) -> Entry:
    return next(entry for entry in view.entries.values() if entry.content is content)


def replaced(view: HavasuDataset, documents: dict[str, bytes | None]) -> HavasuDataset:
    """Return the dataset with other documents."""
    assert isinstance(view.folder, MemoryFolder)
    files = {**view.folder.files, **documents}
    folder = MemoryFolder({path: data for path, data in files.items() if data is not None})
    return HavasuDataset(view.path, folder, view.storage)


def delta_of(view: HavasuDataset, entry: Entry) -> Delta:
    return next(d for d in view.deltas.values() if entry.file in {e.file for e in d.files})


def with_entry(view: HavasuDataset, entry: Entry, **facts: object) -> HavasuDataset:
    document = json.dumps({**json.loads(format_entry(entry)), **facts}).encode()
    delta = delta_of(view, entry)
    changed = parse_entry(document, entry.file, "the entry")
    files = tuple(changed if each.file == entry.file else each for each in delta.files)
    return replaced(view, {delta.path: format_delta(replace(delta, files=files))})


def test_a_sound_dataset_has_no_findings(dataset: HavasuDataset) -> None:
    assert len(dataset.entries) == 3
    assert check(dataset) == []
    assert check(dataset, full=False) == []


@examples(25, deadline=None)
@given(data=st.data(), schema=schemas())
def test_whatever_we_write_is_sound(
    data: st.DataObject, schema: Schema, tmp_path_factory: pytest.TempPathFactory
) -> None:
    datasets = MemoryDatasets(tmp_path_factory.mktemp("sound"))
    object.__setattr__(datasets.storage, "staging", datasets.storage.files)
    unique_by = (lambda row: key_of(row, schema)) if schema.key else None
    tables = st.lists(rows_of(schema), max_size=12, unique_by=unique_by)
    old, new = data.draw(tables), data.draw(tables)
    with tiny_thresholds():
        before = datasets.new(schema, old)
        after = datasets.apply(before, stream_of(changes_between(old, new, schema), schema))
        assert check(before) == check(after) == []


Damage = Callable[[HavasuDataset], HavasuDataset]


def lose_pointer(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {entry_of(view).pointer_path: None})


def other_pointer(view: HavasuDataset) -> HavasuDataset:
    entry = entry_of(view)
    return replaced(view, {entry.pointer_path: format_pointer(Pointer(entry.file, 1))})


def no_pointer(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {entry_of(view).pointer_path: b"hello"})


def stray_entry(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {"files/ab/readme.json": b"{}"})


def broken_entry(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {delta_of(view, entry_of(view)).path: b"{"})


def lose_past(view: HavasuDataset) -> HavasuDataset:
    delta = delta_of(view, entry_of(view))
    past = {n: text for n, text in delta.past.items() if n != entry_of(view).schema}
    return replaced(view, {delta.path: format_delta(replace(delta, past=past))})


def other_past(view: HavasuDataset) -> HavasuDataset:
    delta = delta_of(view, entry_of(view))
    past = {**delta.past, entry_of(view).sort_order: "{}"}
    return replaced(view, {delta.path: format_delta(replace(delta, past=past))})


def lose_target(view: HavasuDataset) -> HavasuDataset:
    target = view.entries[next(iter(entry_of(view, Content.DELETES).targets))]
    return replaced(view, {delta_of(view, target).path: None, target.pointer_path: None})


def lose_file(view: HavasuDataset) -> HavasuDataset:
    view.storage.files.delete(entry_of(view).file)
    return view


def broken_schema(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {"columns/2.json": b'{"type": "struct"}'})


def lose_marker(view: HavasuDataset) -> HavasuDataset:
    name = next(name for name, _ in view.folder.blobs("edits") if "/" in name)
    return replaced(view, {f"edits/{name}": None})


def lose_placeholder(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {"edits/3": None})


def of_another_table(view: HavasuDataset) -> HavasuDataset:
    delta = delta_of(view, entry_of(view))
    return replaced(view, {delta.path: format_delta(replace(delta, table="another"))})


def of_another_epoch(view: HavasuDataset) -> HavasuDataset:
    delta = next(delta for delta in view.deltas.values() if delta.epoch is not None)
    return replaced(view, {delta.path: format_delta(replace(delta, epoch=(7, "")))})


def folded_into_nothing(view: HavasuDataset) -> HavasuDataset:
    return replaced(view, {delta_path("ab" * 20): format_tombstone("cd" * 20)})


def twice(view: HavasuDataset) -> HavasuDataset:
    delta = next(delta for delta in view.deltas.values() if delta.epoch is None)
    delta = replace(delta, id="ab" * 20)
    return replaced(view, {delta.path: format_delta(delta)})


@pytest.mark.parametrize(
    ("damage", "where", "message"),
    [
        (lose_pointer, "parcels/data/", "this pointer is missing"),
        (other_pointer, "parcels/data/", "its hash or size is not that of the entry"),
        (no_pointer, "parcels/data/", "it is not a Git LFS pointer"),
        (stray_entry, "parcels/files/ab/readme.json", "this is no name of a delta"),
        (broken_entry, "parcels/files/", "not a packed document"),
        (lose_past, "parcels", "was written with is not there"),
        (other_past, "parcels/files/", "is not what its name says"),
        (lose_target, "parcels/files", "rows that are deleted are nowhere"),
        (lose_file, "parcels: data file ", "is not in this repository's store"),
        (broken_schema, "parcels/columns", "not a packed document"),
        (lose_marker, "parcels", "its markers are not those of its deltas"),
        (lose_placeholder, "parcels", "edits/3 is not what an open epoch has there"),
        (of_another_table, "parcels", "of another table"),
        (of_another_epoch, "parcels", "of another epoch"),
        (folded_into_nothing, "parcels", "by one that is not there"),
        (twice, "parcels", "stands in two deltas"),
    ],
)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.few(12)
def test_damage_is_named(
    dataset: HavasuDataset, damage: Damage, where: str, message: str, full: bool
) -> None:
    findings = check(damage(dataset), full=full)

    assert any(f.where.startswith(where) and message in f.message for f in findings), findings
    assert all("\n" not in finding.message for finding in findings)


def flip(path: Path, at: int) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("content", list(Content))
def test_a_changed_byte_is_found(dataset: HavasuDataset, content: Content) -> None:
    entry = entry_of(dataset, content)
    flip(dataset.storage.files.path(entry.file), entry.size // 2)

    assert check(dataset, full=False) == []
    assert any(entry.file in finding.where for finding in check(dataset))


def test_a_file_of_another_size_is_found_without_reading_it(dataset: HavasuDataset) -> None:
    path = dataset.storage.files.path(entry_of(dataset).file)
    path.chmod(0o644)
    with path.open("ab") as file:
        file.write(b".")

    (finding,) = check(dataset, full=False)

    assert "bytes instead of" in finding.message


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"rows": 7}, "rows, its entry says 7"),
        ({"split-offsets": [9]}, "row groups do not begin where"),
        ({"geometry-bounds": {"3": [5, 5, 6, 6]}}, "geometries outside of its bounds"),
    ],
)
def test_an_entry_that_lies_is_found(
    dataset: HavasuDataset, facts: dict[str, object], message: str
) -> None:
    findings = check(with_entry(dataset, entry_of(dataset), **facts))

    assert any(message in finding.message for finding in findings), findings


@pytest.mark.parametrize(
    ("number", "fact", "message"),
    [
        ("1", {"upper": 1}, "column 'fid' has values outside of its statistics"),
        ("2", {"lower": "o"}, "column 'name' has values outside of its statistics"),
        ("2", {"nulls": 3}, "column 'name' has 0 nulls, its statistics say 3"),
        ("1", {"values": 3}, "the statistics of column 'fid' are of 3 values"),
    ],
)
def test_statistics_that_lie_are_found(
    dataset: HavasuDataset, number: str, fact: dict[str, object], message: str
) -> None:
    entry = max(dataset.data_entries, key=lambda entry: entry.rows)
    statistics = json.loads(format_entry(entry))["statistics"]
    statistics[number] |= fact

    findings = check(with_entry(dataset, entry, statistics=statistics))

    assert [finding.message for finding in findings] == [message]


def test_wider_statistics_are_no_lie(dataset: HavasuDataset) -> None:
    entry = max(dataset.data_entries, key=lambda entry: entry.rows)
    statistics = json.loads(format_entry(entry))["statistics"]
    statistics["1"] |= {"lower": -5, "upper": 1000}

    assert check(with_entry(dataset, entry, statistics=statistics)) == []


def test_rows_that_lie_are_found(dataset: HavasuDataset) -> None:
    delta = delta_of(dataset, entry_of(dataset))
    view = replaced(dataset, {delta.path: format_delta(replace(delta, rows=delta.rows + 1))})

    (finding,) = check(view, full=False)

    assert finding.message == "the deltas say 9 rows, their entries add up to 8"


def test_digests_that_lie_are_found(dataset: HavasuDataset) -> None:
    delta = delta_of(dataset, entry_of(dataset))
    lying = replace(delta, digests={**delta.digests, 2: (1, 2)})
    view = replaced(dataset, {delta.path: format_delta(lying)})

    (finding,) = check(view)

    assert finding.message == (
        "the rows do not have the digests that deltas add up to, in column name"
    )


@pytest.mark.rule("ICE-67")
def test_a_key_that_stands_twice_is_found(datasets: MemoryDatasets) -> None:
    from havasu_vc.datasets.folder import edited
    from havasu_vc.datasets.havasu.build import NewDataset
    from havasu_vc.datasets.havasu.writing import write_data_files
    from havasu_vc.testing.tables import batch_of

    new = NewDataset("parcels", SCHEMA, table_uuid="test", meta={})
    files = [
        file
        for rows in (ROWS[:5], ROWS[4:])
        for file in write_data_files(
            [batch_of(rows, SCHEMA)],
            new.layout,
            datasets.storage.files,
            datasets.storage.keys,
            origin=Origin.IMPORT,
        )
    ]
    view = datasets.view(edited(None, new.edit(files)))

    (finding,) = check(view)

    assert finding.message.startswith("the key 4 stands twice, in ")


@pytest.mark.parametrize("at", [0, 9, 16, 30, -1])
def test_a_damaged_key_cache_is_reported_once_and_removed(dataset: HavasuDataset, at: int) -> None:
    path = next(
        path for path in dataset.storage.keys.iterdir() if not path.name.endswith("-verified")
    )
    flip(path, at)

    (finding,) = check(dataset)

    assert "key cache" in finding.where
    assert check(dataset) == []


def test_files_that_were_hashed_are_not_hashed_again(dataset: HavasuDataset) -> None:
    checked: set[str] = set()
    with LocalEngine(threads=1) as engine:
        assert list(check_dataset(dataset, engine, full=True, checked=checked)) == []

    assert checked == set(dataset.entries)


def place_in(geometry: Geometry, *values: bytes, edges: str | None = None) -> tuple[Schema, Any]:
    """Return a schema with a geometry column, and rows with these values."""
    extra = (("edges", edges),) if edges else ()
    column = Field(3, "geom", Primitive.BINARY, geometry=geometry, extra=extra)
    return (
        Schema((*SCHEMA.fields[:2], column), (1,)),
        [{1: number, 2: "x", 3: value} for number, value in enumerate(values)],
    )


@pytest.mark.rule("HAV-79")
def test_values_of_another_encoding_are_found(datasets: MemoryDatasets) -> None:
    declared, rows = place_in(Geometry(), b"POINT (1 2)", POINT)
    plain = Schema((*SCHEMA.fields[:2], Field(3, "geom", Primitive.BINARY)), (1,))
    view = datasets.new(plain, rows)
    document = format_schema(declared)
    name = document_hash(document)
    columns = {f"columns/{path}": data for path, data in format_columns(declared).items()}
    changed = replaced(view, {**columns, f"meta/past/{name}.json": document})

    found = check(with_entry(changed, entry_of(changed), schema=name))

    assert any("column 'geom' has values that are no ewkb: " in each.message for each in found)
    assert any("geometr" in each.message for each in check(changed))


@pytest.mark.rule("HAV-79", "HAV-98")
def test_an_srid_in_a_column_of_wkb_is_found(datasets: MemoryDatasets) -> None:
    ewkb = bytes.fromhex("0101000020e6100000000000000000f03f0000000000000040")
    schema, rows = place_in(Geometry(Encoding.WKB), ewkb)

    (found,) = check(datasets.new(schema, rows))

    assert found.message == "column 'geom' has values with an SRID, which wkb cannot have"


@pytest.mark.rule("PQ-5")
def test_a_geography_is_on_the_globe(datasets: MemoryDatasets) -> None:
    beyond = shapely.to_wkb(shapely.Point(181, 0))

    plane, rows = place_in(Geometry(), POINT, beyond)
    globe, _ = place_in(Geometry(), POINT, beyond, edges="spherical")

    assert check(datasets.new(plane, rows)) == []
    (found,) = check(datasets.new(globe, rows))
    assert found.message == "column 'geom' has geometries that are not on the globe"
    assert check(datasets.new(globe, rows[:1])) == []


def test_a_system_that_is_not_defined_is_found(datasets: MemoryDatasets) -> None:
    schema, rows = place_in(Geometry(crs="EPSG:2193"), POINT)
    view = datasets.new(schema, rows)

    assert [each.where for each in check(view)] == ["parcels/meta/crs/EPSG:2193.wkt"]
    (found,) = check(replaced(view, {"meta/crs/EPSG:2193.wkt": b"nonsense"}))
    assert found.where == "parcels/meta/crs/EPSG:2193.wkt"
    sound = parse_crs("EPSG:2193").wkt.encode()
    assert check(replaced(view, {"meta/crs/EPSG:2193.wkt": sound})) == []
