"""SQL over a repository: which tables a query names, and the rows that answer it.

    sql(repo, 'SELECT * FROM trees JOIN "trees@v1" AS old USING (id)')

A dataset is a table under its path, and `nz/roads` also as `nz_roads`. It is what its table in
the workspace shows, edits included, where one is checked out; else what HEAD has, or the
revision that is asked for. Under `"PATH@REVISION"` it is as any revision has it. Only what is
named is opened.

Tables in which a repository tells of itself (commits, refs, changes, who changed a row) are made
when a query calls them, from the same values that `log`, `diff` and `blame` print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc import checkouts
from havasu_vc.errors import (
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    RevisionNotFoundError,
    nearest,
)
from havasu_vc.exchange.duckdb import Database, NoTableError, duck_table, identifier, told_apart
from havasu_vc.exchange.duckdb_functions import plain_answer
from havasu_vc.looking import BlameRequest, DiffRequest, LogRequest, blame_dataset, diff, log
from havasu_vc.merging import view_conflicts
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.names import TABLES, parted_at_revision
from havasu_vc.querying.statements import TOLD, calls, names, split_statements, written_by
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.refs import list_branches, list_tags

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.model.types import Field

__all__ = ["Queries", "QueryAnswer", "plain_name", "sql", "told_table"]


_ABSENT = re.compile(r'Referenced column "(.+?)" not found')


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a query."""

    schema: pa.Schema
    """Their columns."""
    batches: Iterator[pa.RecordBatch]
    """The rows, which are read once."""
    geometries: Mapping[str, Dataset]
    """Columns of bytes that are called as a geometry column of a dataset that was asked."""

    def as_geoparquet(self) -> QueryAnswer:
        """Return the same with geometries as GeoParquet has and describes them."""
        if not self.geometries:
            return self
        from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
        from havasu_vc.exchange.geoparquet import WrittenColumn, format_geo
        from havasu_vc.exchange.native_tables import projjson

        going = {
            name: outgoing_geometry(view.schema.by_name[name], view.crs, None, Notes())
            for name, view in self.geometries.items()
        }
        columns = {
            name: WrittenColumn(
                (), projjson(each.target), edges="spherical" if each.field.edges else None
            )
            for name, each in going.items()
        }
        geo = format_geo(columns, next(iter(columns)))
        schema = self.schema.with_metadata({**(self.schema.metadata or {}), "geo": geo})

        def converted() -> Iterator[pa.RecordBatch]:
            for batch in self.batches:
                shown = [
                    going[field.name].canonical(column).cast(field.type)
                    if field.name in going
                    else column
                    for field, column in zip(schema, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(shown, schema=schema)

        return QueryAnswer(schema, converted(), self.geometries)


def plain_name(path: str) -> str:
    """Return what a dataset is called where its path would have to be quoted.

    >>> plain_name("nz/road-sections"), plain_name("2024")
    ('nz_road_sections', '_2024')
    """
    plain = re.sub(r"\W", "_", path)
    return f"_{plain}" if plain[:1].isdigit() else plain


class Queries:
    """The statements of some SQL, and the tables that they name. Use it as a context manager."""

    def __init__(self, repo: OpenRepo, text: str, revision: str | None = None) -> None:
        self._repo = repo
        self._revision = revision
        self.statements = tuple(split_statements(text))
        """The statements."""
        for statement in self.statements:
            _require_reading(statement)
        self._failed: dict[str, HavasuError] = {}
        self._views: list[Dataset] = []
        self._called: dict[str, pa.Schema] = {}
        with ExitStack() as stack:
            self._database = stack.enter_context(Database())
            self._database.add_functions(text)
            self._add_tables(text)
            self._add_told(text)
            self._database.close_off()
            self._close = stack.pop_all().close

    def __enter__(self) -> Queries:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what it holds; answers end."""
        self._close()

    def ask(self, statement: str, most: int | None = None) -> QueryAnswer | None:
        """Return the rows of one of the statements, or the first; None where it gives none."""
        with self._told():
            found = self._database.ask(statement, most)
        if found is None:
            return None
        encodings = {
            field.name: field.geometry.encoding
            for view in self._views
            for field in view.schema.geometries
            if field.geometry is not None
        }
        schema, plain = plain_answer(found.schema, encodings)
        return QueryAnswer(schema, map(plain, self._rows(found)), self._geometries(schema))

    def _geometries(self, schema: pa.Schema) -> dict[str, Dataset]:
        """Return the datasets whose geometry columns an answer has, by the column's name."""
        found = {}
        for column in schema:
            same = [
                (view, field)
                for view in self._views
                for field in view.schema.geometries
                if field.name == column.name
            ]
            # Where datasets differ, nobody says of which the column is.
            if len({(_system(view, field), field.edges) for view, field in same}) != 1:
                continue
            if pa.types.is_binary(column.type) and schema.names.count(column.name) == 1:
                found[column.name] = same[0][0]
        return found

    def _rows(self, found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._told():
            yield from self._database.rows(found)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except NoTableError as error:
            raise self._unknown(error.name) from error
        except InvalidArgumentError as error:
            if (absent := _ABSENT.search(error.message)) is not None and self._called:
                error.hints = self._hints_of_column(absent[1]) or error.hints
            raise

    def _hints_of_column(self, name: str) -> tuple[str, ...]:
        """Return where a column is that a query names, and the tables it asks have not."""
        for schema in self._called.values():
            rows = [schema.field(each).type for each in ("old", "new") if each in schema.names]
            for column in (column.name for row in rows for column in row):
                if column.lower() == name.lower():
                    spelt = column if column.isidentifier() else identifier(column)
                    return (f"new.{spelt} is its value after a change, old.{spelt} before it",)
        if self._views:  # it may have been meant of one of these
            return ()
        return tuple(f"{c}() has {', '.join(schema.names)}" for c, schema in self._called.items())

    def _unknown(self, name: str) -> HavasuError:
        if name in self._failed:
            return self._failed[name]
        error = InvalidArgumentError(f"there is no table {name!r}")
        there = ", ".join(sorted(self._here)) or "no dataset yet"
        error.hints = (
            *nearest(name, self._here),
            f"there is {there}",
            '"DATASET@REVISION" is one as a revision has it',
        )
        return error

    def _add_tables(self, text: str) -> None:
        self._here = self._datasets()
        wanted = names(text)
        if any(re.match(r"SHOW\b", each, re.IGNORECASE) for each in self.statements):
            wanted += self._here
        taken: dict[str, str] = {}
        for name in wanted:
            open_view = self._opener(name)
            if open_view is None:
                continue
            if (other := taken.setdefault(name.lower(), name)) != name:
                if _matching(name, self._here) == _matching(other, self._here):
                    continue
                raise InvalidArgumentError(
                    f"SQL does not tell {other!r} and {name!r} apart, which differ in case alone"
                )
            view = open_view()
            self._views.append(view)
            self._database.add(name, duck_table(view, f"havasu {len(self._views)}"))

    def _add_told(self, text: str) -> None:
        called = [call for call in calls(text) if call[0] in TOLD]
        if not called:
            return

        for name, arguments in called:
            label = " ".join((f"{name}()", *arguments))
            told = told_table(self._repo, name, arguments)
            self._called.setdefault(name, told.schema)
            self._database.add_rows(label, told)
        for name in dict.fromkeys(name for name, _ in called):
            parameters = TOLD[name]
            self._database.add_call(name, dict.fromkeys((parameters, parameters[:1])))

    def _datasets(self) -> Mapping[str, Callable[[], Dataset]]:
        """Return what opens each dataset that needs no revision, by path."""
        found = self._at(self._revision or "HEAD")
        if self._revision is None and not self._repo.git.is_bare:
            # What is not edited is as HEAD has it, and to know that costs little.
            if not checkouts.is_untouched(self._repo):
                found.update(checkouts.shown_datasets(self._repo))
        return found

    def _at(self, revision: str) -> dict[str, Callable[[], Dataset]]:
        folders = self._repo.folders(self._repo.revision(revision))

        def opener(path: str) -> Callable[[], Dataset]:
            return lambda: self._repo.dataset(path, revision)

        return {path: opener(path) for path, each in folders.items() if each.marker in TABLES}

    def _opener(self, name: str) -> Callable[[], Dataset] | None:
        """Return what opens the dataset of a name; None where it is no dataset's."""
        path = _matching(name, self._here)
        if path is not None:
            return self._here[path]
        wanted, sign, revision = parted_at_revision(name, self._here)
        if not sign or not wanted:
            return None
        try:
            there = self._at(revision)
            path = _matching(wanted, there)
            if path is None:
                raise DatasetNotFoundError(wanted, revision, there)
        except HavasuError as error:
            self._failed[name] = error  # it may be the name of something else
            return None
        return there[path]


def _system(view: Dataset, field: Field) -> str | None:
    name = None if field.geometry is None else field.geometry.crs
    return None if name is None else view.crs.get(name, name)


def _matching(name: str, paths: Mapping[str, object]) -> str | None:
    """Return the dataset that a name means: its path, or that without what wants quotes."""
    if name in paths:
        return name
    lowered = name.lower()
    for form in (str.lower, lambda path: plain_name(path).lower()):
        found = [path for path in paths if form(path) == lowered]
        if len(found) > 1:
            raise InvalidArgumentError(
                f"{name!r} may be {' or '.join(map(repr, found))}", hints=('quote one: "PATH"',)
            )
        if found:
            return found[0]
    return None


def _require_reading(statement: str) -> None:
    word = written_by(statement)
    if word is not None:
        raise InvalidArgumentError(
            f"DuckDB only reads here, and {word} changes tables",
            hints=("`havasu-vc sql --engine spark` changes tables of the checkout",),
        )


def sql(repo: OpenRepo, query: str, revision: str | None = None) -> pa.Table:
    """Return the rows of a query in SQL as an Arrow table.

    Datasets are tables, as the workspace or HEAD has them, or a `revision`; and
    `"DATASET@REVISION"` is one as any revision has it.
    """
    with Queries(repo, query, revision) as queries:
        answer = None
        for statement in queries.statements:
            answer = queries.ask(statement)
        if answer is None:
            raise InvalidArgumentError("there is no statement in it that gives rows")
        return pa.Table.from_batches(answer.batches, answer.schema)


_TIME = pa.timestamp("s", tz="UTC")
_COMMITS = pa.schema(
    [
        ("commit", pa.string()),
        ("parents", pa.list_(pa.string())),
        ("author", pa.string()),
        ("author_email", pa.string()),
        ("author_time", _TIME),
        ("committer", pa.string()),
        ("commit_time", _TIME),
        ("message", pa.string()),
    ]
)
_REFS = pa.schema([("name", pa.string()), ("kind", pa.string()), ("commit", pa.string())])
_CHANGE = ("change", "old", "new")
_CONFLICTS = pa.schema([("dataset", pa.string()), ("kind", pa.string()), ("name", pa.string())])


def told_table(repo: OpenRepo, name: str, arguments: Sequence[str]) -> pa.Table:
    """Return what a function of `TOLD` gives for its arguments."""
    wanted = TOLD[name]
    if len(arguments) != len(wanted) and (name != "changes" or len(arguments) != 1):
        form = ", ".join(f"'{each.upper()}'" for each in wanted)
        raise InvalidArgumentError(f"it is {name}({form}), with each of these as text")
    return _MAKERS[name](repo, *arguments)


def _commits_of(infos: Iterable[CommitInfo]) -> pa.Table:
    rows = list(infos)
    told = ("id", "parents", "author_name", "author_email", "author_time", "committer_name")
    columns = [[getattr(each, name) for each in rows] for name in (*told, "commit_time", "message")]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _COMMITS, strict=True)], _COMMITS)


