"""Columns declared as geometries, and back, without a data file changing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import GeometryError, InvalidArgumentError, SchemaViolationError
from havasu_vc.model.changes import count_changes
from tests.repo.tables import BY_ID, rows
from tests.support.sound import CheckedRepo, refuses

SHAPES = [shapely.Point(i, -i) for i in range(300)]


@pytest.fixture
def plain(repo: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """A dataset with geometries in columns of bytes and text."""
    table = {
        "id": range(300),
        "wkb": pa.array([shapely.to_wkb(s) for s in SHAPES], pa.binary()),
        "ewkb": pa.array(
            [shapely.to_wkb(shapely.set_srid(s, 2193), include_srid=True) for s in SHAPES],
            pa.binary(),
        ),
        "wkt": [shapely.to_wkt(s) for s in SHAPES],
        "name": [f"n{i}" for i in range(300)],
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    repo.import_(tmp_path / "t.parquet", "t", options=BY_ID)
    return repo


def files(repo: CheckedRepo) -> set[str]:
    return set(require_files(repo.repo.dataset("t")).entries)


def sound(repo: CheckedRepo) -> bool:
    return not list(repo.repo.fsck())


@pytest.mark.few(1)
@pytest.mark.rule("HAV-86")
@pytest.mark.parametrize(
    ("column", "encoding"), [("wkb", "wkb"), ("wkb", "ewkb"), ("ewkb", "ewkb"), ("wkt", "wkt")]
)
def test_a_column_becomes_one_of_geometries_and_none_again(
    plain: CheckedRepo, column: str, encoding: str
) -> None:
    before, there = rows(plain, "t"), files(plain)

    plain.declare_geometries("t", {column: encoding})

    (field,) = plain.dataset("t").schema.geometries
    assert field.geometry is not None
    assert (field.name, field.geometry.encoding.value) == (column, encoding)
    assert (files(plain), rows(plain, "t")) == (there, before)
    assert sound(plain)
    assert not sum(count_changes(each.changes).total for each in plain.diff("HEAD^...HEAD"))

    plain.declare_geometries("t", {column: "none"})

    assert not plain.dataset("t").schema.geometries
    assert files(plain) == there
    assert sound(plain)


@pytest.mark.rule("HAV-86")
def test_rows_can_be_edited_afterwards(plain: CheckedRepo, tmp_path: Path) -> None:
    plain.declare_geometries("t", {"wkb": "wkb"})
    table = plain.table("t").to_arrow()
    names = ["new" if i == 7 else name for i, name in enumerate(table["name"].to_pylist())]
    index = table.schema.get_field_index("name")
    changed: dict[str, Any] = dict(zip(table.schema.names, table.columns, strict=True))
    changed["name"] = pa.array(names)
    assert index >= 0
    geometry = {b"ARROW:extension:name": b"geoarrow.wkb"}
    schema = pa.schema(
        [pa.field(n, c.type, metadata=geometry if n == "wkb" else None) for n, c in changed.items()]
    )
    pq.write_table(pa.table(list(changed.values()), schema), tmp_path / "new.parquet")

    result = plain.import_(tmp_path / "new.parquet", "t", replace=True)

    counts = result.datasets["t"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 1, 0)
    assert sound(plain)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"ewkb": "wkb"}, GeometryError),
        ({"name": "wkt"}, GeometryError),
        ({"wkb": "wkt"}, SchemaViolationError),
        ({"wkt": "ewkb"}, SchemaViolationError),
        ({"id": "ewkb"}, SchemaViolationError),
        ({"wkb": "twkb"}, InvalidArgumentError),
        ({"nmae": "wkb"}, InvalidArgumentError),
    ],
)
def test_what_is_something_else_is_refused(
    plain: CheckedRepo, wanted: dict[str, str], error: type[Exception]
) -> None:
    with refuses(plain.repo, error):  # type: ignore[arg-type]
        plain.repo.declare_geometries("t", wanted)


def test_nothing_to_do_is_no_commit(plain: CheckedRepo) -> None:
    assert plain.declare_geometries("t", {"wkb": "none"}).commit is None
