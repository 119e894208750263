"""An import's understanding of a table, so that a person can see it at once.

Columns and their types, the key and where it comes from, the reference system; a key that could
be, where there is none; rows that share a key; columns that look like renamed ones. Only columns
that are asked about are read, and no more rows than `MOST_ROWS` of them, but by executors.

What whoever imports says of tables instead of their file: titles, descriptions, metadata.

It comes as JSON, an object for each dataset or layer: `{"parcels": {"title": "Land parcels"}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.folder import edited
from havasu_vc.datasets.kinds import DatasetKind
from havasu_vc.datasets.pairing import partners
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CrsError, HavasuError, InvalidArgumentError, KeyViolationError, nearest
from havasu_vc.exchange.source import Source, SourceOptions
from havasu_vc.exchange.sources import xml_metadata
from havasu_vc.geo.crs import Crs, is_geographic, parse_crs, same_crs
from havasu_vc.geo.reproject import outside
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import among, arrow_array
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Field, Primitive
from havasu_vc.repo.results import TakenColumn, Understood
from havasu_vc.store.trees import Change
from havasu_vc.transfer.possible_keys import possible_keys

__all__ = [
    "TableInfo",
    "attached",
    "described",
    "far_off",
    "in_systems",
    "in_the_systems_of",
    "info_documents",
    "likely_renames",
    "not_there",
    "parse_table_info",
    "systems_of",
    "understood",
    "version_of",
    "with_column_names",
    "with_rows_named",
]

MOST_ROWS = 5_000_000
"""Rows that are looked at; an import itself finds what comes behind them."""
NAMED = 3
"""Keys that are named of those that several rows share."""
SEEN_BITS = 25
"""Each hash of a key falls on one of so many places, as a power of two, to find those seen."""
MOST_SUSPECTS = 1_000_000
"""Hashes of keys, at most, that are counted; of `MOST_ROWS`, fewer fall on one place by chance."""
SAMPLE = 65_536
"""Rows whose values tell whether a column was renamed."""
ALIKE = 0.9
"""The part of values that must be equal for two columns to be the same."""


def understood(
    source: Source,
    options: SourceOptions,
    rows: int,
    *,
    dataset_key: Sequence[str] | None,
    found: bool,
    made: bool,
    engine: Engine,
    anywhere: bool,
) -> Understood:
    """Return how a source was taken; `dataset_key` is that of a dataset that it replaces.

    Whether its key was `found` among its columns; or would be `made` for its rows, if it has none.
    Where no file of this machine is needed, the engine may look at rows `anywhere`.
    """
    columns = tuple(_taken(field) for field in source.schema.fields)
    key = tuple(source.schema.key.names if dataset_key is None else dataset_key)
    possible: tuple[str, ...] = ()
    if not key and dataset_key is None and options.primary_key is None:
        most = None if engine.distributed else MOST_ROWS
        possible = possible_keys(source, engine, most=most, anywhere=anywhere)
    key_from: str | None
    if dataset_key is not None:
        key_from = "dataset"
    elif found:
        key_from = "found"
    else:
        key_from = "file" if options.primary_key is None else "option"
    systems = [column.crs for column in columns if column.crs is not None]
    crs_from = None
    if systems:
        assumed = getattr(source, "assumed_crs", False)
        crs_from = "option" if options.crs else "assumed" if assumed else "file"
        if not (options.crs or assumed or source.crs):
            crs_from = "dataset"
    if not key:
        key_from = "made" if made else None
    return Understood(rows, columns, key, key_from, possible, crs_from, source.name)


def _taken(field: Field) -> TakenColumn:
    if field.geometry is not None:
        return TakenColumn(field.name, "geometry", field.geometry.shape, field.geometry.crs)
    return TakenColumn(field.name, "raster" if field.raster is not None else str(field.type))


# Rows that share a key


def _hashes(batch: pa.RecordBatch, schema: Schema, names: Sequence[str]) -> Hashes:
    return hash_keys(batch.select(list(names)), schema.select(tuple(names)))


def _rows(source: Source, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the first rows of a source, in its order."""
    rows = 0
    for task in source.tasks(list(names)) if names else ():
        for batch in run_task(task):
            yield batch
            rows += batch.num_rows
            if rows >= MOST_ROWS:
                return


def with_rows_named(
    error: KeyViolationError, path: str, source: Source, key: Sequence[str], *, held: bool = False
) -> KeyViolationError:
    """Return an error about keys that names keys which several rows have, or a row without one.

    Where the key is `held`, as by a dataset's next release, no other is to be chosen.
    """
    said, hints = error.message, error.hints
    if held:
        hints = (f"mend the rows of the source: {path} has this key, and stays as it is",)
    try:
        found = _doubled(source, key)
    except HavasuError:
        found = None
    if found is None:
        return KeyViolationError(f"{path}: {said}", hints=hints)
    return KeyViolationError(f"{path}: {found[0]}", hints=(*found[1], *hints))


