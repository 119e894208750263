"""A change stream as text, JSON, JSON lines, GeoJSON, a patch or counts; commits as text and JSON.

`writer_named` gives the writer of a format; its module is imported only then.
"""

from havasu_vc.writers.protocol import (
    ChangeSummary,
    DatasetSummary,
    DiffWriter,
    JsonStyle,
    Labels,
    Reproject,
    WriterOptions,
)
from havasu_vc.writers.registry import WRITERS, DiffFormat, writer_named

__all__ = [
    "WRITERS",
    "ChangeSummary",
    "DatasetSummary",
    "DiffFormat",
    "DiffWriter",
    "JsonStyle",
    "Labels",
    "Reproject",
    "WriterOptions",
    "writer_named",
]