def _commits(repo: OpenRepo) -> pa.Table:
    """Return the commits that HEAD reaches, newest first."""
    return _commits_of([] if repo.head().commit is None else log(repo, LogRequest()))


def _refs(repo: OpenRepo) -> pa.Table:
    rows = [(each.name, "branch", each.commit) for each in list_branches(repo.git)]
    rows += [(e.name, "remote branch", e.commit) for e in list_branches(repo.git, remote=True)]
    rows += [(each.name, "tag", each.commit) for each in list_tags(repo.git)]
    return pa.Table.from_pylist(
        [dict(zip(_REFS.names, row, strict=True)) for row in rows], schema=_REFS
    )


def _changes(repo: OpenRepo, revisions: str, dataset: str | None = None) -> pa.Table:
    """Return the changes of a dataset, or of the only one: `change`, and the row as two structs."""
    if dataset is None:
        dataset, *others = repo.datasets("HEAD") or ("",)
        if others or not dataset:
            raise InvalidArgumentError(
                f"it is not clear of which dataset changes('{revisions}') are",
                hints=(f"name it, as in changes('{revisions}', 'DATASET')",),
            )
    for found in diff(repo, DiffRequest(revisions, [dataset])):
        return _changes_of(found)
    view = repo.dataset(dataset, "HEAD")  # raises where there is none
    row = pa.struct(list(arrow_schema(view.schema)))
    return pa.schema([("change", pa.string()), ("old", row), ("new", row)]).empty_table()


