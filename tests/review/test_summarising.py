import json
import math
from dataclasses import replace
from typing import Any

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.sketching import UNREADABLE, Measure
from havasu_vc.looking.reproject import reprojection
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeBatch, ChangeKind, count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetHeader, MetaChange
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.review.json import format_json
from havasu_vc.review.report import DatasetFacts, DatasetReview, FlagKind, Review
from havasu_vc.review.summarising import BatchFindings, Means, summarise
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.tables import evolved, rows_of, schemas
from tests.support.examples import examples
from tests.writers.cases import batch, diff_of, header

P = Primitive
SHAPE = Field(2, "shape", P.BINARY, geometry=Geometry(Encoding.WKB, "EPSG:4326"))
POINTS = Schema(
    (
        Field(1, "id", P.LONG, required=True),
        SHAPE,
        Field(3, "name", P.STRING),
        Field(4, "n", P.INT),
    ),
    (1,),
)
HERE = Bounds(0, 0, 10, 10)
FACTS = DatasetFacts(100, {1: 0, 2: 0, 3: 0, 4: 0}, {1: (1, 100), 4: (0, 10)}, {2: HERE})
MEANS = Means(
    FACTS,
    DatasetFacts(100),
    lambda *_: Measure("m", 1, on_sphere=True),
    reprojection("OGC:CRS84")[1],
)


def row(number: int, /, *place: float, **values: Any) -> dict[str, Any]:
    point = shapely.to_wkb(shapely.Point(*(place or (1, 1))))
    return {"id": number, "shape": point, "name": f"r{number}", "n": 5} | values


def reviewed(
    *changes: tuple[dict[str, Any] | None, dict[str, Any] | None],
    means: Means = MEANS,
    schema: Schema = POINTS,
) -> DatasetReview:
    side = header(schema)
    return summarise(diff_of(batch(schema, schema, *changes), old=side, new=side), means)


def kinds(review: DatasetReview) -> set[FlagKind]:
    return {flag.kind for flag in review.flags}


BOW_TIE = shapely.to_wkb(shapely.from_wkt("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"))
SQUARE = shapely.to_wkb(shapely.box(0, 0, 1, 1))
EMPTY = shapely.to_wkb(shapely.from_wkt("POLYGON EMPTY"))
SAME: dict[str, Any] = {"name": "same"}

FIRES: dict[FlagKind, list[tuple[Any, Any]]] = {
    FlagKind.MASS_DELETE: [(row(n), None) for n in range(10)],
    FlagKind.EMPTIED_GEOMETRY: [(row(1), row(1, shape=EMPTY))],
    FlagKind.INVALID_GEOMETRY: [(row(1), row(1, shape=BOW_TIE))],
    FlagKind.FAR_FROM_THE_REST: [(None, row(200, 21, 1))],
    FlagKind.MOVED_FAR: [(row(1), row(1, 9, 9))],
    FlagKind.NEW_NULLS: [(row(1), row(1, name=None))],
    FlagKind.OUT_OF_RANGE: [(row(1), row(1, n=21))],
    FlagKind.DUPLICATES: [(None, row(201, **SAME)), (None, row(202, **SAME))],
}
QUIET: dict[FlagKind, list[tuple[Any, Any]]] = {
    FlagKind.MASS_DELETE: [(row(n), None) for n in range(9)],
    FlagKind.EMPTIED_GEOMETRY: [(row(1, shape=EMPTY), row(1, shape=EMPTY, n=6))],
    FlagKind.INVALID_GEOMETRY: [(row(1), row(1, shape=SQUARE)), (row(2, shape=BOW_TIE), None)],
    FlagKind.FAR_FROM_THE_REST: [(None, row(200, 19, 1)), (row(3, 50, 50), None)],
    FlagKind.MOVED_FAR: [(row(1), row(1, 1.1, 1.1))],
    FlagKind.NEW_NULLS: [(row(1), row(1, name="")), (row(2, name=None), None)],
    FlagKind.OUT_OF_RANGE: [(row(1), row(1, n=20)), (None, row(10_000))],
    FlagKind.DUPLICATES: [(None, row(201)), (None, row(202)), (row(3), row(3, **SAME))],
}


