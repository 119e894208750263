"""The living working copy follows HEAD: held while HEAD moves, then brought along row by row.

    with holding(repo) as held:        the write lock of the file, or `LockedError`
        ...                            HEAD moves, or does not
                                       rows that differ are written, and the file is committed

The lock comes first, so an editor that holds it makes us refuse before anything moved, and
nobody writes to the file between a look at its edits and their commit. HEAD moves before the
file does: the file says itself of which tree its rows are, so whoever finds it behind HEAD
can bring it along, and the mark that stands meanwhile says that it is to be done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.checkouts.living_area import (
    ShownPart,
    is_as_wanted,
    limits_of,
    note_limits,
    note_rows,
    outside,
    part_of,
    reserve_keys,
    wanted_area,
)
from havasu_vc.checkouts.living_edits import (
    Base,
    LayerEdits,
    base_of,
    base_views,
    goal_of,
    layer_of,
    note_beside,
    read_layer,
)
from havasu_vc.checkouts.living_place import LivingPlace, behind_mark
from havasu_vc.checkouts.living_standing import (
    can_stay,
    change_keys,
    same_form,
    stands_apart,
    stands_as,
)
from havasu_vc.checkouts.marks import marked, read_mark, unmark
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import HavasuError, StateError, UncommittedChangesError
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_store import LivingStore
from havasu_vc.history.diff import row_changes
from havasu_vc.history.partners import partners
from havasu_vc.merging import MERGED_REF, merged_tree
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.records import dataclass
from havasu_vc.repo.edits import BATCH_ROWS
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.spatial_filters import rows_inside
from havasu_vc.store.commits import read_commit
from havasu_vc.store.revisions import Revision
from havasu_vc.writers.values import key_labels

__all__ = [
    "Held",
    "bring_along",
    "date_table",
    "finish",
    "holding",
    "make_table",
    "uncommitted",
    "write_as_edits",
]


@dataclass
class Held:
    """A working copy that is held while HEAD may move."""

    file: LivingStore
    """It, open to write."""
    discard: bool = False
    """Whether edits that are not committed go."""
    dropped: dict[str, LayerEdits] = field(default_factory=dict)
    """Edits that go, by dataset, whatever becomes of others."""
    committed: dict[str, LayerEdits] = field(default_factory=dict)
    """Edits that HEAD has when it has moved, by dataset."""
    adopted: set[str] = field(default_factory=set)
    """Datasets whose table stands already; what differs in it is an edit."""
    as_is: bool = False
    """Whether tables whose edits were committed are as HEAD then has them."""
    limited_anew: bool = False
    """Whether it is to be limited to what the settings ask for, all of it without an edit."""
    now_outside: int = 0
    """How many rows that were committed went, as they are outside of the spatial filter."""
    left_merge: bool = False
    """Whether the file had the rows of a merge that waited, and has them no more."""


@contextmanager
def holding(repo: OpenRepo, place: LivingPlace, *, discard: bool = False) -> Iterator[Held]:
    """Hold the working copy during a block that may move HEAD, then bring it along."""
    if isinstance(repo.held, Held):
        repo.held.discard |= discard
        yield repo.held
        return
    mark = behind_mark(repo.git)
    with ExitStack() as standing:
        with place.home().open(write=True) as file:
            held = Held(file, discard)
            repo.held = held
            # It is nobody's only after the file was committed or given up.
            standing.enter_context(marked(mark, discard=discard))
            try:
                yield held
            except HavasuError:
                # Some operations move HEAD more than once, and stop on the way.
                held.discard, held.dropped, held.committed = False, {}, {}
                held.limited_anew = False
                _follow(repo, held)
                file.commit()
                _settle(repo, held, mark)
                raise
            finally:
                repo.held = None
            _follow(repo, held)
        _settle(repo, held, mark)


def _settle(repo: OpenRepo, held: Held, mark: Path) -> None:
    """Forget what is needed only until the file is where it is to be."""
    if held.left_merge:
        repo.git.git("update-ref", "-d", MERGED_REF, check=False)
    unmark(mark)


def finish(repo: OpenRepo, place: LivingPlace) -> None:
    """Bring a working copy along that a command that died left behind."""
    mark = behind_mark(repo.git)
    discard = bool(read_mark(mark).get("discard", False))
    try:
        with holding(repo, place) as held:
            # What was to be dropped went for a move of HEAD; where it did not move, it stays.
            held.discard = discard and held.file.tree != goal_of(repo).tree
    except HavasuError as error:
        repo.settings.note(f"the working copy stays as it was: {error.message}")


def _follow(repo: OpenRepo, held: Held) -> None:
    for note in bring_along(repo, held):
        repo.settings.note(note)


def bring_along(repo: OpenRepo, held: Held) -> tuple[str, ...]:
    """Give a working copy the rows of HEAD, and keep edits that are not in the way.

    Where HEAD has rows otherwise that were edited, it stays as it is as a whole, and that is
    told: they are then edits of the commit that it was of, which a commit brings onto HEAD.
    """
    file, goal = held.file, goal_of(repo)
    settled = held.committed or held.dropped or held.discard
    if file.tree == goal.tree and not settled:
        _limit_anew(repo, held)
        return ()
    base = base_of(repo, file)
    after = base_views(repo, goal)
    plans: list[_Plan] = []
    gone = [layer_of(file, base.views[path]).table for path in base.views.keys() - after.keys()]
    for path in sorted(base.views.keys() | after.keys()):
        plan = _plan(repo, held, base, path, after.get(path), gone)
        if plan.old is None and plan.kept:
            return (
                f"a table in the working copy has the name of the dataset {path}, so it stays at "
                f"{base.revision.name}; rename or remove that table, then `havasu-vc checkout`",
            )
        if plan.kept:
            return (
                f"{path} has edits that are not committed, so the working copy stays at "
                f"{base.revision.name}; `havasu-vc commit` brings them onto HEAD",
            )
        plans.append(plan)
    # What goes goes first: no two tables may have one title, as one that moved has.
    for plan in sorted(plans, key=lambda each: each.new is not None):
        plan.carry_out(repo, held)
        was = None if plan.old is None else _tree(plan.old)
        if plan.new is not None and was != _tree(plan.new):
            date_table(repo, file, plan.new, goal)
    note_beside(repo, file, after, base.revision.tree, goal.tree)
    was_of_merge = file.of_merge
    # Kart's says nothing of a merge: the files of the merge do.
    of_merge = not repo.git.is_kart and goal.tree == merged_tree(repo.git)
    file.set_tree(goal.tree, of_merge=of_merge)
    held.left_merge = was_of_merge and not file.of_merge
    _limit_anew(repo, held)
    return ()


def _limit_anew(repo: OpenRepo, held: Held) -> None:
    """Give the tables of a working copy without edits the rows that the settings ask for."""
    file = held.file
    if not held.limited_anew or is_as_wanted(repo, file):
        return
    area = wanted_area(repo)
    views = base_of(repo, file).views.values()
    before = {view.path: part_of(repo, file, view) for view in views}
    note_limits(file, area)
    for view in views:
        layer, known = layer_of(file, view), before[view.path]
        if known.is_known and known.inside == part_of(repo, file, view).inside:
            continue
        file.drop(layer)
        make_table(repo, file, layer, view)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fate of one table."""

    path: str
    old: Dataset | None
    new: Dataset | None
    edits: LayerEdits | None = None
    """The edits in it; None where they need not be looked at."""
    kept: bool = False
    """Whether there are edits in the way, so that nothing may be done."""

    def carry_out(self, repo: OpenRepo, held: Held) -> None:
        file, old, new = held.file, self.old, self.new
        if new is None:
            if old is not None:
                file.drop(layer_of(file, old))
            return
        layer = layer_of(file, new)
        if old is None:
            if self.edits is not None and self.edits.seen is not None:
                file.adopt(self.edits.seen, layer)
                for batch in self.edits.batches:
                    file.note(layer, change_keys(batch, new))
                _trim(repo, file, layer, new)
            else:
                make_table(repo, file, layer, new)
            return
        edits = self.edits
        if edits is None:
            return
        part = part_of(repo, file, new)
        if self.path in held.committed and held.as_is and self._stays_alike(repo, file, part):
            edited = held.committed[self.path]
            assert edits.seen is not None
            file.settle(edits.seen, layer, _new_rows(edited))
            file.forget(edits.layer, edited.keys)
            if edits.seen.distrusted is not None:
                file.track(layer, edits.seen)
            held.now_outside += _drop_outside(file, layer, new, part, edited)
            if edited.others:
                file.note(layer, edited.other_keys)
            self._note_rows(repo, file, layer, new, edited)
            return
        if edits.seen is None or not stands_as(edits, layer, old, new):
            file.drop(edits.layer)
            make_table(repo, file, layer, new)
            return
        if self.path in held.committed and part.inside is not None:
            held.now_outside += sum(
                int((~part.inside.mask(batch.new_rows())).sum()) for batch in edits.batches
            )
        with file.suspended(layer, edits.seen):
            _write_rows(repo, file, edits, layer, old, new)
        file.describe(edits.seen, edits.beside(layer))
        file.settle(edits.seen, layer, None)
        file.forget(layer)
        if edits.others:
            file.note(layer, edits.other_keys)
        self._note_rows(repo, file, layer, new, edits)

    def _stays_alike(self, repo: OpenRepo, file: LivingStore, part: ShownPart) -> bool:
        """Whether a table whose edits were committed stays, rows outside of a filter aside."""
        assert self.old is not None and self.new is not None
        if self.edits is None or self.edits.seen is None:
            return False
        if part.inside is not None and not self.new.key:
            return False  # no key names the rows that are to go
        return part.inside == part_of(repo, file, self.old).inside

    def _note_rows(
        self, repo: OpenRepo, file: LivingStore, layer: Layer, new: Dataset, edits: LayerEdits
    ) -> None:
        part = part_of(repo, file, new)
        if part.inside is None:
            return
        seen = file.look(layer)
        count = 0 if seen is None else file.count(seen) - part.standing(edits.others)
        note_rows(repo, file, layer, new, count)


