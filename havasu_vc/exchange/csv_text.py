"""The text of a CSV file: how it is cut into values, and what is wrong where it cannot be.

Values may hold line breaks; a row with too many or too few values is an error that names its line.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv as pacsv

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, StorageError
from havasu_vc.exchange.csv_cuts import Span
from havasu_vc.exchange.far import opened, shown
from havasu_vc.model.names import repeated
from havasu_vc.records import dataclass
from havasu_vc.store.object_systems import reporting_store_errors
from havasu_vc.store.object_urls import is_url

__all__ = [
    "CsvForm",
    "RowTooLongError",
    "bytes_of",
    "header",
    "require_closed",
    "text_batches",
    "translated",
]

_AT_ONCE = 64 << 20
_MOST_COLUMNS = 10_000
"""PyArrow takes 9 kB for each before it reads a row, which a file may name in two bytes."""


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How the text of a file is cut into values."""

    path: str
    delimiter: str
    encoding: str
    block: int
    span: Span | None = None
    """The rows that are read, if not all."""

    @property
    def shown(self) -> str:
        """How people call the file."""
        return shown(self.path)

    def text(self, *, encoding: str | None = None, errors: str = "replace") -> IO[str]:
        """Open the file as text."""
        return io.TextIOWrapper(bytes_of(self.path), encoding or self.encoding, errors, newline="")


def bytes_of(path: str) -> IO[bytes]:
    """Open a file, given by its path or its URL."""
    if not is_url(path):
        return open(path, "rb")
    with reporting_store_errors(shown(path), "read"):
        return cast("IO[bytes]", opened(path))


def require_closed(form: CsvForm, last: str | None) -> None:
    """Raise if the last value of a file begins with a quote and the file ends before the next.

    Nothing else tells that such a file was cut short: the value is read as if it were whole.
    """
    if last is None:
        return
    quoted = [start + '"' + last.replace('"', '""') for start in (form.delimiter, "\n", "\r")]
    # What comes first takes the byte order mark that some encodings begin with.
    ends = [("x" + text).encode(form.encoding, "replace") for text in quoted]
    skipped = len("x".encode(form.encoding))
    with bytes_of(form.path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(ends[0]), 0))
        tail = file.read()
    if not any(tail.endswith(end[skipped:]) for end in ends):
        return
    # A quote that stands before line breaks alone may as well close a value as begin one.
    if quoted[0].rstrip("\r\n").endswith('"') and _quotes(form) % 2 == 0:
        return
    raise InvalidFileError(
        form.shown,
        "it ends inside a quoted value",
        hints=("fetch or export it again if it was cut short, or close the quote",),
    )


def _quotes(form: CsvForm) -> int:
    """Return how many quotes a file has."""
    with form.text() as file:
        return sum(part.count('"') for part in iter(lambda: file.read(1 << 20), ""))


class RowTooLongError(Exception):
    """A row does not fit a block."""


def _text_of(form: CsvForm) -> pa.NativeFile:
    """Return what PyArrow reads a file from, or the part of it that is to be read, in UTF-8."""
    if form.span is None:
        part = opened(form.path) if is_url(form.path) else pa.input_stream(form.path)
    else:
        file = opened(form.path) if is_url(form.path) else pa.OSFile(form.path)
        part = file.get_stream(form.span.start, form.span.end - form.span.start)
    return pa.PythonFile(_WholeLineEnds(part, form.encoding), "r")