@pytest.mark.parametrize("kind", FIRES)
def test_flag_fires(kind: FlagKind) -> None:
    review = reviewed(*FIRES[kind])
    (flag,) = (flag for flag in review.flags if flag.kind is kind)

    assert flag.count == (1 if kind is FlagKind.DUPLICATES else len(FIRES[kind]))
    assert flag.rows or kind is FlagKind.MASS_DELETE


@pytest.mark.parametrize("kind", QUIET)
def test_flag_stays_quiet(kind: FlagKind) -> None:
    assert kind not in kinds(reviewed(*QUIET[kind]))


METRES = DatasetFacts(
    100, {1: 0, 2: 0, 3: 0, 4: 0}, {}, {2: Bounds(1_570_000, 5_170_000, 1_580_000, 5_180_000)}
)
DEGREES = DatasetFacts(100, {1: 0, 2: 0, 3: 0, 4: 0}, {}, {2: Bounds(172.0, -43.0, 173.0, -42.0)})


@pytest.mark.parametrize(
    ("facts", "old", "new", "words"),
    [
        (METRES, (1_575_000, 5_175_000), (172.6, -43.5), "such as longitude and latitude"),
        (METRES, None, (172.6, -43.5), "such as longitude and latitude"),
        (METRES, (1_575_000, 5_175_000), (5_175_000, 1_575_000), "x and y swapped"),
        (DEGREES, (172.5, -42.5), (-42.5, 172.5), "x and y swapped"),
        (DEGREES, (172.5, -42.5), (1_575_000, 5_175_000), "no longitude and latitude"),
        (METRES, (1_575_000, 5_175_000), (1_775_000, 5_175_000), None),
        (DEGREES, (172.5, -42.5), (10, 50), None),
        (FACTS, (3, 4), (4, 3), None),
        (FACTS, (3, 4), (40, 30), None),
    ],
)
def test_coordinates_of_another_system(
    facts: DatasetFacts,
    old: tuple[float, float] | None,
    new: tuple[float, float],
    words: str | None,
) -> None:
    means = replace(MEANS, before=facts)
    before = None if old is None else row(1, *old)
    found = {flag.kind: flag for flag in reviewed((before, row(1, *new)), means=means).flags}

    if words is None:
        assert FlagKind.OTHER_COORDINATES not in found
        return
    flag = found[FlagKind.OTHER_COORDINATES]
    assert flag.message == f"1 row with coordinates of another system than `EPSG:4326`: {words}"
    assert (flag.count, flag.rows) == (1, ("1",))
    # Said once: that it is far away follows from it.
    assert not found.keys() & {FlagKind.FAR_FROM_THE_REST, FlagKind.MOVED_FAR}


def test_few_changes_of_a_column_are_all_shown() -> None:
    three = [(row(n), row(n, name=f"new {n}")) for n in range(3)]
    four = [*three, (row(9), row(9, name="new 9"))]

    (column,) = reviewed(*three).columns
    assert [(each.old, each.count) for each in column.transitions] == [
        ("r0", 1),
        ("r1", 1),
        ("r2", 1),
    ]
    (column,) = reviewed(*four).columns
    assert column.transitions == ()


def square(side: float) -> bytes:
    return bytes(shapely.to_wkb(shapely.box(0, 0, side, side)))


def covered(*changes: tuple[Any, Any], measure: Measure) -> tuple[float, float] | None:
    means = replace(MEANS, measure=lambda *_: measure)
    area = reviewed(*changes, means=means).area
    assert area is not None
    return area.covered


def test_how_much_ground_goes_and_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, come = (row(1, shape=square(4)), None), (None, row(2, shape=square(3)))
    changed = (row(3, shape=square(1)), row(3, shape=square(9)))
    metres, feet = Measure("m"), Measure("m", 0.5)

    assert covered(gone, come, changed, measure=metres) == (16, 9)
    assert covered(gone, come, measure=feet) == (4, 2.25)
    assert covered(gone, changed, measure=metres) is None
    assert covered((None, row(4, shape=b"junk")), gone, come, measure=metres) == (16, 9)
    assert covered(gone, come, measure=Measure("m", on_sphere=True)) is None
    assert covered(gone, come, measure=Measure()) is None
    monkeypatch.setattr("havasu_vc.review.geometry_tally.MOST_ROWS", 1)
    assert covered(gone, come, measure=metres) is None


