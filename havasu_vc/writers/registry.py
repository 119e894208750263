"""The diff formats by name; a format's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.writers.protocol import DiffWriter

__all__ = ["WRITERS", "writer_named"]

WRITERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "text": ("havasu_vc.writers.text", "write_text"),
        "json": ("havasu_vc.writers.json", "write_json"),
        "json-lines": ("havasu_vc.writers.json_lines", "write_json_lines"),
        "geojson": ("havasu_vc.writers.geojson", "write_geojson"),
        "quiet": ("havasu_vc.writers.feature_count", "write_quiet"),
        "feature-count": ("havasu_vc.writers.feature_count", "write_feature_count"),
        "feature-count-json": ("havasu_vc.writers.feature_count", "write_feature_count_json"),
        "stat": ("havasu_vc.writers.summaries", "write_stat"),
        "shortstat": ("havasu_vc.writers.summaries", "write_shortstat"),
        "name-only": ("havasu_vc.writers.summaries", "write_name_only"),
        "name-status": ("havasu_vc.writers.summaries", "write_name_status"),
        "patch": ("havasu_vc.writers.json", "write_patch"),
    }
)
"""Where each format's writer is: module and function."""


def writer_named(name: str) -> DiffWriter:
    """Return the writer of a format."""
    if name not in WRITERS:
        raise InvalidArgumentError(
            f"there is no diff format {name!r}", hints=(f"one of {', '.join(WRITERS)}",)
        )
    module, function = WRITERS[name]
    return cast(DiffWriter, getattr(import_module(module), function))