def _changes_of(found: DatasetDiff) -> pa.Table:
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pc.if_else(
                    pc.is_null(each.old),
                    "insert",
                    pc.if_else(pc.is_null(each.new), "delete", "update"),
                ),
                each.old,
                each.new,
            ],
            _CHANGE,
        )
        for each in found.changes
    ]
    if batches:
        return pa.Table.from_batches(batches)
    sides = [
        pa.struct(list(arrow_schema((side or found.header).schema)))
        for side in (found.old, found.new)
    ]
    return pa.schema(
        [("change", pa.string()), *zip(("old", "new"), sides, strict=True)]
    ).empty_table()


def _history(repo: OpenRepo, dataset: str) -> pa.Table:
    """Return every change of a dataset, newest first, with the commit that made it.

    Merges bring what other commits changed, and are left out.
    """
    infos = [each for each in log(repo, LogRequest(filters=[dataset])) if len(each.parents) < 2]
    commits, pieces = _commits_of(infos), []
    for place, each in enumerate(infos):
        try:
            diffs = list(diff(repo, DiffRequest(f"{each.id}^?..{each.id}", [dataset])))
        except RevisionNotFoundError as error:  # a shallow clone begins with it
            repo.settings.note(f"{error.reason or error.message}: {error.hints[0]}")
            continue
        for found in diffs:
            changes = _changes_of(found)
            if changes.num_rows:
                told = commits.take(np.full(changes.num_rows, place))
                pieces.append(pa.table(told.columns + changes.columns, [*_COMMITS.names, *_CHANGE]))
    if pieces:
        # A row is the struct that its commit knew; here it has the columns of all of them.
        return pa.concat_tables(pieces, promote_options="permissive")
    none = _changes(repo, "HEAD...HEAD", dataset)
    return pa.schema([*_COMMITS, *none.schema]).empty_table()


