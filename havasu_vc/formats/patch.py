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
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, BinaryIO

from havasu_vc.errors import PatchError
from havasu_vc.model.diffs import MetaChange
from havasu_vc.model.names import repeated
from havasu_vc.records import dataclass

__all__ = [
    "MOST_PATCH_BYTES",
    "DatasetPatch",
    "FeatureChange",
    "FeatureForm",
    "FilePatch",
    "Patch",
    "parse_patch",
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
    """What a change in a patch asks for."""

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
    """What it asks for."""
    old: Mapping[str, Any] | None
    """The old half, by column."""
    new: Mapping[str, Any] | None
    """The new half, by column; it may list only some."""


@dataclass(frozen=True, slots=True)
class DatasetPatch:
    """What a patch does to one dataset."""

    path: str
    """Where the dataset is."""
    meta: tuple[MetaChange, ...]
    """Changes of meta items."""
    features: tuple[FeatureChange, ...]
    """Changes of rows, in the patch's order."""


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file beside the datasets."""

    path: str
    """Where the file is."""
    old: bytes | None
    """What it held; None when it is added."""
    new: bytes | None
    """What it holds; None when it is removed."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch as it was written, its form checked."""

    datasets: tuple[DatasetPatch, ...]
    """What changes, in the patch's order."""
    files: tuple[FilePatch, ...]
    """What changes beside datasets."""
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
    header = _first(document, _HEADER_KEYS)
    if header is None:
        raise PatchError(
            "the patch does not say who made it: it has no `kart.patch/v1`",
            hints=("`havasu-vc create-patch` writes patches; the output of `diff` is none",),
        )
    diff = _first(document, _DIFF_KEYS)
    if diff is None:
        raise PatchError("the patch changes nothing: it has no `kart.diff/v1+hexwkb`")
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
    if unknown:
        raise PatchError(
            f"dataset {_short(path)} of the patch has {_short(unknown[0])}, which is not understood"
        )
    meta = _mapping(value.get("meta", {}), f"meta of {_short(path)}")
    features = value.get("feature", [])
    if not isinstance(features, list):
        raise PatchError(f"feature of {_short(path)} must be a list, not {_kind(features)}")
    return DatasetPatch(
        path,
        tuple(_parse_meta(path, name, change) for name, change in meta.items()),
        tuple(_parse_feature(path, number, change) for number, change in enumerate(features, 1)),
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
