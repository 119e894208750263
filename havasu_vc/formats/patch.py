"""Patches as JSON in Kart's form: who made a change, and the change.

    {"kart.patch/v1": {"authorName": …, "authorEmail": …, "authorTime": "2020-01-01T00:00:00Z",
                       "authorTimeOffset": "+13:00", "message": …, "base": <commit>, "crs": …},
     "kart.diff/v1+hexwkb": {
       "<dataset>": {"meta": {"<item>": {"-": …, "+": …}},
                     "feature": [{"++": {…}}, {"--": {…}}, {"-": {…}, "+": {…}}, {"+": {…}}]},
       "<files>": {"<path>": {"-": "text:…", "+": "base64:…"}}}}

`++` inserts, `--` deletes, `-` with `+` updates. `+` alone inserts a row or, where
the base has it, updates the columns that are listed; `-` alone deletes.

A patch comes from anywhere. It is refused before it is read when it is larger than a
limit, and when it is not UTF-8 JSON, nests deeply, names a key twice, or says
anything that is not above. What values it holds is checked by
`formats.patch_values`, against a schema.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, BinaryIO

import pyarrow as pa

from havasu_vc.errors import NotYetSupportedError, PatchError
from havasu_vc.formats.json_columns import json_column
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.diffs import MetaChange
from havasu_vc.model.names import repeated
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "MOST_PATCH_BYTES",
    "DatasetPatch",
    "FeatureChange",
    "FeatureForm",
    "FilePatch",
    "Patch",
    "PatchBatch",
    "parse_patch",
    "patch_batches",
]


MOST_PATCH_BYTES = 256 * 1024 * 1024
"""Larger patches are refused unless the caller allows more."""
_FILES = "<files>"
_HEADER_KEYS = ("kart.patch/v1", "sno.patch/v1")
_DIFF_KEYS = ("kart.diff/v1+hexwkb", "sno.diff/v1+hexwkb")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_BREAKING = re.compile(r"[\x00-\x1f<>]")


class FeatureForm(StrEnum):
    """The form of a change in a patch: what it asks for."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    UPSERT = "upsert"
    """A new half alone: an insert, or an update of the row that the base has."""


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """One row's change as the patch has it; values are not looked at yet."""

    number: int
    """Where it stands in its dataset's list, from 1."""
    form: FeatureForm
    """Its form."""
    old: Mapping[str, Any] | None
    """The old half, by column."""
    new: Mapping[str, Any] | None
    """The new half, by column; it may list only some."""


@dataclass(frozen=True, slots=True)
class DatasetPatch:
    """The changes of a patch in one dataset."""

    path: str
    """Where the dataset is."""
    meta: tuple[MetaChange, ...]
    """Changes of meta items."""
    features: tuple[FeatureChange, ...]
    """Changes of rows, in the patch's order."""
    unknown: tuple[str, ...] = ()
    """Names of what else it says, which is not understood."""


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The change of a patch in one file beside the datasets."""

    path: str
    """Where the file is."""
    old: bytes | None
    """The bytes before; None when it is added."""
    new: bytes | None
    """The bytes after; None when it is removed."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch as it was written, its form checked."""

    datasets: tuple[DatasetPatch, ...]
    """Changes of datasets, in the patch's order."""
    files: tuple[FilePatch, ...]
    """Changes of files beside datasets."""
    message: str
    """The commit message."""
    author_name: str | None = None
    """Who made the change; None for whoever applies it."""
    author_email: str | None = None
    """Where to reach them."""
    author_time: int | None = None
    """Seconds since 1970."""
    author_offset: int | None = None
    """Minutes east of UTC."""
    base: str | None = None
    """The commit that it was made on, 40 hex digits."""
    crs: str | None = None
    """The CRS of its geometries, where that is not the dataset's."""


