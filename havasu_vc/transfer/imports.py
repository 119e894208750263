"""Importing: layers of a file become datasets, in one commit.

A dataset that is there already is an error, unless it is to be replaced. Then the
source is compared with it by key, and only what differs is committed, which is how
agencies publish one release after another. Rows of a source without a key are told by what
they hold, as Kart does it: those that were there before keep the number that they were given,
and so do those that differ in one column from a row of the last import that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from havasu_vc.checkouts import keeping_out
from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.havasu.evolving import evolved
from havasu_vc.datasets.havasu.far import edited_there, put_at, sent
from havasu_vc.datasets.kinds import DEFAULT, DatasetKind, kind_named, require_kind, usual_kind
from havasu_vc.datasets.protocol import Dataset, EarlierImport, NewTable, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.engine.settings import OpensEngine
from havasu_vc.errors import (
    CorruptDatasetError,
    CrsError,
    InvalidArgumentError,
    KeyViolationError,
    SchemaViolationError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.addresses import shown_place, table_place
from havasu_vc.exchange.geotiff_source import GeoTiffSource
from havasu_vc.exchange.importing import Curve, write_new
from havasu_vc.exchange.owned_imports import import_dealt
from havasu_vc.exchange.source import EngineOf, Source, SourceOptions
from havasu_vc.exchange.source_files import require_unchanged, stamps_of
from havasu_vc.exchange.sources import dataset_name, declared_types, open_sources, read_as, spread
from havasu_vc.geo.crs import keeps_system
from havasu_vc.history.diff import changes_counted, row_changes
from havasu_vc.history.owned_edits import can_be_owned, owned_edit
from havasu_vc.history.owned_rows import can_be_dealt, live_pieces, owned_rows
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.evolution import (
    check_evolution,
    field_ids,
    match_by_name,
    with_stored_names,
)
from havasu_vc.model.names import KART_VERSION, check_dataset_path, repeated
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ImportResult, Understood
from havasu_vc.repo.transaction import Transaction
from havasu_vc.sharing import far_place
from havasu_vc.store.log import commits
from havasu_vc.store.object_urls import is_url
from havasu_vc.store.trees import edit_tree, find_entry
from havasu_vc.transfer.import_messages import import_message
from havasu_vc.transfer.orders import check_order, curve_column, order_notes
from havasu_vc.transfer.possible_keys import likely_key
from havasu_vc.transfer.rekeying import changed_items, key_notes, other_key, rekeyed, with_key_of
from havasu_vc.transfer.replaced import Replaced, listed_changes, listed_keys, listed_tasks
from havasu_vc.transfer.requests import ImportRequest
from havasu_vc.transfer.understanding import (
    TableInfo,
    attached,
    described,
    far_off,
    in_systems,
    in_the_systems_of,
    info_documents,
    not_there,
    systems_of,
    understood,
    version_of,
    with_column_names,
    with_rows_named,
)

__all__ = ["import_layers", "replacement"]


def import_layers(repo: OpenRepo, request: ImportRequest) -> ImportResult:
    """Import layers as datasets, in one commit."""
    check_order(request.order)
    if request.kind is not None:
        require_kind(request.kind)
    options = request.options or SourceOptions()
    request = replace(
        request, options=replace(options, allowed=(*options.allowed, *repo.storage.allowed))
    )
    if request.link:
        return _link(repo, request)
    kind = kind_of_new(repo) if request.kind is None else kind_named(request.kind)
    options = replace(request.options or options, for_kart=kind.of_kart)
    request = replace(request, kind=kind.name, options=options)
    with ExitStack() as stack:
        return _imported(repo, request, kind, repo.settings.opened_once(stack))


def _imported(
    repo: OpenRepo, request: ImportRequest, kind: DatasetKind, engine_of: OpensEngine
) -> ImportResult:
    dry_run, message = request.dry_run, request.message
    stamps = stamps_of(request.place)
    chosen = _sources(request, engine_of)
    if not dry_run:
        _ = repo.git.committer  # that nobody is configured must not come out after hours
    with Transaction(repo, branch=request.branch, dry_run=dry_run) as transaction:
        known, replaced = transaction.folders, Replaced(repo, transaction)
        _check_paths([path for _, path in chosen], known, replace=request.replace)
        size = sum(source.input_bytes for source, _ in chosen)
        taking = _Taking(repo, request, kind, transaction, engine_of(size))
        layers = {
            path: taking.take(path, source, replaced.dataset(path) if path in known else None)
            for source, path in chosen
        }
        require_unchanged(stamps)
        edits = [layer.edit for layer in layers.values() if layer.edit.blobs]
        counts = {path: layer.edit.counts for path, layer in layers.items()}
        taken = {path: layer.understood for path, layer in layers.items()}
        notes = tuple(note for layer in layers.values() for note in layer.notes)
        if dry_run or not (edits or replaced.merge or request.allow_empty):
            return ImportResult(None, repo.head_branch, counts, notes, taken)
        text = message or import_message(request, chosen, of_kart=kind.of_kart)
        new = [each for each in chosen if each[1] not in known]
        paths = [path for _, path in new]
        with keeping_out(repo.git, paths, out=request.no_checkout):
            commit = transaction.commit(edits, text, merge=replaced.merge or attached(kind, new))
            counts |= transaction.recounted
    return ImportResult(commit, repo.head_branch, counts, notes, taken)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer that was taken in."""

    edit: TreeEdit
    understood: Understood
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Taking:
    """Layers taken into one transaction."""

    repo: OpenRepo
    request: ImportRequest
    kind: DatasetKind
    transaction: Transaction
    engine: Engine

    def take(self, path: str, source: Source, old: Dataset | None) -> _Layer:
        """Take a layer in as a new dataset, or as the next version of an `old` one."""
        repo, request, storage = self.repo, self.request, self.transaction.storage
        if self.engine.distributed:
            source = spread(source)
        found, kept = False, list[str]()
        if old is not None and isinstance(source, GeoTiffSource):
            source = source.cut_as(old.schema)
        elif old is not None:
            request = request.of_key(old.schema, source)
            named = with_column_names(old.schema, request.renames, path)
            source = read_as(source, named, self.engine)
            source, kept = in_the_systems_of(source, old)
        elif request.find_key and not source.schema.key:
            source, found = self._with_key(source, path), True
        notes = [*kept, *source.notes]
        other = None if old is None else other_key(old, request)
        key = other or (source.schema if old is None else old.schema).key.names
        with _naming(path, source, key, old is not None and other is None):
            if old is not None:
                head, limit = self.transaction.head.commit, request.similarity_detection_limit
                earlier = earlier_import(repo, head or "", old, limit)
                edit = _replacing(repo, old, source, self.engine, request, earlier)
                notes += described(old, source, request.renames, changed_items(old, edit))
                notes += () if other is None else key_notes(old, other)
                view: Dataset | None = old.after(edit) if edit.blobs else old
            else:
                if request.replace:
                    notes += not_there(path, self.transaction.folders)
                edit = _fresh(repo, path, source, storage, self.engine, request)
                view = version_of(path, self.kind, edit, storage)
        notes += order_notes(path, source.schema, old, request.order)
        rows = edit.counts.inserts if view is None else view.rows
        told = understood(
            source,
            request.options or SourceOptions(),
            rows,
            dataset_key=None if old is None or other is not None else old.key.names,
            found=found,
            made=old is None and not self.kind.in_files,
            engine=self.engine,
            anywhere=self._anywhere,
        )
        notes += far_off(view) if view is not None and edit.counts.total else ()
        return _Layer(edit, told, tuple(notes))

    @property
    def _anywhere(self) -> bool:
        """Whether tasks that read the source need no file that this machine alone has.

        Where the data belongs in a bucket, executors read what is imported in any case.
        """
        there = self.kind.in_files and self.transaction.storage.on_demand
        return there or is_url(self.request.place)

    def _with_key(self, source: Source, path: str) -> Source:
        """Return a source with the likeliest column that can be its key."""
        key = likely_key(source, path, self.engine, anywhere=self._anywhere)
        options = replace(self.request.options or SourceOptions(), primary_key=(key,))
        (found,) = _opened(self.request, [source.name], options, lambda _: self.engine)
        return spread(found) if self.engine.distributed else found


