"""Conflicts print byte for byte as real Kart printed them, and as golden files say."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.formats.json_columns import json_column
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.columns import schema_of
from havasu_vc.model.diffs import (
    ConflictCounts,
    ConflictedDataset,
    DatasetHeader,
    MergeContext,
    MergeSide,
    MetaConflict,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.writers import JsonStyle, WriterOptions
from havasu_vc.writers.conflicts import (
    CONFLICT_WRITERS,
    VERSIONS,
    MergeReport,
    conflict_writer_named,
    merge_lines,
    merge_object,
)
from havasu_vc.writers.status import RepositoryStatus, format_status, status_object
from tests.support.golden import Golden
from tests.writers.cases import FULL, TYPES, rows
from tests.writers.kart_diffs import EXPECTED, schemas

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden" / "conflicts"
KART = {"points": "points.15827255", "inserts": "inserts.9deef0db"}
needs_kart = pytest.mark.skipif(not EXPECTED.exists(), reason=f"no {EXPECTED}")


def dataset(
    schema: Schema,
    labels: list[str],
    versions: dict[str, pa.StructArray],
    path: str = "roads",
    meta: tuple[MetaConflict, ...] = (),
) -> ConflictedDataset:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(labels, pa.string()), *(versions[name] for name in VERSIONS)],
        ["label", *VERSIONS],
    )
    return ConflictedDataset(DatasetHeader(path, "havasu", schema, {}), meta, batch)


def kart_conflicts(case: str) -> Iterator[ConflictedDataset]:
    """Yield the conflicts of a file that Kart printed."""
    document = json.loads((EXPECTED / f"{case}.conflicts.json").read_text())
    for path, parts in document["kart.conflicts/v1"].items():
        schema = schema_of(schemas(KART[case])[path][1])
        found = parts["feature"]
        versions = {
            name: _side([each.get(name) for each in found.values()], schema) for name in VERSIONS
        }
        yield dataset(schema, list(found), versions, path)


def _side(values: list[dict[str, Any] | None], schema: Schema) -> pa.StructArray:
    columns = [
        json_column([v and v[f.name] for v in values], f, lambda at, name: name)
        for f in schema.fields
    ]
    fields = [arrow_field(f).with_nullable(True) for f in schema.fields]
    mask = pa.array([value is None for value in values])
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def printed(
    datasets: list[ConflictedDataset],
    name: str,
    summary: int = 0,
    options: WriterOptions | None = None,
) -> str:
    out = io.StringIO()
    conflict_writer_named(name)(datasets, out, options or WriterOptions(), summary)
    return out.getvalue()


@needs_kart
@pytest.mark.parametrize("name", ["json", "geojson"])
@pytest.mark.parametrize("case", sorted(KART))
def test_as_kart_printed_it(case: str, name: str) -> None:
    expected = (EXPECTED / f"{case}.conflicts.{name}").read_text()

    assert printed(list(kart_conflicts(case)), name) == expected


@needs_kart
@pytest.mark.parametrize("case", sorted(KART))
def test_a_merge_as_kart_told_of_it(case: str) -> None:
    expected = json.loads((EXPECTED / f"{case}.merge.json").read_text())
    told = expected["kart.merge/v1"]
    sides = {
        name: MergeSide(side["commit"], side.get("branch"))
        for name, side in told["merging"].items()
    }
    counts = {path: ConflictCounts(each["feature"]) for path, each in told["conflicts"].items()}
    report = MergeReport("conflicts", None, MergeContext(**sides), told["message"], counts)

    assert json.dumps(merge_object(report), indent=2) == json.dumps(expected, indent=2)


@needs_kart
def test_text_and_summaries_are_kart_s() -> None:
    (points,) = kart_conflicts("points")
    path = points.path
    lines = printed([points], "text").splitlines()

    assert lines[:11] == [
        f"{path}:",
        f"    {path}:feature:",
        f"        {path}:feature:3:",
        f"            {path}:feature:3:ancestor:",
        "                                     fid = 3",
        "                                    geom = POINT(...)",
        "                                 t50_fid = 2426273",
        "                              name_ascii = Tauwhare Pa",
        "                              macronated = N",
        "                                    name = Tauwhare Pa",
        f"            {path}:feature:3:ours:",
    ]
    assert lines[-1] == ""
    assert printed([points], "text", 1).splitlines() == [
        f"{path}:",
        f"    {path}:feature:",
        *(f"        {path}:feature:{key}" for key in (3, 4, 5, 98001)),
        "",
    ]
    assert printed([points], "text", 2) == f"{path}:\n    {path}:feature: 4 conflicts\n\n"
    assert json.loads(printed([points], "json", 1))["kart.conflicts/v1"] == {
        path: {"feature": [3, 4, 5, 98001]}
    }
    assert json.loads(printed([points], "json", 2))["kart.conflicts/v1"] == {path: {"feature": 4}}


def types_case() -> list[ConflictedDataset]:
    other = FULL | {"text": "other", "shape": None, "tags": None}
    versions = {
        "ancestor": rows([FULL, None], TYPES),
        "ours": rows([other, None], TYPES),
        "theirs": rows([None, FULL | {"fid": 5}], TYPES),
    }
    return [dataset(TYPES, ["9007199254740993", "5"], versions)]


def hostile_case() -> list[ConflictedDataset]:
    evil = "\x1b]0;title\x07\r\x9b31m\u202egnp.exe\u2028"
    schema = Schema(
        (Field(1, f"k{evil}", Primitive.STRING, required=True), Field(2, "name", Primitive.STRING)),
        (1,),
    )
    row = {f"k{evil}": evil, "name": evil}
    versions = {
        "ancestor": rows([None], schema),
        "ours": rows([row], schema),
        "theirs": rows([row | {"name": None}], schema),
    }
    meta = (MetaConflict(f"title{evil}", {"ours": evil, "theirs": f"{evil}\n2"}),)
    return [dataset(schema, [evil], versions, f"d{evil}", meta)]


def meta_case() -> list[ConflictedDataset]:
    schema = Schema((Field(1, "id", Primitive.INT, required=True),), (1,))
    header = DatasetHeader("a/b", "havasu", schema, {})
    title = MetaConflict("title", {"ancestor": "Roads", "ours": "Streets", "theirs": "Ways"})
    columns = MetaConflict("schema.json", {"ours": [{"name": "id"}], "theirs": [{"name": "fid"}]})
    return [ConflictedDataset(header, (columns, title)), *types_case()]


CASES: dict[str, Callable[[], list[ConflictedDataset]]] = {
    "types": types_case,
    "hostile": hostile_case,
    "meta": meta_case,
    "nothing": list,
}


@pytest.mark.parametrize("name", ["text", "json", "geojson"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_output(case: str, name: str, golden: Golden) -> None:
    golden(printed(CASES[case](), name), GOLDEN / case / f"expected.{name}")


@pytest.mark.parametrize("summary", [1, 2])
@pytest.mark.parametrize("name", ["text", "json"])
def test_summary(name: str, summary: int, golden: Golden) -> None:
    golden(printed(meta_case(), name, summary), GOLDEN / f"summary-{summary}" / f"expected.{name}")


@pytest.mark.parametrize("name", ["json", "geojson"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_styles_differ_in_layout_alone(case: str, name: str) -> None:
    pretty, compact, tight = (
        printed(CASES[case](), name, options=WriterOptions(json_style=style)) for style in JsonStyle
    )
    value = json.loads(pretty)

    assert pretty == json.dumps(value, indent=2) + "\n"
    assert compact == json.dumps(value) + "\n"
    assert tight == json.dumps(value, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("summary", [0, 1, 2])
def test_nothing_controls_the_terminal(summary: int) -> None:
    text = printed(hostile_case(), "text", summary)

    assert all(character.isprintable() or character == "\n" for character in text)


def test_colors_tell_versions_apart() -> None:
    text = printed(meta_case(), "text", options=WriterOptions(color=True))

    for version, code in (("ancestor", 31), ("ours", 32), ("theirs", 36)):
        assert f"\x1b[{code}m            a/b:meta:title:{version}:\x1b[0m\n" in text
        assert f"\x1b[{code}m            roads:feature:" in text


@pytest.mark.parametrize("name", sorted(CONFLICT_WRITERS))
def test_every_writer_counts(name: str) -> None:
    write = conflict_writer_named(name)

    assert write(meta_case(), io.StringIO(), WriterOptions()) == 4


def test_many_rows_are_printed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: printed(types_case(), name) for name in ("text", "json", "geojson")}
    for module in ("text", "json", "geojson"):
        monkeypatch.setattr(f"havasu_vc.writers.conflicts_{module}.SLICE_ROWS", 1)

    assert {name: printed(types_case(), name) for name in whole} == whole


def test_geojson_of_several_datasets_needs_a_folder(tmp_path: Path) -> None:
    (one,) = types_case()
    two = dataset(
        TYPES, ["5"], dict.fromkeys(VERSIONS, rows([FULL | {"fid": 5}], TYPES)), "more/roads"
    )

    with pytest.raises(InvalidArgumentError, match="GeoJSON holds one dataset"):
        printed([two, one], "geojson")
    printed([two, one], "geojson", options=WriterOptions(directory=tmp_path))

    written = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert {name: len(value["features"]) for name, value in written.items()} == {
        "more__roads.geojson": 3,
        "roads.geojson": 3,
    }


@pytest.mark.parametrize(
    ("kind", "dry_run", "extra", "line"),
    [
        ("up-to-date", False, {"noOp": True, "fastForward": True}, "Already up to date"),
        ("fast-forward", False, {"fastForward": True}, f"Fast-forwarded to {'c' * 40}"),
        ("fast-forward", True, {"fastForward": True}, f"Can fast-forward to {'c' * 40}"),
        ("merge", False, {}, "No conflicts!"),
        ("merge", True, {"commit": "(dryRun)"}, "No conflicts: merge will succeed!"),
    ],
)
def test_merges_are_told(kind: str, dry_run: bool, extra: dict[str, Any], line: str) -> None:
    commit = None if dry_run else "d" * 40
    report = MergeReport(kind, commit, CONTEXT, "m", dry_run=dry_run)

    value = merge_object(report)["kart.merge/v1"]

    assert extra.items() <= value.items()
    assert (value["conflicts"], value["dryRun"]) == (None, dry_run)
    assert merge_lines(report)[:2] == ['Merging branch "side" into main', line]


CONTEXT = MergeContext(
    MergeSide("a" * 40), MergeSide("b" * 40, "main"), MergeSide("c" * 40, "side")
)


def test_status_while_merging() -> None:
    counts = {"roads": ConflictCounts(4, 1)}
    status = RepositoryStatus("b" * 40, "main", merging=CONTEXT, conflicts=counts)

    value = status_object(status)["kart.status/v2"]

    assert value["state"] == "merging"
    assert value["conflicts"] == {"roads": {"feature": 4, "meta": 1}}
    assert value["merging"]["theirs"]["branch"] == "side"
    assert "workingCopy" not in value
    assert format_status(status).splitlines()[2:9] == [
        'Repository is in "merging" state.',
        'Merging branch "side" into main',
        "Conflicts:",
        "",
        "roads:",
        "    roads:feature: 4 conflicts",
        "    roads:meta: 1 conflict",
    ]
    done = RepositoryStatus("b" * 40, "main", merging=CONTEXT)
    assert "merge --continue" in format_status(done)
