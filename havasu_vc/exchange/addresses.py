"""Addresses of schemas in databases, as Kart has them: `postgresql://USER@HOST/DATABASE/SCHEMA`.

The name of a schema stands behind that of the database. Whatever libpq takes may be in it, and a
password need not, as libpq finds it in `~/.pgpass`, `PGPASSWORD` or a service. None is ever shown.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import PurePath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass

__all__ = [
    "Address",
    "is_address",
    "names_no_schema",
    "parse_address",
    "parse_table_address",
    "path_of_url",
    "same_schema",
    "schema_address",
    "short_place",
    "shown_place",
    "table_place",
]

_FORM = "postgresql://USER@HOST/DATABASE/SCHEMA"
_SECRET = ("password", "sslpassword")


@dataclass(frozen=True, slots=True)
class Address:
    """A schema of a database on a server."""

    connection: str
    """The address that libpq connects to."""
    schema: str
    """The schema."""
    shown: str
    """The whole, without a password."""
    text: str
    """The whole, as it was given."""
    has_password: bool = False
    """Whether it has a password in it."""


def is_address(text: str) -> bool:
    """Whether a text is meant as an address."""
    return text.lower().startswith(("postgresql://", "postgres://"))


def shown_place(text: str) -> str:
    """Return a place as people are told: an address without its password.

    >>> shown_place("postgresql://ana:secret@host/gis/parcels"), shown_place("roads.gpkg")
    ('postgresql://ana@host/gis/parcels', 'roads.gpkg')
    """
    if names_no_schema(text):
        return parse_address(text, schema="public").shown
    return parse_address(text).shown if is_address(text) else text


def names_no_schema(text: str) -> bool:
    """Whether an address names a database alone, whose tables are of every schema in it.

    >>> names_no_schema("postgresql://ana@host/gis?a=b"), names_no_schema("postgresql://host/gis/x")
    (True, False)
    """
    if not is_address(text):
        return False
    with suppress(ValueError):
        path = urlsplit(text).path.strip("/")
        return bool(path) and "/" not in path
    return False


def schema_address(text: str, schema: str) -> str:
    """Return the address of a schema of a database.

    >>> schema_address("postgresql://ana@host/gis?a=b", "my maps")
    'postgresql://ana@host/gis/my%20maps?a=b'
    """
    place, mark, asked = text.partition("?")
    return f"{place.rstrip('/')}/{quote(schema, safe='')}{mark}{asked}"


def path_of_url(text: str) -> str:
    """Return the path that a `file:` URL names, and any other text as it is.

    >>> path_of_url("file:///data/my%20roads.csv"), path_of_url("roads.csv")
    ('/data/my roads.csv', 'roads.csv')
    """
    if not text.lower().startswith("file:/"):
        return text
    place, host = unquote(text[len("file:") :]), ""
    if place.startswith("//"):
        host, slash, path = place[2:].partition("/")
        place = slash + path
    if host.lower() not in ("", "localhost"):
        raise InvalidArgumentError(
            f"{text} is a file of another machine, {host}", hints=("get it as a file first",)
        )
    return place[1:] if re.match("/[A-Za-z]:", place) and os.name == "nt" else place


def short_place(text: str) -> str:
    """Return the last name of a place: of a file, of a schema, or of a database.

    >>> short_place("postgresql://ana@host/gis/parcels?a=b"), short_place("a/roads.gpkg")
    ('parcels', 'roads.gpkg')
    """
    if names_no_schema(text):
        return unquote(urlsplit(text).path.strip("/"))
    return parse_address(text).schema if is_address(text) else PurePath(text).name


def parse_table_address(text: str) -> tuple[str, str | None]:
    """Return the address of a schema and the table behind it, which Kart has as its third name.

    >>> parse_table_address("postgresql://ana@host/gis/parcels/lots?a=b")
    ('postgresql://ana@host/gis/parcels?a=b', 'lots')
    >>> parse_table_address("postgresql://ana@host/gis/parcels")
    ('postgresql://ana@host/gis/parcels', None)
    >>> parse_table_address("data/2026/parcels.gpkg")
    ('data/2026/parcels.gpkg', None)
    """
    if not is_address(text):
        return text, None
    try:
        parts = urlsplit(text)
    except ValueError:
        return text, None  # `parse_address` says why
    path = parts.path.strip("/").split("/")
    if len(path) != 3 or not all(path):
        return text, None
    return urlunsplit(parts._replace(path="/" + "/".join(path[:2]))), unquote(path[2])


def same_schema(one: Address, other: Address) -> bool:
    """Whether two addresses name one schema, whoever connects to it."""
    places = []
    for each in (one, other):
        parts = urlsplit(each.connection)
        asked = sorted(pair for pair in parse_qsl(parts.query) if pair[0] in ("host", "port"))
        places.append((parts.hostname, parts.port or 5432, parts.path, asked, each.schema))
    return places[0] == places[1]


def parse_address(text: str, *, schema: str | None = None) -> Address:
    """Return what an address names; one of a database alone has the `schema` that is given.

    >>> parse_address("postgresql://ana:secret@host:5433/gis/parcels?sslmode=require").shown
    'postgresql://ana@host:5433/gis/parcels?sslmode=require'
    """
    try:
        parts = urlsplit(text)
        path = [unquote(each) for each in parts.path.strip("/").split("/")]
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise InvalidArgumentError("that is no address of a database", hints=(_FORM,)) from error
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    shown = urlunsplit(
        (
            "postgresql",
            f"{name}{at}{host}",
            "/" + "/".join(quote(each, safe="") for each in path),
            urlencode([each for each in asked if each[0] not in _SECRET], safe="/"),
            "",
        )
    )
    if not parts.netloc:
        shown = shown.replace("postgresql:/", "postgresql:///", 1).replace("////", "///")
    if len(path) != (2 if schema is None else 1) or not all(path):
        raise InvalidArgumentError(
            f"{shown} does not name a database and a schema in it", hints=(_FORM,)
        )
    schema = path[1] if schema is None else schema
    if "\x00" in "".join(path) or len(schema.encode()) > 63 or schema.startswith("pg_"):
        raise InvalidArgumentError(f"{schema!r} cannot be the name of a schema", hints=(_FORM,))
    netloc = f"//{parts.netloc}/{quote(path[0], safe='')}"
    connection = f"postgresql:{netloc}" + (f"?{parts.query}" if parts.query else "")
    secret = bool(colon) or any(key in _SECRET for key, _ in asked)
    return Address(connection, schema, shown, text, secret)


def table_place(text: str, table: str) -> str:
    """Return where a table is as Kart says it: on a server by its address, without a user.

    >>> table_place("postgresql://ana:secret@host/gis/maps", "roads")
    'postgresql://host/gis/maps/roads'
    >>> table_place("postgresql://ana@host/gis", "maps.roads")
    'postgresql://host/gis/maps/roads'
    >>> table_place("data/roads.gpkg", "roads")
    'roads.gpkg:roads'
    """
    if not is_address(text):
        return f"{short_place(text)}:{table}"
    parts = urlsplit(text)
    table = table.replace(".", "/", 1) if names_no_schema(text) else table
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/{table}"
