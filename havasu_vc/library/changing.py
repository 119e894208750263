"""What `Repo` commits: imports, edits, merges, and what undoes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.checkouts import commits, following, moves_head
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.checkouts import Workspace
    from havasu_vc.exchange.source import SourceOptions
    from havasu_vc.history.merging import MergePolicy
    from havasu_vc.merging import MergeResult
    from havasu_vc.repo import results

__all__ = ["Changing"]


class Changing:
    """Makes commits, or moves the branch to others."""

    opened: OpenRepo
    """The repository as operations see it."""

    @property
    def workspace(self) -> Workspace:
        """The tables that are checked out."""
        from havasu_vc.checkouts import Workspace

        return Workspace(self.opened)

    # Taking in

    @commits
    def import_(
        self,
        location: str | Path,
        destination: str | None = None,
        *,
        layers: Sequence[str] = (),
        all_layers: bool = False,
        options: SourceOptions | None = None,
        order: str = "key",
        replace: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        kind: str | None = None,
        history: bool = False,
        refs: bool = False,
        link: bool = False,
        similarity_detection_limit: int = 10_000,
    ) -> results.ImportResult:
        """Import layers of a file as datasets, in one commit.

        A table of another format is named `iceberg:FOLDER` or `delta:FOLDER`; with
        `history` each snapshot of an Iceberg table becomes a commit, with `refs` beside it its
        branches and tags git's, and with `link` its data files stay where they are. A layer
        may be written `LAYER:DATASET`. With `replace`, datasets that are there are compared by
        key and only what differs is committed. `order` is `key`, `hilbert` or `none`. New
        datasets are of a `kind`, `havasu` or `kart`, by default that of the repository. In a Kart
        dataset with keys made for its rows, as many rows as `similarity_detection_limit` that
        came and went are searched for ones that keep their keys, as they hardly changed.
        """
        from havasu_vc.transfer import ImportRequest, import_history, import_layers

        request = ImportRequest(
            str(location),
            destination,
            tuple(layers),
            all_layers=all_layers,
            options=options,
            order=order,
            replace=replace,
            kind=kind,
            history=history,
            refs=refs,
            link=link,
            similarity_detection_limit=similarity_detection_limit,
        )
        run = import_history if history else import_layers
        return run(self.opened, request, dry_run=dry_run, message=message)

    @commits
    def convert(
        self,
        dataset: str,
        kind: str,
        *,
        message: str | None = None,
        history: bool = False,
        refs: bool = False,
    ) -> results.CommitResult:
        """Commit a dataset as one of another kind (`havasu` or `kart`), with the same rows.

        With `history` every commit that changed it comes again beside those that are there;
        with `refs` those of all branches and tags, which get namesakes `KIND/NAME`.
        """
        from havasu_vc.transfer import convert, convert_history

        if history:
            return convert_history(self.opened, dataset.strip("/"), kind, message, refs=refs)
        return convert(self.opened, dataset.strip("/"), kind, message)

    @commits
    def declare_geometries(
        self, dataset: str, encodings: Mapping[str, str], *, message: str | None = None
    ) -> results.CommitResult:
        """Commit what columns hold, by name: `ewkb`, `wkb`, `wkt`, `geojson` or `none`.

        Only the schema changes; values that are something else are an error.
        """
        from havasu_vc.editing import declare_geometries

        return declare_geometries(self.opened, dataset.strip("/"), encodings, message)

    # Committing

    @commits
    def commit_from(
        self,
        file: str | Path,
        *,
        dataset: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        allow_empty: bool = False,
        allow_broken: bool = False,
    ) -> results.CommitResult:
        """Commit the edits made in a copy that `checkout_as` or `export` wrote.

        It is refused where HEAD has a broken dataset, unless that is allowed.
        """
        from havasu_vc.repo.soundness import require_sound
        from havasu_vc.transfer import commit_from

        head = replace(self.opened.head(), name="HEAD")
        require_sound(self.opened, head, what="this commit", allowed=allow_broken)
        return commit_from(
            self.opened, Path(file), dataset, message, dry_run=dry_run, allow_empty=allow_empty
        )

    @commits
    def apply_patch(
        self,
        source: Any,
        *,
        ref: str | None = None,
        allow_empty: bool = False,
        message: str | None = None,
        commit: bool = True,
        limit: int | None = None,
    ) -> results.CommitResult:
        """Commit a patch, given as bytes or an open file; without `commit`, only try it."""
        from havasu_vc.editing import apply_patch

        return apply_patch(
            self.opened,
            source,
            ref=ref,
            allow_empty=allow_empty,
            message=message,
            commit=commit,
            limit=limit,
        )

    @commits
    def set_meta(
        self, dataset: str, items: Mapping[str, Any], *, message: str | None = None
    ) -> results.CommitResult:
        """Commit meta items of a dataset; None removes one. `schema.json` evolves the schema."""
        from havasu_vc.editing import set_meta

        return set_meta(self.opened, dataset, items, message)

    @commits
    def write(
        self,
        dataset: str,
        rows: pa.Table | pa.RecordBatch | Iterator[pa.RecordBatch],
        *,
        mode: str = "upsert",
        message: str | None = None,
    ) -> results.CommitResult:
        """Commit rows by key: `upsert`, `append`, `delete`, or `overwrite` to hold just these."""
        from havasu_vc.editing import write_rows

        return write_rows(self.opened, dataset, rows, mode, message)

    # Merging

    @moves_head
    def merge(
        self,
        revision: str,
        *,
        message: str | None = None,
        fast_forward: str = "auto",
        squash: bool = False,
        dry_run: bool = False,
        policy: MergePolicy | None = None,
    ) -> MergeResult:
        """Merge a commit into HEAD, row by row and cell by cell.

        `fast_forward` is `auto`, `only` (refuses to merge) or `never` (always makes a commit).
        What is in conflict, and `policy` does not decide, waits until it is resolved; nothing
        moves until then. Tables with edits that the merge would pass over make it refuse.
        """
        from havasu_vc.merging import MergeRequest, merge

        self.workspace.require_no_loss(revision, merging=True)
        request = MergeRequest(
            revision,
            message=message,
            fast_forward=fast_forward,
            squash=squash,
            dry_run=dry_run,
            policy=policy,
        )
        return merge(self.opened, request)

    @moves_head
    def continue_merge(self, *, message: str | None = None) -> MergeResult:
        """Conclude a merge whose conflicts are resolved, or take over what git stopped."""
        from havasu_vc.merging import continue_merge

        return continue_merge(self.opened, message=message)

    @moves_head
    def abort_merge(self) -> None:
        """Drop a merge that waits, also one that git began."""
        from havasu_vc.merging import abort_merge

        abort_merge(self.opened)

    def resolve_conflicts(
        self,
        filters: Sequence[str] = (),
        *,
        choice: str | None = None,
        columns: Mapping[str, str] | None = None,
        row: Mapping[str, Any] | None = None,
        document: bytes | None = None,
        renumber: str | None = None,
    ) -> int:
        """Resolve the conflicts that filters name; return how many.

        The resolution is `choice` (`ours`, `theirs`, `base`, `delete`), `columns` (the side
        of the cells of some columns; `choice` of the others), `row`, `document` (a GeoJSON
        feature or Kart's JSON as bytes) or `renumber` (`ours` or `theirs`).
        """
        from havasu_vc.merging import Resolution, resolve
        from havasu_vc.repo.setting_up import set_up

        set_up(self.opened)
        resolution = Resolution(
            choice=choice, columns=columns, row=row, document=document, renumber=renumber
        )
        return resolve(self.opened, filters, resolution)

    # Undoing and bringing again

    @moves_head
    def revert(
        self,
        revision: str,
        *,
        mainline: int | None = None,
        message: str | None = None,
        commit: bool = True,
        policy: MergePolicy | None = None,
    ) -> MergeResult:
        """Commit the opposite of a commit; without `commit`, only try it.

        `mainline` says which parent of a merge, from 1, is the one that it was made upon.
        """
        from havasu_vc.merging import revert

        return revert(
            self.opened,
            revision,
            mainline=mainline,
            message=message,
            commit=commit,
            policy=policy,
        )

    @moves_head
    def cherry_pick(
        self,
        revision: str,
        *,
        mainline: int | None = None,
        message: str | None = None,
        record: bool = False,
        commit: bool = True,
        policy: MergePolicy | None = None,
    ) -> MergeResult:
        """Commit again what a commit changed, as `revert` takes it back; `record` says so."""
        from havasu_vc.merging import cherry_pick

        return cherry_pick(
            self.opened,
            revision,
            mainline=mainline,
            message=message,
            record=record,
            commit=commit,
            policy=policy,
        )

    @moves_head
    def restore(
        self,
        filters: Sequence[str] = (),
        *,
        source: str,
        message: str | None = None,
        dry_run: bool = False,
    ) -> results.CommitResult:
        """Commit datasets, rows or meta items as they are at `source`."""
        from havasu_vc.editing import restore

        return restore(self.opened, filters, source=source, message=message, dry_run=dry_run)

    def reset(self, revision: str = "HEAD", *, mode: str = "mixed", discard: bool = False) -> str:
        """Move the branch to a commit: `soft`, `mixed`, `hard` or `keep`, as git does.

        `hard` and `keep` refuse where tables have edits, unless these are to be discarded.
        """
        from havasu_vc.merging import reset

        if mode in ("hard", "keep"):
            self.workspace.require_no_loss(revision, discard=discard, any_edit=mode == "hard")
        with following(self.opened, discard=discard):
            return reset(self.opened, revision, mode=mode)
