"""Datasets with a past: random rows, edits, and schemas that follow one another."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.model.evolution import with_stored_names
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row, evolved, key_of, rows_of, schemas


@dataclass(frozen=True, slots=True)
class Version:
    dataset: HavasuDataset
    rows: list[Row]


class Past:
    """A dataset that is edited and evolved, step by step."""

    def __init__(self, datasets: MemoryDatasets, data: st.DataObject) -> None:
        self.datasets = datasets
        self.data = data
        self.fresh = 90
        schema = data.draw(schemas(keyed=True))
        rows = self._rows(schema, 14)
        self.versions = [Version(datasets.new(schema, rows), rows)]

    @property
    def now(self) -> Version:
        return self.versions[-1]

    def step(self) -> None:
        """Take one random step: an edit, another schema, or names that change hands."""
        what = self.data.draw(st.sampled_from(["edit", "edit", "evolve", "swap", "reuse"]))
        schema = self.now.dataset.schema
        self.fresh += 1
        match what:
            case "edit":
                self._edit()
            case "evolve":
                self._evolve(self.data.draw(evolved(schema, self.fresh)))
            case "swap":
                self._evolve(swapped(schema))
            case _:
                self._evolve(reused(schema, self.fresh))

    def _rows(self, schema: Schema, most: int) -> list[Row]:
        rows = st.lists(rows_of(schema), max_size=most, unique_by=lambda row: key_of(row, schema))
        return self.data.draw(rows)

    def _edit(self) -> None:
        schema, rows = self.now.dataset.schema, self.now.rows
        kept = [row for row in rows if self.data.draw(st.integers(0, 3)) > 0]
        by_key = {key_of(row, schema): row for row in [*kept, *self._rows(schema, 5)]}
        after = list(by_key.values())
        stream = stream_of(changes_between(rows, after, schema), schema, cut=3)
        self.versions.append(Version(self.datasets.apply(self.now.dataset, stream), after))

    def _evolve(self, schema: Schema) -> None:
        rows = [{number: row.get(number) for number in schema.by_id} for row in self.now.rows]
        self.versions.append(Version(self.datasets.evolve(self.now.dataset, schema), rows))


def swapped(schema: Schema) -> Schema:
    """Return a schema in which two columns have each other's name."""
    if len(schema.fields) < 2:
        return schema
    first, second, *rest = schema.fields
    names = (_renamed(first, second.name), _renamed(second, first.name))
    return Schema((*names, *rest), schema.identifier_ids)


def reused(schema: Schema, fresh: int) -> Schema:
    """Return a schema in which a new column has the name of one that is called otherwise now."""
    last = schema.fields[-1]
    fields = (*schema.fields[:-1], _renamed(last, f"was {fresh}"))
    added = Field(fresh, last.name, Primitive.STRING)
    return with_stored_names(Schema((*fields, added), schema.identifier_ids))


def _renamed(field: Field, name: str) -> Field:
    stored = field.stored_name
    return replace(field, name=name, physical_name=None if stored == name else stored)
