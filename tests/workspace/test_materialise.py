"""Any dataset, any edits, any order of checkouts: the table shows what the dataset holds."""

from typing import Any

from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from havasu_vc.formats.iceberg.values import Flavour, ManifestContent, Status
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.snapshots import live_files, manifests_of, read_manifest
from havasu_vc.tables.table import read_table
from havasu_vc.testing.memory import run_all
from havasu_vc.testing.tables import Row
from havasu_vc.workspace.in_folder import FolderPlace
from havasu_vc.workspace.materialise import Checkout, materialise
from havasu_vc.workspace.state import TableState
from tests.datasets.havasu.test_machine import Editing, same_rows
from tests.support.examples import examples


class CheckingOut(Editing):
    """The same edits, and between them any version is checked out to one table."""

    def __init__(self) -> None:
        super().__init__()
        self.state: TableState | None = None
        self.location = self.folder / "table"

    @precondition(lambda self: self.versions)
    @rule(
        data=st.data(),
        flavour=st.sampled_from([Flavour.HAVASU, Flavour.HAVASU, Flavour.ICEBERG]),
        forget=st.sampled_from([False, False, True]),
        keep=st.integers(1, 4),
    )
    def check_out(self, data: st.DataObject, flavour: Flavour, forget: bool, keep: int) -> None:
        last = len(self.versions) - 1
        index = data.draw(st.sampled_from([last, last, *range(last + 1)]))
        version = self.versions[index]
        before = read_table(self.location) if self.state is not None else None
        self.state = materialise(
            version.dataset,
            FolderPlace(self.location),
            Checkout("c" * 40, f"{index:040x}", flavour, keep=keep),
            previous=None if forget else self.state,
        )
        table = read_table(self.location)
        assert table.version == self.state.version
        assert table.metadata.current_snapshot_id == self.state.snapshot_id
        assert table.metadata.schema.names == version.schema.names
        assert len(table.metadata.snapshots) <= keep + 1
        found: list[Row] = []
        ids = [field.id for field in version.schema.fields]
        for batch in run_all(scan_tasks(table)):
            columns = [column.to_pylist() for column in batch.columns]
            found += [dict(zip(ids, row, strict=True)) for row in zip(*columns, strict=True)]
        assert same_rows(found, version.rows, version.schema)
        self.check_documents(table, before)

    def check_documents(self, table: Any, before: Any) -> None:
        for live in live_files(table):
            assert live.sequence_number == 1 or not live.is_data
            assert live.sequence_number <= table.metadata.last_sequence_number
        for snapshot in table.metadata.snapshots.values():
            for manifest in manifests_of(table, snapshot):
                entries = [e for e in read_manifest(table, manifest) if e.status != Status.DELETED]
                assert manifest.sequence_number <= snapshot.sequence_number
                for entry in entries:
                    # What a snapshot names stays as long as the snapshot does.
                    assert table.places.file(entry.file.path).is_file()
                    data = entry.file.content.value == 0
                    assert data == (manifest.content is ManifestContent.DATA)
        if before is not None:
            assert table.metadata.last_column_id >= before.metadata.last_column_id
            assert table.metadata.last_sequence_number >= before.metadata.last_sequence_number


CheckingOut.TestCase.settings = examples(
    25,
    stateful_step_count=10,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
TestCheckingOut = CheckingOut.TestCase
