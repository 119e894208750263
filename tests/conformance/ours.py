"""The table in a repository: steps through `Repo`, and what it is then."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.conformance.comparing import same_rows, told
from tests.conformance.drawing import KINDS, Abilities
from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Delete,
    DropColumn,
    Geo,
    History,
    MoveFirst,
    RenameColumn,
    Row,
    State,
    Step,
    Update,
    Widen,
    arrow,
)
from tests.support.templates import LOCAL, empty_repo

__all__ = [
    "ABLE",
    "BY_KEY",
    "NAME",
    "STEPS",
    "agrees",
    "apply",
    "folder",
    "geo_document",
    "made",
    "rows",
    "write_file",
]

NAME = "t"
BY_KEY = SourceOptions(primary_key=(KEY,))
STEPS: tuple[type[Step], ...] = (
    Append, Update, Delete, AddColumn, DropColumn, RenameColumn, Widen, MoveFirst
)  # fmt: skip
"""The steps that a repository takes."""
# In the JSON of schemas, which is Kart's, a UUID is a text of 36 characters.
ABLE = Abilities(steps=STEPS, geometries=True, added=KINDS - {"uuid"})


@cache
def _projjson(crs: str) -> Any:
    return pyproj.CRS.from_user_input(crs).to_json_dict()


def geo_document(state: State) -> dict[str, Any] | None:
    """Return what GeoParquet says of a table's geometries; None where it has none."""
    found = [column for column in state.columns if column.geo is not None]
    if not found:
        return None
    described = {
        column.name: {"encoding": "WKB", "geometry_types": []} | _said(column.geo)
        for column in found
        if column.geo is not None
    }
    return {"version": "1.1.0", "primary_column": found[0].name, "columns": described}


def _said(geo: Geo) -> dict[str, Any]:
    edges = {"edges": "spherical"} if geo.spherical else {}
    # Without a word coordinates are OGC:CRS84; with a null nobody knows.
    if geo.crs == "OGC:CRS84":
        return edges
    return {"crs": None if geo.crs is None else _projjson(geo.crs)} | edges


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder for one case."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as found:
        yield Path(found)


def write_file(file: Path, state: State) -> Path:
    """Write a table as (Geo)Parquet."""
    table = arrow(list(state.rows.values()), state.schema)
    document = geo_document(state)
    if document is not None:
        table = table.replace_schema_metadata({"geo": json.dumps(document)})
    pq.write_table(table, file)
    return file


def made(place: Path, history: History) -> Repo:
    """Make a repository whose dataset has a history, a commit for each step."""
    repo = empty_repo(place / "repo", settings=LOCAL)
    # The first rows come with their table.
    states = history.states
    repo.import_(write_file(place / "in.parquet", states[1]), NAME, options=BY_KEY)
    for step, before in zip(history.steps[1:], states[1:], strict=False):
        apply(repo, step, before)
    return repo


def apply(repo: Repo, step: Step, before: State) -> None:
    """Do a step and commit it."""
    match step:
        case Update(rows) | Append(rows):
            table = arrow(list(rows), before.schema)
            mode = "upsert" if isinstance(step, Update) else "append"
            if rows and any(before.rows.get(row[KEY]) != row for row in rows):
                repo.write(NAME, table, mode=mode)
        case Delete(keys):
            repo.write(NAME, pa.table({KEY: pa.array(keys, pa.int64())}), mode="delete")
        case _:
            document = repo.get_meta(NAME, ["schema.json"])["schema.json"]
            repo.set_meta(NAME, {"schema.json": _changed(document, step)})


def _changed(document: list[dict[str, Any]], step: Step) -> list[dict[str, Any]]:
    by_name = {column["name"]: column for column in document}
    match step:
        case AddColumn(column, None):
            return [*document, _described(column.name, column.type)]
        case AddColumn(column, str(parent)):
            by_name[parent]["fields"].append(_described(column.name, column.type))
        case DropColumn(name):
            return [column for column in document if column["name"] != name]
        case RenameColumn(old, new):
            by_name[old]["name"] = new
        case Widen(name, type_):
            by_name[name] |= _described(name, type_)
        case MoveFirst(name):
            return [by_name[name], *(each for each in document if each["name"] != name)]
    return document


