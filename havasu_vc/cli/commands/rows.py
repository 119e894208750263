"""`havasu-vc head`, `cat` and `count`: rows of a dataset, printed as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from havasu_vc.cli.arguments import parse_assignment, parse_dataset_at
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option, json_option
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.requests import NAMES, Spelt, takes
from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.looking import RowsRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.library import Repo
    from havasu_vc.model.schema import Schema
    from havasu_vc.model.types import Field

__all__ = ["FORMATS", "cat", "count", "head", "parse_where", "print_rows", "rows_options"]


FORMATS = ("table", "csv", "json", "json-lines", "geojson-lines")
_R = TypeVar("_R")


def parse_where(texts: Sequence[str]) -> dict[str, str]:
    """Return the values that are asked for, by column.

    >>> parse_where(["species=kauri", "height="])
    {'species': 'kauri', 'height': ''}
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        found[name] = value if equals and not value else parse_assignment(text)[1]
    return found


def rows_options(*names: str) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """Hand a command the rows of DATASET@REV that are asked for, by options of these names."""
    spelt = {
        "columns": NAMES,
        "where": Spelt(metavar="COLUMN=VALUE", multiple=True, parse=parse_where),
    }
    beside = ("path", "revision", *(name for name in spelt if name not in names))
    return takes(
        RowsRequest, None, whole=False, without=beside, **{name: spelt[name] for name in names}
    )


def print_rows(
    invocation: Invocation,
    repo: Repo,
    place: str,
    request: RowsRequest,
    output_format: str,
    *,
    most: int | None,
) -> None:
    """Print rows of `DATASET[@REV]`, all or the first."""
    from havasu_vc.cli.query_output import write_rows

    path, revision = parse_dataset_at(place, known=repo.datasets())
    view, schema, batches = repo.choose_rows.by(replace(request, path=path, revision=revision))
    first = _first(batches, most)
    if output_format == "geojson-lines":
        with paged_output(repo.git, wanted=invocation.pager) as out:
            _write_features(view, schema, first, out)
        return
    rows = _Rows(schema, first, seen=output_format == "table")
    write_rows(rows, output_format, None, most=most or 0)


class _Rows:
    """Rows with their values as they are printed everywhere else, such as geometries in hex.

    Where a person has them `seen`, geometries are WKT, cut where it is long.
    """

    def __init__(
        self, schema: Schema, batches: Iterator[pa.RecordBatch], *, seen: bool = False
    ) -> None:
        from havasu_vc.model.arrow import arrow_schema

        self.names = schema.names
        """The columns' names."""
        self.schema = arrow_schema(schema)
        """The columns."""
        self._fields = schema.fields
        self._batches = batches
        self._seen = seen

    def rows(self, most: int | None = None) -> Iterator[Sequence[Any]]:
        """Return the rows, or the first ones."""
        return islice(self._rows(), most)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows in batches."""
        return self._batches

    def _rows(self) -> Iterator[Sequence[Any]]:
        from havasu_vc.writers.values import json_values

        for batch in self._batches:
            for start in range(0, batch.num_rows, 8192):
                piece = batch.slice(start, 8192)
                values = [
                    _shapes(piece.column(f.name), f)
                    if self._seen and f.geometry is not None
                    else json_values(piece.column(f.name), f)
                    for f in self._fields
                ]
                yield from zip(*values, strict=True)


_LONGEST_SHAPE = 60
"""Letters of WKT that a table shows."""


def _shapes(column: pa.Array, field: Field) -> list[str | None]:
    """Return geometries as a person may read them: what is beyond WKT by its type alone."""
    from havasu_vc.geo.text import short_text
    from havasu_vc.geo.wkt import format_wkt
    from havasu_vc.writers.values import canonical_wkb

    wkb = canonical_wkb(column, field)
    try:
        texts = format_wkt(wkb).to_pylist()
    except GeometryError:
        return list(short_text(wkb).to_pylist())
    most = _LONGEST_SHAPE
    return [f"{t[: most - 1]}…" if t is not None and len(t) > most else t for t in texts]


def _first(batches: Iterable[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    left = most
    for batch in batches:
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        yield batch


def _write_features(
    view: Dataset, schema: Schema, batches: Iterable[pa.RecordBatch], out: TextIO
) -> None:
    """Write each row as a Feature on a line of its own, in the system of the data."""
    import json

    from havasu_vc.geo.geojson import geometry_objects
    from havasu_vc.writers.terminal import visible_json
    from havasu_vc.writers.values import canonical_wkb, json_values

    shape = next(iter(schema.geometries), None)
    if shape is None:
        raise InvalidArgumentError(
            f"{view.path} has no geometry column among those that are printed",
            hints=("`-o json` prints rows without one",),
        )
    others = [field for field in schema.fields if field is not shape]
    for batch in batches:
        shapes = geometry_objects(canonical_wkb(batch.column(shape.name), shape))
        values = [json_values(batch.column(field.name), field) for field in others]
        for row, geometry in enumerate(shapes):
            feature = {
                "type": "Feature",
                "geometry": geometry,
                "properties": {f.name: v[row] for f, v in zip(others, values, strict=True)},
            }
            out.write(visible_json(json.dumps(feature, ensure_ascii=False)) + "\n")


@click.command("head", cls=Command)
@click.argument("place", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@click.option(
    "-n",
    "most",
    metavar="N",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="So many.",
)
@rows_options("columns", "where")
@engine_option
@format_option(*FORMATS)
@click.pass_obj
def head(
    invocation: Invocation,
    /,
    request: RowsRequest,
    place: str,
    most: int,
    output_format: str,
) -> None:
    """Print the first rows of a dataset, at HEAD or at REV, in the order they are stored in."""
    repo = invocation.open_repo()
    print_rows(invocation, repo, place, request, output_format, most=most)


@click.command("cat", cls=Command)
@click.argument("place", metavar="DATASET[@REV]", shell_complete=complete_datasets)
@rows_options("columns", "where")
@engine_option
@format_option(*FORMATS[1:])
@click.pass_obj
def cat(
    invocation: Invocation,
    /,
    request: RowsRequest,
    place: str,
    output_format: str,
) -> None:
    """Print all rows of a dataset, at HEAD or at REV, in the order they are stored in.

    As CSV, as JSON, as a JSON object a line, or as a GeoJSON feature a line; `export` writes other
    formats.
    """
    repo = invocation.open_repo()
    print_rows(invocation, repo, place, request, output_format, most=None)


@click.command("count", cls=Command)
@click.argument("places", metavar="DATASET[@REV]...", nargs=-1, shell_complete=complete_datasets)
@rows_options("where")
@engine_option
@json_option
@click.pass_obj
def count(invocation: Invocation, /, request: RowsRequest, places: tuple[str, ...]) -> None:
    """Print how many rows datasets have, at HEAD or at REV; without a name, all of HEAD.

    That is known without reading a row; with --where, those columns are read.
    """
    repo = invocation.open_repo()
    found: dict[str, int] = {}
    known = repo.datasets()
    for place in places or known:
        path, revision = parse_dataset_at(place, known=known)
        number = repo.count_rows(path, revision, where=request.where)
        found[place] = number
        if invocation.json is None:
            click.echo(str(number) if len(places) == 1 else f"{number}\t{visible(place)}")
    invocation.result("havasu.count/v1", found)
