"""The diff formats by name; a format's module is imported when it is asked for.

`html` and `markdown` are printed by the review package, which stands above this one: their
rows name it as text, and it is loaded when one of them is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.writers.protocol import DiffWriter

__all__ = ["WRITERS", "DiffFormat", "writer_named"]


@dataclass(frozen=True, slots=True)
class DiffFormat:
    """A format of diffs: where its writer is, and how commands offer it."""

    module: str
    """The module of the writer."""
    function: str
    """Its name there."""
    help: str
    """Its output, in one sentence for people."""
    chosen_by: str | None = "-o"
    """`-o`, an option of its own, or None where no command offers it by name."""
    styles: bool = False
    """Whether `-o` takes a layout of JSON after the name, as `json:compact`."""
    files: bool = False
    """Whether it tells of files beside datasets."""
    reviews: bool = False
    """Whether it prints a review, for which it takes `ReviewOptions`."""
    terminal: bool = True
    """Whether people read it on a terminal."""
    moves: bool = False
    """Whether it tells a dataset that was moved as one, and not as removed and added."""


WRITERS: Mapping[str, DiffFormat] = MappingProxyType(
    {
        "text": DiffFormat(
            "havasu_vc.writers.text", "write_text", "Rows for people.", files=True, moves=True
        ),
        "json": DiffFormat(
            "havasu_vc.writers.json",
            "write_json",
            "One object in Kart's form.",
            styles=True,
            files=True,
        ),
        "json-lines": DiffFormat(
            "havasu_vc.writers.json", "write_json_lines", "A line for each row.", files=True
        ),
        "geojson": DiffFormat(
            "havasu_vc.writers.geojson",
            "write_geojson",
            "A feature for each version of a row.",
            styles=True,
        ),
        "html": DiffFormat(
            "havasu_vc.review",
            "write_html",
            "One page with a map of all changed rows.",
            reviews=True,
            terminal=False,
        ),
        "markdown": DiffFormat(
            "havasu_vc.review",
            "write_markdown",
            "A summary and rows worth seeing, as a comment on a host shows them.",
            reviews=True,
        ),
        "quiet": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_quiet",
            "Nothing; the exit code says whether anything differs.",
        ),
        "feature-count": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_feature_count",
            "How many rows of each dataset differ.",
        ),
        "feature-count-json": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_feature_count_json",
            "The same as JSON.",
            chosen_by=None,
        ),
        "stat": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_stat",
            "Print how many rows of each dataset differ.",
            chosen_by="--stat",
            files=True,
            moves=True,
        ),
        "shortstat": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_shortstat",
            "Print how many differ in all.",
            chosen_by="--shortstat",
            files=True,
            moves=True,
        ),
        "name-only": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_name_only",
            "Print the datasets that differ.",
            chosen_by="--name-only",
            files=True,
            moves=True,
        ),
        "name-status": DiffFormat(
            "havasu_vc.writers.summaries",
            "write_name_status",
            "Print them after A, D, M or R: added, deleted, modified, renamed.",
            chosen_by="--name-status",
            files=True,
            moves=True,
        ),
        "page": DiffFormat(
            "havasu_vc.writers.templates",
            "write_page",
            "A page by a template.",
            chosen_by=None,
            terminal=False,
        ),
        "patch": DiffFormat(
            "havasu_vc.writers.json",
            "write_patch",
            "A patch in Kart's form, which `apply` takes.",
            chosen_by=None,
        ),
    }
)
"""All formats, in the order in which help lists them."""


def writer_named(name: str) -> DiffWriter:
    """Return the writer of a format."""
    if name not in WRITERS:
        raise InvalidArgumentError(
            f"there is no diff format {name!r}", hints=(f"one of {', '.join(WRITERS)}",)
        )
    known = WRITERS[name]
    return cast(DiffWriter, getattr(import_module(known.module), known.function))
