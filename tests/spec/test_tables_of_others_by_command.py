"""Iceberg's rules of tables that PyIceberg wrote, as `import` reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.spec.commands import Commands

Document = dict[str, Any]
NESTED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "a.b": ["x", None],
        "s": pa.array(
            [{"x": 1, "y": "p"}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])
        ),
        "l": pa.array([[1, 2], []], pa.list_(pa.field("element", pa.int32()))),
        "m": pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())),
    }
)


def table(tmp_path: Path, rows: pa.Table, version: str = "2", *, empty: bool = False) -> Table:
    """Have PyIceberg make a table."""
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path / 'lake'}")
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", rows.schema, properties={"format-version": version})
    if not empty:
        made.append(rows)
    return made


def metadata_of(made: Table) -> Path:
    return Path(made.metadata_location.removeprefix("file://"))


def edited(made: Table, change: Callable[[Document], None]) -> Path:
    """Write the table's metadata anew with a change, and return the file."""
    old = metadata_of(made)
    document = json.loads(old.read_text())
    change(document)
    new = old.with_name(f"99999-{old.name.partition('-')[2]}")
    new.write_text(json.dumps(document))
    return new


def field(document: Document, name: str) -> Document:
    (schema,) = (
        each for each in document["schemas"] if each["schema-id"] == document["current-schema-id"]
    )
    found: Document = next(each for each in schema["fields"] if each["name"] == name)
    return found


def rows(hv: Commands, place: Path, *arguments: str) -> pa.Table:
    hv("import", f"iceberg:{place}", "t", *(arguments or ("--primary-key", "id")))
    return Repo.open(hv.path).table("t").to_arrow().sort_by("id")


def refused(hv: Commands, place: Path, words: str) -> None:
    done = invoke(["-C", hv.path, "import", f"iceberg:{place}", "t", "--no-primary-key"])
    assert done.exit_code not in (0, 1), done.output
    assert words in done.output, done.output
    assert "Traceback" not in done.output and "internal error" not in done.output
    assert "there are no datasets" in hv("data", "ls")


@pytest.mark.rule("ICE-54", "ICE-56", "ICE-57", "ICE-58", "ICE-59", "ICE-60", "ICE-62", "ICE-63")
@pytest.mark.rule("ICE-64", "ICE-65", "ICE-52", "ICE-53")
def test_files_without_ids_are_read_by_names(hv: Commands, tmp_path: Path) -> None:
    made = table(tmp_path, NESTED, empty=True)
    folder = metadata_of(made).parents[1] / "data"
    folder.mkdir()
    pq.write_table(NESTED, folder / "one.parquet")
    made.add_files([str(folder / "one.parquet")])
    # A name that a column had is one of its names.
    with made.update_schema() as change:
        change.rename_column("l", "listed")
        change.add_column("more", made.schema().find_type("id"))
    later = NESTED.rename_columns(["id", "a.b", "s", "listed", "m"])
    later = later.set_column(0, "id", pa.array([3, 4], pa.int64()))
    pq.write_table(later, folder / "two.parquet")
    mapping = json.loads(made.properties["schema.name-mapping.default"])
    assert next(each for each in mapping if each["names"][-1] == "listed")["names"][0] == "l"
    made.add_files([str(folder / "two.parquet")], check_duplicate_files=False)

    found = rows(hv, metadata_of(made))
    assert found["id"].to_pylist() == [1, 2, 3, 4] and found["more"].to_pylist() == [None] * 4
    for name in ("a.b", "s", "m"):
        assert found[name].to_pylist() == NESTED[name].to_pylist() * 2, name
    assert found["listed"].to_pylist() == NESTED["l"].to_pylist() * 2


@pytest.mark.rule("ICE-55", "ICE-61")
def test_a_mapping_without_names_is_none(hv: Commands, tmp_path: Path) -> None:
    made = table(tmp_path, NESTED)

    def change(document: Document) -> None:
        document["properties"]["schema.name-mapping.default"] = json.dumps([{"field-id": 1}])

    refused(hv, edited(made, change), "names")

    def nameless(document: Document) -> None:
        mapping = [{"field-id": 1, "names": []}]
        document["properties"]["schema.name-mapping.default"] = json.dumps(mapping)

    assert rows(hv, edited(made, nameless))["id"].to_pylist() == [1, 2]


@pytest.mark.rule("ICE-1", "ICE-26", "HAV-1", "ICE-6")
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.few(1)
def test_tables_of_both_versions(hv: Commands, tmp_path: Path, version: str) -> None:
    made = table(tmp_path, NESTED.select(["id", "a.b", "s"]), version)
    with made.update_schema() as change:
        change.rename_column("a.b", "renamed")
        change.move_first("s")
    with made.update_spec() as spec:
        spec.add_identity("id")
    more = made.scan().to_arrow().set_column(1, "id", pa.array([5, 6], pa.int64()))
    made.append(more.cast(made.schema().as_arrow()))
    found = rows(hv, metadata_of(made))
    assert found.to_pylist() == made.scan().to_arrow().sort_by("id").to_pylist()
    assert found.column_names == ["s", "id", "renamed"]