def _blame(repo: OpenRepo, dataset: str) -> pa.Table:
    """Return the key of each row, and the commit that changed it last.

    Of a key column that is called as one of the commit's, the other is `commit_1`.
    """
    found = blame_dataset(repo, BlameRequest(dataset))
    commits = _commits_of(found.commits)
    names = told_apart([*found.key, *_COMMITS.names])
    pieces = []
    for batch in found.batches:
        told = commits.take(batch.column("commit"))
        pieces.append(pa.table([*batch.column("key").flatten(), *told.columns], names))
    if pieces:
        return pa.concat_tables(pieces)
    schema = arrow_schema(repo.dataset(dataset).schema.select(found.key))
    return pa.schema([*schema, *_COMMITS]).empty_table().rename_columns(names)


def _conflicts(repo: OpenRepo) -> pa.Table:
    """Return what is in conflict in the merge that waits."""
    rows = []
    for each in view_conflicts(repo):
        rows += [(each.path, "meta", item.name) for item in each.meta]
        labels = [] if each.rows is None else each.rows.column("label").to_pylist()
        rows += [(each.path, "feature", label) for label in labels]
    return pa.Table.from_pylist(
        [dict(zip(_CONFLICTS.names, row, strict=True)) for row in rows], schema=_CONFLICTS
    )


_MAKERS: Mapping[str, Callable[..., pa.Table]] = {
    "blame": _blame,
    "changes": _changes,
    "commits": _commits,
    "conflicts": _conflicts,
    "history": _history,
    "refs": _refs,
}
