"""The types of the columns of a CSV file and its rows, found by tasks that each read some of it.

First tasks look for places at which the file can be cut (`csv_cuts`), each at some of its bytes.
Then others read the rows between these, and what each says of its rows adds up to what one would
say that read them all (`csv_types`). Whoever asks gets some hundred bytes for each column and
task, and reads nothing. A file that cannot be cut is read by one task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from functools import reduce
from typing import Any, cast

import pyarrow as pa

from havasu_vc.datasets.havasu.owners import parse_value, report_batch
from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.csv_cuts import MARK, Span, Stretch, can_be_cut, look_at, spans_of
from havasu_vc.exchange.csv_text import (
    CsvForm,
    RowTooLongError,
    bytes_of,
    header,
    require_closed,
    text_batches,
    translated,
)
from havasu_vc.exchange.csv_types import Judgement, Misfit, NoNumber, misfits, no_number
from havasu_vc.exchange.source import ONE_BY_ONE, Running
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Type
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import is_url

__all__ = ["Judged", "first_misfits", "first_no_number", "judged"]

_LARGEST_BLOCK = 512 << 20


@dataclass(frozen=True, slots=True)
class Judged:
    """The facts of a file, or of some of its rows."""

    form: CsvForm
    """Its form, with blocks as large as the longest row asks for."""
    rows: int
    """How many rows there are."""
    columns: Mapping[str, Judgement]
    """The facts of its columns."""
    spans: Sequence[Span] | None = field(default=None)
    """Parts that can be read side by side: None of a file that is too small for that, an empty
    list where it cannot be cut."""

    def then(self, other: Judged) -> Judged:
        """Return what is known of these rows and others that follow them."""
        columns = {name: each.then(other.columns[name]) for name, each in self.columns.items()}
        block = max(self.form.block, other.form.block)
        return Judged(replace(self.form, block=block), self.rows + other.rows, columns)


def judged(form: CsvForm, size: int, step: int, engine: Callable[[], Running]) -> Judged:
    """Return what is known of a file, of which a task reads about so many bytes.

    The engine is asked for where there is more to read than that.
    """
    if size <= step:
        (whole,) = _run(ONE_BY_ONE, form, [task_of(judge, form, size)])
        return cast("Judged", whole)
    running = engine()
    spans = _spans(form, size, step, running)
    if spans:
        tasks = [task_of(judge, part, size) for part in _parts(form, spans)]
        parts: list[Judged] = []
        try:
            parts += _run(running, form, tasks)
        except InvalidFileError:
            # Whoever reads it from its beginning says where it is that it goes wrong first.
            parts.clear()
        if [part.rows for part in parts] == [span.rows for span in spans]:
            found = reduce(Judged.then, parts)
            return replace(found, form=replace(found.form, span=None), spans=spans)
    (whole,) = _run(running, form, [task_of(judge, form, size)])
    return replace(cast("Judged", whole), spans=[])


def first_misfits(
    form: CsvForm, spans: Sequence[Span], types: Mapping[str, Type], engine: Running
) -> dict[str, Misfit]:
    """Return the first value of each column that is none of its type, where there is one."""
    found: dict[str, Misfit] = {}
    tasks = [task_of(find_misfits, part, types) for part in _parts(form, spans)]
    for part in _run(engine, form, tasks, "Looking at values"):
        found = part | found
    return found


def first_no_number(
    form: CsvForm, spans: Sequence[Span], name: str, engine: Running
) -> NoNumber | None:
    """Return the first value of a column that is no number; None where no value is one."""
    first, some = None, False
    tasks = [task_of(find_no_number, part, name) for part in _parts(form, spans)]
    with closing(_run(engine, form, tasks, "Looking at values")) as parts:
        for found, any_number in parts:
            first, some = first or found, some or any_number
            if first is not None and some:
                break
    return first if some else None


def _run(
    engine: Running, form: CsvForm, tasks: Sequence[Task], what: str = "Judging"
) -> Generator[Any, None, None]:
    """Yield what tasks that read a file report, in their order."""
    batches = engine.run(tasks, description=what, anywhere=is_url(form.path))
    with closing(batches):
        for batch in batches:
            yield parse_value(batch)


def _parts(form: CsvForm, spans: Sequence[Span]) -> list[CsvForm]:
    return [replace(form, span=span) for span in spans] if spans else [form]


def _spans(form: CsvForm, size: int, step: int, engine: Running) -> list[Span]:
    if not can_be_cut(form.encoding, form.delimiter):
        return []
    with bytes_of(form.path) as file:
        start = len(MARK) if file.read(len(MARK)) == MARK else 0
    tasks = [
        task_of(look, form, (at, min(at + step, size)), at == start)
        for at in range(start, size, step)
    ]
    return spans_of(list(_run(engine, form, tasks, "Looking for rows")), size)


@kernel
def look(form: CsvForm, place: tuple[int, int], first: bool) -> Iterator[pa.RecordBatch]:
    """Report what is known of some bytes of a file, as a `Stretch`."""
    try:
        with bytes_of(form.path) as file:
            found: Stretch = look_at(file, *place, ord(form.delimiter), first=first)
    except OSError as error:
        raise translated(form, error) from error
    yield report_batch(found)


@kernel
def judge(form: CsvForm, size: int) -> Iterator[pa.RecordBatch]:
    """Report what is known of a file of that size, or of some of its rows, as a `Judged`."""
    while True:
        names = header(form)
        columns = {name: Judgement() for name in names}
        rows, last = 0, names[-1]
        try:
            for batch in text_batches(form):
                rows += batch.num_rows
                last = batch.column(batch.num_columns - 1)[-1].as_py()
                for name, column in zip(names, batch.columns, strict=True):
                    columns[name].look(column)
        except RowTooLongError as error:
            if form.block >= _LARGEST_BLOCK:
                raise InvalidFileError(
                    form.shown, "a row is longer than 512 MiB; is a quote left open?"
                ) from error
            form = replace(form, block=form.block * 4)
            continue
        if form.span is None or form.span.end == size:
            require_closed(form, last)
        yield report_batch(Judged(form, rows, columns))
        return


@kernel
def find_misfits(form: CsvForm, types: Mapping[str, Type]) -> Iterator[pa.RecordBatch]:
    """Report the first value of each column that is none of its type, by their names."""
    found = misfits(text_batches(form), types)
    before = _before(form)
    yield report_batch({name: replace(odd, row=odd.row + before) for name, odd in found.items()})


@kernel
def find_no_number(form: CsvForm, name: str) -> Iterator[pa.RecordBatch]:
    """Report the first value of a column that is no number, and whether any value is one."""
    first, some = no_number(text_batches(form), name)
    if first is not None:
        first = replace(first, row=first.row + _before(form))
    yield report_batch((first, some))


def _before(form: CsvForm) -> int:
    """Return how many rows stand before those that are read."""
    return 0 if form.span is None else form.span.first_row - 1