class _WholeLineEnds(io.BufferedIOBase):
    """A text in UTF-8 that is never read up to the middle of a line end of two characters.

    PyArrow passes over a line feed that begins a block where the last one ended in a carriage
    return, also if both stand within a value.
    """

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        found = codecs.lookup(encoding)
        self._decoder = None if found.name == "utf-8" else found.incrementaldecoder()
        self._held = b""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return so many bytes, or one less; fewer where the text ends."""
        most = sys.maxsize if size is None or size < 0 else size
        data = self._held
        while len(data) < most and (more := self._next(min(most - len(data), _AT_ONCE))):
            data += more
        whole = len(data) < most
        data, self._held = data[:most], data[most:]
        if not whole and most > 1 and data.endswith(b"\r"):
            data, self._held = data[:-1], b"\r" + self._held
        return data

    def _next(self, size: int) -> bytes:
        """Return what comes of some more bytes; nothing where the text ends."""
        while True:
            raw = bytes(self._stream.read(size))
            if self._decoder is None:
                return raw
            text = self._decoder.decode(raw, final=not raw).encode()
            if text or not raw:
                return text

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def close(self) -> None:
        """Close what is read from."""
        self._stream.close()
        super().close()


def text_batches(form: CsvForm) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, or of a part of it, with every value as text."""
    names = header(form)
    has_header = form.span is None or form.span.start == 0
    try:
        with pacsv.open_csv(
            _text_of(form),
            read_options=pacsv.ReadOptions(
                block_size=form.block,
                column_names=names,
                skip_rows=0,
                skip_rows_after_names=int(has_header),
            ),
            parse_options=pacsv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield batch
    except (pa.ArrowException, OSError, UnicodeError, LookupError) as error:
        raise translated(form, error) from error


def translated(form: CsvForm, error: Exception) -> Exception:
    """Return the error of ours for one of reading a file."""
    if is_url(form.path) and isinstance(error, OSError):
        with reporting_store_errors(form.shown, "read"):
            raise error
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "straddl" in text:
        return RowTooLongError()
    if "Expected" in text and "columns" in text:
        return _ragged(form)
    if "UTF8" in text or isinstance(error, UnicodeError):
        return InvalidFileError(
            form.shown,
            f"its text is not {form.encoding}",
            hints=("name its encoding with --csv-encoding, such as --csv-encoding latin-1",),
        )
    if "Empty CSV" in text:
        return InvalidFileError(form.shown, "the file is empty")
    return InvalidFileError(form.shown, f"not a readable CSV: {text}")


def _ragged(form: CsvForm) -> InvalidFileError:
    """Return the error for a row with too many or too few values, with its line."""
    with form.text() as text:
        rows = csv.reader(text, delimiter=form.delimiter)
        width = len(next(rows, []))
        line = rows.line_num + 1
        try:
            for row in rows:
                if row and len(row) != width:
                    reason = f"line {line} has {len(row)} values where the header has {width}"
                    break
                line = rows.line_num + 1
            else:
                reason = "rows differ in their number of values"
        except csv.Error as error:
            reason = f"line {line}: {error}"
    return InvalidFileError(
        form.shown, reason, hints=("values that hold the delimiter must be in double quotes",)
    )


def header(form: CsvForm) -> list[str]:
    """Return the column names in a file's first line."""
    encoding = "utf-8-sig" if form.encoding.lower().replace("_", "-") == "utf-8" else form.encoding
    try:
        with form.text(encoding=encoding, errors="strict") as text:
            names = next(csv.reader(text, delimiter=form.delimiter), [])
    except LookupError as error:
        raise InvalidArgumentError(
            f"there is no character encoding {form.encoding!r}",
            hints=("such as utf-8, latin-1 or cp1252",),
        ) from error
    except PermissionError as error:
        raise StorageError(f"{form.shown} cannot be read: permission denied") from error
    except (UnicodeError, csv.Error, OSError) as error:
        raise translated(form, error) from error
    if not any(name.strip() for name in names):
        raise InvalidFileError(
            form.shown,
            "the file is empty" if not names else "its first line names no columns",
            hints=("the first line of a CSV file holds the names of its columns",),
        )
    blank = next((number for number, name in enumerate(names, 1) if not name.strip()), None)
    if blank is not None:
        raise InvalidFileError(form.shown, f"column {blank} has no name in the first line")
    if len(names) > _MOST_COLUMNS:
        raise InvalidFileError(
            form.shown,
            f"it has {len(names):,} columns, and a CSV of at most {_MOST_COLUMNS:,} is read",
            hints=("make rows of the columns, or write it as Parquet",),
        )
    twice = repeated(names)
    if twice:
        raise InvalidFileError(form.shown, f"two columns are called {twice[0]!r}")
    return names
