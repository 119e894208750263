"""Whatever a table had and whatever is wanted: just that lives, and what can stays."""

from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.workspace.snapshots import DATA_SEQUENCE, MANY, Read, plan_manifests

NEW = 77
NUMBER = 9


def data(number: int) -> DataFile:
    return DataFile(f"/t/data/{number}.parquet", 10, 100)


def deletes(number: int) -> DataFile:
    return DataFile(
        f"/t/data/{number}-deletes.parquet", 1, 10, content=DataFileContent.POSITION_DELETES
    )


@st.composite
def manifests(draw: st.DrawFn) -> list[Read]:
    """Manifests of ours and of others, each file in one of them."""
    numbers = draw(st.lists(st.integers(0, 30), unique=True))
    found: list[Read] = []
    while numbers:
        count = draw(st.integers(1, 4))
        chosen, numbers = numbers[:count], numbers[count:]
        is_data = draw(st.booleans())
        ours = draw(st.booleans())
        entries = [
            ManifestEntry(
                draw(st.sampled_from([Status.ADDED, Status.EXISTING, Status.DELETED])),
                data(number) if is_data else deletes(number),
                5,
                DATA_SEQUENCE if is_data else 4,
                4,
            )
            for number in chosen
        ]
        name = f"{len(found):032x}-m.avro" if ours else f"{len(found)}-m0.avro"
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        found.append((ManifestFile(f"/t/metadata/{name}", 1, 0, content), entries))
    return found


@given(manifests(), st.sets(st.integers(0, 40)), st.booleans())
def test_just_the_wanted_files_live(old: list[Read], numbers: set[int], complete: bool) -> None:
    known = {entry.file.path: entry.file for _, entries in old for entry in entries}
    files = {file.path: file for file in (known.get(data(n).path, data(n)) for n in numbers)}
    files |= {path: file for path, file in known.items() if sum(path.encode()) % 2}
    plan = plan_manifests(old, dict.fromkeys(files, 0), NEW, complete=complete)
    for path in plan.wanting:
        plan.come(0, files[path], NEW, NUMBER)

    kept = {manifest.path for manifest in plan.kept}
    entries = [entry for manifest, held in old if manifest.path in kept for entry in held]
    entries += [entry for group in plan.entries.values() for entry in group]
    live = [entry for entry in entries if entry.status is not Status.DELETED]
    assert sorted(entry.file.path for entry in live) == sorted(files)
    was_live = {
        entry.file.path: entry
        for _, held in old
        for entry in held
        if entry.status is not Status.DELETED
    }
    for entry in (entry for group in plan.entries.values() for entry in group):
        before = was_live.get(entry.file.path)
        if entry.status is Status.ADDED:
            assert before is None
        elif entry.status is Status.EXISTING:
            assert before is not None
            assert entry.sequence_number == before.sequence_number
        else:
            assert entry.file.path not in files
            assert entry.snapshot_id == NEW
        if entry.status is not Status.DELETED and entry.file.content is DataFileContent.DATA:
            assert entry.sequence_number == DATA_SEQUENCE
    for (content, _), group in plan.entries.items():
        is_data = content is ManifestContent.DATA
        assert all((entry.file.content is DataFileContent.DATA) == is_data for entry in group)
    if not complete:
        assert plan.kept == []


def test_manifests_of_ours_that_keep_their_files_stay_as_they_are() -> None:
    old: list[Read] = [
        (
            ManifestFile(f"/t/metadata/{number:032x}-m.avro", 1),
            [ManifestEntry(Status.ADDED, data(number), 5, DATA_SEQUENCE, 4)],
        )
        for number in range(MANY)
    ]
    wanted = {data(number).path: 0 for number in range(MANY + 1)}
    plan = plan_manifests(old, wanted, NEW)
    assert plan.kept == [manifest for manifest, _ in old]
    assert plan.wanting == [data(MANY).path]
    assert plan.entries == {}


def test_small_manifests_are_merged_where_there_are_many() -> None:
    old: list[Read] = [
        (
            ManifestFile(f"/t/metadata/{number:032x}-m.avro", 1),
            [ManifestEntry(Status.ADDED, data(number), 5, DATA_SEQUENCE, 4)],
        )
        for number in range(MANY + 1)
    ]
    plan = plan_manifests(old, {data(number).path: 0 for number in range(MANY + 1)}, NEW)
    assert plan.kept == []
    assert {len(group) for group in plan.entries.values()} == {MANY + 1}
