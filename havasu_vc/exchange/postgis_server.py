"""A connection to PostgreSQL, in one transaction: the one module that uses psycopg.

with connected(parse_address("postgresql://ana@host/gis/parcels")) as server:
server.rows("SELECT ...")
server.copy_in("t (a, b)", data)

Values of columns as PostgreSQL reads and writes them: text, column by column, both ways.

    text_column(field, values, srid)       stored values as text
    stored_column(field, texts, srid)      text as stored values
    format_csv(columns), parse_csv(data, names)

Bytes and geometries are hexadecimal, which is taken apart as a whole. A geometry has the number of
its column's system in it there; one that has a number of its own keeps that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from havasu_vc.errors import (
    HavasuError,
    InvalidFileError,
    LockedError,
    MissingProgramError,
    StorageError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.addresses import Address
from havasu_vc.exchange.edit_values import edit_form
from havasu_vc.exchange.export_columns import is_nested
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.buffers import binary_column, byte_column, pack
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Encoding, Field, Fixed, Primitive

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "Server",
    "array_literal",
    "connected",
    "format_csv",
    "literal",
    "out_expression",
    "parse_csv",
    "see_postgis",
    "stored_column",
    "text_column",
]

_PATIENCE_SECONDS = 10
_SETTINGS = (
    "TimeZone = 'UTC'", "DateStyle = 'ISO, YMD'", "IntervalStyle = 'iso_8601'",
    "bytea_output = 'hex'", "extra_float_digits = 3", "standard_conforming_strings = on",
    "client_min_messages = error",
)  # fmt: skip


def literal(text: str) -> str:
    """Return a text as SQL has it.

    >>> literal("O'Hara")
    "'O''Hara'"
    """
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def connected(address: Address, *, snapshot: bool = False) -> Iterator[Server]:
    """Connect for a block, which is one transaction; `snapshot` sees the same all the while.

    Raises `StorageError` where there is no server, or none that lets us in.
    """
    psycopg = _module()
    try:
        connection = psycopg.connect(
            address.connection,
            connect_timeout=_PATIENCE_SECONDS,
            application_name="havasu-vc",
            client_encoding="UTF8",
        )
    except (psycopg.Error, ValueError, UnicodeError) as error:
        raise StorageError(
            f"{address.shown} cannot be reached: {_reason(error)}",
            hints=("a password comes from ~/.pgpass, PGPASSWORD or a service file",),
        ) from None
    try:
        if snapshot:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        server = Server(address, connection)
        for setting in _SETTINGS:
            server.run(f"SET {setting}")
        connection.commit()
        yield server
        server.commit()
    except psycopg.Error as error:
        raise _translated(address, error) from error
    finally:
        connection.close()


class Server:
    """An open connection."""

    def __init__(self, address: Address, connection: psycopg.Connection[Any]) -> None:
        self.address = address
        """Where it goes."""
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] | None = None) -> int:
        """Run a statement; return how many rows it touched."""
        with self._guarded():
            return self._connection.execute(_sql(statement), values).rowcount

    def rows(self, query: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._guarded():
            return self._connection.execute(_sql(query), values).fetchall()

    def one(self, query: str, values: Sequence[Any] | None = None) -> Any:
        """Return the only value of the first row; None where there is none."""
        found = self.rows(query, values)
        return found[0][0] if found else None

    def copy_out(self, query: str) -> bytes:
        """Return rows of a query as CSV, in which null is nothing and text is quoted."""
        return b"".join(self.copied_out(query))

    def copied_out(self, query: str, size: int = 1 << 24) -> Iterator[bytes]:
        """Yield rows of a query as such CSV, whole ones, about so many bytes at once."""
        with self._guarded(), self._connection.cursor() as cursor:
            statement = f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
            with cursor.copy(_sql(statement)) as copy:
                rows, held = list[bytes](), 0
                for row in copy:  # the server sends each in a message of its own
                    rows.append(bytes(row))
                    held += len(row)
                    if held >= size:
                        yield b"".join(rows)
                        rows, held = [], 0
                if rows:
                    yield b"".join(rows)

    def copy_in(self, target: str, data: bytes) -> None:
        """Write rows of such CSV to a table's columns."""
        with self._guarded(), self._connection.cursor() as cursor:
            with cursor.copy(_sql(f"COPY {target} FROM STDIN (FORMAT csv)")) as copy:
                copy.write(data)

    def tries(self, statement: str) -> bool:
        """Run what may find a lock taken, and leaves the transaction as it was then."""
        psycopg = _module()
        try:
            with self._connection.transaction():
                self._connection.execute(_sql(statement))
        except psycopg.errors.LockNotAvailable:
            return False
        except psycopg.Error as error:
            raise _translated(self.address, error) from error
        return True

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun."""
        return bool(self._connection.info.transaction_status != 0)

    def commit(self) -> None:
        """Make what was done durable."""
        with self._guarded():
            self._connection.commit()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        psycopg = _module()
        try:
            yield
        except psycopg.Error as error:
            raise _translated(self.address, error) from error


def see_postgis(server: Server) -> bool:
    """Have the types and functions of PostGIS found, wherever it is; return whether it is."""
    place = server.one(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'postgis'"
    )
    path = ["pg_catalog", *([quoted(place)] if place else [])]
    server.run(f"SET LOCAL search_path = {', '.join(path)}")
    return place is not None


def _translated(address: Address, error: psycopg.Error) -> HavasuError:
    """Return what a person is told of an error."""
    errors, reason = _module().errors, _reason(error)
    busy = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
    if isinstance(error, busy):
        return LockedError(
            f"another program is writing to {address.shown}; nothing is changed",
            hints=("save or drop the edits there, then try again",),
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StorageError(
            f"{address.shown} cannot be used: {reason}",
            hints=("its owner grants the right, or names another user in the address",),
        )
    if isinstance(error, errors.OperationalError) and not isinstance(error, errors.DataError):
        return StorageError(f"{address.shown}: {reason}")
    return InvalidFileError(address.shown, reason)


def _reason(error: BaseException) -> str:
    diagnosis = getattr(error, "diag", None)
    text = getattr(diagnosis, "message_primary", None) or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__


def _sql(text: str) -> Any:
    # Psycopg's types ask for literals; what stands here is quoted by `quoted` and `literal`.
    return text.encode()


def _module() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise MissingProgramError(
            "psycopg is not installed", hints=("pip install 'havasu-vc[postgis]'",)
        ) from error
    return psycopg


def text_column(field: Field, values: pa.Array, srid: int) -> pa.Array:
    """Return values in their stored type as PostgreSQL reads them."""
    if field.geometry is not None:
        wkb, own = geometry_bytes.to_canonical(values, field.geometry.encoding)
        numbers = np.zeros(len(values), np.int32) if own is None else own
        numbers = np.where(numbers == 0, np.int32(srid), numbers)
        return _hexadecimal(geometry_bytes.from_canonical(wkb, numbers, "ewkb"))
    if is_nested(field) or field.type is Primitive.UUID:
        return pc.cast(edit_form(field).encode(values), pa.string())
    if field.type is Primitive.BINARY or isinstance(field.type, Fixed):
        return pc.binary_join_element_wise("\\x", _hexadecimal(pc.cast(values, pa.binary())), "")
    if field.type is Primitive.TIMESTAMPTZ:
        text = pc.cast(pc.cast(values, pa.timestamp("us")), pa.string())
        return pc.binary_join_element_wise(text, "Z", "")
    text = pc.cast(values, pa.string())
    if field.type is Primitive.STRING and pc.any(pc.match_substring(text, "\x00")).as_py():
        raise UnsupportedTypeError(
            field.name, "a text has a NUL in it, which PostgreSQL does not keep"
        )
    return text


def out_expression(field: Field, column: str) -> str:
    """Return the SQL of a column whose text `stored_column` reads."""
    if field.geometry is not None:
        return f"encode(ST_AsEWKB({column}::geometry), 'hex')"
    if (field.type is Primitive.BINARY or isinstance(field.type, Fixed)) and not is_nested(field):
        return f"encode({column}, 'hex')"
    return column


def stored_column(field: Field, texts: pa.Array, srid: int) -> pa.Array:
    """Return values in their stored type; raises `UnsupportedTypeError` for what is none."""
    try:
        return _stored(field, texts, srid)
    except (ValueError, TypeError, OverflowError, HavasuError) as error:
        if isinstance(error, UnsupportedTypeError):
            raise
        raise UnsupportedTypeError(
            field.name,
            f"a value is not a {field.type}: {str(error).splitlines()[0]}",
            hints=("mend it in the table",),
        ) from error


def _stored(field: Field, texts: pa.Array, srid: int) -> pa.Array:
    if field.geometry is not None:
        wkb, own = geometry_bytes.to_canonical(_bytes(texts), Encoding.EWKB)
        if own is not None:
            own = np.where(own == srid, np.int32(0), own)
        return geometry_bytes.from_canonical(
            wkb, own, field.geometry.encoding, drop_srids=field.geometry.encoding != Encoding.EWKB
        )
    if is_nested(field) or field.type is Primitive.UUID:
        return edit_form(field).decode(texts)
    if field.type is Primitive.BINARY or isinstance(field.type, Fixed):
        return pc.cast(_bytes(texts), arrow_type(field.type))
    if field.type is Primitive.BOOLEAN:
        return pc.equal(pc.utf8_slice_codeunits(texts, 0, 1), "t")
    if field.type is Primitive.TIMESTAMPTZ:
        texts = pc.cast(pc.replace_substring_regex(texts, r"\+00$", ""), pa.timestamp("us"))
    elif field.type is Primitive.TIME:
        return edit_form(field).decode(texts)
    return pc.cast(texts, arrow_type(field.type))


def _hexadecimal(values: pa.Array) -> pa.Array:
    column = pack(byte_column(values))
    digits = np.frombuffer(column.data.tobytes().hex().encode(), np.uint8)
    packed = binary_column(digits, column.lengths * 2, column.rows, column.size)
    return pc.cast(packed, pa.string())


def _bytes(texts: pa.Array) -> pa.Array:
    column = pack(byte_column(pc.cast(texts, pa.binary())))
    data = np.frombuffer(bytes.fromhex(column.data.tobytes().decode("ascii")), np.uint8)
    return binary_column(data, column.lengths // 2, column.rows, column.size)


def array_literal(texts: pa.Array) -> str:
    r"""Return texts as PostgreSQL writes an array of them.

    >>> array_literal(pa.array(["a", 'b"', None]))
    '{"a","b\\"",NULL}'
    """
    escaped = pc.replace_substring_regex(pc.cast(texts, pa.string()), r'(["\\])', r"\\\1")
    listed = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    return "{" + ",".join(listed.to_pylist()) + "}"


def format_csv(columns: Sequence[pa.Array]) -> bytes:
    """Return columns of text as CSV in which null is nothing and text is quoted."""
    names = [str(place) for place in range(len(columns))]
    # The one line of a null alone would be an empty one, and `\.` alone an end.
    out = BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.RecordBatch.from_arrays(list(columns), names), out, options)
    return out.getvalue()


def parse_csv(data: bytes, count: int) -> list[pa.Array]:
    """Return the columns of such CSV."""
    if not data:
        return [pa.array([], pa.string())] * count
    names = [str(place) for place in range(count)]
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(data) + 1
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    found: list[Any] = []
    for column in table.columns:
        whole = column.combine_chunks()
        found.append(
            pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        )
    return found
