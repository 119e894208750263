"""Requests of what takes in and gives out: imports, exports, copies to edit, other kinds.

A field is a keyword of `Repo`'s method and an option of the command, and the sentence below it
is the help of both. Commands make their options of these, so little else is loaded with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.exchange.formats import GdalForm
    from havasu_vc.exchange.frames import Rows
    from havasu_vc.exchange.parquet_writer import ParquetForm
    from havasu_vc.exchange.source import Source, SourceOptions
    from havasu_vc.model.schema import Schema
    from havasu_vc.transfer.understanding import TableInfo

__all__ = [
    "SIMILARITY_DETECTION_LIMIT",
    "ConvertRequest",
    "CopyCommitRequest",
    "CopyRequest",
    "ExportRequest",
    "ImportRequest",
]


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """An export that is asked for."""

    dataset: str
    """The dataset's path."""
    file: str | Path
    """The file to write, or the folder of a table."""
    revision: str = "HEAD"
    """The revision whose rows are written."""
    format: str | None = None
    """The format; by default what the file's name ends in."""
    overwrite: bool = False
    """Replace the file if it is there."""
    plain: bool = False
    """In a Delta table write geometries as binary columns."""
    crs: str | None = None
    """Transform geometries to this CRS."""
    columns: Sequence[str] | None = None
    """Write only these columns."""
    parquet: ParquetForm | None = None
    """The form of GeoParquet."""
    gdal: GdalForm | None = None
    """The form that is asked of GDAL, where it writes the file."""
    drop_geometry: bool = False
    """Write no geometries."""
    part_bytes: int | None = None
    """With --to parquet-dataset, about how much each file has, by default 128 MiB."""


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """A conversion that is asked for."""

    dataset: str
    """The dataset's path."""
    kind: str
    """The kind of dataset that it is stored as."""
    message: str | None = None
    """The message of the commit."""
    history: bool = False
    """With --to, every commit that changed it as well."""
    refs: bool = False
    """With --history, those of all branches and tags; each gets a namesake KIND/NAME."""


SIMILARITY_DETECTION_LIMIT = 10_000
"""How many rows may have come and gone for pairs to be looked for, as in Kart."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """An import that is asked for."""

    location: str | Path | Rows
    """A file, folder or pattern, or a table as `iceberg:FOLDER` or `delta:FOLDER`. For a program
    also rows that it holds: a data frame, a table of Arrow."""
    destination: str | None = None
    """The dataset's path, for a single layer."""
    layers: Sequence[str] = ()
    """Take this layer, perhaps as another dataset; may be repeated."""
    all_layers: bool = False
    """Take all layers."""
    options: SourceOptions | None = None
    """How the source is read."""
    order: str = "key"
    """How rows of a new dataset are ordered in files: by key, by place, or, of those without a key,
    as they come."""
    replace: bool = False
    """Compare with the datasets that are there and commit only what differs."""
    dry_run: bool = False
    """Read and check everything, commit nothing."""
    message: str | None = None
    """The message of the commit."""
    kind: str | None = None
    """The kind of new datasets; by default that of the repository."""
    history: bool = False
    """Make a commit of each version of the table, oldest first."""
    link: bool = False
    """Leave the data files of an Iceberg table where they are, and name them."""
    refs: bool = False
    """With --history, make the branches and tags of an Iceberg table git's."""
    branch: str | None = None
    """The branch to commit to, which no work tree is on; None for HEAD."""
    similarity_detection_limit: int = SIMILARITY_DETECTION_LIMIT
    """With --replace, where a Kart dataset made its keys: how many rows may come and go for ones
    that hardly changed to be searched, which keep their keys. 0 searches none."""
    no_checkout: bool = False
    """Leave new datasets out of the working copy, as `checkout --not-dataset` does; called `kart`,
    make none."""
    find_key: bool = False
    """Whether a new table without a key in its file gets the likeliest column that can be one."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """With --replace, column OLD of the dataset is called NEW in SOURCE; it keeps its history. May
    be repeated."""
    replace_ids: Sequence[str] | None = None
    """Replace only the rows with these keys, one a line; implies --replace."""
    table_info: Mapping[str, TableInfo] = field(default_factory=dict)
    """Titles and descriptions by dataset, instead of the file's, as a JSON object."""
    allow_empty: bool = False
    """Commit even if nothing differs."""
    same_columns: bool = False
    """Whether the dataset came from the same table, so that ids tell columns apart."""
    take_texts: bool = False
    """Whether a dataset that is there gets the title and the description of its source, if that
    has either, as in Kart; else it keeps its own."""

    @property
    def place(self) -> str:
        """The location as text; a file's as its path."""
        from havasu_vc.exchange.addresses import path_of_url

        if not isinstance(self.location, str | Path):
            return "a frame of rows"
        return path_of_url(str(self.location))

    def said(self, source: Source, path: str) -> TableInfo:
        """Return what is said of a table."""
        said = self.table_info.get(path) or {}
        return {name: text for name, text in self._texts(source).items() if text} | dict(said)

    def of_key(self, old: Schema, source: Source) -> ImportRequest:
        """Return a request that names a source's key, where it lacks that of the dataset.

        Kart takes it then by itself, as the same column where it is of the same type.
        """
        from havasu_vc.exchange.source import SourceOptions

        options = self.options or SourceOptions()
        was, now, names = old.key.names, source.schema.key.names, source.schema.names
        given = options.primary_key is not None or self.replace_ids is not None or self.renames
        if not self.take_texts or given or not now or set(was) <= set(names):
            return self
        types = [[field.type for field in key.fields] for key in (old.key, source.schema.key)]
        if len(now) == 1 and types[0] == types[1] and now[0] not in old.names:
            return replace(self, renames={was[0]: now[0]})
        return replace(self, options=replace(options, primary_key=now))

    def gone(self, source: Source, old: Dataset) -> list[str]:
        """Return the documents of a dataset that are to go, as its source has none of them."""
        said, texts = self.said(source, old.path), self._texts(source)
        gone = [f"meta/{name}" for name, text in texts.items() if not text and name not in said]
        return [name for name in gone if old.folder.read(name) is not None]

    def _texts(self, source: Source) -> dict[str, str | None]:
        """Return the texts of a source that a dataset gets in place of its own."""
        texts = {"title": source.title, "description": source.description}
        return texts if self.take_texts and any(texts.values()) else {}


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A copy to edit that is asked for."""

    file: str | Path
    """The GeoPackage to write."""
    datasets: Sequence[str] = ()
    """Datasets by path; none for all."""
    _: KW_ONLY
    revision: str = "HEAD"
    """With --as, the revision to write.  [default: HEAD]"""
    overwrite: bool = False
    """With --as, replace the file if all in it is committed."""
    discard_changes: bool = False
    """With `overwrite`, replace it whatever it holds; never one that another program has open."""


@dataclass(frozen=True, slots=True)
class CopyCommitRequest:
    """A commit of the edits of a copy that is asked for."""

    file: str | Path
    """The copy."""
    _: KW_ONLY
    dataset: str | None = None
    """With --from, the dataset that FILE is a copy of, where FILE does not know itself."""
    filters: Sequence[str] = ()
    """The parts of the edits that are committed; all without."""
    message: str | None = None
    """The message of the commit."""
    dry_run: bool = False
    """Tell what would be committed, and stop."""
    allow_empty: bool = False
    """Commit even if nothing changed."""
    allow_broken: bool = False
    """Commit beside broken datasets."""