@pytest.mark.rule("ICE-95")
def test_metadata_that_is_packed(hv: Commands, tmp_path: Path) -> None:
    made = table(tmp_path, NESTED)
    packed = metadata_of(made).with_name("v1.gz.metadata.json")
    packed.write_bytes(gzip.compress(metadata_of(made).read_bytes()))
    assert rows(hv, packed)["id"].to_pylist() == [1, 2]


GEOMETRY = {"havasu.geometry-encoding": "wkb"}


def version(document: Document) -> None:
    document["format-version"] = 5


def numeric(document: Document) -> None:
    document["havasu.format-version"] = 0.1


def newer(document: Document) -> None:
    document["havasu.format-version"] = "1.0.0"


def twice(document: Document) -> None:
    field(document, "a.b")["id"] = 1


def spatial_3(document: Document) -> None:
    document["format-version"] = 3
    document["next-row-id"] = 0
    field(document, "bytes").update(GEOMETRY)


def spatial_default(document: Document) -> None:
    field(document, "bytes").update(GEOMETRY, **{"initial-default": "00", "write-default": "00"})


def unknown_encoding(document: Document) -> None:
    field(document, "bytes")["havasu.geometry-encoding"] = "twkb"


def inconsistent(document: Document) -> None:
    field(document, "a.b").update(GEOMETRY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(version, "5", marks=pytest.mark.rule("ICE-96")),
        pytest.param(numeric, "havasu.format-version", marks=pytest.mark.rule("HAV-5")),
        pytest.param(newer, "1.0.0", marks=pytest.mark.rule("HAV-7")),
        pytest.param(twice, "1", marks=pytest.mark.rule("ICE-38")),
        pytest.param(spatial_3, "Havasu columns", marks=pytest.mark.rule("HAV-2")),
        pytest.param(spatial_default, "default", marks=pytest.mark.rule("HAV-132", "ICE-39")),
        pytest.param(unknown_encoding, "twkb", marks=pytest.mark.rule("HAV-78")),
        pytest.param(inconsistent, "wkb", marks=pytest.mark.rule("HAV-79")),
    ],
)
@pytest.mark.few(3)
def test_metadata_that_says_what_cannot_be(
    hv: Commands, tmp_path: Path, change: Callable[[Document], None], words: str
) -> None:
    plain = NESTED.select(["id", "a.b"]).append_column("bytes", pa.array([b"", None]))
    refused(hv, edited(table(tmp_path, plain), change), words)


@pytest.mark.rule("HAV-11", "HAV-71", "HAV-72", "HAV-73", "HAV-75")
@pytest.mark.parametrize("spelt", ["binary", "BINARY"])
@pytest.mark.few(1)
def test_columns_that_say_that_they_are_geometries(
    hv: Commands, tmp_path: Path, spelt: str
) -> None:
    shapes = [shapely.to_wkb(shapely.Point(1, 2)), None]
    made = table(tmp_path, pa.table({"id": [1, 2], "geom": pa.array(shapes, pa.binary())}))

    def change(document: Document) -> None:
        field(document, "geom").update(GEOMETRY, type=spelt)

    found = rows(hv, edited(made, change))
    assert found["geom"].to_pylist() == shapes
    assert hv.columns()[1]["dataType"] == "geometry"


@pytest.mark.rule("ICE-66", "ICE-67", "ICE-69", "ICE-71")
@pytest.mark.parametrize("name", ["x", "maybe", "geom"])
@pytest.mark.few(1)
def test_what_cannot_tell_rows_apart(hv: Commands, tmp_path: Path, name: str) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("x", pa.float64(), nullable=False),
            pa.field("maybe", pa.int64()),
            pa.field("geom", pa.binary(), nullable=False),
        ]
    )
    plain = pa.table([[1, 1], [0.5, 1.5], [1, None], [b"", b""]], schema=schema)
    made = table(tmp_path, plain)

    def change(document: Document) -> None:
        field(document, "geom").update(GEOMETRY)
        document["schemas"][-1]["identifier-field-ids"] = [field(document, name)["id"]]

    refused(hv, edited(made, change), "identif")

    def by_id(document: Document) -> None:
        document["schemas"][-1]["identifier-field-ids"] = [field(document, "id")["id"]]

    # Rows that one key has twice are not refused by Iceberg, and told here.
    done = invoke(["-C", hv.path, "import", f"iceberg:{edited(made, by_id)}", "t"])
    assert done.exit_code == 23 and "1" in done.output and "Traceback" not in done.output
