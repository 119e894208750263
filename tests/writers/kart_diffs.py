"""Diffs that real Kart printed, read back into the values that writers take."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from havasu_vc.formats.patch import DatasetPatch, FeatureChange, FeatureForm, patch_batches
from havasu_vc.model.columns import schema_of
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, MetaChange
from havasu_vc.model.schema import Schema

EXPECTED = Path(__file__).resolve().parents[3] / "shared" / "data" / "kart-expected"
CASES = sorted(path.stem for path in EXPECTED.glob("*.json-lines"))


@cache
def schemas(case: str) -> dict[str, tuple[Any, Any]]:
    """Return the columns before and after by dataset, None where it is not there."""
    found = {}
    for line in (EXPECTED / f"{case}.json-lines").read_text().splitlines():
        message = json.loads(line)
        if message.get("key") == "schema.json":
            if message["type"] == "metaInfo":
                found[message["dataset"]] = (message["value"], message["value"])
            else:
                change = message["change"]
                found[message["dataset"]] = (change.get("-"), change.get("+"))
    return found


def read_diff(case: str) -> Iterator[DatasetDiff]:
    """Yield the datasets of `<case>.json` as diffs."""
    document = json.loads((EXPECTED / f"{case}.json").read_text())
    for path, value in document["kart.diff/v1+hexwkb"].items():
        old, new = (
            None
            if columns is None
            else DatasetHeader(path, "kart", schema_of(columns), {"schema.json": columns})
            for columns in schemas(case)[path]
        )
        meta = tuple(
            MetaChange(name, change.get("-"), change.get("+"))
            for name, change in value.get("meta", {}).items()
        )
        features = changes(path, value.get("feature", []), old, new)
        yield DatasetDiff(path, old, new, meta, features)


def changes(
    path: str, features: list[Any], old: DatasetHeader | None, new: DatasetHeader | None
) -> Iterator[Any]:
    """Yield change batches of Kart's list of changes."""
    patch = DatasetPatch(path, (), tuple(map(feature, range(1, len(features) + 1), features)))
    batches = patch_batches(patch, schema_or_none(old), schema_or_none(new))
    return (batch.changes for batch in batches)


def schema_or_none(header: DatasetHeader | None) -> Schema | None:
    """Return the schema of a header that may be missing."""
    return None if header is None else header.schema


def feature(number: int, change: dict[str, Any]) -> FeatureChange:
    """Return a change that is whole, whatever its labels."""
    old, new = change.get("-"), change.get("+")
    if old is None:
        return FeatureChange(number, FeatureForm.INSERT, None, new)
    form = FeatureForm.DELETE if new is None else FeatureForm.UPDATE
    return FeatureChange(number, form, old, new)
