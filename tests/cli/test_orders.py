"""An order of rows that an import is asked for and does not make is named."""

from pathlib import Path

import geopandas
import pytest
import shapely

from havasu_vc import Repo
from tests.cli.conftest import invoke


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, stood in, and a file of points in no order."""
    points = shapely.points([(i * 7 % 5, i % 3) for i in range(30)])
    table = geopandas.GeoDataFrame({"id": [i * 7 % 30 for i in range(30)]}, geometry=points)
    table.to_parquet(tmp_path / "p.parquet")
    Repo.init(tmp_path / "repo")
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "p.parquet"


def _imported(file: Path, *options: str) -> str:
    found = invoke(["import", file, "p", *options])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("key", "hilbert", "in the order of the key, not as --order hilbert says"),
        ("hilbert", "none", "along a curve, not as --order none says"),
        ("hilbert", "hilbert", None),
        ("hilbert", "key", None),
    ],
)
def test_a_release_keeps_the_order(places: Path, first: str, then: str, said: str | None) -> None:
    before = _imported(places, "--primary-key", "id", "--order", first)
    assert "--order" not in before
    told = _imported(places, "--replace", "--order", then)
    if said is None:
        assert "--order" not in told
    else:
        assert f"the rows of p stand {said}: a release keeps that" in told


def test_rows_with_a_key_do_not_stand_as_they_came(places: Path) -> None:
    told = _imported(places, "--primary-key", "id", "--order", "none")
    assert "in the order of the key, not as --order none says: where there is a key" in told
    assert Repo.open(".").table("p").to_arrow().column("id").to_pylist() == [*range(30)]


def test_rows_without_a_key_stand_as_they_came(places: Path) -> None:
    assert "--order" not in _imported(places, "--no-primary-key", "--order", "none")