def _doubled(source: Source, key: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return what is wrong with the keys of a source, and what tells more."""
    null, alike = _suspects(source, key)
    if null is not None:
        return null, ()
    if not len(alike):
        return None
    counts, firsts = _counted(source, key, alike)
    doubled = np.flatnonzero(counts > 1)
    few = np.sort(alike[doubled[np.argsort(firsts[doubled])[:NAMED]]])
    # Two keys may hash alike.
    shared = {name: at for name, at in _places(source, key, few).items() if len(at) > 1}
    if not shared:
        return None
    named = [
        f"{name} in rows {', '.join(f'{row:,}' for row in places[:NAMED])}"
        + (" and more" if len(places) > NAMED else "")
        for name, places in shared.items()
    ]
    first, least = next(iter(shared)), "at least " if len(alike) == MOST_SUSPECTS else ""
    total = f"{least}{len(doubled):,} keys are doubled, of {int(counts[doubled].sum()):,} rows"
    more = f"; {total}" if len(doubled) > NAMED else ""
    return f"the key {first} is there twice", (f"doubled: {'; '.join(named)}{more}",)


def _suspects(source: Source, key: Sequence[str]) -> tuple[str | None, Hashes]:
    """Return what is said of a row without a key, and ascending hashes that may be there twice.

    However many rows there are, a bit stands for each hash seen; some hashes have the same bit.
    """
    seen = np.zeros(1 << SEEN_BITS, np.bool_)
    found, row = np.empty(0, np.uint64), 0
    for batch in _rows(source, key):
        for name in key:
            if batch.column(name).null_count:
                place = row + pc.indices_nonzero(pc.is_null(batch.column(name)))[0].as_py() + 1
                return f"row {place:,} has no value in its key column {name!r}", found
        hashes, times = np.unique(_hashes(batch, source.schema, key), return_counts=True)
        bits = hashes >> np.uint64(64 - SEEN_BITS)
        again = hashes[(times > 1) | seen[bits]]
        seen[bits] = True
        room = MOST_SUSPECTS - len(found)
        found = np.union1d(found, np.setdiff1d(again, found)[:room])
        row += batch.num_rows
    return None, found


def _counted(
    source: Source, key: Sequence[str], hashes: Hashes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many rows have a key of each of some ascending hashes, and the first that has."""
    counts, firsts = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
    row = 0
    for batch in _rows(source, key):
        found = _hashes(batch, source.schema, key)
        rows = np.flatnonzero(among(found, hashes))
        places, first = np.unique(np.searchsorted(hashes, found[rows]), return_index=True)
        new = counts[places] == 0
        firsts[places[new]] = row + rows[first[new]]
        counts += np.bincount(np.searchsorted(hashes, found[rows]), minlength=len(hashes))
        row += batch.num_rows
    return counts, firsts


def _places(source: Source, key: Sequence[str], hashes: Hashes) -> dict[str, list[int]]:
    """Return the first rows, counted from 1, of each key that has one of a few hashes, as text."""
    found: dict[str, list[int]] = {}
    row = 0
    for batch in _rows(source, key):
        rows = np.flatnonzero(among(_hashes(batch, source.schema, key), hashes))
        chosen = pc.take(batch.select(list(key)), arrow_array(rows))
        for number, values in zip(rows.tolist(), chosen.to_pylist(), strict=True):
            places = found.setdefault(",".join(str(values[name]) for name in key), [])
            if len(places) <= NAMED:
                places.append(row + number + 1)
        row += batch.num_rows
    return found


# Columns that are called otherwise


def with_column_names(
    schema: Schema, renames: Mapping[str, str], path: str, incoming: Schema | None = None
) -> Schema:
    """Return a dataset's columns under the names that a release has for them.

    Raises `InvalidArgumentError` where a dataset, or what is incoming, has no such column.
    """
    for old, new in renames.items():
        if old not in schema.by_name:
            raise InvalidArgumentError(
                f"{path} has no column {old!r} to rename",
                hints=(f"it has {', '.join(schema.names)}",),
            )
        if new in schema.by_name and new not in renames:
            raise InvalidArgumentError(
                f"{path} has a column {new!r} already, so {old!r} cannot be renamed to it"
            )
        if incoming is not None and new not in incoming.by_name:
            raise InvalidArgumentError(
                f"the source has no column {new!r}, which {old!r} would be called",
                hints=nearest(new, incoming.names) or (f"it has {', '.join(incoming.names)}",),
            )
    fields = tuple(
        replace(field, name=renames[field.name], physical_name=field.stored_name)
        if field.name in renames
        else field
        for field in schema.fields
    )
    return Schema(fields, schema.identifier_ids)


def likely_renames(old: Dataset, source: Source) -> dict[str, str]:
    """Return columns of a dataset that a release seems to call otherwise, by their values.

    A column that is gone and one that is new are the same where nearly all rows that both have,
    of the first ones of the release, have equal values in them.
    """
    key = old.key.names
    incoming = source.schema
    gone = [f for f in old.schema.fields if f.name not in incoming.by_name and f.name not in key]
    new = [f for f in incoming.fields if f.name not in old.schema.by_name]
    pairs = [(one, other) for one in gone for other in new if _comparable(one, other)]
    if not pairs or not key or not set(key) <= set(incoming.by_name):
        return {}
    names = [*key, *dict.fromkeys(other.name for _, other in pairs)]
    rows = next(_rows(source, names), None)
    if rows is None:
        return {}
    rows = rows.slice(0, SAMPLE)
    keys = arrow_schema(old.schema.select(key))
    asked = pa.RecordBatch.from_arrays(
        [pc.cast(rows.column(field.name), field.type) for field in keys], schema=keys
    )
    held = old.rows_with_keys(asked)
    keyed = old.schema.select(key)
    theirs = partners(held.select(list(key)), asked, keyed, keyed)
    mine = np.flatnonzero(theirs >= 0)
    theirs = theirs[mine]
    if not len(mine):
        return {}
    found: dict[str, str] = {}
    for one, other in pairs:
        if one.name in found or other.name in found.values():
            continue
        before = pc.take(held.column(one.name), pa.array(theirs))
        after = pc.take(rows.column(other.name), pa.array(mine))
        there = pc.or_(pc.is_valid(before), pc.is_valid(after))
        equal = pc.fill_null(pc.equal(before, pc.cast(after, before.type)), False)
        count = pc.sum(there).as_py() or 0
        same = pc.sum(equal).as_py() or 0
        if count and same >= ALIKE * count and _tells(before):
            found[one.name] = other.name
    return found


def _comparable(one: Field, other: Field) -> bool:
    if (one.geometry is None) != (other.geometry is None) or one.raster or other.raster:
        return False
    return one.type == other.type and isinstance(one.type, Primitive)


def _tells(column: pa.Array) -> bool:
    """Whether values differ enough for being equal to mean something."""
    return len(column) == 1 or len(pc.unique(pc.drop_null(column))) > 1


# Where geometries lie


def version_of(path: str, kind: DatasetKind, edit: TreeEdit, storage: Storage) -> Dataset | None:
    """Return a new dataset in files as an edit makes it; None for one whose rows are objects."""
    if not kind.in_files:
        return None
    return kind.open(path, edited(None, edit), storage, "the source", edit.marker)


def far_off(view: Dataset) -> Iterator[str]:
    """Yield what is odd about where geometries lie, by the bounds of files."""
    files = view.in_files
    for field in view.schema.geometries:
        if files is None or field.geometry is None or field.geometry.crs is None or field.edges:
            continue
        name = field.geometry.crs
        found: Bounds | None = None
        for entry in files.data_entries:
            bounds = entry.bounds.get(field.id)
            if bounds is not None:
                found = bounds if found is None else found.union(bounds)
        if found is None:
            continue
        try:
            parsed = parse_crs(view.crs.get(name, name))
            odd = outside(found, Crs(name, parsed.wkt, parsed.srid))
        except CrsError:
            continue
        if odd is not None:
            yield f"{view.path}: column {field.name!r}: {odd}"


def not_there(path: str, known: Iterable[str]) -> Iterator[str]:
    """Yield that there was nothing to replace, which a misspelt name may be why."""
    meant = "".join(f"; {hint}" for hint in nearest(path, known))
    yield f"{path} is new: there was no dataset of that name to replace{meant}"


def described(
    old: Dataset, source: Source, renames: Mapping[str, str], meta: Sequence[str]
) -> Iterator[str]:
    """Yield what a release changes besides rows."""
    before, incoming, path = old.schema, source.schema, old.path
    for item in meta:
        if item != "schema.json":
            yield f"{path}: {item} changes"
            continue
        yield from (f"{path}: column {a!r} is called {b!r} now" for a, b in renames.items())
        dropped = [n for n in before.names if n not in incoming.by_name and n not in renames]
        known = {*before.names, *renames.values()}
        added = [name for name in incoming.names if name not in known]
        for names, what in ((dropped, "dropped"), (added, "added")):
            yield from (f"{path}: column {name!r} is {what}" for name in names)
        moved = list(_other_systems(old, incoming, source.crs))
        yield from (
            f"{path}: column {name!r} is in {now} now, in {was or 'no system'} before"
            for name, was, now in moved
        )
        if not (dropped or added or renames or moved):
            yield f"{path}: the types or properties of columns change"
        if dropped and added and not renames:
            for name, other in likely_renames(old, source).items():
                yield (
                    f"{path}: column {other!r} holds what {name!r} did; where it was only renamed, "
                    f"--rename {name}={other} keeps its history"
                )


def in_the_systems_of(source: Source, old: Dataset) -> tuple[Source, list[str]]:
    """Return a release in the systems of its dataset where it only seems to be in degrees.

    With what to tell a person. Raises `CrsError` where the dataset's are no degrees.
    """
    if not getattr(source, "assumed_crs", False):
        return source, []
    fields, said = list(source.schema.fields), []
    for name, known, _ in _other_systems(old, source.schema, source.crs):
        if known is None:
            continue
        if not is_geographic(parse_crs(old.crs.get(known, known))):
            raise CrsError(
                f"{old.path} is in {known}, and the coordinates are called longitude and latitude",
                hints=(
                    f"--crs {known} says that they are in it, --crs OGC:CRS84 that they are "
                    "degrees, in which the dataset is then",
                ),
            )
        place = source.schema.names.index(name)
        geometry = fields[place].geometry
        assert geometry is not None
        fields[place] = replace(fields[place], geometry=replace(geometry, crs=known))
        said.append(f"{old.path}: coordinates are taken as {known}, in which the dataset is")
    if not said:
        return source, []
    schema = Schema(tuple(fields), source.schema.identifier_ids)
    return replace(source, schema=schema, crs={}, assumed_crs=False), said  # type: ignore[type-var]


def _other_systems(
    old: Dataset, incoming: Schema, definitions: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str]]:
    """Yield the columns that a release has in another system: the name, the old one, the new."""
    for field in old.schema.geometries:
        came = incoming.by_name.get(field.name)
        if field.geometry is None or came is None or came.geometry is None:
            continue
        known, said = field.geometry.crs, came.geometry.crs
        if said is None or known == said:
            continue
        if known is None or not same_crs(old.crs.get(known, known), definitions.get(said, said)):
            yield field.name, known, said