def make_table(repo: OpenRepo, file: LivingStore, layer: Layer, view: Dataset) -> int:
    """Make the table of a dataset, with the rows that the working copy is to have; count them."""
    part = part_of(repo, file, view)
    with repo.settings.open_engine(view.size, alone=True) as engine:
        count = file.make(layer, _rows_of(view, part, engine))
    file.forget(layer)
    if part.inside is None:
        view.keep_count(count)
    else:
        reserve_keys(repo, file, layer, view, None)
        note_rows(repo, file, layer, view, count)
        repo.parts_made[view.path] = (view.rows, count)
    return count


def _rows_of(view: Dataset, part: ShownPart, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a dataset in stored types."""
    inside, what = part.inside, f"Reading {view.path}"
    if inside is None:
        yield from engine.run(view.scan(), description=what)
        return
    for batch in engine.run(view.scan(where=inside.where), description=what):
        yield inside.of(batch)


def _trim(repo: OpenRepo, file: LivingStore, layer: Layer, view: Dataset) -> None:
    """Remove rows from a table of somebody's that the working copy is not to have."""
    part, seen = part_of(repo, file, view), file.look(layer)
    if part.inside is None or seen is None:
        return
    if not view.key:
        file.drop(layer)
        make_table(repo, file, layer, view)
        return
    rows = outside(part, file.rows(seen, view.schema, None))
    with file.suspended(layer, seen):
        file.remove(seen, layer, rows.select(list(view.key.names)))
    note_rows(repo, file, layer, view)


def _drop_outside(
    file: LivingStore, layer: Layer, view: Dataset, part: ShownPart, edited: LayerEdits
) -> int:
    """Remove rows that were committed and are outside of the filter; return how many."""
    seen, keys = file.look(layer), edited.row_keys if edited.keys is None else edited.keys
    if part.inside is None or seen is None:
        return 0
    gone = outside(part, file.rows(seen, view.schema, keys))
    if gone.num_rows:
        with file.suspended(layer, seen):
            file.remove(seen, layer, gone.select(list(view.key.names)))
    return int(gone.num_rows)


def date_table(repo: OpenRepo, file: LivingStore, view: Dataset, head: Revision) -> None:
    """Say in a working copy that a table is of the time of a commit, as Kart does."""
    if head.commit is not None:
        when = read_commit(repo.git.objects, head.commit).committer.time
        file.date(layer_of(file, view).table, when)


def _plan(
    repo: OpenRepo,
    held: Held,
    base: Base,
    path: str,
    new: Dataset | None,
    gone: Sequence[str],
) -> _Plan:
    """Return what becomes of a table; its edits are looked at only where something does.

    Tables that are `gone` make room for those of datasets that are new.
    """
    old = base.views.get(path)
    goes = held.discard or path in held.dropped or path in held.committed
    same = old is not None and new is not None and _tree(old) == _tree(new)
    if old is None and new is not None:
        table = layer_of(held.file, new).table
        # One that moved may be called otherwise only by capitals, which SQLite passes over.
        makes_room = table.lower() in (each.lower() for each in gone)
        if not makes_room and held.file.has_table(table):
            return _adopting(repo, held, path, new)
    if old is None or (same and not goes):
        return _Plan(path, old, new)
    edits = held.committed.get(path) or held.dropped.get(path)
    edits = edits or read_layer(repo, held.file, old)
    if goes and edits.others:
        as_is = path in held.committed and held.as_is
        stays = as_is or (new is not None and can_stay(held.file, edits, old, new))
        return _Plan(path, old, new, edits, kept=not stays)
    if goes or edits.is_empty or _is_committed(edits, new):
        return _Plan(path, old, new, edits)
    merging = held.file.of_merge or repo.git.kart_merge is not None
    if merging and new is not None and can_stay(held.file, edits, old, new):
        return _Plan(path, old, new, edits.all_left())
    if new is not None and stands_apart(repo, held.file, edits, old, new):
        return _Plan(path, old, new, replace(edits.all_left(), said={}))
    return _Plan(path, old, new, edits, kept=True)


def _is_committed(edits: LayerEdits, new: Dataset | None) -> bool:
    """Whether a version has the edited rows as they stand, as where a commit was cut off."""
    if new is None or edits.is_dropped or not new.key or edits.schema != new.schema:
        return False
    keys = edits.row_keys
    there = new.rows_with_keys(keys)
    there = pc.filter(there, pc.is_valid(partners(there.select(list(new.key.names)), keys)))
    mine = _new_rows(edits)
    mine = there.slice(0, 0) if mine is None else mine
    return not any(map(len, pair_rows(there, mine, new.schema, edits.schema)))


def _adopting(repo: OpenRepo, held: Held, path: str, new: Dataset) -> _Plan:
    """Return what becomes of a table that stands already where a dataset's is to be.

    It is taken as that if it holds the same, or is what the dataset was made of.
    """
    try:
        edits = read_layer(repo, held.file, new)
    except HavasuError:
        return _Plan(path, None, new, kept=True)
    fits = edits.seen is not None and edits.seen.is_whole and bool(edits.seen.fid)
    if fits and (path in held.adopted or not edits.batches):
        return _Plan(path, None, new, edits)
    return _Plan(path, None, new, kept=True)


def _tree(view: Dataset) -> Any:
    return getattr(view.folder, "tree", None)


def _write_rows(
    repo: OpenRepo,
    file: LivingStore,
    edits: LayerEdits,
    layer: Layer,
    old: Dataset,
    new: Dataset,
) -> None:
    """Write the rows that differ between two versions, and those that were edited.

    Rows that are left as they stand stay so.
    """
    seen, part = edits.seen, part_of(repo, file, new)
    assert seen is not None
    same = _tree(old) == _tree(new)
    if not same:
        with repo.settings.open_engine(old.size) as engine:
            for batch in row_changes(old, new, engine):
                if edits.others:
                    free = pc.is_null(partners(change_keys(batch, new), edits.other_keys))
                    batch = ChangeBatch(pc.filter(batch.data, free))
                gone = batch.old_rows().select(list(old.key.names))
                file.remove(seen, edits.layer, _absent(gone, batch))
                rows = batch.new_rows()
                hidden = outside(part, rows)
                if hidden.num_rows:
                    file.remove(seen, layer, hidden.select(list(new.key.names)))
                    reserve_keys(repo, file, layer, new, hidden)
                file.put(seen, layer, rows if part.inside is None else part.inside.of(rows))
    for batch in edits.batches:
        for start in range(0, len(batch), BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            touched = change_keys(piece, new)
            # What an edit was made of is at hand, so only another version's rows are looked up.
            rows = piece.old_rows() if same else new.rows_with_keys(touched)
            rows = rows if part.inside is None else part.inside.of(rows)
            there = partners(touched, rows.select(list(new.key.names)))
            file.remove(seen, layer, pc.filter(touched, pc.is_null(there)))
            file.put(seen, layer, rows)


def _absent(gone: pa.RecordBatch, batch: ChangeBatch) -> pa.RecordBatch:
    """Return the keys of rows that go for good, so that others keep their feature ids."""
    mask = pc.is_null(batch.new)
    there = pc.is_valid(batch.old)
    return pc.filter(gone, pc.filter(mask, there))


def _new_rows(edits: LayerEdits) -> pa.RecordBatch | None:
    found = [batch.new_rows() for batch in edits.batches]
    table = pa.Table.from_batches(found) if found else None
    if table is None or not table.num_rows:
        return None
    return pa.RecordBatch.from_arrays(
        [pa.concat_arrays(column.chunks) for column in table.columns], schema=table.schema
    )


def write_as_edits(
    repo: OpenRepo, file: LivingStore, old: Dataset, new: Dataset, *, inside_only: bool
) -> int:
    """Give a table the rows of another version, as edits of the one that it has.

    Changes of rows that a spatial filter hides on both sides are passed over if `inside_only`, and
    how many is returned. Else they come too, and a delete among them is refused.
    """
    before, layer = layer_of(file, old), layer_of(file, new)
    seen, part = file.look(before), part_of(repo, file, old)
    alike = seen is not None and seen.is_whole and same_form(before, layer)
    passed_over = 0
    if alike and seen is not None and old.header.meta != new.header.meta:
        file.describe(seen, layer)
    with repo.settings.open_engine(old.size) as engine:
        if not alike:
            file.drop(before)
            there = ShownPart(rows_inside(limits_of(repo, file).area, new.header), None)
            file.make(layer, _rows_of(new, there, engine))
            seen = file.look(layer)
        for batch in row_changes(old, new, engine):
            if part.inside is not None:
                batch, count = _to_see(batch, part, old, inside_only=inside_only)
                passed_over += count
            names = list(new.key.names)
            new_rows = batch.new_rows()
            gone = _absent(batch.old_rows().select(list(old.key.names)), batch)
            if seen is not None and (alike or part.inside is not None):
                file.remove(seen, layer, gone)
                file.put(seen, layer, new_rows)
            for keys in (gone, new_rows.select(names)):
                file.note(layer, keys)
    return passed_over


def _to_see(
    batch: ChangeBatch, part: ShownPart, old: Dataset, *, inside_only: bool
) -> tuple[ChangeBatch, int]:
    """Return the changes that can be seen in a table that has a part of a dataset."""
    assert part.inside is not None
    was = np.asarray(pc.is_valid(batch.old))
    hidden = was & ~part.inside.mask(batch.old)
    if not inside_only:
        lost = pc.filter(batch.data, pa.array(hidden & np.asarray(pc.is_null(batch.new))))
        if lost.num_rows:
            keys = struct_of(ChangeBatch(lost.slice(0, 1)).old_rows().select(list(old.key.names)))
            label = key_labels(keys, old.schema.select(old.key.names))[0].as_py()
            raise StateError(
                f"{old.path}:feature:{label} is to be deleted, and is outside of the spatial "
                "filter, where no delete can be seen",
                hints=("`havasu-vc checkout --spatial-filter=none` shows all rows",),
            )
        return batch, 0
    seen = was & ~hidden
    there = np.asarray(pc.is_valid(batch.new))
    if part.inside.column in batch.new.type.names:
        seen |= there & part.inside.mask(batch.new)
    return ChangeBatch(pc.filter(batch.data, pa.array(seen))), int((~seen).sum())


def uncommitted(paths: Sequence[str]) -> UncommittedChangesError:
    """Return the error of edits that are in the way."""
    names = " and ".join(paths) if len(paths) < 4 else f"{len(paths)} datasets"
    have = "have" if len(paths) > 1 else "has"
    return UncommittedChangesError(
        f"{names} {have} edits that are not committed",
        hints=("`havasu-vc commit` commits them", "`havasu-vc restore` drops them"),
    )
