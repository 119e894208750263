"""Changing a tree: new bytes by path in, a new root tree out.

Only the trees along changed paths are written, bottom up; a folder that is left empty
goes. The same edit of the same tree gives the same id as git's own index would.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from havasu_vc.records import dataclass
from havasu_vc.store.objects import EMPTY_TREE, ObjectId, ObjectKind, ObjectSource
from havasu_vc.store.trees import BLOB, TREE, changed_tree, read_named

__all__ = ["Change", "Existing", "ObjectSink", "edit_tree"]


class ObjectSink(ObjectSource, Protocol):
    """Something that objects are written to and read back from."""

    def write(self, kind: ObjectKind, data: bytes, *, before: ObjectId | None = None) -> ObjectId:
        """Take an object in and return its id; `before` is the tree that a tree replaces."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A blob or a whole folder that is already stored or in the same writer."""

    id: ObjectId
    """The object."""
    kind: Literal["blob", "tree"] = "blob"
    """What it is."""
    mode: bytes = BLOB
    """A blob's mode: an ordinary file, an executable or a link."""


Change: TypeAlias = bytes | Existing | None
"""What a path becomes: these bytes, this object, or nothing."""


class _Node:
    """What is to happen at one folder: to itself (`own`), and below it by name."""

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
    edited = _edited(sink, (TREE, bytes.fromhex(base or EMPTY_TREE)), root, "")
    if edited is None:
        return sink.write("tree", b"")
    return edited[1].hex()


def _node(nodes: dict[str, _Node], path: str) -> _Node:
    """Return what is to happen at a path; `nodes` has the folders that were seen."""
    folder, _, name = path.rpartition("/")
    if name in ("", ".", "..") or "\0" in name or path.startswith("/"):
        raise ValueError(f"{path!r} is not a path in a tree")
    above = nodes.get(folder)
    if above is None:
        above = nodes[folder] = _node(nodes, folder)
    key = name.encode("utf-8", "surrogateescape")
    found = above.below.get(key)
    if found is None:
        found = above.below[key] = _Node()
    return found


def _edited(
    sink: ObjectSink, old: tuple[bytes, bytes] | None, node: _Node, path: str
) -> tuple[bytes, bytes] | None:
    """Return mode and raw id of what stands at one path after the edit."""
    if node.changed:
        match node.own:
            case None:
                old = None
            case Existing(id=identity, kind=kind, mode=mode):
                old = (TREE if kind == "tree" else mode, bytes.fromhex(identity))
            case data:
                old = (BLOB, bytes.fromhex(sink.write("blob", data)))
        if old is not None and old[0] != TREE and node.below:
            raise ValueError(f"{path!r} cannot be a file and have paths below it")
    if not node.below:
        return old
    before_id = old[1].hex() if old is not None and old[0] == TREE else None
    there = {} if before_id is None else read_named(sink, before_id)
    changes: dict[bytes, tuple[bytes, bytes] | None] = {}
    for name, below in node.below.items():
        before = there.get(name)
        edited = _edited(sink, before, below, f"{path}/{name.decode(errors='replace')}")
        if edited != before:
            changes[name] = edited
    if not changes:
        return old  # also a file, below which nothing can be removed
    data = changed_tree(there, changes)
    if not data:
        return None
    return TREE, bytes.fromhex(sink.write("tree", data, before=before_id))
