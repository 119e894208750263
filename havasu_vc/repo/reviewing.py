"""What changed between two revisions, summed up for people who decide on it.

One pass over the changes of each dataset serves the summary, the page and the policy.
Where a data file is not here, a dataset is reviewed by what is: its meta items, what its
entries tell, and the rows that could be read before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.errors import CrsError, DataFileNotFoundError, MissingProgramError, StorageError
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.distances import Measure, measure_of
from havasu_vc.geo.geographic import geographic_bounds
from havasu_vc.geo.reproject import transform_bounds
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.crs import Crs
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.repo.changed_back import RowsThatChangeBack
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.entry_facts import dataset_facts, entry_words
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.policy_checking import PolicyWatch, policy_between
from havasu_vc.repo.reproject import reprojection
from havasu_vc.review.page import Page
from havasu_vc.review.policy import Policy
from havasu_vc.review.report import Area, DatasetReview, Flag, FlagKind, Review
from havasu_vc.review.summarising import Means, summarise
from havasu_vc.store.revisions import Range, merge_base, parse_range, resolve_range
from havasu_vc.writers.protocol import Reproject

__all__ = ["review", "review_diffs"]

MAP_CRS = "OGC:CRS84"
AHEAD = 32 << 20
"""Bytes of changes that may wait to be looked at: a review is slower than what reads them."""


def review(
    repo: OpenRepo,
    revisions: str,
    filters: Sequence[str] = (),
    *,
    samples: int = 40,
    page: Page | None = None,
    policy: Policy | None = None,
    crs: str | None = None,
) -> Review:
    """Return what happened between two revisions, dataset by dataset, and what is against policy.

    `page` takes in rows. Without a `policy` the repository's own counts. Coordinates are told
    in `crs` where it is given and they can be.
    """
    repo = _frugal(repo)
    target, show = (None, None) if crs is None else reprojection(crs)
    ends = resolve_range(repo.git, revisions)
    versions = _Versions(repo, ends)
    back = RowsThatChangeBack(repo, ends)
    notes: tuple[str, ...] = ()
    if policy is None:
        policy, notes = policy_between(repo, ends.old, ends.new)
    watch = PolicyWatch(repo, policy or Policy())
    found = []
    for diff in diff_revisions(repo, ends.old, ends.new, filters):
        old, new = versions.of(diff.path)
        means = Means(
            dataset_facts(old), dataset_facts(new), _measure, _to_map(diff), samples, show
        )
        rows = _Here(diff.changes)
        diff = replace(diff, changes=iter(rows))
        seers = [
            None if page is None else page.dataset(diff, means.reproject),
            watch(diff, old, new),
            suspects := back.watch(diff.path),
        ]
        each = summarise(diff, means, [seer for seer in seers if seer is not None])
        each = _placed(each, diff, target)
        if rows.missing is not None:
            watch.unread.append(diff.path)
            each = replace(each, unread=_unread(rows.missing, each, old, new))
        elif suspects is not None and suspects.labels:
            each = replace(each, flags=(*each.flags, _back_flag(suspects.labels)))
        found.append(each)
    review = _named(repo, revisions, ends, tuple(found))
    return replace(review, notes=(*review.notes, *notes), findings=watch.findings())


def _frugal(repo: OpenRepo) -> OpenRepo:
    """Return the repository, read not far ahead of what looks at it."""
    from havasu_vc.engine.choose import EngineSettings

    chosen = repo.settings.engine_settings or EngineSettings()
    chosen = replace(chosen, budget=min(chosen.budget, AHEAD))
    found = copy(repo)
    found.settings = replace(repo.settings, engine_settings=chosen)
    return found


def review_diffs(diffs: Iterable[DatasetDiff], base: str, head: str, page: Page) -> Review:
    """Return what some diffs tell by themselves; `page` takes in rows."""
    found = []
    for diff in diffs:
        means = Means(measure=_measure, reproject=_to_map(diff), samples=0)
        found.append(summarise(diff, means, [page.dataset(diff, means.reproject)]))
    return Review(base, head, tuple(found))


def _named(
    repo: OpenRepo, revisions: str, ends: Range, datasets: tuple[DatasetReview, ...]
) -> Review:
    """Return the review under the names by which it was asked for."""
    text = parse_range(revisions)
    review = Review(text.old, text.new or "HEAD", datasets, three_dots=text.from_merge_base)
    old, new = ends.old.commit, ends.new.commit
    if old is None or new is None:
        return review
    if text.from_merge_base:
        tip = repo.resolve(text.old).commit
        return review if tip == old else replace(review, merge_base=old)
    if merge_base(repo.git, old, new) == old:
        return review
    note = (
        f"`{text.new or 'HEAD'}` does not come after `{text.old}`: what changed there alone "
        f"shows here as undone, and `{text.old}...{text.new or 'HEAD'}` leaves it out"
    )
    return replace(review, notes=(note,))


@dataclass(frozen=True, slots=True)
class _Versions:
    """The datasets of both ends of a range."""

    repo: OpenRepo
    ends: Range

    def of(self, path: str) -> tuple[AnyDataset | None, AnyDataset | None]:
        old, new = (self._at(end.name, path) for end in (self.ends.old, self.ends.new))
        return old, new

    def _at(self, name: str, path: str) -> AnyDataset | None:
        folder = self.repo.folders(self.repo.resolve(name)).get(path)
        return None if folder is None else self.repo.view(folder, name)


class _Here:
    """Yields changes until a data file is not here, and keeps what was missing."""

    def __init__(self, changes: Iterator[ChangeBatch]) -> None:
        self._changes = changes
        self.missing: str | None = None

    def __iter__(self) -> Iterator[ChangeBatch]:
        try:
            yield from self._changes
        except DataFileNotFoundError as error:
            self.missing = f"data file `{error.file[:16]}` is not here"
        except (StorageError, MissingProgramError) as error:
            reason = str(error).replace("`", "'").splitlines()[0]
            self.missing = f"data files cannot be brought (`{reason[:200]}`)"


def _unread(
    missing: str,
    each: DatasetReview,
    old: AnyDataset | None,
    new: AnyDataset | None,
) -> str:
    some = f", and only {each.counts.total:,} changes could be read" if each.counts.total else ""
    return f"{missing}{some}; {entry_words(old, new)}"


def _back_flag(labels: set[str]) -> Flag:
    count = len(labels)
    rows = f"{count:,} row" + ("" if count == 1 else "s")
    return Flag(
        FlagKind.CHANGED_BACK,
        f"{rows} changed and changed back on the way, which this comparison does not show",
        count,
        tuple(sorted(labels))[:5],
    )


def _placed(each: DatasetReview, diff: DatasetDiff, target: Crs | None) -> DatasetReview:
    """Return a review whose area is also in longitude and latitude, where that is known.

    The area itself is told in `target`, if there is one.
    """
    area = each.area
    crs = None if area is None else _crs(diff.header, area)
    if area is None or area.touched is None or crs is None:
        return each
    with suppress(CrsError):
        found = geographic_bounds(area.touched, crs)
        if found is not None:
            degrees = (found.west, found.south, found.east, found.north)
            area = replace(area, geographic=degrees)
    if target is not None:
        with suppress(CrsError):
            touched, before, after = (
                None if bounds is None else transform_bounds(bounds, crs, target)
                for bounds in (area.touched, area.before, area.after)
            )
            area = replace(area, touched=touched, before=before, after=after, crs=target.identifier)
    return replace(each, area=area)


def _crs(header: DatasetHeader, area: Area) -> Crs | None:
    if area.crs is None:
        return None
    try:
        parsed = parse_crs(header.crs.get(area.crs, area.crs))
    except CrsError:
        return None
    return Crs(area.crs, parsed.wkt, parsed.srid)


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