def test_duplicates_are_found_across_batches() -> None:
    side = header(POINTS)
    batches = [batch(POINTS, POINTS, (None, row(n, **SAME))) for n in (1, 2, 3)]
    review = summarise(diff_of(*batches, old=side, new=side), MEANS)

    assert [flag.count for flag in review.flags if flag.kind is FlagKind.DUPLICATES] == [2]


def whole(
    old: DatasetHeader | None, new: DatasetHeader | None, *changes: ChangeBatch
) -> DatasetReview:
    return summarise(diff_of(*changes, old=old, new=new), MEANS)


def test_flags_of_the_whole() -> None:
    side = header(POINTS)
    fewer = header(Schema(POINTS.fields[:3], (1,)))
    other_key = header(Schema((*POINTS.fields[:2], replace(POINTS.fields[2], required=True)), (3,)))
    moved = replace(SHAPE, geometry=Geometry(Encoding.WKB, "EPSG:2193"))
    other_crs = header(Schema((POINTS.fields[0], moved, *POINTS.fields[2:]), (1,)))

    assert kinds(whole(side, None)) == {FlagKind.DATASET_REMOVED}
    assert kinds(whole(None, side)) == set()
    assert kinds(whole(side, side)) == set()
    assert kinds(whole(side, fewer)) == {FlagKind.COLUMN_REMOVED}
    assert FlagKind.KEY_CHANGED in kinds(whole(side, other_key))
    assert kinds(whole(side, other_crs)) == {FlagKind.CRS_CHANGED}


def test_a_new_crs_with_new_coordinates_is_no_flag() -> None:
    moved = replace(SHAPE, geometry=Geometry(Encoding.WKB, "EPSG:2193"))
    other = Schema((POINTS.fields[0], moved, *POINTS.fields[2:]), (1,))
    change = batch(POINTS, other, (row(1), row(1, 1_570_000, 5_180_000)))

    assert FlagKind.CRS_CHANGED not in kinds(whole(header(POINTS), header(other), change))


def test_words_about_systems_are_quoted() -> None:
    moved = replace(SHAPE, geometry=Geometry(Encoding.WKB, "[x](https://evil.example)"))
    other = header(Schema((POINTS.fields[0], moved, *POINTS.fields[2:]), (1,)))
    (flag,) = whole(header(POINTS), other).flags

    assert "(`EPSG:4326` → `[x](https://evil.example)`)" in flag.message


def test_columns_and_cells() -> None:
    review = reviewed(
        (row(1), row(1, n=7, name="Road")),
        (row(2, name=None), row(2, name="Road")),
        (row(3), None),
    )

    assert review.counts == ChangeCounts(0, 2, 1)
    assert [(c.name, c.changed, c.filled, c.emptied) for c in review.columns] == [
        ("name", 2, 1, 0),
        ("n", 1, 0, 0),
    ]
    cells = {s.key: {c.column: (c.old, c.new) for c in s.cells} for s in review.samples}
    assert cells["1"] == {"name": ("r1", "Road"), "n": ("5", "7")}
    assert review.samples[0].kind is ChangeKind.DELETE


def test_nan_and_unreadable_coordinates() -> None:
    nan = shapely.to_wkb(shapely.Point(math.nan, 1))
    review = reviewed(
        (None, row(1, shape=nan)), (row(2), row(2, shape=nan)), (None, row(3, shape=b"junk"))
    )

    assert review.counts == ChangeCounts(2, 1, 0)
    assert review.area is not None
    assert review.area.touched == Bounds(1, 1, 1, 1)
    assert json.loads(format_json_of(review), parse_constant=pytest.fail)
    assert FlagKind.INVALID_GEOMETRY in kinds(review)


def format_json_of(review: DatasetReview) -> str:
    return format_json(Review("a", "b", (review,)))


def test_unknown_crs_has_no_map_and_says_so_in_nothing() -> None:
    odd = replace(SHAPE, geometry=Geometry(Encoding.WKB, "custom:1"))
    schema = Schema((POINTS.fields[0], odd, *POINTS.fields[2:]), (1,))
    review = reviewed((row(1), row(1, 2, 2)), schema=schema)

    assert review.counts.updates == 1
    assert review.samples[0].old_geometry is None
    assert review.area is not None
    assert review.area.crs == "custom:1"


