"""The bytes of Iceberg's documents, as golden files: compression aside, which is zlib's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from havasu_vc.formats.iceberg.avro import SYNC, parse_container
from havasu_vc.formats.iceberg.entries import manifest_file_of
from havasu_vc.formats.iceberg.manifests import format_manifest_list, parse_manifest
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import with_raster_ids
from havasu_vc.formats.iceberg.values import Flavour
from tests.formats.iceberg.test_manifests import ADDED, PLAIN, SCHEMA, SPEC, written
from tests.formats.iceberg.test_metadata import TABLE
from tests.support.golden import Golden

FOLDER = Path(__file__).parents[3] / "fixtures" / "golden" / "iceberg"


def shown(data: bytes) -> str:
    """A container file with its blocks unpacked, for people to read."""
    container = parse_container(data)
    blocks = [f"{count} records\n{block.hex(' ', 8)}\n" for count, block in container.blocks]
    header = {**container.metadata, "avro.schema": container.schema}
    return json.dumps(header, indent=1, ensure_ascii=False) + "\n" + "".join(blocks)


@pytest.mark.parametrize("flavour", Flavour)
def test_metadata(flavour: Flavour, golden: Golden) -> None:
    data = format_metadata(TABLE, flavour=flavour)
    golden(data.decode(), FOLDER / f"{flavour}.metadata.json")
    wanted = TABLE if flavour is Flavour.HAVASU else with_raster_ids(TABLE)
    assert parse_metadata((FOLDER / f"{flavour}.metadata.json").read_bytes(), "v") == wanted


@pytest.mark.parametrize("flavour", Flavour)
def test_manifest(flavour: Flavour, golden: Golden) -> None:
    data = written(ADDED, PLAIN, flavour=flavour)
    golden(shown(data), FOLDER / f"{flavour}.manifest.txt")
    assert data.count(SYNC) == 2
    assert len(parse_manifest(data, "m").entries) == 2


def test_manifest_list(golden: Golden) -> None:
    line = manifest_file_of(
        [ADDED, PLAIN],
        "/tables/parcels/metadata/m.avro",
        2048,
        schema=SCHEMA,
        spec=SPEC,
        sequence_number=2,
        snapshot_id=22,
    )
    data = format_manifest_list([line], snapshot_id=22, parent_id=11, sequence_number=2)
    golden(shown(data), FOLDER / "manifest-list.txt")
