"""SQL over a repository: which tables a query names, and the rows that answer it.

    sql(repo, 'SELECT * FROM trees JOIN "trees@v1" AS old USING (id)')

A dataset is a table under its path, and `nz/roads` also as `nz_roads`. It is what its table in
the workspace shows, edits included, where one is checked out; else what HEAD has, or the
revision that is asked for. Under `"PATH@REVISION"` it is as any revision has it. Only what is
named is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from havasu_vc import checkouts
from havasu_vc.errors import DatasetNotFoundError, HavasuError, InvalidArgumentError
from havasu_vc.exchange.duckdb import Database, NoTableError
from havasu_vc.exchange.duckdb_tables import duck_table
from havasu_vc.model.names import TABLES
from havasu_vc.querying.statements import TOLD, calls, names, split_statements, written_by
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset

__all__ = ["Queries", "QueryAnswer", "plain_name", "sql"]


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows of a query."""

    schema: pa.Schema
    """Their columns."""
    batches: Iterator[pa.RecordBatch]
    """The rows, which are read once."""


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
        with ExitStack() as stack:
            self._database = stack.enter_context(Database())
            self._add_tables(text)
            self._add_told(text)
            self._add_functions(text)
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
        return None if found is None else QueryAnswer(found.schema, self._rows(found))

    def _rows(self, found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._told():
            yield from self._database.rows(found)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except NoTableError as error:
            raise self._unknown(error.name) from error

    def _unknown(self, name: str) -> HavasuError:
        if name in self._failed:
            return self._failed[name]
        error = InvalidArgumentError(f"there is no table {name!r}")
        there = ", ".join(sorted(self._here)) or "no dataset yet"
        error.hints = (f"there is {there}", '"DATASET@REVISION" is one as a revision has it')
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

        from havasu_vc.querying.told_tables import told_table  # with all that merges and blames

        for name, arguments in called:
            label = " ".join((f"{name}()", *arguments))
            self._database.add_rows(label, told_table(self._repo, name, arguments))
        for name in dict.fromkeys(name for name, _ in called):
            self._database.add_call(name, TOLD[name])

    def _add_functions(self, text: str) -> None:
        called = {name.lower() for name in names(text) if name[:3].lower() in ("st_", "rs_")}
        if not called:
            return
        from havasu_vc.geo.functions.all_functions import FUNCTIONS

        for function in FUNCTIONS.values():
            # DuckDB takes no sums of groups from Python.
            if function.name.lower() in called and not function.aggregate:
                self._database.add_function(function)

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
        wanted, sign, revision = name.partition("@")
        if not sign or not wanted:
            return None
        try:
            there = self._at(revision)
            path = _matching(wanted, there)
            if path is None:
                raise DatasetNotFoundError(wanted, revision)
        except HavasuError as error:
            self._failed[name] = error  # it may be the name of something else
            return None
        return there[path]


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
