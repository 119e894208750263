"""What holds of every diff, whatever its types and values."""

import io
import json
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from havasu_vc.formats.patch import parse_patch, patch_batches
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.schema import Schema
from havasu_vc.writers import JsonStyle, WriterOptions, writer_named
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.rows import ChangeForm, change_objects
from havasu_vc.writers.values import json_values, side_columns
from tests.support.examples import examples
from tests.writers.cases import COMMIT, diff_of, header
from tests.writers.strategies import comparable, diff_parts

Parts = tuple[Schema, list[ChangeBatch]]


def diff(parts: Parts) -> DatasetDiff:
    side = header(parts[0])
    return diff_of(*parts[1], old=side, new=side)


def printed(name: str, parts: Parts, options: WriterOptions | None = None) -> str:
    out = io.StringIO()
    writer_named(name)(iter([diff(parts)]), out, options or WriterOptions())
    return out.getvalue()


@examples(50)
@given(diff_parts())
def test_a_patch_gives_back_the_changes(parts: Parts) -> None:
    schema, batches = parts
    for style in JsonStyle:
        text = printed("patch", parts, WriterOptions(commit=COMMIT, json_style=style))
        patch = parse_patch(text.encode())
        back = [
            part.changes
            for dataset in patch.datasets
            for part in patch_batches(dataset, schema, schema)
        ]

        assert comparable(back) == comparable(batches)


def _finite(value: Any) -> Any:
    """Return a value with null for each number that JSON lines have not; texts stay."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@examples(50)
@given(diff_parts())
def test_every_format_has_the_same_rows(parts: Parts) -> None:
    whole = json.loads(printed("json", parts))["kart.diff/v1+hexwkb"]
    features = whole["roads"]["feature"] if whole else []
    lines = [json.loads(line) for line in printed("json-lines", parts).split("\n")[:-1]]
    changes = [line["change"] for line in lines if line["type"] == "feature"]

    assert text_of(changes) == text_of(_finite(features))


def text_of(value: object) -> str:
    return json.dumps(value)


@examples(50)
@given(diff_parts())
def test_text_never_controls_the_terminal(parts: Parts) -> None:
    text = printed("text", parts)

    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", text
    )


@examples(50)
@given(diff_parts())
def test_json_is_what_python_would_print(parts: Parts) -> None:
    text = printed("json", parts)

    assert text == json.dumps(json.loads(text), indent=2) + "\n"


@examples(50)
@given(diff_parts())
def test_geojson_is_strict_json(parts: Parts) -> None:
    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    text = printed("geojson", parts)
    value = json.loads(text, parse_constant=refuse)

    assert text == json.dumps(value, indent=2) + "\n"
    assert len(value["features"]) == sum(
        2 * len(batch) - batch.old.null_count - batch.new.null_count for batch in parts[1]
    )


def row_dicts(side: pa.StructArray, schema: Schema) -> list[dict[str, Any] | None]:
    """Return one side's rows as JSON-ready objects; None where the row is not there."""
    columns = side_columns(side, schema)
    names = [field.name for field, _ in columns]
    values = [json_values(column, field) for field, column in columns]
    rows = zip(*values, strict=True) if values else iter([()] * len(side))
    present = side.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if there else None
        for row, there in zip(rows, present, strict=True)
    ]


@examples(50)
@given(diff_parts())
def test_rows_as_dicts_are_the_rows_as_text(parts: Parts) -> None:
    form = ChangeForm(LAYOUTS[JsonStyle.COMPACT], 0)
    for batch in parts[1]:
        objects = change_objects(batch, diff(parts), form).to_pylist()
        old, new = row_dicts(batch.old, parts[0]), row_dicts(batch.new, parts[0])
        expected = [
            {sign: row for sign, row in (("-", before), ("+", after)) if row is not None}
            for before, after in zip(old, new, strict=True)
        ]
        assert objects == [json.dumps(value) for value in expected]


@examples(50)
@given(diff_parts())
def test_batches_leave_no_trace(parts: Parts) -> None:
    schema, batches = parts
    single = [batch.slice(at, 1) for batch in batches for at in range(len(batch))]
    for name in ("text", "json", "json-lines", "geojson"):
        assert printed(name, (schema, single)) == printed(name, parts)
