"""Each rule that the documents of a table keep: what breaks it is told, and all else is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc.datasets.folder import MemoryFolder, TreeFolder
from havasu_vc.datasets.havasu import soundness, standing
from havasu_vc.datasets.havasu.soundness import check_folder, check_guard, columns_in, standing_of
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    CorruptDatasetError,
    UnfinishedMergeError,
    UnsupportedVersionError,
)
from havasu_vc.formats.havasu.deltas import Delta, delta_path, format_delta, format_tombstone
from havasu_vc.formats.havasu.properties import DATASET
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store import sound
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row
from tests.repo.points import make, write

SCHEMA = Schema((Field(1, "fid", Primitive.INT, required=True), Field(2, "n", Primitive.INT)), (1,))
ROWS: list[Row] = [{1: n, 2: n} for n in range(6)]

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """Begin as a new process does."""
    soundness._sound.clear()
    soundness._unsound.clear()
    standing._read.clear()


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return MemoryDatasets(tmp_path)


@pytest.fixture
def table(datasets: MemoryDatasets) -> HavasuDataset:
    """A table after an import and two edits."""
    view = datasets.new(SCHEMA, ROWS)
    for number in (1, 2):
        after = [*ROWS[:number], {1: number, 2: 90 + number}, *ROWS[number + 1 :]]
        changes = changes_between(ROWS, after, SCHEMA)
        view = datasets.apply(view, stream_of(changes, SCHEMA))
    return view


def files(view: HavasuDataset) -> Files:
    assert isinstance(view.folder, MemoryFolder)
    return dict(view.folder.files)


def edits(view: HavasuDataset) -> list[Delta]:
    """Return the deltas of the two edits."""
    return sorted((d for d in view.deltas.values() if d.epoch is not None), key=lambda d: d.id)


def reason(found: Files) -> str | None:
    """Return what is wrong with a table of some files."""
    try:
        check_guard(MemoryFolder(found), "points", "main")
    except UnfinishedMergeError as error:
        assert (error.path, error.revision) == ("points", "main")
        return error.reason.partition(": ")[2] or error.reason
    return None


def put(found: Files, delta: Delta) -> None:
    found[delta.path] = format_delta(delta)


def other_table(view: HavasuDataset, found: Files) -> str:
    delta = edits(view)[0]
    put(found, replace(delta, table="11111111-test"))
    return f"the delta {delta.id[:10]} is of another table"


def other_epoch(view: HavasuDataset, found: Files) -> str:
    delta = edits(view)[1]
    put(found, replace(delta, epoch=(3, "")))
    return f"the delta {delta.id[:10]} is of another epoch"


def stands_again(view: HavasuDataset, found: Files) -> str:
    one, other = edits(view)
    put(found, replace(one, replaces=(other.id,), marks=0))
    return f"the delta {other.id[:10]} was replaced, and it stands there again"


def leads_nowhere(view: HavasuDataset, found: Files) -> str:
    found[delta_path("1" * 40)] = format_tombstone("2" * 40)
    return "the delta 1111111111 was replaced by one that is not there"


def leads_round(view: HavasuDataset, found: Files) -> str:
    for one, next_one in ("12", "23", "31"):
        found[delta_path(one * 40)] = format_tombstone(next_one * 40)
    return "was replaced by itself in the end"


def leads_round_at_its_end(view: HavasuDataset, found: Files) -> str:
    for one, next_one in ("12", "23", "33"):
        found[delta_path(one * 40)] = format_tombstone(next_one * 40)
    found[delta_path("4" * 40)] = format_tombstone(edits(view)[0].id)
    return "was replaced by itself in the end"


def other_sum(view: HavasuDataset, found: Files) -> str:
    delta = edits(view)[0]
    put(found, replace(delta, marks=delta.marks ^ 1))
    return "its markers are not those of its deltas"


def no_marker(view: HavasuDataset, found: Files) -> str:
    del found[next(name for name in found if name.startswith("edits/0/"))]
    return "its markers are not those of its deltas"


def no_placeholder(view: HavasuDataset, found: Files) -> str:
    del found["edits/3"]
    return "edits/3 is not what an open epoch has there"


def in_two_deltas(view: HavasuDataset, found: Files) -> str:
    one, other = edits(view)
    put(found, replace(one, files=(*one.files, other.files[0])))
    return f"the file {other.files[0].file[:10]} stands in two deltas"


def no_past(view: HavasuDataset, found: Files) -> str:
    delta = edits(view)[0]
    entry = delta.files[0]
    past = {name: text for name, text in delta.past.items() if name != entry.sort_order}
    put(found, replace(delta, past=past))
    return "was written with is not there"


def stray_pointer(view: HavasuDataset, found: Files) -> str:
    found[f"data/ab/{'ab' * 32}"] = b"x"
    return "the pointer of ababababab is of no delta"


def no_pointer(view: HavasuDataset, found: Files) -> str:
    entry = edits(view)[0].files[0]
    del found[entry.pointer_path]
    return f"the file {entry.file[:10]} has no pointer"


def no_columns(view: HavasuDataset, found: Files) -> str:
    found["columns/1.json"] = b"{"
    return "it is not a packed document"


BREAKS: list[Callable[[HavasuDataset, Files], str]] = [
    other_table,
    other_epoch,
    stands_again,
    leads_nowhere,
    leads_round,
    leads_round_at_its_end,
    other_sum,
    no_marker,
    no_placeholder,
    in_two_deltas,
    no_past,
    stray_pointer,
    no_pointer,
    no_columns,
]


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda each: each.__name__)
def test_what_breaks_a_rule_is_told(
    breaks: Callable[[HavasuDataset, Files], str], table: HavasuDataset
) -> None:
    found = files(table)
    assert reason(found) is None
    said = breaks(table, found)
    told = reason(found)
    assert told is not None
    assert said in told


def test_tombstones_lead_to_what_is_live_over_others(table: HavasuDataset) -> None:
    """Whatever leads where, in whichever order they are looked at."""
    found = files(table)
    live = edits(table)[0].id
    for one, next_one in ("12", "23", "34", "52", "63"):
        found[delta_path(one * 40)] = format_tombstone(next_one * 40)
    found[delta_path("4" * 40)] = format_tombstone(live)
    assert reason(found) is None
    alone = files(table)
    alone[delta_path("1" * 40)] = format_tombstone(live)
    assert reason(alone) is None


def test_a_delta_and_the_tombstones_of_what_it_replaced(table: HavasuDataset) -> None:
    found = files(table)
    delta = edits(table)[0]
    put(found, replace(delta, replaces=("1" * 40, "2" * 40)))
    found[delta_path("1" * 40)] = format_tombstone(delta.id)
    found[delta_path("2" * 40)] = format_tombstone(delta.id)
    assert reason(found) is None
    found[delta_path("2" * 40)] = format_tombstone(edits(table)[1].id)
    assert reason(found) == "the delta 2222222222 was replaced, and it stands there again"


def test_the_sum_of_marks_is_modulo_their_width(table: HavasuDataset) -> None:
    """Shares are of 128 bits each, and add up beyond them."""
    found = files(table)
    one, other = edits(table)
    for delta, share in ((one, (1 << 128) - 1), (other, one.marks + other.marks + 1)):
        put(found, replace(delta, marks=share % (1 << 128)))
    assert reason(found) is None


def test_a_linked_file_has_no_pointer_among_data(table: HavasuDataset) -> None:
    found = files(table)
    delta = edits(table)[0]
    entry = delta.files[0]
    del found[entry.pointer_path]
    linked = replace(entry, location="s3://bucket/a.parquet")
    put(found, replace(delta, files=(linked, *delta.files[1:])))
    assert reason(found) is None


def test_so_many_markers_are_no_tables(
    table: HavasuDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = files(table)
    count = sum(name.startswith("edits/") for name in found)
    monkeypatch.setattr(soundness, "MOST_EDITS", count - 1)
    assert reason(found) is None
    monkeypatch.setattr(soundness, "MOST_EDITS", count - 2)
    assert reason(found) == f"it has over {count - 2} markers"


def test_no_more_markers_are_read_than_a_table_may_have(
    table: HavasuDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def endless(self: MemoryFolder, path: str) -> Iterator[tuple[str, str]]:
        nonlocal read
        assert path == "edits"
        while True:
            read += 1
            yield f"{read}", "x"

    monkeypatch.setattr(soundness, "MOST_EDITS", 20)
    monkeypatch.setattr(MemoryFolder, "blobs", endless)
    with pytest.raises(CorruptDatasetError, match="over 20 markers"):
        soundness._markers(table.folder)
    assert read == 22


def test_what_is_no_dataset_of_this_format(table: HavasuDataset) -> None:
    found = files(table)
    del found[DATASET]
    with pytest.raises(UnfinishedMergeError, match=rf"it has no {DATASET}"):
        check_guard(MemoryFolder(found), "points", "main")
    found["snapshot.json"] = b"{}"
    with pytest.raises(UnsupportedVersionError, match="format 1"):
        check_guard(MemoryFolder(found), "points", "main")


# What is remembered of trees in git


def in_git(path: Path) -> tuple[HavasuDataset, Path]:
    """Return a table after an import and two edits, and its data folder."""
    rows = {number: ("x", number) for number in range(10)}
    repo = make(path, rows)
    write(repo, {**rows, 1: ("y", 1)})
    write(repo, {**rows, 1: ("y", 1), 2: ("y", 2)})
    view = repo.dataset("points", "HEAD")
    assert isinstance(view, HavasuDataset)
    return view, path / ".git" / "havasu"


def guard(view: HavasuDataset, memory: Path | None = None) -> None:
    check_guard(view.folder, "points", "HEAD", memory=memory)


def forget(memory: Path) -> None:
    """Forget all that is known, in this process and in the repository."""
    soundness._sound.clear()
    soundness._unsound.clear()
    (memory / "sound").unlink(missing_ok=True)
    sound._known.cache_clear()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was looked at: documents, and all else."""
    found: list[str] = []
    documents, check = soundness._documents, soundness._check

    def reads(*arguments: object) -> object:
        found.append("documents")
        return documents(*arguments)  # type: ignore[arg-type]

    def looks_at_all(*arguments: object) -> None:
        found.append("all")
        check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(soundness, "_documents", reads)
    monkeypatch.setattr(soundness, "_check", looks_at_all)
    return found