def _link(repo: OpenRepo, request: ImportRequest) -> ImportResult:
    from havasu_vc.transfer.link_imports import import_links, require_linkable

    place = require_linkable(request.place, request.kind, request.order)
    if request.layers or request.all_layers:
        raise InvalidArgumentError("a table has no layers", hints=("leave out --layer",))
    if request.options is not None and request.options.bbox is not None:
        raise InvalidArgumentError(
            "linked files have all of their rows", hints=("leave out --link, or --bbox",)
        )
    if request.kind is None and not (usual := kind_of_new(repo)).in_files:
        raise InvalidArgumentError(
            f"this is a repository of {usual.name.capitalize()} datasets, "
            "which have no files to link",
            hints=(f"--as {DEFAULT.name} makes a dataset of the other kind in it",),
        )
    return import_links(
        repo,
        place,
        request.destination,
        request.options or SourceOptions(),
        replace_existing=request.replace,
        dry_run=request.dry_run,
        message=request.message or f"Link to {request.place}",
        branch=request.branch,
        no_checkout=request.no_checkout,
    )


def kind_of_new(repo: OpenRepo) -> DatasetKind:
    """Return the kind that new datasets of a repository have: Kart's in one of Kart's."""
    head = repo.head()
    version = find_entry(repo.git.objects, head.tree, KART_VERSION) if head.tree else None
    kinds = {folder.marker for folder in repo.folders(head).values()} if version else set()
    # A bare one says so by a setting, until its first commit does.
    is_new = repo.git.follows_kart if head.commit is None else repo.git.is_kart
    is_kart = is_new if version is None else DEFAULT.marker not in kinds
    return usual_kind(of_kart=is_kart)


