"""Looking into folders of features: which blob is at a path, and what stands beside it.

Folders above those of the rows are few, and remembered. Those of the rows, of which 1,000 edits
may be in as many, are read a hundred at a time and forgotten when others come: to keep all
of them took 3 MB, and a status or a diff looks into each of them once. A commit, which looks into
them again as it writes them, keeps each until then: to read them twice took a sixth of its time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from havasu_vc.datasets.kart.trees import Files, Form, Objects, StoredFolder
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.store.objects import ObjectSource
from havasu_vc.store.trees import TREE, Named, parse_named, read_named

if TYPE_CHECKING:
    from havasu_vc.datasets.folder import TreeFolder
    from havasu_vc.formats.kart.columns import GeneratedKeys, Legend
    from havasu_vc.formats.kart.paths import PathStructure
    from havasu_vc.model.commits import ChangeCounts
    from havasu_vc.model.schema import Schema

__all__ = ["FOLDERS_TOGETHER", "DatasetInFeatures", "Folders"]

FOLDERS_TOGETHER = 128
"""So many folders of rows are looked into at once."""
_REMEMBERED = 16_384
_FEW = 16
_above: dict[str, Named] = {}
"""The trees that were looked into last: the same are asked for again."""
_of_rows: dict[str, Named] = {}
"""Those in which rows are looked for right now."""


class Folders:
    """The folders of features of one tree."""

    def __init__(
        self, objects: Objects, source: ObjectSource, features: str, *, again: bool = False
    ) -> None:
        """Look into a tree, empty where there is none; `objects` reads many at a time.

        Where folders are looked into `again`, those of rows are kept too.
        """
        self._objects = objects
        self._source = source
        self._features = features
        self._rows = _above if again else _of_rows

    def find(self, folders: Sequence[bytes], names: Sequence[bytes]) -> list[bytes | None]:
        """Return the blob at each path, None where there is none."""
        places: dict[bytes, list[int]] = {}
        for place, folder in enumerate(folders):
            places.setdefault(folder, []).append(place)
        found: list[bytes | None] = [None] * len(names)
        trees = list(self._trees(places).items())
        together = FOLDERS_TOGETHER if self._rows is _of_rows else _REMEMBERED
        for start in range(0, len(trees), together):
            some = trees[start : start + together]
            self._bring([tree for _, tree in some], self._rows)
            for folder, tree in some:
                there = self.inside(tree) if tree else {}
                for place in places[folder]:
                    leaf = there.get(names[place])
                    found[place] = None if leaf is None or leaf[0] == TREE else leaf[1]
        return found

    def bring(self, folders: Iterable[bytes]) -> None:
        """Read what some folders of rows hold, at once; these are looked into next."""
        self._bring(self._trees(dict.fromkeys(folders)).values(), self._rows)

    def inside(self, tree: str) -> Named:
        """Return what is in a folder of features, by name."""
        if (found := _of_rows.get(tree)) is not None:
            return found
        if tree not in _above:
            if len(_above) >= _REMEMBERED:
                _above.clear()
            _above[tree] = read_named(self._source, tree)
        return _above[tree]

    def taken(self, tree: str) -> Named:
        """Return what is in a folder of rows that will be another one: nobody asks for it again."""
        found = self.inside(tree)
        _above.pop(tree, None)
        return found

    def _trees(self, wanted: Iterable[bytes]) -> dict[bytes, str]:
        """Return the tree of each folder, empty where there is none; a level is read together."""
        # Many lie in one folder, which is looked through for each of them once.
        levels: dict[int, dict[bytes, str]] = {}
        for path in wanted:
            above = b"/"
            while above and path not in (level := levels.setdefault(path.count(b"/"), {})):
                level[path] = ""
                path, above, _ = path.rpartition(b"/")
        at: dict[bytes, str] = {}
        for depth, level in sorted(levels.items()):
            parents = at if depth else {b"": self._features}
            self._bring(parents.values(), _above)
            for path in level:
                parent, _, name = path.rpartition(b"/")
                tree = parents[parent]
                below = self.inside(tree).get(name) if tree else None
                level[path] = "" if below is None or below[0] != TREE else below[1].hex()
            at = level
        return {path: levels[path.count(b"/")][path] for path in wanted}

    def _bring(self, trees: Collection[str], known: dict[str, Named]) -> None:
        """Read many trees at once, so that they are known; few are as quickly read one by one."""
        wanted = {tree for tree in trees if tree and tree not in known}
        if len(wanted) <= _FEW or not isinstance(self._objects, StoredFolder):
            return
        if known is _of_rows or len(known) >= _REMEMBERED:
            kept = {tree: known[tree] for tree in trees if tree in known}
            known.clear()
            known.update(kept)
        data = self._objects.read([bytes.fromhex(tree) for tree in wanted])
        known.update(zip(wanted, map(parse_named, wanted, data), strict=True))


class DatasetInFeatures(Dataset, Protocol):
    """A dataset whose rows stand in git, each in a file of its own."""

    @property
    def folder(self) -> TreeFolder:
        """Its folder."""

    @property
    def as_shown(self) -> bool:
        """Whether a diff from it has what people see of it."""

    @property
    def structure(self) -> PathStructure:
        """How the paths of its features are made."""

    @property
    def legends(self) -> Mapping[str, Legend]:
        """The legends, by name."""

    @property
    def generated_keys(self) -> GeneratedKeys | None:
        """The keys that rows of its source were given; None where they had their own."""

    @property
    def objects(self) -> Objects:
        """Where its features are read from, many at a time."""

    @property
    def features(self) -> str:
        """The tree of its features; empty when there are none."""

    def where(self, name: str) -> str:
        """Return how a person finds a document or a feature."""

    def form(self, schema: Schema | None = None) -> Form:
        """Return what it takes to read its features, in other columns if wanted."""

    def files_of(self, keys: Sequence[tuple[Any, ...]]) -> Files:
        """Return the features with some keys, given in the order of the key's columns."""

    def find(self, folders: Sequence[bytes], names: Sequence[bytes]) -> list[bytes | None]:
        """Return the blob at each path, None where there is none."""

    @property
    def folders(self) -> Folders:
        """A look into its folders of features."""

    def note_rows(self, features: str, counts: ChangeCounts) -> None:
        """Keep how many rows a tree of features has that these changes made of this one's."""
