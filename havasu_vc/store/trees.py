"""git trees: reading them, walking the difference of two, finding datasets in one.

A walk never reads two equal subtrees, so its cost follows what differs. Names are
UTF-8; other bytes survive as surrogates. Trees from strangers are bounded in depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, Protocol, TypeAlias

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.names import DATASET_MARKERS, unsafe_reason
from havasu_vc.records import dataclass
from havasu_vc.store.flat_trees import FlatTree, flat_pairs
from havasu_vc.store.objects import (
    EMPTY_TREE,
    Before,
    ObjectId,
    ObjectKind,
    ObjectSource,
    read_object,
)

__all__ = [
    "BLOB",
    "TREE",
    "Change",
    "DatasetFolder",
    "Existing",
    "ObjectSink",
    "TreeChange",
    "TreeEntry",
    "blobs_below",
    "changed_tree",
    "edit_tree",
    "entries",
    "entry_pairs",
    "find_datasets",
    "find_entry",
    "find_ids",
    "format_tree",
    "parse_named",
    "parse_tree",
    "read_blob",
    "read_entries",
    "read_named",
    "tree_difference",
]


TREE = b"40000"
"""The mode of a folder."""
BLOB = b"100644"
"""The mode of an ordinary file."""

DEEPEST = 256
"""Folders within folders beyond this are refused."""
MOST_DATASETS = 20_000
MOST_FILES = 10_000_000
"""Below one folder: one tree may stand in itself a thousand times over."""
"""Datasets in one tree beyond this are refused."""

_MOST_FLAT = 2048
_flat: dict[ObjectId, FlatTree] = {}
"""Trees that were read last: a commit looks up what it changes, then changes it."""
_ENTRY = re.compile(rb"([0-7]{5,6}) ([^/\x00]+)\x00(.{20})", re.DOTALL)
_WHOLE_ENTRY = re.compile(rb"[0-7]{5,6} [^/\x00]+\x00.{20}", re.DOTALL)


Leaf: TypeAlias = tuple[bytes, bytes]
"""Mode and raw id."""
Named: TypeAlias = FlatTree | dict[bytes, Leaf]
"""The entries of a tree, by name."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a tree."""

    name: str
    """The last part of its path."""
    id: ObjectId
    """The object that it names."""
    mode: bytes
    """git's mode: `TREE`, `BLOB`, or that of an executable, a link or a submodule."""

    @property
    def is_tree(self) -> bool:
        """Return whether this is a folder."""
        return self.mode == TREE


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One file that differs between two trees. Where only its mode does, the ids are equal."""

    path: str
    """Where it is."""
    old: ObjectId | None
    """Its blob in the first tree."""
    new: ObjectId | None
    """Its blob in the second tree."""


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """A folder of a tree that is a dataset."""

    path: str
    """Where it is."""
    marker: str
    """The name of the folder of internals, which tells the kind of dataset."""
    tree: ObjectId
    """The dataset's folder."""
    internals: ObjectId
    """The folder of internals."""