def test_no_geometry() -> None:
    schema = Schema((POINTS.fields[0], POINTS.fields[2]), (1,))
    review = reviewed(({"id": 1, "name": "a"}, {"id": 1, "name": "b"}), schema=schema)

    assert review.area is None
    assert review.counts == ChangeCounts(0, 1, 0)


def test_long_texts_are_cut() -> None:
    review = reviewed((row(1), row(1, name="x" * 1_000_000)))

    assert len(format_json_of(review)) < 20_000


def test_meta_in_words() -> None:
    side = header(POINTS)
    meta = (MetaChange("title", "Old", "New"), MetaChange("crs/EPSG:1.wkt", None, "X"))
    review = summarise(diff_of(old=side, new=side, meta=meta), MEANS)

    assert review.words == (
        "`title` was `Old` and is now `New`",
        "coordinate reference system `EPSG:1` is added",
    )


class Counter:
    """An onlooker that counts by itself."""

    def __init__(self) -> None:
        self.counts = ChangeCounts()

    def see(self, seen: BatchFindings) -> None:
        self.counts += seen.batch.counts


@examples(60)
@given(st.data(), st.booleans())
def test_counts_are_those_of_the_diff(data: st.DataObject, evolve: bool) -> None:
    old = data.draw(schemas())
    new = data.draw(evolved(old, 900)) if evolve and old.identifier_ids else old
    before, after = (data.draw(st.lists(rows_of(old), max_size=5)) for _ in range(2))
    changes = changes_between(before, after, old)
    cut = data.draw(st.integers(1, 3))
    side = header(old)
    expected = count_changes(stream_of(changes, old))
    onlooker = Counter()
    review = summarise(
        diff_of(*stream_of(changes, old, cut=cut), old=side, new=side), Means(), [onlooker]
    )

    assert review.counts == onlooker.counts == expected
    assert len(review.samples) == min(expected.total, 40)
    assert sum(s.kind is ChangeKind.INSERT for s in review.samples) <= expected.inserts
    assert (
        new is old
        or summarise(diff_of(old=header(old), new=header(new)), Means()).counts == ChangeCounts()
    )
    for column in review.columns:
        assert 0 < column.changed <= expected.updates
        assert column.filled + column.emptied <= column.changed


def test_only_the_row_that_cannot_be_read_is_invalid() -> None:
    changes: list[tuple[Any, Any]] = [(None, row(n, 1 + n / 100, 2)) for n in range(100)]
    changes[37] = (None, row(37, shape=b"junk"))
    changes[90] = (None, row(90, 21, 1))
    changes[91] = (row(91, shape=b"old junk"), row(91, shape=BOW_TIE))
    review = reviewed(*changes)

    rows = {flag.kind: (flag.count, flag.rows) for flag in review.flags}
    assert rows[FlagKind.INVALID_GEOMETRY] == (2, ("37", "91"))
    assert rows[FlagKind.FAR_FROM_THE_REST] == (1, ("90",))
    assert review.area is not None
    assert review.area.touched is not None
    assert review.area.touched.xmax == 21


def test_rows_that_have_no_place_are_told_among_those_that_have() -> None:
    def nowhere(number: int) -> dict[str, Any]:
        return {**row(number), "shape": b"no geometry"}

    found = reviewed(
        (row(1), row(1, 2, 2, n=6)),
        (nowhere(2), row(2)),
        (None, row(3)),
        (row(4), None),
        (row(5, n=None), row(5, n=7)),
    )

    samples = {each.key: each for each in found.samples}
    assert {
        key: (each.kind.value, each.old_geometry is not None, each.new_geometry is not None)
        for key, each in samples.items()
    } == {
        "1": ("update", True, True),
        "2": ("update", False, True),
        "3": ("insert", False, True),
        "4": ("delete", True, False),
        "5": ("update", True, True),
    }
    cells = {
        key: {cell.column: (cell.old, cell.new) for cell in each.cells}
        for key, each in samples.items()
    }
    assert cells["1"] == {"shape": ("POINT (1 1)", "POINT (2 2)"), "n": ("5", "6")}
    assert cells["2"] == {"shape": (UNREADABLE, "POINT (1 1)")}
    assert cells["3"]["name"] == (None, "r3") and cells["4"]["name"] == ("r4", None)
    assert cells["5"] == {"n": (None, "7")}
