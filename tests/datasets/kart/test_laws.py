"""Laws of edits, for any schema and rows: an edit stores what a fresh start would, to the byte."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.formats.kart.columns import kart_schema
from havasu_vc.model.schema import Schema
from havasu_vc.testing.dataset_contract import compare
from havasu_vc.testing.memory import KartDatasets
from havasu_vc.testing.tables import Row, batch_of, key_of, rows_of, schemas
from tests.support.examples import examples


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[Row], list[Row]]:
    """Return a schema that Kart can have, and two versions of rows."""
    try:
        schema = kart_schema(draw(schemas(keyed=True)))
    except UnsupportedTypeError:
        assume(False)
        raise
    sides = []
    for _ in range(2):
        rows = draw(st.lists(rows_of(schema), max_size=5))
        found = {key_of(row, schema): row for row in rows}
        assume(all(None not in key for key in found))
        sides.append(list(found.values()))
    try:
        batch = batch_of([*sides[0], *sides[1]], schema)
    except (pa.ArrowException, OverflowError):
        assume(False)
        raise
    for column in batch.columns:
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            years = column.cast(pa.string()).drop_null().to_pylist()
            assume(all(text[:4].isdecimal() and text[4] == "-" for text in years))
    return schema, sides[0], sides[1]


@pytest.mark.parametrize("sink", [True, False])
@examples(30)
@given(table=tables())
def test_an_edit_gives_the_tree_of_a_fresh_start(
    table: tuple[Schema, list[Row], list[Row]], sink: bool
) -> None:
    schema, first, second = table
    with TemporaryDirectory() as folder:
        made = KartDatasets(Path(folder), sink=sink)
        old, new = made.new(schema, first), made.new(schema, second)
        after = made.after(old, old.apply(iter(compare(old, new))))
        assert same(after, new)
        back = [batch.invert() for batch in compare(old, new)]
        assert same(made.after(new, new.apply(iter(back))), old)
        assert compare(after, new) == []


def same(one: KartDataset, other: KartDataset) -> bool:
    return one.features == other.features and one.folder.tree == other.folder.tree