def parse_tree(data: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return (mode, name, raw id) of each entry; raise ValueError for other bytes."""
    found: list[tuple[bytes, bytes, bytes]] = _ENTRY.findall(data)
    # Every byte must have been part of an entry.
    if len(b"".join(chain.from_iterable(found))) + 2 * len(found) != len(data):
        raise ValueError("it is not a list of entries")
    return found


def format_tree(items: dict[bytes, tuple[bytes, bytes]]) -> bytes:
    """Return the bytes of a tree of {name: (mode, raw id)}, in git's order."""
    if TREE in {mode for mode, _ in items.values()}:
        names = sorted(items, key=lambda name: _order(items[name][0], name))
    else:
        names = sorted(items)
    return b"".join([b"%s %s\0%s" % (items[name][0], name, items[name][1]) for name in names])


def read_entries(source: ObjectSource, tree: ObjectId) -> list[tuple[bytes, bytes, bytes]]:
    """Return the raw entries of a tree."""
    if tree == EMPTY_TREE:
        return []
    return _parsed(read_object(source, tree, "tree"), tree)


def read_named(source: ObjectSource, tree: ObjectId) -> Named:
    """Return mode and raw id of what is in a tree, by its name."""
    if tree == EMPTY_TREE:
        return {}
    if (known := _flat.get(tree)) is not None:
        return known
    named = parse_named(tree, read_object(source, tree, "tree"))
    if isinstance(named, FlatTree):
        if len(_flat) >= _MOST_FLAT:
            _flat.clear()
        _flat[tree] = named
    return named


def parse_named(tree: ObjectId, data: bytes) -> Named:
    """Return what is in a tree of some bytes, by its name."""
    flat = FlatTree.read(data)
    if flat is None:
        return {name: (mode, identity) for mode, name, identity in _parsed(data, tree)}
    return flat


def changed_tree(there: Named, changes: Mapping[bytes, Leaf | None]) -> bytes:
    """Return the bytes of a tree that has other entries, and lacks those that become None."""
    data = there.edited(changes) if isinstance(there, FlatTree) else None
    if data is not None:
        return data
    items = {**(there.items() if isinstance(there, FlatTree) else there), **changes}
    return format_tree({name: leaf for name, leaf in items.items() if leaf is not None})


def _parsed(data: bytes, tree: ObjectId) -> list[tuple[bytes, bytes, bytes]]:
    try:
        return parse_tree(data)
    except ValueError as error:
        raise CorruptDatasetError(f"git object {tree}", f"as a tree, {error}") from error


def find_ids(source: ObjectSource, tree: ObjectId, paths: Iterable[str]) -> dict[str, ObjectId]:
    """Return the ids of what is at some paths below a tree, each folder read once."""
    inside: dict[str, list[str]] = {}
    for path in paths:
        first, _, rest = path.partition("/")
        inside.setdefault(first, []).append(rest)
    found: dict[str, ObjectId] = {}
    there = read_named(source, tree)
    for name, rests in inside.items():
        entry = there.get(_raw(name))
        if entry is None:
            continue
        if "" in rests:
            found[name] = entry[1].hex()
        below = [rest for rest in rests if rest]
        if below and entry[0] == TREE:
            deeper = find_ids(source, entry[1].hex(), below)
            found.update((f"{name}/{rest}", identity) for rest, identity in deeper.items())
    return found


def entries(source: ObjectSource, tree: ObjectId) -> list[TreeEntry]:
    """Return what a tree holds, in git's order."""
    return [TreeEntry(_text(n), i.hex(), m) for m, n, i in read_entries(source, tree)]


def find_entry(source: ObjectSource, tree: ObjectId, path: str) -> TreeEntry | None:
    """Return what is at `path` below a tree, or None. An empty path is the tree itself."""
    found = TreeEntry("", tree, TREE)
    for part in path.split("/") if path else ():
        if not found.is_tree:
            return None
        wanted = _raw(part)
        for mode, name, identity in read_entries(source, found.id):
            if name == wanted:
                found = TreeEntry(part, identity.hex(), mode)
                break
        else:
            return None
    return found


def read_blob(source: ObjectSource, tree: ObjectId, path: str) -> bytes | None:
    """Return the bytes of the file at `path` below a tree, or None."""
    found = find_entry(source, tree, path)
    if found is None or not found.mode.startswith(b"100"):
        return None
    return read_object(source, found.id, "blob")


def blobs_below(
    source: ObjectSource, tree: ObjectId, path: str = ""
) -> Iterator[tuple[str, ObjectId]]:
    """Yield path and id of every file below a folder, in git's order."""
    folder = find_entry(source, tree, path)
    if folder is None or not folder.is_tree:
        return
    count = 0
    for found in _ids_below(source, folder.id):
        count += len(found)
        if count > MOST_FILES:
            raise CorruptDatasetError(path or "a tree", f"it has over {MOST_FILES:,} files")
        yield from found


def _ids_below(source: ObjectSource, tree: ObjectId) -> Iterator[list[tuple[str, ObjectId]]]:
    """Yield path and id of every file below a tree, a folder's at a time, in git's order."""
    waiting: list[tuple[str, ObjectId, int] | list[tuple[str, ObjectId]]] = [("", tree, 1)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            yield item
            continue
        prefix, identity, depth = item
        _check_depth(identity, depth)
        data = b"" if identity == EMPTY_TREE else read_object(source, identity, "tree")
        if (flat := FlatTree.read(data)) is not None and flat.of_files:
            yield [(prefix + name, blob) for name, blob in flat.texts()]
            continue
        found: list[tuple[str, ObjectId, int] | list[tuple[str, ObjectId]]] = []
        files: list[tuple[str, ObjectId]] = []
        for key, leaf in _leaves(data, identity):
            name = prefix + _text(key)
            if leaf[0] != TREE:
                files.append((name, leaf[1].hex()))
                continue
            found += [files, (name, leaf[1].hex(), depth + 1)]
            files = []
        waiting += reversed([*found, files])


def _leaves(data: bytes, tree: ObjectId) -> Iterator[tuple[bytes, Leaf]]:
    """Yield what stands in a tree; the names of folders end with a slash."""
    try:
        pairs = entry_pairs(b"", data)
    except ValueError:
        _parsed(data, tree)  # which says what is wrong
        raise
    for key, (_, leaf) in pairs:
        if leaf is not None:
            yield key, leaf


def tree_difference(
    source: ObjectSource, old: ObjectId, new: ObjectId, *, outside: Container[bytes] = ()
) -> Iterator[TreeChange]:
    """Yield each file that differs between two trees, in git's order.

    Only folders that differ are read, and none whose name is among `outside`. What was a
    file and became a folder is one file that went and others that came.
    """
    for name, before, after in _differing(source, old, new, outside):
        yield TreeChange(
            _text(name),
            None if before is None else before[1].hex(),
            None if after is None else after[1].hex(),
        )


def find_datasets(
    source: ObjectSource,
    tree: ObjectId,
    passed_over: Callable[[DatasetFolder, str], None] | None = None,
) -> tuple[DatasetFolder, ...]:
    """Return the datasets in a tree, by path. They do not nest, so none is looked into.

    One at a path that could do harm is passed over, so that it keeps nobody from the others;
    `passed_over` hears of it and why. Remembered by tree id, so asking again after a change
    reads what changed.
    """
    found = []
    for folder in sorted(_datasets_below(source, tree, 0), key=lambda folder: folder.path):
        reason = unsafe_reason(folder.path)
        if reason is None:
            found.append(folder)
        elif passed_over is not None:
            passed_over(folder, reason)
    return tuple(found)


# Paths are relative to the tree, so an entry is right wherever the tree stands.
_remembered: dict[ObjectId, tuple[DatasetFolder, ...]] = {}
_REMEMBERED_TREES = 100_000


def _datasets_below(source: ObjectSource, tree: ObjectId, depth: int) -> tuple[DatasetFolder, ...]:
    """Return the datasets in a tree, with paths relative to it."""
    if (known := _remembered.get(tree)) is not None:
        return known
    _check_depth(tree, depth)
    folders = {n: i for m, n, i in read_entries(source, tree) if m == TREE}
    found: list[DatasetFolder] = []
    for marker in DATASET_MARKERS if depth else ():
        if internals := folders.get(marker.encode()):
            found.append(DatasetFolder("", marker, tree, internals.hex()))
            break
    else:
        for raw, identity in folders.items():
            below = _datasets_below(source, identity.hex(), depth + 1)
            found += [_moved(folder, _text(raw)) for folder in below]
            if len(found) > MOST_DATASETS:
                reason = f"it has over {MOST_DATASETS} datasets"
                raise CorruptDatasetError(f"git object {tree}", reason)
    # The root is no dataset even if it holds a marker, so what was found there depends on depth.
    if depth and len(_remembered) < _REMEMBERED_TREES:
        _remembered[tree] = tuple(found)
    return tuple(found)


def _moved(folder: DatasetFolder, parent: str) -> DatasetFolder:
    path = f"{parent}/{folder.path}" if folder.path else parent
    return DatasetFolder(path, folder.marker, folder.tree, folder.internals)


def _differing(
    source: ObjectSource, old: ObjectId, new: ObjectId, outside: Container[bytes] = ()
) -> Iterator[tuple[bytes, Leaf | None, Leaf | None]]:
    """Yield raw path and both leaves of what differs, walking with a stack of our own."""
    stack = [iter(_level(source, b"", (TREE, bytes.fromhex(old)), (TREE, bytes.fromhex(new))))]
    while stack:
        for each in stack[-1]:
            path, before, after = each
            folder_before = before is not None and before[0] == TREE
            if not folder_before and (after is None or after[0] != TREE):
                yield each
                continue
            if path.rpartition(b"/")[2] in outside:
                continue
            # Those of one name are a folder and a file at most, or two folders.
            stack.append(iter(_level(source, path + b"/", before, after)))
            _check_depth(new, len(stack))
            break
        else:
            stack.pop()


def _level(
    source: ObjectSource, prefix: bytes, old: Leaf | None, new: Leaf | None
) -> list[tuple[bytes, Leaf | None, Leaf | None]]:
    """Return the entries that differ between two folders, files and folders apart."""
    if old == new:
        return []
    sides = []
    for leaf in (old, new):
        tree = EMPTY_TREE if leaf is None else leaf[1].hex()
        sides.append(b"" if tree == EMPTY_TREE else read_object(source, tree, "tree"))
    try:
        pairs = entry_pairs(sides[0], sides[1])
    except ValueError:
        for leaf, data in zip((old, new), sides, strict=True):
            _parsed(data, "" if leaf is None else leaf[1].hex())  # which says what is wrong
        raise
    return [(prefix + key.removesuffix(b"/"), pair[0], pair[1]) for key, pair in pairs]


def entry_pairs(old: bytes, new: bytes) -> list[tuple[bytes, list[Leaf | None]]]:
    """Return the entries that differ between two trees: name and both leaves, in git's order.

    The name of a folder ends with a slash, so a file and a folder of one name never pair.
    ValueError for bytes that are no tree.
    """
    if (flat := flat_pairs(old, new)) is not None:
        return flat
    before, after = _raw_entries(old), _raw_entries(new)
    pairs: dict[bytes, list[Leaf | None]] = {}
    for side, found in enumerate((before - after, after - before)):
        for mode, name, identity in parse_tree(b"".join(found)):
            pairs.setdefault(_order(mode, name), [None, None])[side] = (mode, identity)
    return sorted(pairs.items())


def _raw_entries(data: bytes) -> set[bytes]:
    """Return the entries of a tree as they stand in it; most are compared and never parsed."""
    found = _WHOLE_ENTRY.findall(data)
    if sum(map(len, found)) != len(data):
        raise ValueError("it is not a list of entries")
    return set(found)


def _check_depth(tree: ObjectId, depth: int) -> None:
    if depth > DEEPEST:
        raise CorruptDatasetError(
            f"git object {tree}", f"its folders are nested more than {DEEPEST} deep"
        )


def _order(mode: bytes, name: bytes) -> bytes:
    # git sorts folders as if their names ended with a slash.
    return name + b"/" if mode == TREE else name


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


# Changing a tree: new bytes by path in, a new root tree out.
#
# Only the trees along changed paths are written, bottom up; a folder that is left empty
# goes. The same edit of the same tree gives the same id as git's own index would.


class ObjectSink(ObjectSource, Protocol):
    """Something that objects are written to and read back from."""

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in and return its id; `before` is the tree that a tree replaces."""

    def write_blobs(self, blobs: Sequence[bytes]) -> list[bytes]:
        """Take many blobs in and return their raw ids."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A blob or a whole folder that is already stored or in the same writer."""

    id: ObjectId
    """The object."""
    kind: Literal["blob", "tree"] = "blob"
    """Its kind."""
    mode: bytes = BLOB
    """A blob's mode: an ordinary file, an executable or a link."""


Change: TypeAlias = bytes | Existing | None
"""The new state of a path: these bytes, this object, or nothing."""


class _Node:
    """The change of one folder: of itself (`own`), and below it by name."""

    __slots__ = ("below", "changed", "own")

    def __init__(self) -> None:
        self.changed = False
        self.own: Change = None
        self.below: dict[bytes, _Node] = {}


def edit_tree(sink: ObjectSink, base: ObjectId | None, changes: Mapping[str, Change]) -> ObjectId:
    """Return the id of the tree that `base` becomes by `changes`, written to `sink`.

    None removes a file or a whole folder; removing what is not there is no error. Where
    a folder and paths below it are given, the folder comes first: None or a tree replaces
    what it held, then the paths below change that.
    """
    nodes = {"": _Node()}
    for path, change in changes.items():
        node = _node(nodes, path)
        node.changed, node.own = True, change
    root = nodes[""]
    edited = _edited(sink, (TREE, bytes.fromhex(base or EMPTY_TREE)), root, "", {})
    if edited is None:
        return sink.write("tree", b"")
    return edited[1].hex()


def _node(nodes: dict[str, _Node], path: str) -> _Node:
    """Return what is to happen at a path; `nodes` has the folders that were seen."""
    folder, _, name = path.rpartition("/")
    if name in ("", ".", "..") or "\0" in name or path.startswith("/"):
        raise CorruptDatasetError(path, "no tree can have such a path")
    above = nodes.get(folder)
    if above is None:
        above = nodes[folder] = _node(nodes, folder)
    key = name.encode("utf-8", "surrogateescape")
    found = above.below.get(key)
    if found is None:
        found = above.below[key] = _Node()
    return found


def _edited(
    sink: ObjectSink,
    old: tuple[bytes, bytes] | None,
    node: _Node,
    path: str,
    written: dict[bytes, tuple[bytes, bytes]],
) -> tuple[bytes, bytes] | None:
    """Return mode and raw id of what stands at one path after the edit.

    `written` has those of blobs so far: all markers of a delta are one.
    """
    if node.changed:
        old = _own(sink, node.own, written)
        if old is not None and old[0] != TREE and node.below:
            raise ValueError(f"{path!r} cannot be a file and have paths below it")
    if not node.below:
        return old
    before_id = old[1].hex() if old is not None and old[0] == TREE else None
    there = {} if before_id is None else read_named(sink, before_id)
    changes: dict[bytes, tuple[bytes, bytes] | None] = {}
    for name, below in node.below.items():
        before = there.get(name)
        if below.below:
            inside = f"{path}/{name.decode(errors='replace')}"
            edited = _edited(sink, before, below, inside, written)
        else:
            edited = _own(sink, below.own, written)
        if edited != before:
            changes[name] = edited
    if not changes:
        return old  # also a file, below which nothing can be removed
    data = changed_tree(there, changes)
    if not data:
        return None
    known = there.data if isinstance(there, FlatTree) else None
    replaced = None if before_id is None else (before_id, known)
    return TREE, bytes.fromhex(sink.write("tree", data, before=replaced))


def _own(
    sink: ObjectSink, change: Change, written: dict[bytes, tuple[bytes, bytes]]
) -> tuple[bytes, bytes] | None:
    """Return mode and raw id of what a change puts at its path."""
    match change:
        case None:
            return None
        case Existing(id=identity, kind=kind, mode=mode):
            return TREE if kind == "tree" else mode, bytes.fromhex(identity)
        case data:
            known = written.get(data)
            if known is None:
                known = written[data] = (BLOB, bytes.fromhex(sink.write("blob", data)))
            return known