def _check_paths(paths: Sequence[str], known: Iterable[str], *, replace: bool) -> None:
    """Raise unless datasets can be made at these paths, or replaced where that is wanted."""
    existing = set(known)
    for path in paths:
        check_dataset_path(path, existing - {path})
        if path in existing and not replace:
            raise InvalidArgumentError(
                f"there is a dataset {path!r} already",
                hints=("--replace commits what differs from it; or give another name",),
            )
        existing.add(path)


def _opened(
    request: ImportRequest,
    layers: Sequence[str],
    options: SourceOptions | None,
    engine_of: EngineOf,
) -> list[Source]:
    """Open layers of the location, those that are named or all; or the rows that stand there."""
    if isinstance(request.location, str | Path):
        likely = None if request.all_layers else request.destination
        return open_sources(
            request.place, layers, options=options, likely=likely, engine_of=engine_of
        )
    from havasu_vc.exchange.frames import open_frame

    if request.destination is None or (layers and list(layers) != [request.destination]):
        raise InvalidArgumentError(
            "rows have no layers, nor a name that the dataset could have",
            hints=("give the dataset's path as `destination`",),
        )
    return [open_frame(request.location, request.destination, options or SourceOptions())]


def _sources(request: ImportRequest, engine_of: EngineOf) -> list[tuple[Source, str]]:
    """Return the sources to read, each with the path of its dataset."""
    names, paths = [], []
    for layer in request.layers:
        name, _, path = layer.partition(":")
        names.append(name)
        paths.append(path or None)
    sources = _opened(request, names, request.options, engine_of)
    if len(sources) > 1 and not names and not request.all_layers:
        listed = ", ".join(source.name for source in sources)
        raise InvalidArgumentError(
            f"{shown_place(request.place)} has {len(sources)} layers: {listed}",
            hints=("name one with --layer, or take all with --all-layers",),
        )
    if request.destination is not None:
        if len(sources) > 1:
            raise InvalidArgumentError(
                "one name cannot stand for several layers", hints=("write LAYER:DATASET",)
            )
        paths = [request.destination.rstrip("/")]
    paths = paths or [None] * len(sources)
    named = [
        (s, p if p is not None else dataset_name(s)) for s, p in zip(sources, paths, strict=True)
    ]
    twice = repeated(path for _, path in named)
    if twice:
        first, second = [s for s, path in named if path == twice[0]][:2]
        both = " and ".join(table_place(request.place, each.name) for each in (first, second))
        raise InvalidArgumentError(
            f"both {both} would become the dataset {twice[0]!r}",
            hints=("LAYER:DATASET gives each a name",),
        )
    return named


def _meta(source: Source, kind: DatasetKind, said: TableInfo, but: Set[str]) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    if source.title:
        meta["meta/title"] = source.title.encode()
    if source.description:
        meta["meta/description"] = source.description.encode()
    for name in sorted(source.crs.keys() - but):
        meta[f"meta/crs/{name}.wkt"] = kind.crs_document(source.crs[name])
    return meta | info_documents(said, kind)


def _fresh(
    repo: OpenRepo,
    path: str,
    source: Source,
    storage: Storage,
    engine: Engine,
    request: ImportRequest,
) -> TreeEdit:
    kind = kind_named(request.kind or DEFAULT.name)
    if not kind.in_files and request.order != "key":
        raise InvalidArgumentError(
            f"the rows of a {kind.name.capitalize()} dataset stand where their keys say",
            hints=("leave out --order",),
        )
    column = curve_column(source.schema, request.order)
    hilbert = None if column is None else source.schema.by_name[column].id
    meta = _meta(source, kind, request.said(source, path), frozenset())
    types = declared_types(source)
    new = kind.new(path, source.schema, storage, meta=meta, hilbert=hilbert, declared=types)
    curve = None if column is None else Curve(column, tuple(source.tasks([column])))
    far = engine.distributed and storage.on_demand and request.replace_ids is None
    place = far_place(repo) if far else None
    url = None if place is None else storage.put_at(place, apart=engine.apart)
    if url is not None and new.files is not None:
        names, size = list(new.schema.key.names), source.input_bytes
        keys = source.tasks(names) if names else []
        every = source.tasks()
        return import_dealt(new.files, every, keys, url, engine, input_bytes=size, curve=curve)
    tasks = source.tasks()
    if request.replace_ids is not None:
        tasks = listed_tasks(tasks, listed_keys(source.schema, request.replace_ids))
    return _written(new, tasks, storage, engine, source.input_bytes, curve)


