"""What the writers share: the registry, summaries, streaming, options."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.writers import WRITERS, JsonStyle, WriterOptions, writer_named
from tests.writers.cases import FID, NAME, TYPES, batch, diff_of, diffs, header

SCHEMA = Schema((FID, NAME), (1,))
KNOWN = sorted(set(WRITERS) - {"quiet"})


def insert(number: int) -> tuple[None, dict[str, object]]:
    return None, {"fid": number, "name": "x"}


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="no diff format 'yaml'"):
        writer_named("yaml")


def test_the_registry_loads_no_writer() -> None:
    code = (
        "import sys, havasu_vc.writers; "
        "sys.exit(any(m in sys.modules for m in ('havasu_vc.writers.text', 'shapely')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("name", ["name-only", "name-status"])
def test_names_alone_read_no_more_than_the_first_rows(name: str) -> None:
    (diff,) = diffs("types")
    (first, *_) = batches = list(diff.changes)
    read = iter([first, *batches, *batches])
    summary = writer_named(name)([replace(diff, changes=read)], io.StringIO(), WriterOptions())

    assert summary.has_changes and summary.total == first.counts.total
    assert len(list(read)) == 2 * len(batches), "the rest is still to be read"


@pytest.mark.parametrize("name", [name for name in KNOWN if not name.startswith("name-")])
def test_every_writer_counts(name: str) -> None:
    summary = writer_named(name)(diffs("types"), io.StringIO(), WriterOptions())

    assert summary.datasets["roads"].features == ChangeCounts(1, 1, 1)
    assert summary.has_changes
    assert summary.total == 3


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_no_change_is_no_change(name: str) -> None:
    summary = writer_named(name)(diffs("nothing"), io.StringIO(), WriterOptions())

    assert not summary.has_changes
    assert not summary.datasets


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_meta_alone_is_a_change(name: str) -> None:
    (diff,) = diffs("schema")
    only_meta = replace(diff, changes=iter([]))
    summary = writer_named(name)([only_meta], io.StringIO(), WriterOptions())

    assert summary.has_changes
    assert summary.datasets["roads"].meta == ChangeCounts(1, 2, 1)


class Stream:
    """Batches that know how many were taken, and a file that knows what was written by then."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self.out = io.StringIO()
        self.written: list[int] = []

    def __iter__(self) -> Iterator[ChangeBatch]:
        for number in range(self.count):
            self.taken += 1
            self.written.append(len(self.out.getvalue()))
            yield batch(SCHEMA, SCHEMA, insert(number))


@pytest.mark.parametrize("name", ["json", "json-lines", "text", "geojson", "patch"])
def test_each_batch_is_printed_before_the_next_is_asked_for(name: str) -> None:
    stream = Stream(6)
    side = header(SCHEMA)
    diff = DatasetDiff("roads", side, side, (), iter(stream))
    writer_named(name)([diff], stream.out, WriterOptions())

    sizes = stream.written[2:]
    assert sizes == sorted(set(sizes))


def test_quiet_stops_at_the_first_change() -> None:
    stream = Stream(6)
    side = header(SCHEMA)
    writer_named("quiet")(
        [DatasetDiff("roads", side, side, (), iter(stream))], stream.out, WriterOptions()
    )

    assert stream.taken == 1
    assert not stream.out.getvalue()


def test_geojson_of_several_datasets_goes_to_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    summary = writer_named("geojson")(
        diffs("added-and-removed"), io.StringIO(), WriterOptions(directory=folder)
    )

    assert summary.total == 2
    found = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert {name: value["features"][0]["id"] for name, value in found.items()} == {
        "a__new.geojson": "a/new:feature:1:I",
        "b__old.geojson": "b/old:feature:1:D",
    }


def test_geojson_directories_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    writer = writer_named("geojson")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        writer(diffs("types"), io.StringIO(), WriterOptions(directory=tmp_path / "file"))
    with pytest.raises(StorageError, match="cannot be written"):
        writer(diffs("types"), io.StringIO(), WriterOptions(directory=tmp_path / "no" / "where"))


def test_geometries_are_reprojected_on_both_sides() -> None:
    asked = []

    def reproject(column: pa.Array, field: Field, side: DatasetHeader) -> pa.Array:
        asked.append((field.name, side.path))
        return pa.nulls(len(column), column.type)

    out = io.StringIO()
    options = WriterOptions(reproject=reproject, json_style=JsonStyle.COMPACT)
    writer_named("json")(diffs("types"), out, options)
    assert {name for name, _ in asked} == {"shape", "outline"}
    assert '"shape": "01' not in out.getvalue()

    out = io.StringIO()
    writer_named("patch")(diffs("types"), out, options)
    features = json.loads(out.getvalue())["kart.diff/v1+hexwkb"]["roads"]["feature"]
    assert [list(feature) for feature in features] == [["+"], ["--"], ["++"]]


def test_labels_may_be_given() -> None:
    def labels(side: pa.StructArray, schema: Schema) -> pa.StringArray:
        return pa.array(["row"] * len(side))

    side = header(TYPES)
    change = batch(TYPES, TYPES, (None, dict.fromkeys(TYPES.names) | {"fid": 1}))
    out = io.StringIO()
    diff = diff_of(change, old=side, new=side)
    writer_named("text")([diff], out, WriterOptions(labels=labels))

    assert out.getvalue().startswith("+++ roads:feature:row\n")


@pytest.mark.thorough
def test_an_unknown_half_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no half of a change"):
        WriterOptions(delta_filter=frozenset({"*"}))
