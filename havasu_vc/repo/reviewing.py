"""What changed between two revisions, summed up for people who decide on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import CrsError
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.distances import Measure, measure_of
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.crs import Crs
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.reproject import reprojection
from havasu_vc.review.page import Page
from havasu_vc.review.report import DatasetFacts, Review
from havasu_vc.review.summarising import Means, summarise
from havasu_vc.store.revisions import Revision, resolve_range
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.writers.protocol import Reproject

__all__ = ["review", "review_diffs"]

MAP_CRS = "OGC:CRS84"


def review(
    repo: OpenRepo,
    revisions: str,
    filters: Sequence[str] = (),
    *,
    samples: int = 40,
    page: Page | None = None,
) -> Review:
    """Return what happened between two revisions, dataset by dataset; `page` takes in rows."""
    ends = resolve_range(repo.git, revisions)
    notes: list[str] = []
    before, after = repo.folders(ends.old), repo.folders(ends.new)

    found = []
    for diff in diff_revisions(repo, ends.old, ends.new, filters):
        means = Means(
            _facts(repo, before.get(diff.path), ends.old),
            _facts(repo, after.get(diff.path), ends.new),
            _measure,
            _to_map(diff),
            samples,
        )
        found.append(summarise(diff, means, page and page.dataset(diff, means.reproject)))
    return Review(ends.old.name, ends.new.name, tuple(found), tuple(notes))


def review_diffs(diffs: Iterable[DatasetDiff], base: str, head: str, page: Page) -> Review:
    """Return what some diffs tell by themselves; `page` takes in rows."""
    found = []
    for diff in diffs:
        means = Means(measure=_measure, reproject=_to_map(diff), samples=0)
        found.append(summarise(diff, means, page.dataset(diff, means.reproject)))
    return Review(base, head, tuple(found))


def _to_map(diff: DatasetDiff) -> Reproject | None:
    sides = (header for header in (diff.old, diff.new) if header is not None)
    with_geometries = any(header.schema.geometries for header in sides)
    return reprojection(MAP_CRS)[1] if with_geometries else None


def _measure(field: Field, header: DatasetHeader) -> Measure:
    name = None if field.geometry is None else field.geometry.crs
    if name is None:
        return Measure()
    try:
        parsed = parse_crs(header.crs.get(name, name))
    except CrsError:
        return Measure()
    return measure_of(Crs(name, parsed.wkt, parsed.srid))


def _facts(repo: OpenRepo, folder: DatasetFolder | None, revision: Revision) -> DatasetFacts | None:
    """Return what entries tell of a dataset; deleted rows still count in nulls and ranges."""
    if folder is None:
        return None
    view = repo.view(folder, revision.name)
    if not isinstance(view, HavasuDataset):
        return DatasetFacts(view.rows)
    entries = [entry for entry in view.entries.values() if entry.content is Content.DATA]
    nulls: dict[int, int] = {}
    ranges: dict[int, tuple[float, float]] = {}
    bounds: dict[int, Bounds] = {}
    for field in view.schema.fields:
        known = [entry.statistics.get(field.id) for entry in entries]
        if all(each is not None for each in known):
            nulls[field.id] = sum(each.nulls for each in known if each is not None)
        corners = [
            (each.lower, each.upper)
            for each in known
            if each is not None
            and isinstance(each.lower, int | float)
            and isinstance(each.upper, int | float)
        ]
        if corners:
            ranges[field.id] = (min(low for low, _ in corners), max(high for _, high in corners))
        area = Bounds.of(entry.bounds.get(field.id) for entry in entries)
        if area is not None:
            bounds[field.id] = area
    return DatasetFacts(view.rows, nulls, ranges, bounds)
