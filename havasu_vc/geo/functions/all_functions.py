"""All functions by name, in the order of the reference page."""

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.functions import encodings, making, measures, rasters, relations
from havasu_vc.geo.functions.arguments import Array
from havasu_vc.geo.functions.catalogue import SqlFunction

__all__ = ["FUNCTIONS", "GROUPS", "compute", "function_named"]

GROUPS: Final[Mapping[str, tuple[SqlFunction, ...]]] = MappingProxyType(
    {
        "How two geometries lie": relations.FUNCTIONS,
        "Measures of a geometry": measures.FUNCTIONS,
        "Geometries from geometries": making.FUNCTIONS,
        "Reading and writing geometries": encodings.FUNCTIONS,
        "Rasters": rasters.FUNCTIONS,
    }
)
"""The functions by what they are about."""

FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {one.name: one for group in GROUPS.values() for one in group}
)
"""The functions by name."""

_BY_LOWER_NAME: Final = {name.lower(): name for name in FUNCTIONS}


def function_named(name: str) -> SqlFunction:
    """Return the function of a name, whatever its case."""
    found = _BY_LOWER_NAME.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), _BY_LOWER_NAME, 3)
        raise InvalidArgumentError(
            f"there is no function {name!r}",
            hints=tuple(f"did you mean {_BY_LOWER_NAME[one]}?" for one in near),
        )
    return FUNCTIONS[found]


def compute(name: str, columns: Sequence[Array], *, lenient: bool) -> Array:
    """Compute the function of a name: what workers elsewhere call."""
    return FUNCTIONS[name](*columns, lenient=lenient)