def _written(
    new: NewTable,
    tasks: Sequence[Task],
    storage: Storage,
    engine: Engine,
    size: int,
    curve: Curve | None,
) -> TreeEdit:
    if new.files is None:
        return write_new(new, tasks, storage, engine, input_bytes=size)
    return write_new(new, tasks, storage, engine, input_bytes=size, curve=curve)


@contextmanager
def _naming(path: str, source: Source, key: Sequence[str], held: bool) -> Iterator[None]:
    """Have an error about keys name the dataset, and the rows."""
    try:
        yield
    except KeyViolationError as error:
        raise with_rows_named(error, path, source, key, held=held) from error


def _replacing(
    repo: OpenRepo,
    old: Dataset,
    source: Source,
    engine: Engine,
    request: ImportRequest,
    earlier: EarlierImport | None,
) -> TreeEdit:
    """Return the edit that makes a dataset hold what a source does."""
    key = other_key(old, request)
    schema = in_systems(_evolved(old, source.schema, request, key), old, source)
    kind, now = kind_named(old.kind), systems_of(schema)
    said = request.said(source, old.path)
    given = info_documents(said, kind)
    meta: dict[str, bytes | None] = {
        name: data
        for name, data in _meta(source, kind, said, systems_of(source.schema) - now).items()
        if (known := old.folder.read(name)) is None
        or name in given
        or (name.startswith("meta/crs/") and not _same_definition(known, data))
    }
    gone = (f"meta/crs/{name}.wkt" for name in systems_of(old.schema) - now)
    meta |= dict.fromkeys((*gone, *request.gone(source, old)))
    tasks = [task_of(renamed, task, schema) for task in source.tasks()]
    if key is not None:
        edit = rekeyed(old, schema, meta, tasks, engine, size=source.input_bytes)
        return replace(edit, counts=changes_counted(old, old.after(edit), engine))
    if request.replace_ids is not None:
        keys = listed_keys(schema, request.replace_ids)
        return _listed(old, tasks, schema, meta, engine, source.input_bytes, keys)
    return replacement(old, tasks, schema, meta, engine, source.input_bytes, earlier=earlier)


def earlier_import(repo: OpenRepo, head: str, old: Dataset, limit: int) -> EarlierImport | None:
    """Return where rows of a source without a key are looked for; None if they have keys."""
    if limit < 0:
        raise InvalidArgumentError("how many rows are searched is at least zero")
    if old.keys_item is None:
        return None
    return EarlierImport(partial(_last_import, repo, head, old, old.keys_item), limit)


def _last_import(repo: OpenRepo, head: str, old: Dataset, item: str) -> Dataset:
    """Return the dataset as the last import left it, which gave the keys that are known.

    That is the first of the commits up to HEAD, in order of time, since when the document
    has been what it is.
    """
    inside = f"{old.path}/{old.marker}"
    wanted = find_entry(repo.git.objects, repo.resolve(head).tree, f"{inside}/{item}")
    found, kind = old, kind_named(old.kind)
    with suppress(CorruptDatasetError):  # a shallow clone may not go back that far
        for commit in commits(repo.git, head):
            if find_entry(repo.git.objects, commit.tree, f"{inside}/{item}") != wanted:
                break
            tree = find_entry(repo.git.objects, commit.tree, inside)
            if tree is not None:
                folder = TreeFolder(repo.git.objects, tree.id)
                found = kind.open(old.path, folder, old.storage, commit.id[:10], old.marker)
    return found


def _same_definition(old: bytes, new: bytes) -> bool:
    """Whether two definitions of a CRS say the same, so that the one that is there can stay."""
    with suppress(CrsError):
        return keeps_system(old.decode(errors="replace"), new.decode())
    return False


