"""The kinds of dataset there are: how each is told, and what of it is known before one is opened.

A kind is a package that holds everything about it, and a row here. The package is loaded when
one of its datasets is met: the modules that a row names by `package` are

    view        `open_view`, which returns the dataset in a folder
    build       `new_table`, which takes in the rows of a new one, and documents of one
    soundness   `check_folder`, which tells whether it can be read, from as little as possible
    checks      `check_dataset`, which finds everything that is wrong with one
    upgrading   `upgraded`, which returns a folder of an older form in the one that is read,
                where a kind has `older` forms

Everybody else has a `Dataset`, or a `DatasetKind` where there is only a folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from havasu_vc.errors import InvalidArgumentError, NotYetSupportedError
from havasu_vc.model.names import (
    DATASET_MARKERS,
    HAVASU_MARKER,
    OLD_TABLE_MARKER,
    TABLE_MARKER,
    TABLES,
)
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from havasu_vc.datasets.folder import Folder, TreeFolder
    from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, NewTable
    from havasu_vc.datasets.storage import Storage
    from havasu_vc.model.findings import Finding
    from havasu_vc.model.schema import Schema
    from havasu_vc.model.task import RunsEach

__all__ = [
    "DEFAULT",
    "KINDS",
    "DatasetKind",
    "added",
    "find_kind",
    "findings_in",
    "is_in_files",
    "is_of_kart",
    "kind_named",
    "kind_names",
    "kind_of",
    "kind_told_by",
    "require_files",
    "require_kind",
    "told_kind",
    "usual_kind",
]


@dataclass(frozen=True, slots=True)
class DatasetKind:
    """One kind of dataset."""

    name: str
    """Its name in options and outputs."""
    versions: Mapping[str, int]
    """Versions of its form by the name of the folder that makes a folder such a dataset; the
    first is what new ones have."""
    rows: str
    """The place of rows in that folder."""
    in_files: bool
    """Whether rows stand in data files, which git has pointers to, and not in git itself."""
    package: str
    """Where its modules are."""
    documents: tuple[str, ...]
    """Documents that tell a tree of internals by itself to be of this kind: any of them."""
    told: Mapping[str, object]
    """The type and the version that programs are told."""
    of_kart: bool = False
    """Whether Kart reads it, so that outputs say of it just what Kart says."""
    older: bool = False
    """Whether there are older forms of it, which nothing but an upgrade reads."""

    def version(self, marker: str) -> int:
        """Return the version of the form of a dataset whose folder has a name."""
        return self.versions[marker]

    @property
    def marker(self) -> str:
        """The name of the folder that makes a folder a new dataset of this kind."""
        return next(iter(self.versions))

    def open(
        self,
        path: str,
        folder: Folder,
        storage: Storage,
        revision: str = "HEAD",
        marker: str | None = None,
    ) -> Dataset:
        """Return the dataset in a folder, unchecked."""
        view = import_module(f"{self.package}.view")
        opened = view.open_view(path, folder, storage, revision, marker or self.marker)
        return cast("Dataset", opened)

    def new(
        self,
        path: str,
        schema: Schema,
        storage: Storage,
        *,
        meta: Mapping[str, bytes],
        hilbert: int | None = None,
        declared: Mapping[str, str] | None = None,
    ) -> NewTable:
        """Return a new dataset in the making; `meta` are documents besides those of its schema.

        With `hilbert`, rows that stand in files stand along the curve of that column. What
        columns are `declared` as in SQL is kept where the kind says so of a column.
        """
        build = import_module(f"{self.package}.build")
        if self.of_kart and declared:
            schema = build.fitted(schema, declared)
        made = build.new_table(path, schema, storage, meta=meta, hilbert=hilbert)
        return cast("NewTable", made)

    def schema_of_items(self, columns: list[Any]) -> Schema:
        """Return the schema that the item `schema.json` of a new dataset means."""
        found = import_module(f"{self.package}.build").schema_of_items(columns)
        return cast("Schema", found)

    def crs_document(self, wkt: str) -> bytes:
        """Return the definition of a coordinate reference system as a document."""
        document: bytes = import_module(f"{self.package}.build").crs_document(wkt)
        return document

    def check(self, folder: Folder, path: str, revision: str, marker: str, memory: Path) -> None:
        """Raise what is wrong with the dataset in a folder, if it cannot be read.

        What was found sound is remembered below `memory`, and not looked at again.
        """
        soundness = import_module(f"{self.package}.soundness")
        soundness.check_folder(folder, path, revision, marker, memory)

    def upgraded(self, folder: TreeFolder, path: str, revision: str) -> TreeFolder | None:
        """Return a folder as one of the form that is read; None where it is of no older form."""
        if not self.older:
            return None
        upgrading = import_module(f"{self.package}.upgrading")
        return cast("TreeFolder | None", upgrading.upgraded(folder, path, revision))

    def findings(
        self, view: Dataset, engine: RunsEach, *, full: bool, checked: set[str] | None = None
    ) -> Iterator[Finding]:
        """Yield what is wrong with a dataset of this kind; with `full` all of its rows are read.

        `checked` remembers files that were found whole, so that one which several datasets or
        revisions share is read once.
        """
        checks = import_module(f"{self.package}.checks")
        yield from checks.check_dataset(view, engine, full=full, checked=checked)


DEFAULT = DatasetKind(
    "havasu",
    {HAVASU_MARKER: 2},
    "files",
    in_files=True,
    package="havasu_vc.datasets.havasu",
    documents=("dataset.json", "snapshot.json"),
    told={"type": "table", "version": 1, "format": "havasu"},
    older=True,
)
"""The kind that datasets have unless another one is asked for."""

KINDS = [
    DEFAULT,
    DatasetKind(
        "kart",
        {TABLE_MARKER: 3, OLD_TABLE_MARKER: 2},
        "feature",
        in_files=False,
        package="havasu_vc.datasets.kart",
        documents=("meta/schema.json",),
        told={"type": "table", "version": 3},
        of_kart=True,
    ),
]
"""Every kind whose rows can be read: a row each, whose markers `model.names` has too."""


@contextmanager
def added(kind: DatasetKind) -> Iterator[None]:
    """Have another kind in this process, which some other package holds, as long as this lasts."""
    markers = list(kind.versions)
    KINDS.append(kind)
    TABLES.extend(markers)
    DATASET_MARKERS.extend(markers)
    try:
        yield
    finally:
        KINDS.remove(kind)
        for marker in markers:
            TABLES.remove(marker)
            DATASET_MARKERS.remove(marker)


def find_kind(marker: str | None) -> DatasetKind | None:
    """Return the kind that a folder is told by; None where its rows cannot be read."""
    return next((kind for kind in KINDS if marker in kind.versions), None)


def kind_of(path: str, marker: str) -> DatasetKind:
    """Return the kind of the dataset at a path, which its folder's name tells."""
    kind = find_kind(marker)
    if kind is None:
        raise NotYetSupportedError(
            f"{path} is a dataset of another kind ({marker})",
            hints=("tables can be read: `havasu-vc data ls` lists them",),
        )
    return kind


