"""Tables that Spark changes by SQL, whatever keeps them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Delete,
    DropColumn,
    MoveFirst,
    Partition,
    RenameColumn,
    Row,
    State,
    Step,
    Update,
    Widen,
    arrow,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Written"]


class Written:
    """A table that Spark changes by SQL."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self.spark = spark
        self.name = name

    def make(self, first: State, using: str, properties: Mapping[str, str]) -> None:
        """Make a table of a format, which is empty."""
        self._view(first, [])
        said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {self.name} USING {using} TBLPROPERTIES ({said}) AS SELECT * FROM given"
        )

    def _view(self, state: State, rows: list[Row]) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        # Moments without a zone would be taken as those of the session's.
        schema = from_arrow_schema(state.schema, prefer_timestamp_ntz=True)
        frame = self.spark.createDataFrame(arrow(rows, state.schema), schema)
        frame.createOrReplaceTempView("given")

    def _type(self, state: State, name: str, parent: str | None = None) -> str:
        from pyspark.sql.types import StructType

        self._view(state, [])
        schema = self.spark.table("given").schema
        if parent is not None:
            inner = schema[parent].dataType
            assert isinstance(inner, StructType)
            schema = inner
        ddl = StructType([schema[name]]).toDDL()
        # The name is before the type, quoted where that is needed.
        return ddl.removeprefix(f"`{name}`").removeprefix(name).strip()

    def rows(self) -> list[Row]:
        found: list[Row] = self.spark.sql(f"SELECT * FROM {self.name}").toArrow().to_pylist()
        return found

    def apply(self, step: Step, before: State) -> None:
        sql = self.spark.sql
        table = f"ALTER TABLE {self.name}"
        match step:
            case Update(rows):
                self._view(before, list(rows))
                sql(
                    f"MERGE INTO {self.name} t USING given g ON t.{KEY} = g.{KEY}"
                    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            case Append(rows):
                self._view(before, list(rows))
                sql(f"INSERT INTO {self.name} BY NAME SELECT * FROM given")
            case Delete(keys):
                sql(f"DELETE FROM {self.name} WHERE {KEY} IN ({', '.join(map(str, keys))})")
            case AddColumn(column, parent):
                type_ = self._type(step.applied(before), column.name, parent)
                path = f"`{column.name}`" if parent is None else f"`{parent}`.`{column.name}`"
                sql(f"{table} ADD COLUMN {path} {type_}")
            case DropColumn(name):
                sql(f"{table} DROP COLUMN `{name}`")
            case RenameColumn(old, new):
                sql(f"{table} RENAME COLUMN `{old}` TO `{new}`")
            case Widen(name):
                sql(f"{table} ALTER COLUMN `{name}` TYPE {self._type(step.applied(before), name)}")
            case MoveFirst(name):
                sql(f"{table} ALTER COLUMN `{name}` FIRST")
            case Partition(name, transform):
                how = {
                    "identity": f"`{name}`",
                    "bucket": f"bucket(3, `{name}`)",
                    "truncate": f"truncate(4, `{name}`)",
                }.get(transform, f"{transform}(`{name}`)")
                sql(f"{table} ADD PARTITION FIELD {how}")
