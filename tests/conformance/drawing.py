"""Tables and their histories by Hypothesis: columns of every type, rows, and steps."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyproj
import shapely
from hypothesis import strategies as st

from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Column,
    Delete,
    DropColumn,
    Geo,
    History,
    MoveFirst,
    Partition,
    RenameColumn,
    State,
    Step,
    Update,
    Widen,
)

__all__ = ["KINDS", "Abilities", "geometries", "histories", "rows_of", "states", "values"]

PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
}
KINDS = frozenset({*PLAIN, "decimal", "fixed", "list", "struct", "map"})
"""Every kind of column but geometries."""
NAMES = ("name", "n", "höhe", "a b", "select", "Ünï", "x-y", "_", "value", "1st", "bBox", "e")
LOCAL_GRID = pyproj.CRS.from_proj4("+proj=tmerc +lat_0=1 +lon_0=2 +k=0.9996 +ellps=GRS80 +units=m")
SYSTEMS = (
    "OGC:CRS84", "EPSG:4326", "EPSG:2193", "EPSG:3857", "ESRI:54030", "EPSG:4979", "EPSG:7415",
    LOCAL_GRID.to_wkt(), None,
)  # fmt: skip
"""Forms of reference systems: lengths, degrees, 3D, compound, of no register, and none."""
WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)


@dataclass(frozen=True)
class Abilities:
    """The part of all tables that a program can hold, and change."""

    kinds: frozenset[str] = KINDS
    steps: tuple[type[Step], ...] = ()
    added: frozenset[str] | None = None
    """The kinds of columns that are added; None for all of them."""
    transforms: tuple[str, ...] = ("identity",)
    geometries: bool = False
    always_geometries: bool = False
    tall: bool = True
    """Whether some geometries of a column may have heights, and others none."""
    systems: tuple[str | None, ...] = SYSTEMS
    spherical: bool = True
    names: tuple[str, ...] = NAMES
    text: st.SearchStrategy[str] = TEXT
    first_day: dt.date = dt.date.min
    last_day: dt.date = dt.date.max
    first_key: int = -2
    odd_floats: bool = True
    """Whether values may be NaN, infinite, or a zero with a sign."""
    alike: int = 0
    """Of how many values those of a column are in rows that come together; 0 for any number."""


def types(able: Abilities, depth: int = 2) -> st.SearchStrategy[pa.DataType]:
    """Draw a type of a column."""
    simple = [st.just(type_) for kind, type_ in PLAIN.items() if kind in able.kinds]
    if "decimal" in able.kinds:
        simple.append(
            st.integers(1, 38).flatmap(
                lambda digits: st.integers(0, digits).map(lambda s: pa.decimal128(digits, s))
            )
        )
    if "fixed" in able.kinds:
        simple.append(st.integers(1, 20).map(pa.binary))
    flat = st.one_of(simple)
    if depth == 0:
        return flat
    inner = types(able, depth - 1)
    nested = {
        "list": inner.map(lambda each: pa.list_(pa.field("element", each))),
        "struct": st.lists(
            st.tuples(st.sampled_from(able.names), inner), min_size=1, max_size=3,
            unique_by=lambda each: each[0].casefold(),
        ).map(pa.struct),
        "map": st.tuples(st.sampled_from(_map_keys(able)), inner).map(lambda kv: pa.map_(*kv)),
    }  # fmt: skip
    made = [strategy for kind, strategy in nested.items() if kind in able.kinds]
    # As many simple columns as nested ones.
    return st.one_of(flat, st.one_of(made)) if made else flat


def _map_keys(able: Abilities) -> list[pa.DataType]:
    return [PLAIN[kind] for kind in ("string", "long", "date") if kind in able.kinds]


def values(type_: pa.DataType, able: Abilities) -> st.SearchStrategy[Any]:
    """Draw a value that is none or of a type."""
    return st.none() | given_values(type_, able)


def given_values(type_: pa.DataType, able: Abilities) -> st.SearchStrategy[Any]:
    """Draw a value of a type."""
    if type_ == pa.uuid():
        return st.binary(min_size=16, max_size=16)
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        return st.integers(-most, most).map(lambda n: _decimal(n, type_.scale))
    if pa.types.is_fixed_size_binary(type_):
        return st.binary(min_size=type_.byte_width, max_size=type_.byte_width)
    if pa.types.is_list(type_):
        return st.lists(values(type_.value_type, able), max_size=3)
    if pa.types.is_map(type_):
        pairs = st.tuples(given_values(type_.key_type, able), values(type_.item_type, able))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({f.name: values(f.type, able) for f in type_})
    return _simple(type_, able)


def _decimal(number: int, scale: int) -> Decimal:
    # In no context, which would round.
    sign = 1 if number < 0 else 0
    return Decimal((sign, tuple(map(int, str(abs(number)))), -scale))


def _simple(type_: pa.DataType, able: Abilities) -> st.SearchStrategy[Any]:
    first = dt.datetime.combine(able.first_day, dt.time())
    last = dt.datetime.combine(able.last_day, dt.time.max)
    odd = able.odd_floats
    made: dict[pa.DataType, Callable[[], st.SearchStrategy[Any]]] = {
        pa.bool_(): st.booleans,
        pa.int32(): lambda: st.integers(-(2**31), 2**31 - 1),
        pa.int64(): lambda: st.integers(-(2**63), 2**63 - 1),
        pa.float32(): lambda: _floats(32, odd=odd),
        pa.float64(): lambda: _floats(64, odd=odd),
        pa.date32(): lambda: st.dates(able.first_day, able.last_day),
        pa.time64("us"): st.times,
        pa.timestamp("us"): lambda: st.datetimes(first, last),
        pa.timestamp("us", tz="UTC"): lambda: st.datetimes(first, last, timezones=st.just(dt.UTC)),
        pa.string(): lambda: able.text,
        pa.binary(): lambda: st.binary(max_size=24),
    }
    return made[type_]()


def _floats(width: Any, *, odd: bool) -> st.SearchStrategy[float]:
    found = st.floats(width=width, allow_nan=odd, allow_infinity=odd)
    return found if odd else found.map(lambda value: value + 0.0)


def geometries(geo: Geo, *, tall: bool = True) -> st.SearchStrategy[bytes]:
    """Draw a shape as WKB of OGC's; on the globe across 180° as well."""
    degrees = geo.crs in ("OGC:CRS84", "EPSG:4326", "EPSG:4979", None)
    wide = 180 if degrees else 10_000_000
    x = st.integers(-wide * 4, wide * 4).map(lambda n: n / 4)
    y = st.integers(-80 * 4, 80 * 4).map(lambda n: n / 4)
    ground = st.tuples(x, y)
    at = st.one_of(ground, st.tuples(st.sampled_from([-179.5, 179.25]), y)) if degrees else ground
    point = at.map(shapely.Point)
    line = st.lists(at, min_size=2, max_size=4, unique=True).map(shapely.LineString)
    box = st.tuples(ground, st.integers(1, 20)).map(
        lambda given: shapely.box(*given[0], given[0][0] + given[1], given[0][1] + given[1] / 4)
    )
    high = st.tuples(ground, y).map(lambda given: shapely.Point(*given[0], given[1]))
    shapes = st.one_of(
        point,
        line,
        box,
        high if tall else point,
        st.lists(point, min_size=1, max_size=3).map(shapely.MultiPoint),
        st.lists(line, min_size=1, max_size=2).map(shapely.MultiLineString),
        st.tuples(point, line).map(lambda both: shapely.GeometryCollection(list(both))),
    )
    return shapes.map(lambda shape: bytes(shapely.to_wkb(shape, flavor="iso")))


