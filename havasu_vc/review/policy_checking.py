"""A repository's policy against a review, a commit that is about to be made, or a range.

The policy is the one of the side that is changed, not of the change, so that a branch
cannot loosen what it is checked by; where that side has none, it is that of the change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import SchemaViolationError
from havasu_vc.history.diff import bytes_between, diff_datasets
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import after_edit
from havasu_vc.repo.soundness import broken_datasets
from havasu_vc.review.policy import POLICY_FILE, Policy, parse_policy
from havasu_vc.review.policy_checks import DatasetCheck
from havasu_vc.review.report import PolicyFinding
from havasu_vc.review.summarising import Means, Seen, summarise
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import read_blob

__all__ = [
    "PolicyWatch",
    "broken_findings",
    "check_edits",
    "check_moves",
    "policy_between",
    "read_policy",
]

_Versions: TypeAlias = tuple[str, Dataset | None, Dataset | None]


def read_policy(repo: OpenRepo, revision: Revision) -> Policy | None:
    """Return the policy of a revision; None where it has none."""
    data = read_blob(repo.git.objects, revision.tree, POLICY_FILE)
    if data is None:
        return None
    return parse_policy(data, f"{POLICY_FILE} of {revision.name}")


def policy_between(
    repo: OpenRepo, old: Revision, new: Revision
) -> tuple[Policy | None, tuple[str, ...]]:
    """Return the policy for what changes between two revisions, and what to know of it."""
    texts = [read_blob(repo.git.objects, end.tree, POLICY_FILE) for end in (old, new)]
    if texts[0] is None:
        return read_policy(repo, new), ()
    if texts[0] == texts[1]:
        return read_policy(repo, old), ()
    note = f"the policy changes too; what is checked here is that of `{old.name[:40]}`"
    return read_policy(repo, old), (note,)


class PolicyWatch:
    """Holds a policy against each dataset whose changes go by."""

    def __init__(self, repo: OpenRepo, policy: Policy) -> None:
        self._repo, self._policy = repo, policy
        self._checks: list[DatasetCheck] = []
        self.unread: list[str] = []
        """Datasets of which rows could not be read."""

    def __call__(
        self, diff: DatasetDiff, old: Dataset | None, new: Dataset | None
    ) -> _Checks | None:
        """Return what sees the changes of a dataset; None where no rule is for it."""
        rules = self._policy.of(diff.path)
        if not rules:
            return None
        rows = 0 if old is None else old.rows
        scan = None if new is None else _Scan(self._repo, new)
        found = [DatasetCheck(each, diff, rows_before=rows, scan=scan) for each in rules]
        self._checks += found
        return _Checks(tuple(found))

    def findings(self) -> tuple[PolicyFinding, ...]:
        """Return what is against the policy, after all changes went by."""
        found = [finding for check in self._checks for finding in check.findings()]
        for path in self.unread:
            if rules := self._policy.of(path):
                refuses = any(each.refuses for each in rules)
                text = "not all rows could be read, so they are not checked"
                found.append(PolicyFinding("data", text, refuses, path))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Checks:
    """The rules of several entries at once."""

    checks: tuple[DatasetCheck, ...]

    def see(self, seen: Seen) -> None:
        for check in self.checks:
            check.see(seen)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Reads columns of a version."""

    repo: OpenRepo
    view: Dataset

    def __call__(self, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
        with self.repo.settings.open_engine(self.view.size) as engine:
            yield from engine.run(self.view.scan(tuple(columns)), description="Looking for equals")


def check_edits(
    repo: OpenRepo, storage: Storage, edits: Sequence[TreeEdit], base: Revision
) -> None:
    """Hold the policy of a revision against what is to be committed upon it.

    Warnings are told; what is refused raises `SchemaViolationError`.
    """
    policy = read_policy(repo, base)
    if policy is not None:
        _hold(repo, policy, _edited_versions(repo, storage, edits, base))


def check_moves(repo: OpenRepo, moves: Mapping[str, str | None], base: Revision) -> None:
    """Hold the policy of a revision against datasets that go, or get another path."""
    policy = read_policy(repo, base)
    if policy is not None:
        _hold(repo, policy, _moved_versions(repo, moves, base))


def _moved_versions(
    repo: OpenRepo, moves: Mapping[str, str | None], base: Revision
) -> Iterable[_Versions]:
    folders = repo.folders(base)
    for path, new in moves.items():
        view = repo.view(folders[path], base.name)
        yield path, view, None
        if new is not None:
            yield new, None, view


def _engine(repo: OpenRepo, old: Dataset | None, new: Dataset | None) -> Engine:
    return repo.settings.open_engine(bytes_between(old, new))


def _hold(repo: OpenRepo, policy: Policy, versions: Iterable[_Versions]) -> None:
    """Tell what is warned of datasets before and after; raise for what is refused."""
    watch = PolicyWatch(repo, policy)
    for path, old, new in versions:
        if not policy.of(path):
            continue
        diff = diff_datasets(path, old, new, partial(_engine, repo, old, new))
        check = watch(diff, old, new)
        summarise(diff, Means(samples=0), [] if check is None else [check])
    refused = []
    for finding in watch.findings():
        text = f"{finding.dataset}: {finding.message.replace('`', '')}"
        if finding.rows:
            text += f" ({', '.join(finding.rows)}{', …' if finding.count > 5 else ''})"
        if finding.refuses:
            refused.append(text)
        else:
            repo.settings.note(f"policy: {text}")
    if refused:
        raise SchemaViolationError(
            f"the policy refuses this commit: {'; '.join(refused)}",
            hints=("mend the rows, or commit with --no-verify",),
        )


def broken_findings(
    repo: OpenRepo,
    revision: Revision,
    *,
    refuses: bool = True,
    since: Revision | None = None,
    changed: Container[str] = (),
) -> tuple[PolicyFinding, ...]:
    """Return the broken datasets of a revision, which are against every policy.

    With `since` only those that were not broken there, or are `changed`.
    """
    before = () if since is None else broken_datasets(repo, since)
    return tuple(
        PolicyFinding("broken", error.message, refuses, path)
        for path, error in broken_datasets(repo, revision).items()
        if path not in before or path in changed
    )


def _edited_versions(
    repo: OpenRepo, storage: Storage, edits: Sequence[TreeEdit], base: Revision
) -> Iterable[_Versions]:
    """Yield the datasets that edits change, before and after."""
    folders = repo.folders(base)
    for edit in edits:
        folder = folders.get(edit.path)
        old = None if folder is None else repo.view(folder, base.name)
        if old is not None:
            old = old.with_storage(storage)
            yield edit.path, old, after_edit(old, edit, storage)