def _evolved(
    old: Dataset, incoming: Schema, request: ImportRequest, key: Sequence[str] | None
) -> Schema:
    """Return the columns that a dataset gets, with another key if one is given.

    They are told by id within one table, else by name.
    """
    if key is None and request.same_columns and old.in_files is not None:
        schema = with_stored_names(Schema(incoming.fields, old.schema.identifier_ids))
        with suppress(SchemaViolationError):
            check_evolution(old.schema, schema)
            return schema
    known = with_column_names(old.columns_of_source(incoming), request.renames, old.path, incoming)
    if key is not None:
        known = Schema(known.fields, ())
    schema = match_by_name(known, incoming, field_ids(old.last_column_id))
    return schema if key is None else with_key_of(schema, key)


@kernel
def renamed(task: Task, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in the columns of a schema, matched by name."""
    target = arrow_schema(schema)
    for batch in run_task(task):
        columns = []
        for wanted in target:
            column = batch.column(wanted.name)
            try:
                columns.append(column if column.type == wanted.type else column.cast(wanted.type))
            except pa.ArrowException as error:
                raise UnsupportedTypeError(wanted.name, str(error).splitlines()[0]) from error
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def replacement(
    old: Dataset,
    tasks: Sequence[Task],
    schema: Schema,
    meta: Mapping[str, bytes | None],
    engine: Engine,
    size: int,
    *,
    earlier: EarlierImport | None = None,
) -> TreeEdit:
    """Return the edit that makes a dataset hold the rows of some tasks, and no others.

    Tasks that own intervals of keys compare rows and write what differs, in the bucket where the
    data is if it is away. Where there are none, rows are staged as a dataset of their own first,
    and compared with the old one.
    """
    documents: dict[str, bytes | None] = {
        name: data for name, data in meta.items() if old.folder.read(name) != data
    }
    held = old.in_files
    if held is not None and (can_be_owned(held, schema) or can_be_dealt(held, schema)):
        (there,) = edited_there(held, distributed=engine.distributed, apart=engine.apart)
        url = put_at(there)
        more, edit = evolved(there, schema)
        with edit:
            edit.add_documents(documents)
            if can_be_owned(held, schema):
                owned_edit(edit, tasks, "overwrite", engine, url=url)
            else:
                pieces = live_pieces(edit.dataset)
                owned_rows(edit, pieces, tasks, "overwrite", engine, size=size, url=url)
            if not (edit.counts.total or documents or (more and schema != old.schema)):
                return TreeEdit(old.path, {})
            made = edit.finish()
            return made if url is None else sent(made, held.storage.staging, url)
    new = old.remade(schema, has_key=bool(schema.key), earlier=earlier)
    files = new.files
    curve = None if files is None or files.hilbert is None else Curve(files.hilbert)
    fresh = _written(new, tasks, old.storage, engine, size, curve)
    if not schema.key and old.keys_item is not None:
        remembered = fresh.blobs[old.keys_item]
        assert isinstance(remembered, bytes)
        if old.folder.read(old.keys_item) != remembered:
            documents[old.keys_item] = remembered
    after = new.schema if old.key and not schema.key else schema
    more, other = old.evolved(after)
    with other:
        other.add_documents(documents)
        other.collect(row_changes(old, _staged(old, fresh), engine))
        if not (other.counts.total or documents or (more and after != old.schema)):
            return TreeEdit(old.path, {})
        return other.finish()


def _listed(
    old: Dataset,
    tasks: Sequence[Task],
    schema: Schema,
    meta: Mapping[str, bytes | None],
    engine: Engine,
    size: int,
    keys: pa.RecordBatch | None,
) -> TreeEdit:
    """Return the edit that makes a dataset hold the rows with some keys as some tasks do."""
    documents = {name: data for name, data in meta.items() if old.folder.read(name) != data}
    after = old.schema if not schema.key else schema
    more, edit = old.evolved(after)
    with edit:
        edit.add_documents(documents)
        if keys is not None:
            new, few = old.remade(schema), listed_tasks(tasks, keys)
            fresh = _written(new, few, old.storage, engine, size, None)
            edit.collect(listed_changes(old, _staged(old, fresh), keys, schema))
        if not (edit.counts.total or documents or (more and after != old.schema)):
            return TreeEdit(old.path, {})
        return edit.finish()


def _staged(old: Dataset, fresh: TreeEdit) -> Dataset:
    """Return what was written for a dataset as a version of it, which stands in no tree."""
    sink = old.storage.sink
    if old.in_files is None and sink is not None:
        folder: Folder = TreeFolder(sink, edit_tree(sink, None, fresh.blobs))
    else:
        folder = edited(None, fresh)
    return kind_named(old.kind).open(old.path, folder, old.storage, "the source", old.marker)
