"""The shared session reads, writes and catalogs Iceberg tables."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tables_of_two_folders_stand_side_by_side(
    spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    first, second = (iceberg(tmp_path / name) for name in ("one", "two"))
    for catalog, value in ((first, 1), (second, 2)):
        spark.sql(f"CREATE TABLE {catalog}.nz.roads (id INT) USING iceberg")
        spark.sql(f"INSERT INTO {catalog}.nz.roads VALUES ({value})")

    assert spark.table(f"{first}.nz.roads").first() == (1,)
    assert spark.table(f"{second}.nz.roads").first() == (2,)
    assert (tmp_path / "one" / "nz" / "roads" / "metadata" / "version-hint.text").exists()
