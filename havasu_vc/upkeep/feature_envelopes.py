"""Kart's index of where features are, by which its own git sends a clone those of an area.

    .kart/feature_envelopes.db
        commits            the commits whose features, and all before them, are in it
        feature_envelopes  for each feature that has a place, by its git id, its box in degrees

Kart reads it and goes on with it, and so the other way round. A feature is where each system of
coordinates puts it that its dataset had from its commit on.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice

import numpy as np
import pyarrow as pa

from havasu_vc.errors import CrsError, StorageError
from havasu_vc.formats.kart.features import GeometryBytes, decode_raw
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.bounds import vertex_bounds
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.envelopes import BITS, degrees_of, encode_envelopes, united_envelopes
from havasu_vc.model.names import KART_MARKERS
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.log import commits as walk
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.refs import read_head
from havasu_vc.store.trees import (
    DatasetFolder,
    blobs_below,
    find_datasets,
    find_entry,
    tree_difference,
)
from havasu_vc.upkeep.requests import IndexRequest

__all__ = ["FILE", "Indexed", "index_features"]

FILE = "feature_envelopes.db"
"""The index's place in the git directory."""
_BATCH = 20_000
_TABLES = """
CREATE TABLE IF NOT EXISTS commits (commit_id BLOB NOT NULL, PRIMARY KEY (commit_id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feature_envelopes (blob_id BLOB NOT NULL, envelope BLOB NOT NULL,
  PRIMARY KEY (blob_id)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The outcome of bringing the index along."""

    known: tuple[ObjectId, ...]
    """The commits that were in it before."""
    commits: tuple[ObjectId, ...]
    """Those up to which it was brought; none where it had them all."""
    features: int = 0
    """How many features were looked at."""
    seconds: float = 0
    """How long that took."""
    notes: tuple[str, ...] = ()
    """Notes on what it cannot have, one line each."""


def index_features(repo: OpenRepo, request: IndexRequest) -> Indexed:
    """Put the features of some commits, and of all before them, into the index."""
    git, begin = repo.git, time.monotonic()
    if request.commits:
        asked = {repo.resolve(each).commit for each in request.commits}
    else:
        refs = git.git("rev-list", "--no-walk", "--all").text.split()
        asked = {read_head(git).commit, *refs}
    wanted = [each for each in asked if each is not None]
    path = git.git_directory / FILE
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            if request.anew:
                database.execute("DROP TABLE IF EXISTS commits")
                database.execute("DROP TABLE IF EXISTS feature_envelopes")
            for statement in _TABLES.split(";\n"):
                database.execute(statement)
            known = [row[0].hex() for row in database.execute("SELECT commit_id FROM commits")]
            known = [each for each in known if git.objects.has(each)]
            ends = _independent(repo, [*known, *wanted])
            new = tuple(sorted(ends.difference(known)))
            if request.dry_run or not new:
                database.execute("ROLLBACK")
                return Indexed(tuple(known), new)
            if git.config.get("uploadpack.allowAnySHA1InWant") is None:
                # By it a clone of an area comes by single features that it needs besides.
                git.config.set("uploadpack.allowAnySHA1InWant", "true")
            index = _Index(repo, database)
            for batch in _batches(repo, new, known):
                index.add(*batch)
            database.execute("DELETE FROM commits")
            database.executemany(
                "INSERT INTO commits VALUES (?)", ((bytes.fromhex(each),) for each in ends)
            )
            database.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    took, notes = time.monotonic() - begin, index.notes()
    if not index.count and not _tables(repo, repo.head().tree):
        notes = (*notes, "the index is of Kart datasets alone, and HEAD has none")
    return Indexed(tuple(known), new, index.count, took, notes)


def _independent(repo: OpenRepo, commits: Sequence[ObjectId]) -> set[ObjectId]:
    """Return those of some commits that no other one comes after."""
    if not commits:
        return set()
    return set(repo.git.git("merge-base", "--independent", *dict.fromkeys(commits)).text.split())