def parse_patch(source: bytes | BinaryIO, limit: int = MOST_PATCH_BYTES) -> Patch:
    """Read a patch of at most `limit` bytes."""
    document = _parse_json(_within(source, limit))
    diff = _first(document, _DIFF_KEYS)
    if diff is None:
        raise PatchError("the patch changes nothing: it has no `kart.diff/v1+hexwkb`")
    header = _first(document, _HEADER_KEYS)
    if header is None:
        raise PatchError(
            "the patch does not say who made it: it has no `kart.patch/v1`",
            hints=("`havasu-vc create-patch` writes patches; the output of `diff` is none",),
        )
    unknown = sorted(set(document).difference(_HEADER_KEYS, _DIFF_KEYS))
    if unknown:
        raise PatchError(f"the patch has an unknown key {_short(unknown[0])}")
    header = _mapping(header, "`kart.patch/v1`")
    parts = _mapping(diff, "`kart.diff/v1+hexwkb`")
    files = _mapping(parts.get(_FILES, {}), "`<files>`")
    datasets = tuple(
        _parse_dataset(path, _mapping(value, f"dataset {_short(path)}"))
        for path, value in parts.items()
        if path != _FILES
    )
    base = _text(header, "base")
    if base is not None and not _COMMIT.fullmatch(base):
        raise PatchError(f"the patch's base {_short(base)} is not a commit id")
    return Patch(
        datasets,
        tuple(_parse_file(path, change) for path, change in files.items()),
        _text(header, "message") or "",
        _identity(header, "authorName"),
        _identity(header, "authorEmail"),
        _parse_time(_text(header, "authorTime")),
        _parse_offset(_text(header, "authorTimeOffset")),
        base,
        _text(header, "crs"),
    )


def _within(source: bytes | BinaryIO, limit: int) -> bytes:
    data = source if isinstance(source, bytes) else source.read(limit + 1)
    if len(data) > limit:
        raise PatchError(
            f"the patch is larger than {limit:,} bytes",
            hints=("split it, or import the new table with `havasu-vc import --replace`",),
        )
    return data


