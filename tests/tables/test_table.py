"""Finding the newest version of a table, and what is said of one that is not sound."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptionError, HavasuError, NotFoundError, UnsupportedVersionError
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables.table import HINT, Table, read_table, table_exists
from tests.tables.making import TableMaker

SCHEMA = Schema((Field(1, "id", Primitive.LONG),))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of three versions."""
    maker = TableMaker(tmp_path / "t", SCHEMA)
    maker.change(properties={"a": "1"})
    maker.change(properties={"a": "2"})
    return maker.table


def documents(table: Table) -> Path:
    return table.location / "metadata"


def test_what_is_published_is_read(table: Table) -> None:
    found = read_table(table.location)

    assert found.version == 3
    assert found.metadata.properties["a"] == "2"
    assert found.metadata_file == documents(table) / "v3.metadata.json"
    assert found.location == table.location
    assert found.moved_from is None
    assert table_exists(table.location)
    assert not table_exists(table.location / "none")


@pytest.mark.parametrize(
    "hint", [None, "1", "2", "3", "9", "0", "", "x", "-1", "3\n", "²", "9" * 40]
)
def test_any_hint_leads_to_the_newest(table: Table, hint: str | None) -> None:
    path = documents(table) / HINT
    path.unlink()
    if hint is not None:
        path.write_text(hint)

    assert read_table(table.location).version == 3


def test_versions_that_were_cleaned_up(table: Table) -> None:
    for number in (1, 2):
        (documents(table) / f"v{number}.metadata.json").unlink()
    (documents(table) / HINT).write_text("1")

    assert read_table(table.location).version == 3


@pytest.mark.parametrize("name", ["v4.gz.metadata.json", "v4.metadata.json.gz"])
def test_compressed_metadata(table: Table, name: str) -> None:
    (documents(table) / name).write_bytes(gzip.compress(table.metadata_file.read_bytes()))

    assert read_table(table.location).version == 4
    assert read_table(table.location).metadata == table.metadata


def test_one_version_by_number_or_by_file(table: Table) -> None:
    assert read_table(table.location, version=2).metadata.properties["a"] == "1"
    found = read_table(documents(table) / "v2.metadata.json")
    assert (found.version, found.location) == (2, table.location)
    with pytest.raises(NotFoundError, match="no version 7"):
        read_table(table.location, version=7)


def test_a_location_as_spark_spells_it(table: Table) -> None:
    assert read_table(f"file:{table.location}").version == 3
    assert read_table(f"file://{table.location}").location == table.location


def test_a_table_that_moved(table: Table, tmp_path: Path) -> None:
    shutil.move(table.location, tmp_path / "elsewhere")

    found = read_table(tmp_path / "elsewhere")

    assert found.moved_from == str(table.location)


def test_a_table_behind_a_link_has_not_moved(table: Table, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(table.location)

    assert read_table(tmp_path / "way").moved_from is None


def break_json(table: Table) -> None:
    table.metadata_file.write_bytes(table.metadata_file.read_bytes()[:-20])


def empty(table: Table) -> None:
    table.metadata_file.write_bytes(b"")


def other_json(table: Table) -> None:
    table.metadata_file.write_text("[1, 2]")


def lacking(table: Table) -> None:
    value = json.loads(table.metadata_file.read_bytes())
    del value["schemas"]
    table.metadata_file.write_text(json.dumps(value))


def cut_gzip(table: Table) -> None:
    (documents(table) / "v4.gz.metadata.json").write_bytes(
        gzip.compress(table.metadata_file.read_bytes())[:-9]
    )


def no_metadata(table: Table) -> None:
    for path in documents(table).glob("v*.json"):
        path.unlink()


def no_folder(table: Table) -> None:
    shutil.rmtree(documents(table))


def nothing(table: Table) -> None:
    shutil.rmtree(table.location)


def delta(table: Table) -> None:
    no_folder(table)
    (table.location / "_delta_log").mkdir()


def catalog(table: Table) -> None:
    name = "00002-5f1e3f8c-1d2b-4b3c-9a57-9f0b6d1f0d11.metadata.json"
    table.metadata_file.rename(documents(table) / name)
    for path in documents(table).glob("v*.json"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (break_json, r"v3\.metadata\.json"),
        (empty, "empty"),
        (other_json, r"v3\.metadata\.json"),
        (lacking, "schemas"),
        (cut_gzip, r"v4\.gz\.metadata\.json"),
        (no_metadata, "holds no v<N>"),
        (no_folder, "no folder 'metadata'"),
        (nothing, "no such folder"),
        (delta, "Delta table"),
        (catalog, "belongs to a catalog"),
    ],
)
def test_damage_is_told_in_one_line(table: Table, damage: object, words: str) -> None:
    assert callable(damage)
    damage(table)

    with pytest.raises(HavasuError, match=words) as told:
        read_table(table.location)
    assert len(str(told.value).splitlines()) == 1
    assert isinstance(told.value, CorruptionError | NotFoundError)


@pytest.mark.parametrize("version", [0, 4, 5])
def test_newer_formats_are_told_as_such(table: Table, version: int) -> None:
    value = json.loads(table.metadata_file.read_bytes())
    table.metadata_file.write_text(json.dumps({**value, "format-version": version}))

    with pytest.raises(UnsupportedVersionError, match=str(version)) as told:
        read_table(table.location)
    assert told.value.hints


def test_a_catalog_table_is_read_by_its_file(table: Table) -> None:
    catalog(table)
    (path,) = documents(table).glob("0*.json")

    assert read_table(path).version == 2


@pytest.mark.parametrize("name", ["v1.metadata.json", "version-hint.text"])
def test_a_document_that_is_a_link_to_outside_is_not_read(tmp_path: Path, name: str) -> None:
    maker = TableMaker(tmp_path / "t", SCHEMA)
    document = maker.location / "metadata" / name
    document.rename(tmp_path / "private")
    document.symlink_to(tmp_path / "private")

    with pytest.raises(CorruptionError, match="outside of the table"):
        read_table(maker.location)


def test_a_hint_that_never_answers_is_none(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path / "t", SCHEMA)
    hint = maker.location / "metadata" / "version-hint.text"
    hint.unlink()
    os.mkfifo(hint)

    assert read_table(maker.location).version == 1
