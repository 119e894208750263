"""The delete files of a dataset, written out as Iceberg's position deletes.

Ours name data files by their hash and carry the deleted rows; Iceberg's name the
table's own paths and apply within one partition of one spec. Those that come in one
checkout are written together, one file for each partition that they touch, and stay as
long as all that they were made of stays: so a checkout writes what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from havasu_vc.datasets.havasu.deletes import read_positions
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.snapshots import partition_key
from havasu_vc.tables.table import local_path
from havasu_vc.workspace.state import DeleteBatch

__all__ = ["write_batch"]


def write_batch(
    view: DatasetInFiles,
    sources: Iterable[Entry],
    folder: Path,
    describe: Callable[[Entry], tuple[int, DataFile]],
    spell: Callable[[Path], str],
) -> tuple[DeleteBatch, list[tuple[int, DataFile]]]:
    """Write delete files out and return the batch, and each new file with its spec.

    `describe` gives the partition spec and description of a data file in the table, `spell`
    the location of a file that was written.
    """
    sources = tuple(sources)
    groups: dict[object, tuple[int, DataFile, dict[str, list[Positions]]]] = {}
    places: dict[str, tuple[object, str]] = {}
    for source in sources:
        positions = read_positions(view.file_path(source))
        for target in source.targets:
            if target not in places:
                spec_id, file = describe(view.entries[target])
                group: object = (spec_id, partition_key(file))
                groups.setdefault(group, (spec_id, file, {}))
                places[target] = (group, file.path)
            group, path = places[target]
            groups[group][2].setdefault(path, []).append(positions[target])
    made = []
    for spec_id, file, gathered in groups.values():
        deletes = {path: np.concatenate(parts) for path, parts in gathered.items()}
        written = write_position_deletes(folder, deletes, partition=file.partition)
        made.append((spec_id, replace(written, path=spell(Path(local_path(written.path))))))
    batch = DeleteBatch(
        tuple(source.file for source in sources), tuple(file.path for _, file in made)
    )
    return batch, made