def rows_of(columns: tuple[Column, ...], able: Abilities, keys: list[int]) -> Any:
    """Draw rows with the keys given."""
    others = [column for column in columns if column.name != KEY]

    def of(column: Column) -> st.SearchStrategy[Any]:
        if column.geo is not None:
            return st.none() | geometries(column.geo, tall=able.tall)
        return values(column.type, able)

    def rows(cells: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
        drawn = st.fixed_dictionaries(cells)
        return st.lists(drawn, min_size=len(keys), max_size=len(keys)).map(
            lambda found: tuple({KEY: key, **row} for key, row in zip(keys, found, strict=True))
        )

    cells = {column.name: of(column) for column in others}
    if not able.alike:
        return rows(cells)
    few = {name: st.tuples(*[of] * able.alike) for name, of in cells.items()}
    return st.fixed_dictionaries(few).flatmap(
        lambda found: rows({name: st.sampled_from(values) for name, values in found.items()})
    )


@st.composite
def columns(draw: st.DrawFn, able: Abilities) -> tuple[Column, ...]:
    """Draw the columns of a table, the key first."""
    names = draw(
        st.lists(st.sampled_from(able.names), min_size=1, max_size=5, unique_by=str.casefold)
    )
    found = [Column(KEY, pa.int64())]
    found += [Column(name, draw(types(able))) for name in names]
    if able.always_geometries or (able.geometries and draw(st.integers(0, 3))):
        crs = draw(st.sampled_from(able.systems))
        # Edges run on the globe where coordinates are degrees.
        round_ = able.spherical and crs in ("OGC:CRS84", "EPSG:4326")
        found.insert(1, Column("geom", pa.binary(), Geo(crs, round_ and draw(st.booleans()))))
    return tuple(found)


@st.composite
def histories(draw: st.DrawFn, able: Abilities, most: int = 5) -> History:
    """Draw a table, its first rows, and what is done to it then."""
    first = State(draw(columns(able)), {})
    steps: list[Step] = [Append(draw(rows_of(first.columns, able, draw(_new_keys(able, first)))))]
    state = steps[0].applied(first)
    for _ in range(draw(st.integers(0, most)) if able.steps else 0):
        step = draw(_step(able, state, draw(st.sampled_from(able.steps))))
        if step is not None:
            steps.append(step)
            state = step.applied(state)
    return History(first, tuple(steps))


def states(able: Abilities) -> st.SearchStrategy[State]:
    """Draw a table with rows."""
    return histories(able, 0).map(lambda history: history.last)


def _new_keys(able: Abilities, state: State) -> st.SearchStrategy[list[int]]:
    low = max(state.rows, default=able.first_key - 1)
    return st.lists(st.integers(low + 1, low + 9), max_size=6, unique=True).map(sorted)


def _some_keys(state: State) -> st.SearchStrategy[list[int]]:
    held = sorted(state.rows)
    return st.lists(st.sampled_from(held), min_size=1, unique=True).map(sorted)


@st.composite
def _step(draw: st.DrawFn, able: Abilities, state: State, kind: type[Step]) -> Step | None:
    """Draw a step of a kind; None where the table offers nothing for it."""
    others = [column for column in state.columns if column.name != KEY and column.geo is None]
    taken = {column.name.casefold() for column in state.columns}
    free = [name for name in able.names if name.casefold() not in taken]
    if kind is Append:
        return Append(draw(rows_of(state.columns, able, draw(_new_keys(able, state)))))
    if kind in (Update, Delete) and state.rows:
        keys = draw(_some_keys(state))
        if kind is Delete:
            return Delete(tuple(keys))
        return Update(draw(rows_of(state.columns, able, keys)))
    if kind is AddColumn and free:
        structs = [column for column in others if pa.types.is_struct(column.type)]
        parent = draw(st.sampled_from([None, *structs]))
        if parent is not None:
            inside = {field.name.casefold() for field in parent.type}
            free = [name for name in able.names if name.casefold() not in inside]
        kinds = able.kinds if able.added is None else able.added
        column = Column(draw(st.sampled_from(free)), draw(types(replace(able, kinds=kinds), 1)))
        return AddColumn(column, None if parent is None else parent.name)
    if kind is Partition:
        whole = [column for column in others if column.name not in state.parted]
        fit = [(c.name, t) for c in whole for t in able.transforms if _parts(c.type, t)]
        return Partition(*draw(st.sampled_from(fit))) if fit else None
    if kind is Widen:
        wider = [(column.name, to) for column in others for to in _wider(column.type)]
        return Widen(*draw(st.sampled_from(wider))) if wider else None
    if not others:
        return None
    if kind is DropColumn:
        loose = [column.name for column in others if column.name not in state.parted]
        return DropColumn(draw(st.sampled_from(loose))) if loose and len(others) > 1 else None
    name = draw(st.sampled_from(others)).name
    if kind is RenameColumn and free:
        return RenameColumn(name, draw(st.sampled_from(free)))
    return MoveFirst(name) if kind is MoveFirst else None


def _wider(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_decimal(type_) and type_.precision < 38:
        return [pa.decimal128(min(38, type_.precision + 7), type_.scale)]
    return [WIDER[type_]] if type_ in WIDER else []


def _parts(type_: pa.DataType, transform: str) -> bool:
    """Whether a transform is of a type that every program takes it of."""
    moments = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    match transform:
        case "identity":
            return type_ in (pa.bool_(), pa.int32(), pa.int64(), pa.string(), pa.date32())
        case "bucket":
            return type_ in (pa.int32(), pa.int64(), pa.string(), pa.binary(), *moments)
        case "truncate":
            return type_ in (pa.int32(), pa.int64(), pa.string())
        case "hour":
            return type_ in moments[1:]
        case _:
            return type_ in moments
