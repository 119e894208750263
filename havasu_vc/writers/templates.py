"""A page of HTML with a diff in it, by a template such as Kart has them.

A template is HTML with `${title}` and, in an element of JSON, `${geojson_data}`: an object with a
FeatureCollection for each dataset, as `-o geojson` prints one. Without a template the page is one
of our own, which draws and lists what changed.
"""

from __future__ import annotations

import html
import string
from collections.abc import Iterable
from io import TextIOBase
from pathlib import Path
from typing import TextIO, cast

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.model.diffs import DatasetDiff, count_meta
from havasu_vc.writers.geojson import write_features
from havasu_vc.writers.json_style import STRICT_LAYOUTS
from havasu_vc.writers.protocol import (
    ChangeSummary,
    DatasetSummary,
    JsonStyle,
    WriterOptions,
)

__all__ = ["write_page"]

PAGE = Path(__file__).with_name("diff-page.html")
_HERE = "\x00"
_ESCAPES = str.maketrans({"/": r"\u002f", "<": r"\u003c", ">": r"\u003e"})


class _Escaping(TextIOBase):
    """A stream of JSON that may stand in an element of a page: it cannot end that."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.translate(_ESCAPES))


def write_page(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print a page that has what differs."""
    before, after = _halves(options.template or PAGE, options.title)
    stream, datasets = cast(TextIO, _Escaping(out)), {}
    layout = STRICT_LAYOUTS[JsonStyle.COMPACT]
    out.write(before)
    stream.write("{")
    for place, diff in enumerate(diffs):
        stream.write(", " * bool(place) + layout.dumps(diff.path) + ": ")
        counts = write_features(diff, stream, options)
        summary = DatasetSummary(count_meta(diff.meta), counts)
        if summary.has_changes:
            datasets[diff.path] = summary
    stream.write("}")
    out.write(after)
    return ChangeSummary(datasets)


def _halves(template: Path, title: str) -> tuple[str, str]:
    """Return what stands before the data and what after it."""
    try:
        text = template.read_text("utf-8")
        filled = string.Template(text).substitute(title=html.escape(title), geojson_data=_HERE)
    except OSError as error:
        raise StorageError(f"{template} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{template} is not UTF-8 text") from error
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(
            f"{template} is no template: {error}",
            hints=("it may hold ${title} and ${geojson_data}, and $$ for a dollar",),
        ) from error
    before, mark, after = filled.partition(_HERE)
    if not mark or _HERE in after:
        raise InvalidArgumentError(
            f"{template} is no template: it has no place for the data, or two"
        )
    return before, after
