"""Rows that a program holds, in each form that people have them in, become and change datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import geopandas as gpd
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo, SourceOptions
from havasu_vc.errors import CrsError, DatasetNotFoundError, InvalidArgumentError, KeyViolationError

KEY = SourceOptions(primary_key=("id",))
Columns = dict[str, list[Any]]


def _duckdb(columns: Columns) -> object:
    table = pa.table(columns)  # DuckDB finds it by its name
    return duckdb.connect().from_arrow(table)


def _batches(columns: Columns) -> object:
    return (batch for batch in pa.table(columns).to_batches(1))


FORMS: dict[str, Callable[[Columns], Any]] = {
    "pandas": pd.DataFrame,
    "pandas, by its index": lambda columns: pd.DataFrame(columns).set_index("id"),
    "pandas, a part": lambda columns: pd.DataFrame(columns)[lambda rows: rows.id > -1],
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "a table": pa.table,
    "a reader": lambda columns: pa.table(columns).to_reader(),
    "batches": _batches,
    "a batch": pa.record_batch,
    "duckdb": _duckdb,
    "columns": dict,
    "dicts": lambda columns: pa.table(columns).to_pylist(),
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.init(tmp_path / "repo")


def _trees(crs: str | None = "EPSG:4326") -> gpd.GeoDataFrame:
    return gpd.GeoDataFrame(
        {"id": [1, 2, 3], "species": ["rimu", "totara", "rata"]},
        geometry=gpd.points_from_xy([174.0, 175.0, 176.0], [-41.0, -42.0, -43.0]),
        crs=crs,
    )


@pytest.mark.few(6)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_rows(repo: Repo, form: str) -> None:
    make = FORMS[form]
    taken = repo.import_(make({"id": [1, 2], "n": ["a", "b"]}), "t", options=KEY)
    assert taken.datasets["t"].inserts == 2
    written = repo.write("t", make({"id": [2, 3], "n": ["B", "c"]}))
    assert (written.changes["t"].inserts, written.changes["t"].updates) == (1, 1)
    assert repo.table("t").schema.names == ("id", "n")
    assert repo.table("t").to_arrow().to_pydict() == {"id": [1, 2, 3], "n": ["a", "B", "c"]}
    repo.write("t", make({"id": [1, 2], "n": ["a", "B"]}), mode="delete")
    assert repo.table("t").to_arrow().to_pydict() == {"id": [3], "n": ["c"]}


@given(
    st.dictionaries(
        st.integers(-9, 9),
        st.tuples(
            st.one_of(st.none(), st.text("ab'ü\n", max_size=3)),
            st.one_of(st.none(), st.tuples(st.floats(-180, 180), st.floats(-90, 90))),
        ),
        min_size=1,
    ),
    st.sampled_from(["WKB", "geoarrow"]),
)
def test_a_frame_comes_back_as_it_went(
    rows: dict[int, tuple[str | None, tuple[float, float] | None]], encoding: str
) -> None:
    from tempfile import TemporaryDirectory

    shapes = [None if at is None else shapely.Point(*at) for _, at in rows.values()]
    frame = gpd.GeoDataFrame(
        {"id": pd.Series(list(rows), dtype="int64"), "n": [name for name, _ in rows.values()]},
        geometry=gpd.GeoSeries(shapes, crs="EPSG:4326"),
    )
    with TemporaryDirectory() as folder:
        repo = Repo.init(folder)
        native = encoding == "geoarrow" and any(shapes)
        form = (
            pa.table(frame.to_arrow(index=False, geometry_encoding=encoding)) if native else frame
        )
        repo.import_(form, "t", options=KEY)
        back = repo.table("t").to_geopandas()
        assert repo.write("t", back).commit is None  # nothing differs
        assert repo.write("t", form).commit is None
    found = {row.id: (None if pd.isna(row.n) else row.n, row.geometry) for row in back.itertuples()}
    assert found == {
        key: (name, shape) for (key, (name, _)), shape in zip(rows.items(), shapes, strict=True)
    }
    assert back.crs == "EPSG:4326"


def test_a_release_is_compared_with_what_is_there(repo: Repo) -> None:
    repo.import_(_trees().set_index("id"), "trees")
    assert repo.table("trees").schema.key.names == ("id",)
    release = _trees().assign(species=["rimu", "TOTARA", "rata"]).iloc[:2]
    result = repo.import_(release, "trees", replace=True, message="Release")
    counts = result.datasets["trees"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 1, 1)


def test_geometries_in_another_system_are_refused(repo: Repo) -> None:
    repo.import_(_trees(), "trees", options=KEY)
    head = repo.head().commit
    with pytest.raises(CrsError, match=r"in EPSG:2193, the dataset in EPSG:4326"):
        repo.write("trees", _trees().to_crs(2193))
    assert repo.head().commit == head
    # What states no system is of the dataset's.
    moved = _trees(None).set_geometry(gpd.points_from_xy([1, 2, 3], [1, 2, 3]))
    assert repo.write("trees", moved).changes["trees"].updates == 3
    assert repo.table("trees").to_geopandas().geometry.iloc[2] == shapely.Point(3, 3)


def test_a_place_asked_for_holds_of_rows_too(repo: Repo) -> None:
    options = SourceOptions(primary_key=("id",), bbox=(174.5, -42.5, 175.5, -41.5))
    repo.import_(_trees(), "trees", options=options)
    assert repo.table("trees").to_pandas()["id"].to_list() == [2]


def _refused(repo: Repo, rows: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        repo.write("t", rows)
    return caught.value.message


def test_what_is_no_rows_is_refused(repo: Repo) -> None:
    repo.import_(pd.DataFrame({"id": [1], "n": ["a"]}), "t", options=KEY)
    head = repo.head().commit
    assert "'str'" in _refused(repo, "rows.parquet")
    assert "Point" in _refused(repo, pd.DataFrame({"id": [1], "at": [shapely.Point(1, 2)]}))
    assert "convert 'x'" in _refused(repo, pd.DataFrame({"id": [1], "n": [1]}).assign(m=[[1, "x"]]))
    assert "no geometry column 'geometry'" in _refused(repo, _trees())
    with pytest.raises(DatasetNotFoundError) as missing:
        repo.write("trees", _trees())
    assert "import_(rows, 'trees')" in missing.value.hints[0]
    for wrong in (None, "trees"):
        with pytest.raises(InvalidArgumentError):
            repo.import_(_trees(), wrong, layers=["other"])
    with pytest.raises(InvalidArgumentError, match="no columns"):
        repo.import_([], "empty")
    with pytest.raises(InvalidArgumentError, match="no history"):
        repo.import_(_trees(), "trees", history=True)
    with pytest.raises(KeyViolationError, match="the key 1 is there twice"):
        repo.import_(pd.concat([_trees(), _trees()]).set_index("id"), "trees")
    assert repo.head().commit == head
