"""Pages to look at: written from diffs made here, and read back without a browser."""

import base64
import io
import json
import math
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.sketching import Measure, measure_of
from havasu_vc.looking.reproject import reprojection
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.review.page import Page, PageLimits, Pictures, write_page
from havasu_vc.review.report import DatasetFacts, Review
from havasu_vc.review.summarising import Means, summarise
from tests.writers.cases import header

P = Primitive
MILLION = DatasetFacts(1_000_000)


def written(
    diffs: Iterable[DatasetDiff],
    *,
    limits: PageLimits | None = None,
    names: tuple[str, str] = ("main", "feature"),
    summary: bool = True,
    pictures: Pictures | None = None,
    facts: DatasetFacts = MILLION,
) -> str:
    """Return the page of some diffs."""
    page = Page(limits, pictures=pictures)
    degrees, to_map = reprojection("OGC:CRS84")

    def measure(field: Field, header: DatasetHeader) -> Measure:
        known = field.geometry is not None and field.geometry.crs == degrees.identifier
        return measure_of(degrees) if known else Measure()

    means = Means(facts, facts, measure, to_map)
    found = [summarise(diff, means, [page.dataset(diff, to_map)]) for diff in diffs]
    out = io.StringIO()
    review = Review(*names, tuple(found))
    write_page(out, page, review, more="havasu-vc diff main...feature", summary=summary)
    return out.getvalue()