def _parse_json(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise PatchError(f"the patch is not UTF-8 text: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise PatchError(f"the patch is not JSON: {error}") from error
    except RecursionError as error:
        raise PatchError("the patch is not one: it nests too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise PatchError(f"the patch cannot be read: {error}") from error
    return _mapping(document, "a patch")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = repeated(name for name, _ in pairs)
        raise PatchError(f"the patch names {_short(twice[0])} twice in one object")
    return result


def _first(document: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((document[key] for key in keys if key in document), None)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PatchError(f"{what} must be a JSON object, not {_kind(value)}")
    return value


def _text(header: Mapping[str, Any], key: str) -> str | None:
    value = header.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise PatchError(f"{key} of the patch must be text, not {_kind(value)}")
    if _NO_TEXT.search(value):
        raise PatchError(f"{key} of the patch holds a character that git cannot store")
    return value


def _identity(header: Mapping[str, Any], key: str) -> str | None:
    """Return a name or an address, which must not break the line of a commit."""
    value = _text(header, key)
    if value is not None and (not value.strip() or _BREAKING.search(value)):
        raise PatchError(f"{key} of the patch cannot be that of a commit: {_short(value)}")
    return value


def _parse_time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise PatchError(f"authorTime of the patch is not a time: {_short(text)}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    if seconds < 0:
        raise PatchError(f"authorTime of the patch is before 1970: {_short(text)}")
    return seconds


def _parse_offset(text: str | None) -> int | None:
    if text is None:
        return None
    match = _OFFSET.fullmatch(text)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise PatchError(f"authorTimeOffset of the patch is not an offset: {_short(text)}")
    minutes = int(match[2]) * 60 + int(match[3])
    return -minutes if match[1] == "-" else minutes


def _parse_file(path: str, value: Any) -> FilePatch:
    what = f"file {_short(path)}"
    halves = _mapping(value, what)
    if not halves or not set(halves) <= {"-", "+"}:
        raise PatchError(f"{what} of the patch has no old or new content")
    return FilePatch(path, *(_content(halves.get(label), what) for label in "-+"))


def _content(value: Any, what: str) -> bytes | None:
    """Return what a side of a file holds."""
    if value is None:
        return None
    kind, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    try:
        if kind == "text" and colon:
            return rest.encode()
        if kind == "base64" and colon:
            return base64.b64decode(rest.encode(), altchars=b"-_", validate=True)
    except ValueError as error:
        raise PatchError(f"{what} of the patch cannot be read: {error}") from error
    raise PatchError(
        f"{what} of the patch does not say what it holds, as `text:…` or `base64:…`",
        hints=("`havasu-vc create-patch` says it; the output of `diff` does not",),
    )


def _parse_dataset(path: str, value: Mapping[str, Any]) -> DatasetPatch:
    unknown = sorted(set(value).difference(("meta", "feature")))
    meta = _mapping(value.get("meta", {}), f"meta of {_short(path)}")
    features = value.get("feature", [])
    if not isinstance(features, list):
        raise PatchError(f"feature of {_short(path)} must be a list, not {_kind(features)}")
    return DatasetPatch(
        path,
        tuple(_parse_meta(path, name, change) for name, change in meta.items()),
        tuple(_parse_feature(path, number, change) for number, change in enumerate(features, 1)),
        tuple(unknown),
    )


def _parse_meta(path: str, name: str, value: Any) -> MetaChange:
    what = f"meta item {_short(name)} of {_short(path)}"
    halves = _mapping(value, what)
    if not halves or not set(halves) <= {"-", "+", "--", "++"} or len(halves) > 2:
        raise PatchError(f"{what} must have an old half `-`, a new half `+` or both")
    old = halves.get("-", halves.get("--"))
    new = halves.get("+", halves.get("++"))
    if old is None and new is None:
        raise PatchError(f"{what} has neither an old value nor a new one")
    return MetaChange(name, old, new)


_FORMS: Mapping[frozenset[str], FeatureForm] = {
    frozenset(("++",)): FeatureForm.INSERT,
    frozenset(("--",)): FeatureForm.DELETE,
    frozenset(("-", "+")): FeatureForm.UPDATE,
    frozenset(("+",)): FeatureForm.UPSERT,
    frozenset(("-",)): FeatureForm.DELETE,
}


def _parse_feature(path: str, number: int, value: Any) -> FeatureChange:
    if not isinstance(value, dict):
        raise PatchError(
            f"feature {number} of {_short(path)} must be an object, not {_kind(value)}"
        )
    form = _FORMS.get(frozenset(value))
    if "*" in value:
        raise NotYetSupportedError(
            f"feature {number} of {_short(path)} has `*`, as minimal "
            "patches of old versions of Kart had",
            hints=("`+` alone does the same: it lists the columns that change, and the key",),
        )
    if form is None:
        raise PatchError(
            f"feature {number} of {_short(path)} must have `++`, `--`, `-` and `+`, or `+` alone"
        )
    for half, row in value.items():
        if not isinstance(row, dict):
            raise PatchError(
                f"`{half}` of feature {number} of {_short(path)} must be an object, "
                f"not {_kind(row)}"
            )
    old = value.get("-", value.get("--"))
    new = value.get("+", value.get("++"))
    return FeatureChange(number, form, old, new)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


# Rows of a patch as change batches: JSON values to the stored Arrow types, exactly.
#
# The inverse of what `writers.values` prints. Whole columns are converted at once;
# only when one cannot be, its values are tried one by one to name the dataset, the
# feature and the column in the error. Nothing is rounded or cut: a number that the
# column cannot hold as it is written is an error.
#
# A new half may list only some columns. Such rows come in batches of their own that
# say which columns are given; the others are null there and mean nothing.

BATCH_ROWS = 8192
"""Rows converted at a time."""


@dataclass(frozen=True, slots=True)
class PatchBatch:
    """Some changes of a patch that list the same columns."""

    changes: ChangeBatch
    """The rows, in the patch's order, which need not be the key's."""
    given_old: tuple[str, ...]
    """The columns that old halves list, in schema order."""
    given_new: tuple[str, ...]
    """The columns that new halves list, in schema order."""
    upsert: bool
    """Whether rows without an old half may be there already, to be updated."""
    numbers: tuple[int, ...]
    """Where each change stands in its dataset's list, from 1."""


_Shape = tuple[frozenset[str] | None, frozenset[str] | None, bool] | None


def patch_batches(
    patch: DatasetPatch, old_schema: Schema | None, new_schema: Schema | None
) -> Iterator[PatchBatch]:
    """Yield the changed rows of one dataset, in the patch's order.

    A schema is None where the dataset is not there, before or after.
    """
    run: list[FeatureChange] = []
    shape: _Shape = None
    for change in patch.features:
        _check_sides(patch.path, change, old_schema, new_schema)
        own = _shape(change, old_schema, new_schema)
        if run and (own != shape or len(run) >= BATCH_ROWS):
            yield _batch(patch.path, run, old_schema, new_schema)
            run = []
        run.append(change)
        shape = own
    if run:
        yield _batch(patch.path, run, old_schema, new_schema)


def _check_sides(path: str, change: FeatureChange, old: Schema | None, new: Schema | None) -> None:
    for row, schema, when in ((change.old, old, "before"), (change.new, new, "after")):
        if row is None:
            continue
        where = f"feature {change.number} of {path!r}"
        if schema is None:
            raise PatchError(f"{where} cannot be: there is no such dataset {when} the patch")
        for name in row:
            if name not in schema.by_name:
                raise PatchError(f"{where} has a column {name!r}, which the dataset has not")
        for name in schema.key.names:
            if row.get(name) is None:
                raise PatchError(f"{where} is missing required primary key field {name!r}")


def _shape(change: FeatureChange, old: Schema | None, new: Schema | None) -> _Shape:
    """Return what rows of one batch have in common; None for whole rows."""
    given_old = None if change.old is None else frozenset(change.old)
    given_new = None if change.new is None else frozenset(change.new)
    upsert = change.form is FeatureForm.UPSERT
    whole_old = change.old is None or old is None or len(change.old) == len(old.fields)
    whole_new = change.new is None or new is None or len(change.new) == len(new.fields)
    if whole_old and whole_new and not upsert:
        return None
    return given_old, given_new, upsert


def _batch(
    path: str, run: Sequence[FeatureChange], old: Schema | None, new: Schema | None
) -> PatchBatch:
    numbers = tuple(change.number for change in run)
    halves = [
        _side(path, numbers, [change.old for change in run], old),
        _side(path, numbers, [change.new for change in run], new),
    ]
    (old_rows, given_old), (new_rows, given_new) = halves
    upsert = run[0].form is FeatureForm.UPSERT
    return PatchBatch(
        ChangeBatch.from_structs(old_rows, new_rows), given_old, given_new, upsert, numbers
    )


def _side(
    path: str,
    numbers: Sequence[int],
    rows: Sequence[Mapping[str, Any] | None],
    schema: Schema | None,
) -> tuple[pa.StructArray, tuple[str, ...]]:
    if schema is None:
        return pa.nulls(len(rows), pa.struct([])), ()
    first = next((row for row in rows if row is not None), {})
    given = tuple(name for name in schema.names if name in first)
    columns = []
    for field in schema.fields:
        values = [None if row is None else row.get(field.name) for row in rows]
        columns.append(json_column(values, field, lambda at, name: _place(path, numbers[at], name)))
    fields = pa.schema([arrow_field(field) for field in schema.fields])
    mask = pa.array([row is None for row in rows])
    return struct_of(pa.RecordBatch.from_arrays(columns, schema=fields), mask), given


def _place(path: str, number: int, column: str) -> str:
    return f"column {column!r} of feature {number} of {path!r}"