def systems_of(schema: Schema) -> set[str]:
    """Return the reference systems of a table's geometries, by name."""
    found = (field.geometry.crs for field in schema.geometries if field.geometry is not None)
    return {name for name in found if name is not None}


def in_systems(schema: Schema, old: Dataset, source: Source) -> Schema:
    """Return the columns of a dataset in the systems that a release has them in."""
    moved = {name: now for name, _, now in _other_systems(old, source.schema, source.crs)}
    fields = (
        replace(field, geometry=replace(field.geometry, crs=moved[field.name]))
        if field.geometry is not None and field.name in moved
        else field
        for field in schema.fields
    )
    return Schema(tuple(fields), schema.identifier_ids)


TableInfo = Mapping[str, str]
"""Facts of one table by name: of `title`, `description` and `xmlMetadata`."""
_ITEMS = {"title": "title", "description": "description", "xmlMetadata": "metadata.xml"}


def parse_table_info(text: str) -> dict[str, TableInfo]:
    """Read what is said of tables, by dataset or layer."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"--table-info is not JSON: {error}") from error
    tables = found if isinstance(found, dict) else None
    if tables is None or not all(isinstance(said, dict) for said in tables.values()):
        raise InvalidArgumentError(
            "--table-info must be an object of objects",
            hints=("""such as '{"parcels": {"title": "Land parcels"}}'""",),
        )
    for table, said in tables.items():
        for name, value in said.items():
            if name in _ITEMS and not isinstance(value, str):
                raise InvalidArgumentError(f"--table-info: {name} of {table!r} must be text")
            if name not in _ITEMS:
                raise InvalidArgumentError(
                    f"--table-info says {name!r} of {table!r}, which is none of its items",
                    hints=(f"items are {', '.join(_ITEMS)}",),
                )
    return tables


def info_documents(said: TableInfo, kind: DatasetKind) -> dict[str, bytes]:
    """Return the documents of a dataset that what is said of it makes."""
    if "xmlMetadata" in said and kind.in_files:
        raise InvalidArgumentError(
            f"a {kind.name.capitalize()} dataset keeps no xmlMetadata",
            hints=("--as kart makes a dataset that does",),
        )
    return {f"meta/{_ITEMS[name]}": value.encode() for name, value in said.items()}


def attached(kind: DatasetKind, new: Sequence[tuple[Source, str]]) -> MergedTree | None:
    """Return the metadata in XML of new Kart datasets, which stands beside them; None for none."""
    files: dict[str, Change] = {}
    for source, path in new if kind.of_kart else ():
        if (text := xml_metadata(source)) is not None:
            files[f"{path}/metadata.xml"] = text.encode()
    return MergedTree(files, {}, ()) if files else None
