"""A part of a repository's data: some datasets, or the files whose rows may lie in a box.

What a clone was told to take is kept in git's configuration, so that later fetches take
the same part of what is new:

    havasu.data.fetch = on-demand     whatever is not here comes when something reads it
    havasu.data.dataset = PATH        as often as there are datasets; none for all
    havasu.data.bbox = W,S,E,N        in the coordinates of each dataset
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from havasu_vc.datasets.kinds import is_in_files, require_files
from havasu_vc.errors import DatasetNotFoundError
from havasu_vc.exchange.boxes import Box, parse_box
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.view import HavasuDataset
    from havasu_vc.formats.havasu.entry import Entry
    from havasu_vc.store.trees import DatasetFolder

__all__ = ["Box", "Part", "files_of_part", "keep_part", "kept_part", "parse_box"]


@dataclass(frozen=True, slots=True)
class Part:
    """Which data files to take."""

    datasets: tuple[str, ...] = ()
    """Their paths; none for all."""
    box: Box | None = None
    """Files that cannot have a geometry in it are left; None for all."""

    def has(self, path: str) -> bool:
        """Whether a dataset is one of them.

        >>> Part(("wells",)).has("roads"), Part(box=(0, 0, 1, 1)).has("roads")
        (False, True)
        """
        return not self.datasets or path in {each.strip("/") for each in self.datasets}


def kept_part(repo: OpenRepo) -> Part | None:
    """Return the part that this clone takes of all that comes; None if it takes nothing."""
    config = repo.git.config
    datasets, box = config.all("havasu.data.dataset"), config.get("havasu.data.bbox")
    if not datasets and box is None:
        return None
    return Part(datasets, None if box is None else parse_box(box))


def keep_part(repo: OpenRepo, part: Part) -> None:
    """Take this part of all that comes from now on."""
    repo.git.config.set("havasu.data.fetch", "on-demand")
    for path in part.datasets:
        repo.git.git("config", "--local", "--add", "havasu.data.dataset", path)
    if part.box is not None:
        repo.git.config.set("havasu.data.bbox", ",".join(f"{edge:.17g}" for edge in part.box))


def files_of_part(repo: OpenRepo, part: Part, revision: str) -> Sequence[WantedFile]:
    """Return the data files that a part of a revision has."""
    found = repo.revision(revision)
    folders = repo.folders(found)
    missing = [path for path in part.datasets if path.strip("/") not in folders]
    if missing:
        raise DatasetNotFoundError(missing[0], revision)
    chosen = {path.strip("/") for path in part.datasets} or set(folders)
    files = {
        WantedFile(entry.file, entry.size)
        for path, folder in folders.items()
        if path in chosen and is_in_files(folder.marker) and _is_sound(repo, folder, revision)
        for entry in _entries(require_files(repo.view(folder, revision)), part.box)
    }
    return sorted(files)


def _is_sound(repo: OpenRepo, folder: DatasetFolder, revision: str) -> bool:
    """Whether the entries of a dataset can be told; it is named where they cannot."""
    broken = defect(repo, folder, revision)
    if broken is not None:
        repo.tell(folder.path, broken.message)
    return broken is None


def _entries(view: HavasuDataset, box: Box | None) -> Iterator[Entry]:
    for entry in view.data_entries:
        if entry.location is None and (box is None or not view.is_outside(entry, box)):
            yield entry
            yield from view.deletes.get(entry.file, ())