class _Index:
    """The index while it grows."""

    def __init__(self, repo: OpenRepo, database: sqlite3.Connection) -> None:
        self._objects, self._database = repo.git.objects, database
        row = database.execute("SELECT length(envelope) FROM feature_envelopes LIMIT 1").fetchone()
        self._bits = BITS if row is None else int(row[0]) * 8 // 4
        self.count = 0
        """How many features were looked at."""
        self._nowhere: dict[str, int] = {}

    def add(self, dataset: str, systems: Sequence[Crs], blobs: Sequence[ObjectId]) -> None:
        """Take in features of a dataset that are in any of some systems."""
        identities, geometries = self._geometries(dataset, blobs)
        if not identities or not systems:
            return
        wkb, _ = geometry_bytes.to_canonical(pa.array(geometries, pa.binary()), "gpkg")
        boxes = vertex_bounds(wkb)
        placed = ~np.isnan(boxes).any(axis=1)
        boxes, names = boxes[placed], np.array(identities, object)[placed]
        found: np.ndarray | None = None
        for crs in systems:
            degrees, wrong = degrees_of(boxes, crs)
            if found is None:
                found, missing = degrees, wrong
                continue
            both = united_envelopes(found, degrees)
            both[missing], both[wrong] = degrees[missing], found[wrong]
            found, missing = both, missing & wrong
        assert found is not None
        known = ~np.isnan(found).any(axis=1)
        if (lost := int((~known).sum())) > 0:
            self._nowhere[dataset] = self._nowhere.get(dataset, 0) + lost
        texts = encode_envelopes(found[known], self._bits)
        self._database.executemany(
            "INSERT OR REPLACE INTO feature_envelopes VALUES (?, ?)",
            zip(map(bytes.fromhex, names[known]), texts, strict=True),
        )

    def _geometries(
        self, dataset: str, blobs: Sequence[ObjectId]
    ) -> tuple[list[ObjectId], list[bytes]]:
        """Return the features that have a geometry, by id, and that."""
        ids, data = [], []
        for identity in blobs:
            if not self._objects.has(identity):
                continue  # a clone of an area lacks it
            kind, content = self._objects.read(identity)
            if kind == "blob":
                ids.append(identity)
                data.append(content)
        self.count += len(ids)
        if not data:
            return [], []
        raw = decode_raw(data, lambda place: f"{dataset}: feature {ids[place]}")
        owners = np.repeat(np.arange(len(raw)), raw.widths)
        first: dict[int, bytes] = {}
        for owner, value in zip(owners.tolist(), raw.values, strict=True):
            if isinstance(value, GeometryBytes):
                first.setdefault(owner, value)
        return [ids[owner] for owner in first], list(first.values())

    def notes(self) -> tuple[str, ...]:
        """Tell how many features are without a box."""
        return tuple(
            f"{dataset}: {count:,} features have no box in degrees that could be told, and are "
            "sent to every clone"
            for dataset, count in self._nowhere.items()
        )


def _batches(
    repo: OpenRepo, commits: Sequence[ObjectId], known: Sequence[ObjectId]
) -> Iterator[tuple[str, tuple[Crs, ...], list[ObjectId]]]:
    """Yield the features that commits brought, newest first, with the systems since then."""
    systems: dict[tuple[str, str], dict[str, Crs]] = {}
    passed = list(known)
    for start in commits:
        for commit in walk(repo.git, start, hide=passed):
            for key, folder in _tables(repo, commit.tree).items():
                before = systems.setdefault(key, {})
                before.update(
                    (identity, crs)
                    for identity, crs in _systems_in(repo, folder).items()
                    if identity not in before
                )
                features = _brought(repo, commit, key, folder)
                while blobs := list(islice(features, _BATCH)):
                    yield key[0], tuple(before.values()), blobs
        passed.append(start)


def _tables(repo: OpenRepo, tree: ObjectId) -> dict[tuple[str, str], DatasetFolder]:
    """Return Kart's tables in a tree, by path and the name of their internals."""
    found = find_datasets(repo.git.objects, tree)
    return {(each.path, each.marker): each for each in found if each.marker in KART_MARKERS}


def _brought(
    repo: OpenRepo, commit: Commit, key: tuple[str, str], folder: DatasetFolder
) -> Iterator[ObjectId]:
    """Yield the features that a commit has and its first parent has not."""
    objects, old = repo.git.objects, EMPTY_TREE
    if commit.parents and objects.has(commit.parents[0]):
        there = _tables(repo, read_commit(objects, commit.parents[0]).tree).get(key)
        old = _features(repo, there)
    for change in tree_difference(objects, old, _features(repo, folder)):
        if change.new is not None:
            yield change.new


def _features(repo: OpenRepo, folder: DatasetFolder | None) -> ObjectId:
    found = folder and find_entry(repo.git.objects, folder.internals, "feature")
    return found.id if found else EMPTY_TREE


def _systems_in(repo: OpenRepo, folder: DatasetFolder) -> dict[str, Crs]:
    """Return the systems of coordinates that a dataset has, by their git ids."""
    found: dict[str, Crs] = {}
    for name, identity in blobs_below(repo.git.objects, folder.internals, "meta/crs"):
        try:
            found[identity] = parse_crs(repo.git.objects.read(identity)[1].decode())
        except (CrsError, UnicodeDecodeError) as error:
            repo.settings.note(f"{folder.path}: {name} cannot be read as a system: {error}")
    return found