def test_a_sound_tree_is_looked_at_once(tmp_path: Path, looks: list[str]) -> None:
    view, memory = in_git(tmp_path / "repo")
    forget(memory)
    looks.clear()
    guard(view)
    assert looks == ["documents", "all"]
    guard(view)
    guard(view, memory)
    assert looks == ["documents", "all"]
    assert not sound.is_sound(memory, view.folder.tree)  # type: ignore[attr-defined]
    soundness._sound.clear()
    guard(view, memory)
    assert looks == ["documents", "all"] * 2
    soundness._sound.clear()
    check_folder(view.folder, "points", "HEAD", "marker", memory)
    assert looks == ["documents", "all"] * 2
    guard(view)
    assert looks == ["documents", "all"] * 3


def test_a_tree_in_memory_is_looked_at_each_time(table: HavasuDataset, looks: list[str]) -> None:
    guard(table)
    guard(table)
    assert looks == ["documents", "all"] * 2


def test_an_unsound_tree_is_looked_at_once_and_told_each_time(
    tmp_path: Path, looks: list[str]
) -> None:
    view, memory = in_git(tmp_path / "repo")
    guard(view, memory)
    broken = view.after(TreeEdit(view.path, {edits(view)[0].files[0].pointer_path: None}))
    looks.clear()
    for _ in range(2):
        for where in (None, memory):
            with pytest.raises(UnfinishedMergeError, match="has no pointer"):
                check_folder(broken.folder, "points", "HEAD", "marker", where or memory)
    assert looks == ["documents", "all"]
    assert not sound.is_sound(memory, broken.folder.tree)  # type: ignore[attr-defined]


