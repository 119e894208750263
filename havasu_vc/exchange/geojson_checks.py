"""GeoJSON that GDAL takes for something else and says nothing: found in a file's bytes, refused."""

from __future__ import annotations

import datetime
import json
import mmap
import re
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError, InvalidFileError
from havasu_vc.exchange.gdal import open_stream, warned_of
from havasu_vc.exchange.ogr_formats import VectorFile
from havasu_vc.geo.crs import parse_crs

__all__ = ["JSON_DRIVERS", "check_geojson", "refuse_lost_geometries"]

JSON_DRIVERS = ("GeoJSON", "GeoJSONSeq")
_DEGREES = ("", "EPSG:4326", "EPSG:4979")
"""Systems that GDAL takes where a file names none that it knows."""
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ID = re.compile(rb'"id"\s*:\s*(-?\d+)\s*[,}]')
_ODD_DAY = re.compile(rb'"(\d{4})[-/](02[-/](?:29|3\d)|(?:0[469]|11)[-/]31)')
_CRS = re.compile(r'(?:\{|,)\s*"crs"\s*:\s*(?=\{)')
_ABSENT = re.compile(
    rb'"geometry"\s*:\s*(?:null|\{\s*\})|"(?:coordinates|geometries)"\s*:\s*\[\s*\]'
)
_GEOMETRY, _FEATURE = re.compile(rb'"geometry"\s*:'), re.compile(rb'"type"\s*:\s*"Feature"')
_HEAD, _TAIL = 1 << 16, 1 << 12
_MEND = ("mend it in the file",)


def check_geojson(
    file: VectorFile, layer: str, info: Mapping[str, Any], arrow: pa.Schema, *, has_crs: bool
) -> None:
    """Refuse a layer of GeoJSON of which GDAL would read other values than it has.

    `has_crs` says whether its reference system is told beside it. Raises `InvalidFileError`.
    """
    if file.driver not in JSON_DRIVERS:
        return
    with _bytes(file.path) as data:
        if _NUL.search(data):
            raise _refusal(file, "a text has a NUL character, where it would be cut")
        _refuse_odd_ids(file, layer, data, arrow)
        if (odd := _odd_day(data)) is not None:
            if info["driver"] == "GeoJSONSeq":  # GDAL gives no text of it
                odd = odd if _times(arrow) else None
            else:
                odd = _odd_day_of(file, layer, _times(arrow))
            if odd is not None:
                raise _refusal(file, f"{odd} is no day, and GDAL makes another of it")
        if file.driver == "GeoJSON" and not has_crs and str(info["crs"] or "") in _DEGREES:
            _refuse_unknown_crs(file, data)


@contextmanager
def _bytes(path: str) -> Iterator[mmap.mmap | bytes]:
    with open(path, "rb") as source:
        if not source.read(1):
            yield b""
            return
        with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _refusal(file: VectorFile, reason: str, hints: tuple[str, ...] = _MEND) -> InvalidFileError:
    return InvalidFileError(file.shown_path, reason, hints=hints)


def _refuse_odd_ids(
    file: VectorFile, layer: str, data: mmap.mmap | bytes, arrow: pa.Schema
) -> None:
    """Refuse ids that GDAL gives other numbers: those that come twice, and large ones."""
    found = array("q")
    for match in _ID.finditer(data):
        number = int(match[1])
        if "id" in arrow.names and arrow.field("id").type == pa.int32() and abs(number) >> 31:
            raise _refusal(file, f"it has the id {number} beside ids that are no numbers above 0")
        found.append(number if abs(number) >> 63 == 0 else hash(number))
    ids = np.frombuffer(found, np.int64)
    # Of the properties called `id` that come twice, each is a value of a column of its own.
    if "id" in arrow.names or len(np.unique(ids)) == len(ids):
        return
    how = {"columns": [], "read_geometry": False, "return_fids": True}
    for line in warned_of(file.path, layer, **how):
        if twice := re.search(r"Several features with id = (-?\d+)", line):
            raise _refusal(file, f"two features have the id {twice[1]}")


def _times(arrow: pa.Schema) -> list[str]:
    return [
        field.name
        for field in arrow
        if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
    ]


def _odd_day(data: mmap.mmap | bytes) -> str | None:
    """Return text that looks like a day that no month has: GDAL makes one of the next of it."""
    found = (match[0][1:] for match in _ODD_DAY.finditer(data))
    return next((text.decode() for text in found if _is_no_day(text)), None)


def _odd_day_of(file: VectorFile, layer: str, times: list[str]) -> str | None:
    """Return the first such day in columns of times, as they stand in the file."""
    if not times:
        return None
    how = {"columns": times, "read_geometry": False, "DATE_AS_STRING": "YES"}
    with open_stream(file.path, layer, **how) as reader:
        for batch in reader:
            for name in times:
                for text in batch.column(name).to_pylist():
                    if text is not None and _is_no_day(text.encode()):
                        return f"{text[:10]} in column {name!r}"
    return None


def _is_no_day(text: bytes) -> bool:
    try:
        datetime.date(int(text[:4]), int(text[5:7]), int(text[8:10]))
    except ValueError:
        return True
    return False


def _refuse_unknown_crs(file: VectorFile, data: mmap.mmap | bytes) -> None:
    """Refuse a reference system that GDAL does not know and takes degrees for."""
    head = bytes(data[:_HEAD]).decode("utf-8-sig", errors="replace").partition('"features"')[0]
    tail = bytes(data[-_TAIL:]).decode(errors="replace").rpartition("]")[2]
    match = _CRS.search(head) or _CRS.search(tail)
    if match is None:
        return
    text = head if match.string is head else tail
    try:
        said, _ = json.JSONDecoder().raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return
    named = said.get("properties")
    name = (named.get("name") or named.get("href")) if isinstance(named, dict) else None
    try:
        parse_crs(str(name))
    except CrsError:
        raise _refusal(
            file,
            f"its reference system {str(name)!r} is unknown",
            ("--crs says which it is",),
        ) from None


def refuse_lost_geometries(path: str, shown: str, nulls: int) -> None:
    """Refuse a file of which more geometries came as nulls than it has."""
    with _bytes(path) as data:
        absent = _count(_ABSENT, data)
        if nulls > absent:
            absent += max(0, _count(_FEATURE, data) - _count(_GEOMETRY, data))
    if nulls > absent:
        raise InvalidFileError(
            shown, f"{nulls - absent} of its geometries cannot be read", hints=_MEND
        )


def _count(pattern: re.Pattern[bytes], data: mmap.mmap | bytes) -> int:
    return sum(1 for _ in pattern.finditer(data))
