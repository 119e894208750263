"""The properties of a checked-out table and of its snapshots.

Table properties survive every write of Spark, so they tell whose table this is and
which metadata file is ours, also where the workspace's own state is lost. How Spark is
to write stands here too: deletes beside the data files, one delete file per data file,
rows where they are rather than sorted anew.
"""

from __future__ import annotations

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.iceberg.native_geometry import CRS_WKT
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.tables.table import Table

__all__ = [
    "BASE",
    "CLUSTERED",
    "COMMENT",
    "COMMIT",
    "DATASET",
    "FLAVOUR",
    "TREE",
    "VERSION",
    "checked_out_properties",
    "dataset_properties",
    "is_checkout",
    "is_untouched",
]

BASE = "havasu-base"
"""The tag that keeps the snapshot that was checked out."""
VERSION = "havasu-vc.metadata-version"
"""The number of the metadata file that we wrote last."""
DATASET = "havasu-vc.dataset"
"""The path of the dataset."""
FLAVOUR = "havasu-vc.flavour"
"""The engine that the table, or a snapshot, was written for."""
COMMIT = "havasu-vc.commit"
"""Of a snapshot: the git commit it was made of."""
COMMENT = "comment"
"""The title of the dataset, unless it has none or a long one."""
TREE = "havasu-vc.tree"
"""Of a snapshot: the tree of the dataset's internals."""
CLUSTERED = "havasu-vc.clustered"
"""Of a snapshot with files of a clustered version: the tree of that version's internals."""
_LONGEST_COMMENT = 1 << 16
"""A title beyond that is the dataset's alone: every version of a table repeats its properties."""

_WRITING = {
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "zstd",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.delete.granularity": "file",
}


def _definitions(view: DatasetInFiles) -> dict[str, str]:
    """Return the definitions of the systems that columns name, by their names here.

    All of them: whether a name alone says the same to others only PROJ can tell, which
    takes longer to load than a checkout takes.
    """
    named = {field.geometry.crs for field in view.schema.geometries if field.geometry}
    return {f"{CRS_WKT}{name}": wkt for name, wkt in view.header.crs.items() if name in named}


def checked_out_properties(view: DatasetInFiles, flavour: Flavour, version: int) -> dict[str, str]:
    """Return the properties that the table of a dataset gets with a checkout."""
    return {**dataset_properties(view, flavour), VERSION: str(version)}


def dataset_properties(view: DatasetInFiles, flavour: Flavour) -> dict[str, str]:
    """Return the properties that every table of a dataset has, wherever it is."""
    found = dict(view.properties.others)
    title = view.header.meta.get("title")
    if isinstance(title, str) and len(title) <= _LONGEST_COMMENT:
        found[COMMENT] = title
    found |= _WRITING
    if not view.partition.fields:
        # Sorting anew for every insert costs more than it saves; folds sort.
        found["write.distribution-mode"] = "none"
    found |= _definitions(view)
    found[DATASET] = view.path
    found[FLAVOUR] = flavour.value
    return found


def is_checkout(table: Table) -> bool:
    """Whether a table was made by a checkout."""
    return VERSION in table.metadata.properties


def is_untouched(table: Table) -> bool:
    """Whether nobody else wrote to a table since it was checked out."""
    return table.metadata.properties.get(VERSION) == str(table.version)