SIMPLE: Mapping[pa.DataType, dict[str, Any]] = {
    pa.bool_(): {"dataType": "boolean"},
    pa.int32(): {"dataType": "integer", "size": 32},
    pa.int64(): {"dataType": "integer", "size": 64},
    pa.float32(): {"dataType": "float", "size": 32},
    pa.float64(): {"dataType": "float", "size": 64},
    pa.date32(): {"dataType": "date"},
    pa.time64("us"): {"dataType": "time"},
    pa.timestamp("us"): {"dataType": "timestamp"},
    pa.timestamp("us", tz="UTC"): {"dataType": "timestamp", "timezone": "UTC"},
    pa.string(): {"dataType": "text"},
    pa.binary(): {"dataType": "blob"},
    pa.uuid(): {"dataType": "text", "length": 36},
}


def _described(name: str, type_: pa.DataType) -> dict[str, Any]:
    """Return a column in the form of `schema.json`."""
    if pa.types.is_decimal(type_):
        found = {"dataType": "numeric", "precision": type_.precision, "scale": type_.scale}
    elif pa.types.is_fixed_size_binary(type_) and type_ != pa.uuid():
        found = {"dataType": "blob", "length": type_.byte_width}
    elif pa.types.is_list(type_):
        found = {"dataType": "list", "element": _described("element", type_.value_type)}
    elif pa.types.is_map(type_):
        key, value = _described("key", type_.key_type), _described("value", type_.item_type)
        found = {"dataType": "map", "key": key, "value": value}
    elif pa.types.is_struct(type_):
        found = {"dataType": "struct", "fields": [_described(f.name, f.type) for f in type_]}
    else:
        found = SIMPLE[type_]
    return {"name": name, **found}


def rows(repo: Repo, revision: str = "HEAD", name: str = NAME) -> list[Row]:
    """Return the rows of the dataset as Python has them."""
    found: list[Row] = repo.table(name, revision).to_arrow().to_pylist()
    return found


def agrees(
    repo: Repo, wanted: State, who: str = "", *, name: str = NAME, in_order: bool = True
) -> int:
    """Check that the dataset is a state, by rows, columns and systems; return how many rows.

    A release that replaces another leaves columns where they were, whatever their order in it.
    """
    schema = repo.dataset(name).schema
    found = [(each.name, str(each.type)) for each in schema.fields]
    assert (found if in_order else sorted(found)) == (
        told(wanted) if in_order else sorted(told(wanted))
    ), who
    assert [schema.by_id[each].name for each in schema.identifier_ids] == [KEY]
    for column in wanted.columns:
        field = schema.by_name[column.name]
        assert (field.geometry is None) is (column.geo is None), who
        if column.geo is not None:
            assert field.geometry is not None
            assert (field.edges == "spherical") is column.geo.spherical, who
            assert same_system(wkt_of(repo, name, field.geometry.crs), column.geo.crs), who
    return same_rows(rows(repo, name=name), wanted, who)


def wkt_of(repo: Repo, name: str, crs: str | None) -> str | None:
    """Return the definition that a dataset keeps of a reference system."""
    return None if crs is None else repo.get_meta(name, [f"crs/{crs}.wkt"])[f"crs/{crs}.wkt"]


def same_system(one: Any, other: Any) -> bool:
    """Whether two forms of a reference system say the same, with x before y."""
    if one is None or other is None:
        return one is other
    mine, theirs = pyproj.CRS.from_user_input(one), pyproj.CRS.from_user_input(other)
    ids = [each.to_json_dict().get("id") for each in (mine, theirs)]
    if None not in ids:
        # WKT of the first version, which layers have, leaves the order of axes out.
        return bool(ids[0] == ids[1] and mine.name == theirs.name)
    return bool(mine.equals(theirs, ignore_axis_order=True))
