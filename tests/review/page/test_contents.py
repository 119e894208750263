"""What is on the page is what is in the diff: read back without a browser."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.sketching import UNREADABLE, geometry_labels
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.review.page import PageLimits
from havasu_vc.review.page.cells import LONGEST, sound_wkb
from havasu_vc.review.page.packing import Packer, text_parts
from havasu_vc.writers.rows import nonempty
from havasu_vc.writers.values import equal_cells, key_labels, side_columns, spelled
from tests.review.page.pages import ReadPage, many, written
from tests.support.examples import examples
from tests.writers.cases import CASES, FID, NAME, batch, diff_of, header
from tests.writers.strategies import diff_parts

SIZE = 1_000_000


def expected(batches: list[ChangeBatch], schema: Schema) -> list[dict[str, object]]:
    """Return what a page should hold, row by row."""
    found = []
    for each in batches:
        sides = [side_columns(side, schema) for side in (each.old, each.new)]
        for row in range(len(each)):
            here = [bool(side.is_valid()[row].as_py()) for side in (each.old, each.new)]
            kind = "update" if all(here) else "insert" if here[1] else "delete"
            cells: list[dict[str, str | None]] = [{}, {}]
            for old, new in zip(*sides, strict=True):
                field = old[0]
                columns = [column.slice(row, 1) for _, column in (old, new)]
                if (
                    kind == "update"
                    and equal_cells((field, columns[0]), (field, columns[1]))[0].as_py()
                ):
                    continue
                for part, column in enumerate(columns):
                    text = (
                        geometry_labels(sound_wkb(column, field))
                        if field.geometry is not None
                        else spelled(column, field)
                    )[0].as_py()
                    if text is None and column[0].is_valid:
                        text = UNREADABLE
                    if here[part] and (kind == "update" or text is not None):
                        cells[part][field.name] = text
            side = each.new if here[1] else each.old
            key = key_labels(side, schema)[row].as_py()
            found.append({"kind": kind, "key": key, "old": cells[0], "new": cells[1]})
    return found


@examples(40)
@given(diff_parts())
def test_the_page_holds_the_changes(parts: tuple[Schema, list[ChangeBatch]]) -> None:
    schema, batches = parts
    side = header(schema)
    page = ReadPage.of(written([diff_of(*batches, old=side, new=side)]))
    rows = page.rows()

    assert rows == expected([each for each in batches if len(each)], schema)
    review = page.manifest["review"]["datasets"][0]
    kinds = [row["kind"] for row in rows]
    assert list(review["counts"].values()) == [
        kinds.count(kind) for kind in ("insert", "update", "delete")
    ]


@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_the_diff(case: str) -> None:
    counts = [sum(each.counts.total for each in nonempty(diff)) for diff in CASES[case]()]
    page = ReadPage.of(written(CASES[case]()))

    assert [each["total"] for each in page.manifest["datasets"]] == counts
    assert [len(page.rows(number)) for number in range(len(counts))] == counts


def test_ten_thousand_points_are_less_than_a_megabyte() -> None:
    page = written([many(10_000)])

    assert len(page.encode()) <= SIZE
    assert len(ReadPage.of(page).rows()) == 10_000


def test_a_page_that_is_full_still_counts_all_and_shows_what_is_odd() -> None:
    diff = many(5000, batches=5)
    page = ReadPage.of(written([diff], limits=PageLimits(rows=700, odd_rows=3)))
    dataset = page.manifest["datasets"][0]
    flags = page.numbers(dataset["flags"])

    assert dataset["total"] == 5000
    assert 700 <= dataset["count"] <= 703
    assert (flags[700:] != 0).all()
    assert page.manifest["review"]["datasets"][0]["counts"] == {
        "inserts": 500,
        "updates": 4000,
        "deletes": 500,
    }


@pytest.mark.thorough
def test_a_page_ends_when_its_bytes_are_used_up() -> None:
    page = ReadPage.of(written([many(40_000, batches=8)], limits=PageLimits(size=1_000_000)))

    assert 0 < page.manifest["datasets"][0]["count"] < 20_000


def test_long_texts_are_cut_around_what_differs() -> None:
    schema = Schema((FID, NAME), (1,))
    side = header(schema)
    start = "x" * 100_000
    change = ({"fid": 1, "name": start + "old"}, {"fid": 1, "name": start + "new" + start})
    (row,) = ReadPage.of(
        written([diff_of(batch(schema, schema, change), old=side, new=side)])
    ).rows()

    old, new = row["old"]["name"], row["new"]["name"]
    assert old.endswith("xold")
    assert "xnewx" in new
    assert max(len(old), len(new)) <= LONGEST + 2


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_differences_come_back(values: list[int]) -> None:
    packer = Packer()
    part = packer.differences(np.array(values, np.int64))
    page = ReadPage.of(f'<script type="a" id="manifest">{{}}</script>{_data(packer)}')

    assert page.differences(list(part)) == values


@given(st.lists(st.text()))
def test_texts_come_back(values: list[str]) -> None:
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    packer = Packer()
    content, lengths = text_parts(pa.array(encoded, pa.binary()))
    parts = packer.numbers(lengths), packer.text([content])
    page = ReadPage.of(f'<script type="a" id="manifest">{{}}</script>{_data(packer)}')

    found = page.texts(list(parts[0]), list(parts[1]))
    assert found == [each.decode("utf-8", "replace") for each in encoded]


def test_bytes_that_are_not_text_are_replaced_in_their_own_value() -> None:
    # Together these would be sound.
    content, lengths = text_parts(pa.array([b"a\xc3", b"\xa9b"], pa.binary()))

    assert content.decode() == "a\ufffd\ufffdb"
    assert lengths.tolist() == [2, 2]


def _data(packer: Packer) -> str:
    return f'<script type="b" id="data">{packer.finish()}</script>'
