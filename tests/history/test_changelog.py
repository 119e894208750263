"""A changelog of what a commit did, row by row, against what was done."""

from pathlib import Path

import pyarrow as pa

from havasu_vc.history.changelog import changelog, rows_as
from havasu_vc.history.diff import row_changes
from tests.repo.points import make


def test_each_row_says_what_became_of_it(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {number: (f"n{number}", number) for number in range(6)})
    names = pa.table({"id": pa.array([0, 3, 9], pa.int64()), "name": ["zero", "three", "new"]})
    repo.write("points", names)
    repo.write("points", pa.table({"id": pa.array([1, 4], pa.int64())}), mode="delete")
    old, new = repo.dataset("points", "HEAD~2"), repo.dataset("points")
    found = []
    with repo.opened.settings.open_engine(0) as engine:
        for batch in row_changes(old, new, engine):
            sides = (
                rows_as(batch.old, old.schema, new.schema),
                rows_as(batch.new, new.schema, new.schema),
            )
            kinds, rows = changelog(batch, *sides)
            found += [
                (kind, row["id"], row["name"])
                for kind, row in zip(kinds.to_pylist(), rows.to_pylist(), strict=True)
            ]
    assert found == [
        ("UPDATE_BEFORE", 0, "n0"),
        ("UPDATE_AFTER", 0, "zero"),
        ("DELETE", 1, "n1"),
        ("UPDATE_BEFORE", 3, "n3"),
        ("UPDATE_AFTER", 3, "three"),
        ("DELETE", 4, "n4"),
        ("INSERT", 9, "new"),
    ]