@dataclass(frozen=True)
class ReadPage:
    """What a page holds, taken apart by other code than that of the page."""

    manifest: dict[str, Any]
    data: bytes

    @classmethod
    def of(cls, text: str) -> "ReadPage":
        blocks = dict(re.findall(r'<script type="[^"]*" id="(\w+)">([^<]*)</script>', text))
        data = zlib.decompress(base64.b64decode(blocks["data"]))
        return cls(json.loads(blocks["manifest"]), data)

    def raw(self, part: list[int]) -> bytes:
        return self.data[part[0] : sum(part)]

    def numbers(self, part: list[int]) -> npt.NDArray[np.uint32]:
        start, count = part
        planes = np.frombuffer(self.data, np.uint8, 4 * count, start).reshape(4, count)
        return np.ascontiguousarray(planes.T).view("<u4")[:, 0]

    def signed(self, part: list[int]) -> list[int]:
        steps = self.numbers(part)
        found: list[int] = ((steps >> 1).astype(np.int64) ^ -(steps & 1).astype(np.int64)).tolist()
        return found

    def differences(self, part: list[int]) -> list[int]:
        return [int(value) for value in np.cumsum(self.signed(part)).astype(np.int32)]

    def texts(self, lengths: list[int], text: list[int]) -> list[str]:
        units = self.raw(text).decode().encode("utf-16-le")
        ends = np.cumsum(self.numbers(lengths).astype(np.int64)) * 2
        starts = [0, *ends[:-1].tolist()]
        return [
            units[start:end].decode("utf-16-le")
            for start, end in zip(starts, ends.tolist(), strict=False)
        ]

    def wide(self, part: list[list[int] | None]) -> list[int]:
        low, high = part
        assert low is not None
        words = self.numbers(low).astype(object)
        if high is not None:
            words += self.numbers(high).astype(object) << 32
        return [word >> 1 if word % 2 == 0 else ~(word >> 1) for word in words.tolist()]

    def side(self, side: dict[str, Any], texts: list[str]) -> dict[int, str | None]:
        states = self.raw(side["states"])
        rows = self.differences(side["rows"])
        found = zip(rows, states, texts, strict=True)
        return {row: None if state == 1 else text for row, state, text in found}

    def sides(
        self, column: dict[str, Any], places: dict[str, Any]
    ) -> tuple[dict[int, str | None], dict[int, str | None]]:
        """Return the texts of a column by row, before and after."""
        sides = [column["old"], column["new"]]
        if "points" in sides[0]:
            texts = self.points(sides, places)
        else:
            texts = self.spelled(sides)
        old, new = (self.side(*each) for each in zip(sides, texts, strict=True))
        return old, new

    def spelled(self, sides: list[dict[str, Any]]) -> list[list[str]]:
        """Return the texts of sides, of which each may be told from what is before."""
        found: list[list[str]] = []
        old: dict[int, int] = {}
        for side in sides:
            if "numbers" in side:
                told = side["numbers"]
                counts = self.wide(told["counts"])
                rows = self.differences(side["rows"]) if "rows" in side else range(len(counts))
                if told["of"] == "last":
                    counts = np.cumsum(counts).tolist()
                if told["of"] == "old":
                    counts = [
                        count + old.get(row, 0) for row, count in zip(rows, counts, strict=True)
                    ]
                old = dict(zip(rows, counts, strict=True))
                found.append([_decimal(each, told["digits"], told["least"]) for each in counts])
                self.put_others(found[-1], told["others"])
            elif "changed" in side:
                told = side["changed"]
                rows = self.differences(side["rows"])
                was = dict(zip(self.differences(sides[0]["rows"]), found[0], strict=True))
                middles = self.texts(told["lengths"], told["text"])
                kept = [self.numbers(told[name]).tolist() for name in ("start", "end")]
                found.append(
                    [
                        _between(was.get(row, ""), middle, start, end)
                        for row, middle, start, end in zip(rows, middles, *kept, strict=True)
                    ]
                )
            else:
                found.append(self.texts(side["lengths"], side["text"]))
        return found

    def put_others(self, texts: list[str], others: dict[str, Any]) -> None:
        rest = self.texts(others["lengths"], others["text"])
        for index, text in zip(self.differences(others["at"]), rest, strict=True):
            texts[index] = text

    def points(self, sides: list[dict[str, Any]], places: dict[str, Any]) -> list[list[str]]:
        found, shapes = [], self.shapes(places)
        away: list[dict[int, list[int]]] = [{}, {}]
        for new, side in enumerate(sides):
            told = side["points"]
            rows, digits = self.differences(side["rows"]), told["digits"]
            texts = []
            for row, *steps in zip(rows, self.wide(told["x"]), self.wide(told["y"]), strict=True):
                if told["moved"]:
                    was = away[0].get(row, [0, 0])
                    steps = [step + old for step, old in zip(steps, was, strict=True)]
                away[new][row] = steps
                shape = shapes.get((row, 1 + new)) if told["map"] else None
                near = (0.0, 0.0) if shape is None else shape[0][0]
                if digits is None:
                    values = [
                        _float((_bits(value) + step) % 2**64)
                        for value, step in zip(near, steps, strict=True)
                    ]
                else:
                    counts = [
                        math.floor(value * 10.0**digits + 0.5) + step
                        for value, step in zip(near, steps, strict=True)
                    ]
                    values = [int(count) / 10**digits for count in counts]
                words = [repr(value).removesuffix(".0") for value in values]
                texts.append(f"POINT ({words[0]} {words[1]})")
            self.put_others(texts, told["others"])
            found.append(texts)
        return found

    def shapes(
        self, places: dict[str, Any]
    ) -> dict[tuple[int, int], list[list[tuple[float, float]]]]:
        """Return the paths of each row as the map has them, before (1) and after (2)."""
        found: dict[tuple[int, int], list[list[tuple[int, int]]]] = {}
        steps = iter(zip(*map(self.signed, places["places"]), strict=True))
        sizes = iter(self.numbers(places["counts"]).tolist())
        last = (0, 0)
        for row, sides, paths in zip(
            self.differences(places["rows"]),
            self.raw(places["sides"]),
            self.numbers(places["paths"]).tolist(),
            strict=True,
        ):
            counts = [next(sizes) for _ in range(paths)]
            was = found.get((row, 1)) if sides == 2 else None
            if was is not None and [len(path) for path in was] != counts:
                was = None
            shape: list[list[tuple[int, int]]] = []
            for path, count in enumerate(counts):
                shape.append([])
                for vertex in range(count):
                    near = last if was is None else was[path][vertex]
                    across, up = next(steps)
                    last = _int32(near[0] + across), _int32(near[1] + up)
                    shape[-1].append(last)
            found |= {(row, side): shape for side in (1, 2) if sides & side}
        assert next(steps, None) is None
        (west, south), (wide, high) = places["origin"], places["step"]
        return {
            key: [[(west + x * wide, south + y * high) for x, y in path] for path in shape]
            for key, shape in found.items()
        }

    def rows(self, number: int = 0) -> list[dict[str, Any]]:
        """Return kind, key and cells of the rows of a dataset."""
        dataset = self.manifest["datasets"][number]
        (keys,) = self.spelled([dataset["keys"]])
        columns = [
            (column["name"], *self.sides(column, dataset["places"]))
            for column in dataset["columns"]
        ]
        kinds = self.raw(dataset["kinds"])
        return [
            {
                "kind": ("insert", "update", "delete")[kinds[row]],
                "key": keys[row],
                "old": {name: old[row] for name, old, _ in columns if row in old},
                "new": {name: new[row] for name, _, new in columns if row in new},
            }
            for row in range(dataset["count"])
        ]


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _between(old: str, middle: str, start: int, end: int) -> str:
    units = old.encode("utf-16-le")
    new = units[: 2 * start] + middle.encode("utf-16-le") + units[len(units) - 2 * end :]
    return new.decode("utf-16-le")


