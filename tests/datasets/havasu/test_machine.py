"""A Havasu dataset against a plain model: any edits, and after each every law must hold."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import HavasuError, KeyViolationError, PatchError
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.history.diff import row_changes
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import descendants
from havasu_vc.testing.dataset_contract import (
    Change,
    changes_between,
    described,
    expected_changes,
    stream_of,
)
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import (
    Row,
    canonical_row,
    evolved,
    key_of,
    key_order,
    rows_of,
    schemas,
)
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

# Thousands of small files are written; a disk would be asked to sync each.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Version:
    """A dataset and what must be in it."""

    def __init__(self, dataset: HavasuDataset, rows: list[Row]) -> None:
        self.dataset = dataset
        self.rows = rows
        self.schema = dataset.schema


def every_id(schema: Schema) -> set[int]:
    return {field.id for field in descendants(schema.fields)}


def same_rows(found: list[Row], wanted: list[Row], schema: Schema) -> bool:
    first, second = ([canonical_row(row, schema) for row in side] for side in (found, wanted))
    return sorted(first, key=repr) == sorted(second, key=repr)


def diff(old: HavasuDataset, new: HavasuDataset, engine: LocalEngine) -> list[ChangeBatch]:
    return list(row_changes(old, new, engine))


class Editing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="havasu-machine-", dir=MEMORY))
        self.stack = ExitStack()
        self.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.datasets = MemoryDatasets(self.folder)
        self.engine = self.stack.enter_context(
            LocalEngine(threads=1, scratch=self.folder / "engine")
        )
        self.versions: list[Version] = []
        self.fresh = 90

    def teardown(self) -> None:
        self.stack.close()

    @property
    def now(self) -> Version:
        return self.versions[-1]

    @initialize(
        data=st.data(),
        schema=schemas(),
        diffs=st.booleans(),
    )
    def begin(self, data: st.DataObject, schema: Schema, diffs: bool) -> None:
        self.stack.enter_context(tiny_thresholds(diffs=diffs))
        rows = self.drawn_rows(data, schema, 14)
        self.versions.append(Version(self.datasets.new(schema, rows), rows))

    def drawn_rows(self, data: st.DataObject, schema: Schema, most: int) -> list[Row]:
        unique_by = (lambda row: key_of(row, schema)) if schema.key else None
        return data.draw(st.lists(rows_of(schema), max_size=most, unique_by=unique_by))

    def drawn_edit(self, data: st.DataObject) -> list[Row]:
        """Return the rows that the table is to have next."""
        schema, rows = self.now.schema, self.now.rows
        kept = [row for row in rows if data.draw(st.integers(0, 3)) > 0]
        coming = self.drawn_rows(data, schema, 5)
        if not schema.key:
            return kept + coming
        by_key = {key_of(row, schema): row for row in kept}
        by_key |= {key_of(row, schema): row for row in coming}
        return list(by_key.values())

    def take(self, dataset: HavasuDataset, rows: list[Row]) -> None:
        self.versions.append(Version(dataset, rows))

    @rule(data=st.data(), cut=st.sampled_from([1, 2, 100]))
    def edit(self, data: st.DataObject, cut: int) -> None:
        after = self.drawn_edit(data)
        changes = changes_between(self.now.rows, after, self.now.schema)
        stream = stream_of(changes, self.now.schema, cut=cut)
        self.take(self.datasets.apply(self.now.dataset, stream), after)

    @rule(data=st.data(), edit_too=st.booleans())
    def evolve(self, data: st.DataObject, edit_too: bool) -> None:
        before = self.now
        self.fresh += 1
        schema = data.draw(evolved(before.schema, self.fresh))
        rows = [{number: row.get(number) for number in schema.by_id} for row in before.rows]
        if not edit_too or not schema.key:
            self.take(self.datasets.evolve(before.dataset, schema), rows)
            return
        # The edit comes with the new schema, so its old rows are in the old one.
        self.versions.append(Version(before.dataset, rows))
        coming = self.drawn_rows(data, schema, 4)
        self.versions.pop()
        old = {key_of(row, schema): row for row in before.rows}
        new = {key_of(row, schema): row for row in coming}
        after = {key_of(row, schema): row for row in rows} | new
        if old and data.draw(st.sampled_from([False, True])):
            after.pop(next(iter(old)), None)
        changes: list[Change] = [
            (old.get(key), after.get(key))
            for key in sorted(old.keys() | after.keys(), key=key_order)
            if key in new or key not in after
        ]
        stream = stream_of(changes, before.schema, schema, cut=3)
        self.take(self.datasets.evolve(before.dataset, schema, stream), list(after.values()))

    @rule(data=st.data())
    def compare(self, data: st.DataObject) -> None:
        chosen = st.integers(0, len(self.versions) - 1)
        first, second = data.draw(chosen), data.draw(chosen)
        old, new = self.versions[first], self.versions[second]
        # A column that comes back brings values in files that stayed; that is no change of rows.
        assume(first <= second or every_id(new.schema) <= every_id(old.schema))
        forward = diff(old.dataset, new.dataset, self.engine)
        found = described(forward, old.schema, new.schema)
        wanted = expected_changes(old.rows, new.rows, old.schema, new.schema)
        if new.schema.key:
            assert found == wanted
        else:
            assert sorted(found, key=repr) == sorted(wanted, key=repr)
        if old.schema != new.schema:
            return
        backward = diff(new.dataset, old.dataset, self.engine)
        inverted = described([batch.invert() for batch in backward], old.schema, new.schema)
        assert sorted(found, key=repr) == sorted(inverted, key=repr)
        applied = self.datasets.apply(old.dataset, forward)
        assert same_rows(rows_in(applied), new.rows, new.schema)
        assert applied.snapshot.digests == new.dataset.snapshot.digests
        assert applied.snapshot.rows == new.dataset.snapshot.rows
        assert diff(applied, new.dataset, self.engine) == []

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        old = self.versions[data.draw(st.integers(0, len(self.versions) - 1))]
        assume(old.schema == self.now.schema)
        changes = diff(self.now.dataset, old.dataset, self.engine)
        self.take(self.datasets.apply(self.now.dataset, changes), old.rows)

    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        schema = self.now.schema
        bad, kind = self.bad_changes(data)
        before = set(self.datasets.storage.staging.iter())
        with pytest.raises(kind):
            self.datasets.apply(self.now.dataset, stream_of(bad, schema, cut=2))
        assert set(self.datasets.storage.staging.iter()) == before
        assert not list(self.datasets.storage.staging.scratch.glob("*"))

    def bad_changes(self, data: st.DataObject) -> tuple[list[Change], type[HavasuError]]:
        schema, rows = self.now.schema, self.now.rows
        live = {key_of(row, schema) for row in rows}
        fresh = data.draw(rows_of(schema))
        what = data.draw(st.sampled_from(["missing", "duplicate", "other old", "twice"]))
        if what == "missing":
            assume(key_of(fresh, schema) not in live)
            return [(fresh, None)], PatchError
        assume(schema.key)
        if what == "twice":
            assume(key_of(fresh, schema) not in live)
            others = [
                row for row in self.drawn_rows(data, schema, 3) if key_of(row, schema) not in live
            ]
            changes: list[Change] = [(None, row) for row in [fresh, fresh, *others]]
            changes.sort(key=lambda change: key_order(key_of(change[1], schema)))  # type: ignore[arg-type]
            return changes, KeyViolationError
        assume(rows)
        there = data.draw(st.sampled_from(rows))
        if what == "duplicate":
            return [(None, there)], PatchError
        wrong = {**fresh, **{field.id: there[field.id] for field in schema.key.fields}}
        assume(canonical_row(wrong, schema) != canonical_row(there, schema))
        return [(wrong, None)], PatchError

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        from havasu_vc.datasets.protocol import Predicate
        from havasu_vc.testing.memory import run_all

        schema = self.now.schema
        assume(schema.key)
        fresh = data.draw(st.lists(rows_of(schema), max_size=3))
        wanted = {key_of(row, schema) for row in [*fresh, *self.now.rows[:2]]}
        found: list[Any] = []
        for batch in run_all(self.now.dataset.scan(where=Predicate(keys=tuple(wanted)))):
            found += [tuple(row[name] for name in schema.key.names) for row in batch.to_pylist()]
        live = {key_of(row, schema) for row in self.now.rows}
        assert sorted(found, key=repr) == sorted(wanted & live, key=repr)

    @precondition(lambda self: self.versions)
    @invariant()
    def holds_the_rows(self) -> None:
        dataset = self.now.dataset
        assert same_rows(rows_in(dataset), self.now.rows, self.now.schema)
        assert dataset.rows == len(self.now.rows)
        assert recomputed_digests(dataset) == dataset.snapshot.digests
        dataset.check_guard()

    @precondition(lambda self: self.versions)
    @invariant()
    def entries_agree(self) -> None:
        dataset = self.now.dataset
        live = {entry.file for entry in dataset.data_entries}
        for entry in dataset.entries.values():
            if entry.content is Content.DELETES:
                assert entry.targets
                assert set(entry.targets) <= live
            assert dataset.folder.read(entry.pointer_path) is not None
            assert dataset.past_schema(entry.schema)
        assert dataset.snapshot.deleted_rows == sum(
            sum(entry.targets.values()) for entry in dataset.entries.values()
        )
        assert dataset.snapshot.size == sum(entry.size for entry in dataset.entries.values())


TestEditing = Editing.TestCase
TestEditing.settings = examples(
    60,
    stateful_step_count=12,
    report_multiple_bugs=False,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
