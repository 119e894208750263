"""A connection to PostgreSQL, in one transaction: the one module that uses psycopg.

with connected(parse_address("postgresql://ana@host/gis/parcels")) as server:
server.rows("SELECT ...")
server.copy_in("t (a, b)", data)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from havasu_vc.errors import (
    HavasuError,
    InvalidFileError,
    LockedError,
    MissingProgramError,
    StorageError,
)
from havasu_vc.exchange.addresses import Address
from havasu_vc.exchange.ogr_formats import quoted

if TYPE_CHECKING:
    import psycopg

__all__ = ["Server", "connected", "literal", "see_postgis"]

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
        with self._guarded(), self._connection.cursor() as cursor:
            statement = f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
            with cursor.copy(_sql(statement)) as copy:
                return b"".join(bytes(each) for each in copy)

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
            f"{address.shown} cannot be written: {reason}",
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