def test_what_differs_from_the_last_sound_tree_is_enough(tmp_path: Path, looks: list[str]) -> None:
    view, memory = in_git(tmp_path / "repo")
    forget(memory)
    guard(view, memory)
    assert sound.last_sound(memory, view.folder.ids("", (DATASET,))[DATASET]) == (
        view.folder.tree  # type: ignore[attr-defined]
    )
    later = view.after(TreeEdit(view.path, {"meta/title": b"Points"}))
    looks.clear()
    guard(later)
    assert looks == ["documents", "all"], "where nothing is remembered"
    soundness._sound.clear()
    looks.clear()
    guard(later, memory)
    assert looks == ["documents"]


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many deltas, replaced ones too, were read as a whole, each time that happened."""
    found: list[int] = []
    read = standing.read_standing

    def reads(*arguments: object) -> standing.Standing:
        whole = read(*arguments)  # type: ignore[arg-type]
        found.append(len(whole.live) + len(whole.folded))
        return whole

    monkeypatch.setattr(soundness, "read_standing", reads)
    return found


def kept(memory: Path) -> int:
    """Return how many records are kept."""
    folder = memory / "standing"
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.mark.few(2)
@pytest.mark.parametrize(("more", "expected"), [(-1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("check_first", [True, False])
def test_a_record_is_kept_of_so_many_deltas(
    more: int,
    expected: int,
    check_first: bool,
    tmp_path: Path,
    records: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, memory = in_git(tmp_path / "repo")
    # Those that were replaced count as those that are live.
    away = delta_path("1" * 40)
    view = view.after(TreeEdit(view.path, {away: format_tombstone(edits(view)[0].id)}))
    assert isinstance(view.folder, TreeFolder)
    guard(view)
    forget(memory)
    assert kept(memory) == 0
    monkeypatch.setattr(soundness, "MANY", 4 + more)
    standing._read.clear()
    if check_first:
        guard(view)
        assert kept(memory) == 0, "nobody said where"
        forget(memory)
        guard(view, memory)
        assert kept(memory) == expected
    else:
        # Of a tree of which nobody knows that it is sound there is no record.
        found = standing_of(view.folder, "points", memory, *soundness._documents(view.folder, "p"))
        assert found.record is None
        assert kept(memory) == 0
        soundness._sound.add(view.folder.tree)
    standing._read.clear()
    documents = soundness._documents(view.folder, "p")
    for _ in range(2):
        found = standing_of(view.folder, "points", memory, *documents)
        assert (len(found.live), len(found.folded)) == (3, 1)
    assert kept(memory) == expected
    assert (found.record is not None) == bool(expected)
    if expected:
        # By the record, nothing is read as a whole again.
        records.clear()
        standing._read.clear()
        assert standing_of(view.folder, "points", memory, *documents).record is not None
        soundness._sound.clear()
        again = standing_of(view.folder, "points", memory, *documents)
        assert (again.record is not None) == check_first, "only of what is known to be sound"
        assert records == ([] if check_first else [4])
    else:
        # What was read a moment ago is read no more, with few deltas.
        records.clear()
        standing_of(view.folder, "points", memory, *documents)
        assert records == []


def test_the_record_of_the_next_tree_is_made_of_the_last_one(
    tmp_path: Path, records: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    view, memory = in_git(tmp_path / "repo")
    monkeypatch.setattr(soundness, "MANY", 1)
    forget(memory)
    records.clear()
    guard(view, memory)
    assert kept(memory) == 1
    assert records == [3]
    documents = soundness._documents(view.folder, "p")

    def after(blobs: dict[str, bytes | None]) -> TreeFolder:
        folder = view.after(TreeEdit(view.path, blobs)).folder
        assert isinstance(folder, TreeFolder)
        standing._read.clear()
        soundness._sound.add(folder.tree)
        records.clear()
        return folder

    # Another delta came, and a tombstone: told from what differs.
    first = edits(view)[0]
    new = replace(first, id="5" * 40, marks=0, rows=0, digests={}, files=())
    come = after({new.path: format_delta(new), delta_path("6" * 40): format_tombstone(first.id)})
    found = standing_of(come, "points", memory, *documents)
    assert found.record is not None
    assert (len(found.live), len(found.folded)) == (4, 1)
    assert records == []
    # What stands in the place of a tombstone, or a delta that went without one: all is read.
    back = after({new.path: format_delta(new), delta_path("6" * 40): _delta(new, "6" * 40)})
    found = standing_of(back, "points", memory, *documents)
    assert (len(found.live), len(found.folded), records) == (5, 0, [5])
    found = standing_of(after({first.path: None}), "points", memory, *documents)
    assert (len(found.live), len(found.folded), records) == (2, 0, [2])


def _delta(like: Delta, identity: str) -> bytes:
    return format_delta(replace(like, id=identity))


def test_a_record_of_other_columns_is_no_beginning(
    tmp_path: Path, records: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    view, memory = in_git(tmp_path / "repo")
    monkeypatch.setattr(soundness, "MANY", 1)
    forget(memory)
    guard(view, memory)
    table, schema = soundness._documents(view.folder, "p")
    folder = view.after(TreeEdit(view.path, {delta_path("6" * 40): _tombstone(view)})).folder
    assert isinstance(folder, TreeFolder)
    soundness._sound.add(folder.tree)
    standing._read.clear()
    records.clear()
    keyless = replace(schema, identifier_ids=())
    found = standing_of(folder, "points", memory, table, keyless)
    assert records == [4]
    assert len(found.live) == 3


def _tombstone(view: HavasuDataset) -> bytes:
    return format_tombstone(edits(view)[0].id)


@pytest.mark.parametrize(
    ("revision", "place"), [("main", "points/columns at main"), ("", "points")]
)
def test_columns_that_cannot_be_read_say_where(revision: str, place: str) -> None:
    folder = MemoryFolder({"columns/1.json": b"{"})
    with pytest.raises(CorruptDatasetError) as found:
        columns_in(folder, "points", revision)
    assert place in found.value.message
    assert (" at " in found.value.message) == bool(revision)