def kind_told_by(has: Callable[[str], bool]) -> DatasetKind | None:
    """Return the kind that internals are of, by a function that says which documents they have."""
    return next((kind for kind in KINDS if any(map(has, kind.documents))), None)


def usual_kind(*, of_kart: bool) -> DatasetKind:
    """Return the kind that datasets have where nobody asks for one: in Kart's repositories its."""
    return next(kind for kind in KINDS if kind.of_kart) if of_kart else DEFAULT


def is_of_kart(name: str) -> bool:
    """Whether Kart reads datasets of a kind; of a name that is none it does not."""
    return any(kind.of_kart for kind in KINDS if kind.name == name)


def is_in_files(marker: str) -> bool:
    """Whether the rows of a dataset, which its folder's name tells, stand in data files."""
    kind = find_kind(marker)
    return kind is not None and kind.in_files


def kind_named(name: str) -> DatasetKind:
    """Return the kind of a name."""
    return next(kind for kind in KINDS if kind.name == name)


def told_kind(name: str, version: int | None = None) -> dict[str, object]:
    """Return what JSON tells of a kind, be it one of Kart's sets of tiles, or of an older form."""
    known = next((kind.told for kind in KINDS if kind.name == name), {"type": name, "version": 1})
    return {**known, **({} if version is None else {"version": version})}


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return [kind.name for kind in KINDS]


def require_kind(name: str) -> DatasetKind:
    """Return the kind that somebody named; raise `InvalidArgumentError` for a word that is none."""
    if name not in kind_names():
        raise InvalidArgumentError(
            f"there is no kind of dataset {name!r}",
            hints=(f"kinds are {' and '.join(sorted(kind_names()))}",),
        )
    return kind_named(name)


def findings_in(
    view: Dataset, engine: RunsEach, *, full: bool, checked: set[str] | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with a dataset, as its kind looks for it."""
    return kind_named(view.kind).findings(view, engine, full=full, checked=checked)


def require_files(view: Dataset, what: str = "this") -> DatasetInFiles:
    """Return the view of data files that a dataset must have; `what` needs them."""
    found = view.in_files
    if found is None:
        raise NotYetSupportedError(
            f"{view.path} is a dataset of {view.kind.capitalize()}'s, with which {what} "
            "cannot be done",
            hints=(
                f"`havasu-vc convert {shlex.quote(view.path)} --to {DEFAULT.name}` makes it a "
                f"{DEFAULT.name.capitalize()} dataset",
            ),
        )
    return found
