"""A review as JSON: the report as it is, geometries as GeoJSON in longitude and latitude.

{"havasu.review/v2": {"base": …, "head": …, "datasets": [{"path": "parcels", …}]}}
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from havasu_vc.geo.sketching import sketch
from havasu_vc.review.report import Review
from havasu_vc.writers.json_style import json_name

__all__ = ["format_json", "json_value"]


def format_json(review: Review) -> str:
    """Return the document, a newline at its end."""
    return json.dumps({"havasu.review/v2": json_value(review)}, indent=2, allow_nan=False) + "\n"


def json_value(value: Any) -> Any:
    """Return a part of a review as JSON has it."""
    match value:
        case bytes():
            return sketch(value, digits=9)
        case float():
            return value if abs(value) != float("inf") and value == value else None
        case tuple() | list():
            return [json_value(part) for part in value]
        case dict():
            return {str(name): json_value(part) for name, part in value.items()}
        case _ if is_dataclass(value):
            return {
                json_name(each.name): json_value(getattr(value, each.name))
                for each in fields(value)
            }
        case _:
            return value
