"""Reviews: the changes between two revisions, summed up for people who decide on them.

One pass over the changes of each dataset serves the summary, the page and the policy.
Where a data file is not here, a dataset is reviewed by what is: its meta items, what its
entries tell, and the rows that could be read before, with the flag `unverified` and the reason:
a data file may be absent, damaged or of a later format, a dataset merged as text. None of these
stops a review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import field, replace
from typing import TYPE_CHECKING

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import (
    CorruptionError,
    CrsError,
    DataFileNotFoundError,
    GeometryError,
    HavasuError,
    MissingProgramError,
    StorageError,
)
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import geographic_bounds, transform_bounds
from havasu_vc.geo.sketching import Measure, measure_of
from havasu_vc.looking import LogRequest, log, reprojection
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts, CommitInfo, moment_of
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.names import TABLES
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.filters import DatasetFilter, RepoFilter, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect_of
from havasu_vc.review.changed_back import RowsThatChangeBack
from havasu_vc.review.entry_facts import dataset_facts, entry_words
from havasu_vc.review.page import Page
from havasu_vc.review.policy import Policy
from havasu_vc.review.policy_checking import PolicyWatch, broken_findings, policy_between
from havasu_vc.review.report import (
    Area,
    Conflicts,
    DatasetReview,
    Flag,
    FlagKind,
    Review,
    ReviewedCommit,
)
from havasu_vc.review.requests import BrokenRequest, ReviewRequest
from havasu_vc.review.summarising import Means, summarise
from havasu_vc.store.revisions import (
    Revision,
    RevisionRange,
    merge_base,
    parse_range,
    resolve_range,
)
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.writers.protocol import Reproject

if TYPE_CHECKING:
    from havasu_vc.review.conflicting import Settling

__all__ = [
    "ReadableRows",
    "Unverified",
    "broken_datasets",
    "review",
    "review_diffs",
    "unread_review",
]

MAP_CRS = "OGC:CRS84"
MOST_COMMITS = 50
"""So many commits are named; of the others it is said how many there are."""
AHEAD = 32 << 20
"""Bytes of changes that may wait to be looked at: a review is slower than what reads them."""


def review(repo: OpenRepo, request: ReviewRequest) -> Review:
    """Return what happened between two revisions, dataset by dataset, and what is against policy.

    Where `base...head` does not merge, conflicts are told, and how to settle them.
    """
    revisions, policy = request.revisions, request.policy
    unverified = Unverified(repo.settings.note)
    repo = _frugal(repo, unverified)
    target, show = (None, None) if request.crs is None else reprojection(request.crs)
    ends = resolve_range(repo.git, revisions)
    notes: tuple[str, ...] = ()
    if policy is None:
        policy, notes = policy_between(repo, ends.old, ends.new)
    watch = PolicyWatch(repo, policy or Policy())
    broken = broken_datasets(repo, ends)
    wanted = parse_filters(request.filters, of_changes=True)
    found = [each for path, each in broken.items() if wanted.of(path) is not None]
    watch.unread += [each.path for each in found]
    one = _Reviewer(
        _Versions(repo, ends),
        RowsThatChangeBack(repo, ends),
        watch,
        request.page,
        request.samples,
        target,
        show,
        repo.settings,
    )
    for diff in diff_revisions(repo, ends.old, ends.new, request.filters, skipped=broken):
        each = one.review(diff, whole=wanted.of(diff.path) == DatasetFilter(diff.path))
        found.append(replace(each, flags=(*unverified.flags(diff.path), *each.flags)))
    found.sort(key=lambda each: each.path)
    review = _with_commits(repo, _named(repo, revisions, ends, tuple(found)), ends)
    changed = {each.path for each in found}
    findings = broken_findings(repo, BrokenRequest(ends.new, since=ends.old, changed=changed))
    findings = tuple(each for each in findings if wanted.of(each.dataset) is not None)
    review = replace(
        review, conflicts=_conflicts(repo, revisions, wanted, request.samples, request.settling)
    )
    return replace(review, notes=(*review.notes, *notes), findings=(*findings, *watch.findings()))


@dataclass(frozen=True, slots=True)
class _Reviewer:
    """Reviews one dataset after the other."""

    versions: _Versions
    back: RowsThatChangeBack
    watch: PolicyWatch
    page: Page | None
    samples: int
    target: Crs | None
    show: Reproject | None
    settings: Settings

    def review(self, diff: DatasetDiff, *, whole: bool) -> DatasetReview:
        """Return what happened to a dataset, of which rows may be filtered out."""
        old, new = self.versions.of(diff.path)
        facts = [dataset_facts(view) for view in (old, new)]
        means = Means(facts[0], facts[1], _measure, _to_map(diff), self.samples, self.show)
        rows = ReadableRows(diff.changes)
        diff = replace(diff, changes=iter(rows))
        # Rows that a filter leaves out would seem to have changed back.
        suspects = self.back.watch(diff.path) if whole else None
        seers = [
            None if self.page is None else self.page.dataset(diff, means.reproject),
            self.watch(diff, old, new),
            suspects,
        ]
        each = summarise(diff, means, [seer for seer in seers if seer is not None])
        if self.page is not None and new is not None:
            self.page.datasets[-1].around.read(new, self.settings)
        each = _placed(each, diff, self.target)
        if rows.missing is not None:
            self.watch.unread.append(diff.path)
            return unread_review(each, rows.missing, old, new)
        if suspects is not None and suspects.labels:
            return replace(each, flags=(*each.flags, _back_flag(suspects.labels)))
        return each


def _frugal(repo: OpenRepo, note: Callable[[str], None]) -> OpenRepo:
    """Return the repository, read not far ahead of what looks at it, with another ear for notes."""
    from havasu_vc.engine.choose import EngineSettings

    chosen = repo.settings.engine_settings or EngineSettings()
    chosen = replace(chosen, budget=min(chosen.budget, AHEAD))
    found = copy(repo)
    found.settings = replace(repo.settings, engine_settings=chosen, note=note)
    return found


def review_diffs(
    diffs: Iterable[DatasetDiff],
    base: str,
    head: str,
    page: Page | None = None,
    *,
    samples: int = 0,
    crs: str | None = None,
) -> Review:
    """Return what some diffs tell by themselves; `page` takes in rows.

    Coordinates are told in `crs` where it is given and they can be.
    """
    target, show = (None, None) if crs is None else reprojection(crs)
    found = []
    for diff in diffs:
        means = Means(measure=_measure, reproject=_to_map(diff), samples=samples, show=show)
        seers = [] if page is None else [page.dataset(diff, means.reproject)]
        each = summarise(diff, means, seers)
        found.append(each if target is None else _placed(each, diff, target))
    return Review(base, head, tuple(found))


def _conflicts(
    repo: OpenRepo, revisions: str, wanted: RepoFilter, samples: int, settling: Settling | None
) -> Conflicts | None:
    """Return why a branch does not merge with its target; None where it was not asked for."""
    text = parse_range(revisions)
    if not text.from_merge_base or text.new is None:
        return None
    from havasu_vc.review.conflicting import conflicts_between, settling_here

    ours, theirs = (repo.resolve(name).commit for name in (text.new, text.old))
    if ours is None or theirs is None:
        return None
    settling = settling or settling_here(repo, text.old, text.new)
    return conflicts_between(repo, ours, theirs, settling, wanted=wanted, samples=samples)


def _named(
    repo: OpenRepo, revisions: str, ends: RevisionRange, datasets: tuple[DatasetReview, ...]
) -> Review:
    """Return the review under the names by which it was asked for."""
    text = parse_range(revisions)
    base = repo.resolve(text.old).git_name
    review = Review(base, text.new or "HEAD", datasets, three_dots=text.from_merge_base)
    old, new = ends.old.commit, ends.new.commit
    if old is None or new is None:
        return review
    if text.from_merge_base:
        tip = repo.resolve(text.old).commit
        return review if tip == old else replace(review, merge_base=old)
    if merge_base(repo.git, old, new) == old:
        return review
    note = (
        f"`{text.new or 'HEAD'}` does not come after `{base}`: what changed there alone "
        f"shows here as undone, and `{base}...{text.new or 'HEAD'}` leaves it out"
    )
    return replace(review, notes=(note,))


def _day(commit: CommitInfo) -> str:
    return f"{moment_of(commit.author_time, commit.author_offset):%Y-%m-%d}"


def _with_commits(repo: OpenRepo, review: Review, ends: RevisionRange) -> Review:
    """Return the review with the commits of the change, those by which it came about."""
    old, new = ends.old.commit, ends.new.commit
    if new is None:
        return review
    words = (new,) if old is None else (new, f"^{old}")
    request = LogRequest(revision=new if old is None else f"{old}..{new}", limit=MOST_COMMITS)
    commits = tuple(
        ReviewedCommit(
            each.id,
            each.author_name,
            _day(each),
            each.message.partition("\n")[0],
        )
        for each in log(repo, request)
    )
    count = len(commits)
    if count == MOST_COMMITS:
        count = int(repo.git.git("rev-list", "--count", *words).text)
    return replace(review, commits=commits, commit_count=count)


@dataclass(frozen=True, slots=True)
class _Versions:
    """The datasets of both ends of a range."""

    repo: OpenRepo
    ends: RevisionRange

    def of(self, path: str) -> tuple[Dataset | None, Dataset | None]:
        old, new = (self._at(end.name, path) for end in (self.ends.old, self.ends.new))
        return old, new

    def _at(self, name: str, path: str) -> Dataset | None:
        folder = self.repo.folders(self.repo.resolve(name)).get(path)
        return None if folder is None else self.repo.view(folder, name)


def _back_flag(labels: set[str]) -> Flag:
    count = len(labels)
    rows = f"{count:,} row" + ("" if count == 1 else "s")
    return Flag(
        FlagKind.CHANGED_BACK,
        f"{rows} changed on the way and stand as they stood, which no comparison of the ends shows",
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


@dataclass(slots=True)
class Unverified:
    """Hears notes about datasets, keeps those on rows that were not compared, passes others on."""

    pass_on: Callable[[str], None]
    """Hears the others."""
    notes: list[str] = field(default_factory=list)
    """Notes on rows that are shown as a commit claims them."""

    def __call__(self, note: str) -> None:
        """Take a note."""
        if " unverified" in note:
            self.notes.append(note)
        else:
            self.pass_on(note)

    def flags(self, path: str) -> tuple[Flag, ...]:
        """Return what was said of one dataset as flags."""
        start = f"{path}: "
        said = [each.removeprefix(start) for each in self.notes if each.startswith(start)]
        return tuple(Flag(FlagKind.UNVERIFIED, _plain(text)) for text in said)


class ReadableRows:
    """Yields changes until one cannot be read, and keeps why."""

    def __init__(self, changes: Iterator[ChangeBatch]) -> None:
        self._changes = changes
        self.missing: str | None = None
        """Why not all could be read; None where all were."""

    def __iter__(self) -> Iterator[ChangeBatch]:
        try:
            yield from self._changes
        except DataFileNotFoundError as error:
            self.missing = f"data file `{error.file[:16]}` is not here"
        except (StorageError, MissingProgramError) as error:
            self.missing = f"data files cannot be brought (`{_plain(str(error))}`)"
        except (CorruptionError, GeometryError) as error:
            self.missing = f"data files cannot be read (`{_plain(str(error))}`)"


def unread_review(
    each: DatasetReview, missing: str, old: Dataset | None, new: Dataset | None
) -> DatasetReview:
    """Return a review that says that, and why, its rows were not all read."""
    some = f", and only {each.counts.total:,} changes could be read" if each.counts.total else ""
    text = f"{missing}{some}; {entry_words(old, new)}"
    return _flagged(each, text)


def _flagged(each: DatasetReview, text: str) -> DatasetReview:
    flag = Flag(FlagKind.UNVERIFIED, f"rows are not shown: {text}")
    return replace(each, unread=text, flags=(flag, *each.flags))


def broken_datasets(repo: OpenRepo, ends: RevisionRange) -> dict[str, DatasetReview]:
    """Return what can be said of datasets that differ and of which one side cannot be opened."""
    before, after = repo.folders(ends.old), repo.folders(ends.new)
    found: dict[str, DatasetReview] = {}
    for path in sorted(before.keys() | after.keys()):
        first, second = before.get(path), after.get(path)
        if first is not None and second is not None and first.internals == second.internals:
            continue
        sides = {"before": (first, ends.old), "after": (second, ends.new)}
        reasons = {name: _reason(repo, *side) for name, side in sides.items()}
        if any(reasons.values()):
            found[path] = _broken(repo, path, sides, reasons)
    return found


def _reason(repo: OpenRepo, folder: DatasetFolder | None, revision: Revision) -> str | None:
    if folder is None:
        return None
    if folder.marker not in TABLES:
        return _plain(f"it is a dataset of another kind ({folder.marker})")
    error = defect_of(repo.view(folder, revision.name))
    return None if error is None else _plain(str(error))


def _broken(
    repo: OpenRepo,
    path: str,
    sides: Mapping[str, tuple[DatasetFolder | None, Revision]],
    reasons: Mapping[str, str | None],
) -> DatasetReview:
    there = [folder is not None for folder, _ in sides.values()]
    state = "changed" if all(there) else "added" if there[1] else "removed"
    rows = [_rows(repo, *side) for side in sides.values()]
    said = [f"the version {name} cannot be read (`{why}`)" for name, why in reasons.items() if why]
    each = DatasetReview(path, None, state, rows[0], rows[1], ChangeCounts())
    return _flagged(each, " and ".join(said))


def _rows(repo: OpenRepo, folder: DatasetFolder | None, revision: Revision) -> int:
    """Return how many rows a version says that it has, true or not."""
    if folder is not None:
        with suppress(HavasuError):
            return repo.view(folder, revision.name).rows
    return 0


def _plain(text: str) -> str:
    """Return the first line of a text, fit to stand between backticks."""
    return text.replace("`", "'").splitlines()[0][:200]
