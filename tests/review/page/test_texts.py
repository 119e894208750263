"""Texts that a page tells by fewer bytes are what they were: read back, and in a browser."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import shapely

from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.review.page.document import script
from havasu_vc.writers.values import spelled
from tests.review.page.conftest import Opened
from tests.review.page.pages import ReadPage, many, places, written
from tests.writers.cases import header

ROWS = 300
_Floats = npt.NDArray[np.float64]
_Moves = list[tuple[bytes | None, bytes | None]]


def degrees() -> tuple[_Floats, np.random.Generator]:
    chance = np.random.default_rng(5)
    middle, spread = (174.8, -41.2), (0.3, 0.2)
    return chance.normal(middle, spread, (ROWS, 2)), chance


def moved(old: _Floats, new: _Floats, crs: str | None = "OGC:CRS84") -> tuple[_Moves, str | None]:
    """Return rows of which some came and some went."""
    sides = [shapely.to_wkb(shapely.points(each)).tolist() for each in (old, new)]
    found: _Moves = [
        (None if row % 10 == 3 else was, None if row % 10 == 7 else now)
        for row, (was, now) in enumerate(zip(*sides, strict=True))
    ]
    return found, crs


def far() -> tuple[_Moves, str | None]:
    xy, chance = degrees()
    return moved(xy, xy + chance.normal(0, 0.01, xy.shape))


def by_less_than_the_map_tells() -> tuple[_Moves, str | None]:
    xy, chance = degrees()
    steps = chance.choice([1e-14, -3e-14, 1e-9, 1e-12, 5e-8], xy.shape)
    return moved(xy, xy + steps)


def by_one_float() -> tuple[_Moves, str | None]:
    xy, _ = degrees()
    return moved(xy, np.nextafter(xy, np.inf))


def of_few_decimals(digits: int) -> tuple[_Moves, str | None]:
    xy, chance = degrees()
    xy[:40] = xy[:40].round(2)
    return moved(xy.round(digits), (xy + chance.normal(0, 1e-4, xy.shape)).round(digits))


def metres(digits: int | None) -> tuple[_Moves, str | None]:
    chance = np.random.default_rng(6)
    xy = chance.uniform((1.1e6, 5.1e6), (1.9e6, 5.9e6), (ROWS, 2))
    if digits is not None:
        xy = xy.round(digits)
    return moved(xy, xy + 0.25, "EPSG:2193")


def of_no_system() -> tuple[_Moves, str | None]:
    xy, chance = degrees()
    return moved(xy * 1000, (xy + chance.normal(0, 0.01, xy.shape)) * 1000, None)


def with_one_far_away() -> tuple[_Moves, str | None]:
    xy, chance = degrees()
    found, crs = moved(xy.round(3), (xy + chance.normal(0, 0.1, xy.shape)).round(3), None)
    found[0] = (shapely.to_wkb(shapely.Point(1e30, 7)), found[0][1])
    return found, crs


def around_zero() -> tuple[_Moves, str | None]:
    chance = np.random.default_rng(7)
    xy = chance.normal(0, 1e-3, (ROWS, 2))
    return moved(xy, -xy)


def with_odd_ones() -> tuple[_Moves, str | None]:
    found, crs = far()
    wkt = ("POINT EMPTY", "POINT Z (1 2 3)", "LINESTRING (1 2, 3 4)", "MULTIPOINT (1 2)")
    xy = ((-0.0, 0.0), (1e-5, 3.0), (1e16, 2e22), (500.5, 95.25), (np.nan, 1.0), (180.0, 90.0))
    odd = [*map(shapely.from_wkt, wkt), *(shapely.Point(each) for each in xy)]
    for row, shape in enumerate(odd):
        found[20 * row] = (shapely.to_wkb(shape, flavor="iso"), found[20 * row][1])
    found[5], found[15], found[25] = (None, found[5][1]), (b"?", b"!"), (found[25][0], b"")
    return found * 3, crs


def lines() -> tuple[_Moves, str | None]:
    found, crs = far()
    line = shapely.to_wkb(shapely.LineString([(1, 2), (3, 4)]))
    return [(line, new) for _, new in found], crs


CASES: dict[str, Callable[[], tuple[_Moves, str | None]]] = {
    "far": far,
    "by less than the map tells": by_less_than_the_map_tells,
    "by one float": by_one_float,
    "of 7 decimals": lambda: of_few_decimals(7),
    "of 9 decimals": lambda: of_few_decimals(9),
    "of 12 decimals": lambda: of_few_decimals(12),
    "metres": lambda: metres(None),
    "millimetres": lambda: metres(3),
    "whole metres": lambda: metres(0),
    "of no system": of_no_system,
    "with one far away": with_one_far_away,
    "around zero": around_zero,
    "with odd ones": with_odd_ones,
    "lines that became points": lines,
}


def shown(wkb: bytes | None) -> str | None:
    """Return the text of a geometry by other code than that of the page."""
    if wkb is None:
        return None
    try:
        shape = shapely.from_wkb(wkb)
    except shapely.errors.ShapelyError:
        return "unreadable geometry"
    name = shape.geom_type.upper()
    if shape.is_empty:
        return f"{name} EMPTY"
    if name != "POINT":
        return f"{name} of {shapely.get_num_coordinates(shape):,} vertices"
    x, y = (repr(value).removesuffix(".0") for value in shapely.get_coordinates(shape)[0].tolist())
    return f"POINT ({x} {y})" + (f", height {shape.z:.7g}" if shape.has_z else "")


def rows_of(moves: _Moves) -> list[tuple[str | None, str | None]]:
    return [(shown(old), shown(new)) for old, new in moves]


def diff_of(case: str) -> tuple[DatasetDiff, _Moves]:
    moves, crs = CASES[case]()
    return places(*moves, crs=crs), moves


@pytest.mark.few(5)
@pytest.mark.parametrize("case", CASES)
def test_texts_of_points_are_what_they_were(case: str) -> None:
    diff, moves = diff_of(case)
    rows = ReadPage.of(written([diff])).rows()

    assert [(row["old"].get("geom"), row["new"].get("geom")) for row in rows] == rows_of(moves)


READ = f"""(async () => {{
  {script().partition("const in_basemap")[0]}
  const block = (id) => document.getElementById(id).textContent;
  const parts = await in_unpacking.unpack(block("data"));
  const [dataset] = new in_changes.Changes(JSON.parse(block("manifest")), parts).datasets;
  return (act) => act(dataset);
}})()"""


def read(opened: Opened, diff: DatasetDiff, act: str) -> Any:
    """Return what a function of the first dataset says, in a browser."""
    return opened([diff]).run(f"{READ}.then((of) => of({act}))")


@pytest.mark.parametrize("case", CASES)
def test_a_browser_spells_points_as_they_were(opened: Opened, case: str) -> None:
    diff, moves = diff_of(case)
    found = read(
        opened,
        diff,
        """(dataset) => Array.from({ length: dataset.count }, (_, row) => {
          const cell = dataset.cells(row).find((each) => each.column.name === "geom");
          return [cell?.old?.text ?? null, cell?.now?.text ?? null];
        })""",
    )

    assert [tuple(each) for each in found] == rows_of(moves)


@pytest.mark.parametrize("case", ["far", "with odd ones", "millimetres"])
@pytest.mark.parametrize("text", ["point", "(174.7", "5 -41", "0", "50.", "empty", "point (0 0)"])
def test_a_search_finds_points_by_their_texts(opened: Opened, case: str, text: str) -> None:
    diff, moves = diff_of(case)
    found = read(
        opened,
        diff,
        f"(dataset) => [...dataset.holding({text!r})].flatMap((one, i) => one ? [i] : [])",
    )
    keys = [f"row {row}" for row in range(len(moves))]
    cells = [[key, *filter(None, each)] for key, each in zip(keys, rows_of(moves), strict=True)]

    assert found == [
        row for row, texts in enumerate(cells) if any(text in each.lower() for each in texts)
    ]


def resurveyed() -> _Moves:
    """Return shapes of several paths, of which some vertices moved, came or went."""
    chance = np.random.default_rng(8)
    ring = np.array([(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)]) / 1000
    hole = (ring / 2 + 0.0005)[::-1]
    found: list[tuple[Any, Any]] = []
    for row in range(60):
        at = chance.uniform((170, -45), (178, -35))
        moved, more = ring.copy(), np.insert(ring, 2, (0.005, 0.002), axis=0)
        moved[2] += 0.0005
        old = shapely.Polygon(at + ring, [at + hole] if row % 2 else [])
        new = (
            shapely.Polygon(at + moved, [at + hole] if row % 2 else []),
            shapely.Polygon(at + more, [at + hole] if row % 2 else []),
            shapely.Polygon(at + moved, [] if row % 2 else [at + hole]),
            shapely.MultiPolygon([shapely.Polygon(at + moved), shapely.Polygon(at + 1 + ring)]),
            shapely.Point(at),
            shapely.LineString(at + moved),
            shapely.Polygon(),
        )[row % 7]
        found.append((old, new) if row % 11 else (new, None) if row % 2 else (None, old))
    return [(bytes_of(old), bytes_of(new)) for old, new in found]


def bytes_of(shape: shapely.Geometry | None) -> bytes | None:
    """Return the bytes of a shape."""
    if shape is None:
        return None
    wkb: bytes = shapely.to_wkb(shape)
    return wkb


def vertices(wkb: bytes | None) -> list[list[float]]:
    return [] if wkb is None else shapely.get_coordinates(shapely.from_wkb(wkb)).tolist()


def test_shapes_told_from_old_ones_are_where_they_were(opened: Opened) -> None:
    moves = resurveyed()
    page = ReadPage.of(written([places(*moves)]))
    told = page.shapes(page.manifest["datasets"][0]["places"])
    shown = read(
        opened,
        places(*moves),
        """({ laid, manifest, count }) => Array.from({ length: count }, (_, row) =>
          [laid.old[row], laid.now[row]].map((shape) => {
            const { firstPath, firstVertex, across, up } = laid;
            const first = (at) => (shape < 0 ? 0 : firstVertex[firstPath[at]]);
            const [from, to] = [first(shape), first(shape + 1)];
            const { origin, step } = manifest.places;
            return Array.from({ length: to - from }, (_, at) =>
              [across, up].map((axis, part) => origin[part] + axis[from + at] * step[part]));
          }))""",
    )

    for row, (move, both) in enumerate(zip(moves, shown, strict=True)):
        for side, (wkb, there) in enumerate(zip(move, both, strict=True)):
            expected = pytest.approx(np.array(vertices(wkb)).ravel(), abs=1.01e-7)
            assert np.array(there).ravel() == expected
            read_back = [place for path in told.get((row, 1 + side), []) for place in path]
            assert np.array(read_back).ravel() == expected


def values(kind: Primitive, old: list[Any], new: list[Any]) -> DatasetDiff:
    """Return rows numbered from 1000 with one column, of which some came and some went."""
    schema = Schema((Field(1, "id", Primitive.LONG, required=True), Field(2, "value", kind)), (1,))
    side = header(schema, "values")
    numbers = np.arange(1000, 1000 + len(old))
    sides = [
        pa.StructArray.from_arrays(
            [pa.array(numbers), pa.array(each, arrow_schema(schema).field("value").type)],
            schema.names,
            mask=pa.array(numbers % 10 == gone),
        )
        for each, gone in ((old, 3), (new, 7))
    ]
    return DatasetDiff("values", side, side, (), iter([ChangeBatch.from_structs(*sides)]))


def told(page: ReadPage) -> set[str]:
    """Return the forms in which the texts of the column are told."""
    dataset = page.manifest["datasets"][0]
    (column,) = (each for each in dataset["columns"] if each["name"] == "value")
    return {next(iter(set(column[side]) & FORMS)) for side in ("old", "new")}


FORMS = {"numbers", "changed", "lengths"}
SPREAD = np.random.default_rng(9)
HUNDREDTHS = SPREAD.normal(40, 900, 600).round(2).tolist()
WIDE = SPREAD.integers(-(2**45), 2**45, 600).tolist()
WORDS = [f"Te Whāriki 😀 {number * 7919 % 997} Ōtaki" for number in range(600)]
VALUES: dict[str, tuple[Primitive, list[Any], list[Any], set[str]]] = {
    "hundredths": (Primitive.DOUBLE, HUNDREDTHS, HUNDREDTHS[::-1], {"numbers"}),
    "hundredths a little higher": (
        Primitive.DOUBLE,
        HUNDREDTHS,
        [round(each + 0.25, 2) for each in HUNDREDTHS],
        {"numbers"},
    ),
    "whole numbers of a float": (
        Primitive.DOUBLE,
        [float(each) for each in WIDE],
        [each + 1.0 for each in WIDE],
        {"numbers"},
    ),
    "wide numbers": (Primitive.LONG, WIDE, [each - 5 for each in WIDE], {"numbers"}),
    "numbers that grow": (
        Primitive.LONG,
        list(range(600)),
        list(range(10**12, 10**12 + 600)),
        {"numbers"},
    ),
    "with odd ones": (
        Primitive.DOUBLE,
        [-0.0, float("nan"), 1e300, 1e-7, None, 0.0, *HUNDREDTHS[6:]],
        [1.5, 2.5, -float("inf"), 0.1 + 0.2, 7.0, None, *HUNDREDTHS[:5:-1]],
        {"numbers"},
    ),
    "numbers as text": (
        Primitive.STRING,
        [f"{number:.2f}" for number in HUNDREDTHS],
        [f"{number + 1:.2f}" for number in HUNDREDTHS],
        {"numbers"},
    ),
    "with zeros before": (
        Primitive.STRING,
        [f"{number:05}" for number in range(600)],
        ["-0", "+1", "1.", ".5", "", *(f"{number:05}" for number in range(7, 602))],
        {"lengths", "changed"},
    ),
    "words": (
        Primitive.STRING,
        WORDS,
        [each.replace("ā", "ē") if len(each) % 2 else each + "!" for each in WORDS],
        {"lengths", "changed"},
    ),
    "characters that begin or end alike": (
        Primitive.STRING,
        ["a😀é" * 9, "😁é" * 9, None, "", "é", "x", *WORDS[6:]],
        ["a😃è" * 9, "😀é" * 9, "é", "é", "", None, *(f"{each}😀" for each in WORDS[6:])],
        {"lengths", "changed"},
    ),
}


def spelling(value: Any, kind: Primitive) -> str | None:
    if value is None:
        return None
    field = Field(2, "value", kind)
    column = pa.array([value], arrow_schema(Schema((field,), ())).field(0).type)
    return str(spelled(column, field)[0].as_py())


@pytest.mark.parametrize("case", VALUES)
def test_texts_of_values_are_what_they_were(opened: Opened, case: str) -> None:
    kind, old, new, forms = VALUES[case]
    page = ReadPage.of(written([values(kind, old, new)]))
    shown = read(
        opened,
        values(kind, old, new),
        """(dataset) => Array.from({ length: dataset.count }, (_, row) => {
          const cell = dataset.cells(row).find((each) => each.column.name === "value");
          return [dataset.keys.at(row), cell?.old?.text ?? null, cell?.now?.text ?? null];
        })""",
    )
    expected = []
    for row, pair in enumerate(zip(old, new, strict=True)):
        texts = [spelling(value, kind) for value in pair]
        here = (row % 10 != 3, row % 10 != 7)
        both = all(here) and texts[0] == texts[1]
        cells = zip(texts, here, strict=True)
        found = [text if there and not both else None for text, there in cells]
        expected.append([str(1000 + row), *found])

    assert told(page) <= forms
    assert told(page) & (forms - {"lengths"})
    assert "numbers" in page.manifest["datasets"][0]["keys"]
    assert [
        [row["key"], row["old"].get("value"), row["new"].get("value")] for row in page.rows()
    ] == expected
    assert shown == expected


@pytest.mark.parametrize("case", ["hundredths", "words"])
@pytest.mark.parametrize("text", ["4", "-1", "ki 😀", "ō", "7 ōtaki!", "0.5"])
def test_a_search_finds_values_by_their_texts(opened: Opened, case: str, text: str) -> None:
    kind, old, new, _ = VALUES[case]
    found = read(opened, values(kind, old, new), f"(dataset) => [...dataset.holding({text!r})]")
    rows = ReadPage.of(written([values(kind, old, new)])).rows()

    assert found == [
        int(
            any(
                text in each.lower()
                for each in (row["key"], *row["old"].values(), *row["new"].values())
                if each is not None
            )
        )
        for row in rows
    ]


def test_distances_are_shown_as_they_are() -> None:
    chance = np.random.default_rng(10)
    steps = np.concatenate([10.0 ** chance.uniform(-9, 7, 4000), np.arange(1000) / 8 + 999.5, [0]])
    old = chance.normal(0, 1e-6, (len(steps), 2))
    moves = moved(old, old + np.stack([steps, 0 * steps], axis=1), None)
    page = ReadPage.of(written([places(*moves[0], crs=None)]))
    kept = page.numbers(page.manifest["datasets"][0]["distances"]).view(np.float32)
    there = ~np.isnan(kept)
    true = np.hypot(*(old + np.stack([steps, 0 * steps], axis=1) - old).T)[there]

    assert there.sum() > 3000
    assert [f"{each:.3g}" for each in kept[there].tolist()] == [
        f"{each:.3g}" for each in true.astype(np.float32).tolist()
    ]
    assert (np.diff(kept[there][np.argsort(true)]) >= 0).all()


@pytest.mark.thorough
def test_a_hundred_thousand_changes_are_less_than_three_megabytes() -> None:
    page = written([many(100_000, batches=10)])

    assert len(page.encode()) <= 3_000_000
