"""Which manifests a checkout keeps, and what goes into new ones.

A manifest of ours whose files all stay is named again as it is. One that loses a file is
written anew with the others; files that come get a manifest of their own. Where small
manifests pile up they are written as one, so a table that is checked out a thousand
times has few. Sequence numbers follow one rule: data files have 1 whenever they come,
delete files that of the snapshot that brought them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
)
from havasu_vc.records import dataclass

__all__ = ["DATA_SEQUENCE", "ManifestPlan", "Read", "is_ours", "plan_manifests"]

DATA_SEQUENCE = 1
"""The data sequence number of every data file, so that deletes of any age apply to it."""

_OURS = re.compile(r"[0-9a-f]{32}-m\.avro")

MANY = 8
"""Manifests of one kind beyond which the small ones are merged."""
SMALL = 256
"""A manifest of fewer files is small."""

Read: TypeAlias = tuple[ManifestFile, Sequence[ManifestEntry]]
"""A manifest and its entries, with what they inherit filled in."""
Group: TypeAlias = tuple[ManifestContent, int]
"""Files of one manifest hold the same and share a partition spec."""


@dataclass
class ManifestPlan:
    """The manifests of a snapshot."""

    kept: list[ManifestFile] = field(default_factory=list)
    """Manifests that are named again."""
    entries: dict[Group, list[ManifestEntry]] = field(default_factory=dict)
    """The entries of new manifests."""
    wanting: list[str] = field(default_factory=list)
    """Paths of wanted files that no manifest of ours describes yet."""
    known: dict[str, ManifestEntry] = field(default_factory=dict)
    """Live entries of the table as it was, by path."""

    def add(self, spec_id: int, entry: ManifestEntry) -> None:
        """Put an entry into a new manifest."""
        is_data = entry.file.content is DataFileContent.DATA
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        self.entries.setdefault((content, spec_id), []).append(entry)

    def come(self, spec_id: int, file: DataFile, snapshot_id: int, sequence_number: int) -> None:
        """Put a file that is described now into a new manifest."""
        was = self.known.get(file.path)
        is_data = file.content is DataFileContent.DATA
        number = DATA_SEQUENCE if is_data else sequence_number
        if was is None:
            new = ManifestEntry(Status.ADDED, file, snapshot_id, number, sequence_number)
        else:
            new = replace(was, status=Status.EXISTING, file=file)
            new = replace(new, sequence_number=number if is_data else was.sequence_number)
        self.add(spec_id, new)


def is_ours(manifest: ManifestFile) -> bool:
    """Whether we wrote a manifest, so that what it says of files is complete."""
    return _OURS.fullmatch(manifest.path.rpartition("/")[2]) is not None


def plan_manifests(
    old: Iterable[Read], wanted: Mapping[str, int], snapshot_id: int, *, complete: bool = True
) -> ManifestPlan:
    """Return what to keep of the table's manifests so that just the wanted files live.

    `wanted` gives the partition spec of each file by path. The plan's `wanting` have to be
    described before its entries are complete. Unless our manifests are `complete` for the
    flavour that is wanted, none is kept.
    """
    plan = ManifestPlan()
    found: set[str] = set()
    kept: list[Read] = []
    for manifest, entries in old:
        live = [entry for entry in entries if entry.status is not Status.DELETED]
        plan.known.update((entry.file.path, entry) for entry in live)
        ours = complete and is_ours(manifest)
        good = [
            entry
            for entry in live
            if ours
            and wanted.get(entry.file.path) == manifest.spec_id
            and entry.file.path not in found
            and _rightly_numbered(entry)
        ]
        found.update(entry.file.path for entry in good)
        if good and len(good) == len(live):
            kept.append((manifest, live))
            continue
        for entry in good:
            plan.add(manifest.spec_id, replace(entry, status=Status.EXISTING))
        for entry in live:
            if entry.file.path not in wanted:
                gone = replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
                plan.add(manifest.spec_id, gone)
    plan.kept = _merged(kept, plan)
    plan.wanting = [path for path in wanted if path not in found]
    return plan


def _rightly_numbered(entry: ManifestEntry) -> bool:
    is_data = entry.file.content is DataFileContent.DATA
    return not is_data or entry.sequence_number == DATA_SEQUENCE


def _merged(kept: Sequence[Read], plan: ManifestPlan) -> list[ManifestFile]:
    """Return the manifests to keep, once small ones of kinds that have many are taken up."""
    groups: dict[Group, list[Read]] = {}
    for manifest, live in kept:
        groups.setdefault((manifest.content, manifest.spec_id), []).append((manifest, live))
    staying: list[ManifestFile] = []
    for (_, spec_id), members in groups.items():
        small = [each for each in members if len(each[1]) < SMALL]
        if len(members) <= MANY or len(small) < 2:
            staying += [manifest for manifest, _ in members]
            continue
        staying += [manifest for manifest, live in members if len(live) >= SMALL]
        for _, live in small:
            for entry in live:
                plan.add(spec_id, replace(entry, status=Status.EXISTING))
    return staying