def _decimal(count: int, digits: int, least: int) -> str:
    whole, rest = divmod(abs(count), 10**digits)
    decimals = f"{rest:0{digits}}".rstrip("0").ljust(least, "0") if digits else ""
    return f"{'-' if count < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _float(bits: int) -> float:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


POINTS = Schema(
    (
        Field(1, "id", P.LONG, required=True),
        Field(2, "geom", P.BINARY, geometry=Geometry(Encoding.WKB, "OGC:CRS84", "POINT")),
        *(Field(3 + number, f"text {number}", P.STRING) for number in range(4)),
        *(Field(7 + number, f"number {number}", P.DOUBLE) for number in range(4)),
    ),
    (1,),
)


def _wkb(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> pa.Array:
    raw = np.zeros(len(x), np.dtype([("head", "u1", 5), ("x", "<f8"), ("y", "<f8")]))
    raw["head"], raw["x"], raw["y"] = (1, 1, 0, 0, 0), x, y
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(21), len(x), [None, pa.py_buffer(raw.tobytes())]
    ).cast(pa.binary())


def many(count: int, path: str = "trees", *, batches: int = 1) -> DatasetDiff:
    """Return a diff of updated, inserted and deleted points with eight attributes.

    Of ten rows one comes, one goes; updates move half of the others and change two cells.
    """
    side = header(POINTS, path)
    return DatasetDiff(
        path,
        side,
        side,
        (),
        (_many(part) for part in np.array_split(np.arange(count), batches)),
    )


def _many(ids: npt.NDArray[np.int64]) -> ChangeBatch:
    chance = np.random.default_rng(int(ids[0]) if len(ids) else 0)
    count = len(ids)
    x, y = chance.normal(174.8, 0.3, count), chance.normal(-41.2, 0.2, count)
    texts = [pa.array([f"{chr(97 + i % 26)} place {i * 7919 % 997}" for i in ids])] * 4
    numbers = [pa.array(chance.normal(40, 9, count).round(2)) for _ in range(4)]
    old = [pa.array(ids), _wkb(x, y), *texts, *numbers]
    moved = np.where(ids % 2 == 0, 0.004, 0.0)
    new = list(old)
    new[1] = _wkb(x + moved, y)
    new[2] = pa.array([f"{chr(97 + i % 26)} square {i * 7919 % 997}" for i in ids])
    new[6] = pa.array(chance.normal(50, 9, count).round(2))
    names = POINTS.names
    return ChangeBatch.from_structs(
        pa.StructArray.from_arrays(old, names, mask=pa.array(ids % 10 == 3)),
        pa.StructArray.from_arrays(new, names, mask=pa.array(ids % 10 == 7)),
    )


def places(
    *moves: tuple[bytes | None, bytes | None], crs: str | None = "OGC:CRS84", path: str = "places"
) -> DatasetDiff:
    """Return a diff of rows named `row 0` and so on, with these geometries before and after."""
    schema = Schema(
        (
            Field(1, "name", P.STRING, required=True),
            Field(2, "geom", P.BINARY, geometry=Geometry(Encoding.WKB, crs)),
        ),
        (1,),
    )
    side = header(schema, path)
    kind = pa.struct([("name", pa.string()), ("geom", pa.binary())])

    def rows(part: int) -> pa.StructArray:
        values = [
            None if move[part] is None else {"name": f"row {number}", "geom": move[part]}
            for number, move in enumerate(moves)
        ]
        return pa.array(values, kind)

    return DatasetDiff(path, side, side, (), iter([ChangeBatch.from_structs(rows(0), rows(1))]))
