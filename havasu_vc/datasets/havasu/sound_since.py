"""Whether a tree is sound, told from one that is and from what differs between both.

Whatever breaks a rule of `soundness` has a path that differs from the tree that was sound, so only
that is read: after a commit, its deltas, its markers and its pointers, however many others there
are. Where this cannot tell, all is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.standing import delta_of
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.deltas import Delta, delta_path
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.markers import Epoch, marks_of, open_epoch
from havasu_vc.records import dataclass
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.trees import tree_difference

__all__ = ["Changed", "check_deltas", "check_past", "differing_deltas", "is_sound_since"]

MOST_DIFFERENCES = 20_000
"""Where more files differ, looking at all takes no longer."""
_ALL = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class Changed:
    """A delta, or a tombstone, that came, went or became the other."""

    id: str
    """The delta's id."""
    old: Delta | str | None
    """What stood there: a delta, or the id of the one that replaced it."""
    new: Delta | str | None
    """What stands there."""
    blob: ObjectId | None
    """The document that stands there."""


def differing_deltas(new: TreeFolder, files: ObjectId, where: str) -> list[Changed]:
    """Return what differs below `files` from another tree of `files`."""
    return [
        Changed(
            name.rpartition("/")[2].removesuffix(".json"),
            None if before is None else delta_of(new, name, before, where),
            None if after is None else delta_of(new, name, after, where),
            after,
        )
        for name, before, after in _differing(new, files, "files")
    ]


def is_sound_since(old: TreeFolder, new: TreeFolder, where: str, table: str) -> bool:
    """Whether a tree is surely sound as `old` is, of the same table; False where it may be or not.

    `where` is the place of its `files`, for errors.
    """
    try:
        changed = differing_deltas(new, old.tree_id("files"), where)
        # As a rule tombstones stay for ever, and nothing else goes.
        if any(isinstance(each.old, str) or each.new is None for each in changed):
            return False
        come = [each.new for each in changed if isinstance(each.new, Delta)]
        gone = [each.old for each in changed if isinstance(each.old, Delta)]
        epoch = open_epoch(new.items(EDITS))
        check_deltas(come, epoch, table)
        for delta in come:
            check_past(delta)
        moved = sum(delta.marks for delta in come) - sum(delta.marks for delta in gone)
        return (
            _leads(new, changed, come, where)
            and _marks_moved(old, new, epoch) == moved & _ALL
            and _pointers_moved(old, new, come, gone)
        )
    except CorruptDatasetError:
        # git has dropped that tree, or something is wrong, which is told where all is looked at.
        return False


def check_deltas(deltas: Iterable[Delta], epoch: Epoch, table: str) -> None:
    """Raise unless live deltas are of a table, and those of an epoch of the one that is open."""
    for delta in deltas:
        if delta.table != table:
            raise _breach(f"the delta {delta.id[:10]} is of another table")
        if delta.epoch is not None and delta.epoch != (epoch.number, epoch.opener):
            raise _breach(f"the delta {delta.id[:10]} is of another epoch")


def check_past(delta: Delta) -> None:
    """Raise unless a delta has all that its files were written with."""
    for entry in delta.files:
        if not delta.past.keys() >= {entry.schema, entry.partition_spec, entry.sort_order}:
            raise _breach(f"what the file {entry.file[:10]} was written with is not there")


def _leads(
    new: TreeFolder, changed: Collection[Changed], come: Iterable[Delta], where: str
) -> bool:
    """Whether tombstones that came lead to what is live, and are there for what came."""
    known: dict[str, Delta | str | None] = {each.id: each.new for each in changed}

    def at(identity: str) -> Delta | str | None:
        if identity not in known:
            name = delta_path(identity).partition("/")[2]
            blob = new.ids("files", (name,)).get(name)
            known[identity] = None if blob is None else delta_of(new, name, blob, where)
        return known[identity]

    if any(at(replaced) != delta.id for delta in come for replaced in delta.replaces):
        return False
    # What one delta replaced has tombstones that are alike, so few are followed.
    for identity in {each.new for each in changed if isinstance(each.new, str)}:
        found, seen = at(identity), {identity}
        while isinstance(found, str) and found not in seen:
            seen.add(found)
            found = at(found)
        if not isinstance(found, Delta):
            return False
    return True


def _marks_moved(old: TreeFolder, new: TreeFolder, epoch: Epoch) -> int | None:
    """Return how the sum of the markers differs; None where more than markers does."""
    came: list[tuple[str, ObjectId]] = []
    went: list[tuple[str, ObjectId]] = []
    folder = f"{epoch.folder}/"
    for name, before, after in _differing(new, old.tree_id(EDITS), EDITS):
        path = f"{EDITS}/{name}"
        if not path.startswith(folder):
            return None
        if before is not None:
            went.append((path, before))
        if after is not None:
            came.append((path, after))
    return (marks_of(came) - marks_of(went)) & _ALL


def _pointers_moved(
    old: TreeFolder, new: TreeFolder, come: Iterable[Delta], gone: Iterable[Delta]
) -> bool:
    """Whether the pointers that came and went are those of the deltas that did."""
    wanted, had = _pointers(come), _pointers(gone)
    if wanted is None or had is None:
        return False
    there, left = set[str](), set[str]()
    for name, before, after in _differing(new, old.tree_id("data"), "data"):
        if before is None:
            there.add(f"data/{name}")
        if after is None:
            left.add(f"data/{name}")
    return there == wanted - had and left == had - wanted


def _pointers(deltas: Iterable[Delta]) -> set[str] | None:
    """Return the pointers of the files of some deltas; None where one stands twice or is linked."""
    entries = list(chain.from_iterable(delta.files for delta in deltas))
    found = {entry.pointer_path for entry in entries}
    linked = any(entry.location is not None for entry in entries)
    return None if linked or len(found) < len(entries) else found


def _differing(
    new: TreeFolder, before: ObjectId, name: str
) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
    """Yield path, old blob and new blob of what differs below a folder, which had another tree."""
    trees = (before or EMPTY_TREE, new.tree_id(name) or EMPTY_TREE)
    for count, change in enumerate(tree_difference(new.source, *trees)):
        if count > MOST_DIFFERENCES:
            raise _breach("so much differs that all is looked at")
        if change.old != change.new:
            yield change.path, change.old, change.new


def _breach(reason: str) -> CorruptDatasetError:
    return CorruptDatasetError("the dataset", reason)
